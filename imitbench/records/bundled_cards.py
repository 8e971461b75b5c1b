"""The cards that ship with this package, for whoever reads records: each is loaded once."""

from __future__ import annotations

from functools import cache

from imitbench.cards.algorithm import AlgorithmCard, Role
from imitbench.cards.catalog import algorithm_names, load_algorithm, load_suite, suite_names
from imitbench.cards.suite import BUDGET_NAMES, EnvironmentCard, SuiteCard
from imitbench.records.runs import RunSpec


def bundled_suite(name: str) -> SuiteCard | None:
    """The card of a suite; `None` for one that does not ship with this package."""
    return _suite(name) if name in _suites() else None


def bundled_algorithm(name: str) -> AlgorithmCard | None:
    """The card of an algorithm; `None` for one that does not ship with this package."""
    return _algorithm(name) if name in _algorithms() else None


def environment_of(spec: RunSpec) -> EnvironmentCard | None:
    """The card of a run's environment, as far as it is known."""
    suite = bundled_suite(spec.suite)
    return suite.environments.get(spec.environment.id) if suite else None


def budget_label(spec: RunSpec) -> str:
    """What tables call a run's budget: its name, and the amount where that was another one then."""
    name, amount = spec.budget.name, spec.budget.amount
    card = environment_of(spec)
    for known in BUDGET_NAMES:
        if card is not None and known == name and card.was_amount(known, spec.budget.unit, amount):
            return f"{name}-{amount}"
    return name


def role_of(spec: RunSpec) -> Role:
    """Role of a run's algorithm: on the card of one of this package, in the record of another."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    if card is not None and card.implementation == spec.implementation:
        return card.role
    return spec.role or "method"


# Cards are asked for by every run of a submission, which may have thousands.
_suites = cache(suite_names)
_suite = cache(load_suite)
_algorithms = cache(algorithm_names)
_algorithm = cache(load_algorithm)
