"""Writes the site: all of its files, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from imitbench.errors import InputError
from imitbench.published.results_folder import episodes_text
from imitbench.report.leaderboard.algorithm_page import pages, render_page
from imitbench.report.leaderboard.claims_page import render_claims
from imitbench.report.leaderboard.data_formats import render_csv, render_json, render_markdown
from imitbench.report.leaderboard.head_to_head import head_page, render_head_to_head
from imitbench.report.leaderboard.index_page import render_index
from imitbench.report.leaderboard.method_page import render_method
from imitbench.report.leaderboard.model import (
    CLAIMS_PAGE,
    SUBMIT_PAGE,
    Board,
    method_page,
    methods,
    suite_page,
)
from imitbench.report.leaderboard.submit_page import render_submit
from imitbench.report.leaderboard.suite_page import render_suite
from imitbench.report.leaderboard.videos import FOLDER, Video, Videos
from imitbench.util import files

MARK = "leaderboard.json"
_OURS = {
    "index.html",
    MARK,
    "leaderboard.csv",
    "leaderboard.md",
    "algorithms",
    "episodes",
    "external",
    "head-to-head",
    "methods",
    CLAIMS_PAGE,
    SUBMIT_PAGE,
    "suites",
    FOLDER,
}


class _FormatMarker(BaseModel):
    format: Literal["imitbench-leaderboard"]


def check_site_folder(site: Path, results: Path) -> None:
    """Checks, before any work, that a site may be written to a folder.

    Args:
        site: Folder of the site.
        results: Folder of the results, which must not be inside the site.

    Raises:
        InputError: The folder has other files, or contains the results.
    """
    target, source = site.resolve(), results.resolve()
    if target == source or target in source.parents:
        raise InputError(f"--out {site}: contains the results; name another folder")
    files.check_new_folder(site, _check_old)


def write_site(
    board: Board, site: Path, *, results: Sequence[Path], videos: Videos | None = None
) -> int:
    """Writes all files of a board.

    Args:
        board: The whole leaderboard.
        site: Folder of the site; created, or replaced if it is an earlier site.
        results: Folders of the results, which must not be inside the site.
        videos: Videos to include.

    Returns:
        The number of files.

    Raises:
        InputError: The folder has other content, or cannot be written.
    """
    for folder in results:
        check_site_folder(site, folder)
    count = 0
    with files.new_folder(site, _check_old) as draft:
        for name, content in _files(board, videos or Videos()):
            path = draft / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
            count += 1
    return count


def _files(board: Board, videos: Videos) -> Iterator[tuple[str, str | bytes]]:
    yield "index.html", render_index(board)
    yield MARK, render_json(board)
    yield SUBMIT_PAGE, render_submit(board)
    if board.claims:
        yield CLAIMS_PAGE, render_claims(board)
    yield "leaderboard.csv", render_csv(board)
    yield "leaderboard.md", render_markdown(board)
    for suite in board.suites:
        yield suite_page(suite), render_suite(board, suite)
        yield head_page(suite), render_head_to_head(board, suite)
    for name, rows in methods(board).items():
        yield method_page(name), render_method(board, name, rows, videos)
    for path, video in {video.site_path: video for video in videos.shown.values()}.items():
        yield path, _content(video)
    for page, shown in pages(board).items():
        yield page, render_page(board, page, shown)
    written = set()
    for run in (run for row in board.rows for run in row.row.runs):
        if run.episodes not in written and run.run.episodes is not None:
            written.add(run.episodes)
            yield run.episodes, episodes_text(run.run.episodes)


def _content(video: Video) -> bytes:
    try:
        return video.file.read_bytes()
    except OSError as error:
        raise InputError(f"{video.file}: cannot be read ({error.strerror})") from error


def _check_old(site: Path) -> None:
    """Checks that only an earlier site would be replaced."""
    name = f"--out {site}"
    if not site.is_dir():
        raise InputError(f"{name}: is not a folder")
    try:
        _FormatMarker.model_validate_json((site / MARK).read_bytes())
    except (OSError, ValidationError) as error:
        raise InputError(
            f"{name}: is not empty, and not a leaderboard of this program; name a new folder"
        ) from error
    foreign = sorted(path.name for path in site.iterdir() if path.name not in _OURS)
    if foreign:
        raise InputError(
            f"{name}: holds {foreign[0]}, which is not part of the site and would be lost; move "
            "it away, or name another folder"
        )
