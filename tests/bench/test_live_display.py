"""Progress of runs as text, and curves that grow on disk."""

import io
import threading

import pytest
from rich.console import Console
from support.runs import make_spec

from imitbench.bench import live_display
from imitbench.bench.checkpoint import CurveFlusher
from imitbench.bench.live_display import LineRate, describe, message_table, run_table
from imitbench.store.live_runs import LiveRun

SPEC = make_spec()


def live(**changes):
    usual = {"spec": SPEC, "label": SPEC.label, "amount": 200_000, "phase": "train"}
    return LiveRun(**usual | changes)


FULL = live(step=61_440, metric=("rollout/return_mean", -842.123), left_s=130.0, message="hello")


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (FULL, "step 61,440 of 200,000 (31 %), return_mean -842.1, 2 min left"),
        (live(phase="setup", left_s=5.0), "setting up, 5 s left"),
        (live(phase="evaluate", step=200_000), "evaluating"),
        (
            live(phase="evaluate", step=200_000, episodes=(12, 100)),
            "evaluating, episode 12 of 100",
        ),
        (live(amount=0, step=0), "training"),
    ],
)
def test_a_line_has_step_share_metric_and_time_left(run, expected):
    assert describe(run) == expected


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_rows_fit_the_terminal_and_show_more_where_there_is_room(width):
    console = Console(file=io.StringIO(), width=width, force_terminal=False)
    console.print(run_table([FULL], width))
    console.print(message_table([FULL], width))
    row, *below = console.file.getvalue().splitlines()
    assert max(map(len, [row, *below])) <= width
    assert "31 %" in row
    assert "2 min left" in row
    assert row.startswith("bc on P")
    assert ("61,440" in row, "hello" in row) == (width >= 80, width >= 120)
    assert ["hello" in line for line in below] == ([True] if width < 120 else [])


def test_lines_come_at_a_calm_rate(monkeypatch):
    now = 0.0
    monkeypatch.setattr(live_display.time, "monotonic", lambda: now)
    rate, due = LineRate(), []
    for second in range(2000):  # 1 % per second for a minute, and nothing afterwards
        now = float(second)
        if rate.is_due(live(step=2_000 * min(second, 60))):
            due.append(second)
    assert due == [10, 20, 30, 40, 50, 60, 660, 1260, 1860]


def test_a_point_is_written_although_training_goes_on_without_another():
    written = threading.Event()
    with CurveFlusher(written.set) as flusher:
        written.clear()
        flusher.grown()
        assert written.wait(60.0)  # this thread does nothing meanwhile


def test_a_disk_that_fails_meanwhile_does_not_end_training():
    attempts = []

    def write():
        attempts.append(1)
        raise OSError(28, "No space left on device")

    with CurveFlusher(write) as flusher:
        flusher.grown()
    assert len(attempts) == 2  # at the start and at the end
