"""The sets of Minari that a suite's card names: fetches them, and checks that they fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.cards.suite import EnvironmentCard, SuiteCard
from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.minari_source import find_minari
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec


@dataclass(frozen=True)
class MinariSet:
    """A set that fits its environment, and was converted.

    Attributes:
        env_id: Name of the environment on the card.
        name: Name of the set.
        digest: Start of the digest of the set.
        episodes: Number of its episodes.
        mean_return: Mean return of its whole episodes; `None` if no rewards were recorded.
    """

    env_id: str
    name: str
    digest: str
    episodes: int
    mean_return: float | None


def check_sets(suite: SuiteCard, env_ids: Iterable[str]) -> None:
    """Checks that the sets of environments are there and fit them.

    Args:
        suite: Card of their suite.
        env_ids: Names of environments; those without a set are skipped.

    Raises:
        InputError: A set is missing, incomplete or damaged, was recorded in another environment or
            version of it, or has other spaces.
    """
    for _ in _checked(suite, env_ids):
        pass


def fetch_sets(suite: SuiteCard, env_ids: Iterable[str]) -> list[MinariSet]:
    """Downloads the sets of environments where they are missing, converts and checks them.

    Args:
        suite: Card of their suite.
        env_ids: Names of environments; those without a set are skipped.

    Raises:
        InputError: The card names no set; or as for `check_sets`.
    """
    chosen = {env_id: suite.environments[env_id] for env_id in env_ids}
    named = [card.minari for card in chosen.values() if card.minari is not None]
    if not named:
        raise InputError(
            f"suite {suite.name}: its card names no set of Minari for {', '.join(chosen)}; name "
            "one as `minari: mujoco/hopper/expert-v0`"
        )
    for name in dict.fromkeys(named):
        find_minari(name, download=True)
    return list(_checked(suite, chosen))


def _checked(suite: SuiteCard, env_ids: Iterable[str]) -> Iterator[MinariSet]:
    for env_id in env_ids:
        card = suite.environments[env_id]
        if card.minari is None:
            continue
        copy = artifacts.minari_copy(artifacts.MINARI + card.minari)
        spec = EnvironmentSpec.of_card(env_id, card)
        if copy.environment_id not in (None, spec.gym_id):
            raise InputError(
                f"suite {suite.name}: {env_id}: minari:{card.minari} was recorded on "
                f"{copy.environment_id}; name a set of this environment and version on the card"
            )
        yield _checked_set(suite, card, spec)


def _checked_set(suite: SuiteCard, card: EnvironmentCard, spec: EnvironmentSpec) -> MinariSet:
    source = artifacts.MINARI_SETS
    root = artifacts.source_root(source, suite.origin.folder)
    location = artifacts.locate_artifact(root, "demos", source, card, suite.name)
    env = make_environment(spec)
    try:
        validate_demonstrations(
            list(read_demonstrations(location.folder, rows=[0])),
            env.observation_space,
            env.action_space,
            where=f"minari:{location.repo}",
        )
    finally:
        env.close()
    returns = artifacts.demonstrated_returns(location)
    return MinariSet(
        spec.id,
        location.repo,
        str(location.revision),
        artifacts.count_trajectories(location),
        float(np.mean(returns)) if len(returns) else None,
    )
