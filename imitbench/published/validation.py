"""Validates a submission: every check on published results, and all that they find."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from imitbench.published.card_checks import check_against_cards
from imitbench.published.findings import Check, Finding, Findings, failed_checks
from imitbench.published.results_folder import MANIFEST_FILE
from imitbench.published.run_checks import check_values
from imitbench.published.submission import Submission, read_submission
from imitbench.records.bundled_cards import environment_of
from imitbench.store.seed_checks import check_seeds
from imitbench.util.text_line import one_line

BESIDE = ("README.md", "LICENSE", ".gitattributes", "policies/*/policy.json",
          "policies/*/policy.safetensors")  # fmt: skip
"""Files that may lie in a submission without being in its manifest."""

_OF_TOOLS = (".git", ".cache")


@dataclass(frozen=True)
class Validation:
    """The verdict on a submission.

    Attributes:
        submission: What could be read of it.
        problems: What must not be.
        told: What is no fault, but worth knowing.
    """

    submission: Submission
    problems: tuple[Finding, ...]
    told: tuple[Finding, ...]

    @property
    def valid(self) -> bool:
        """Whether no check failed."""
        return not self.problems

    def of_check(self, check: Check) -> list[Finding]:
        """Problems that one check found."""
        return [each for each in self.problems if each.check == check]

    @property
    def failed(self) -> list[Check]:
        """Checks that failed, in their order."""
        return failed_checks(self.problems)


def validate(folder: Path) -> Validation:
    """Makes every check on a folder of published results.

    Args:
        folder: The folder.

    Returns:
        All that was found.

    Raises:
        InputError: The folder holds no published results at all.
    """
    findings = Findings()
    submission = read_submission(folder, findings)
    if submission.manifest is not None:
        listed = {MANIFEST_FILE, *submission.manifest.files}
        for name, what in _strays(folder, listed):
            findings.fail("files", one_line(name), what, "remove it, or export the results again")
    check_runs(submission, findings)
    if not submission.runs:
        findings.fail("lines", MANIFEST_FILE, "there is no run that can be read")
    return Validation(submission, tuple(findings.problems), tuple(findings.told))


def check_runs(submission: Submission, findings: Findings) -> None:
    """Makes the checks on what could be read of a submission: values, cards and seeds.

    Args:
        submission: The submission.
        findings: Told about problems.
    """
    for each in submission.runs:
        check_values(each.run, environment_of(each.run.spec), each.where, findings)
    check_against_cards(submission.runs, findings)
    check_seeds(submission.runs, findings)


def _strays(folder: Path, listed: set[str]) -> Iterator[tuple[str, str]]:
    """What lies in a folder and is not listed, or is no plain file."""
    for root, folders, files in os.walk(folder):
        here = Path(root).relative_to(folder)
        folders[:] = sorted(name for name in folders if here.parts or name not in _OF_TOOLS)
        for name in list(folders):
            if (Path(root) / name).is_symlink():
                folders.remove(name)
                yield (here / name).as_posix(), "is a link"
        for name in sorted(files):
            path = (here / name).as_posix()
            if (Path(root) / name).is_symlink():
                yield path, "is a link"
            elif path not in listed and not any(fnmatchcase(path, p) for p in BESIDE):
                yield path, "is not in the manifest"
