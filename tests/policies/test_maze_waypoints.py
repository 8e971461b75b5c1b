"""The planner of mazes: it reaches the goal, takes different routes, and can be asked anywhere."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import load_suite
from imitbench.experts.measurement import REFERENCE_SEED
from imitbench.policies.maze_waypoints import MazeMap, MazeWaypointPolicy
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.runs import EnvironmentSpec

OBSERVATIONS = spaces.Box(-np.inf, np.inf, (6,), np.float64)
ACTIONS = spaces.Box(-1, 1, (2,), np.float32)
RING = "#####/#...#/#.#.#/#...#/#####"


def planner(maze=RING, **settings):
    return MazeWaypointPolicy(OBSERVATIONS, ACTIONS, maze=maze, **settings)


def observation(goal, point, velocity=(0, 0)):
    return np.array([*goal, *point, *velocity], dtype=np.float64)


def test_paths_are_all_simple_ones_within_the_slack():
    maze = MazeMap(RING)
    assert maze.paths((1, 1), (1, 3), 0) == [[(1, 1), (1, 2), (1, 3)]]
    longer = maze.paths((1, 1), (1, 3), 4)
    assert longer[1:] == [[(1, 1), (2, 1), (3, 1), (3, 2), (3, 3), (2, 3), (1, 3)]]
    assert len(maze.paths((1, 1), (3, 3), 0)) == 2


def test_cells_and_positions_agree():
    maze = MazeMap("####/#..#/####")
    assert maze.cell_at(np.array([-0.9, 0.4])) == (1, 1)
    np.testing.assert_array_equal(maze.middle(maze.number((1, 2))), [0.5, 0.0])
    assert maze.cell_at(np.array([0.3, 0.9])) == (1, 2), "inside a wall: the closest free cell"


def test_both_ways_around_an_obstacle_are_taken():
    th.manual_seed(0)
    starts = np.tile(observation(goal=(1, -1), point=(-1, 1)), (200, 1))
    actions, _ = planner(noise=0.0, lane=0.0).predict(starts)
    right = actions[:, 0] > 0.5
    down = actions[:, 1] < -0.5
    assert np.all(right != down)
    assert 70 <= right.sum() <= 130


def test_a_detour_begins_away_from_the_goal():
    th.manual_seed(0)
    starts = np.tile(observation(goal=(1, 0), point=(0, 0)), (200, 1))
    policy = planner("#####/#...#/#####", detour=1.0, noise=0.0, lane=0.0)
    actions, _ = policy.predict(starts)
    away = (actions[:, 0] < 0).sum()  # the random cell is one of three
    assert 45 <= away <= 90


def test_most_likely_actions_depend_on_the_observation_alone():
    policy = planner(slack=4, detour=1.0)
    obs = np.stack([observation((1, -1), (-1, 1)), observation((1, -1), (1, 0.2), (0.5, 0))])
    fresh, _ = policy.predict(obs, deterministic=True)
    _, state = policy.predict(obs)
    later, _ = policy.predict(obs, state, np.zeros(2, bool), deterministic=True)
    np.testing.assert_array_equal(fresh, later)
    assert fresh.dtype == np.float32


def test_a_point_beside_its_route_goes_on_from_where_it_is():
    policy = planner(noise=0.0, lane=0.0)
    th.manual_seed(1)
    _, state = policy.predict(observation((1, 1), (-1, 1))[None])
    actions, state = policy.predict(observation((1, 1), (0, -1))[None], state, np.zeros(1, bool))
    cells = [divmod(int(number), 5) for number in state[0][0] if number >= 0]
    assert (cells[0], cells[-1], len(cells)) == ((3, 2), (1, 3), 4)
    assert abs(actions[0, 0]) == pytest.approx(0.7)


def test_it_is_stored_with_its_settings(tmp_path):
    policy = planner(slack=3, detour=0.25, noise=0.1)
    save_policy(policy, tmp_path)
    again = load_policy(tmp_path)
    assert isinstance(again, MazeWaypointPolicy)
    assert again.settings == policy.settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"maze": "##/#"}, "maze: must be rows of equal length"),
        ({"maze": "#.#.#"}, "maze: its free cells must be connected"),
        ({"maze": "/".join(["." * 30] * 30)}, "maze: must have at most 400 cells"),
        ({"maze": RING, "slack": 0.5}, "slack: must be a whole number"),
        ({"maze": RING, "detour": 2}, "detour: must be 0 to 1"),
        ({"maze": RING, "noise": "much"}, "noise: must be a number"),
    ],
)
def test_invalid_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        planner(**settings)


def test_wrong_spaces_are_named():
    with pytest.raises(ValueError, match="observation_space: must be a Box of 6 numbers"):
        MazeWaypointPolicy(ACTIONS, ACTIONS, maze=RING)


@pytest.mark.parametrize(
    "env_id",
    [
        "PointMaze_UMaze-v3",
        pytest.param("PointMaze_Medium-v3", marks=pytest.mark.slow),
        pytest.param("PointMaze_Large-v3", marks=pytest.mark.slow),
    ],
)
def test_the_expert_of_the_suite_reaches_the_goal(env_id):
    pytest.importorskip("gymnasium_robotics", reason="needs the extra robotics")
    suite = load_suite("maze")
    card = suite.environments[env_id]
    policy = load_policy(suite.origin.folder / "experts" / card.expert.repo)
    with Evaluator(EnvironmentSpec.of_card(env_id, card), 25) as evaluator:
        found = evaluator.evaluate(policy, episodes=100, seed=REFERENCE_SEED, deterministic=False)
    assert found.success_rate >= 0.95
    np.testing.assert_array_equal(found.returns, found.success)
    assert found.terminated.mean() == found.success_rate
