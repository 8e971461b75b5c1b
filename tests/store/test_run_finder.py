"""A run is found by the start of its id."""

import re
import shlex

import pytest
from support.command import call_imitbench
from support.runs import make_spec

from imitbench.errors import InputError
from imitbench.store.overview import find_run
from imitbench.store.sweep_file import SweepFile


@pytest.fixture
def runs(tmp_path, finished):
    specs = [make_spec(seed=seed) for seed in range(20)]
    for spec in specs:
        finished(spec)
    return sorted(spec.run_id for spec in specs)


def test_a_unique_start_is_enough(tmp_path, runs):
    for run_id in runs:
        assert find_run(tmp_path, run_id).path.name == run_id
    shortest = next(n for n in range(1, 13) if len({r[:n] for r in runs}) == len(runs))
    assert find_run(tmp_path, runs[0][:shortest]).path.name == runs[0]


def test_an_ambiguous_start_names_the_runs(tmp_path, runs):
    start = next(r[0] for r in runs if sum(other[0] == r[0] for other in runs) > 1)
    count = sum(other.startswith(start) for other in runs)
    with pytest.raises(InputError, match=f"{count} runs of .* start with it: {start}") as caught:
        find_run(tmp_path, start)
    assert "bc on Pendulum-v1" in str(caught.value)


def test_an_unknown_run_names_the_nearest(tmp_path, runs):
    wrong = runs[3][:10] + "zz"
    with pytest.raises(InputError, match=re.escape(f"the nearest is {runs[3]}")):
        find_run(tmp_path, wrong)
    with pytest.raises(InputError, match="no run of"):
        find_run(tmp_path, "")


def test_the_command_that_lists_the_runs_works(tmp_path, runs):
    with pytest.raises(InputError) as caught:
        find_run(tmp_path, "zz")
    command = re.search("`(.*)` lists them", str(caught.value))[1]
    words = shlex.split(command)
    answer = call_imitbench(*words[1:], "--format", "csv", cwd=tmp_path.parent)
    assert answer.code == 0
    listed = [line.partition(",")[0] for line in answer.out.splitlines()[1:]]
    assert sorted(listed) == runs


def test_a_folder_without_runs_is_told(tmp_path):
    with pytest.raises(InputError, match="has no runs; run `imitbench run --out"):
        find_run(tmp_path, "0")


def test_a_run_that_waits_is_distinguished(tmp_path, runs):
    waiting = make_spec(seed=99)
    SweepFile.of(tmp_path, [waiting], "imitbench run").write(tmp_path)
    with pytest.raises(InputError, match="has not been begun"):
        find_run(tmp_path, waiting.run_id)


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="imitbench run"):
        find_run(tmp_path / "absent", "0")
