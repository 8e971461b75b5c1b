"""Converts run directories to rows of the database, as Arrow tables of bounded size.

The sizes that `episodes.parquet` declares are checked before it is decoded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic_core import from_json

from imitbench.data.arrow_table import arrow_view
from imitbench.errors import InputError
from imitbench.records.bundled_cards import likely_score
from imitbench.records.curves import LearningCurve
from imitbench.records.published import PublishedRun
from imitbench.records.reward_scores import SCORES_FILE, RewardScore
from imitbench.records.runs import ReferenceScores, RunFailure, RunResult, RunSpec
from imitbench.store.arrow_columns import arrow_column, arrow_rows
from imitbench.store.comparability import run_row
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted.files import read_content
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.text_line import one_line

_CURVE = pa.schema([("step", pa.int64()), ("metric", pa.string()), ("value", pa.float64())])
_NO_CURVE = arrow_rows([], _CURVE)  # its own `empty_table` imports pandas
EPISODES = pa.schema(
    [
        ("episode", pa.int64()),
        ("deterministic", pa.bool_()),
        ("raw_return", pa.float64()),
        ("length", pa.int64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
        ("success", pa.bool_()),  # null where it is not measured; files may lack it
    ]
)
# A page states its unpacked size, which only these two bound by the bytes that are there.
_CODECS = {"SNAPPY", "UNCOMPRESSED"}


@dataclass(frozen=True)
class RunRows:
    """All rows of one run in the database.

    Attributes:
        run_id: Id of the run.
        run: Row of table `runs`; `None` for a failed run.
        failure: Row of table `failures`; `None` for a completed run.
        measures: Further measurements by name.
        reward_scores: Numbers about its learned reward.
        episodes: Columns of table `episodes` without `run_id`; `None` for a failed run.
        curve: Columns of table `curves` without `run_id`; `None` for a failed run.
    """

    run_id: str
    run: dict[str, Any] | None = None
    failure: dict[str, Any] | None = None
    measures: dict[str, float] = field(default_factory=dict)
    reward_scores: tuple[RewardScore, ...] = ()
    episodes: pa.Table | None = None
    curve: pa.Table | None = None


def read_rows(out: Path, path: str) -> RunRows:
    """Reads a run directory with an outcome.

    Args:
        out: Root of the results folder.
        path: Path of the run directory below the results folder.

    Raises:
        InputError: A file is missing or malformed, or the run belongs to another folder.
    """
    directory = RunDirectory(out / path)
    spec = directory.read_spec()
    home = RunDirectory.of(out, spec).path
    if home != directory.path:
        raise InputError(
            f"{directory.path / 'spec.json'}: belongs to run {one_line(home.relative_to(out))}, "
            "not to this folder; delete the folder or restore the file"
        )
    run_id = home.name
    if not directory.is_done:
        failure = directory.read_failure()
        _check_run_id(directory, "error.json", run_id, failure.run_id)
        return RunRows(run_id, failure=_failed(spec, failure, path))
    result = directory.read_result()
    _check_run_id(directory, "result.json", run_id, result.run_id)
    rewards = directory.read_reward_scores()
    if rewards is not None:
        _check_run_id(directory, SCORES_FILE, run_id, rewards.run_id)
    return RunRows(
        run_id,
        run=_completed(spec, result, path),
        measures=result.measures,
        reward_scores=() if rewards is None else rewards.scores,
        episodes=read_episode_file(directory.path / "episodes.parquet"),
        curve=_read_curve(directory.path / "metrics.jsonl"),
    )


def published_rows(run: PublishedRun, path: str | None) -> RunRows:
    """Returns the rows of a published run, with its learning curve if that was published.

    Args:
        run: The run.
        path: Folder of its policy; `None` if that was not published.
    """
    spec = run.spec
    if run.result is None or run.episodes is None:
        assert run.failure is not None
        return RunRows(spec.run_id, failure=_failed(spec, run.failure, path))
    return RunRows(
        spec.run_id,
        run=_completed(spec, run.result, path),
        measures=run.result.measures,
        reward_scores=() if run.rewards is None else run.rewards.scores,
        episodes=_all_columns(
            pa.table({name: arrow_view(each) for name, each in run.episodes.columns.items()})
        ),
        curve=_published_curve(run.curve),
    )


def _published_curve(curve: LearningCurve | None) -> pa.Table:
    if curve is None:
        return _NO_CURVE
    metric = arrow_column([curve.metric] * curve.steps.size, pa.string())
    columns = [arrow_view(curve.steps), metric, arrow_view(curve.values)]
    return pa.table(columns, schema=_CURVE)


def _identity(spec: RunSpec, path: str | None) -> dict[str, Any]:
    return {
        **run_row(spec).model_dump(),
        "setting": spec.setting,
        "spec": json.dumps(spec.model_dump(mode="json"), sort_keys=True),
        "path": path,
    }


def _failed(spec: RunSpec, failure: RunFailure, path: str | None) -> dict[str, Any]:
    outcome = failure.model_dump(
        include={"phase", "error_type", "message", "traceback", "failed_at"}
    )
    return _identity(spec, path) | outcome | _reference_columns(failure.references)


def _completed(spec: RunSpec, result: RunResult, path: str | None) -> dict[str, Any]:
    references = result.references
    deterministic = result.score("likely")
    likely = likely_score(spec.suite, spec.environment.id, references, deterministic)
    return _identity(spec, path) | {
        "budget_unit": spec.budget.unit,
        "budget_amount": spec.budget.amount,
        **result.model_dump(
            exclude={"schema_version", "run_id", "references", "provenance", "measures"}
        ),
        "score": _known(result.score()),
        "score_deterministic": _known(deterministic),
        "score_likely": _known(likely),
        **_reference_columns(references),
        "provenance": json.dumps(result.provenance.model_dump(mode="json"), sort_keys=True),
    }


def arrow_tables(runs: Sequence[RunRows]) -> dict[str, pa.Table]:
    """Combines the rows of several runs.

    Returns:
        Rows by table; empty tables are omitted. The columns are in no particular order.
    """
    done = [run for run in runs if run.run is not None]
    tables = {
        "runs": arrow_rows([run.run for run in done if run.run is not None]),
        "failures": arrow_rows([run.failure for run in runs if run.failure is not None]),
        "measures": pa.table(
            {
                "run_id": _ids(done, [len(run.measures) for run in done]),
                "measure": arrow_column([name for r in done for name in r.measures], pa.string()),
                "value": arrow_column(
                    [value for r in done for value in r.measures.values()], pa.float64()
                ),
            }
        ),
    }
    scores = [
        {"run_id": run.run_id, **score.model_dump()} for run in done for score in run.reward_scores
    ]
    tables["reward_scores"] = arrow_rows(scores)
    if done:
        tables["curves"] = _together(done, [run.curve for run in done])
        tables["episodes"] = _together(done, [run.episodes for run in done])
    return {name: table for name, table in tables.items() if table.num_rows}


def _ids(runs: Sequence[RunRows], counts: Sequence[int]) -> pa.Array:
    """Repeats each run's id once per row."""
    names = arrow_column([run.run_id for run in runs], pa.string())
    return names.take(arrow_view(np.repeat(np.arange(len(runs)), counts)))


def _together(runs: Sequence[RunRows], tables: Sequence[pa.Table]) -> pa.Table:
    ids = _ids(runs, [table.num_rows for table in tables])
    return pa.concat_tables(tables).append_column("run_id", ids)


def _check_run_id(directory: RunDirectory, name: str, run_id: str, found: str) -> None:
    if found != run_id:
        raise InputError(
            f"{directory.path / name}: belongs to run {one_line(found)}, not to this folder; "
            "delete the folder or restore the file"
        )


def _known(score: float) -> float | None:
    return None if math.isnan(score) else score


def _reference_columns(references: ReferenceScores) -> dict[str, Any]:
    return {
        "reference_version": references.version,
        "reference_random": references.random,
        "reference_expert": references.expert,
        "reference_score_one": references.score_one,
        "reference_demonstrations": references.demonstrations,
        "reference_expert_likely": references.expert_likely,
    }


def _read_curve(path: Path) -> pa.Table:
    try:
        lines = read_content(path).splitlines() if path.exists() else []
        points = from_json(b"[" + b",".join(lines) + b"]")
        steps = np.array([int(point.pop("step")) for point in points], np.int64)
        sizes = np.array([len(point) for point in points], np.intp)
        columns = [
            arrow_view(np.repeat(steps, sizes)),
            arrow_column(list(chain.from_iterable(points)), pa.string()),
            arrow_column([float(v) for point in points for v in point.values()], pa.float64()),
        ]
        return pa.table(columns, schema=_CURVE)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError, RecursionError) as e:
        raise InputError(f"{path}: not a learning curve ({one_line(e)})") from e


def read_episode_file(path: Path) -> pa.Table:
    """Reads the evaluation episodes of a run, in the columns `EPISODES`.

    Raises:
        InputError: The file is missing or damaged, lacks columns, or declares too many episodes.
    """
    try:
        # From memory, because opening the path through Arrow's file systems is slower.
        with pq.ParquetFile(pa.BufferReader(read_content(path))) as file:
            _check_sizes(file, path)
            known = [name for name in EPISODES.names if name in file.schema_arrow.names]
            table = file.read(columns=known, use_threads=False)
        return _all_columns(table)
    except (OSError, pa.ArrowException, KeyError, MemoryError) as error:
        raise InputError(f"{path}: cannot be read ({one_line(error)})") from error


def _all_columns(table: pa.Table) -> pa.Table:
    """Returns evaluation episodes in the columns `EPISODES`."""
    if "success" not in table.column_names:
        table = table.append_column("success", pa.nulls(table.num_rows, pa.bool_()))
    table = table.select(EPISODES.names)
    return table if table.schema.equals(EPISODES) else table.cast(EPISODES)


def _check_sizes(file: pq.ParquetFile, path: Path) -> None:
    """Checks that each column has a number per episode, and that there are not too many."""
    declared = file.metadata
    groups = [declared.row_group(index) for index in range(declared.num_row_groups)]
    rows = max(declared.num_rows, sum(group.num_rows for group in groups))
    if rows > limits().run_episodes:
        raise InputError(f"{path}: {beyond('run_episodes', f'declares {rows:,} episodes')}")
    for name in EPISODES.names:
        if name == "success" and name not in file.schema_arrow.names:
            continue
        kind = file.schema_arrow.field(name).type
        if not (
            pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
        ):
            raise InputError(f"{path}: column {name} has no numbers; restore the file")
    codecs = {
        group.column(index).compression for group in groups for index in range(group.num_columns)
    }
    if not codecs <= _CODECS:
        raise InputError(f"{path}: is not packed as this program does; restore the file")
