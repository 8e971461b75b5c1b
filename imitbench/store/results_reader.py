"""Reads results that others published, for use, and makes run directories of them."""

from __future__ import annotations

from pathlib import Path

from imitbench.errors import InputError
from imitbench.published.findings import StrictFindings
from imitbench.published.results_folder import PublishedRun, is_plain
from imitbench.published.submission import read_submission
from imitbench.store.run_dir import RunDirectory
from imitbench.util.text_line import one_line


def read_results(folder: Path) -> list[PublishedRun]:
    """Reads a folder that `imitbench.published.results_folder.write_results` wrote.

    Args:
        folder: The folder.

    Returns:
        Its runs. Every file has the digest in the manifest, every specification the run's id,
        and every result the numbers that follow from its episodes.

    Raises:
        InputError: Any of that does not hold, or a file is missing or malformed.
    """
    return [each.run for each in read_submission(folder, StrictFindings(folder)).runs]


def restore_runs(runs: list[PublishedRun], out: Path) -> tuple[int, int]:
    """Makes run directories of published runs, which reports then read like own ones.

    Args:
        runs: The runs.
        out: Results folder; runs with an outcome there stay as they are.

    Returns:
        How many were made, and how many were there.

    Raises:
        InputError: A name in a specification is unfit for a folder, or `out` cannot be written.
    """
    made = 0
    for run in runs:
        directory = RunDirectory.of(out, run.spec)
        names = (run.spec.suite, run.spec.algo, run.spec.environment.id.replace("/", "-"))
        for name in names:
            if not is_plain(name):
                raise InputError(f"run {run.spec.run_id}: {one_line(name)!r} is no folder's name")
        try:
            if directory.has_outcome:
                continue
            _restore(run, directory)
        except OSError as error:
            raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
        made += 1
    return made, len(runs) - made


def _restore(run: PublishedRun, directory: RunDirectory) -> None:
    with directory.claim(wait=True):
        directory.begin(run.spec, afresh=True)
        if run.failure is not None:
            directory.fail(run.failure)
        elif run.result is not None and run.episodes is not None:
            directory.write_episodes(run.episodes)
            directory.finish(run.result)
