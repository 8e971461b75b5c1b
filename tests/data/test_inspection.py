import dataclasses
import json
import re

import gymnasium as gym
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from imitbench.data.conversion import convert_demonstrations, export_demonstrations
from imitbench.data.demonstrations import write_demonstrations
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.data.trajectory_source import MemorySource


def inspect(trajectories, **options):
    return inspect_demonstrations(MemorySource(trajectories, where="made", form="list"), **options)


def cartpole(steps, *, terminal=True, scale=0.01):
    obs = np.full((steps + 1, 4), scale, np.float32)
    return TrajectoryWithRew(obs, np.ones(steps, int), None, terminal, np.ones(steps))


@pytest.fixture(scope="module")
def environment():
    return gym.make("CartPole-v1")


def test_a_good_data_set_has_no_findings(environment):
    found = inspect([cartpole(500), cartpole(12)], environment=environment)
    assert (found.rows, found.steps, found.problems, found.notes) == (2, 512, [], [])


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"obs": np.full((13, 4), np.nan, np.float32)}, "observations are not finite at step 0"),
        ({"obs": np.zeros((13, 3), np.float32)}, r"observations have shape \(3,\)"),
        ({"acts": np.full(12, 2)}, "actions hold 2 at step 0"),
        ({"acts": np.full(12, 0.5)}, "actions have data type float64"),
        ({"rews": np.full(12, np.inf)}, "rewards are not finite"),
    ],
)
def test_each_wrong_row_is_named(environment, changed, problem):
    bad = dataclasses.replace(cartpole(12), **changed)
    made = [cartpole(12), bad, cartpole(12), bad]
    found = inspect(made, environment=environment)
    assert [text.split(":")[0] for text in found.problems] == ["episode 1", "episode 3"]
    assert re.search(problem, found.problems[0])


@pytest.mark.parametrize("text", ["csv", "jsonl"])
def test_sets_that_conversion_accepts_have_no_problem(text, environment, tmp_path):
    made = [
        dataclasses.replace(trajectory, acts=trajectory.acts.reshape(-1, 1))
        for trajectory in (cartpole(12), cartpole(9, scale=0.0))
    ]
    path = tmp_path / f"set.{text}"
    if text == "csv":
        export_demonstrations(MemorySource(made, where="made", form="list"), path)
    else:
        lines = [{"obs": t.obs.tolist(), "acts": t.acts.tolist()} for t in made]
        lines[1]["obs"] = np.zeros((10, 4), int).tolist()
        path.write_text("\n".join(map(json.dumps, lines)))
    source = open_trajectories(path)
    assert convert_demonstrations(source, tmp_path / "converted", environment=environment).rows == 2
    assert inspect_demonstrations(source, environment=environment).problems == []


def test_sets_that_trainings_read_are_checked_as_they_are(environment, tmp_path):
    made = [dataclasses.replace(cartpole(12), acts=np.ones(12))]
    write_demonstrations(tmp_path, made)
    found = inspect_demonstrations(open_trajectories(tmp_path), environment=environment)
    assert "actions have data type float32" in found.problems[0]


def test_episode_ends_are_checked_against_the_time_limit(environment):
    made = [
        cartpole(500, terminal=False), cartpole(501), cartpole(20, terminal=False), cartpole(500)
    ]  # fmt: skip
    found = inspect(made, environment=environment)
    assert len(found.problems) == 2
    assert "episode 0: not marked as the end of an episode" in found.problems[0]
    assert (
        "episode 1: 501 steps, but episodes of the environment end after 500" in found.problems[1]
    )
    assert any("2 of 4 trajectories" in note for note in found.notes)
    assert inspect(made).problems == []


def test_values_out_of_bounds_give_a_note(environment):
    found = inspect([cartpole(5), cartpole(5, scale=6.0)] * 2, environment=environment)
    assert found.problems == []
    (note,) = found.notes
    assert "episode 1: observations leave the bounds" in note
    assert "6 at step 0, bounds -4.8 to 4.8 (2 episodes in all)" in note


def test_missing_rewards_are_a_problem():
    plain = [Trajectory(t.obs, t.acts, None, True) for t in [cartpole(3), cartpole(4)]]
    (problem,) = inspect([cartpole(3), *plain]).problems
    assert "episode 1: no rewards, in 2 of 3 episodes" in problem


def test_rows_of_different_shapes_are_a_problem():
    other = dataclasses.replace(cartpole(3), obs=np.zeros((4, 4)))
    (problem,) = inspect([cartpole(3), other]).problems
    assert (
        "episode 1: observations are float64[4], those of the first episode are float32[4]"
        in problem
    )


def test_rows_of_wrong_lengths_are_all_named(tmp_path):
    table = pa.table(
        {
            "obs": [[[0.0]] * 3, [[0.0]] * 2, [[0.0]], [[0.0]] * 3],
            "acts": [[0, 1], [0, 1], [], [0, 1]],
            "infos": [["{}", "{}"], ["{}", "{}"], [], ["{}"]],
            "terminal": [True] * 4,
            "rews": [[1.0, 1.0], [1.0, 1.0], [], [1.0, 1.0]],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    found = inspect_demonstrations(open_trajectories(tmp_path / "a.parquet"))
    assert [text.split(":")[0] for text in found.problems] == [
        "episode 1",
        "episode 2",
        "episode 3",
    ]
    assert "2 observations for 2 actions" in found.problems[0]
    assert "no steps" in found.problems[1]
    assert "there are 1 infos for 2 actions" in found.problems[2]


def test_damage_that_stops_the_reading_is_the_last_problem(tmp_path):
    table = pa.table({"obs": [[[0.0]] * 3, [[0.0], [0.0, 1.0]]], "acts": [[0, 1], [0]],
                      "terminal": [True, True], "rews": [[0.0, 0.0], [0.0]]})  # fmt: skip
    pq.write_table(table, tmp_path / "a.parquet")
    found = inspect_demonstrations(open_trajectories(tmp_path / "a.parquet"))
    assert "episode 1: column 'obs' holds entries of length 1 and of length 2" in found.problems[-1]
