"""Makes a suite of one environment from demonstrations alone, without an expert."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml
from gymnasium import spaces

from imitbench.bench.environments import make_environment
from imitbench.cards.algorithm import ActionSpace
from imitbench.cards.plugins import SUITE_CARD
from imitbench.cards.suite import SuiteCard
from imitbench.data.conversion import ConversionSummary, convert_demonstrations
from imitbench.data.trajectory_source import TrajectorySource
from imitbench.errors import InputError
from imitbench.experts.lookup import find_listed_environment
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.files import atomic_write_text

_BUDGETS = {
    "quick": {"env_steps": 20_000, "batches": 1_000},
    "default": {"env_steps": 100_000, "batches": 4_000},
    "full": {"env_steps": 500_000, "batches": 20_000},
}
_STEPS_PER_SECOND = 10_000.0  # until `imitbench suites measure` has run
_SPACES: dict[type[gym.Space[Any]], ActionSpace] = {
    spaces.Box: "box",
    spaces.Discrete: "discrete",
    spaces.MultiDiscrete: "multi_discrete",
}


def write_demos_suite(
    source: TrajectorySource,
    folder: Path,
    *,
    name: str,
    env_id: str | None,
    score_one: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ConversionSummary:
    """Writes the card of a suite, with the converted demonstrations beside it.

    What a bundled suite knows of the environment is taken over. Otherwise the horizon is declared
    as variable, which is always valid.

    Args:
        source: The demonstrations.
        folder: An existing folder, which receives `suite.yaml` and `demos/`.
        name: Name of the suite.
        env_id: Gymnasium id, perhaps as `module:id`; that of the recording when `None`.
        score_one: Mean return of score 1; `None` for that of the demonstrators.
        progress: Called with the numbers of trajectories done and in total.

    Raises:
        InputError: The environment is unknown, does not fit, or has an unsupported action space; or
            score 1 is unknown, as no whole episode has rewards.
    """
    wanted = env_id or getattr(source, "environment_id", None)
    if wanted is None:
        raise InputError(
            f"--from-demos {source.where}: does not state its environment; give its Gymnasium id "
            "with --env, such as --env CartPole-v1"
        )
    if score_one is not None and not math.isfinite(score_one):
        raise InputError(f"--score-one {score_one}: must be a finite number")
    card = _environment_card(wanted)
    own_id = wanted.rpartition(":")[2]
    spec = EnvironmentSpec(
        id=own_id, module=card["module"], kwargs=card["kwargs"], horizon=card["horizon"]
    )
    repo = f"demos-{own_id.replace('/', '-')}"
    environment = make_environment(spec)
    try:
        card["action_space"] = _action_space(environment, own_id)
        summary = convert_demonstrations(
            source,
            folder / "demos" / repo,
            environment=environment,
            environment_id=own_id,
            progress=progress,
        )
    finally:
        environment.close()
    if score_one is None and (not summary.returns or summary.unfinished == summary.rows):
        raise InputError(
            f"--from-demos {source.where}: no whole episode has rewards, so that score 1 is "
            "unknown; give the mean return of score 1 with --score-one"
        )
    longest = summary.lengths[1]
    if card["max_episode_steps"] is None:
        limit = environment.spec.max_episode_steps if environment.spec else None
        card["max_episode_steps"] = limit or longest
    card["demos"] = {"repo": repo, "trajectories": summary.rows}
    if score_one is not None:
        card["score_one"] = float(score_one)
    document = {
        "schema_version": 1,
        "name": name,
        "title": name,
        "description": f"Demonstrations of {own_id}, without an expert.",
        "version": "1",
        "environments": {
            own_id: {key: value for key, value in card.items() if value not in (None, {})}
            | {"budgets": _BUDGETS}
        },
    }
    SuiteCard.model_validate(document)
    text = yaml.safe_dump(document, sort_keys=False, width=100, allow_unicode=True)
    atomic_write_text(folder / SUITE_CARD, text)
    return summary


def _environment_card(wanted: str) -> dict[str, Any]:
    """Returns what is known of an environment: from a bundled suite, else almost nothing."""
    module, _, env_id = wanted.rpartition(":")
    known = None if module else find_listed_environment(env_id, None)
    if known is not None:
        spec = EnvironmentSpec.of_card(env_id, known.card)
        return {
            "title": known.card.title,
            "module": spec.module,
            "horizon": spec.horizon,
            "kwargs": dict(spec.kwargs),
            "max_episode_steps": known.card.max_episode_steps,
            "steps_per_second": known.card.steps_per_second,
            "tabular": known.card.tabular or None,
            "evaluation_id": known.card.evaluation_id,
            "absolute_positions": list(known.card.absolute_positions) or None,
        }
    return {
        "title": env_id.rpartition("/")[2],
        "module": module or ("seals" if env_id.startswith("seals/") else None),
        "horizon": "variable",
        "kwargs": {},
        "max_episode_steps": None,
        "steps_per_second": _STEPS_PER_SECOND,
    }


def _action_space(environment: gym.Env[Any, Any], env_id: str) -> ActionSpace:
    kind = _SPACES.get(type(environment.action_space))
    if kind is None:
        raise InputError(
            f"--env {env_id}: its actions are of a {type(environment.action_space).__name__} "
            "space; methods act in Box, Discrete and MultiDiscrete spaces"
        )
    return kind
