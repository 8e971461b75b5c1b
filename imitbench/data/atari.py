"""Atari games for learning from observations: episodes of fixed length, scores hidden."""

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
    "Seaquest": [BoxRegion(x=(7, 19), y=(48, 112))],  # room for scores of more digits
}
"""Where games show the score, in pixels of the screen, by name: rows `x`, columns `y`."""


def register_atari() -> bool:
    """Makes Atari games known to Gymnasium, which does not look for them by itself.

    Returns:
        Whether they are installed.
    """
    try:
        gym.register_envs(importlib.import_module("ale_py"))
    except ImportError:
        return False
    return True


def score_regions(env_id: str) -> list[BoxRegion]:
    """Where a game shows its score.

    Args:
        env_id: Gymnasium id, such as `ALE/Breakout-v5` or `BreakoutNoFrameskip-v4`.

    Raises:
        InputError: That is not known.
    """
    game = env_id.rpartition("/")[2].partition("-")[0].removesuffix("NoFrameskip")
    if game not in SCORE_REGIONS:
        raise InputError(
            f"{env_id}: nobody wrote down where it shows the score; known: "
            f"{', '.join(sorted(SCORE_REGIONS))}; or wrap it in seals.util.MaskScoreWrapper with "
            "regions of your own"
        )
    return SCORE_REGIONS[game]


def make_fixed_length_atari(
    env_id: str, num_steps: int, mask_score: bool = True, **kwargs: Any
) -> gym.Env[Any, Any]:
    """Makes an Atari game whose episodes all have the same length.

    It is preprocessed in the usual way (`stable_baselines3.common.atari_wrappers.AtariWrapper`):
    of every four screens one grey image of 84 by 84 pixels is seen, and rewards are reduced to
    their sign. When the player loses a life the game simply goes on, and when it is over another
    begins, so that nothing about the reward shows in the length of an episode.

    Args:
        env_id: Gymnasium id of a variant that repeats no frames by itself, such as
            `BreakoutNoFrameskip-v4`.
        num_steps: Steps of an episode.
        mask_score: Whether to black the score out, which a reward network would read otherwise.
        **kwargs: For `gymnasium.make`.

    Raises:
        InputError: Atari is not installed, or it is not known where the game shows its score.
    """
    for module in ("ale_py", "cv2"):
        import_extra(module, "atari", "an Atari game")
    register_atari()
    from stable_baselines3.common.atari_wrappers import AtariWrapper

    env: gym.Env[Any, Any] = gym.make(env_id, **kwargs)
    if mask_score:  # on the whole screen, before it is made smaller
        env = MaskScoreWrapper(env, score_regions(env_id))
    endless: gym.Env[Any, Any] = AutoResetWrapper(AtariWrapper(env))  # type: ignore[no-untyped-call]
    return gym.wrappers.TimeLimit(endless, max_episode_steps=num_steps)
