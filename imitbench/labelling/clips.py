"""Encodes what happened in a fragment as a short video, with a bound on its size."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.types import Trajectory
from imitbench.errors import InputError
from imitbench.labelling.label_set import MOST_CLIP_BYTES, clip_problem
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line
from imitbench.util.video_wrapper import import_encoder

Frame = npt.NDArray[np.uint8]

LONGEST_SIDE = 320
"""Width and height of clips are at most this many pixels."""

MOST_BYTES = MOST_CLIP_BYTES // 2
_QUALITIES = (26, 34, 44)  # constant rate factors of H.264: the next one if a clip is too large
_PANELS = 6
_TRACE_SIZE = (320, 240)
_MARGIN = 6
# Okabe and Ito's colors, which most people tell apart.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")


def shrink(frame: npt.NDArray[Any]) -> Frame:
    """Reduces a rendered frame to at most `LONGEST_SIDE` pixels, with even sides.

    Args:
        frame: Shape `(height, width, 3)`, uint8.

    Raises:
        ValueError: It is not an RGB image.
    """
    if frame.ndim != 3 or frame.shape[-1] != 3 or frame.dtype != np.uint8:
        raise ValueError(f"a frame of shape {frame.shape} and {frame.dtype}, not an RGB image")
    height, width = frame.shape[:2]
    scale = min(1.0, LONGEST_SIDE / max(height, width))
    # The encoder halves the resolution of colors, so that both sides must be even.
    size = tuple(max(2, round(side * scale / 2) * 2) for side in (width, height))
    if size == (width, height):
        return frame
    pillow = import_extra("PIL.Image", "label", "clips")
    return np.asarray(pillow.fromarray(frame).resize(size, pillow.Resampling.BOX))


def write_clip(frames: Sequence[Frame], path: Path, fps: float) -> None:
    """Writes frames to an H.264 file of at most `MOST_BYTES`, which appears when complete.

    Args:
        frames: Frames of equal size with even sides.
        path: File to write, ending in `.mp4`.
        fps: Frames per second.

    Raises:
        InputError: The encoder is not installed or fails, or the frames need more bytes.
    """
    imageio = import_encoder("clips")
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        for quality in _QUALITIES:
            options = ["-crf", str(quality), "-preset", "veryfast", "-movflags", "+faststart"]
            with imageio.get_writer(
                partial, fps=fps, codec="libx264", macro_block_size=1, output_params=options,
                ffmpeg_log_level="quiet",
            ) as writer:  # fmt: skip
                for frame in frames:
                    writer.append_data(frame)
            if partial.stat().st_size <= MOST_BYTES:
                problem = clip_problem(partial)
                if problem is not None:  # the encoder was ended, or the disk is full
                    raise InputError(f"{path}: {problem} after writing; check the disk")
                with partial.open("rb") as stream:
                    os.fsync(stream.fileno())
                partial.replace(path)
                return
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]  # the encoder tells pages
        raise InputError(f"{path}: the clip cannot be written ({one_line(reason)})") from error
    finally:
        partial.unlink(missing_ok=True)
    raise InputError(
        f"{path}: {len(frames)} frames need more than {MOST_BYTES // 2**10} KiB; make fragments "
        "shorter with --length"
    )


class TraceScale:
    """Range of each shown number of the observations, so that all traces have the same axes.

    Args:
        fragments: All fragments of a set.

    Raises:
        InputError: Observations are not plain arrays of numbers.
    """

    def __init__(self, fragments: Iterable[Trajectory]) -> None:
        rows = [_rows(fragment) for fragment in fragments]
        low = np.min([row.min(axis=0) for row in rows], axis=0)
        high = np.max([row.max(axis=0) for row in rows], axis=0)
        varies = np.flatnonzero(high > low)
        self.shown = (varies if len(varies) else np.arange(len(low)))[:_PANELS]
        self.low, self.high = low[self.shown], np.where(high > low, high, low + 1)[self.shown]
        self.names = [f"observation {index}" for index in self.shown]

    def unit(self, fragment: Trajectory) -> npt.NDArray[np.float64]:
        """The shown numbers of a fragment in [0, 1], shape `(steps + 1, shown)`."""
        unit: npt.NDArray[np.float64] = _rows(fragment)[:, self.shown] - self.low
        unit /= self.high - self.low
        return unit


def draw_trace(fragment: Trajectory, scale: TraceScale) -> list[Frame]:
    """Draws observations over time, one frame per step, for environments that are not rendered.

    Args:
        fragment: The fragment, of at least one step.
        scale: The axes.

    Returns:
        As many frames as observations: one panel per number, drawn up to the step of the frame.
    """
    image, draw_on = (
        import_extra(f"PIL.{name}", "label", "clips") for name in ("Image", "ImageDraw")
    )
    values = scale.unit(fragment)
    steps, panels = values.shape
    width, height = _TRACE_SIZE
    tall = height / panels
    across = np.linspace(_MARGIN, width - _MARGIN, steps)
    frames = []
    for step in range(steps):
        picture = image.new("RGB", _TRACE_SIZE, "white")
        pen = draw_on.Draw(picture)
        for panel in range(panels):
            top, bottom = panel * tall + _MARGIN, (panel + 1) * tall - _MARGIN
            pen.rectangle((_MARGIN, top, width - _MARGIN, bottom), outline="#d0d5dd")
            pen.text((_MARGIN + 3, top + 1), scale.names[panel], fill="#667085")
            points = [
                (float(x), float(bottom - y * (bottom - top)))
                for x, y in zip(across, values[: step + 1, panel], strict=False)
            ]
            color = _COLORS[panel % len(_COLORS)]
            if len(points) > 1:
                pen.line(points, fill=color, width=2)
            x, y = points[-1]
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=color)
        frames.append(np.asarray(picture))
    return frames


def _rows(fragment: Trajectory) -> npt.NDArray[np.float64]:
    obs = fragment.obs
    if not isinstance(obs, np.ndarray) or obs.dtype.kind not in "biuf":
        raise InputError(
            "the environment is not rendered, and its observations are not plain numbers: choose "
            "an environment that renders"
        )
    return obs.reshape(len(obs), -1).astype(np.float64)
