"""Atari games with episodes of fixed length and hidden scores."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium as gym
from seals.atari import SCORE_REGIONS as SEALS_REGIONS
from seals.util import AutoResetWrapper, BoxRegion, MaskScoreWrapper

from imitbench.errors import InputError
from imitbench.util.extras import import_extra

SCORE_REGIONS: dict[str, list[BoxRegion]] = {
    **SEALS_REGIONS,
    "Asteroids": [BoxRegion(x=(5, 15), y=(0, 96))],
    "Seaquest": [BoxRegion(x=(7, 19), y=(48, 112))],  # wide enough for more digits
}
"""Screen regions of the score by game, in pixels: rows `x`, columns `y`."""


def register_atari() -> bool:
    """Registers the Atari games of `ale_py` with Gymnasium.

    Returns:
        Whether `ale_py` is installed.
    """
    try:
        gym.register_envs(importlib.import_module("ale_py"))
    except ImportError:
        return False
    return True


def score_regions(env_id: str) -> list[BoxRegion]:
    """Returns the screen regions of a game's score.

    Args:
        env_id: Gymnasium id, such as `ALE/Breakout-v5` or `BreakoutNoFrameskip-v4`.

    Raises:
        InputError: The regions are not known for this game.
    """
    game = env_id.rpartition("/")[2].partition("-")[0].removesuffix("NoFrameskip")
    if game not in SCORE_REGIONS:
        raise InputError(
            f"{env_id}: the screen region of its score is not known; known games: "
            f"{', '.join(sorted(SCORE_REGIONS))}; or wrap it in seals.util.MaskScoreWrapper with "
            "your regions"
        )
    return SCORE_REGIONS[game]


def make_fixed_length_atari(
    env_id: str, num_steps: int, mask_score: bool = True, **kwargs: Any
) -> gym.Env[Any, Any]:
    """Creates an Atari game with episodes of fixed length.

    `stable_baselines3.common.atari_wrappers.AtariWrapper` preprocesses it: one grey image of 84
    by 84 pixels per four frames, and rewards clipped to their sign. Losing a life does not end
    an episode, and a finished game restarts, so that the length of an episode contains no
    information about the reward.

    Args:
        env_id: Gymnasium id of a variant without frame skipping, such as
            `BreakoutNoFrameskip-v4`.
        num_steps: Length of an episode, in steps.
        mask_score: Whether to mask the score, which a reward network could otherwise read.
        **kwargs: Passed to `gymnasium.make`.

    Raises:
        InputError: Atari is not installed, or the region of the score is not known.
    """
    for module in ("ale_py", "cv2"):
        import_extra(module, "atari", "an Atari game")
    register_atari()
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    env: gym.Env[Any, Any] = gym.make(env_id, **kwargs)
    if mask_score:  # before the screen is scaled down
        env = MaskScoreWrapper(env, score_regions(env_id))
    endless: gym.Env[Any, Any] = AutoResetWrapper(AtariWrapper(env))  # type: ignore[no-untyped-call]
    return gym.wrappers.TimeLimit(endless, max_episode_steps=num_steps)
