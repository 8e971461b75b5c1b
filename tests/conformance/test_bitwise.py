"""Two runs are compared in every number, and each difference is named."""

import json
import shutil

import numpy as np
import pytest
import torch as th
from support.results import write_finished_run

from imitbench.conformance.bitwise import compare_runs, find_differences
from imitbench.store.run_dir import RunDirectory

STATE = {
    "net": {"w": th.tensor([1.0, 2.0]), "b": np.array([1, 2])},
    "rng": (1, 2**100, None),
    "lr": float("nan"),
    "name": "adam",
}


def state(**changes):
    return {**STATE, **changes}


def test_equal_states_have_no_difference():
    again = {"net": {"w": th.tensor([1.0, 2.0]), "b": np.array([1, 2])}}
    assert find_differences(STATE, state(**again)) == []


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (
            state(net={"w": th.tensor([1.0, 2.5]), "b": np.array([1, 2])}),
            "`net.w` differs by up to 0.5 in 1 of 2 numbers",
        ),
        (
            state(net={"w": th.tensor([1.0, 2.0, 3.0]), "b": np.array([1, 2])}),
            "`net.w` is float32[3] instead of float32[2]",
        ),
        (
            state(net={"w": th.tensor([1.0, 2.0]).double(), "b": np.array([1, 2])}),
            "`net.w` is float64[2] instead of float32[2]",
        ),
        (state(net={"w": th.tensor([1.0, 2.0])}), "`net.b` is missing"),
        (state(more=1), "`more` should not be there"),
        (state(rng=(1, 2**100 + 1, None)), f"`rng.1` is {2**100 + 1} instead of {2**100}"),
        (state(rng=(1, 2**100)), "`rng` has 2 entries instead of 3"),
        (state(name="sgd"), "`name` is 'sgd' instead of 'adam'"),
        (state(lr=0.5), "`lr` is 0.5 instead of nan"),
        (state(lr=None), "`lr` is a NoneType instead of a float"),
    ],
)
def test_a_difference_is_named(found, text):
    assert [str(difference) for difference in find_differences(STATE, found)] == [text]


def test_nan_equals_nan_and_no_tolerance_is_given():
    one = th.tensor([float("nan"), 1.0])
    other = one.clone()
    assert find_differences(one, other) == []
    other[1] = th.nextafter(one[1], th.tensor(2.0))
    assert len(find_differences(one, other)) == 1
    other[0] = 0.0
    assert "in 2 of 2" in find_differences(one, other)[0].what


@pytest.fixture
def runs(tmp_path):
    """Two equal runs in two results folders."""
    first = write_finished_run(tmp_path / "a")
    first.write_curve([{"step": 1, "loss": 0.5}])
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    return first, RunDirectory(tmp_path / "b" / first.path.relative_to(tmp_path / "a"))


def unequal(runs):
    return {p.part: [str(d) for d in p.differences] for p in compare_runs(*runs) if p.differences}


def test_equal_runs_are_equal(runs):
    assert unequal(runs) == {}


def test_times_do_not_count(runs):
    path = runs[1].path / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "wall_s": 99.0}))
    assert unequal(runs) == {}


def test_measures_and_curves_are_compared(runs):
    path = runs[1].path / "result.json"
    measures = {"reward_correlation": 0.25}
    path.write_text(json.dumps({**json.loads(path.read_text()), "measures": measures}))
    runs[1].write_curve([{"step": 1, "loss": 0.75}])
    assert unequal(runs) == {
        "learning curve": ["`step 1: loss` is 0.75 instead of 0.5"],
        "measures": ["`reward_correlation` is 0.25 instead of 0.1"],
    }
    runs[1].write_curve([])
    assert unequal(runs)["learning curve"] == ["has 0 points instead of 1"]


def test_every_episode_is_compared(tmp_path):
    pair = write_finished_run(tmp_path / "a"), write_finished_run(tmp_path / "b", seed=1)
    for run in pair:
        run.write_curve([])
    found = unequal(pair)["evaluation episodes"]
    assert len(found) == 8
    assert found[0].startswith("`stochastic episode 0` returned ")
