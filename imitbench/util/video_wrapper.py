"""Records the rendered frames of an environment as video files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_text

_DEFAULT_FPS = 30


class VideoWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """Renders after every reset and step, and writes the frames to H.264 files in `directory`.

    Files are named `video.<number of the first episode, in 6 digits>.mp4`. Each has a `.meta.json`
    with the length and return of its episodes. A file appears when it is complete: after its
    episode, or on `close`. Frames are encoded immediately, so that long recordings need no memory.

    Args:
        env: Environment with `render_mode="rgb_array"`.
        directory: Folder for the videos; created if missing.
        single_video: Whether to write all episodes to one file.

    Raises:
        ValueError: The environment does not render arrays.
        InputError: The encoder is not installed.
    """

    def __init__(
        self, env: gym.Env[Any, Any], directory: str | Path, single_video: bool = True
    ) -> None:
        super().__init__(env)
        if env.render_mode != "rgb_array":
            raise ValueError(
                f"env: its render_mode must be 'rgb_array', not {env.render_mode!r}; pass "
                "render_mode='rgb_array' to gymnasium.make"
            )
        import_encoder()
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.single_video = single_video
        self.episode_id = 0
        self._fps = env.metadata.get("render_fps") or _DEFAULT_FPS
        self._file: _VideoFile | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Starts an episode, and a new file unless `single_video` is set."""
        result = super().reset(seed=seed, options=options)
        if self._file is not None and not self.single_video:
            self._finish()
        if self._file is None:
            self._file = _VideoFile(self.directory / f"video.{self.episode_id:06d}.mp4", self._fps)
        self._file.begin_episode(self.episode_id)
        self.episode_id += 1
        self._record(self._file)
        return result

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        """Takes a step and records the frame.

        Raises:
            ValueError: The environment did not render an image with 3 channels.
        """
        result = super().step(action)
        if self._file is not None:
            self._file.add_reward(float(result[1]))
            self._record(self._file)
        return result

    def close(self) -> None:
        """Completes the current file, then closes the environment."""
        self._finish()
        super().close()

    def _record(self, file: _VideoFile) -> None:
        frame: Any = self.env.render()
        file.add_frame(np.asarray(frame))

    def _finish(self) -> None:
        if self._file is not None:
            self._file.finish()
            self._file = None


class _VideoFile:
    """A file during recording; it has a temporary name until it is complete."""

    def __init__(self, path: Path, fps: float) -> None:
        self.path = path
        self._partial = path.with_name(f".{path.stem}.partial{path.suffix}")
        self._writer = import_encoder().get_writer(
            self._partial, fps=fps, codec="libx264", macro_block_size=1
        )
        self._episodes: list[dict[str, Any]] = []

    def begin_episode(self, number: int) -> None:
        self._episodes.append({"episode_id": number, "length": 0, "return": 0.0})

    def add_reward(self, reward: float) -> None:
        self._episodes[-1]["length"] += 1
        self._episodes[-1]["return"] += reward

    def add_frame(self, frame: npt.NDArray[Any]) -> None:
        if frame.ndim != 3 or frame.shape[-1] != 3:
            raise ValueError(f"env: rendered an array of shape {frame.shape}, not an RGB image")
        # The encoder halves the resolution of colors, so that width and height must be even.
        height, width = frame.shape[:2]
        if height % 2 or width % 2:
            frame = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
        self._writer.append_data(frame.astype(np.uint8, copy=False))

    def finish(self) -> None:
        self._writer.close()
        meta = {"episode_id": self._episodes[0]["episode_id"], "episodes": self._episodes}
        atomic_write_text(self.path.with_suffix(".meta.json"), json.dumps(meta, indent=1) + "\n")
        self._partial.replace(self.path)


def import_encoder(purpose: str = "recording videos") -> Any:
    """Imports the package that writes videos.

    Args:
        purpose: What needs it, for the message.

    Raises:
        InputError: The package is not installed.
    """
    # Imported on use because it loads slowly and few users need it.
    import_extra("imageio_ffmpeg", "video", purpose)
    return import_extra("imageio", "video", purpose)
