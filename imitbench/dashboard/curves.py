"""Learning curves of runs that may be running, of which a page asks for new points only."""

from __future__ import annotations

import json
import math
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.bench.checkpoint import read_curve
from imitbench.dashboard.files import file_stamp, open_file
from imitbench.store.run_dir import RunDirectory

LARGEST_CURVE = 64_000_000
"""Bytes of a curve that are read; later points are not shown."""
LARGEST_CHECKPOINT = 32_000_000
"""Bytes of a checkpoint that is read for its curve."""
_TAIL = 20_000
_DIGITS = 7


@dataclass(frozen=True)
class CurvePart:
    """Points of one metric that the asker does not have.

    Attributes:
        token: Marks how much of the curve is known with these points; for the next call.
        whole: Whether the points replace those that the asker has.
        metrics: Names of the metrics in the points read for this part.
        steps: Budget units spent.
        values: Metric at each step; `None` where it is not finite.
    """

    token: str
    whole: bool
    metrics: tuple[str, ...] = ()
    steps: tuple[float, ...] = ()
    values: tuple[float | None, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Form for JSON."""
        return dict(vars(self))


class CurveReader:
    """Reads learning curves; remembers those of checkpoints, which take long to read."""

    def __init__(self) -> None:
        self._from_checkpoints: dict[Path, tuple[str, bytes]] = {}

    def part(self, directory: RunDirectory, metric: str, token: str = "") -> CurvePart:
        """Reads the points of a metric that are new.

        Args:
            directory: Directory of the run.
            metric: Name of the metric.
            token: Of the previous part; empty for the whole curve.

        Returns:
            The new points. They are the whole curve if the earlier ones are no longer its start.
        """
        stamp, content = self._content(directory, token.partition(".")[0])
        if content is None:
            return CurvePart(token, whole=False)
        end = content.rfind(b"\n") + 1  # the last line may be half written
        known = _known_bytes(content, token)
        lines = content[known:end].splitlines()
        points = [point for line in lines if (point := _point(line)) is not None]
        shown = [point for point in points if metric in point]
        return CurvePart(
            token=f"{stamp}.{end:x}.{zlib.crc32(content[:end]):x}",
            whole=known == 0,
            metrics=tuple(dict.fromkeys(name for point in points for name in point)),
            steps=tuple(point["step"] or 0.0 for point in shown),
            values=tuple(point[metric] for point in shown),
        )

    def last_point(self, directory: RunDirectory) -> dict[str, float | None]:
        """Returns the latest point of a run's curve; empty if there is none."""
        _, content = self._content(directory, "", tail=True)
        for line in reversed((content or b"").splitlines(keepends=True)):
            if line.endswith(b"\n") and (point := _point(line)) is not None:
                return point
        return {}

    def stamp(self, directory: RunDirectory) -> str:
        """Returns a text that changes when the curve has new points."""
        return file_stamp(_file(directory)) or _latest_checkpoint(directory)[1]

    def _content(
        self, directory: RunDirectory, known_stamp: str, *, tail: bool = False
    ) -> tuple[str, bytes | None]:
        """Returns stamp and lines of a curve; `None` if the stamp is the known one."""
        opened = open_file(_file(directory))
        if opened is None:
            return self._checkpoint(directory, known_stamp)
        with opened:
            if opened.stamp == known_stamp:
                return known_stamp, None
            return opened.stamp, opened.read(-_TAIL if tail else 0, LARGEST_CURVE)

    def _checkpoint(self, directory: RunDirectory, known_stamp: str) -> tuple[str, bytes | None]:
        path, stamp = _latest_checkpoint(directory)
        if path is None:
            self._from_checkpoints.pop(directory.path, None)
            return "", b""
        if stamp == known_stamp:
            return stamp, None
        remembered = self._from_checkpoints.get(directory.path)
        if remembered is None or remembered[0] != stamp:
            remembered = stamp, _curve_of_checkpoint(directory, path)
            self._from_checkpoints[directory.path] = remembered
        return remembered


def _file(directory: RunDirectory) -> Path:
    return directory.path / "metrics.jsonl"


def _latest_checkpoint(directory: RunDirectory) -> tuple[Path | None, str]:
    try:
        found = [path for path in directory.checkpoints.iterdir() if path.suffix == ".state"]
    except OSError:
        return None, ""
    latest = max(found, key=lambda path: path.name, default=None)
    return latest, file_stamp(latest) if latest else ""


def _curve_of_checkpoint(directory: RunDirectory, latest: Path) -> bytes:
    """Returns the lines of a curve; none if the checkpoint is large, or no checkpoint."""
    try:
        if latest.stat().st_size > LARGEST_CHECKPOINT:
            return b""
        points = [dict(point) for point in read_curve(directory.checkpoints)]
        return "".join(json.dumps(point, sort_keys=True) + "\n" for point in points).encode()
    except Exception:  # the file may come from elsewhere, and its content be anything
        return b""


def _known_bytes(content: bytes, token: str) -> int:
    """Returns how many bytes of a curve an asker knows; 0 if they are not its start any more."""
    parts = token.split(".")
    try:
        size, digest = int(parts[1], 16), int(parts[2], 16)
    except (IndexError, ValueError):
        return 0
    return size if zlib.crc32(content[:size]) == digest and size <= len(content) else 0


def _point(line: bytes) -> dict[str, float | None] | None:
    """Returns the numbers of a line; `None` if it is not a point of a curve."""
    try:
        read = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(read, dict) or _number(read.get("step")) is None:
        return None
    point = {name: _number(value) for name, value in read.items() if _is_number(value)}
    return point | {"step": read["step"]}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> float | None:
    if not _is_number(value):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return float(f"{number:.{_DIGITS}g}") if math.isfinite(number) else None
