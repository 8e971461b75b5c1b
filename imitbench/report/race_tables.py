"""Tables and sentences on a race: verdicts, looks, and the seeds that it used."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from imitbench.records.race_design import RaceDesign
from imitbench.records.selection import Acting
from imitbench.report import text
from imitbench.report.model import Cell, Table, make_columns
from imitbench.stats.sequential import Look, Pair, Race
from imitbench.stats.spending import fixed_share

_WORDS = {
    "better": "is better than",
    "worse": "is worse than",
    "equivalent": "is equivalent to",
    "undecided": "is undecided against",
}
_PAIR = ("method", "baseline", "environment")
_DIFFERENCE = ("difference", "low", "high")
POWER = 0.8
"""Power at which the seeds of a race are compared with those of a fixed design."""


def verb(outcome: str) -> str:
    """Returns a decision as part of a sentence: `is better than`."""
    return _WORDS[outcome]


def seeds_at(look: Look, design: RaceDesign) -> int:
    """Returns the number of seeds of each method at a look."""
    return design.sequential.looks[look.look]


def difference_text(look: Look) -> str:
    """Returns the difference with its repeated interval: `+0.12 [0.03, 0.21]`."""
    if math.isnan(look.difference):
        return "unknown"
    ends = "" if math.isnan(look.low) else f" [{look.low:.3f}, {look.high:.3f}]"
    return f"{look.difference:+.3f}{ends}"


def decision_line(look: Look, design: RaceDesign) -> str:
    """Returns a sentence on a decision."""
    method, baseline = look.pair
    where = f" on {look.environment}" if look.environment is not None else ""
    acting = f" by {text.ACTIONS[look.acting]}" if design.acting else ""
    return (
        f"decided with {seeds_at(look, design)} seeds{acting}: {method} {verb(look.outcome)} "
        f"{baseline}{where}: {difference_text(look)}"
    )


def racing_line(found: Race, design: RaceDesign) -> str:
    """Returns a sentence on the batch that the next look needs."""
    looks = design.sequential.looks
    seeds = max(need.last for need in found.needed)
    methods = {(need.method, need.environment) for need in found.needed}
    open_pairs = [
        f"{method} against {baseline}"
        for method, baseline in design.pairs
        if found.is_open((method, baseline), None)
    ]
    environments = [env for env in design.environments if any(e == env for _, e in methods)]
    missing = sum(need.last - need.first for need in found.needed)
    return (
        f"look {looks.index(seeds) + 1} of at most {len(looks)}, with {seeds} seeds: "
        f"{missing} more runs; racing: {'; '.join(open_pairs)} on {', '.join(environments)}"
    )


def state_line(design: RaceDesign, found: Race) -> str:
    """Returns a sentence on where a race stands: `race of sqil against bc, over: …`."""
    decided = [
        f"{one.method} {_WORDS[one.verdict]} {one.baseline}{f' ({one.ways})' if one.ways else ''}"
        for one in verdicts_of(design, found)
        if one.environment is None and one.verdict != "racing"
    ]
    state = "racing" if found.needed else "over"
    decisions = "; ".join(decided) or "nothing is decided yet"
    return f"race of {design.title} on {design.suite}, {state}: {decisions}"


def race_tables(design: RaceDesign, found: Race) -> tuple[Table, ...]:
    """Returns the tables of a race: verdicts, seeds, and all looks."""
    return verdict_table(design, found), seeds_table(design, found), looks_table(design, found)


def verdict_table(design: RaceDesign, found: Race) -> Table:
    """Returns the verdict on each pair, overall and by environment."""
    rows = [
        (
            *map(Cell, (one.method, one.baseline, one.environment or "overall")),
            Cell(f"{one.verdict}: {one.ways}" if one.ways else one.verdict),
            Cell.count(one.seeds),
            *(_number(value, ".3f") for value in (one.difference, one.low, one.high)),
        )
        for one in verdicts_of(design, found)
    ]
    caption = (
        f"Registered race: {design.title} on {design.suite}. The chance of any false decision is "
        f"at most {design.alpha:g}, over all looks, pairs and environments. Differences are of "
        "mean scores, method less baseline, with repeated confidence intervals, which stay valid "
        f"under repeated looks. Equivalent: the interval lies within ±{design.margin:g}. "
        f"Undecided: {design.max_seeds} seeds did not decide."
    )
    if design.acting == "both":
        caption += (
            " A verdict holds for sampled and for most likely actions; it is undecided, too, if "
            "these say different things. Differences are of sampled actions."
        )
    elif design.acting is not None:
        caption += f" Policies take their {text.ACTIONS[design.acting]}."
    return Table(
        title=f"Verdicts: {design.title}",
        columns=make_columns((*_PAIR, "verdict", "seeds", *_DIFFERENCE), 4),
        names=4,
        rows=tuple(rows),
        caption=caption,
    )


def verdict_word(
    found: Race, pair: Pair, environment: str | None, acting: str | None = None
) -> str:
    """Returns a decision; `racing` if more runs of the race may bring one.

    Args:
        found: The race.
        pair: The method and its baseline.
        environment: Id of the environment; `None` overall.
        acting: What this way of acting says; `None` for what all say.
    """
    said = found.outcomes if acting is None else found.by_acting[acting]
    outcome = said[pair, environment]
    waits = outcome == "undecided" and found.needed and found.is_open(pair, environment)
    return "racing" if waits else outcome


def _number(value: float | None, form: str) -> Cell:
    unknown = value is None or math.isnan(value)
    return Cell(text.NOTHING) if unknown else Cell(format(value, form), value)


def fixed_seeds(design: RaceDesign) -> int:
    """Returns the seeds of a design with one look at the end and the same power.

    The power is `POWER` for the same effect; scores are approximately normal.
    """
    sequential = design.sequential
    share = fixed_share(sequential.fractions, design.alpha, design.spending, power=POWER)
    return math.ceil(share * design.max_seeds - 1e-9)


def seeds_table(design: RaceDesign, found: Race) -> Table:
    """Returns the seeds that each method used, beside those of a fixed design."""
    fixed = fixed_seeds(design)
    used = design.used(found)
    numbers = {names: (seeds, fixed) for names, seeds in used.items()}
    if len(used) > 1:
        numbers["all", "all"] = sum(used.values()), fixed * len(used)
    rows = [
        (
            *map(Cell, names),
            Cell.count(seeds),
            Cell.count(planned),
            Cell(f"{1 - seeds / planned:.0%}", 1 - seeds / planned),
        )
        for names, (seeds, planned) in numbers.items()
    ]
    return Table(
        title=f"Seeds used: {design.title}",
        columns=make_columns(("method", "environment", "seeds", "fixed design", "saved"), 2),
        names=2,
        rows=tuple(rows),
        caption=(
            f"The fixed design looks once, and has the same power as the race: {POWER:.0%} for the "
            f"difference that {design.max_seeds} seeds in {len(design.sequential.looks)} looks "
            "find with that chance. Negative: the race used more."
        ),
    )


def looks_table(design: RaceDesign, found: Race) -> Table:
    """Returns all looks: effect, repeated interval, boundary and decision."""
    several = len(design.ways) > 1
    rows = [
        (
            *map(Cell, (*look.pair, look.environment or "overall")),
            *([Cell(look.acting)] if several else []),
            Cell(look.outcome),
            Cell.count(look.look + 1),
            Cell.count(seeds_at(look, design)),
            *(_number(value, ".3f") for value in (look.difference, look.low, look.high)),
            _number(look.iqm, ".3f"),
            _number(look.p_value, ".2g"),
            _number(look.level, ".2g"),
        )
        for look in sorted(found.looks, key=lambda look: (design.pairs.index(look.pair), look.look))
    ]
    return Table(
        title=f"Looks: {design.title}",
        columns=make_columns(
            (
                *_PAIR,
                *(["acting"] if several else []),
                "decision",
                "look",
                "seeds",
                *_DIFFERENCE,
                "iqm",
                "p",
                "boundary",
            ),
            4 + several,
        ),
        names=4 + several,
        rows=tuple(rows),
        caption=(
            "A look decides better or worse if p is at most the boundary. Without p there are too "
            "few runs for a test. Boundaries grow when other comparisons find a difference. iqm is "
            "the difference of interquartile means, which decides nothing."
        ),
    )


def looks_of(found: Race, pair: Pair, environment: str | None, acting: str) -> list[Look]:
    """Returns one way's looks at a comparison whose difference is known, in their order."""
    return [
        look
        for look in found.looks
        if (look.pair, look.environment, look.acting) == (pair, environment, acting)
        if math.isfinite(look.difference)
    ]


def view_name(design: RaceDesign, environment: str | None, acting: Acting) -> str:
    """Returns the name of an environment, with the way of acting unless it is the only one."""
    where = environment or "overall"
    return f"{where}, {text.ACTIONS[acting]}" if design.acting else where


def half_width(look: Look) -> float:
    """Returns the difference that about decides at a look: half of the repeated interval."""
    return (look.high - look.low) / 2


def race_document(design: RaceDesign, found: Race) -> dict[str, Any]:
    """Returns a race as JSON: design, verdicts, looks and seeds."""
    fixed = fixed_seeds(design)
    return {
        "design": {**design.model_dump(mode="json"), "digest": design.digest},
        "over": not found.needed,
        "verdicts": [asdict(verdict) for verdict in verdicts_of(design, found)],
        "looks": [
            {
                "method": look.pair[0],
                "baseline": look.pair[1],
                "environment": look.environment,
                "acting": look.acting,
                "look": look.look + 1,
                "seeds": seeds_at(look, design),
                "difference": look.difference,
                "low": look.low,
                "high": look.high,
                "iqm": look.iqm,
                "p": look.p_value,
                "boundary": look.level,
                "decision": look.outcome,
            }
            for look in found.looks
        ],
        "seeds": [
            {"method": method, "environment": env, "seeds": seeds, "fixed_design": fixed}
            for (method, env), seeds in design.used(found).items()
        ],
    }


@dataclass(frozen=True)
class RaceVerdict:
    """The verdict of a race on a pair.

    Attributes:
        environment: Id of the environment; `None` overall.
        verdict: better, worse, equivalent, undecided, or racing.
        seeds: Seeds of each method at the last look.
        difference: Mean score of the method less that of the baseline; `None` if unknown.
        low: Lower end of its repeated interval; `None` if unknown.
        by_acting: What each way of acting says, if there are several; numbers are of the first.
    """

    method: str
    baseline: str
    environment: str | None
    verdict: str
    seeds: int
    difference: float | None
    low: float | None
    high: float | None
    by_acting: dict[str, str] = field(default_factory=dict)

    @property
    def ways(self) -> str:
        """What ways of acting say if they do not agree: `better if sampled, worse if likely`."""
        said = {way: word for way, word in self.by_acting.items() if word != self.verdict}
        return ", ".join(f"{word} if {way}" for way, word in said.items())


def verdicts_of(design: RaceDesign, found: Race) -> Iterator[RaceVerdict]:
    """Yields the verdict on each pair, overall and by environment."""
    for pair, environment in found.outcomes:
        key = pair, environment
        looks = [look for look in found.looks if (look.pair, look.environment) == key]
        # The last look is where a comparison was decided, or where the race stands.
        seeds = seeds_at(looks[-1], design) if looks else 0
        look = next((look for look in reversed(looks) if look.acting == design.ways[0]), None)
        numbers = (math.nan,) * 3 if look is None else (look.difference, look.low, look.high)
        difference, low, high = (None if math.isnan(value) else value for value in numbers)
        word = verdict_word(found, pair, environment)
        by_acting: dict[str, str] = {
            way: verdict_word(found, pair, environment, way)
            for way in found.by_acting
            if len(found.by_acting) > 1
        }
        yield RaceVerdict(*pair, environment, word, seeds, difference, low, high, by_acting)
