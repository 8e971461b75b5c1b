"""What a conformance check found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Verdict = Literal["passed", "failed", "skipped", "told"]


@dataclass(frozen=True)
class CheckResult:
    """The outcome of one check.

    Attributes:
        check: Name of the check.
        verdict: `failed` alone counts against the method. `skipped` where it could not be judged
            or does not apply; `told` for what is no matter of right or wrong.
        what: What was seen, in a sentence.
    """

    check: str
    verdict: Verdict
    what: str


@dataclass(frozen=True)
class ConformanceReport:
    """Every check of a method.

    Attributes:
        algo: Name of the method.
        env: Environment of the checks that are not on made-up ones.
        amount: Training of each trial, with its unit.
        findings: One for each check, in the order in which they were made.
    """

    algo: str
    env: str
    amount: str
    findings: list[CheckResult] = field(default_factory=list)

    @property
    def conforms(self) -> bool:
        """Whether no check failed."""
        return not any(each.verdict == "failed" for each in self.findings)

    def as_document(self) -> dict[str, Any]:
        """The same for JSON."""
        return {
            "algo": self.algo,
            "env": self.env,
            "amount": self.amount,
            "conforms": self.conforms,
            "checks": [vars(each) for each in self.findings],
        }
