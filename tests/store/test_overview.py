"""Counts of runs by state, and the estimated time of the remaining ones."""

import pytest
from support.runs import make_spec

from imitbench.errors import InputError
from imitbench.store.overview import StatusSurvey, total_status
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SWEEPS_FOLDER, SweepFile, read_sweeps

COMMAND = "imitbench run --algo bc"


def ask_for(out, specs):
    return SweepFile.of(out, specs, COMMAND).write(out)


def test_every_state_is_distinguished(tmp_path, finished, failed):
    specs = [make_spec(seed=seed) for seed in range(7)]
    ask_for(tmp_path, specs)
    finished(specs[0])
    finished(specs[1])
    failed(specs[2])
    RunDirectory.of(tmp_path, specs[3]).begin(specs[3])
    RunDirectory.of(tmp_path, specs[4]).path.mkdir()
    running = RunDirectory.of(tmp_path, specs[5])
    with running.claim(wait=False):
        running.begin(specs[5])
        [cell] = StatusSurvey(tmp_path).cells()
    assert (cell.suite, cell.algo, cell.env) == ("classic", "bc", "Pendulum-v1")
    assert cell.counts == {"done": 2, "running": 1, "failed": 1, "interrupted": 1, "waiting": 2}
    [cell] = StatusSurvey(tmp_path).cells()
    assert (cell.counts["running"], cell.counts["interrupted"]) == (0, 2)


def test_runs_without_a_sweep_file_count_too(tmp_path, finished):
    planned, pulled = make_spec(seed=0), make_spec(seed=1, algo="dagger", variant="beta=0.5")
    ask_for(tmp_path, [planned])
    finished(pulled)
    assert [(cell.algo, cell.open) for cell in StatusSurvey(tmp_path).cells()] == [
        ("bc", 1),
        ("dagger[beta=0.5]", 0),
    ]


def test_finished_runs_give_the_expected_time_of_the_others(tmp_path, finished):
    specs = [make_spec(seed=seed) for seed in range(5)]
    ask_for(tmp_path, specs)
    [cell] = StatusSurvey(tmp_path).cells()
    assert cell.eta_s is None
    finished(specs[0])  # 2 seconds
    [cell] = StatusSurvey(tmp_path).cells()
    assert cell.eta_s == 4 * 2.0
    running = [RunDirectory.of(tmp_path, spec) for spec in specs[1:3]]
    with running[0].claim(wait=False), running[1].claim(wait=False):
        [cell] = StatusSurvey(tmp_path).cells()
    assert cell.counts["running"] == 2
    assert cell.eta_s == (2 * 2.0 + 2 * 1.0) / 2


def test_the_total_is_a_lower_bound_where_a_cell_has_no_finished_run(tmp_path, finished):
    specs = [make_spec(seed=seed, algo=algo) for algo in ("bc", "gail") for seed in range(3)]
    ask_for(tmp_path, specs)
    finished(specs[0])
    whole = total_status(StatusSurvey(tmp_path).cells())
    assert (whole.eta_s, whole.whole, whole.open) == (4.0, False, 5)
    finished(specs[3])
    whole = total_status(StatusSurvey(tmp_path).cells())
    assert (whole.eta_s, whole.whole, whole.open) == (8.0, True, 4)


def test_a_survey_follows_changes(tmp_path, finished):
    spec = make_spec()
    ask_for(tmp_path, [spec])
    watched = StatusSurvey(tmp_path)
    assert [cell.open for cell in watched.cells()] == [1]
    finished(spec)
    assert [cell.open for cell in watched.cells()] == [0]


def test_the_same_runs_do_not_change_the_sweep_file(tmp_path):
    specs = [make_spec(seed=seed) for seed in range(3)]
    path = ask_for(tmp_path, specs)
    before = path.stat().st_mtime_ns
    assert ask_for(tmp_path, specs[::-1]) == path
    assert path.stat().st_mtime_ns == before
    assert ask_for(tmp_path, specs[:2]) != path
    assert len(read_sweeps(tmp_path)) == 2


@pytest.mark.parametrize(
    "change",
    [("classic/bc/Pendulum-v1", "../../etc"), ("classic/bc", "/etc"), ("run_ids", "x"), ("{", "[")],
)
def test_a_file_that_is_not_a_sweep_is_skipped(tmp_path, change):
    path = ask_for(tmp_path, [make_spec()])
    path.write_text(path.read_text().replace(*change))
    assert read_sweeps(tmp_path) == []
    assert StatusSurvey(tmp_path).cells() == []


def test_damaged_runs_and_unrelated_folders_are_skipped(tmp_path, finished):
    (finished(make_spec()).path / "spec.json").write_text("{")
    (tmp_path / "a" / "b" / "c" / "d").mkdir(parents=True)
    assert StatusSurvey(tmp_path).cells() == []
    assert not (tmp_path / SWEEPS_FOLDER).exists()


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="imitbench run"):
        StatusSurvey(tmp_path / "absent").cells()
