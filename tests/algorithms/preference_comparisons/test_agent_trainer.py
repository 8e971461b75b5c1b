"""An agent trained on a learned reward, whose trajectories have true rewards."""

import copy
import functools

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.algorithms.preference_comparisons.agent_trainer import AgentTrainer
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import TrajectoryWithRew, dataclass_quick_asdict
from imitbench.rewards.reward_nets import BasicRewardNet, CnnRewardNet
from imitbench.rl.ppo import PPO
from imitbench.util.logger import HierarchicalLogger, configure
from imitbench.util.networks import RunningNorm
from imitbench.util.state_file import load_state, save_state

LEARNT = -7.0
PPOS = pytest.mark.parametrize("ppo", [PPO, stable_baselines3.PPO], ids=["lean", "sb3"])


class Reward:
    """Gives the same reward for everything, and remembers what it was asked."""

    def __init__(self, value=LEARNT):
        self.value, self.shapes = value, []

    def __call__(self, state, action, next_state, done):
        self.shapes.append(state.shape)
        return np.full(len(state), self.value, np.float32)


class Written(KVWriter):
    """A log to look at."""

    def __init__(self):
        self.rows = []

    def write(self, key_values, key_excluded, step=0):
        self.rows.append(dict(key_values))

    def close(self):
        pass


def silent(*formats):
    return HierarchicalLogger(Logger(folder=None, output_formats=list(formats)), [])


def counters(lengths=(5,), count=2):
    """Each observation is (step, episode); the true reward is the step's number."""
    return DummyVecEnv([lambda: Counter(lengths)] * count)


def real(name="Pendulum-v1", count=2, seed=0, steps=50):
    make = functools.partial(gym.make, name, max_episode_steps=steps)
    venv = DummyVecEnv([lambda: ResumableEnv(Monitor(make()))] * count)
    venv.seed(seed)
    return venv


def agent(ppo, venv, seed=0, policy="MlpPolicy", **options):
    options = {"n_steps": 20, "batch_size": 20, "n_epochs": 2, "device": "cpu", **options}
    return ppo(policy, venv, seed=seed, **options)


def make(ppo=PPO, venv=None, *, reward_fn=None, seed=0, ppo_options=(), **options):
    """Makes a trainer; Stable-Baselines3's PPO keeps its own loop unless `lean` is given."""
    venv = counters() if venv is None else venv
    if "algorithm" not in options:
        options["algorithm"] = agent(ppo, venv, seed, **dict(ppo_options))
    defaults = {
        "reward_fn": Reward() if reward_fn is None else reward_fn,
        "venv": venv,
        "rng": np.random.default_rng(seed),
        "custom_logger": silent(),
        "lean": type(options["algorithm"]) is not stable_baselines3.PPO,
    }
    return AgentTrainer(**(defaults | options))


def steps_of(trajectories):
    return sum(map(len, trajectories))


def assert_whole_and_true(trajectories):
    for each in trajectories:
        assert each.terminal
        assert each.rews.tolist() == [1, 2, 3, 4, 5]
        assert each.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 5]


@PPOS
def test_an_untrained_agent_acts_for_the_sample(ppo):
    sample = make(ppo).sample(31)
    assert_whole_and_true(sample)
    assert steps_of(sample) == 35


@PPOS
def test_training_sees_learned_rewards_and_the_sample_true_ones(ppo):
    trainer = make(ppo)
    trainer.train(40)
    seen = trainer.algorithm.rollout_buffer.rewards
    np.testing.assert_array_equal(seen, LEARNT)
    sample = trainer.sample(40)
    assert steps_of(sample) == 40
    assert_whole_and_true(sample)


@PPOS
def test_the_latest_trajectories_come_first_and_only_as_many_as_needed(ppo):
    trainer = make(ppo)
    trainer.train(40)
    sample = trainer.sample(11)
    # Of four episodes in each of two environments (the constructor reset them once before).
    newest = trainer.buffering_wrapper.venv.envs[0].episode - 1
    assert [each.obs[0, 1] for each in sample] == [newest, newest, newest - 1]


@PPOS
def test_sampling_acts_for_the_steps_that_training_lacks(ppo):
    trainer = make(ppo)
    trainer.train(40)
    trained = trainer.buffering_wrapper.venv.envs[0].episode
    sample = trainer.sample(60)
    assert_whole_and_true(sample)
    assert steps_of(sample) == 60
    episodes = [int(each.obs[0, 1]) for each in sample]
    assert sorted(episodes[:8], reverse=True) == episodes[:8]
    assert max(episodes[:8]) < trained <= min(episodes[8:])


@PPOS
def test_episodes_continue_if_nothing_acted_in_between(ppo):
    trainer = make(ppo, counters((8,)))
    trainer.train(40)
    sample = list(trainer.sample(32))  # 20 steps are two episodes of 8, and 4 steps of the third
    trainer.train(40)
    sample += trainer.sample(48)
    assert all(each.obs[:, 0].tolist() == list(range(9)) for each in sample)
    episodes = sorted(int(each.obs[0, 1]) - sample[2].obs[0, 1] for each in sample)
    assert episodes == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


@PPOS
def test_after_acting_training_begins_with_an_episode(ppo):
    trainer = make(ppo, counters((8,)))
    trainer.train(40)
    trainer.sample(100)
    trainer.train(40)
    buffer = trainer.algorithm.rollout_buffer
    observations = buffer.observations.reshape(-1, 2)  # flat, or time by time
    np.testing.assert_array_equal(observations[0], [0, observations[0, 1]])
    assert buffer.episode_starts.ravel()[0] == 1
    assert all(each.obs[:, 0].tolist() == list(range(9)) for each in trainer.sample(32))


@PPOS
def test_training_again_needs_a_sample_first(ppo):
    trainer = make(ppo)
    trainer.train(40)
    with pytest.raises(RuntimeError, match=r"40 uncollected transitions; call"):
        trainer.train(40)
    trainer.sample(1)
    trainer.train(40)
    assert trainer.algorithm.num_timesteps == 80


def test_lean_rewards_are_computed_once_per_rollout_and_never_for_samples():
    trainer = make(PPO, exploration_frac=0.5)
    assert trainer.algorithm.lean
    trainer.train(120)
    assert trainer.reward_fn.shapes == [(40, 2)] * 3
    trainer.sample(500)
    assert len(trainer.reward_fn.shapes) == 3


def test_other_rewards_are_computed_per_step_and_never_for_samples():
    trainer = make(stable_baselines3.PPO, exploration_frac=0.5)
    trainer.train(40)
    assert trainer.reward_fn.shapes == [(2, 2)] * 20
    trainer.sample(500)
    assert len(trainer.reward_fn.shapes) == 20


def test_stable_baselines3_s_ppo_is_trained_as_the_lean_one():
    samples, algorithms = [], []
    for ppo in (PPO, stable_baselines3.PPO):
        venv = real()
        net = BasicRewardNet(venv.observation_space, venv.action_space)
        th.manual_seed(1)
        th.nn.utils.vector_to_parameters(th.randn(sum(map(th.numel, net.parameters()))),
                                         net.parameters())  # fmt: skip
        trainer = make(ppo, venv, reward_fn=net, exploration_frac=0.2, lean=True)
        np.random.seed(0)  # noqa: NPY002 (PPO draws from the global generator)
        trainer.train(40)
        samples.append([without_infos(each) for each in trainer.sample(150)])
        algorithms.append(trainer.algorithm)
    assert samples[0] == samples[1]
    for one, two in zip(*(each.policy.parameters() for each in algorithms), strict=True):
        assert th.equal(one, two)


def test_both_kinds_of_ppo_give_the_same_results():
    samples, policies = [], []
    for ppo in (PPO, stable_baselines3.PPO):
        venv = real(steps=20)
        th.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002 (PPO draws from the global generator)
        net = BasicRewardNet(venv.observation_space, venv.action_space)
        trainer = make(ppo, venv, reward_fn=net, exploration_frac=0.2, ppo_options={"n_steps": 20})
        trainer.train(40)
        samples.append(trainer.sample(150))
        policies.append(trainer.algorithm.policy)
    for one, two in zip(policies[0].parameters(), policies[1].parameters(), strict=True):
        th.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    lean, plain = samples
    assert [len(each) for each in lean] == [len(each) for each in plain]
    # The latest two are from training, the rest from a policy that differs by rounding.
    for one, two in zip(lean[:2], plain[:2], strict=True):
        np.testing.assert_allclose(one.obs, two.obs, atol=1e-4)
        np.testing.assert_allclose(one.rews, two.rews, atol=1e-4)
        assert one.rews.dtype == two.rews.dtype
        assert one.acts.dtype == two.acts.dtype == np.float32


@PPOS
def test_the_log_has_learned_returns_of_training_only(ppo):
    written = Written()
    trainer = make(ppo, custom_logger=silent(written))
    trainer.sample(100)
    trainer.reward_fn.value = 2.0
    trainer.train(40)
    trainer.sample(100)
    trainer.train(40)
    means = [row["rollout/ep_rew_wrapped_mean"] for row in written.rows]
    assert means == [10.0, 10.0]


@PPOS
def test_sampling_logs_its_steps(ppo, tmp_path):
    trainer = make(ppo, custom_logger=configure(tmp_path, ["log"]), exploration_frac=0.1)
    trainer.train(40)
    trainer.sample(100)
    lines = (tmp_path / "log.txt").read_text().splitlines()
    assert (
        "Requested 90 transitions but only 40 in buffer. Sampling 50 additional transitions."
        in (lines)
    )
    assert lines[-1] == "Sampling 10 exploratory transitions."
    trainer.sample(9)
    assert "nothing will be explored" in (tmp_path / "log.txt").read_text()


def test_exploratory_trajectories_come_last_in_their_share():
    trainer = make(exploration_frac=0.25, switch_prob=0.0, random_prob=1.0)
    with th.no_grad():  # an agent that knows one action
        trainer.algorithm.policy.action_net.bias[1] = 100.0
    sample = trainer.sample(400)
    assert_whole_and_true(sample)
    acts = [set(each.acts.tolist()) for each in sample]
    assert acts[:60] == [{1}] * 60
    assert steps_of(sample[60:]) == 100
    assert set().union(*acts[60:]) == {0, 1, 2}


@PPOS
@pytest.mark.parametrize("name", ["Pendulum-v1", "seals/CartPole-v0"], ids=["box", "discrete"])
def test_reward_networks_and_kinds_of_actions(ppo, name):
    venv = real(name)
    net = BasicRewardNet(
        venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm
    )
    trainer = make(ppo, venv, reward_fn=net, exploration_frac=0.5)
    trainer.train(40)
    sample = trainer.sample(200)
    assert steps_of(sample) >= 200
    for each in sample:
        assert venv.action_space.contains(each.acts[0])
        assert each.obs.dtype == venv.observation_space.dtype
        assert each.rews.dtype == np.float32


@pytest.mark.parametrize(("algorithm", "name"), [(DQN, "seals/CartPole-v0"), (SAC, "Pendulum-v1")])
def test_off_policy_algorithms(algorithm, name):
    venv = real(name)
    options = {"learning_starts": 10, "buffer_size": 500, "batch_size": 16}
    trainer = make(
        venv=venv,
        algorithm=algorithm("MlpPolicy", venv, device="cpu", seed=0, **options),
        exploration_frac=0.5,
    )
    trainer.train(24)
    sample = trainer.sample(200)
    assert not (np.concatenate([each.rews for each in sample]) == LEARNT).any()
    trainer.train(24)
    rewards = trainer.algorithm.replay_buffer.rewards[: trainer.algorithm.replay_buffer.pos]
    np.testing.assert_array_equal(rewards, LEARNT)
    assert trainer.algorithm.num_timesteps == 48


class Pixels(gym.Env):
    """Images whose channels come last; the true reward is the brightness."""

    observation_space = spaces.Box(0, 255, (36, 40, 3), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._observe(), {}

    def step(self, action):
        self.count += 1
        return self._observe(), float(self.count), self.count == 6, False, {}

    def _observe(self):
        return np.full((36, 40, 3), self.count, np.uint8)


@PPOS
def test_images_keep_the_environment_s_format(ppo):
    venv = DummyVecEnv([Pixels] * 2)
    net = CnnRewardNet(venv.observation_space, venv.action_space, hwc_format=True)
    shapes = []
    net.register_forward_pre_hook(lambda _, args: shapes.append(tuple(args[0].shape)))
    trainer = make(
        ppo,
        venv,
        reward_fn=net,
        exploration_frac=0.5,
        ppo_options={"policy": "CnnPolicy", "n_steps": 8, "batch_size": 16},
    )
    assert trainer.algorithm.observation_space.shape == (3, 36, 40)
    trainer.train(16)
    sample = trainer.sample(40)
    assert shapes[0][0] == 2
    for each in sample:
        assert each.obs.shape == (7, 36, 40, 3)
        assert each.obs[:, 0, 0, 0].tolist() == list(range(7))
        assert each.rews.tolist() == [1, 2, 3, 4, 5, 6]
    trainer.train(16)


@PPOS
def test_equal_seeds_give_equal_results(ppo):
    def run(seed):
        venv = real("seals/CartPole-v0")
        th.manual_seed(0)
        net = BasicRewardNet(venv.observation_space, venv.action_space)
        trainer = make(ppo, venv, reward_fn=net, exploration_frac=0.2, seed=seed)
        trainer.train(80)
        first = trainer.sample(160)
        trainer.train(80)
        return [without_infos(each) for each in (*first, *trainer.sample(160))]

    first = run(0)
    assert first == run(0)
    assert first != run(1)


def without_infos(trajectory):
    return TrajectoryWithRew(**{**dataclass_quick_asdict(trajectory), "infos": None})


@pytest.mark.parametrize(
    ("kind", "interrupted"),
    [
        ("lean", "after training"),
        ("lean", "after acting"),
        ("lean", "after collecting"),
        ("sb3", "after acting"),
        ("sac", "after collecting"),
    ],
)
def test_a_resumed_trainer_is_bit_identical(kind, interrupted, tmp_path):
    wanted = {"after training": 0, "after acting": 250, "after collecting": 50}[interrupted]

    def build():
        venv = real()
        net = BasicRewardNet(venv.observation_space, venv.action_space)
        options = {"exploration_frac": 0.2 if wanted == 250 else 0.0, "reward_fn": net}
        if kind == "sac":
            sac = SAC("MlpPolicy", venv, learning_starts=10, buffer_size=200, device="cpu", seed=0,
                      batch_size=8, train_freq=20)  # fmt: skip
            return make(venv=venv, algorithm=sac, **options)
        ppo = {"lean": PPO, "sb3": stable_baselines3.PPO}[kind]
        return make(ppo, venv, ppo_options={"n_steps": 60, "batch_size": 40}, **options)

    def go_on(trainer):
        seen = []
        for _ in range(2):
            seen += trainer.sample(175)
            trainer.train(120)
        seen += trainer.sample(75)
        return [without_infos(each) for each in seen], trainer.algorithm.get_parameters()

    trainer = build()
    trainer.train(120)
    if wanted:
        trainer.sample(wanted)
    venv = trainer.buffering_wrapper.venv
    state = {
        "trainer": trainer.state_dict(),
        "net": trainer.reward_fn.__self__.state_dict(),
        "venv": episode_states(venv),
        "generators": generator_states(),
    }
    save_state(tmp_path / "state", state)
    expected = go_on(trainer)
    resumed = build()
    state = load_state(tmp_path / "state")
    resumed.reward_fn.__self__.load_state_dict(state["net"])
    restore_episodes(resumed.buffering_wrapper.venv, state["venv"])
    resumed.load_state_dict(state["trainer"])
    restore_generators(state["generators"])
    found = go_on(resumed)
    assert found[0] == expected[0]
    for name, weights in found[1]["policy"].items():
        assert th.equal(weights, expected[1]["policy"][name])


@PPOS
def test_the_history_of_learned_returns_is_restored(ppo):
    trainer = make(ppo)
    trainer.train(40)
    restored = make(ppo)
    restored.load_state_dict(copy.deepcopy(trainer.state_dict()))
    assert list(restored.log_callback.episode_rewards) == [5 * LEARNT] * 8


@PPOS
def test_arguments_of_learn_are_passed_on(ppo):
    calls = []
    trainer = make(ppo)
    trainer.train(40, callback=lambda *_: calls.append(1) or True, log_interval=1)
    assert len(calls) == 20


def test_the_logger_is_the_algorithm_s():
    trainer, logger = make(), silent()
    trainer.logger = logger
    assert trainer.logger is trainer.algorithm.logger is logger


def test_attributes_give_access_to_the_wrapped_environments():
    trainer = make(exploration_frac=0.25)
    assert trainer.venv is trainer.reward_venv_wrapper
    assert trainer.reward_venv_wrapper.venv is trainer.buffering_wrapper
    assert trainer.exploration_frac == 0.25
    trainer.venv.reset()
    _, rewards, _, infos = trainer.venv.step(np.zeros(2, int))
    assert rewards.tolist() == [LEARNT] * 2
    assert infos[0]["original_env_rew"] == 1.0


@PPOS
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rewards_that_are_not_finite_are_reported(ppo, value):
    with pytest.raises(ValueError, match="reward_fn returned rewards that are not finite"):
        make(ppo, reward_fn=Reward(value)).train(40)


UNFIT = {
    "exploration": ({"exploration_frac": 1.5}, r"exploration_frac must lie in \[0, 1\]"),
    "probability": ({"switch_prob": 2.0}, r"switch_prob must lie in \[0, 1\]"),
    "no algorithm": ({"algorithm": object()}, "algorithm must be an algorithm of"),
}


@pytest.mark.parametrize(("options", "message"), UNFIT.values(), ids=UNFIT)
def test_unusable_arguments_are_reported(options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)


def test_other_spaces_are_reported():
    venv, other = counters(), real()
    with pytest.raises(ValueError, match="algorithm has observation_space"):
        make(venv=venv, algorithm=agent(PPO, other))
    with pytest.raises(ValueError, match="made for 3 environments, but venv has 2"):
        make(venv=venv, algorithm=agent(PPO, counters(count=3)))
    net = BasicRewardNet(other.observation_space, venv.action_space)
    with pytest.raises(ValueError, match=r"reward_fn is a network for observation_space Box"):
        make(venv=venv, reward_fn=net)
    net = BasicRewardNet(venv.observation_space, other.action_space)
    with pytest.raises(ValueError, match=r"reward_fn is a network for action_space Box"):
        make(venv=venv, reward_fn=net)


def test_dictionary_observations_are_reported():
    venv = DummyVecEnv([lambda: DictCounter(Counter())])
    with pytest.raises(ValueError, match="dictionary observations"):
        make(venv=venv, algorithm=agent(stable_baselines3.PPO, venv, policy="MultiInputPolicy"))


def test_samples_can_be_flattened_to_transitions():
    flat = flatten_trajectories(make(exploration_frac=0.3).sample(50))
    assert len(flat) >= 50
    assert flat.dones.sum() == len(flat) / 5
