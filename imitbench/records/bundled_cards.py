"""The cards of this package, for readers of records; each is loaded once."""

from __future__ import annotations

import math
from functools import cache

from imitbench.cards.algorithm import AlgorithmCard, Role
from imitbench.cards.budgets import is_budget
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_names
from imitbench.cards.suite import EnvironmentCard, References, SuiteCard
from imitbench.records.runs import Isolation, ReferenceRow, ReferenceScores, RunSpec
from imitbench.stats.normalization import has_scale, normalize


def bundled_suite(name: str) -> SuiteCard | None:
    """Returns the card of a suite; `None` for one that does not ship with this package."""
    return _suite(name) if name in _suites() else None


def bundled_algorithm(name: str) -> AlgorithmCard | None:
    """Returns the card of an algorithm; `None` for one that does not ship with this package."""
    return _algorithm(name) if name in _algorithms() else None


def environment_of(spec: RunSpec) -> EnvironmentCard | None:
    """Returns the card of a run's environment; `None` if it is unknown."""
    suite = bundled_suite(spec.suite)
    return suite.environments.get(spec.environment.id) if suite else None


def measured_references(
    suite: str, env: str, scores: ReferenceScores | ReferenceRow
) -> References | None:
    """Returns the measurements behind the references of a score.

    Args:
        suite: Name of the suite.
        env: Id of the environment.
        scores: References of the score.

    Returns:
        `None` unless a bundled card has exactly these references: another version of the card,
        another expert (of a hub, for example) or an unknown suite has none.
    """
    card = bundled_suite(suite)
    environment = card.environments.get(env) if card else None
    if card is None or environment is None or environment.references is None:
        return None
    found = environment.references
    stated = (scores.version, scores.random, scores.expert)
    known = found.expert is not None and stated == (
        card.version, found.random.mean, found.expert.mean
    )  # fmt: skip
    return found if known else None


def likely_expert(suite: str, env: str, scores: ReferenceScores | ReferenceRow) -> float | None:
    """Returns the return of the expert's most likely actions, as recorded or on a bundled card.

    Args:
        suite: Name of the suite.
        env: Id of the environment.
        scores: References of a score.

    Returns:
        `None` if it is unknown, see `measured_references`, or not above that of random actions.
    """
    if scores.score_one == "success":
        return scores.expert  # a share of episodes, whoever acts
    likely = scores.expert_likely
    if likely is None:
        found = measured_references(suite, env, scores)
        likely = found.expert_likely.mean if found and found.expert_likely else None
    return likely if likely is not None and has_scale(scores.random, likely) else None


def likely_score(
    suite: str, env: str, scores: ReferenceScores | ReferenceRow, score_deterministic: float
) -> float:
    """Returns the score of most likely actions on the scale where those of the expert have 1.

    Args:
        suite: Name of the suite.
        env: Id of the environment.
        scores: References of `score_deterministic`.
        score_deterministic: Score of most likely actions, the expert's sampled ones having 1.

    Returns:
        NaN if the return of the expert's most likely actions is unknown, see `likely_expert`.
    """
    likely = likely_expert(suite, env, scores)
    if likely is None:
        return math.nan
    return score_deterministic * normalize(scores.expert, scores.random, likely)


def budget_label(spec: RunSpec) -> str:
    """Returns the label of a run's budget: its name, with the amount if it was changed since."""
    name, amount = spec.budget.name, spec.budget.amount
    card = environment_of(spec)
    known = card is not None and is_budget(name)
    if card is not None and known and card.was_amount(name, spec.budget.unit, amount):
        return f"{name}-{amount}"
    return name


def card_of(spec: RunSpec) -> AlgorithmCard | None:
    """Returns the bundled card of a run's algorithm; `None` if that is not of this package."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    return card if card is not None and card.implementation == spec.implementation else None


def role_of(spec: RunSpec) -> Role:
    """Returns the role of a run's algorithm, from its bundled card or else from the record."""
    card = card_of(spec)
    return card.role if card is not None else spec.role or "method"


def is_isolated(spec: RunSpec, isolation: Isolation | None) -> bool | None:
    """Whether a method was kept from true rewards.

    Args:
        spec: Specification of a run.
        isolation: What the run's provenance states. Methods of this package need no statement.

    Returns:
        `None` if it is a method from outside this package, and the record does not say.
    """
    if spec.uses_reward:
        return False
    if card_of(spec) is not None:
        return True
    if isolation is None:
        return None
    # `tested` is said of this package, here of a method that this version no longer has.
    return isolation == ("tested" if spec.implementation_digest is None else "checked")


# Every run of a submission, which may have thousands, needs cards.
_suites = cache(suite_names)
_suite = cache(load_suite)
_algorithms = cache(algorithm_names)
_algorithm = cache(load_algorithm)
