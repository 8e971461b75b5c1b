"""The expert of PushT: its simulation, its plans, and what it demonstrates."""

import importlib.util
import math

import gymnasium as gym
import numpy as np
import pytest
import torch as th

from imitbench.bench.artifacts import ArtifactLocation
from imitbench.bench.environments import make_environment
from imitbench.bench.seeding import derive_seed
from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.errors import InputError
from imitbench.experts.demonstrations import sample_demonstrations
from imitbench.policies.base import RandomPolicy
from imitbench.policies.pusht_planner import PushTPlannerPolicy
from imitbench.policies.pusht_pushes import MOST_STEPS, PushSettings, plan_pushes
from imitbench.policies.pusht_world import GOAL_OUTLINE, PushTState, PushTWorld, placed_outline
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.runs import EnvironmentSpec

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("gym_pusht") is None,
    reason="gym-pusht is missing: pip install 'imitbench[pusht]'",
)
PUSHT = "gym_pusht/PushT-v0"
CARD = load_suite("pusht").environments[PUSHT]
SPEC = EnvironmentSpec.of_card(PUSHT, CARD)
DEMOS = suite_directory("pusht") / "demos" / CARD.demos.repo


@pytest.fixture(scope="module")
def env():
    made = make_environment(SPEC)
    yield made
    made.close()


@pytest.fixture(scope="module")
def world():
    return PushTWorld()


def planner(env, **settings):
    return PushTPlannerPolicy(env.observation_space, env.action_space, **settings)


def drive(env, target, goal, steps):
    """Moves the target towards a point; returns where it is then."""
    for _ in range(steps):
        target = np.clip(target + np.clip(goal - target, -20, 20), 0, 512).astype(np.float32)
        env.step(target)
    return target


def test_a_restored_simulation_goes_on_as_the_environment_does(env, world):
    """Contacts begin in it, but none is there at the start."""
    rng = np.random.default_rng(0)
    moved = 0
    for seed in range(6):
        observation, _ = env.reset(seed=seed)
        drive(env, observation[:2], observation[:2] + rng.normal(0, 40, 2), 3)
        state = PushTState.of_environment(env)
        if math.dist(state.agent, state.block) < 150:  # perhaps in contact
            continue
        assert any(state.velocity)
        world.restore(state)
        assert world.state() == state
        target = np.array(state.agent)
        for _ in range(25):
            target = target + np.clip(np.array(state.block) - target, -20, 20)
            seen, *_ = env.step(target)
            world.advance(target)
        after = world.state()
        expected = (*after.agent, *after.block, after.angle % (2 * math.pi))
        np.testing.assert_allclose(seen, expected, rtol=0, atol=1e-3)  # contacts amplify rounding
        moved += math.dist(after.block, state.block) > 5
    assert moved >= 2


def test_the_simulation_forgets_what_it_did_before(world):
    states = [PushTState((100.0, 100.0), (0.0, 0.0), (250.0, 200.0), 0.5)] * 2
    found = []
    for state in states:
        world.restore(state)
        for _ in range(12):
            world.advance((300.0, 260.0))
        found.append(world.state())
    assert found[0] == found[1]
    assert found[0].block != states[0].block


def test_success_and_error_are_those_of_the_environment(env, world):
    at_goal = PushTState((50.0, 50.0), (0.0, 0.0), (256.0, 256.0), math.pi / 4)
    np.testing.assert_allclose(placed_outline(256, 256, math.pi / 4), GOAL_OUTLINE)
    for shift, solved in ((0.0, True), (1.0, True), (4.0, False), (30.0, False)):
        block = (256.0 + shift, 256.0)
        world.restore(PushTState(at_goal.agent, at_goal.velocity, block, at_goal.angle))
        assert world.error() == pytest.approx(shift, abs=1e-6)
        assert world.solved() == solved
        env.reset(seed=0)
        inner = env.unwrapped
        inner.block.angle, inner.block.position = at_goal.angle, block
        inner.agent.position = at_goal.agent
        *_, info = env.step(np.array(at_goal.agent, np.float32))
        assert info["is_success"] == solved


def test_plans_lower_the_error_in_several_ways(world):
    state = PushTState((100.0, 400.0), (0.0, 0.0), (300.0, 150.0), 1.0)
    settings = PushSettings(samples=60)
    plans = plan_pushes(world, state, settings, np.random.default_rng(0))
    world.restore(state)
    before = world.error()
    assert [plan.cost for plan in plans] == sorted(plan.cost for plan in plans)
    assert plans[0].cost < before - 10
    for plan in plans:
        steps = len(plan.targets)
        assert (plan.targets.shape, plan.expected.shape) == ((steps, 2), (steps, 5))
        assert steps <= MOST_STEPS
        assert np.array_equal(plan.targets * 2, np.round(plan.targets * 2))
    starts = {tuple(np.round(plan.targets[-6] / 20)) for plan in plans}
    assert len(starts) > 1
    again = plan_pushes(world, state, settings, np.random.default_rng(0))
    assert all(np.array_equal(a.targets, b.targets) for a, b in zip(plans, again, strict=True))


def roll(policy, env, seed, *, deterministic):
    observation, _ = env.reset(seed=seed)
    state, start, actions = None, np.array([True]), []
    while True:
        action, state = policy.predict(observation[None], state, start, deterministic=deterministic)
        actions.append(action[0])
        start = np.array([False])
        observation, _, terminated, truncated, info = env.step(action[0])
        if terminated or truncated:
            return info["is_success"], np.array(actions)


def test_the_planner_succeeds_in_different_ways(env):
    policy = planner(env)
    found = []
    for seed in (0, 1):
        th.manual_seed(seed)
        found.append(roll(policy, env, 38, deterministic=False))
    assert all(success for success, _ in found)
    assert not np.array_equal(found[0][1], found[1][1])


def test_where_a_plan_fails_another_is_made(env):
    """Without random numbers, a plan depends on the observation alone."""
    policy = planner(env, samples=40)
    (observation, _), (elsewhere, _) = env.reset(seed=1), env.reset(seed=2)
    first, state = policy.predict(observation[None], deterministic=True)
    env.reset(seed=1)
    as_planned, *_ = env.step(first[0])
    on, _ = policy.predict(as_planned[None], state, np.array([False]), deterministic=True)
    assert np.array_equal(on[0], state[0][0, 1])
    anew, _ = policy.predict(elsewhere[None], state, np.array([False]), deterministic=True)
    assert np.array_equal(anew, policy.predict(elsewhere[None], deterministic=True)[0])
    assert not np.array_equal(anew, on)


def test_the_stored_planner_is_the_same(env, tmp_path):
    policy = planner(env, samples=40, temperature=0.25)
    save_policy(policy, tmp_path / "policy")
    loaded = load_policy(tmp_path / "policy")
    assert loaded.settings == policy.settings
    observation, _ = env.reset(seed=5)
    one, two = (each.predict(observation, deterministic=True)[0] for each in (policy, loaded))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"samples": 1.5}, "samples: must be 30 to 10000"),
        ({"samples": 40.5}, "samples: must be a whole number"),
        ({"temperature": 0}, "temperature: must be 0.001 to 100, not 0"),
        ({"push_speed": "fast"}, "push_speed: must be a number, not 'fast'"),
    ],
)
def test_wrong_settings_are_told(env, settings, line):
    with pytest.raises(ValueError, match=line):
        planner(env, **settings)


def test_other_spaces_are_told(env):
    with pytest.raises(ValueError, match="observation_space: must be a Box of 5 numbers"):
        PushTPlannerPolicy(gym.spaces.Box(0, 1, (2,)), env.action_space)


def test_the_demonstrations_succeed_when_they_are_replayed(env):
    """Their seeds are those of the collection's environments."""
    demos = read_demonstrations(DEMOS)
    assert {float(demo.rews[-1]) for demo in demos} == {1.0}  # which only a success gets
    seed = derive_seed(CARD.demos.seed, "demonstrations")
    by_start = {tuple(np.round(demo.obs[0], 3)): demo for demo in demos}
    replayed = 0
    for number in range(8):
        observation, _ = env.reset(seed=seed + number)
        demo = by_start.get(tuple(np.round(observation.astype(np.float32), 3)))
        if demo is None:
            continue
        for step, action in enumerate(demo.acts):
            observation, _, terminated, _, info = env.step(action)
            np.testing.assert_allclose(observation, demo.obs[step + 1], rtol=1e-5)
            assert terminated == (step == len(demo.acts) - 1)
        assert info["is_success"]
        replayed += 1
    assert replayed


def test_demonstrations_start_in_several_ways():
    """Several directions, from where the agent is, relative to the block."""
    turns = []
    for demo in read_demonstrations(DEMOS):
        to_block = np.arctan2(*(demo.obs[0, 2:4] - demo.obs[0, :2])[::-1])
        heading = np.arctan2(*(demo.obs[6, :2] - demo.obs[0, :2])[::-1])
        turns.append(np.angle(np.exp(1j * (heading - to_block))))
    assert min(np.mean(np.array(turns) > 0.3), np.mean(np.array(turns) < -0.3)) > 0.2


def test_episodes_without_success_are_no_demonstrations(env):
    policy = RandomPolicy(env.observation_space, env.action_space)
    short = SPEC.model_copy(update={"kwargs": {"max_episode_steps": 3}})
    with pytest.raises(InputError, match="only 0 of 10 episodes of the expert succeed"):
        sample_demonstrations(policy, short, 2, seed=0, success=CARD.success)


def test_the_bundled_expert_is_the_planner_of_the_card():
    location = ArtifactLocation(suite_directory("pusht"), "experts", "bundled", CARD.expert.repo)
    settings = load_policy(location.folder).settings
    assert settings == CARD.expert.hyperparameters
