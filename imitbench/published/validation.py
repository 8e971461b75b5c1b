"""Validates a submission: makes every check on published results, and collects all findings."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from imitbench.cards.suite import mismatch
from imitbench.published.alarms import Alarm, find_alarms
from imitbench.published.card_checks import check_against_cards
from imitbench.published.disclosure import DISCLOSURE_FILE, check_disclosures
from imitbench.published.findings import Check, Finding, Findings, failed_checks
from imitbench.published.race_checks import check_races
from imitbench.published.results_folder import MANIFEST_FILE
from imitbench.published.run_checks import check_values
from imitbench.published.submission import PACKED_FILE, LocatedRun, Submission, read_submission
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite, environment_of
from imitbench.records.runs import RunSpec
from imitbench.store.comparability import Conditions
from imitbench.untrusted import gate
from imitbench.util.text_line import one_line

_FIX = "publish every run, failed ones included, or run what is missing"
_MOST_RUNS = 5_000_000


@dataclass(frozen=True)
class _Row:
    """Runs that must have the same seeds on every environment."""

    label: str
    conditions: Conditions

    @classmethod
    def of(cls, spec: RunSpec) -> _Row:
        # Only the name: an earlier amount of a budget does not make it another budget.
        return cls(spec.algo_label, replace(Conditions.of_spec(spec), budget=spec.budget.name))

    def __str__(self) -> str:
        given = self.conditions.demonstrations
        demos = f", {given}" if given else ""
        return one_line(f"{self.label} (budget {self.conditions.budget}{demos})")


def check_seeds(
    runs: Sequence[LocatedRun], findings: Findings, raced: Collection[str] = ()
) -> None:
    """Checks that every algorithm has the same seeds on every environment.

    Environments and seeds are those of all runs of the suite with the same budget: tables never
    mix budgets. Environments of the suite without a run are noted, which is not a problem.

    Args:
        runs: The runs, with file and line.
        findings: Receives problems and notes.
        raced: Settings (`RunSpec.setting`) of runs whose seeds follow from a race.
    """
    suites: dict[str, list[RunSpec]] = defaultdict(list)
    for run in runs:
        if run.run.spec.setting not in raced:
            suites[run.run.spec.suite].append(run.run.spec)
    for suite, specs in sorted(suites.items()):
        _check_suite(suite, specs, findings)


def _check_suite(suite: str, specs: Sequence[RunSpec], findings: Findings) -> None:
    where = one_line(suite, 60)
    algorithms = {_Row.of(spec): spec.algo for spec in specs}
    cells = Counter((_Row.of(spec), spec.environment.id, spec.seed) for spec in specs)
    for (row, env, seed), runs in cells.items():
        if runs > 1:
            what = f"{row} on {one_line(env, 60)}: {runs} runs of seed {seed}"
            findings.fail("seeds", where, what, "publish one of them")
    environments: dict[str, set[str]] = defaultdict(set)
    seeds: dict[str, set[int]] = defaultdict(set)
    for spec in specs:
        environments[spec.budget.name].add(spec.environment.id)
        seeds[spec.budget.name].add(spec.seed)
    budgets = [(row.conditions.budget or "", row) for row in algorithms]
    if sum(len(environments[budget]) * len(seeds[budget]) for budget, _ in budgets) > _MOST_RUNS:
        findings.fail("seeds", where, f"more than {_MOST_RUNS} runs would be required", _FIX)
        return
    for budget, row in sorted(budgets, key=lambda pair: str(pair[1])):
        for env in sorted(environments[budget]):
            lacking = sorted(seed for seed in seeds[budget] if (row, env, seed) not in cells)
            if lacking and _applies(suite, algorithms[row], env):
                named = ", ".join(str(seed) for seed in lacking[:10])
                more = f" and {len(lacking) - 10} more" if len(lacking) > 10 else ""
                plural = "s" * (len(lacking) > 1)
                what = f"{row} on {one_line(env, 60)}: no run of seed{plural} {named}{more}"
                findings.fail("seeds", where, what, _FIX)
    card = bundled_suite(suite)
    absent = sorted(card.ordinary.keys() - set().union(*environments.values())) if card else []
    if absent:
        findings.note("seeds", where, f"nothing was run on {', '.join(absent)}")


def _applies(suite: str, algo: str, env: str) -> bool:
    """Whether an algorithm can run on an environment; true if one of the cards is unknown."""
    card, algorithm = bundled_suite(suite), bundled_algorithm(algo)
    environment = card.environments.get(env) if card else None
    return algorithm is None or environment is None or mismatch(algorithm, environment) is None


BESIDE = ("README.md", "LICENSE", ".gitattributes", DISCLOSURE_FILE, "policies/*/policy.json",
          "policies/*/policy.safetensors")  # fmt: skip
"""Files of a submission that need not be in its manifest."""

_OF_TOOLS = (".git", ".cache")


@dataclass(frozen=True)
class Validation:
    """The result of all checks on a submission.

    Attributes:
        submission: Its readable content.
        problems: Findings that make a check fail.
        notes: Findings that are not problems.
        alarms: Signs of invented or copied results.
        consistent: Whether files, digests and runs fit each other; if not, the first of `problems`
            says what does not.
    """

    submission: Submission
    problems: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    alarms: tuple[Alarm, ...] = ()
    consistent: bool = True

    @property
    def valid(self) -> bool:
        """Whether no check failed."""
        return not self.problems

    def of_check(self, check: Check) -> list[Finding]:
        """Returns the problems that one check found."""
        return [problem for problem in self.problems if problem.check == check]

    @property
    def failed(self) -> list[Check]:
        """Failed checks, in the order of `CHECKS`."""
        return failed_checks(self.problems)


def validate(folder: Path) -> Validation:
    """Makes every check on a folder of published results.

    Raises:
        InputError: The folder has no published results.
    """

    def read() -> tuple[Submission, Findings]:
        findings = Findings()
        return read_submission(folder, findings), findings

    submission, findings = gate.checked(read, folder)
    consistent = not findings.problems
    if submission.manifest is not None:
        listed = {MANIFEST_FILE, *submission.manifest.files}
        if gate.is_bundled(folder):
            listed.add(PACKED_FILE)
        for name, what in _strays(folder, listed):
            findings.fail("files", one_line(name), what, "remove it, or export the results again")
    raced = check_runs(submission, findings)
    alarms = find_alarms(submission.published, raced)
    if not submission.runs:
        findings.fail("lines", MANIFEST_FILE, "there is no readable run")
    return Validation(
        submission, tuple(findings.problems), tuple(findings.notes), tuple(alarms), consistent
    )


def check_runs(submission: Submission, findings: Findings) -> set[str]:
    """Checks the readable content of a submission.

    Returns:
        Settings (`RunSpec.setting`) whose seeds follow from a race.
    """
    for run in submission.runs:
        check_values(run.run, environment_of(run.run.spec), run.where, findings)
    check_against_cards(submission.runs, findings)
    raced = check_races(submission, findings)
    check_seeds(submission.runs, findings, raced)
    specs = (run.spec for run in submission.published)
    check_disclosures(submission.disclosures, specs, findings)
    return raced


def _strays(folder: Path, listed: set[str]) -> Iterator[tuple[str, str]]:
    """Yields path and problem of files that are not listed, and of links."""
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
