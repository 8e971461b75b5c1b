"""Videos on the pages of methods: which are shown, and which files are refused."""

import re

import pytest
from support.shown_results import write_results

from imitbench.errors import InputError
from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.model import methods
from imitbench.report.leaderboard.site import write_site
from imitbench.report.leaderboard.videos import MOST_BYTES, choose_videos


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("own") / "runs"
    write_results(out, seeds=3)
    return out


def test_videos_of_median_and_worst_runs_are_included_when_asked(tmp_path, runs):
    board = build_board(find_results(runs), title="Board", replicates=50)
    row = methods(board)["bc"][0].row
    own = sorted((run for run in row.runs if run.row.env == "Pendulum-v1"),
                 key=lambda run: run.row.score)  # fmt: skip
    films = tmp_path / "films"
    films.mkdir()
    for run in own:
        (films / f"bc-{run.run.spec.run_id}.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    (films / "holiday.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    videos = choose_videos(board, films)
    shown = {video.run.row.seed: video.which for video in videos.shown.values()}
    assert shown == {own[0].row.seed: "worst", own[(len(own) - 1) // 2].row.seed: "median"}
    assert "videos are missing" in videos.notes[-1]
    write_site(board, tmp_path / "site", results=[runs], videos=videos)
    page = (tmp_path / "site/methods/bc.html").read_text()
    assert "media-src &#x27;self&#x27;" in page
    for place in re.findall(r'<video src="\.\./([^"]+)"', page):
        assert (tmp_path / "site" / place).read_bytes().endswith(b"ftypmp42")
    assert page.count("<video ") == 2
    other = (tmp_path / "site/methods/gail.html").read_text()
    assert "media-src" not in other


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_folder_with_all_videos_lacks_none(tmp_path, seeds):
    write_results(tmp_path / "runs", seeds=seeds, failing=())
    board = build_board(find_results(tmp_path / "runs"), title="Board", replicates=50)
    films = tmp_path / "films"
    films.mkdir()
    for entry in board.rows:
        for run in entry.row.runs:
            (films / f"{run.run.spec.run_id}.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    assert choose_videos(board, films).notes == ()
    unused = next(iter(choose_videos(board, films).shown.values()))
    unused.file.unlink()
    needed = min(seeds, 2) * 4 * 3
    assert choose_videos(board, films).notes == (f"{films}: 1 of {needed} videos are missing",)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"<html>", "is not an MP4 file"), (b"\0\0\0\x18ftyp" + b"x" * MOST_BYTES, "bytes; at most")],
)
def test_files_that_are_no_short_videos_are_left_out(tmp_path, runs, content, reason):
    board = build_board(find_results(runs), title="Board", replicates=50)
    own = methods(board)["bc"][0].row.runs
    films = tmp_path / "films"
    films.mkdir()
    for run in own:
        (films / f"{run.run.spec.run_id}.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
    first = films / f"{min(own, key=lambda run: run.row.score).run.spec.run_id}.mp4"
    first.write_bytes(content)
    assert any(reason in note for note in choose_videos(board, films).notes)
    with pytest.raises(InputError, match="no such folder"):
        choose_videos(board, tmp_path / "nowhere")
    for path in films.iterdir():
        path.unlink()
    with pytest.raises(InputError, match="imitbench eval RUN --video"):
        choose_videos(board, films)
