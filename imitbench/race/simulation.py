"""Simulates a race before it is paid for: chances of verdicts, seeds and core-hours of designs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from imitbench.bench.plan import Plan
from imitbench.errors import InputError
from imitbench.published.opening import results_location
from imitbench.race.planning import PlannedRace
from imitbench.records.race_design import RacedCell, RaceDesign
from imitbench.records.selection import Selection
from imitbench.report.build import read_entries
from imitbench.report.comparison_runs import ComparableRun
from imitbench.report.text import ACTIONS
from imitbench.stats.racing import Collapsing, Normal, Resampled, SimulatedRaces, Source, simulate
from imitbench.stats.sequential import Pair
from imitbench.store.races import cell_conditions
from imitbench.util.hub_errors import Notify

FEWEST_RUNS = 3
"""Runs of a method on an environment without which nothing is drawn from them."""

_BATCHES = (3, 5, 10)
_SHAPES = {"normal": ("DIFFERENCE", "SPREAD"), "collapse": ("DIFFERENCE", "SPREAD", "RATE")}
_LEVEL = 0.8
"""Score of the baselines of an assumed shape."""


@dataclass(frozen=True)
class SimulatedDesign:
    """A design, and what it leads to."""

    design: RaceDesign
    found: SimulatedRaces


def simulate_designs(
    planned: PlannedRace, scores: str, out: Path, *, draws: int, notify: Notify
) -> list[SimulatedDesign]:
    """Simulates the planned design, and others with its limit of seeds or half of it.

    Args:
        planned: The planned race; nothing is registered.
        scores: Folder of results whose scores are drawn with replacement, `published`, or a shape:
            `normal:DIFFERENCE,SPREAD` or `collapse:DIFFERENCE,SPREAD,RATE`, where the methods are
            better than their baselines by the difference, and a share of runs has the score 0.
        out: Results folder; its finished runs give the best estimates of durations.
        draws: Number of simulated races of each design.
        notify: Called with messages about results that are excluded.

    Raises:
        InputError: There are no such scores, or too few of them.
    """
    design = planned.race.design
    sources = _shape(design, scores) or _existing(design, scores, out, notify)
    costs = _core_hours(planned.plan, out)
    found = []
    for other in _designs(design):
        races = simulate(
            sources, other.pairs, other.environments, other.sequential, draws=draws, costs=costs
        )
        found.append(SimulatedDesign(other, races))
    return found


def verdict_chances(simulated: SimulatedDesign) -> Iterator[tuple[Pair, dict[str, float]]]:
    """Yields the chance of each overall verdict by pair."""
    for (pair, environment), chances in simulated.found.chances.items():
        if environment is None:
            yield pair, {str(outcome): chance for outcome, chance in chances.items()}


def _designs(design: RaceDesign) -> Iterator[RaceDesign]:
    yield design
    for most in (design.max_seeds, design.max_seeds // 2):
        for batch in dict.fromkeys((design.batch, *_BATCHES)):
            if batch <= most and (batch, most) != (design.batch, design.max_seeds):
                yield design.model_copy(update={"batch": batch, "max_seeds": most})


def _core_hours(plan: Plan, out: Path) -> dict[tuple[str, str], float]:
    estimates = plan.estimates(out)
    return {
        (spec.algo, spec.environment.id): estimates.seconds(spec) / 3600
        for spec in replace(plan, seeds=plan.seeds[:1])
    }


def _shape(design: RaceDesign, scores: str) -> dict[str, dict[str, Source]] | None:
    name, colon, text = scores.partition(":")
    if not colon or name not in _SHAPES:
        return None
    expected = _SHAPES[name]
    try:
        numbers = [float(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    valid = len(numbers) == len(expected) and all(map(math.isfinite, numbers))
    if not valid or numbers[1] < 0 or (not 0 <= numbers[-1] <= 1 and name == "collapse"):
        raise InputError(
            f"--scores {scores}: must be {name}:{','.join(expected)}, such as {name}:0.1,0.05"
            f"{',0.2' if name == 'collapse' else ''}"
        )
    baselines = {baseline for _, baseline in design.pairs}

    def source(method: str) -> Source:
        mean = _LEVEL + (0.0 if method in baselines else numbers[0])
        if name == "normal":
            return Normal(mean, numbers[1])
        return Collapsing(mean, numbers[1], numbers[2])

    return {method: dict.fromkeys(design.environments, source(method)) for method in design.methods}


def _existing(
    design: RaceDesign, scores: str, out: Path, notify: Notify
) -> dict[str, dict[str, Source]]:
    path = results_location(scores)
    if path != out and not path.exists():
        raise InputError(
            f"--scores {scores}: no such file or folder; check the path, or name published, or a "
            "shape such as normal:0.1,0.05"
        )
    entries = read_entries([path], notify=notify, selection=Selection((design.suite,)))
    sources: dict[str, dict[str, Source]] = {}
    for method in design.methods:
        for env, cell in design.cells[method].items():
            drawn = _scores(entries, design, env, cell)
            if len(drawn) < FEWEST_RUNS:
                raise InputError(
                    f"--scores {scores}: has {len(drawn)} runs of {cell.label} on {env} with "
                    f"scores of {ACTIONS[design.ways[0]]} under the conditions of the race "
                    f"(budget {cell.budget}), and needs {FEWEST_RUNS}; name another folder, "
                    "published, or a shape such as normal:0.1,0.05"
                )
            sources.setdefault(method, {})[env] = Resampled(drawn)
    return sources


def _scores(
    entries: Sequence[ComparableRun], design: RaceDesign, env: str, cell: RacedCell
) -> tuple[float | None, ...]:
    wanted, way = cell_conditions(design.suite, cell), design.ways[0]
    return tuple(
        entry.score_by(way)
        for entry in entries
        if (entry.env, entry.algo) == (env, cell.label) and entry.conditions.compatible(wanted)
        # Without a score in this way of acting, a completed run is unknown, and has not failed.
        if entry.score is None or entry.score_by(way) is not None
    )
