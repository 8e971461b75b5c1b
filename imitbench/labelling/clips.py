"""Draws what happened in a fragment, and encodes it as a short video with a bound on its size."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment
from imitbench.data.types import Trajectory
from imitbench.errors import InputError
from imitbench.experts.video import check_rendering
from imitbench.labelling.label_set import MOST_CLIP_BYTES, clip_problem
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line
from imitbench.util.video_wrapper import import_encoder

Frame = npt.NDArray[np.uint8]

LONGEST_SIDE = 320
"""Width and height of clips are at most this many pixels."""

MOST_BYTES = MOST_CLIP_BYTES // 2
TRACE_FPS, FASTEST_FPS = 20.0, 30.0
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


# The environment is put into the states of the observations. That works where an observation tells
# the whole state: in the classic-control environments, in MuJoCo environments that observe all
# positions and velocities, as those of seals, and for images.
_CHANNELS = 3
_StateSetter = Callable[[Any, npt.NDArray[Any]], None]


def _pendulum(env: Any, obs: npt.NDArray[Any]) -> None:
    env.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])
    env.last_u = None


def _plain(env: Any, obs: npt.NDArray[Any]) -> None:
    env.state = obs.copy()


def _acrobot(env: Any, obs: npt.NDArray[Any]) -> None:
    angles = np.arctan2(obs[1:4:2], obs[0:4:2])
    env.state = np.array([*angles, *obs[4:6]])


def _mujoco(env: Any, obs: npt.NDArray[Any]) -> None:
    env.set_state(obs[: env.model.nq].astype(float), obs[env.model.nq :].astype(float))


_CLASSIC: dict[str, _StateSetter] = {
    "PendulumEnv": _pendulum,
    "CartPoleEnv": _plain,
    "MountainCarEnv": _plain,
    "Continuous_MountainCarEnv": _plain,
    "AcrobotEnv": _acrobot,
}


def _state_setter(env: gym.Env[Any, Any]) -> _StateSetter | None:
    """What puts an environment into the state of an observation, if that is possible."""
    inner: Any = env.unwrapped
    for kind in type(inner).__mro__:
        if kind.__name__ in _CLASSIC and kind.__module__.startswith("gymnasium."):
            return _CLASSIC[kind.__name__]
    model, space = getattr(inner, "model", None), env.observation_space
    if hasattr(inner, "set_state") and space.shape == (
        getattr(model, "nq", 0) + getattr(model, "nv", 0),
    ):
        return _mujoco
    return None


class FragmentPainter:
    """Draws fragments that have no frames.

    Args:
        spec: Their environment; `None` if it is not known.

    Attributes:
        rendered: Whether frames show the environment; otherwise they are traces.
        fps: Frames per second.
        env_id: Id of the environment; `None` if it is not known.
    """

    def __init__(self, spec: EnvironmentSpec | None) -> None:
        self.env_id = None if spec is None else spec.id
        self._env: gym.Env[Any, Any] | None = None
        self._set_state: _StateSetter | None = None
        self.fps = TRACE_FPS
        if spec is not None:
            self._prepare(spec)
        self.rendered = self._set_state is not None

    def _prepare(self, spec: EnvironmentSpec) -> None:
        try:
            found = check_rendering(spec)
        except InputError:
            return
        env = make_environment(found.spec)
        self._set_state = _state_setter(env)
        if self._set_state is None:
            env.close()
            return
        env.reset(seed=0)
        self._env, self.fps = env, min(found.fps, FASTEST_FPS)

    def frames(self, fragment: Trajectory, beside: Sequence[Trajectory] = ()) -> list[Frame]:
        """Draws one frame per observation.

        Args:
            fragment: What is drawn.
            beside: Fragments that are shown beside it, whose traces must have the same axes.

        Raises:
            InputError: Observations are not plain numbers, or those of another environment.
        """
        obs = fragment.obs
        if isinstance(obs, np.ndarray):
            if self._set_state is not None and self._env is not None:
                due = self._env.observation_space.shape
                if obs.shape[1:] != due:
                    raise InputError(
                        f"--env {self.env_id}: its observations have the shape {due}, those to "
                        f"draw {obs.shape[1:]}; name the environment that they come from"
                    )
                return [self._picture(observation) for observation in obs]
            if obs.dtype == np.uint8 and obs.ndim == 4:
                return [_image(observation) for observation in obs]
        return self.trace(fragment, beside)

    def trace(self, fragment: Trajectory, beside: Sequence[Trajectory] = ()) -> list[Frame]:
        """Draws the observations over time; see `frames`.

        Raises:
            InputError: Observations are not plain numbers.
        """
        return draw_trace(fragment, TraceScale([fragment, *beside]))

    def close(self) -> None:
        """Closes the environment."""
        if self._env is not None:
            self._env.close()

    def _picture(self, obs: npt.NDArray[Any]) -> Frame:
        assert self._env is not None and self._set_state is not None, "it is rendered"
        self._set_state(self._env.unwrapped, obs)
        return shrink(np.asarray(self._env.render()))


def _image(obs: npt.NDArray[Any]) -> Frame:
    """The picture in an observation of an image or of a stack of gray ones, whose last is shown."""
    if obs.shape[-1] not in (1, _CHANNELS) and obs.shape[0] < obs.shape[-1]:
        obs = np.moveaxis(obs, 0, -1)  # channels first
    picture = obs if obs.shape[-1] == _CHANNELS else np.repeat(obs[..., -1:], _CHANNELS, axis=-1)
    return shrink(np.ascontiguousarray(picture))
