"""Writes event files for TensorBoard from the learning curves of a results folder."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.report.curve_source import LoggedCurve, read_curves
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_text
from imitbench.util.hub_errors import Notify
from imitbench.util.name_lists import Names

_MARK = ".imitbench.json"
_UNFIT = re.compile(r"[^\w.=,@+-]+")


@dataclass(frozen=True)
class ExportSummary:
    """Numbers of runs in an export, by outcome.

    Attributes:
        written: Runs that are new or have changed.
        unchanged: Runs whose event files are up to date.
        without: Runs that have no curve points so far.
    """

    written: int
    unchanged: int
    without: int


def export_tensorboard(
    out: Path, to: Path, *, notify: Notify, suite: Names = None
) -> ExportSummary:
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
    return ExportSummary(**counts)


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
