"""How far a run is, from the files that its worker writes."""

import json
import math
from datetime import datetime, timedelta, timezone

import pytest
from support.runs import make_spec

from imitbench.cards.catalog import load_algorithm
from imitbench.records.curves import main_metric
from imitbench.records.runs import Budget, RunTime
from imitbench.store.live_runs import (
    expected_times,
    find_live_run,
    read_live_run,
    training_seconds,
)
from imitbench.store.overview import StatusSurvey, total_status
from imitbench.store.run_dir import RunDirectory, RunStatus
from imitbench.store.sweep_file import SweepFile

SPEC = make_spec(budget=Budget(name="quick", unit="env_steps", amount=1000))
EXPECTED = RunTime(train_s=80.0, other_s=20.0)


def write_run(
    out, *, phase="train", step=None, train_s=0.0, ago_s=0.0, points=(), log="", **evaluation
):
    directory = RunDirectory.of(out, SPEC)
    directory.begin(SPEC)
    moment = datetime.now(timezone.utc) - timedelta(seconds=ago_s)
    directory.write_status(
        RunStatus(
            state="running", phase=phase, pid=1, host="a", updated_at=moment.isoformat(),
            step=step, train_s=train_s, **evaluation,
        )
    )  # fmt: skip
    directory.write_curve(list(points))
    directory.log.write_text(log)
    return directory


def left_s(out, expected=EXPECTED, **changes):
    return read_live_run(write_run(out, **changes), SPEC, expected).left_s


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ([], None),
        ([{"step": 1}], None),
        ([{"step": 1, "b": 2.0, "a/x": 1.0}], ("b", 2.0)),
        ([{"a/accuracy": 0.5, "bc/loss": 1.0}], ("bc/loss", 1.0)),
        ([{"rollout/return_mean": 3.0, "loss": 1.0}, {"loss": 0.5}], ("rollout/return_mean", 3.0)),
        ([{"loss": 1.0}, {"loss": 0.5}], ("loss", 0.5)),
        # A discriminator that is trained first, and then kept.
        ([{"disc/loss": 0.7}, {"disc/loss": 0.2, "loss": 3.0}, {"loss": 2.0}], ("loss", 2.0)),
    ],
)
def test_the_main_metric_is_the_most_telling_one_of_all_points(points, expected):
    assert main_metric(points) == expected


def test_the_time_left_comes_from_the_costs_until_the_run_has_a_speed(tmp_path):
    near = {"abs": 1.0}
    assert left_s(tmp_path, phase="setup") == pytest.approx(100.0, **near)
    assert left_s(tmp_path, step=0, ago_s=30.0) == pytest.approx(70.0, **near)
    # A tenth of the budget took 5 s, 2 s ago; and the evaluation is ahead.
    measured = left_s(tmp_path, step=100, train_s=5.0, ago_s=2.0)
    assert measured == pytest.approx(45.0 - 2.0 + 20.0, **near)
    assert left_s(tmp_path, phase="evaluate", step=1000, ago_s=5.0) == pytest.approx(15.0, **near)


def test_the_time_left_of_an_evaluation_comes_from_the_episodes_that_have_ended(tmp_path):
    half = {"phase": "evaluate", "step": 1000, "episodes": (25, 100), "phase_s": 30.0}
    assert left_s(tmp_path, ago_s=2.0, **half) == pytest.approx(90.0 - 2.0, abs=1.0)
    assert left_s(tmp_path, expected=None, **half) == pytest.approx(90.0, abs=1.0)


def test_the_time_left_is_unknown_without_costs_and_when_they_were_wrong(tmp_path):
    assert left_s(tmp_path, expected=None, phase="setup") is None
    assert left_s(tmp_path, expected=None, phase="evaluate", step=1000) is None
    assert left_s(tmp_path, step=0, ago_s=1000.0) is None
    assert left_s(tmp_path, phase="evaluate", step=1000, ago_s=1000.0) is None
    late = left_s(tmp_path, step=500, train_s=10.0, ago_s=1000.0)
    assert late == EXPECTED.other_s


def test_share_metric_and_message_are_the_last_ones(tmp_path):
    points = [{"step": step, "loss": 1.0 / step} for step in range(1, 5001)]
    log = "-- 2026 on a: attempt 1 of 1\n" + "x" * 70_000 + "\nlast \x1b[2Jwords\n\n"
    run = read_live_run(write_run(tmp_path, step=400, points=points, log=log), SPEC)
    assert (run.share, run.metric, run.message) == (0.4, ("loss", 1 / 5000), "last [2Jwords")
    assert json.loads(json.dumps(run.as_dict()))["share"] == 0.4


def test_damaged_files_are_as_if_nothing_was_known(tmp_path):
    directory = write_run(tmp_path, step=1, log="-- only the header\n")
    directory.curve.write_bytes(b'[]\n{"step": "x"}\n\xff\xfe\n' + b"[" * 5000)
    run = read_live_run(directory, SPEC)
    assert (run.metric, run.message) == (None, "")
    (directory.path / "status.json").write_text("{")
    assert read_live_run(directory, SPEC, EXPECTED).phase == "start"


def test_a_run_without_a_process_is_not_live(tmp_path):
    directory = write_run(tmp_path, step=1)
    assert find_live_run(tmp_path, directory) is None
    with directory.claim(wait=False):
        live = find_live_run(tmp_path, directory)
    assert (live.step, live.phase) == (1, "train")


def test_before_a_run_has_finished_the_time_of_cells_comes_from_the_costs(tmp_path):
    runs = [SPEC, SPEC.model_copy(update={"seed": 1})]
    SweepFile.of(tmp_path, runs, "imitbench run", expected=lambda _: EXPECTED).write(tmp_path)
    assert expected_times(tmp_path) == {run.run_id: EXPECTED for run in runs}
    [cell] = StatusSurvey(tmp_path).cells()
    assert (cell.counts["waiting"], cell.eta_s) == (2, 200.0)
    directory = write_run(tmp_path, step=500, train_s=10.0)
    with directory.claim(wait=False):
        [cell] = StatusSurvey(tmp_path).cells()
    assert [run.step for run in cell.live] == [500]
    # 10 s of training, 20 s of evaluation, and the other run.
    assert cell.eta_s == pytest.approx(130.0, abs=1.0)
    assert total_status([cell]).eta_s == cell.eta_s
    assert total_status([cell]).whole


@pytest.mark.parametrize("steps_per_second", [5_000.0, 40_000.0, math.inf])
def test_a_pack_shares_the_whole_training_on_a_core_and_the_updates_alone_on_a_gpu(
    steps_per_second,
):
    card = load_algorithm("ppo_true_reward")
    budget = Budget(name="default", unit="env_steps", amount=200_000)

    def seconds(pack, rate=steps_per_second, **settings):
        return training_seconds(budget, card, card.resolve({}), rate, pack, **settings)

    # Packs of three of PPO took 0.55 and 0.58 of the time of single runs (benchmarks/README.md).
    assert seconds(3) / seconds(1) == pytest.approx(0.6)
    stepping = seconds(1) - seconds(1, math.inf)
    alone, packed = (seconds(pack, on_gpu=True) - stepping for pack in (1, 3))
    assert 0.4 < packed / alone < 0.5
