"""Opens the results of run folders, published folders and leaderboards as one database.

What is published is only read: its database is in a temporary folder.
"""

from __future__ import annotations

import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from imitbench.errors import InputError
from imitbench.published.board_file import board_runs
from imitbench.published.results_folder import MANIFEST_FILE
from imitbench.published.results_sources import (
    ResultsSource,
    link_superseded,
    read_imports,
    read_source,
    submission_folders,
)
from imitbench.published.submission import is_submission
from imitbench.records.published import PublishedRun
from imitbench.store import database
from imitbench.store.collector import collected, external_table
from imitbench.store.external_results import ExternalHeader, ExternalRun, default_name
from imitbench.store.overview import STATES, CellStatus
from imitbench.store.run_rows import arrow_tables, published_rows
from imitbench.store.scan import EXTERNAL_FOLDER, run_directories
from imitbench.store.sweep_file import SWEEPS_FOLDER
from imitbench.untrusted import gate
from imitbench.util.hub_errors import Notify
from imitbench.version import __version__

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection

PUBLISHED = "published"
"""Name of the results that ship with this package, wherever a results folder is named."""


def results_location(name: str | PathLike[str]) -> Path:
    """Returns the folder of results that a user names; `published` is that of this package.

    A folder of the same name can be named as `./published`.
    """
    if name == PUBLISHED:
        return Path(str(resources.files("imitbench.published.bundled")))
    return Path(name)


def is_board(path: Path) -> bool:
    """Whether a path is a JSON file, which can only be that of a leaderboard."""
    return path.suffix.lower() == ".json" and path.is_file()


@dataclass(frozen=True)
class ResultsLocation:
    """What a folder of results has.

    Attributes:
        path: The folder, or the `leaderboard.json` of a site.
        has_runs: Whether runs are written into it.
        submissions: Folders of published results: itself, or inside it.
        board: Runs of the `leaderboard.json`; `None` for a folder.
    """

    path: Path
    has_runs: bool
    submissions: tuple[Path, ...] = ()
    board: tuple[ExternalRun, ...] | None = None

    @classmethod
    def of(cls, path: Path) -> ResultsLocation:
        """Looks into a folder, or reads a leaderboard.

        Raises:
            InputError: There is no such folder, or a file is not a leaderboard.
        """
        if is_board(path):
            return cls(
                path, has_runs=False, board=tuple(gate.checked(lambda: board_runs(path), path))
            )
        if not path.is_dir():
            what = "is not a folder" if path.exists() else "no such folder"
            raise InputError(f"--out {path}: {what}; run `imitbench run --out {path}` first")
        if (path / MANIFEST_FILE).exists():
            return cls(path, has_runs=False, submissions=(path,))
        found = submission_folders(path)
        has_runs = next(run_directories(path), None) is not None
        if has_runs:  # folders of other tools may have a manifest, too
            found = [folder for folder in found if is_submission(folder)]
        return cls(path, has_runs or not found, tuple(found))

    def check_use(self) -> None:
        """Checks that something is here, so that a folder of other content gets no database.

        Raises:
            InputError: There are no results, and no command has written into the folder.
        """
        marks = (database.DATABASE_FILE, EXTERNAL_FOLDER, SWEEPS_FOLDER)
        if (
            self.board is not None
            or self.submissions
            or any((self.path / name).exists() for name in marks)
        ):
            return
        if next(run_directories(self.path), None) is None:
            raise InputError(
                f"--out {self.path}: no results found; run `imitbench run --out {self.path}` first"
            )


@contextmanager
def open_results(paths: Sequence[Path], *, notify: Notify) -> Iterator[DuckDBPyConnection]:
    """Opens results of one or several folders for reading; finished runs are collected first.

    Args:
        paths: Results folders, folders of published results, folders of these, and
            `leaderboard.json` of sites, whose runs are among the imported ones. Of two runs with
            the same id, the one in the earlier folder counts.
        notify: Called with messages about results that are excluded.

    Raises:
        InputError: A folder has no results, or published results contradict themselves.
    """
    found = [ResultsLocation.of(path) for path in dict.fromkeys(paths)]
    for location in found:
        location.check_use()
    published = _read_linked(found, notify)
    with ExitStack() as stack:
        opened: list[tuple[Path, Path]] = []
        for location, sources in zip(found, published, strict=True):
            if location.has_runs:
                home = stack.enter_context(collected(location.path))
                for left_out in home.summary.quarantined:
                    notify(f"skipped: {left_out.path}: {left_out.reason}")
                opened.append((location.path, home.folder))
            if location.submissions or location.board is not None:
                scratch = _scratch(stack)
                _write(location, sources, scratch, notify)
                opened.append((location.path, scratch))
        if len(opened) == 1:
            [(path, folder)] = opened
            yield stack.enter_context(database.reader(path, home=folder))
        else:
            file = _merge(opened, _scratch(stack), notify)
            yield stack.enter_context(database.reader_of_file(file))


def _scratch(stack: ExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="imitbench-")))


def _write(
    location: ResultsLocation,
    sources: Sequence[tuple[Path, ResultsSource]],
    home: Path,
    notify: Notify,
) -> None:
    """Writes the database of published results."""
    rows = []
    known: set[str] = set()
    # Rescored results have no policies of their own.
    earlier = [folder for folder, source in sources if source.superseded_by]
    # Of a run that several folders have, that of results that pass their checks is read.
    for folder, source in sorted(_current(sources), key=lambda found: bool(found[1].failed)):
        fresh = [run for run in source.runs if run.spec.run_id not in known]
        if len(fresh) < len(source.runs):
            again = len(source.runs) - len(fresh)
            notify(f"skipped: {again} runs of {source.name}, which other folders have as well")
        known |= {run.spec.run_id for run in fresh}
        rows += [
            published_rows(run, _policy_path(location.path, (folder, *earlier), run))
            for run in fresh
        ]
    tables = arrow_tables(rows)
    imports = _external_tables(location, notify)
    if imports is not None:
        tables["external"] = imports
    with database.revision(home, rebuild=True) as connection:
        database.insert(connection, tables)


def read_sources(location: ResultsLocation, notify: Notify) -> list[tuple[Path, ResultsSource]]:
    """Reads the published results of a folder, by the folder of each.

    Notifies of failed checks, and of results that are left out because others supersede them.

    Raises:
        InputError: The results contradict themselves.
    """
    [sources] = _read_linked([location], notify)
    return _current(sources)


def _current(sources: Sequence[tuple[Path, ResultsSource]]) -> list[tuple[Path, ResultsSource]]:
    return [(folder, source) for folder, source in sources if not source.superseded_by]


def _read_linked(
    locations: Sequence[ResultsLocation], notify: Notify
) -> list[list[tuple[Path, ResultsSource]]]:
    """Reads the published results of each folder; any of them may supersede any other."""
    read = [
        [(folder, read_source(folder)) for folder in location.submissions] for location in locations
    ]
    sources = [source for found in read for _, source in found]
    notes = [
        f"{source.name}: does not pass the checks {', '.join(source.failed)}"
        for source in sources
        if source.failed
    ]
    linked = link_superseded(sources, notes)
    notes += [
        f"skipped: {source.name}: {source.superseded_by} has its runs with newer references"
        for source in linked
        if source.superseded_by
    ]
    for note in notes:
        notify(note)
    following = iter(linked)
    return [[(folder, next(following)) for folder, _ in found] for found in read]


def _policy_path(home: Path, folders: Sequence[Path], run: PublishedRun) -> str | None:
    """Returns the folder of a run's policy below the results folder, if one of these has it."""
    policies = (folder / "policies" / run.spec.run_id for folder in folders)
    found = next((policy for policy in policies if policy.is_dir()), None)
    return None if found is None else found.relative_to(home).as_posix()


def _external_tables(location: ResultsLocation, notify: Notify) -> pa.Table | None:
    if location.has_runs:  # its own database has them
        return None
    if location.board is not None:
        name, source = default_name(location.path), location.path.name
        header = ExternalHeader(name=name, tool="leaderboard", imitbench=__version__,
                                source=source, files={}, notes=[], digest="")  # fmt: skip
        return external_table(header, location.board)
    try:
        imports = read_imports(location.path)
    except InputError as error:
        notify(f"skipped: {error}")
        return None
    import pyarrow as pa

    tables = [external_table(imported.header, imported.runs) for imported in imports]
    return pa.concat_tables(tables) if tables else None


def _merge(opened: Sequence[tuple[Path, Path]], home: Path, notify: Notify) -> Path:
    with database.revision(home, rebuild=True) as connection:
        for path, location in opened:
            again = database.insert_from(connection, path, location)
            if again:
                notify(f"skipped: {again} runs of {path}, which an earlier folder has as well")
    return home / database.DATABASE_FILE


def published_cells(location: ResultsLocation, *, notify: Notify) -> list[CellStatus]:
    """Counts the runs of published results by state, as `StatusSurvey` does for run folders.

    Raises:
        InputError: The results contradict themselves.
    """
    counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    for _, source in read_sources(location, notify):
        for run in source.runs:
            spec = run.spec
            state = "done" if run.failure is None else "failed"
            counts[spec.suite, spec.algo_label, spec.environment.id][state] += 1
    for listed in location.board or ():
        state = "done" if listed.status == "completed" else "failed"
        counts[listed.suite or "", listed.algo or "", listed.env or ""][state] += 1
    return [
        CellStatus(*key, counts={state: found[state] for state in STATES})
        for key, found in sorted(counts.items())
    ]
