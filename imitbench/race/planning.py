"""Plans a race: its runs, and the design that is registered before the first of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from pydantic import ValidationError

from imitbench.bench.plan import Plan, plan_request
from imitbench.bench.provenance import now
from imitbench.bench.request import PluginSelection, plan_again
from imitbench.cards.plugins import find_algorithms
from imitbench.errors import InputError
from imitbench.records.bundled_cards import likely_expert
from imitbench.records.race_design import (
    LEAST_SHARE,
    MOST_LOOKS,
    MOST_SEEDS,
    FailedRuns,
    RaceDesign,
)
from imitbench.records.selection import ActingChoice
from imitbench.report.comparison_runs import ways_of_acting
from imitbench.stats.normalization import has_scale
from imitbench.stats.sequential import EQUIVALENCE_RUNS
from imitbench.store.races import RegisteredRace, describe_cell, read_races, read_request
from imitbench.store.sweep_file import SweepRequest
from imitbench.util.hub_client import silent
from imitbench.util.hub_errors import Notify
from imitbench.util.validation_errors import first_problem
from imitbench.version import __version__


def check_numbers(
    alpha: float, margin: float, batch: int, most: int, option: str, limit: int
) -> None:
    """Checks the numbers of a race.

    Args:
        alpha: Chance of any false decision.
        margin: Largest difference that counts as none.
        batch: Number of seeds or episodes from one look to the next.
        most: Largest number of seeds or episodes.
        option: Name of the option that states `most`.
        limit: What `most` may be with batches of any size.

    Raises:
        InputError: One is out of range.
    """
    if not 0 < margin < math.inf:
        raise InputError(
            f"--margin {margin:g}: must be above 0, such as 0.05; without a margin nothing could "
            "be called equivalent"
        )
    if not LEAST_SHARE <= alpha < 1:
        raise InputError(f"--alpha {alpha:g}: must be between 0 and 1, such as 0.05")
    if batch < 2:
        raise InputError(f"--batch {batch}: must be at least 2, to see a spread")
    if batch > most:
        raise InputError(
            f"--batch {batch}: is above {option} {most}; make the batch smaller, or the limit "
            "larger"
        )
    limit = min(limit, batch * MOST_LOOKS)
    if most > limit:
        raise InputError(f"{option} {most}: at most {limit} with --batch {batch}")


@dataclass(frozen=True)
class RaceOptions:
    """When a race looks, and what it decides.

    Attributes:
        batch: Number of seeds from one look to the next.
        max_seeds: Largest number of seeds.
        alpha: Chance of any false decision.
        margin: Largest difference of scores that counts as none.
        failed_runs: How failed runs count.
        acting: Ways of acting in which a decision must hold; `None` for that of the same race if it
            is registered, else for both where the suite's card has both references.
    """

    batch: int = 5
    max_seeds: int = 40
    alpha: float = 0.05
    margin: float = 0.05
    failed_runs: FailedRuns = "either"
    acting: ActingChoice | None = None

    def check(self) -> None:
        """Checks the numbers.

        Raises:
            InputError: A number is out of range.
        """
        check_numbers(
            self.alpha, self.margin, self.batch, self.max_seeds, "--max-seeds", MOST_SEEDS
        )


@dataclass(frozen=True)
class PlannedRace:
    """A race with the plan of all runs that it may need.

    Attributes:
        race: The design; registered or not.
        plan: All runs up to the limit of seeds, of the environments that fit all methods.
        left_out: A sentence for each environment that does not fit all methods.
        sampled_only: Why most likely actions are not compared, if the user did not choose so.
    """

    race: RegisteredRace
    plan: Plan
    left_out: tuple[str, ...] = ()
    sampled_only: str | None = None

    @property
    def notes(self) -> list[str]:
        """Sentences on what the design leaves out."""
        design = self.race.design
        found = list(self.left_out)
        if self.sampled_only:
            found.append(f"sampled actions only: {self.sampled_only}")
        if design.max_seeds < EQUIVALENCE_RUNS:
            found.append(
                f"nothing is called equivalent with fewer than {EQUIVALENCE_RUNS} seeds, and "
                f"--max-seeds is {design.max_seeds}"
            )
        return found


def plan_race(
    new: Sequence[str],
    baselines: Sequence[str],
    request: SweepRequest,
    options: RaceOptions,
    *,
    command: str,
    out: Path | None = None,
    notify: Notify = silent,
    collect: bool = True,
) -> PlannedRace:
    """Plans a race.

    Args:
        new: Methods, as typed.
        baselines: What each of them is compared with, as typed.
        request: Suite and settings of the runs; its algorithms and seeds are replaced.
        options: Settings of the race.
        command: The command that the user typed, for provenance.
        out: Results folder, where the same race may be registered; `None` for none.
        notify: Called with messages about downloads.
        collect: As for `plan_request`.

    Raises:
        InputError: An option is out of range, or something requested does not exist, does not fit
            or cannot be fetched; or a design of the folder cannot be read.
    """
    options.check()
    folder = Path(request.folder)
    methods, others = find_algorithms(new, folder), find_algorithms(baselines, folder)
    both = [card.name for card in methods if card.name in {other.name for other in others}]
    if both:
        raise InputError(f"--baseline {both[0]}: is also the method to compare; name another one")
    every = [*methods, *others]
    request = request.model_copy(
        update={
            "algorithms": [card.name for card in every],
            "seeds": list(range(options.max_seeds)),
        }
    )
    plan, left_out = _fitting(plan_request(request, notify, algorithms=every, collect=collect))
    pairs = [(m.name, b.name) for m in methods for b in others]
    acting, why = _acting(plan, every[0].name, options.acting)
    design = _design(plan, pairs, replace(options, acting=acting))
    if options.acting is None and out is not None:
        sampled = _design(plan, pairs, replace(options, acting="sampled"))
        if any(known.design == sampled for known in read_races(out)):
            design, why = sampled, why or "the race is registered so"
    race = RegisteredRace(
        design=design, registered_at=now(), command=command, imitbench=__version__
    )
    return PlannedRace(race.sealed(), plan, left_out, why)


def _acting(
    plan: Plan, method: str, wanted: ActingChoice | None
) -> tuple[ActingChoice, str | None]:
    """Returns the ways of acting that must agree, and why these are not both if they could be."""
    lacking = next((env for env in plan.environments if _likely(plan, env) is None), None)
    missing = None if lacking is None else (method, lacking)
    ways, why = ways_of_acting(missing, wanted)
    return ("both" if len(ways) > 1 else ways[0]), why


def _likely(plan: Plan, env: str) -> float | None:
    return likely_expert(plan.suite.name, env, plan.references(env))


def plan_registered(
    out: Path,
    race: RegisteredRace,
    plugins: PluginSelection,
    notify: Notify = silent,
    *,
    collect: bool = True,
) -> PlannedRace:
    """Plans a registered race again.

    Args:
        out: Results folder.
        race: The race.
        plugins: Plug-ins that the user named; no others are imported.
        notify: Called with messages about downloads.
        collect: As for `plan_request`.

    Raises:
        InputError: It cannot be planned, or would be another race today.
    """
    request = read_request(out, race)
    if request is None:
        raise InputError(f"race {race.id}: its request is missing; type `{race.command}` again")
    plan, left_out = _fitting(plan_again(request, plugins, out, notify, collect=collect))
    registered = race.design
    names = [field.name for field in fields(RaceOptions)]
    options = RaceOptions(**{name: getattr(registered, name) for name in names})
    options = replace(options, acting=registered.acting or "sampled")
    # A default that has changed since then is no reason not to go on.
    kept = {"spending": registered.spending, "replicates": registered.replicates}
    lost = registered.acting and any(_likely(plan, env) is None for env in plan.environments)
    if lost or _design(plan, registered.pairs, options).model_copy(update=kept) != registered:
        raise InputError(
            f"race {race.id}: cards, demonstrations or this program have changed since it was "
            "registered; restore them, or start another race in another --out"
        )
    return PlannedRace(race, plan, left_out)


def _fitting(plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """Limits a plan to the environments that fit all methods.

    Raises:
        InputError: There is none.
    """
    why: dict[str, str] = {}
    for pair in plan.not_applicable:
        why.setdefault(pair.env, f"{pair.algo} on {pair.env}: {pair.why}")
    left = {env: card for env, card in plan.environments.items() if env not in why}
    if not left:
        first = next(iter(why.values()))
        raise InputError(f"--env: no environment fits all methods ({first}); name others")
    left_out = tuple(f"not applicable: {reason}" for reason in why.values())
    return replace(plan, environments=left), left_out


def _design(plan: Plan, pairs: Sequence[tuple[str, str]], options: RaceOptions) -> RaceDesign:
    """Returns the design; `options` state the way of acting."""
    sampled = options.acting == "sampled"
    references = {
        env: plan.references(env).model_copy(
            update={"expert_likely": None if sampled else _likely(plan, env)}
        )
        for env in plan.environments
    }
    for env, scale in references.items():
        if not has_scale(scale.random, scale.expert):
            raise InputError(
                f"--env {env}: scores are undefined there, because the expert's return "
                f"{scale.expert:g} is not above that of random actions, {scale.random:g}"
            )
    cells: dict[str, dict[str, object]] = {}
    for spec in replace(plan, seeds=plan.seeds[:1]):
        cells.setdefault(spec.algo, {})[spec.environment.id] = describe_cell(spec)
    try:
        return RaceDesign.model_validate(
            {
                "suite": plan.suite.name,
                "pairs": list(pairs),
                "environments": list(plan.environments),
                "cells": cells,
                "references": references,
                **vars(options),
                "acting": None if sampled else options.acting,
            }
        )
    except ValidationError as error:  # too many comparisons
        raise InputError(f"race: {first_problem(error)}; compare fewer methods") from error
