"""Everything on one run: specification, outcome, log, videos."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from imitbench.dashboard.files import open_file
from imitbench.dashboard.videos import find_videos
from imitbench.errors import InputError
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunFailure, RunResult, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.text_line import printable

_LOG_LINES, _LOG_BYTES = 100, 50_000


def published_view(run: PublishedRun) -> dict[str, Any]:
    """Returns everything on a published run, as JSON data."""
    return _view(run.spec, run.result, run.failure)


def run_view(directory: RunDirectory, out: Path, key: str) -> dict[str, Any]:
    """Returns everything on a run of a results folder, as JSON data.

    Args:
        directory: Directory of the run; what cannot be read is left out, with the reason.
        out: Results folder.
        key: Path of the run below it.
    """
    problems = []
    spec = result = failure = None
    try:
        if directory.path.joinpath("spec.json").exists():
            spec = directory.read_spec()
        if directory.is_done:
            result = directory.read_result()
        elif directory.has_failed:
            failure = directory.read_failure()
    except InputError as error:
        problems.append(str(error))
    videos = [video for video in find_videos(out, [key]) if video.run == key]
    status = directory.last_status()
    return {
        **_view(spec, result, failure),
        "folder": str(directory.path),
        "problems": problems,
        "status": status.model_dump() if status else None,
        "log": _last_lines(directory.log),
        "videos": [vars(video) for video in videos],
    }


def _view(
    spec: RunSpec | None, result: RunResult | None, failure: RunFailure | None
) -> dict[str, Any]:
    score = deterministic = None
    if result is not None:
        score = result.references.score(result.raw_return)
        deterministic = result.references.score(result.deterministic_return)
    return {
        "spec": spec.model_dump() if spec else None,
        "result": result.model_dump() if result else None,
        "failure": failure.model_dump() if failure else None,
        "score": score,
        "score_deterministic": deterministic,
        "folder": None,
        "problems": [],
        "status": None,
        "log": [],
        "videos": [],
    }


def _last_lines(path: Path) -> list[str]:
    opened = open_file(path)
    if opened is None:
        return []
    with opened:
        text = opened.read(-_LOG_BYTES, _LOG_BYTES).decode(errors="replace")
    lines = text.replace("\r\n", "\n").replace("\r", "\n")  # progress bars overwrite their line
    return printable(lines).splitlines()[-_LOG_LINES:]
