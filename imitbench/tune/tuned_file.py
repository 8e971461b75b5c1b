"""Writes the values found to a file of tuned values, and keeps those already in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from imitbench.cards.algorithm import AlgorithmCard, Scalar
from imitbench.cards.tuned import (
    HeldOutRuns,
    TunedCard,
    TunedValues,
    Tuning,
    read_tuned,
    resolve_tuned,
)
from imitbench.errors import InputError
from imitbench.tune.held_out_comparison import CandidateResult, HeldOutComparison
from imitbench.tune.request import TuneRequest
from imitbench.util.files import atomic_write_text
from imitbench.version import __version__

_WIDTH = 100


def tuned_values(request: TuneRequest, comparison: HeldOutComparison) -> TunedValues | None:
    """Returns the winner of a held-out comparison, with its provenance; `None` without a winner."""
    winner = comparison.winner
    if winner is None or not comparison.default.scores:
        return None
    card, settings = request.algorithm, request.plan.request
    fixed = card.changed(request.base)  # by --set
    return TunedValues(
        source=f"{request.command} ({_about_reward(request)})",
        values=_ordered(card, {**fixed, **winner.candidate.values}),
        tuning=Tuning(
            imitbench=__version__,
            suite=request.plan.suite.name,
            per=request.per,
            objective=request.objective,
            uses_reward=request.goal.uses_reward,
            budget=settings.budget,
            n_demos=settings.n_demos,
            trials=comparison.trials,
            env_steps=comparison.env_steps,
            search_seeds=list(request.search_seeds),
            held_out_seeds=list(request.held_out_seeds),
            sampler_seed=request.seed,
            verdict=comparison.decision,
            p_value=winner.p_value,
            default=_runs(comparison.default),
            tuned=_runs(winner),
        ),
    )


def _about_reward(request: TuneRequest) -> str:
    if request.goal.uses_reward:
        return "uses reward: chosen by the true return"
    return f"chosen by {request.objective}, without the true reward"


def _runs(standing: CandidateResult) -> HeldOutRuns:
    return HeldOutRuns(mean=standing.mean, runs=standing.scores)


def _ordered(card: AlgorithmCard, values: dict[str, Scalar]) -> dict[str, Scalar]:
    return {name: values[name] for name in card.hyperparameters if name in values}


def check_target(path: Path, card: AlgorithmCard) -> None:
    """Checks, before the search, that values can be added to a file.

    Raises:
        InputError: The file has other content, or values of another algorithm.
    """
    _existing(path, card)
    folder = next(each for each in path.resolve().parents if each.exists())
    if path.is_dir() or not folder.is_dir():
        raise InputError(f"--to {path}: must be a file in a folder; name another one")


def _existing(path: Path, card: AlgorithmCard) -> dict[str, TunedValues]:
    if not path.exists():
        return {}
    if path.is_dir():
        raise InputError(f"--to {path}: is a folder; name a file in it")
    found = read_tuned(path)
    if found.algorithm != card.name:
        raise InputError(
            f"--to {path}: contains values of {found.algorithm}, not of {card.name}; name another "
            "file"
        )
    resolve_tuned(path, found, card)
    return found.environments


def add_tuned(path: Path, card: AlgorithmCard, found: dict[str, TunedValues]) -> None:
    """Writes tuned values; those of other environments in the file stay.

    Args:
        path: The file, created if missing and written atomically.
        card: Card of the algorithm, which checks all values.
        found: Tuned values by environment id.

    Raises:
        InputError: The file has other content, or cannot be written.
    """
    environments = {**_existing(path, card), **found}
    document = TunedCard(schema_version=1, algorithm=card.name, environments=environments)
    resolve_tuned(path, document, card)
    try:
        atomic_write_text(path, _as_yaml(document))
    except OSError as error:
        raise InputError(f"--to {path}: cannot be written ({error.strerror})") from error


def _as_yaml(document: TunedCard) -> str:
    plain: dict[str, Any] = document.model_dump(mode="json", exclude_unset=True)
    for values in plain["environments"].values():
        if values.get("tuning") is None:
            values.pop("tuning", None)
    text: str = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=_WIDTH)
    return text
