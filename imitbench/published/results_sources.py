"""Finds the results in a folder, be they published, several times published, or own runs."""

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
        name: Who submitted them: the folder's name; empty for own runs.
        runs: The runs.
        digest: The manifest's; `None` for own runs, and in early folders.
        failed: Checks that the runs do not pass, such as that of budgets: they are shown, and
            this is said. What contradicts itself is not even read.
    """

    name: str
    runs: tuple[PublishedRun, ...]
    digest: str | None = None
    failed: tuple[Check, ...] = ()


@dataclass(frozen=True)
class ExternalResults:
    """An import of other tools' results."""

    header: ExternalHeader
    runs: tuple[ExternalRun, ...]


@dataclass(frozen=True)
class FoundResults:
    """What a folder holds.

    Attributes:
        taken: What the folder was taken for, in words.
        sources: Results by submitter, in the order of their names.
        external: Imports, in the order of their labels.
        notes: What was left out.
    """

    taken: str
    sources: tuple[ResultsSource, ...]
    external: tuple[ExternalResults, ...] = ()
    notes: tuple[str, ...] = ()


def find_results(folder: Path, *, external: bool = False) -> FoundResults:
    """Reads the results in a folder.

    Args:
        folder: Published results (it has a manifest), a folder of folders of these, or a results
            folder of own runs.
        external: Whether to read the imports inside or beside it, too.

    Raises:
        InputError: It is none of these, or something published is not what it says.
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
        notes += [f"left out: {folder / name}: has no {MANIFEST_FILE}" for name in sorted(others)]
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
        "`imitbench leaderboard validate` says why"
        for source in sources
        if source.failed
    ]
    imports = _external(folder) if external else ()
    if external and not imports:
        notes.append(f"there are no imported results in {folder / EXTERNAL_FOLDER} or beside it")
    return FoundResults(taken, tuple(sources), imports, tuple(notes))


def _published(folder: Path, name: str) -> ResultsSource:
    submission = read_submission(folder, StrictFindings(folder))
    digest = submission.manifest.digest if submission.manifest else None
    findings = Findings()
    check_runs(submission, findings)
    failed = tuple(failed_checks(findings.problems))
    return ResultsSource(name, tuple(each.run for each in submission.runs), digest, failed)


def _different(sources: list[ResultsSource], notes: list[str]) -> list[ResultsSource]:
    """Leaves out what is there a second time."""
    seen: dict[str, str] = {}
    kept = []
    for source in sources:
        if source.digest is not None and source.digest in seen:
            notes.append(f"left out: {source.name}: the very results of {seen[source.digest]}")
            continue
        if source.digest is not None:
            seen[source.digest] = source.name
        kept.append(source)
    return kept


def _external(folder: Path) -> tuple[ExternalResults, ...]:
    """Imports inside a folder; where there are none, those beside it."""
    for place in (folder / EXTERNAL_FOLDER, folder.resolve().parent / EXTERNAL_FOLDER):
        found = sorted(p for p in place.glob(f"*{EXTERNAL_SUFFIX}") if p.name[0] != ".")
        if found:
            read = (read_external(path) for path in found)
            return tuple(ExternalResults(header, tuple(runs)) for header, runs in read)
    return ()
