"""Says what races have decided: lines while they run, and their results as objects and tables."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from imitbench.race.driver import RaceResult, RaceStanding
from imitbench.records.race_design import SIDES
from imitbench.records.runs import RunFailure, RunSpec
from imitbench.report.race_tables import (
    RaceVerdict,
    decision_line,
    difference_text,
    racing_line,
    verb,
    verdict_word,
    verdicts_of,
)
from imitbench.store.registered_designs import design_folder
from imitbench.util.extras import import_extra
from imitbench.util.text_line import note

if TYPE_CHECKING:
    import pandas

    from imitbench.race.policies import PolicyRaceResult


class RaceNotes:
    """Prints a line for each decision, and one for each batch, to stderr.

    Args:
        quiet: Whether to print nothing.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._told = 0

    def looked(self, standing: RaceStanding) -> None:
        """Prints the new decisions, and what the next batch trains."""
        if self._quiet:
            return
        looks = standing.found.looks
        for look in looks[self._told :]:
            if look.outcome != "undecided":
                note(decision_line(look, standing.design))
        self._told = len(looks)
        if not standing.over:
            note(racing_line(standing.found, standing.design))

    def waiting(self) -> None:
        """Says that another process carries out this race."""
        if not self._quiet:
            note("another process is at work on this race; waiting for it")


@dataclass(frozen=True)
class RaceSummary:
    """The state of a race.

    Attributes:
        id: Id of the registered design.
        over: Whether all is decided, or the limit of seeds is reached. Otherwise the same call goes
            on: the race was stopped, its runs are in a queue, or all runs of a method failed.
        verdicts: Verdict on each pair, overall and by environment.
        seeds: Number of seeds used, by method and environment.
        failures: Failed runs.
    """

    id: str
    over: bool
    verdicts: tuple[RaceVerdict, ...]
    seeds: dict[tuple[str, str], int]
    failures: tuple[tuple[RunSpec, RunFailure], ...]

    @classmethod
    def of(cls, result: RaceResult) -> RaceSummary:
        """Summarizes a race."""
        standing = result.standing
        return cls(
            id=result.race.id,
            over=standing.over,
            verdicts=tuple(verdicts_of(standing.design, standing.found)),
            seeds=standing.design.used(standing.found),
            failures=tuple(standing.failures),
        )

    def to_frame(self) -> pandas.DataFrame:
        """Returns the verdicts as a table, one row per comparison."""
        pd = import_extra("pandas", "pandas", "a table of verdicts in Python")
        rows = [asdict(verdict) for verdict in self.verdicts]
        for row in rows:
            row |= {f"verdict_{way}": word for way, word in row.pop("by_acting").items()}
        frame: pandas.DataFrame = pd.DataFrame(rows)
        return frame

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(index=False, float_format="%.3f", na_rep="")
        return html


class PolicyRaceNotes:
    """Prints a line for each batch and for the decision to stderr.

    Args:
        out: Results folder.
    """

    def __init__(self, out: Path) -> None:
        self._out = out
        self._begun = False

    def looked(self, result: PolicyRaceResult) -> None:
        """Prints what the race decided, or what it does next."""
        design, found = result.race.design, result.found
        if not self._begun and result.others:
            note(
                f"{result.others} earlier race{'s' * (result.others > 1)} of these policies with "
                "another design in this folder; this one has its own episodes"
            )
        self._begun = True
        looks = design.sequential.looks
        if found.needed:
            seen = f"; so far {difference_text(found.looks[-1])}" if found.looks else ""
            at = looks.index(found.needed[0].last)
            note(f"look {at + 1} of at most {len(looks)}, with {looks[at]} episodes of each{seen}")
            return
        last = found.looks[-1]
        first, second = design.policies
        note(
            f"over with {design.episodes_at(last)} episodes of each: {first.label} "
            f"{verb(last.outcome)} {second.label}; design and episodes in "
            f"{design_folder(self._out, result.race)}"
        )

    def waiting(self) -> None:
        """Says that another process carries out this race."""
        note("another process is at work on this race; waiting for it")


def verdict_table(result: PolicyRaceResult) -> tuple[list[str], list[list[object]]]:
    """Returns header and row of the verdict."""
    design, last = result.race.design, result.found.looks[-1]
    unit = "return" if design.references is None else "score"
    columns = ["policy", "against", "environment", "verdict", "episodes", unit, "low", "high"]
    numbers = [round(value, 3) for value in (last.difference, last.low, last.high)]
    labels = [policy.label for policy in design.policies]
    word = verdict_word(result.found, SIDES, None)
    row = [*labels, design.environment.id, word, design.episodes_at(last), *numbers]
    return columns, [row]


def document(result: PolicyRaceResult) -> dict[str, Any]:
    """Returns what `--json` prints."""
    design, found = result.race.design, result.found
    return {
        "race": result.race.id,
        "registered_at": result.race.registered_at,
        "design": {**design.model_dump(mode="json"), "digest": design.digest},
        "over": not found.needed,
        "other_designs": result.others,
        "verdict": verdict_word(found, SIDES, None),
        "looks": [
            {
                "look": look.look + 1,
                "episodes": design.episodes_at(look),
                "difference": look.difference,
                "low": look.low,
                "high": look.high,
                "p": look.p_value,
                "boundary": look.level,
                "decision": look.outcome,
            }
            for look in found.looks
        ],
    }
