"""Finds the results in a folder: one submission, several submissions, or own runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from imitbench.errors import InputError
from imitbench.published.findings import Check, Findings, StrictFindings, failed_checks
from imitbench.published.results_folder import MANIFEST_FILE, read_runs
from imitbench.published.submission import read_submission
from imitbench.published.validation import check_runs
from imitbench.records.published import PublishedRun
from imitbench.store.external_results import ExternalHeader, ExternalRun, read_external
from imitbench.store.scan import EXTERNAL_FOLDER, EXTERNAL_SUFFIX, run_directories


@dataclass(frozen=True)
class ResultsSource:
    """Results of one submitter.

    Attributes:
        name: Name of the submitter, from the folder; empty for own runs.
        runs: Completed and failed runs.
        digest: Digest in the manifest; `None` for own runs, and in early folders.
        failed: Checks that the runs do not pass, such as that of budgets. Leaderboards show such
            runs with a mark; runs that contradict themselves are not read.
    """

    name: str
    runs: tuple[PublishedRun, ...]
    digest: str | None = None
    failed: tuple[Check, ...] = ()


@dataclass(frozen=True)
class ExternalResults:
    """Imported results of another tool."""

    header: ExternalHeader
    runs: tuple[ExternalRun, ...]


@dataclass(frozen=True)
class FoundResults:
    """Results in a folder.

    Attributes:
        taken: Detected kind of the folder, as text.
        sources: Results by submitter, in the order of their names.
        external: Imports, in the order of their labels.
        notes: Messages about skipped folders and results.
    """

    taken: str
    sources: tuple[ResultsSource, ...]
    external: tuple[ExternalResults, ...] = ()
    notes: tuple[str, ...] = ()


def find_results(folder: Path, *, external: bool = False) -> FoundResults:
    """Reads the results in a folder.

    Args:
        folder: Published results (it has a manifest), a folder of such folders, or a results
            folder of own runs.
        external: Whether to read the imports inside or next to it, too.

    Raises:
        InputError: It is none of these, or published results do not pass their checks.
    """
    if not folder.is_dir():
        raise InputError(f"--results {folder}: no such folder")
    notes: list[str] = []
    if (folder / MANIFEST_FILE).exists():
        taken = "published results"
        sources = [_published(folder, folder.resolve().name)]
    elif submissions := sorted(path.parent for path in folder.glob(f"*/{MANIFEST_FILE}")):
        taken = f"{len(submissions)} submission{'s' * (len(submissions) > 1)}"
        sources = _different([_published(path, path.name) for path in submissions], notes)
        others = {p.name for p in folder.iterdir() if p.is_dir() and p.name[0] != "."}
        others -= {EXTERNAL_FOLDER, *(path.name for path in submissions)}
        notes += [f"skipped: {folder / name}: has no {MANIFEST_FILE}" for name in sorted(others)]
    elif next(run_directories(folder), None) is not None:
        taken = "a results folder of own runs"
        own = read_runs(folder)
        sources = [ResultsSource("", tuple(own.runs))]
        notes += own.left_out
    else:
        raise InputError(
            f"--results {folder}: holds neither published results ({MANIFEST_FILE}), nor folders "
            "of these, nor runs; run `imitbench run` or `imitbench results export` first"
        )
    notes += [
        f"{source.name}: does not pass the checks {', '.join(source.failed)}; "
        "`imitbench leaderboard validate` shows the problems"
        for source in sources
        if source.failed
    ]
    imports = _external(folder) if external else ()
    if external and not imports:
        notes.append(f"there are no imported results in {folder / EXTERNAL_FOLDER} or next to it")
    return FoundResults(taken, tuple(sources), imports, tuple(notes))


def _published(folder: Path, name: str) -> ResultsSource:
    submission = read_submission(folder, StrictFindings(folder))
    digest = submission.manifest.digest if submission.manifest else None
    findings = Findings()
    check_runs(submission, findings)
    failed = tuple(failed_checks(findings.problems))
    return ResultsSource(name, tuple(each.run for each in submission.runs), digest, failed)


def _different(sources: list[ResultsSource], notes: list[str]) -> list[ResultsSource]:
    """Returns the sources without duplicates, and notes the skipped ones."""
    seen: dict[str, str] = {}
    kept = []
    for source in sources:
        if source.digest is not None and source.digest in seen:
            notes.append(f"skipped: {source.name}: the same results as {seen[source.digest]}")
            continue
        if source.digest is not None:
            seen[source.digest] = source.name
        kept.append(source)
    return kept


def _external(folder: Path) -> tuple[ExternalResults, ...]:
    """Returns the imports inside a folder; without any, those next to it."""
    for place in (folder / EXTERNAL_FOLDER, folder.resolve().parent / EXTERNAL_FOLDER):
        found = sorted(p for p in place.glob(f"*{EXTERNAL_SUFFIX}") if p.name[0] != ".")
        if found:
            read = (read_external(path) for path in found)
            return tuple(ExternalResults(header, tuple(runs)) for header, runs in read)
    return ()
