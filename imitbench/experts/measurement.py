"""Measures returns of random actions and of experts: the references of a suite."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench import artifacts
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import rewrite_suite_card
from imitbench.cards.suite import EnvironmentCard, Measurement, References
from imitbench.errors import InputError
from imitbench.policies.base import RandomPolicy
from imitbench.policies.space_check import check_policy_fits
from imitbench.policies.storage import load_policy
from imitbench.records.episodes import Episodes
from imitbench.records.runs import EnvironmentSpec, Protocol
from imitbench.util.files import atomic_write_text

REFERENCE_SEED = 20_000
"""Far from usual seeds of runs, so that references share no episodes with them."""


@dataclass(frozen=True)
class PolicyMeasurement:
    """The measurement of a policy.

    Attributes:
        episodes: Returns and lengths of the episodes.
        steps_per_second: Environment steps per second, including inference.
    """

    episodes: Episodes
    steps_per_second: float

    def as_measurement(self, command: str, revision: str | None) -> Measurement:
        """Converts it to the entry of a suite card."""
        return _entry(self.episodes.returns, self.episodes.deterministic, command, revision)


def _entry(
    returns: npt.NDArray[np.float64], deterministic: bool, command: str, revision: str | None
) -> Measurement:
    return Measurement(
        mean=round(float(returns.mean()), 4),
        std=round(float(returns.std()), 4),
        episodes=len(returns),
        deterministic=deterministic,
        command=command,
        date=datetime.now(timezone.utc).date().isoformat(),
        revision=revision,
    )


def measure(
    spec: EnvironmentSpec,
    policy: BasePolicy | None,
    *,
    episodes: int,
    deterministic: bool,
    seed: int,
) -> PolicyMeasurement:
    """Evaluates a policy by the protocol of the benchmark.

    Args:
        spec: Environment; its `evaluated` variant is used.
        policy: Policy to measure; `None` for uniformly random actions.
        episodes: Number of episodes.
        deterministic: Whether to use the deterministic policy.
        seed: Seed of the environments and of sampled actions.

    Raises:
        InputError: The environment cannot be created, or the policy does not fit it.
    """
    with Evaluator(spec.evaluated, Protocol().environments) as evaluator:
        spaces = (evaluator.observation_space, evaluator.action_space)
        if policy is None:
            policy = RandomPolicy(*spaces)
        else:
            check_policy_fits(policy, *spaces, where="the policy")
        started = time.monotonic()
        result = evaluator.evaluate(
            policy, episodes=episodes, seed=seed, deterministic=deterministic
        )
        elapsed = time.monotonic() - started
    return PolicyMeasurement(result, float(result.lengths.sum()) / elapsed)


def measure_references(
    env_id: str, card: EnvironmentCard, root: Path, *, episodes: int, command: str
) -> tuple[References, float]:
    """Measures both references of an environment, with stochastic policies as in runs.

    Without an expert, the second one is the mean return of the demonstrators' whole episodes.

    Args:
        env_id: Gymnasium id.
        card: Card of the environment.
        root: Folder that holds `experts/` and `demos/`.
        episodes: Episodes for each policy.
        command: Command line to record.

    Returns:
        The references, and the speed with random actions, in steps per second.

    Raises:
        InputError: The expert or the demonstrations are missing; or there is neither an expert, nor
            rewards, nor a number on the card.
    """
    spec = EnvironmentSpec.of_card(env_id, card)
    common = {"episodes": episodes, "seed": REFERENCE_SEED}
    if card.expert is None:
        shown = _measure_demonstrations(env_id, card, root, command)
        by_random = measure(spec, None, deterministic=False, **common)
        random = by_random.as_measurement(command, None)
        return References(random=random, demonstrations=shown), by_random.steps_per_second
    place = artifacts.ArtifactLocation(root, "experts", "bundled", card.expert.repo)
    expert_pin = artifacts.pin_expert(place)
    expert = load_policy(place.folder)
    by_random = measure(spec, None, deterministic=False, **common)
    by_expert = measure(spec, expert, deterministic=False, **common)
    references = References(
        random=by_random.as_measurement(command, None),
        expert=by_expert.as_measurement(command, expert_pin.digest[:12]),
    )
    return references, by_random.steps_per_second


def _measure_demonstrations(
    env_id: str, card: EnvironmentCard, root: Path, command: str
) -> Measurement | None:
    """Returns the demonstrators' return; `None` if it is unknown and the card has a number."""
    place = artifacts.ArtifactLocation(root, "demos", "bundled", card.demos.repo)
    pin = artifacts.pin_demos(place, card.demos.trajectories, None)
    returns = artifacts.demonstrated_returns(place)
    if len(returns):
        return _entry(returns, card.demos.deterministic, command, pin.digest[:12])
    if card.score_one is None:
        raise InputError(
            f"{env_id}: the demonstrations in {place.folder} have no whole episode with rewards, "
            "so that score 1 is unknown; state a mean return as `score_one` on the card"
        )
    return None


def write_measurement(directory: Path, measured: PolicyMeasurement) -> None:
    """Writes `results.json` to an expert's folder, in the format of hub repositories."""
    returns = measured.episodes.returns
    results = {
        "mean_reward": round(float(returns.mean()), 4),
        "std_reward": round(float(returns.std()), 4),
        "is_deterministic": measured.episodes.deterministic,
        "n_eval_episodes": len(returns),
        "eval_datetime": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    atomic_write_text(directory / "results.json", json.dumps(results, indent=1) + "\n")


def expert_directory(root: Path, repo: str) -> Path:
    """Returns the folder of an expert.

    Raises:
        InputError: The folder does not exist.
    """
    directory = root / "experts" / repo
    if not directory.is_dir():
        raise InputError(f"{directory}: no such expert; train it with `imitbench experts train`")
    return directory


_DIGITS = 3  # significant digits of speeds, which differ between machines


def update_references(
    path: Path, references: Mapping[str, References], speeds: Mapping[str, float]
) -> None:
    """Replaces references and speeds of environments on a suite card.

    Args:
        path: File of the suite card.
        references: New references by environment id.
        speeds: Steps per second with random actions, by environment id.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """

    def change(document: dict[str, Any]) -> None:
        for env_id, measured in references.items():
            environment = document["environments"][env_id]
            environment["steps_per_second"] = float(f"{speeds[env_id]:.{_DIGITS}g}")
            known = {name for name, found in measured if found is not None}
            environment["references"] = measured.model_dump(mode="json", include=known)

    rewrite_suite_card(path, change)
