"""Takes in submissions: what a check of one found, as a record and as a comment in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.published.findings import CHECKS
from imitbench.published.validation import Validation
from imitbench.published.verification import (
    VERDICT_TEXTS,
    Verification,
    VerifiedRun,
    public_draw,
)
from imitbench.report import text
from imitbench.report.markdown import escape as escape_markup
from imitbench.report.markdown import table

_MOST = 20
_WORDS = {**VERDICT_TEXTS, "different": "**different**"}


def escape(value: str) -> str:
    """Escapes text for a comment, in which `@name` would also call that person."""
    return escape_markup(value).replace("@", "@\u200b")


@dataclass(frozen=True)
class Intake:
    """What was found about a submission.

    Attributes:
        folder: Its folder.
        validation: Result of all checks of its files.
        verification: Outcome of the runs trained again; `None` if the files are not valid.
    """

    folder: Path
    validation: Validation
    verification: Verification | None

    @property
    def name(self) -> str:
        """Name of the submission."""
        return self.folder.resolve().name

    @property
    def accepted(self) -> bool:
        """Whether its files are valid, and runs were trained again and agree."""
        return self.validation.valid and self.verification is not None and self.verification.agrees

    @property
    def verdict(self) -> str:
        """The outcome in one line."""
        found = self.verification
        if not self.validation.valid or found is None:
            return f"not valid: {', '.join(self.validation.failed)}"
        count = len(found.runs)
        runs = f"{count} of {found.completed} run{'s' * (found.completed != 1)} trained again"
        if not count:
            return "validated, not verified: no run can be trained here"
        if found.agrees:
            return f"verified, {runs}"
        verdicts = Counter(run.verdict for run in found.runs)
        different, failed = verdicts["different"], verdicts["failed"]
        return f"not verified, {runs}: {different} differ, {failed} failed here"

    def document(self) -> dict[str, Any]:
        """Returns the outcome for programs."""
        validation, found = self.validation, self.verification
        return {
            "submission": self.name,
            "accepted": self.accepted,
            "verdict": self.verdict,
            "valid": validation.valid,
            "problems": [vars(problem) for problem in validation.problems],
            "warnings": [vars(alarm) for alarm in validation.alarms],
            "verification": None if found is None else found.model_dump(mode="json"),
        }


def render_comment(found: Sequence[Intake]) -> str:
    """Writes the outcomes as a comment for a pull request: Markdown, in which texts are escaped."""
    return "\n\n".join(block for intake in found for block in _blocks(intake)) + "\n"


def _blocks(intake: Intake) -> list[str]:
    mark = "accepted" if intake.accepted else "not accepted"
    blocks = [f"## {escape(intake.name)}: {mark}", f"{escape(intake.verdict)}."]
    validation = intake.validation
    passed = [check for check in CHECKS if check not in validation.failed]
    blocks.append(
        f"{len(passed)} of {len(CHECKS)} checks of the files passed, "
        f"{len(validation.submission.runs)} runs."
    )
    blocks += _list("Problems", [f"{p.check}: {p}" for p in validation.problems])
    blocks += _list(
        "Warnings, which may have innocent reasons",
        [f"{alarm.kind}: {alarm}" for alarm in validation.alarms],
    )
    if intake.verification is not None:
        blocks += _verification(intake.verification)
    return blocks


def _list(title: str, items: Sequence[str]) -> list[str]:
    if not items:
        return []
    more = [f"and {len(items) - _MOST} more"] if len(items) > _MOST else []
    lines = [f"- {escape(text.message(item))}" for item in items[:_MOST]]
    return [f"**{title}**", "\n".join([*lines, *(f"- {line}" for line in more)])]


def _verification(found: Verification) -> list[str]:
    seed = "chosen by the verifier"
    if found.public_seed is not None:
        assert found.seed == public_draw(found.submission, found.public_seed)
        seed = f"drawn by the text “{escape(text.message(found.public_seed))}”"
    blocks = [f"Runs trained again by {escape(found.verified_by)}, {seed}:"]
    if found.runs:
        header = ("Run", "Stated", "Found", "Noise band", "Outcome")
        blocks.append(table(header, [_row(run) for run in found.runs], names=1))
    problems = [f"{run.label}: {run.problem}" for run in found.runs if run.problem]
    blocks += _list("Failed here", problems)
    blocks += _list(
        "Drawn, but cannot be trained here", [f"{run.label}: {run.why}" for run in found.refused]
    )
    return blocks


def _row(run: VerifiedRun) -> tuple[str, ...]:
    numbers = run.raw_return
    shown = (
        ("", "", "")
        if numbers is None
        else tuple(text.raw(n) for n in (numbers.stated, numbers.found, numbers.noise_band))
    )
    return escape(run.label), *shown, _WORDS[run.verdict]
