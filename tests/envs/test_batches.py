"""Steps of batches are those of the environments, bit for bit."""

import copy
import functools

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.envs.mujoco import hopper_v5
from seals.util import AbsorbAfterDoneWrapper, ObsCastWrapper  # registers the tasks
from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.sac.policies import SACPolicy

from imitbench.bench import environments
from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.protocol import Evaluation, Evaluator, samples_from_torch
from imitbench.cards.catalog import load_suite, suite_names
from imitbench.data.resumable_env import ResumableEnv, episode_states, restore_episodes
from imitbench.envs import batch_choice, classic_tasks, mujoco_tasks
from imitbench.envs.batch_choice import agrees, knows, make_batch
from imitbench.envs.batch_vec_env import BatchVecEnv
from imitbench.envs.mujoco_tasks import TASKS
from imitbench.experts.lookup import find_environment
from imitbench.policies.base import RandomPolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.rl.packed_ppo import OwnGenerators, PackedPPO
from imitbench.rl.ppo import PPO
from imitbench.util.serial_vec_env import SerialVecEnv

HOPPER = EnvironmentSpec(id="Hopper-v5", horizon="variable")
PENDULUM = EnvironmentSpec(id="Pendulum-v1")
CART_POLE = EnvironmentSpec(id="CartPole-v1", horizon="variable")
SHORT = EnvironmentSpec(id="MountainCar-v0", kwargs={"max_episode_steps": 60})


def bundled(suites, *, simulated):
    """Ids of the environments of suites, those of MuJoCo or all others."""
    ids = {env_id for name in suites for env_id in load_suite(name).environments}
    registered = {env_id: gym.registry.get(env_id.partition("+")[0]) for env_id in sorted(ids)}
    return [
        env_id
        for env_id, spec in registered.items()
        if spec is not None and ("mujoco" in str(spec.entry_point)) is simulated
    ]


ROBOTS = [env_id for env_id in bundled(suite_names(), simulated=True) if "+" not in env_id]
SMALL = bundled(["classic", "transfer"], simulated=False)
SUTTON = EnvironmentSpec(id="CartPole-v1", horizon="variable", kwargs={"sutton_barto_reward": True})
OTHERS = [CART_POLE, SUTTON, SHORT, find_environment("seals/CliffWorld7x4XY-v0")]


def stepped_singly(spec, count, seed):
    venv = SerialVecEnv([lambda: ResumableEnv(Monitor(make_environment(spec)))] * count)
    venv.seed_each(range(seed, seed + count))
    return venv


def actions_for(venv, steps, seed=0):
    rng, space = np.random.default_rng(seed), venv.action_space
    if isinstance(space, gym.spaces.Discrete):
        return rng.integers(space.n, size=(steps, venv.num_envs))
    drawn = rng.uniform(space.low, space.high, (steps, venv.num_envs, *space.shape))
    return drawn.astype(np.float32)


def assert_equal_steps(one, other):
    for found, expected in zip(one[:3], other[:3], strict=True):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    for found, expected in zip(one[3], other[3], strict=True):
        assert found.keys() == expected.keys()
        for name in found:
            if isinstance(found[name], np.integer):
                assert type(found[name]) is type(expected[name])
            if name == "episode":
                assert [found[name][key] for key in "rl"] == [expected[name][key] for key in "rl"]
            else:
                np.testing.assert_array_equal(found[name], expected[name])


def compare(spec, steps, count=2):
    venv, single = make_training_environments(spec, count, 3), stepped_singly(spec, count, 3)
    assert type(venv) is BatchVecEnv
    obs, ends = venv.reset(), 0
    np.testing.assert_array_equal(obs, single.reset())
    for number, actions in enumerate(actions_for(venv, steps)):
        if "MountainCar" in spec.id and number % 3:  # so that it reaches the goal
            actions = np.where(obs[:, 1] >= 0, 2, 0)
        found = venv.step(actions)
        assert_equal_steps(found, single.step(actions))
        obs, ends = found[0], ends + found[2].sum()
    return ends


@pytest.mark.parametrize("steps", [50, pytest.param(1001, marks=pytest.mark.slow)])
@pytest.mark.parametrize("env_id", ROBOTS)
def test_all_results_of_a_robot_are_those_of_its_step(env_id, steps):
    compare(find_environment(env_id), steps)


@pytest.mark.parametrize("env_id", SMALL)
def test_all_results_of_a_small_task_are_those_of_its_step(env_id):
    assert compare(find_environment(env_id), 2000, count=4) >= 16


@pytest.mark.parametrize("spec", OTHERS, ids=lambda spec: spec.id)
def test_all_results_of_a_similar_task_are_those_of_its_step(spec):
    assert compare(spec, 2000, count=11) > 11


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


@pytest.mark.parametrize(
    "spec", [HOPPER, PENDULUM, CART_POLE, find_environment("seals/CliffWorld7x4-v0"),
             find_environment("seals/MountainCar-v0"), find_environment("imitbench/PointMaze-v0")],
    ids=lambda spec: spec.id,
)  # fmt: skip
def test_episodes_are_resumed_in_either_kind_of_environment(spec):
    venv, single = make_training_environments(spec, 3, 0), stepped_singly(spec, 3, 0)
    for each in (venv, single):
        each.reset()
        for actions in actions_for(each, 70):
            each.step(actions)
    states = episode_states(venv)
    lengths = [len(state["actions"]) for state in states]
    assert len(set(lengths)) == (3 if spec.horizon == "variable" else 1)
    for one, other in zip(states, episode_states(single), strict=True):
        assert one["start"] == other["start"]
        np.testing.assert_array_equal(one["actions"], other["actions"])
        assert {type(action) for action in one["actions"]} <= {np.ndarray}
        np.testing.assert_array_equal(one["obs"], other["obs"])
    again, singly = make_training_environments(spec, 3, 9), stepped_singly(spec, 3, 9)
    again.reset()  # an episode that is dropped
    again.step(actions_for(again, 1)[0])
    for each in (again, singly):
        restore_episodes(each, states)
    for actions in actions_for(venv, 270, seed=1):
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


@pytest.mark.parametrize("env_id", SMALL)
def test_methods_see_the_current_state_of_a_small_task(env_id):
    spec = find_environment(env_id)
    venv = make_training_environments(spec, 3, 0)
    venv.reset()
    *before, last = actions_for(venv, 8)
    for actions in before:
        venv.step(actions)
    generators = venv.env_method("get_wrapper_attr", "np_random")
    copies = [copy.deepcopy(env) for env in venv.envs]
    assert [each.np_random for each in copies] != generators  # copies draw the same numbers
    obs, rewards, _, infos = venv.step(last)
    for row, env in enumerate(copies):
        found, reward, *_ = env.step(last[row])
        np.testing.assert_array_equal(infos[row].get("terminal_observation", obs[row]), found)
        assert np.float32(reward) == rewards[row]


def test_pictures_show_the_current_state():
    shown = EnvironmentSpec(id="Pendulum-v1", kwargs={"render_mode": "rgb_array"})
    venv, single = make_training_environments(shown, 3, 0), stepped_singly(shown, 3, 0)
    for each in (venv, single):
        each.reset()
    for actions in [None, *actions_for(venv, 2)]:
        for each in (venv, single) if actions is not None else ():
            each.step(actions)
        for one, other in zip(venv.get_images(), single.get_images(), strict=True):
            np.testing.assert_array_equal(one, other)
    assert not np.array_equal(*venv.get_images()[:2])


def test_a_car_stays_at_the_goal_after_methods():
    spec = find_environment("seals/MountainCar-v0")
    venv, single = make_training_environments(spec, 3, 0), stepped_singly(spec, 3, 0)
    obs = venv.reset()
    single.reset()
    for number in range(190):
        actions = np.where(obs[:, 1] >= 0, 2, 0)
        if number == 180:
            assert venv.env_method("get_wrapper_attr", "at_absorb_state") == [True] * 3
        found = venv.step(actions)
        assert_equal_steps(found, single.step(actions))
        obs = found[0]


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize(
    "spec", [HOPPER, CART_POLE, *map(find_environment, SMALL)], ids=lambda spec: spec.id
)
def test_evaluations_are_those_of_single_environments(spec, deterministic):
    found = []
    for wrap in (None, lambda env: env):
        with Evaluator(spec, 3, wrap=wrap) as evaluator:
            assert evaluator._batched is (wrap is None)
            policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
            found.append(
                evaluator.evaluate(policy, episodes=7, seed=1, deterministic=deterministic)
            )
    np.testing.assert_array_equal(found[0].returns, found[1].returns)
    np.testing.assert_array_equal(found[0].lengths, found[1].lengths)
    np.testing.assert_array_equal(found[0].terminated, found[1].terminated)
    assert found[0].returns.dtype == found[1].returns.dtype


def policies_of(spaces, count):
    th.manual_seed(0)
    return [ActorCriticPolicy(*spaces, lambda _: 0.0, net_arch=[8]) for _ in range(count)]


@pytest.mark.parametrize("spec", [HOPPER, PENDULUM, CART_POLE], ids=lambda spec: spec.id)
def test_evaluations_together_are_those_of_single_environments(spec):
    found = []
    for wrap in (None, lambda env: env):
        with Evaluator(spec, 3, wrap=wrap) as evaluator:
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


plain = functools.partial(gym.make, disable_env_checker=True)


class Tamed(hopper_v5.HopperEnv):
    def control_cost(self, action):
        return 0.0


class Turned(PendulumEnv):
    def _get_obs(self):
        return -super()._get_obs()


class Doubled(gym.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def another_integrator():
    env = plain("CartPole-v1")
    env.unwrapped.kinematics_integrator = "semi-implicit"
    return env


def another_end(**settings):
    """A car that stays at the goal with other settings."""
    return AbsorbAfterDoneWrapper(plain("MountainCar-v0"), **settings)


@pytest.mark.parametrize(
    "make",
    [
        Tamed,
        Turned,
        lambda: Doubled(hopper_v5.HopperEnv()),
        lambda: Doubled(plain("Pendulum-v1")),
        lambda: plain("Hopper-v5", render_mode="human"),
        lambda: plain("Acrobot-v1"),
        lambda: plain("MountainCarContinuous-v0"),
        lambda: plain("Reacher-v5"),
        another_integrator,
        lambda: another_end(absorb_reward=1.0),
        lambda: another_end(absorb_obs=np.zeros(2, np.float32)),
        lambda: gym.wrappers.TimeLimit(another_end(), 300),  # but the car is stopped after 200
        lambda: AbsorbAfterDoneWrapper(Doubled(plain("MountainCar-v0"))),
        lambda: AbsorbAfterDoneWrapper(
            ObsCastWrapper(plain("MountainCar-v0"), dtype=np.float64)
        ),
        lambda: AbsorbAfterDoneWrapper(plain("CartPole-v1")),
    ],
    ids=["another cost", "another observation", "another wrapper", "a small task's wrapper",
         "a window", "Acrobot", "continuous actions", "another task", "another integrator",
         "another last reward", "another last observation", "an inner limit", "an inner wrapper",
         "another precision", "another task that stays"],
)  # fmt: skip
def test_what_batches_do_not_know_is_stepped_singly(make):
    assert not knows(make())


@pytest.mark.parametrize("action", [-1, 2])
def test_an_action_that_does_not_exist_is_an_error(action):
    envs = [make_environment(CART_POLE) for _ in range(3)]
    batch = make_batch(envs)
    for number, env in enumerate(envs):
        env.reset(seed=number)
        batch.load(number)
    with pytest.raises(ValueError, match="actions are numbers from 0 to 1"):
        batch.step(np.array([0, action, 1]))


def test_few_environments_of_a_small_task_are_stepped_singly():
    assert type(make_training_environments(PENDULUM, 2, 0)) is SerialVecEnv
    assert type(make_training_environments(PENDULUM, 3, 0)) is BatchVecEnv


def test_a_subclass_with_other_arguments_is_known():
    """As the tasks of seals are."""

    class Calm(hopper_v5.HopperEnv):
        __init__ = functools.partialmethod(hopper_v5.HopperEnv.__init__, reset_noise_scale=0.0)

    assert knows(Calm())


class Free(TASKS["HopperEnv"]):
    def control_cost(self, actions):
        return 0 * actions[:, 0]


@pytest.mark.parametrize(
    ("spec", "patched"),
    [
        (HOPPER, (mujoco_tasks, "TASKS", {"HopperEnv": Free})),
        (PENDULUM, (classic_tasks, "_squares", lambda values: (1.001 * values**2).tolist())),
    ],
    ids=["robot", "small task"],
)
def test_where_the_formulas_differ_the_environment_steps_itself(spec, patched, monkeypatch, capsys):
    monkeypatch.setattr(*patched)
    monkeypatch.setattr(environments, "_in_batches", {})
    for _ in range(2):
        assert type(make_training_environments(spec, 3, 0)) is SerialVecEnv
    with Evaluator(spec, 3) as evaluator:
        assert not evaluator._batched
    assert capsys.readouterr().err.count("differ from the environment's own") == 1


def test_without_the_simulators_batches_environments_step_themselves(monkeypatch):
    monkeypatch.setattr(batch_choice, "find_spec", lambda _name: None)
    assert type(make_training_environments(HOPPER, 2, 0)) is SerialVecEnv


def test_the_checked_environment_agrees_after_it_has_ended():
    make = functools.partial(plain, "Hopper-v5", healthy_z_range=(1.2, 9))  # ends often
    assert agrees(make)
    env = make()
    batch = make_batch([env])
    env.reset(seed=0)
    batch.load(0)
    assert batch.step(np.zeros((1, 3), np.float32)).terminated.dtype == bool


@pytest.mark.parametrize("spec", [PENDULUM, CART_POLE], ids=lambda spec: spec.id)
@pytest.mark.parametrize("seeds", [1, 2])
def test_training_is_that_with_single_environments(spec, seeds, monkeypatch):
    found = []
    for batched in (True, False):
        if not batched:
            monkeypatch.setattr(environments, "stepped_in_batches", lambda *_: False)
        venv = environments.make_packed_environments(spec, 4, range(seeds))
        assert type(venv) is (BatchVecEnv if batched else SerialVecEnv)
        members = [
            PPO("MlpPolicy", make_training_environments(spec, 4, seed), seed=seed, n_steps=64,
                batch_size=32, n_epochs=2, device="cpu")
            for seed in range(seeds)
        ]  # fmt: skip
        if seeds == 1:
            members[0].set_env(venv)
            members[0].learn(512)
        else:
            packed = PackedPPO(members, venv, [OwnGenerators() for _ in members])
            packed.learn(512, [CallbackList([]) for _ in members])
        found.append([values for ppo in members for values in ppo.policy.state_dict().values()])
    for one, other in zip(*found, strict=True):
        assert th.equal(one, other)
