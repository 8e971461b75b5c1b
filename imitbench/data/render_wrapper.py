"""Stores rendered frames with the steps of an environment, to show them to people later."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.errors import InputError
from imitbench.util.extras import import_extra

Frame = npt.NDArray[np.uint8]

RENDERED_KEY = "rendered_img"
"""Entry of an info dictionary with the frame, or the path of its file."""


class RenderImageInfoWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Adds the rendered frame after each step to its info, as `rendered_img`.

    If trajectories are recorded with infos, fragments of them contain the frames, which
    `imitbench.algorithms.preference_comparisons.human_gatherer` shows.

    Args:
        env: Environment with `render_mode="rgb_array"`.
        scale_factor: Height and width of the stored frame relative to the rendered one, in
            (0, 1].
        directory: Folder for PNG files; the info then contains the absolute path, which saves
            memory. Environments, processes and runs may share it: each creates a subfolder.
            The files are never deleted; keep them until all comparisons are made. `None`
            stores the frame in the info, shape `(height, width, 3)`, uint8: a few hundred
            kilobytes per step.

    Raises:
        ValueError: The environment does not render arrays, or `scale_factor` is out of range.
        InputError: Pillow is needed but not installed.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        scale_factor: float = 1.0,
        directory: str | Path | None = None,
    ) -> None:
        super().__init__(env)
        if env.render_mode != "rgb_array":
            raise ValueError(
                f"env: its render_mode must be 'rgb_array', not {env.render_mode!r}; pass "
                "render_mode='rgb_array' to gymnasium.make"
            )
        if not 0 < scale_factor <= 1:
            raise ValueError(f"scale_factor must be above 0 and at most 1, not {scale_factor}")
        self.scale_factor = scale_factor
        self.directory: Path | None = None
        self._count = 0
        if directory is not None or scale_factor != 1:
            _import_pillow()
        if directory is not None:
            parent = Path(directory).absolute()
            parent.mkdir(parents=True, exist_ok=True)
            self.directory = Path(tempfile.mkdtemp(prefix="frames-", dir=parent))

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Returns:
            Result of the environment, with `info["rendered_img"]` added.

        Raises:
            ValueError: The info already has such an entry, or the frame is not an RGB image.
        """
        obs, reward, terminated, truncated, info = self.env.step(action)
        if RENDERED_KEY in info:
            raise ValueError(
                f"info has an entry '{RENDERED_KEY}' already: wrap the environment once"
            )
        rendered: Any = self.env.render()
        frame = _as_frame(rendered, "env rendered")
        info[RENDERED_KEY] = self._keep(frame)
        return obs, reward, terminated, truncated, info

    def _keep(self, frame: Frame) -> Frame | str:
        if self.scale_factor == 1 and self.directory is None:
            return frame.copy()  # the environment may reuse the memory for its next frame
        image = _import_pillow().fromarray(frame)
        if self.scale_factor != 1:
            size = [max(1, round(side * self.scale_factor)) for side in image.size]
            image = image.resize(size, _import_pillow().Resampling.BOX)
        if self.directory is None:
            return np.array(image)
        path = self.directory / f"{self._count:08d}.png"
        self._count += 1
        # Rendered frames are mostly uniform: the lowest level compresses almost as well as the
        # highest, in a fraction of the time.
        image.save(path, compress_level=1)
        return str(path)


def load_frame(entry: Any) -> Frame:
    """Loads the frame of an info's `rendered_img`.

    Args:
        entry: A frame, or the path of its file.

    Returns:
        Shape `(height, width, 3)`, uint8.

    Raises:
        InputError: The file is missing or not an image.
        ValueError: `entry` is neither a frame nor a path.
    """
    if isinstance(entry, str):
        try:
            with _import_pillow().open(entry) as image:
                return np.array(image.convert("RGB"))
        except (OSError, SyntaxError, ValueError) as error:
            raise InputError(
                f"{entry}: the stored frame cannot be read; keep it until all comparisons with it "
                "are made"
            ) from error
    return _as_frame(entry, f"'{RENDERED_KEY}' is")


def _as_frame(value: Any, what: str) -> Frame:
    frame = np.asarray(value)
    if frame.ndim != 3 or frame.shape[-1] != 3 or frame.dtype != np.uint8:
        raise ValueError(
            f"{what} an array of shape {frame.shape} and {frame.dtype}, not an RGB image"
        )
    return frame


def _import_pillow() -> Any:
    # Imported on use because it loads slowly, and only stored frames need it.
    return import_extra("PIL.Image", "video", "storing frames")
