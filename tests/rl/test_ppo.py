"""The lean PPO is Stable-Baselines3's, up to rounding."""

import copy

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecNormalize
from support.environments import Counter

from imitbench.data.wrappers import BufferingWrapper
from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor
from imitbench.rl.ppo import PPO
from imitbench.rl.training import algorithm_state, load_algorithm_state
from imitbench.util.serial_vec_env import SerialVecEnv

ARRAYS = (
    "observations", "actions", "rewards", "values", "log_probs", "advantages", "returns",
    "episode_starts",
)  # fmt: skip


def make(cls, venv, policy="MlpPolicy", **kwargs):
    plain = {"n_steps": 128, "batch_size": 64, "n_epochs": 4, "seed": 0, "device": "cpu"}
    return cls(policy, venv, **plain | kwargs)


def record(model, timesteps, **kwargs):
    """Trains; returns the log and the buffer of each iteration, and the final parameters."""
    logger = Logger(None, [])
    model.set_logger(logger)
    logs, buffers = [], []
    train = model.train

    def spying_train():
        buffers.append({name: getattr(model.rollout_buffer, name).copy() for name in ARRAYS})
        train()
        logs.append({k: v for k, v in logger.name_to_value.items() if not k.startswith("time/")})

    model.train = spying_train
    model.learn(timesteps, **kwargs)
    del model.train
    parameters = th.nn.utils.parameters_to_vector(model.policy.parameters()).detach().numpy()
    return logs, buffers, parameters.copy()


@pytest.mark.parametrize(
    ("env", "kwargs"),
    [
        ("CartPole-v1", {}),
        (
            "CartPole-v1",
            {
                "ent_coef": 0.01, "clip_range_vf": 0.5, "target_kl": 0.002, "batch_size": 73,
                "learning_rate": lambda progress: 1e-3 * progress,
                "clip_range": lambda progress: 0.1 + 0.1 * progress,
            },
        ),
        ("Pendulum-v1", {"gamma": 0.9, "normalize_advantage": False, "vf_coef": 0.1}),
        (
            "Pendulum-v1",
            {
                "policy": FeedForward32Policy,
                "policy_kwargs": {"features_extractor_class": NormalizeFeaturesExtractor},
            },
        ),
        (
            "Pendulum-v1",
            {
                "ent_coef": 0.01, "max_grad_norm": 0.05, "batch_size": 511,
                "policy_kwargs": {
                    "net_arch": {"pi": [32], "vf": [16, 8]}, "activation_fn": th.nn.ReLU,
                },
            },
        ),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:You have specified a mini-batch size")
def test_trains_as_stable_baselines3_does(make_venv, env, kwargs):
    """Four environments, five rollouts of 512 steps.

    Equal actions throughout where they are discrete. Pendulum amplifies rounding errors of the
    simulation, so that its later rollouts agree less closely.
    """
    own = make(PPO, make_venv(env), **kwargs)
    assert own.lean
    logs, buffers, parameters = record(own, 2560)
    expected = make(stable_baselines3.PPO, make_venv(env), **kwargs)
    their_logs, their_buffers, their_parameters = record(expected, 2560)
    for found, wanted in zip(buffers[:3], their_buffers, strict=False):
        for name in ARRAYS:
            np.testing.assert_allclose(
                found[name], wanted[name], rtol=1e-4, atol=2e-4, err_msg=name
            )
    if env == "CartPole-v1":
        for found, wanted in zip(buffers, their_buffers, strict=True):
            np.testing.assert_array_equal(found["actions"], wanted["actions"])
    for log, their_log in zip(logs[:3], their_logs, strict=False):
        assert log.keys() == their_log.keys()
        for name, value in log.items():
            assert value == pytest.approx(their_log[name], rel=2e-3, abs=2e-4), name
    np.testing.assert_allclose(parameters, their_parameters, rtol=0, atol=1e-4)
    assert own._n_updates == expected._n_updates


def test_early_stopping_was_part_of_the_comparison(make_venv):
    model = make(PPO, make_venv("CartPole-v1"), target_kl=0.002, learning_rate=1e-3)
    record(model, 2560)
    assert model._n_updates < 5 * 4


def test_says_why_it_is_not_lean(make_venv):
    venv = make_venv("Pendulum-v1")
    assert make(PPO, venv, lean=False).why_not_lean() == "it was switched off"
    assert "use_sde" in make(PPO, venv, use_sde=True).why_not_lean()
    slow = {"optimizer_class": th.optim.SGD}
    assert "SGD" in make(PPO, venv, policy_kwargs=slow).why_not_lean()
    heavy = {"optimizer_kwargs": {"weight_decay": 0.1}}
    assert "options of Adam" in make(PPO, venv, policy_kwargs=heavy).why_not_lean()
    with pytest.raises(ValueError, match=r"lean: .*use_sde"):
        make(PPO, venv, use_sde=True, lean=True)


def zeros(obs, acts, next_obs, dones):
    return np.zeros(len(obs))


@pytest.mark.parametrize("kwargs", [{"use_sde": True}, {"lean": False}])
def test_elsewhere_it_is_stable_baselines3(make_venv, kwargs):
    own = make(PPO, make_venv("Pendulum-v1"), **kwargs)
    found = record(own, 512)[2]
    plain = {name: value for name, value in kwargs.items() if name != "lean"}
    expected = make(stable_baselines3.PPO, make_venv("Pendulum-v1"), **plain)
    np.testing.assert_array_equal(found, record(expected, 512)[2])
    assert own.last_rollout is None
    own.reward_fn = zeros
    with pytest.raises(ValueError, match="reward_fn needs the lean path"):
        own.learn(512)


class _Noting(BaseCallback):
    """Notes what it is told, and stops after some steps."""

    def __init__(self, stop_after=None):
        super().__init__()
        self.events, self.stop_after = [], stop_after

    def _on_rollout_start(self):
        self.events.append("start")

    def _on_step(self):
        own = self.locals
        assert own["new_obs"].shape == (4, 4)
        assert len(own["infos"]) == len(own["dones"]) == len(own["rewards"]) == 4
        assert own["actions"] is own["clipped_actions"]
        self.events.append(self.num_timesteps)
        return self.n_calls != self.stop_after

    def _on_rollout_end(self):
        assert self.model.rollout_buffer.full
        self.events.append("end")


def test_callbacks_hear_of_every_step(make_venv):
    callback = _Noting()
    make(PPO, make_venv("CartPole-v1"), n_steps=16).learn(128, callback)
    once = ["start", *range(4, 68, 4), "end"]
    assert callback.events == [*once, "start", *range(68, 132, 4), "end"]


def test_a_callback_can_stop_and_training_goes_on_later(make_venv):
    model = make(PPO, make_venv("CartPole-v1"), n_steps=16)
    model.learn(128, callback := _Noting(stop_after=20))
    assert callback.events[-1] == model.num_timesteps == 80
    assert model._n_updates == 4
    model.learn(64, reset_num_timesteps=False)
    assert model.num_timesteps == 144


@pytest.fixture
def counters():
    """Two environments of episodes of 5 and of 3 steps; rewards count the steps of an episode."""

    def make(**kwargs):
        return SerialVecEnv([lambda: Counter((5,), **kwargs), lambda: Counter((3,), **kwargs)])

    return make


def test_the_last_rollout_is_what_happened(counters):
    model = make(PPO, counters(), n_steps=6, batch_size=12)
    model.learn(12)
    rollout = model.last_rollout
    assert rollout.obs[:, 0, 0].tolist() == [0, 1, 2, 3, 4, 0]
    assert rollout.next_obs[:, 0, 0].tolist() == [1, 2, 3, 4, 5, 1]
    assert rollout.next_obs[:, 1, 0].tolist() == [1, 2, 3, 1, 2, 3]
    assert np.argwhere(rollout.dones).tolist() == [[2, 1], [4, 0], [5, 1]]
    assert rollout.env_rews[:, 1].tolist() == [1, 2, 3, 1, 2, 3]
    assert rollout.rews is rollout.env_rews
    assert rollout.acts.shape == rollout.log_probs.shape == (6, 2)
    assert rollout.acts.dtype == np.int64
    assert (rollout.log_probs < 0).all()


def test_actions_of_a_rollout_are_those_that_the_environment_got(make_venv):
    model = make(PPO, make_venv("Pendulum-v1"), policy_kwargs={"log_std_init": 2.0})
    model.learn(512)
    acts, space = model.last_rollout.acts, model.action_space
    assert acts.dtype == space.dtype
    assert np.abs(acts).max() == space.high[0]
    assert np.abs(model.rollout_buffer.actions).max() > space.high[0]


@pytest.mark.parametrize("truncate", [False, True])
def test_a_function_replaces_the_rewards_of_a_whole_rollout(counters, truncate):
    calls = []

    def reward_fn(obs, acts, next_obs, dones):
        calls.append((obs, acts, next_obs, dones))
        return np.arange(len(obs))

    model = make(PPO, counters(truncate=truncate), n_steps=6, batch_size=12, gamma=0.5)
    model.reward_fn = reward_fn
    model.train = lambda: None  # keeps the policy that values are asked of below
    model.learn(12)
    ((obs, acts, next_obs, dones),) = calls
    # Time by time: two environments of the first step, two of the second, …
    assert obs[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 3, 0, 4, 1, 0, 2]
    assert next_obs[:, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 1, 5, 2, 1, 3]
    assert np.flatnonzero(dones).tolist() == [5, 8, 11]
    assert acts.shape == (12,)
    rollout, buffer = model.last_rollout, model.rollout_buffer
    np.testing.assert_array_equal(rollout.rews, np.arange(12).reshape(6, 2))
    assert rollout.env_rews[:, 1].tolist() == [1, 2, 3, 1, 2, 3]
    with th.no_grad():
        after = model.policy.predict_values(th.as_tensor(next_obs))[:, 0].numpy()
    expected = rollout.rews + truncate * 0.5 * (dones * after).reshape(6, 2)
    np.testing.assert_allclose(buffer.rewards, expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("result", "message"),
    [(np.zeros((4, 1)), "shape"), (np.zeros(3), "shape"), (np.full(4, np.nan), "not finite")],
)
def test_an_unusable_reward_is_an_error(counters, result, message):
    model = make(PPO, counters(), n_steps=2, batch_size=4)
    model.reward_fn = lambda *_: result
    with pytest.raises(ValueError, match=rf"reward_fn returned.*{message}"):
        model.learn(4)


def test_wrapped_environments_see_every_step(make_venv):
    venv = BufferingWrapper(make_venv("CartPole-v1"))
    model = make(PPO, venv)
    model.learn(512)
    transitions = venv.pop_transitions()
    rollout = model.last_rollout
    assert len(transitions) == 512
    np.testing.assert_allclose(transitions.obs.sum(), rollout.obs.sum(), rtol=1e-4)
    assert transitions.dones.sum() == rollout.dones.sum() > 0


def test_normalized_environments_give_equal_results(make_venv):
    results = [
        record(make(cls, VecNormalize(make_venv("CartPole-v1"))), 1024)[2]
        for cls in (PPO, stable_baselines3.PPO)
    ]
    np.testing.assert_allclose(*results, rtol=0, atol=1e-5)


def test_saves_and_loads_as_stable_baselines3_does(make_venv, tmp_path):
    model = make(PPO, make_venv("CartPole-v1"))
    model.reward_fn = zeros
    model.learn(512)
    model.save(tmp_path / "model.zip")
    for cls in (PPO, stable_baselines3.PPO):
        loaded = cls.load(tmp_path / "model.zip", device="cpu")
        assert getattr(loaded, "reward_fn", None) is None
        for name, parameters in model.get_parameters().items():
            assert_same(loaded.get_parameters()[name], parameters)
    loaded = PPO.load(tmp_path / "model.zip", make_venv("CartPole-v1"), device="cpu")
    assert loaded.lean
    loaded.learn(512)
    obs = np.zeros(4, np.float32)
    assert model.predict(obs, deterministic=True)[0] in (0, 1)


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(found, dict):
        assert found.keys() == expected.keys()
        for key in found:
            assert_same(found[key], expected[key])
    elif isinstance(found, list | tuple):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            assert_same(*pair)
    else:
        np.testing.assert_array_equal(found, expected)


def test_optimizer_state_is_that_of_torch(make_venv):
    """Either implementation goes on where the other left off."""
    models = [make(cls, make_venv("CartPole-v1")) for cls in (PPO, stable_baselines3.PPO)]
    for model in models:
        model.learn(512)
    own, theirs = models
    theirs.set_parameters(copy.deepcopy(own.get_parameters()))
    state = own.policy.optimizer.state_dict()["state"]
    assert {float(each["step"]) for each in state.values()} == {32.0}
    theirs.rollout_buffer = own.rollout_buffer
    for model in models:
        np.random.seed(1)  # noqa: NPY002
        model.train()
    for found, expected in zip(own.policy.parameters(), theirs.policy.parameters(), strict=True):
        np.testing.assert_allclose(found.detach(), expected.detach(), rtol=0, atol=1e-6)


@pytest.mark.parametrize("extractor", [None, NormalizeFeaturesExtractor])
def test_resumes_to_the_bit(extractor):
    kwargs = {"policy_kwargs": {"features_extractor_class": extractor}} if extractor else {}
    kwargs |= {"n_steps": 32, "batch_size": 16}
    half = make(PPO, SerialVecEnv([_Memoryless] * 2), **kwargs).learn(64)
    state, torch_state, numpy_state = (
        algorithm_state(half), th.get_rng_state(), np.random.get_state(),  # noqa: NPY002
    )  # fmt: skip
    resumed = make(PPO, SerialVecEnv([_Memoryless] * 2), **kwargs | {"seed": 7})
    resumed.env.reset()
    load_algorithm_state(resumed, state)
    th.set_rng_state(torch_state)
    np.random.set_state(numpy_state)  # noqa: NPY002
    resumed.learn(64, reset_num_timesteps=False)
    whole = make(PPO, SerialVecEnv([_Memoryless] * 2), **kwargs).learn(64)
    whole.learn(64, reset_num_timesteps=False)
    assert_same(resumed.policy.state_dict(), whole.policy.state_dict())
    assert_same(resumed.policy.optimizer.state_dict(), whole.policy.optimizer.state_dict())
    assert_same(algorithm_state(resumed), algorithm_state(whole))
    assert resumed.num_timesteps == 128


class _Memoryless(gym.Env):
    """The observation is the last action, so that there is no state to restore."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return action.copy(), float(action.sum()), False, False, {}


def test_a_policy_that_is_not_finite_stops_training(make_venv):
    model = make(PPO, make_venv("CartPole-v1"))
    model.policy.value_net.bias.data.fill_(np.nan)
    with pytest.raises(ValueError, match="not finite"):
        model.learn(512)


def test_learns_to_balance_a_pole(make_venv):
    model = make(PPO, make_venv("CartPole-v1", 8), n_steps=256, n_epochs=10, learning_rate=1e-3)
    model.learn(30_000)
    assert np.mean([episode["r"] for episode in model.ep_info_buffer]) > 150
