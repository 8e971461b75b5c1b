"""Records videos of a policy."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import gymnasium as gym
import numpy as np

from imitbench.bench.environments import make_environment
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line
from imitbench.util.video_wrapper import VideoWrapper, import_encoder

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy


def check_video(spec: EnvironmentSpec, to: Path) -> EnvironmentSpec:
    """Checks that an environment can be recorded, by rendering a first frame.

    Args:
        spec: Environment to record.
        to: The `.mp4` file to write, which must not exist.

    Returns:
        The environment with rendering enabled.

    Raises:
        InputError: The environment cannot be recorded, or the file exists.
    """
    if to.suffix.lower() != ".mp4":
        raise InputError(f"--video {to}: must end in .mp4")
    if to.exists():
        raise InputError(f"--video {to}: already exists; choose another file")
    import_encoder()
    try:
        return check_rendering(spec).spec
    except InputError as error:
        raise InputError(f"--video: {error}") from error


class RenderedEnvironment(NamedTuple):
    """An environment with rendering enabled.

    Attributes:
        spec: The specification, with `render_mode`.
        fps: Frames per second at which it is usually shown.
    """

    spec: EnvironmentSpec
    fps: float


def check_rendering(spec: EnvironmentSpec) -> RenderedEnvironment:
    """Checks that an environment can be rendered here, by rendering a first frame.

    Raises:
        InputError: It cannot.
    """
    _render_without_display()
    rendered = spec.model_copy(update={"kwargs": {**spec.kwargs, "render_mode": "rgb_array"}})
    environment: gym.Env[Any, Any] | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Gymnasium's, on modes that an environment lacks
            environment = make_environment(rendered)
            environment.reset(seed=0)
            frame: Any = environment.render()
        if np.shape(frame)[2:] != (3,):
            raise TypeError("it does not render images of three colors")
        return RenderedEnvironment(rendered, float(environment.metadata.get("render_fps") or 30))
    except Exception as error:  # drivers, missing libraries and environments raise any type
        if isinstance(error, gym.error.DependencyNotInstalled) and "pygame" in str(error):
            import_extra("pygame", "video", f"rendering {spec.id}")
        if environment is None and _has_no_pictures(spec):
            raise InputError(
                f"{spec.id} cannot be rendered here: it has no render mode 'rgb_array'"
            ) from error
        problem = one_line(str(error))[:200] or type(error).__name__
        raise InputError(
            f"{spec.id} cannot be rendered here ({problem}); MuJoCo needs MUJOCO_GL=egl "
            "or MUJOCO_GL=osmesa with its library, others pygame"
        ) from error
    finally:
        if environment is not None:
            environment.close()


def _has_no_pictures(spec: EnvironmentSpec) -> bool:
    """Whether an environment that cannot be made for rendering says so itself."""
    try:
        environment = make_environment(spec)
    except InputError:
        return False
    modes = environment.metadata.get("render_modes")
    environment.close()
    return modes is not None and "rgb_array" not in modes


def _render_without_display() -> None:
    """Makes MuJoCo and pygame render in memory where there is no screen, and pygame quietly."""
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "hide")
    os.environ.setdefault("SDL_NO_SIGNAL_HANDLERS", "1")  # SDL would ignore SIGTERM
    screens = ("DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(map(os.environ.get, screens)):
        os.environ.setdefault("MUJOCO_GL", "egl")
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
        os.environ.setdefault("SDL_AUDIODRIVER", "dummy")


def record_video(
    rendered: EnvironmentSpec,
    policy: BasePolicy,
    to: Path,
    *,
    episodes: int,
    seed: int,
    deterministic: bool,
) -> list[dict[str, Any]]:
    """Records consecutive episodes into one file, which appears when complete.

    Args:
        rendered: Result of `check_video`.
        policy: Policy to record.
        to: The `.mp4` file to write.
        episodes: Number of episodes; they start as the first ones of an evaluation with `seed`.
        seed: Seed of the evaluation.
        deterministic: Whether to use the deterministic policy.

    Returns:
        `episode_id`, `length` and `return` of each.

    Raises:
        InputError: The file cannot be written.
    """
    from imitbench.bench.protocol import Evaluator  # with torch, which rendering does not need

    try:
        to.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".video-", dir=to.parent) as scratch:
            with Evaluator(rendered, 1, wrap=lambda env: VideoWrapper(env, scratch)) as evaluator:
                evaluator.evaluate(
                    policy, episodes=episodes, seed=seed, deterministic=deterministic
                )
            [video] = Path(scratch).glob("*.mp4")
            meta = json.loads(video.with_suffix(".meta.json").read_text())
            shutil.move(video, to)
    except OSError as error:
        raise InputError(f"--video {to}: cannot be written ({error.strerror})") from error
    found: list[dict[str, Any]] = meta["episodes"]
    return found
