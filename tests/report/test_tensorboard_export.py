"""Learning curves become event files, once per run."""

import json

import numpy as np
import pytest
from support.synthetic_runs import plan_runs, write_finished
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from imitbench.bench.checkpoint import CheckpointManager, RunProgress
from imitbench.errors import InputError
from imitbench.report.curve_exports import export_tensorboard
from imitbench.store.run_dir import RunDirectory
from imitbench.util.hub_client import silent


class Learner:
    def state_dict(self):
        return {"weights": np.zeros(2)}


@pytest.fixture
def out(tmp_path):
    done, running, waiting = plan_runs(3)
    folder = tmp_path / "runs"
    write_finished(folder, done, raw_return=50.0, metrics=("bc/loss",), points=3)
    directory = RunDirectory.of(folder, running)
    directory.begin(running)
    curve = [{"step": 5, "bc/loss": 0.5}]
    CheckpointManager(directory.checkpoints, 0.0).save(Learner(), RunProgress(curve))
    RunDirectory.of(folder, waiting).begin(waiting)
    return folder


def scalars(folder):
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


def test_finished_and_running_runs_are_shown(out, tmp_path):
    done = export_tensorboard(out, tmp_path / "tb", notify=silent)
    assert (done.written, done.unchanged, done.without) == (2, 0, 1)
    found = [
        scalars(path.parent) for path in sorted((tmp_path / "tb").rglob("events.out.tfevents*"))
    ]
    [whole] = [each for each in found if "result/raw_return" in each]
    [part] = [each for each in found if each is not whole]
    assert whole["bc/loss"] == [(1, 2.0), (2, 1.0), (3, 0.5)]
    assert whole["result/raw_return"] == [(3, 50.0)]
    assert whole["result/score"] == [(3, 0.75)]
    assert part == {"bc/loss": [(5, 0.5)]}


def test_again_only_what_has_changed_is_written(out, tmp_path):
    export_tensorboard(out, tmp_path / "tb", notify=silent)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "tb").rglob("events*")}
    assert export_tensorboard(out, tmp_path / "tb", notify=silent).unchanged == 2
    [curve] = out.rglob("metrics.jsonl")
    curve.write_text(json.dumps({"step": 9, "bc/loss": 0.25}) + "\n")
    done = export_tensorboard(out, tmp_path / "tb", notify=silent)
    assert (done.written, done.unchanged) == (1, 1)
    after = {path: path.stat().st_mtime_ns for path in (tmp_path / "tb").rglob("events*")}
    assert len(after) == 2
    assert len(after.items() & before.items()) == 1


def test_other_files_are_left_alone(out, tmp_path):
    export_tensorboard(out, tmp_path / "tb", notify=silent)
    for mark in (tmp_path / "tb").rglob(".imitbench.json"):
        mark.unlink()
    with pytest.raises(InputError, match="holds other files"):
        export_tensorboard(out, tmp_path / "tb", notify=silent)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        export_tensorboard(tmp_path / "nothing", tmp_path / "tb", notify=silent)
