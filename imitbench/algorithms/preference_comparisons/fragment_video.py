"""Writes a fragment as a video file, from the frames in its infos."""

from __future__ import annotations

from pathlib import Path

from imitbench.data.render_wrapper import RENDERED_KEY, load_frame
from imitbench.data.types import Trajectory
from imitbench.util.video_wrapper import import_encoder

# The encoder halves the resolution of colours, so both sides must be even.
_EVEN_SIDES = ["-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2"]


def has_frames(fragment: Trajectory) -> bool:
    """Whether each step has a frame, see `imitbench.data.render_wrapper`."""
    return fragment.infos is not None and all(RENDERED_KEY in info for info in fragment.infos)


def write_fragment_video(fragment: Trajectory, path: Path, fps: float) -> None:
    """Writes the outcome of each step as one frame of an H.264 file.

    Frames are read and encoded one at a time. The file is renamed to `path` when complete.

    Args:
        fragment: Fragment whose infos have frames of equal size.
        path: File to write, ending in `.mp4`; its folder exists. A black line is added to a side of
            odd length.
        fps: Frame rate, in frames per second.

    Raises:
        ValueError: Frames are missing or differ in size.
        InputError: The encoder is not installed, or the file of a frame is missing.
    """
    if not has_frames(fragment):
        raise ValueError(
            f"fragment: an info has no '{RENDERED_KEY}'; wrap the environment in "
            "imitbench.data.render_wrapper.RenderImageInfoWrapper and keep the infos"
        )
    assert fragment.infos is not None, "checked by has_frames"
    partial = path.with_name(f".{path.stem}.partial{path.suffix}")
    writer = import_encoder("writing videos").get_writer(
        partial, fps=fps, codec="libx264", macro_block_size=1, output_params=_EVEN_SIDES
    )
    try:
        with writer:
            for info in fragment.infos:
                writer.append_data(load_frame(info[RENDERED_KEY]))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
