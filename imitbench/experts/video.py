"""Videos of a policy at work."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.environments import make_environment
from imitbench.bench.protocol import Evaluator
from imitbench.errors import InputError
from imitbench.store.records import EnvironmentSpec
from imitbench.util.text_line import one_line
from imitbench.util.video_wrapper import VideoWrapper, import_encoder


def check_video(spec: EnvironmentSpec, to: Path) -> EnvironmentSpec:
    """Makes sure that an environment can be recorded here, by rendering a first frame.

    Args:
        spec: The environment.
        to: The file to write, which must not exist.

    Returns:
        The environment as it renders.

    Raises:
        InputError: It cannot be recorded, or the file is there already.
    """
    if to.suffix.lower() != ".mp4":
        raise InputError(f"--video {to}: must end in .mp4")
    if to.exists():
        raise InputError(f"--video {to}: is there already; name another file")
    import_encoder()
    if sys.platform.startswith("linux") and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # the usual one would ask for a screen
    rendered = spec.model_copy(update={"kwargs": {**spec.kwargs, "render_mode": "rgb_array"}})
    environment: gym.Env[Any, Any] | None = None
    try:
        environment = make_environment(rendered)
        environment.reset(seed=0)
        frame: Any = environment.render()
        if getattr(frame, "ndim", 0) != 3:
            raise TypeError("it renders no pictures")
    except Exception as error:  # whatever a driver, a missing library or an environment raises
        problem = one_line(str(error))[:200] or type(error).__name__
        raise InputError(
            f"--video: {spec.id} cannot be rendered here ({problem}); MuJoCo needs MUJOCO_GL=egl "
            "or MUJOCO_GL=osmesa with its library, others pygame"
        ) from error
    finally:
        if environment is not None:
            environment.close()
    return rendered


def record_video(
    rendered: EnvironmentSpec,
    policy: BasePolicy,
    to: Path,
    *,
    episodes: int,
    seed: int,
    deterministic: bool,
) -> list[dict[str, Any]]:
    """Records episodes one after the other, into one file that appears when it is complete.

    Args:
        rendered: The environment, as `check_video` gives it.
        policy: Acts.
        to: The file.
        episodes: How many; they begin as the first ones of an evaluation with that seed.
        seed: Seed of the evaluation.
        deterministic: Whether the policy takes its most likely action.

    Returns:
        `episode_id`, `length` and `return` of each.

    Raises:
        InputError: The file cannot be written.
    """
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
