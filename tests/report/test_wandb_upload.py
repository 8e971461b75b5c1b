"""Finished runs go to Weights & Biases once; here offline, so that nothing leaves the machine."""

import json
import sys

import pytest
from support.synthetic_runs import plan_runs, write_finished

from imitbench.errors import InputError
from imitbench.report.curve_exports import RECORD_FILE, upload_runs
from imitbench.store.run_dir import RunDirectory
from imitbench.util.hub_client import silent


@pytest.fixture
def out(tmp_path):
    done, running = plan_runs(2)
    folder = tmp_path / "runs"
    write_finished(folder, done, raw_return=50.0, metrics=("bc/loss",))
    RunDirectory.of(folder, running).begin(running)
    return folder, done


def test_finished_runs_are_uploaded_once(out, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    folder, spec = out
    options = {"notify": silent, "folder": tmp_path}
    first = upload_runs(folder, "imitation", **options)
    assert (first.uploaded, first.present, first.unfinished) == (1, 0, 1)
    assert first.offline
    [run] = (tmp_path / "wandb").glob("offline-run-*")
    assert run.name.endswith(spec.run_id)
    assert list(run.glob("*.wandb"))
    known = json.loads((folder / RECORD_FILE).read_text())
    assert known == {"/imitation": [spec.run_id]}
    second = upload_runs(folder, "imitation", **options)
    assert (second.uploaded, second.present) == (0, 1)


def test_a_missing_package_is_named(out, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match=r"pip install 'imitbench\[wandb\]'"):
        upload_runs(out[0], "imitation", notify=silent)


@pytest.mark.slow
def test_a_training_logs_there_as_it_goes(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    from typer.testing import CliRunner

    from imitbench.cli.main import app

    monkeypatch.setenv("WANDB_MODE", "offline")
    answer = CliRunner().invoke(
        app,
        ["train", "imitation", "bc", "--env", "Pendulum-v1", "--batches", "5", "--log-format",
         "wandb", "--eval-episodes", "1", "--log-dir", str(tmp_path / "bc"), "--quiet"],
        standalone_mode=False,
    )  # fmt: skip
    assert answer.exception is None, answer.exception
    assert list((tmp_path / "bc" / "log" / "wandb").glob("offline-run-*/*.wandb"))
