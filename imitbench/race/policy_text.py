"""Says in words, tables and JSON what a race of two policies has decided."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from imitbench.race.policies import PolicyRaceResult
from imitbench.records.policy_design import SIDES
from imitbench.report.race_tables import difference_text, verb, verdict_word
from imitbench.store.policy_races import policy_race_folder
from imitbench.util.text_line import note


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
            f"{policy_race_folder(self._out, result.race)}"
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
    word = verdict_word(last.outcome, result.found)
    row = [*labels, design.environment.id, word, design.episodes_at(last), *numbers]
    return columns, [row]


def document(result: PolicyRaceResult) -> dict[str, Any]:
    """Returns what `--json` prints."""
    design, found = result.race.design, result.found
    pair = (SIDES[0], SIDES[1])
    return {
        "race": result.race.id,
        "registered_at": result.race.registered_at,
        "design": {**design.model_dump(mode="json"), "digest": design.digest},
        "over": not found.needed,
        "other_designs": result.others,
        "verdict": verdict_word(found.outcomes[pair, None], found),
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
