"""Rewards are log-densities of demonstrations, and a policy can be trained on them."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from scipy.stats import multivariate_normal
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.algorithms.density import DensityAlgorithm, DensityType
from imitbench.algorithms.density_model import flatten_batch
from imitbench.data import rollout
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.ppo import PPO
from imitbench.util.logger import configure
from imitbench.util.state_file import load_state, save_state
from imitbench.util.util import make_vec_env

DEMOS = Path(__file__).parents[2] / "suites/classic/demos/sac-Pendulum-v1"


@pytest.fixture(scope="module")
def demos():
    return read_demonstrations(DEMOS)[:3]


@pytest.fixture
def quiet(tmp_path):
    return configure(tmp_path, [])


def pendulum(n_envs=2):
    return make_vec_env(
        "Pendulum-v1",
        rng=np.random.default_rng(0),
        n_envs=n_envs,
        post_wrappers=[lambda env, _: ResumableEnv(env)],
    )


def density(demos, venv=None, **kwargs):
    """Makes an instance; Stable-Baselines3's PPO keeps its own loop unless `lean` is given."""
    kwargs.setdefault("lean", type(kwargs.get("rl_algo")) is not sb3.PPO)
    return DensityAlgorithm(
        demonstrations=demos,
        venv=pendulum() if venv is None else venv,
        rng=np.random.default_rng(0),
        **kwargs,
    )


def batch_of(demos, count=50):
    flat = rollout.flatten_trajectories(demos)
    chosen = np.random.default_rng(0).permutation(len(flat))[:count]
    return flat.obs[chosen], flat.acts[chosen], flat.next_obs[chosen], flat.dones[chosen]


def test_the_reward_is_the_logarithm_of_the_kernel_density(demos):
    """The definition, written out for one transition."""
    algorithm = density(demos, kernel_bandwidth=0.3, standardise_inputs=False)
    algorithm.train()
    flat = rollout.flatten_trajectories(demos)
    rows = np.concatenate([flat.obs, flat.acts], axis=1)
    query = rows[7] + 0.1
    expected = np.log(np.mean(multivariate_normal(query, 0.3**2).pdf(rows)))
    reward = algorithm(query[None, :3], query[None, 3:], query[None, :3], np.array([False]))
    assert reward.dtype == np.float32
    assert reward.tolist() == [pytest.approx(expected, abs=1e-5)]


@pytest.mark.parametrize("kind", list(DensityType))
def test_only_the_parts_of_the_density_type_matter(demos, kind):
    algorithm = density(demos, density_type=kind)
    algorithm.train()
    obs, acts, next_obs, dones = batch_of(demos)
    reward = algorithm(obs, acts, next_obs, dones)
    matters = {
        "state": (obs + 0.1, acts, next_obs),
        "action": (obs, acts + 0.1, next_obs),
        "next": (obs, acts, next_obs + 0.1),
    }
    changed = {
        name for name, given in matters.items() if (algorithm(*given, dones) != reward).any()
    }
    assert (
        changed
        == {
            DensityType.STATE_DENSITY: {"state"},
            DensityType.STATE_ACTION_DENSITY: {"state", "action"},
            DensityType.STATE_STATE_DENSITY: {"state", "next"},
        }[kind]
    )
    assert np.array_equal(algorithm(obs, acts, next_obs, ~dones), reward)


def test_numbers_of_the_kinds_of_density():
    assert [kind.value for kind in DensityType] == [1, 2, 3]


def test_demonstrations_are_more_likely_than_noise(demos):
    algorithm = density(demos)
    algorithm.train()
    obs, acts, next_obs, dones = batch_of(demos)
    noise = np.random.default_rng(0).normal(size=obs.shape).astype(np.float32) * 3
    assert (
        algorithm(obs, acts, next_obs, dones).mean()
        > algorithm(obs + noise, acts, next_obs, dones).mean() + 1
    )


def test_any_kind_of_demonstrations_gives_the_same_reward(demos):
    flat = rollout.flatten_trajectories(demos)
    batches = [
        {"obs": part.obs, "acts": part.acts, "next_obs": part.next_obs}
        for part in (flat[:100], flat[100:])
    ]
    rewards = []
    for given in (demos, iter(demos), flat, batches):
        algorithm = density(given, density_type=DensityType.STATE_STATE_DENSITY)
        algorithm.train()
        rewards.append(algorithm(*batch_of(demos)))
    for other in rewards[1:]:
        np.testing.assert_array_equal(other, rewards[0])


def test_discrete_actions_and_dictionaries_of_observations_are_flattened():
    venv = DummyVecEnv([lambda: DictCounter(Counter())])
    trajectories = rollout.generate_trajectories(
        None, venv, rollout.make_min_episodes(3), np.random.default_rng(0)
    )
    algorithm = density(trajectories, venv)
    algorithm.train()
    flat = rollout.flatten_trajectories(trajectories)
    rows = algorithm.transitions[None]
    one_hot = flatten_batch(spaces.Discrete(3), flat.acts)
    assert np.array_equal(rows, np.concatenate(
        [flatten_batch(venv.observation_space, flat.obs), one_hot], axis=1
    ))  # fmt: skip
    rewards = algorithm(flat.obs, flat.acts, flat.next_obs, flat.dones)
    assert rewards.shape == (15,)
    assert np.isfinite(rewards).all()


def test_each_time_has_its_own_density(demos):
    algorithm = density(demos, is_stationary=False, density_type=DensityType.STATE_DENSITY)
    algorithm.train()
    assert list(algorithm.transitions) == list(range(200))
    starts = np.stack([t.obs[0] for t in demos])
    ends = np.stack([t.obs[199] for t in demos])
    acts = np.zeros((3, 1))

    def reward(obs, time):
        return algorithm(obs, acts, obs, None, steps=np.full(3, time)).mean()

    assert reward(starts, 0) > reward(starts, 199) + 1
    assert reward(ends, 199) > reward(ends, 0) + 1


def test_time_steps_beyond_the_demonstrations_are_refused(demos):
    algorithm = density(demos, is_stationary=False)
    algorithm.train()
    obs, acts, next_obs, dones = batch_of(demos, 2)
    with pytest.raises(ValueError, match="time 200 is beyond the demonstrations"):
        algorithm(obs, acts, next_obs, dones, steps=np.array([0, 200]))
    with pytest.raises(ValueError, match="the density is not stationary"):
        algorithm(obs, acts, next_obs, dones)
    with pytest.raises(ValueError, match="steps has shape"):
        algorithm(obs, acts, next_obs, dones, steps=np.array([0]))


def test_transitions_without_time_steps_are_refused(demos):
    with pytest.raises(ValueError, match="give trajectories, which have time steps"):
        density(rollout.flatten_trajectories(demos), is_stationary=False)


def test_demonstrations_may_come_later(demos):
    algorithm = density(None)
    with pytest.raises(ValueError, match="no demonstrations"):
        algorithm.train()
    algorithm.set_demonstrations(demos)
    with pytest.raises(ValueError, match=r"call train\(\) first"):
        algorithm(*batch_of(demos))
    algorithm.train()
    assert algorithm(*batch_of(demos)).shape == (50,)


def test_a_policy_needs_an_algorithm(demos):
    algorithm = density(demos)
    algorithm.train()
    for use in (lambda: algorithm.policy, algorithm.train_policy, algorithm.test_policy):
        with pytest.raises(ValueError, match="rl_algo"):
            use()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "round"}, "kernel must be one of"),
        ({"kernel_bandwidth": 0}, "kernel_bandwidth must be positive"),
        ({"density_type": "states"}, "is not a valid DensityType"),
    ],
)
def test_bad_arguments_are_refused(demos, options, message):
    with pytest.raises(ValueError, match=message):
        density(demos, **options)


def ppo(venv, cls=PPO, **kwargs):
    return cls("MlpPolicy", venv, n_steps=100, batch_size=50, n_epochs=2, seed=0, **kwargs)


def seed():
    """Torch's generator draws actions, and NumPy's the order of minibatches."""
    th.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002


@pytest.mark.parametrize("stationary", [True, False])
def test_stable_baselines3_s_ppo_is_trained_as_the_lean_one(demos, quiet, stationary):
    learners = []
    for cls in (PPO, sb3.PPO):
        venv = pendulum()
        learners.append(ppo(venv, cls))
        algorithm = density(
            demos, venv, rl_algo=learners[-1], is_stationary=stationary, custom_logger=quiet,
            lean=True,
        )  # fmt: skip
        algorithm.train()
        seed()
        for _ in range(2):
            algorithm.train_policy(400)
            algorithm.test_policy(n_trajectories=2)
        assert algorithm.rl_algo is learners[-1]
        assert learners[-1].num_timesteps == 800
    assert isinstance(learners[1], sb3.PPO)
    for one, two in zip(*(each.policy.parameters() for each in learners), strict=True):
        assert th.equal(one, two)


@pytest.mark.parametrize("stationary", [True, False])
def test_per_rollout_and_per_step_rewards_train_the_same_policy(demos, quiet, stationary):
    """The lean PPO is relabelled once per rollout; Stable-Baselines3's sees wrapped steps."""
    parameters = []
    for cls in (PPO, sb3.PPO):
        venv = pendulum()
        algorithm = density(
            demos, venv, rl_algo=ppo(venv, cls), is_stationary=stationary, custom_logger=quiet
        )
        algorithm.train()
        if cls is PPO:
            venv.reset()  # as the wrapper does that the other one has
        seed()
        algorithm.train_policy(600)
        parameters.append(th.nn.utils.parameters_to_vector(algorithm.policy.parameters()))
    assert isinstance(algorithm.venv_wrapped, RewardVecEnvWrapper)
    th.testing.assert_close(*parameters, rtol=1e-3, atol=1e-4)


class Walk(gym.Env):
    """Twenty steps on a line, from somewhere left or right of the origin."""

    observation_space = spaces.Box(-10, 10, (1,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.place = 0, self.np_random.uniform(-1, 1, 1)
        return self.place.astype(np.float32), {}

    def step(self, action):
        self.count += 1
        self.place = self.place + 0.2 * action
        return self.place.astype(np.float32), 0.0, False, self.count == 20, {}


def test_training_raises_the_density_of_visited_states(quiet):
    demonstrated = np.random.default_rng(0).normal(1.5, 0.2, (300, 1)).astype(np.float32)
    demos = [{"obs": demonstrated, "acts": np.zeros((300, 1), np.float32)}]
    venv = DummyVecEnv([Walk] * 8)
    venv.seed(0)
    learner = PPO("MlpPolicy", venv, n_steps=80, n_epochs=10, gamma=0.9, learning_rate=1e-3, seed=0)
    algorithm = density(
        demos, venv, rl_algo=learner, density_type=DensityType.STATE_DENSITY, custom_logger=quiet
    )
    algorithm.train()
    before = algorithm.test_policy(n_trajectories=8, true_reward=False)["return_mean"]
    seed()
    algorithm.train_policy(25_000)
    after = algorithm.test_policy(n_trajectories=8, true_reward=False)["return_mean"]
    assert after > before / 2  # both are negative
    place = np.zeros((1, 1), np.float32)
    for _ in range(20):
        place = place + 0.2 * algorithm.policy.predict(place, deterministic=True)[0]
    assert abs(place.item() - 1.5) < 0.5


def test_test_policy_reports_either_reward(demos, quiet):
    venv = pendulum()
    algorithm = density(demos, venv, rl_algo=ppo(venv), custom_logger=quiet, is_stationary=False)
    algorithm.train()
    stats = {}
    for true_reward in (True, False):
        venv.seed(3)
        algorithm.rng = np.random.default_rng(3)
        stats[true_reward] = algorithm.test_policy(n_trajectories=2, true_reward=true_reward)
    assert stats[True]["return_mean"] == pytest.approx(stats[True]["monitor_return_mean"])
    assert stats[False]["monitor_return_mean"] == pytest.approx(stats[True]["return_mean"])
    venv.seed(3)
    trajectories = rollout.generate_trajectories(
        algorithm.rl_algo, venv, rollout.make_min_episodes(2), np.random.default_rng(3)
    )
    expected = [
        algorithm(t.obs[:-1], t.acts, t.obs[1:], None, np.arange(200)).sum() for t in trajectories
    ]
    assert stats[False]["return_mean"] == pytest.approx(np.mean(expected))


def test_test_policy_between_trainings_starts_new_episodes(demos, quiet):
    venv = pendulum()
    algorithm = density(demos, venv, rl_algo=ppo(venv), custom_logger=quiet)
    algorithm.train()
    algorithm.train_policy(200)  # half an episode
    algorithm.test_policy(n_trajectories=1)
    algorithm.train_policy(400)
    assert episode_states(venv)[0]["actions"] == []


def test_episodes_of_different_length_must_be_allowed(quiet):
    def train(leave):
        venv = DummyVecEnv([lambda: Counter((3, 5))] * 2)
        algorithm = density(
            [{"obs": np.zeros((4, 2)), "acts": np.arange(4) % 3}],
            venv,
            rl_algo=ppo(venv),
            custom_logger=quiet,
            allow_variable_horizon=leave,
        )
        algorithm.train()
        algorithm.train_policy(200)

    with pytest.raises(ValueError, match="allow_variable_horizon=True"):
        train(False)
    train(True)


@pytest.mark.parametrize("cls", [PPO, sb3.PPO])
def test_rewards_that_are_not_finite_stop_training(demos, quiet, cls):
    venv = pendulum()
    algorithm = density(
        demos, venv, rl_algo=ppo(venv, cls), kernel="tophat", kernel_bandwidth=0.01,
        custom_logger=quiet,
    )  # fmt: skip
    algorithm.train()
    with pytest.raises(ValueError, match="kernel: the density with kernel tophat"):
        algorithm.train_policy(200)


@pytest.mark.parametrize("cls", [PPO, sb3.PPO])
@pytest.mark.parametrize("stationary", [True, False])
def test_a_resumed_training_equals_an_uninterrupted_one(demos, quiet, tmp_path, cls, stationary):
    def make(given):
        venv = pendulum()
        return density(
            given, venv, rl_algo=ppo(venv, cls), is_stationary=stationary, custom_logger=quiet
        )

    def weights(algorithm):
        return th.nn.utils.parameters_to_vector(algorithm.policy.parameters())

    whole = make(demos)
    whole.train()
    whole.train_policy(300)
    save_state(tmp_path / "state", whole.state_dict())
    episodes = episode_states(whole.venv)
    seed()
    whole.train_policy(300)

    resumed = make(None)
    resumed.load_state_dict(load_state(tmp_path / "state"))
    restore_episodes(resumed.venv, episodes)
    seed()
    resumed.train_policy(300)
    assert th.equal(weights(resumed), weights(whole))
    assert resumed.rl_algo.num_timesteps == whole.rl_algo.num_timesteps


def test_states_of_other_arguments_are_refused(demos, quiet):
    plain = density(demos)
    venv = pendulum()
    with pytest.raises(ValueError, match="rl_algo: the state was made without one"):
        density(demos, venv, rl_algo=ppo(venv), custom_logger=quiet).load_state_dict(
            plain.state_dict()
        )
    with pytest.raises(ValueError, match="is_stationary"):
        density(demos, is_stationary=False).load_state_dict(plain.state_dict())


class Picture(gym.Env):
    """Images with their channels last; episodes take seven steps."""

    observation_space = spaces.Box(0, 255, (36, 38, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._observe(), {}

    def step(self, action):
        self.steps += 1
        return self._observe(), 1.0, False, self.steps == 7, {}

    def _observe(self):
        return self.np_random.integers(0, 256, (36, 38, 3), np.uint8)


@pytest.mark.parametrize("stationary", [True, False])
@pytest.mark.parametrize(
    "kind", [DensityType.STATE_ACTION_DENSITY, DensityType.STATE_STATE_DENSITY]
)
@pytest.mark.parametrize("cls", [PPO, sb3.PPO])
def test_a_policy_of_dictionary_observations_is_trained(quiet, cls, kind, stationary):
    venv = DummyVecEnv([lambda: DictCounter(Counter())] * 2)
    trajectories = rollout.generate_trajectories(
        None, venv, rollout.make_min_episodes(3), np.random.default_rng(0)
    )
    model = cls("MultiInputPolicy", venv, n_steps=8, batch_size=8, seed=0, device="cpu")
    algorithm = density(
        trajectories,
        venv,
        rl_algo=model,
        density_type=kind,
        is_stationary=stationary,
        custom_logger=quiet,
    )
    algorithm.train()
    before = th.nn.utils.parameters_to_vector(algorithm.policy.parameters())
    algorithm.train_policy(32)
    assert model.num_timesteps == 32
    assert not th.equal(th.nn.utils.parameters_to_vector(algorithm.policy.parameters()), before)
    learnt = algorithm.test_policy(n_trajectories=2, true_reward=False)
    assert np.isfinite(learnt["return_mean"])
    assert algorithm.test_policy(n_trajectories=2)["return_mean"] == 15


@pytest.mark.parametrize("cls", [PPO, sb3.PPO], ids=["lean", "sb3"])
def test_images_keep_the_environment_s_format(quiet, cls):
    venv = DummyVecEnv([Picture, Picture])
    venv.seed(0)
    until = rollout.make_min_episodes(4)
    demos = rollout.rollout(None, venv, until, np.random.default_rng(0), unwrap=False)
    options = {"n_steps": 8, "batch_size": 8, "n_epochs": 1, "policy_kwargs": {"net_arch": [8]}}
    algorithm = density(demos, venv, rl_algo=cls("MlpPolicy", venv, **options), custom_logger=quiet)
    algorithm.train()
    algorithm.train_policy(32)
    assert algorithm.test_policy(n_trajectories=2)["return_mean"] == 7.0
    learnt = algorithm.test_policy(n_trajectories=2, true_reward=False)
    assert np.isfinite(learnt["return_mean"])
    algorithm.train_policy(16)
