"""Synthetic run directories, written by the same code as real ones."""

import numpy as np
import pytest

from imitbench.bench import provenance
from imitbench.store.records import ReferenceScores, RunFailure, RunResult
from imitbench.store.run_dir import EpisodeTable, RunDirectory

REFERENCES = ReferenceScores(random=-100.0, expert=100.0, version="1")


@pytest.fixture
def finished(tmp_path):
    def write(spec, raw_return=0.0, at="2026-01-01T00:00:00.000+00:00", measures=None):
        directory = RunDirectory.of(tmp_path, spec)
        with directory.claim(wait=False):
            directory.begin(spec)
            directory.write_curve([{"step": 1, "loss": 2.0}, {"step": 2, "loss": 1.0}])
            directory.write_episodes(
                EpisodeTable(
                    returns=np.array([raw_return, raw_return]),
                    lengths=np.array([200, 200]),
                    terminated=np.array([False, True]),
                    deterministic=np.array([False, True]),
                )
            )
            directory.finish(
                RunResult(
                    run_id=spec.run_id,
                    raw_return=raw_return,
                    return_std=0.0,
                    deterministic_return=raw_return / 2,
                    mean_length=200.0,
                    termination_rate=0.0,
                    env_steps=0,
                    train_s=1.0,
                    wall_s=2.0,
                    started_at=at,
                    finished_at=at,
                    references=REFERENCES,
                    provenance=provenance.describe("imitbench run", "cpu"),
                    measures=measures or {},
                )
            )
        return directory

    return write


@pytest.fixture
def failed(tmp_path):
    def write(spec, message="it broke"):
        directory = RunDirectory.of(tmp_path, spec)
        with directory.claim(wait=False):
            directory.begin(spec)
            directory.fail(
                RunFailure(
                    run_id=spec.run_id,
                    phase="train",
                    error_type="RuntimeError",
                    message=message,
                    traceback="Traceback",
                    failed_at="2026-01-01T00:00:00.000+00:00",
                    references=REFERENCES,
                    provenance=provenance.describe("imitbench run", "cpu"),
                )
            )
        return directory

    return write
