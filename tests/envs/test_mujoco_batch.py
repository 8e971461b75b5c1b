"""Steps of MuJoCo's batches are those of the environments, bit for bit."""

import functools

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers the tasks)
import torch as th
from gymnasium.envs.mujoco import hopper_v5
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy

from imitbench.bench import environments
from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.protocol import Evaluation, Evaluator, samples_from_torch
from imitbench.cards.catalog import load_suite, suite_names
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.envs import mujoco_batch
from imitbench.envs.mujoco_batch import MujocoBatch, agrees, knows
from imitbench.envs.mujoco_tasks import TASKS
from imitbench.envs.mujoco_vec_env import MujocoVecEnv
from imitbench.experts.lookup import find_environment
from imitbench.policies.base import RandomPolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.serial_vec_env import SerialVecEnv

N_ENVS = 2
HOPPER = EnvironmentSpec(id="Hopper-v5", horizon="variable")


def bundled_tasks():
    """Ids of the MuJoCo tasks of all bundled suites."""
    ids = {env_id for name in suite_names() for env_id in load_suite(name).environments}
    known = [gym.registry[env_id] for env_id in sorted(ids) if env_id in gym.registry]
    return [spec.id for spec in known if "mujoco" in str(spec.entry_point)]


def stepped_singly(spec, count, seed):
    venv = SerialVecEnv([lambda: ResumableEnv(Monitor(make_environment(spec)))] * count)
    venv.seed_each(range(seed, seed + count))
    return venv


def actions_for(venv, steps, seed=0):
    low, high = venv.action_space.low, venv.action_space.high
    drawn = np.random.default_rng(seed).uniform(low, high, (steps, venv.num_envs, len(low)))
    return drawn.astype(np.float32)


def assert_equal_steps(one, other):
    for found, expected in zip(one[:3], other[:3], strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(one[3], other[3], strict=True):
        assert found.keys() == expected.keys()
        for name in found:
            if name == "episode":
                assert [found[name][key] for key in "rl"] == [expected[name][key] for key in "rl"]
            else:
                np.testing.assert_array_equal(found[name], expected[name])


def compare(spec, steps):
    venv, single = make_training_environments(spec, N_ENVS, 3), stepped_singly(spec, N_ENVS, 3)
    assert type(venv) is MujocoVecEnv
    np.testing.assert_array_equal(venv.reset(), single.reset())
    for actions in actions_for(venv, steps):
        assert_equal_steps(venv.step(actions), single.step(actions))


@pytest.mark.parametrize("steps", [50, pytest.param(1001, marks=pytest.mark.slow)])
@pytest.mark.parametrize("env_id", bundled_tasks())
def test_all_results_of_a_bundled_task_are_those_of_its_step(env_id, steps):
    compare(find_environment(env_id), steps)


def test_a_time_limit_ends_episodes():
    compare(EnvironmentSpec(id="HalfCheetah-v5", kwargs={"max_episode_steps": 20}), 50)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
@pytest.mark.parametrize("version", ["v4", "v5"])
@pytest.mark.parametrize("name", [name.removesuffix("Env") for name in TASKS])
def test_all_results_of_a_task_of_gymnasium_are_those_of_its_step(name, version):
    compare(EnvironmentSpec(id=f"{name}-{version}", horizon="variable"), 1001)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")
def test_contact_forces_of_the_older_ant_are_those_of_its_step():
    kwargs = {"use_contact_forces": True}
    compare(EnvironmentSpec(id="Ant-v4", horizon="variable", kwargs=kwargs), 500)


def test_short_episodes_begin_again_at_different_times():
    venv, single = make_training_environments(HOPPER, 3, 0), stepped_singly(HOPPER, 3, 0)
    np.testing.assert_array_equal(venv.reset(), single.reset())
    ends = []
    for actions in actions_for(venv, 150):
        found, expected = venv.step(actions), single.step(actions)
        assert_equal_steps(found, expected)
        ends.append(found[2])
    assert {1} <= set(np.sum(ends, axis=1))  # one alone
    # The actions of the longest current episode are kept, no more.
    assert len(venv._actions) == venv._lengths.max()


@pytest.fixture
def two_threads():
    environments.use_simulator_threads(2)
    yield
    environments.use_simulator_threads(1)


def test_the_number_of_threads_changes_nothing(request):
    single = make_training_environments(HOPPER, 4, 0)
    request.getfixturevalue("two_threads")
    threaded = make_training_environments(HOPPER, 4, 0)
    assert (single._batch.threads, threaded._batch.threads) == (1, 2)
    np.testing.assert_array_equal(single.reset(), threaded.reset())
    for actions in actions_for(single, 60):
        assert_equal_steps(single.step(actions), threaded.step(actions))


def test_episodes_are_resumed_in_either_kind_of_environment():
    venv, single = make_training_environments(HOPPER, 3, 0), stepped_singly(HOPPER, 3, 0)
    for each in (venv, single):
        each.reset()
        for actions in actions_for(each, 70):
            each.step(actions)
    states = episode_states(venv)
    lengths = [len(state["actions"]) for state in states]
    assert len(set(lengths)) == 3
    for one, other in zip(states, episode_states(single), strict=True):
        assert one["start"] == other["start"]
        np.testing.assert_array_equal(one["actions"], other["actions"])
        np.testing.assert_array_equal(one["obs"], other["obs"])
    again, singly = make_training_environments(HOPPER, 3, 9), stepped_singly(HOPPER, 3, 9)
    again.reset()  # an episode that is dropped
    again.step(actions_for(again, 1)[0])
    for each in (again, singly):
        restore_episodes(each, states)
    for actions in actions_for(venv, 70, seed=1):
        expected = venv.step(actions)
        assert_equal_steps(again.step(actions), expected)
        assert_equal_steps(singly.step(actions), expected)


def test_methods_see_the_current_state_and_may_change_it():
    venv = make_training_environments(HOPPER, 2, 0)
    venv.reset()
    obs = [venv.step(actions)[0] for actions in actions_for(venv, 5)][-1]
    states = venv.env_method("state_vector")
    np.testing.assert_array_equal(np.array(states)[:, 1:], obs)  # no velocity is clipped yet
    inner = venv.envs[1].unwrapped
    venv.env_method("set_state", inner.init_qpos, inner.init_qvel, indices=1)
    still = np.zeros_like(venv.action_space.sample())
    singly = hopper_v5.HopperEnv()
    singly.reset(seed=0)
    singly.set_state(inner.init_qpos, inner.init_qvel)
    np.testing.assert_allclose(
        venv.step(np.stack([still] * 2))[0][1], singly.step(still)[0], atol=1e-9
    )
    ((obs, _),) = venv.env_method("reset", seed=4, indices=0)
    after = venv.step(np.stack([still] * 2))[0][0]
    singly.reset(seed=4)
    np.testing.assert_array_equal(after, singly.step(still)[0])


@pytest.mark.parametrize("deterministic", [True, False])
def test_evaluations_are_those_of_single_environments(deterministic):
    found = []
    for wrap in (None, lambda env: env):
        with Evaluator(HOPPER, 3, wrap=wrap) as evaluator:
            policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
            found.append(
                evaluator.evaluate(policy, episodes=7, seed=1, deterministic=deterministic)
            )
    np.testing.assert_array_equal(found[0].returns, found[1].returns)
    np.testing.assert_array_equal(found[0].lengths, found[1].lengths)
    np.testing.assert_array_equal(found[0].terminated, found[1].terminated)


def policies_of(spaces, count):
    th.manual_seed(0)
    return [ActorCriticPolicy(*spaces, lambda _: 0.0, net_arch=[8]) for _ in range(count)]


def test_evaluations_together_are_those_of_single_environments():
    found = []
    for wrap in (None, lambda env: env):
        with Evaluator(HOPPER, 3, wrap=wrap) as evaluator:
            spaces = evaluator.observation_space, evaluator.action_space
            one, other = policies_of(spaces, 2)
            asked = [
                Evaluation(one, 7, 1, False),
                Evaluation(one, 7, 1, True),
                Evaluation(other, 2, 5, False),  # fewer episodes than environments
                Evaluation(RandomPolicy(*spaces), 4, 1, False),
            ]
            # The last policy draws from its action space, and is evaluated alone.
            found.append(evaluator.evaluate_all(asked[:3]) + evaluator.evaluate_all(asked[3:]))
            found.append(evaluator.evaluate_all(asked))
            alone = [evaluator.evaluate_all([each])[0] for each in asked]
            found.append(alone)
    assert len({episodes.returns.tobytes() for episodes in alone}) == len(alone)
    for episodes in found:
        for one, other in zip(episodes, alone, strict=True):
            np.testing.assert_array_equal(one.returns, other.returns)
            np.testing.assert_array_equal(one.lengths, other.lengths)
            np.testing.assert_array_equal(one.terminated, other.terminated)
            assert one.deterministic == other.deterministic


@pytest.mark.parametrize("sde", [False, True])
def test_policies_that_hold_noise_are_evaluated_alone(sde):
    env = gym.make("Hopper-v5")
    spaces = env.observation_space, env.action_space
    assert samples_from_torch(ActorCriticPolicy(*spaces, lambda _: 0.0, use_sde=sde)) is not sde
    assert samples_from_torch(SACPolicy(*spaces, lambda _: 0.0, use_sde=sde)) is not sde
    assert not samples_from_torch(RandomPolicy(*spaces))


class Tamed(hopper_v5.HopperEnv):
    def control_cost(self, action):
        return 0.0


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


@pytest.mark.parametrize(
    "make",
    [
        Tamed,
        lambda: Doubled(hopper_v5.HopperEnv()),
        lambda: gym.make("Hopper-v5", render_mode="human"),
        lambda: gym.make("Pendulum-v1"),
        lambda: gym.make("Reacher-v5"),
    ],
    ids=["another cost", "another wrapper", "a window", "no simulator", "another task"],
)
def test_what_batches_do_not_know_is_stepped_singly(make):
    assert not knows(make())


def test_a_subclass_with_other_arguments_is_known():
    """As the tasks of seals are."""

    class Calm(hopper_v5.HopperEnv):
        __init__ = functools.partialmethod(hopper_v5.HopperEnv.__init__, reset_noise_scale=0.0)

    assert knows(Calm())


def test_where_the_formulas_differ_the_environment_steps_itself(monkeypatch, capsys):
    other = EnvironmentSpec(id="Hopper-v5", horizon="variable", kwargs={"ctrl_cost_weight": 0.5})

    class Free(TASKS["HopperEnv"]):
        def control_cost(self, actions):
            return 0 * actions[:, 0]

    monkeypatch.setattr(mujoco_batch, "task_of", lambda _env: Free)
    monkeypatch.setattr(environments, "_in_batches", {})
    for _ in range(2):
        assert type(make_training_environments(other, 2, 0)) is SerialVecEnv
    assert capsys.readouterr().err.count("differ from the environment's own") == 1


def test_without_the_simulators_batches_environments_step_themselves(monkeypatch):
    monkeypatch.setattr(mujoco_batch, "find_spec", lambda _name: None)
    assert type(make_training_environments(HOPPER, 2, 0)) is SerialVecEnv


def test_the_checked_environment_agrees_after_it_has_ended():
    env = gym.make("Hopper-v5", healthy_z_range=(1.2, 9))  # ends at once and often
    assert agrees(env)
    batch = MujocoBatch([env.unwrapped])
    env.reset(seed=0)
    batch.load(0)
    assert batch.step(np.zeros((1, 3), np.float32)).terminated.dtype == bool
