"""What a person records, made and checked from the options of the command."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from imitbench.bench.environments import make_environment
from imitbench.cards.success import SuccessRule
from imitbench.errors import InputError
from imitbench.experts.video import check_rendering
from imitbench.recording.controls import (
    Controls,
    default_controls,
    out_of_reach,
    read_controls,
)
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.text_line import note, one_line

SLOWEST_HZ, FASTEST_HZ = 10.0, 60.0
"""Range of the rate at which people can act."""


@dataclass(frozen=True)
class RecordingTask:
    """What is recorded.

    Attributes:
        spec: The environment, with rendering enabled.
        stored_kwargs: Its arguments without those of rendering.
        controls: Where actions come from.
        rate_hz: Steps per second.
        goal: Number of episodes to keep, those of earlier recordings in the folder included;
            `None` if a training decides.
        undo_s: Seconds that one undo takes back.
        seed: Determines the starts.
        success: When an episode is a success; `None` to look for the usual entries of `info`.
    """

    spec: EnvironmentSpec
    stored_kwargs: Mapping[str, Any]
    controls: Controls
    rate_hz: float
    goal: int | None
    undo_s: float
    seed: int
    success: SuccessRule | None


def controls_for(spec: EnvironmentSpec, path: Path | None) -> Controls:
    """Returns the controls of a file, or the default ones, for an environment.

    Notes actions that the default ones cannot give: the person could miss them.

    Raises:
        InputError: The environment cannot be created, its observations cannot be stored, or there
            are no controls that fit.
    """
    env = make_environment(spec)
    try:
        _check_observations(env, spec.id)
        if path is not None:
            return read_controls(path, env.action_space)
        controls = default_controls(env, spec.id)
        if lacking := out_of_reach(controls, env.action_space):
            shown = one_line(", ".join(map(str, lacking)), 60)
            note(f"no key or button gives action {shown}; --controls names others")
        return controls
    finally:
        env.close()


def make_task(
    spec: EnvironmentSpec,
    controls: Controls,
    *,
    rate_hz: float | None,
    goal: int | None,
    seed: int,
    undo_s: float = 2.0,
    success: str | None = None,
) -> RecordingTask:
    """Checks that an environment can be recorded.

    Args:
        spec: The environment, as on a suite's card.
        controls: Result of `controls_for`.
        rate_hz: Steps per second; `None` for the environment's own rate, within what people can do.
        goal: See `RecordingTask`.
        seed: See `RecordingTask`.
        undo_s: See `RecordingTask`.
        success: Entry of `info`, such as `is_success`, or `is_success:end` if only the last step
            counts; `None` for the rule of the card.

    Raises:
        InputError: It cannot be rendered, or an option is malformed.
    """
    try:
        rendered = check_rendering(spec)
    except InputError as error:
        raise InputError(f"--env {error}") from error
    own_rate = min(max(rendered.fps, SLOWEST_HZ), FASTEST_HZ)
    return RecordingTask(
        spec=rendered.spec,
        stored_kwargs=dict(spec.kwargs),
        controls=controls,
        rate_hz=own_rate if rate_hz is None else rate_hz,
        goal=goal,
        undo_s=undo_s,
        seed=seed,
        success=spec.success if success is None else _success_rule(success),
    )


def _success_rule(given: str) -> SuccessRule:
    key, colon, when = given.rpartition(":")
    if colon and when not in ("ever", "end"):
        raise InputError(
            f"--success {one_line(given, 60)}: must be an entry of info, such as is_success, "
            "perhaps followed by :ever or :end"
        )
    key, when = (key, when) if colon else (given, "ever")
    if not 1 <= len(key) <= 80:
        raise InputError(f"--success {one_line(given, 60)}: name an entry of 1 to 80 characters")
    return SuccessRule.model_validate({"key": key, "when": when})


def _check_observations(env: gym.Env[Any, Any], env_id: str) -> None:
    space = env.observation_space
    stored = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
    if not isinstance(space, stored):
        raise InputError(
            f"--env {env_id}: its observations are a {type(space).__name__}, which a data set "
            "cannot hold; register it with gymnasium.wrappers.FlattenObservation"
        )
