"""Names the checks of published results, and collects their findings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Check = Literal[
    "manifest", "digests", "files", "lines", "identity", "episodes", "curves", "rewards", "scores",
    "values", "suite", "budget", "algorithm", "references", "seeds", "races", "disclosure",
]  # fmt: skip
CHECKS: tuple[Check, ...] = get_args(Check)

MEANINGS: dict[Check, str] = {
    "manifest": "manifest.json is complete, and its counts match the runs",
    "digests": "every file, and the manifest itself, has the stated SHA-256",
    "files": "every listed file exists and belongs to a run; there is no other file",
    "lines": "every line is a complete record of a known form",
    "identity": "every run's id matches its specification; no run occurs twice",
    "episodes": "every completed run has as many episodes as its specification says",
    "curves": "every learning curve has known numbers at steps that its run had",
    "rewards": "every number about a learned reward is a possible one, of a completed run",
    "scores": "every stated number follows from the episodes",
    "values": "lengths, steps and times are possible",
    "suite": "environments and evaluation are those of the suite's card",
    "budget": "training amounts are those of the suite's card",
    "algorithm": "implementations, hyper-parameters and labels fit the algorithms' cards",
    "references": "the returns that score 0 and 1 are those of the suite's card",
    "seeds": "every algorithm has the same seeds on every environment, completed or failed",
    "races": "every race follows its registered design: each look, and where it stopped",
    "disclosure": "rows with other values than the card's say how these were chosen",
}
"""What each check ensures."""


@dataclass(frozen=True)
class Finding:
    """A finding of a check.

    Attributes:
        check: Name of the check.
        where: File and line, relative to the checked folder.
        what: The problem, or the information.
        fix: How to fix it; may be empty.
    """

    check: Check
    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}"
        return one_line(f"{text}; {self.fix}" if self.fix else text, None)


def failed_checks(problems: Iterable[Finding]) -> list[Check]:
    """Returns the checks that found problems, in the order of `CHECKS`."""
    found = {problem.check for problem in problems}
    return [check for check in CHECKS if check in found]


@dataclass
class Findings:
    """Collects the findings of checks.

    Attributes:
        problems: Findings that make a check fail.
        notes: Findings that are not problems.
    """

    problems: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)

    def fail(self, check: Check, where: str, what: str, fix: str = "") -> None:
        """Adds a problem."""
        self.problems.append(Finding(check, where, what, fix))

    def note(self, check: Check, where: str, what: str) -> None:
        """Adds a note; equal notes are added once."""
        finding = Finding(check, where, what)
        if finding not in self.notes:
            self.notes.append(finding)


class StrictFindings(Findings):
    """Raises an error at the first problem.

    Args:
        folder: The checked folder, for messages.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def fail(self, check: Check, where: str, what: str, fix: str = "") -> None:
        """Raises the problem as an error.

        Raises:
            InputError: Always.
        """
        raise InputError(f"{self._folder}/{Finding(check, where, what, fix)}")
