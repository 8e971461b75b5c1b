"""Exports learning curves of a results folder to TensorBoard and to Weights & Biases."""

from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.bench.checkpoint import read_curve
from imitbench.errors import InputError
from imitbench.records.runs import RunResult, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.store.scan import check_suites, run_directories
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_text
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import Names, split_names
from imitbench.util.text_line import one_line

_MARK = ".imitbench.json"
_UNFIT = re.compile(r"[^\w.=,@+-]+")


@dataclass(frozen=True)
class LoggedCurve:
    """Learning curve and result of one run.

    Attributes:
        points: Its learning curve so far, each point with a `step`.
        result: Its result; `None` for an incomplete run.
    """

    directory: RunDirectory
    spec: RunSpec
    points: list[Mapping[str, float]]
    result: RunResult | None

    @property
    def outcome(self) -> dict[str, float]:
        """Final numbers by name; empty for an incomplete run."""
        if self.result is None:
            return {}
        score, rate = self.result.score(), self.result.success_rate
        return {
            "result/raw_return": self.result.raw_return,
            **({} if math.isnan(score) else {"result/score": score}),
            **({} if rate is None else {"result/success_rate": rate}),
            "result/deterministic_return": self.result.deterministic_return,
            "result/mean_length": self.result.mean_length,
            **{f"result/{name}": value for name, value in self.result.measures.items()},
        }

    @property
    def last_step(self) -> int:
        """Number of budget units that the curve covers."""
        return int(self.points[-1]["step"]) if self.points else self.spec.budget.amount


def read_curves(out: Path, *, notify: Notify, suite: Names = None) -> Iterator[LoggedCurve]:
    """Reads the runs of a results folder, one at a time.

    Args:
        out: Results folder.
        notify: Called with messages about runs that cannot be read.
        suite: Suites to read; `None` for all.

    Raises:
        InputError: There is no such folder, or it has no runs of a suite.
    """
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder; run `imitbench run --out {out}` first")
    wanted = split_names("--suite", suite)
    check_suites(out, wanted)
    for path in sorted(run_directories(out)):
        directory = RunDirectory(out / path)
        try:
            spec = directory.read_spec()
            if wanted and spec.suite not in wanted:
                continue
            result = directory.read_result() if directory.is_done else None
            points = directory.read_curve()
        except InputError as error:
            notify(f"skipped: {error}")
            continue
        if not (points or result):  # it is about to resume
            points = read_curve(directory.checkpoints)
        yield LoggedCurve(directory, spec, points, result)


@dataclass(frozen=True)
class CurveExport:
    """Numbers of runs in an export, by outcome.

    Attributes:
        written: Runs that are new or have changed.
        unchanged: Runs whose event files are up to date.
        without: Runs that have no curve points so far.
    """

    written: int
    unchanged: int
    without: int


def export_tensorboard(out: Path, to: Path, *, notify: Notify, suite: Names = None) -> CurveExport:
    """Writes `<to>/<suite>/<environment>/<algorithm>/seed-<seed>-<run>/events.out.tfevents…`.

    A second export writes new and changed runs only.

    Args:
        out: Results folder.
        to: Folder of the event files.
        notify: Called with messages about runs that cannot be read.
        suite: Suites to export; `None` for all.

    Raises:
        InputError: There are no results, or the folder cannot be written.
    """
    import_extra("tensorboard", "tensorboard", "an export for TensorBoard")
    counts = {"written": 0, "unchanged": 0, "without": 0}
    try:
        for curve in read_curves(out, notify=notify, suite=suite):
            counts[_export(curve, to)] += 1
    except OSError as error:
        raise InputError(f"--to {to}: cannot be written ({error.strerror})") from error
    return CurveExport(**counts)


def _export(curve: LoggedCurve, to: Path) -> str:
    scalars = [
        (int(point["step"]), name, float(value))
        for point in curve.points
        for name, value in sorted(point.items())
        if name != "step"
    ]
    scalars += [(curve.last_step, name, value) for name, value in curve.outcome.items()]
    if not scalars:
        return "without"
    spec = curve.spec
    names = (spec.suite, spec.environment.id, spec.algo_label)
    folder = to.joinpath(*(_UNFIT.sub("-", name) for name in names))
    folder /= f"seed-{spec.seed}-{spec.run_id[:6]}"
    digest = hashlib.sha256(json.dumps(scalars).encode()).hexdigest()
    mark = folder / _MARK
    if mark.is_file() and mark.read_text() == digest:
        return "unchanged"
    if folder.exists() and any(folder.iterdir()) and not mark.is_file():
        raise InputError(f"--to {folder}: holds other files; name another folder")
    shutil.rmtree(folder, ignore_errors=True)
    _write(folder, scalars, curve.directory.path.stat().st_mtime)
    atomic_write_text(mark, digest)  # last: without it, the next export starts again
    return "written"


def _write(folder: Path, scalars: list[tuple[int, str, float]], time_s: float) -> None:
    # Torch also has a writer, but using it would load torch.
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    folder.mkdir(parents=True)
    atomic_write_text(folder / _MARK, "")
    writer: Any = EventFileWriter(str(folder))
    for step, name, value in scalars:
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        writer.add_event(Event(wall_time=time_s, step=step, summary=summary))
    writer.close()


RECORD_FILE = ".wandb.json"
"""File in a results folder that lists the uploaded runs, by project."""


@dataclass(frozen=True)
class UploadSummary:
    """Numbers of runs in an upload, by outcome.

    Attributes:
        uploaded: Runs that this upload sent.
        present: Runs that were uploaded before.
        unfinished: Runs that are not complete, which are skipped.
        offline: Whether W&B stored them in a local folder instead.
    """

    uploaded: int
    present: int
    unfinished: int
    offline: bool


def start_wandb_run(
    project: str, name: str, config: Mapping[str, Any], folder: Path, **options: Any
) -> Any:
    """Starts a W&B run, in the mode of WANDB_MODE.

    Args:
        project: Name of the W&B project.
        name: Display name of the run.
        config: Settings of the run.
        folder: Parent of W&B's folder, `<folder>/wandb`.
        **options: Further arguments of `wandb.init`.

    Raises:
        InputError: The package is not installed, or W&B reports an error.
    """
    wandb = import_extra("wandb", "wandb", "sending curves to W&B")
    folder.mkdir(parents=True, exist_ok=True)
    quiet = wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True)
    try:
        return wandb.init(
            project=project,
            name=name,
            config=dict(config),
            dir=str(folder),
            settings=quiet,
            **options,
        )
    except Exception as error:  # the class hierarchy of errors differs between versions
        raise InputError(
            f"W&B: {one_line(str(error))[:200]}; `wandb login` first, or set WANDB_MODE=offline"
        ) from error


def upload_runs(
    out: Path,
    project: str,
    *,
    notify: Notify,
    entity: str | None = None,
    suite: Names = None,
    folder: Path = Path(),
    again: bool = False,
) -> UploadSummary:
    """Uploads finished runs: specification, learning curve and result.

    Each gets the id of the run, its suite and environment as group, and its algorithm as type.
    The results folder records uploaded runs, so that the next upload sends only new runs.

    Args:
        out: Results folder.
        project: Name of the W&B project.
        notify: Called with messages about runs that cannot be read.
        entity: User or team; W&B's default when `None`.
        suite: Suites to upload; `None` for all.
        folder: Parent of W&B's folder, `<folder>/wandb`.
        again: Whether to upload runs that were uploaded before.

    Raises:
        InputError: There are no results, or W&B reports an error.
    """
    import_extra("wandb", "wandb", "sending curves to W&B")  # checked before reading results
    destination = f"{entity or ''}/{project}"
    known = _read_record(out)
    done = set(known.get(destination, []))
    counts = {"uploaded": 0, "present": 0, "unfinished": 0}
    offline = False
    for curve in read_curves(out, notify=notify, suite=suite):
        run_id = curve.spec.run_id
        if curve.result is None:
            counts["unfinished"] += 1
        elif run_id in done and not again:
            counts["present"] += 1
        else:
            offline = _upload(curve, project, entity, folder)
            counts["uploaded"] += 1
            done.add(run_id)
            known[destination] = sorted(done)
            atomic_write_text(out / RECORD_FILE, json.dumps(known, indent=1) + "\n")
    return UploadSummary(**counts, offline=offline)


def _upload(curve: LoggedCurve, project: str, entity: str | None, folder: Path) -> bool:
    spec = curve.spec
    run = start_wandb_run(
        project,
        spec.label,
        spec.model_dump(mode="json"),
        folder,
        entity=entity,
        id=spec.run_id,
        group=f"{spec.suite}/{spec.environment.id}",
        job_type=spec.algo_label,
        reinit="finish_previous",
    )
    for point in curve.points:
        metrics = {name: value for name, value in point.items() if name != "step"}
        run.log(metrics, step=int(point["step"]))
    run.summary.update(curve.outcome)
    offline = bool(run.offline)
    run.finish()
    return offline


def _read_record(out: Path) -> dict[str, list[str]]:
    path = out / RECORD_FILE
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read ({error}); delete it") from error
    return found if isinstance(found, dict) else {}
