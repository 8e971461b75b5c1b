"""What checks of published results find, and the checks that there are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Check = Literal[
    "manifest", "digests", "files", "lines", "identity", "episodes", "scores", "values",
    "suite", "budget", "algorithm", "references", "seeds",
]  # fmt: skip
CHECKS: tuple[Check, ...] = get_args(Check)

MEANINGS: dict[Check, str] = {
    "manifest": "manifest.json is complete, and counts what is there",
    "digests": "every file, and the manifest itself, is what its SHA-256 says",
    "files": "every listed file is there and belongs to a run; there is no other file",
    "lines": "every run's line is a whole record of a known form",
    "identity": "every run's id is the digest of its specification, and stands there once",
    "episodes": "every completed run has as many evaluation episodes as it was to have",
    "scores": "every stated number follows from the episodes",
    "values": "lengths, steps and times are possible",
    "suite": "environments and evaluation are those of the suite's card",
    "budget": "training amounts are those of the suite's card",
    "algorithm": "implementations, hyper-parameters and labels fit the algorithms' cards",
    "references": "what scores 0 and 1 is as the suite's card says",
    "seeds": "every algorithm has the same seeds on every environment, completed or failed",
}
"""What each check makes sure of."""


@dataclass(frozen=True)
class Finding:
    """Something that a check found.

    Attributes:
        check: The check.
        where: File and line, below the folder that is checked.
        what: What is wrong, or worth knowing.
        fix: What to do about it.
    """

    check: Check
    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        told = f"{self.where}: {self.what}"
        return one_line(f"{told}; {self.fix}" if self.fix else told, None)


def failed_checks(problems: Iterable[Finding]) -> list[Check]:
    """Checks that found problems, in their order."""
    found = {each.check for each in problems}
    return [check for check in CHECKS if check in found]


@dataclass
class Findings:
    """Gathers what checks find.

    Attributes:
        problems: What must not be.
        told: What is no fault, but worth knowing.
    """

    problems: list[Finding] = field(default_factory=list)
    told: list[Finding] = field(default_factory=list)

    def fail(self, check: Check, where: str, what: str, fix: str = "") -> None:
        """Notes a problem."""
        self.problems.append(Finding(check, where, what, fix))

    def tell(self, check: Check, where: str, what: str) -> None:
        """Notes something that is no fault; the same thing once."""
        finding = Finding(check, where, what)
        if finding not in self.told:
            self.told.append(finding)


class StrictFindings(Findings):
    """Refuses at the first problem.

    Args:
        folder: The folder that is checked.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._folder = folder

    def fail(self, check: Check, where: str, what: str, fix: str = "") -> None:
        """Raises it.

        Raises:
            InputError: Always.
        """
        raise InputError(f"{self._folder}/{Finding(check, where, what, fix)}")
