"""Stable-Baselines3's PPO as generator: trained as the lean one where that changes nothing."""

import copy
import warnings

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import (
    BaseCallback,
    CallbackList,
    CheckpointCallback,
    EveryNTimesteps,
    StopTrainingOnMaxEpisodes,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import DictCounter

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.algorithms.adversarial.generator import RolloutRewardGenerator
from imitbench.rl.ppo import PPO
from imitbench.rl.stable_ppo import StablePPO, train_as_lean
from imitbench.util.logger import configure

from .conftest import make_trainer, make_venv

Stable = stable_baselines3.PPO
_PAIR = spaces.Box(-1, 1, (2,), np.float32)


def lean_trainer(algorithm=GAIL, **options):
    return make_trainer(algorithm, ppo=Stable, lean=True, **options)


def started_alike(trainer):
    """Seeds what training draws from; wrappers have reset the environments differently often."""
    th.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002 (PPO draws from the global generator)
    trainer.venv.seed(5)
    trainer.gen_algo._last_obs = None
    return trainer


def assert_equal_policies(one, two):
    for left, right in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        assert th.equal(left, right)


def assert_close_policies(one, two):
    for left, right in zip(one.policy.parameters(), two.policy.parameters(), strict=True):
        th.testing.assert_close(left, right, rtol=1e-3, atol=1e-4)


def test_results_are_those_of_the_lean_ppo(algorithm):
    for venv in ("seals/CartPole-v0", "Pendulum-v1"):
        lean = make_trainer(algorithm, make_venv(venv))
        stable = lean_trainer(algorithm, venv=make_venv(venv))
        started_alike(lean).train(360)
        started_alike(stable).train(360)
        assert_equal_policies(lean, stable)
        for left, right in zip(*(each._reward_net.parameters() for each in (lean, stable)),
                               strict=True):  # fmt: skip
            assert th.equal(left, right)


def test_results_are_those_of_stable_baselines3_up_to_rounding(algorithm):
    trainers = [make_trainer(algorithm, ppo=Stable, lean=lean) for lean in (True, False)]
    for trainer in trainers:
        started_alike(trainer).train_gen()
    assert_close_policies(*trainers)


def test_the_log_has_the_same_columns(algorithm, tmp_path):
    headers = []
    for lean in (True, False):
        folder = tmp_path / str(lean)
        trainer = make_trainer(
            algorithm,
            make_venv("Pendulum-v1"),
            ppo=Stable,
            ppo_options={"n_steps": 200},
            custom_logger=configure(folder, ["csv"]),
            lean=lean,
        )
        trainer.train(800)
        trainer.logger.close()
        header = (folder / "progress.csv").read_text().splitlines()[0]
        headers.append(sorted(header.split(",")))
    assert headers[0] == headers[1]
    assert "mean/gen/rollout/ep_rew_wrapped_mean" in headers[0]


def test_the_given_object_is_trained():
    venv = make_venv()
    learner = Stable("MlpPolicy", venv, n_steps=60, batch_size=40, n_epochs=2, seed=0, device="cpu")
    policy, before = learner.policy, copy.deepcopy(learner.policy.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer = lean_trainer(venv=venv, gen_algo=learner)
        trainer.train(240)
    assert trainer.gen_algo is learner
    assert trainer.policy is learner.policy is policy
    assert isinstance(learner, Stable)
    assert learner.num_timesteps == 240
    assert any(not th.equal(before[name], now) for name, now in policy.state_dict().items())


def test_an_earlier_training_goes_on():
    """Optimizer and counters are those of the object."""
    learners = []
    for lean in (True, False):
        venv = make_venv()
        learner = Stable(
            "MlpPolicy", venv, n_steps=60, batch_size=40, n_epochs=2, seed=0, device="cpu"
        )
        learner.learn(120)
        trainer = make_trainer(GAIL, venv, gen_algo=learner, lean=lean)
        started_alike(trainer).train(240)
        learners.append(learner)
    assert [each.num_timesteps for each in learners] == [360, 360]
    assert learners[0]._n_updates == learners[1]._n_updates == 6
    assert_close_policies(*learners)


def test_saved_models_are_stable_baselines3_s(tmp_path):
    trainer = lean_trainer()
    trainer.train(120)
    trainer.gen_algo.save(tmp_path / "model.zip")
    loaded = Stable.load(tmp_path / "model.zip", env=make_venv(), device="cpu")
    assert type(loaded) is Stable
    assert_equal_policies(loaded, trainer.gen_algo)
    loaded.learn(120)
    trainer = lean_trainer(gen_algo=loaded, venv=loaded.get_env())
    trainer.train(120)
    assert type(loaded) is StablePPO


def test_learning_goes_on_with_learned_rewards_until_another_environment_is_set():
    trainer = lean_trainer()
    learner = trainer.gen_algo
    trainer.train(120)
    learner.learn(120)
    learnt = trainer.reward_train.predict_processed(
        *(getattr(learner.last_rollout, name).reshape(120, *shape)
          for name, shape in (("obs", (4,)), ("acts", ()), ("next_obs", (4,)), ("dones", ()))),
    )  # fmt: skip
    np.testing.assert_allclose(learner.last_rollout.rews.ravel(), learnt, rtol=1e-5)
    learner.set_env(make_venv())
    learner.learn(120)
    np.testing.assert_array_equal(learner.last_rollout.rews, learner.last_rollout.env_rews)


def test_it_can_be_switched_off():
    venv = make_venv()
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer = make_trainer(GAIL, venv, ppo=Stable, lean=False)
    assert type(trainer.gen_algo) is Stable
    assert not isinstance(trainer.generator, RolloutRewardGenerator)
    with pytest.raises(ValueError, match="state: its generator computed rewards in another way"):
        trainer.load_state_dict(lean_trainer().state_dict())
    with pytest.raises(ValueError, match="state: its generator computed rewards in another way"):
        lean_trainer().load_state_dict(trainer.state_dict())


class OwnPPO(Stable):
    pass


class OwnPolicy(ActorCriticPolicy):
    def forward(self, obs, deterministic=False):
        return super().forward(obs, deterministic)


class OwnBuffer(RolloutBuffer):
    pass


def frozen(learner):
    learner.policy.action_net.bias.requires_grad_(False)


def hooked(learner):
    learner.policy.action_net.register_forward_hook(lambda *_: None)


def replaced(learner):
    original = learner.train
    learner.train = lambda: original()


def plainly(learner):
    pass


@pytest.mark.parametrize(
    ("cls", "options", "change", "reason"),
    [
        (OwnPPO, {}, plainly, "OwnPPO is a class of its own, not derived from imitbench.rl.ppo"),
        (Stable, {"policy": OwnPolicy}, plainly, "OwnPolicy is not a plain ActorCriticPolicy"),
        (Stable, {"use_sde": True}, plainly, "exploration depends on the state"),
        (Stable, {"rollout_buffer_class": OwnBuffer}, plainly, "rollout buffer is a OwnBuffer"),
        (
            Stable,
            {"policy_kwargs": {"optimizer_class": th.optim.RMSprop}},
            plainly,
            "its optimizer is RMSprop",
        ),
        (
            Stable,
            {"policy_kwargs": {"activation_fn": th.nn.ELU}},
            plainly,
            "not all linear layers followed by Tanh or ReLU",
        ),
        (Stable, {}, frozen, "some of its parameters are frozen"),
        (Stable, {}, hooked, "its policy or optimizer has hooks"),
        (Stable, {}, replaced, "the object has its own train"),
    ],
)
def test_other_settings_train_as_before_with_one_hint(cls, options, change, reason):
    venv = make_venv("Pendulum-v1")
    small = {"policy": "MlpPolicy", "n_steps": 60, "batch_size": 40, "n_epochs": 1, "seed": 0}
    learner = cls(env=venv, device="cpu", **small | options)
    change(learner)
    with pytest.warns(UserWarning, match=f"gen_algo: .*{reason}") as caught:
        trainer = lean_trainer(venv=venv, gen_algo=learner)
        trainer.train(240)
    hints = [each for each in caught if "imitbench.rl.ppo.PPO" in str(each.message)]
    assert len(hints) == 1
    assert hints[0].filename.endswith("conftest.py")
    assert type(learner) is cls
    assert learner.num_timesteps == 240


def test_settings_of_updates_do_not_prevent_it():
    options = {
        "target_kl": 0.01, "clip_range_vf": 0.3, "ent_coef": 0.01, "normalize_advantage": False,
        "learning_rate": lambda left: 1e-3 * left, "clip_range": lambda left: 0.2 * left,
        "policy_kwargs": {"net_arch": {"pi": [8], "vf": [16, 4]}, "activation_fn": th.nn.ReLU},
    }  # fmt: skip
    trainers = [
        make_trainer(GAIL, ppo=Stable, ppo_options=options, lean=lean) for lean in (True, False)
    ]
    for trainer in trainers:
        started_alike(trainer).train_gen(240)
        assert trainer.gen_algo._n_updates >= 2
    assert type(trainers[0].gen_algo) is StablePPO
    assert_close_policies(*trainers)


class Sees(BaseCallback):
    """Keeps what it reads at each step."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.values, self.rewards, self.own, self.ends = [], [], [], 0
        self.stop_after = stop_after

    def _on_step(self):
        self.values.append(self.locals["values"].shape)
        self.rewards.extend(self.locals["rewards"].tolist())
        self.own.extend(info["original_env_rew"] for info in self.locals["infos"])
        return self.n_calls != self.stop_after

    def _on_rollout_end(self):
        self.ends += 1


def test_own_callbacks_see_the_steps_of_stable_baselines3():
    seen, trainers = [], []
    for lean in (True, False):
        trainer = started_alike(make_trainer(GAIL, ppo=Stable, lean=lean))
        callback = Sees()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            for _ in range(2):
                trainer.train_gen(learn_kwargs={"callback": EveryNTimesteps(2, callback)})
        assert [str(each.message).partition(".")[0] for each in caught] == [
            "Stable-Baselines3's own loop collects this PPO's rollouts, because the callback Sees "
            "may read the values of each step"
        ] * lean
        seen.append(callback)
        trainers.append(trainer)
    assert seen[0].values == seen[1].values == [(2, 1)] * 120
    assert seen[0].own == seen[1].own
    np.testing.assert_allclose(seen[0].rewards, seen[1].rewards, rtol=1e-3)
    assert_close_policies(*trainers)


def test_functions_are_called_at_each_step():
    calls = []
    trainer = lean_trainer()
    with pytest.warns(UserWarning, match="a function, given as callback, may read"):
        trainer.train_gen(learn_kwargs={"callback": lambda own, _: calls.append(own) or True})
    assert len(calls) == 60
    assert calls[0]["values"].shape == (2, 1)


def test_callbacks_of_stable_baselines3_are_called_on_the_lean_path(tmp_path):
    trainer = lean_trainer()
    saving = CheckpointCallback(30, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        trainer.train_gen(learn_kwargs={"callback": CallbackList([saving])})
    assert sorted(each.name for each in tmp_path.iterdir()) == [
        "rl_model_120_steps.zip",
        "rl_model_60_steps.zip",
    ]


@pytest.mark.parametrize("stop", [StopTrainingOnMaxEpisodes(1), Sees(stop_after=70)])
@pytest.mark.filterwarnings("ignore:Stable-Baselines3's own loop")
def test_a_callback_can_stop_a_rollout_and_training_goes_on(stop):
    """Episodes have 500 steps: the callbacks stop in the first round, and in the tenth."""
    trainer = lean_trainer()
    for _ in range(10):
        trainer.train_gen(learn_kwargs={"callback": stop})
    trainer.train(120 * 10)
    assert trainer._horizon == 500


def test_it_is_reported_once_if_settings_change_later():
    trainer = lean_trainer()
    trainer.train(120)
    hooked(trainer.gen_algo)
    frozen(trainer.gen_algo)
    with pytest.warns(UserWarning, match="because some of its parameters are frozen") as caught:
        trainer.train(240)
    assert len(caught) == 1
    assert trainer.gen_algo.num_timesteps == 360


def test_rewards_that_are_not_finite_are_refused_at_single_steps():
    trainer = lean_trainer()
    trainer.gen_algo.reward_fn = lambda *_: np.full(2, np.nan)
    with (
        pytest.warns(UserWarning, match="a function, given as callback"),
        pytest.raises(ValueError, match=r"reward_fn returned .*; expected 2 rewards that are fin"),
    ):
        trainer.train_gen(learn_kwargs={"callback": lambda *_: True})


def test_the_policy_can_start_from_the_demonstrations():
    trainer = lean_trainer(venv=make_venv("Pendulum-v1"), start=ExpertInitialization(log_std=True))
    trainer.train(120)
    assert trainer.gen_algo.num_timesteps == 120


def test_airl_takes_the_density_of_the_same_policy():
    trainer = lean_trainer(AIRL)
    trainer.train(120)
    assert type(trainer.gen_algo) is StablePPO


def test_other_algorithms_are_left_alone():
    venv = make_venv()
    images = DummyVecEnv([lambda: _Still(spaces.Box(0, 255, (36, 36, 1), np.uint8))])
    others = [
        PPO("MlpPolicy", venv, device="cpu"),
        Stable("CnnPolicy", images, n_steps=8, batch_size=8, device="cpu"),
        stable_baselines3.A2C("MlpPolicy", venv, device="cpu"),
        stable_baselines3.DQN("MlpPolicy", venv, device="cpu"),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for each in others:
            cls = type(each)
            train_as_lean(each, "gen_algo")
            assert type(each) is cls


def test_dictionary_observations_are_reported():
    venv = DummyVecEnv([lambda: DictCounter(_Still())])
    model = Stable("MultiInputPolicy", venv, n_steps=8, batch_size=8, device="cpu")
    with pytest.warns(UserWarning, match="the rollout buffer is a DictRolloutBuffer"):
        train_as_lean(model, "algorithm")
    assert type(model) is Stable


class _Still(gym.Env):
    action_space = spaces.Discrete(2)

    def __init__(self, observation_space=_PAIR):
        self.observation_space = observation_space
