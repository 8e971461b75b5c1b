"""Published results are read like run folders, and nothing is written into them."""

import json
import os
import shutil
import subprocess
import tarfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.submissions import write_submitted_runs
from typer.testing import CliRunner

import imitbench
from imitbench import InputError
from imitbench.cli.main import app
from imitbench.published.opening import open_results, results_location
from imitbench.published.results_folder import export_results, read_runs
from imitbench.published.results_sources import find_results
from imitbench.published.submission import PACKED_FILE, read_strictly, restore_runs
from imitbench.published.validation import validate
from imitbench.store import database
from imitbench.store.collector import cached_folder
from imitbench.untrusted import gate

ROOT = Path(__file__).resolve().parents[2]
CLASSIC = ROOT / "results" / "imitbench-classic"
FEW = ("--replicates", "100")


def call(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments], catch_exceptions=False)


def told(*arguments):
    """The message of a command that is refused."""
    with pytest.raises(InputError) as error:
        call(*arguments)
    return str(error.value)


def export(runs, folder):
    export_results(read_runs(runs).runs, folder, version="0", command="imitbench results export")
    return folder


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A results folder with runs of this machine."""
    out = tmp_path_factory.mktemp("own") / "runs"
    write_submitted_runs(out, algorithms=("bc", "random"), failing=())
    return out


@pytest.fixture(scope="module")
def theirs(tmp_path_factory):
    """Published results with a failed run, and other seeds than the own results."""
    place = tmp_path_factory.mktemp("theirs")
    write_submitted_runs(place / "runs", seeds=4)
    return export(place / "runs", place / "theirs")


def content(folder):
    """Files and times; Python compiles `results/__init__.py`, through which these are found."""
    return {
        path: path.stat().st_mtime_ns
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts and path != folder
    }


def git_status():
    words = ["git", "status", "--porcelain", "--ignored", "--", "results/imitbench-*"]
    return subprocess.run(words, cwd=ROOT, capture_output=True, text=True).stdout


COMMANDS = {
    "report": ("report", "--out", "THEIRS", *FEW),
    "page": ("report", "--out", "THEIRS", "--format", "html", "--to", "page.html", *FEW),
    "sql": ("sql", "--out", "THEIRS", "select count(*) from scores"),
    "status": ("status", "--out", "THEIRS"),
    "compare": ("compare", "bc", "--out", "THEIRS", *FEW),
    "against": ("compare", "bc", "--out", "OWN", "--against", "THEIRS", *FEW),
    "validate": ("leaderboard", "validate", "THEIRS"),
    "leaderboard": ("leaderboard", "build", "--results", "THEIRS", "--out", "site", *FEW),
    "several": ("report", "--out", CLASSIC, "--out", "THEIRS", *FEW),
}


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_commands_leave_published_results_unchanged(words, own, theirs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places = {"THEIRS": theirs, "OWN": own}
    before = content(theirs), content(CLASSIC)
    assert call(*(places.get(word, word) for word in words)).exit_code == 0
    assert (content(theirs), content(CLASSIC)) == before


def rows(place, query="select suite, algo, env, seed, raw_return, score from scores order by all"):
    return json.loads(call("sql", "--out", place, "--format", "json", query).stdout)


def test_published_results_are_the_rows_of_the_runs_that_were_exported(own, tmp_path):
    published = export(own, tmp_path / "theirs")
    assert rows(published) == rows(own)
    tables = []
    for place in (published, own):
        with open_results([place], notify=print) as connection:
            queries = (
                f"from {each} order by all" for each in ("episodes", "measures", '"references"')
            )
            tables.append([connection.execute(query).fetchall() for query in queries])
    assert tables[0] == tables[1]
    assert tables[0][0] and tables[0][2]
    one, two = (call("report", "--out", place, *FEW).stdout for place in (published, own))
    assert one == two


def test_only_the_results_of_this_package_may_be_packed(theirs, tmp_path, monkeypatch):
    folder = shutil.copytree(theirs, tmp_path / "packed")
    names = json.loads((folder / "manifest.json").read_text())["files"]
    with tarfile.open(folder / PACKED_FILE, "w:xz") as archive:
        for name in names:
            archive.add(folder / name, name)
            (folder / name).unlink()
    with pytest.raises(InputError, match="no such file"):
        read_strictly(folder)
    assert any(problem.where == PACKED_FILE for problem in validate(folder).problems)
    monkeypatch.setattr(gate, "is_bundled", lambda _: True)
    ids = [run.spec.run_id for run in read_strictly(theirs).published]
    assert [run.spec.run_id for run in read_strictly(folder).published] == ids
    assert validate(folder).problems == ()


def test_restored_results_give_the_same_report_as_the_published_folder(theirs, tmp_path):
    restore_runs(read_strictly(theirs).published, tmp_path / "pulled")
    one, two = (
        call("report", "--out", place, "--format", "json", *FEW).stdout
        for place in (theirs, tmp_path / "pulled")
    )
    assert json.loads(one) == json.loads(two)


def test_several_folders_are_one_report(own, theirs):
    report = imitbench.report([own, theirs], format=None, replicates=100)
    names = {result.algorithm for section in report.sections for result in section.algorithms}
    assert names == {"bc", "gail", "random", "expert"}
    assert len(report.failures) == 1
    taught = next(s for s in report.sections if s.conditions.n_demos)
    [bc] = [each for each in taught.algorithms if each.algorithm == "bc"]
    assert bc.seeds == (4, 4)  # the own runs are among those of the submission


def test_of_two_runs_with_one_id_that_in_the_earlier_folder_counts(own, theirs):
    messages = []
    with open_results([own, theirs], notify=messages.append) as connection:
        found = connection.execute("select count(*), count(distinct run_id) from runs").fetchone()
        paths = connection.execute("select path from scores where algo = 'bc' order by seed")
        paths = [path for (path,) in paths.fetchall()]
    assert found == (11, 11)
    assert messages == [f"skipped: 6 runs of {theirs}, which an earlier folder has as well"]
    assert [path is not None for path in paths] == [True, True, True, False]
    assert all(Path(path, "result.json").exists() for path in paths[:3])


def test_a_folder_of_published_folders_is_all_of_them(own, theirs, tmp_path):
    shutil.copytree(theirs, tmp_path / "theirs")
    export(own, tmp_path / "own")
    assert len(rows(tmp_path)) == 11
    assert not list(tmp_path.glob("*.duckdb"))


def test_what_a_killed_export_left_is_no_submission(theirs, tmp_path):
    shutil.copytree(theirs, tmp_path / "theirs")
    left = tmp_path / ".theirs.0abc.tmp"  # as `imitbench.util.files.new_folder` names it
    shutil.copytree(theirs, left)
    manifest = left / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"command"', '"order"'))
    assert rows(tmp_path) == rows(theirs)
    found = find_results(tmp_path)
    assert [source.name for source in found.sources] == ["theirs"]
    assert not found.notes


def test_a_run_folder_may_have_published_folders_in_it(own, theirs, tmp_path):
    shutil.copytree(own, tmp_path / "runs")
    shutil.copytree(theirs, tmp_path / "runs" / "theirs")
    assert len(rows(tmp_path / "runs")) == 11
    assert validate(tmp_path / "runs" / "theirs").valid


def test_status_counts_published_runs(theirs, own):
    [bc, gail, _] = json.loads(call("status", "--out", theirs, "--json").stdout)
    assert (bc["algo"], bc["done"], bc["failed"]) == ("bc", 4, 0)
    assert (gail["algo"], gail["done"], gail["failed"]) == ("gail", 3, 1)
    both = json.loads(call("status", "--out", own, "--out", theirs, "--json").stdout)
    assert [each["folder"] for each in both] == [str(own)] * 2 + [str(theirs)] * 3
    assert "--watch" in told("status", "--out", theirs, "--watch")


def baselines(*words):
    document = json.loads(call("compare", *words, *FEW, "--json").stdout)
    return [verdict["baseline"] for each in document["contests"] for verdict in each["verdicts"]]


def test_a_method_is_compared_with_published_results(own, theirs, tmp_path):
    assert baselines("bc", "--out", own, "--against", theirs) == ["bc (baseline)"]
    # A method that the published results lack is compared with their methods.
    moved = tmp_path / "runs"
    write_submitted_runs(moved, algorithms=("gail",), failing=())
    alone = export(own, tmp_path / "alone")
    assert baselines("gail", "--out", moved, "--against", alone) == ["bc"]


def test_the_results_of_this_package_have_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {path.name for path in (ROOT / "results").glob("imitbench-*")}
    assert {path.name for path in results_location("published").glob("imitbench-*")} == names
    (tmp_path / "published").mkdir()
    assert results_location("./published") == tmp_path.relative_to(tmp_path) / "published"


@pytest.mark.slow
def test_all_results_of_this_package_are_compared_by_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before, clean = content(ROOT / "results"), git_status()
    found = imitbench.compare(
        "bc", "gail", out="published", suite="classic", budget="default", replicates=100
    )
    assert [verdict.decision for verdict in found.verdicts] == ["better"]
    assert content(ROOT / "results") == before  # and test_published_results.py: they are valid
    assert git_status() == clean


def test_a_leaderboard_document_is_compared_with(own, theirs, tmp_path):
    place = tmp_path / "site"
    call("leaderboard", "build", "--results", theirs, "--out", place, *FEW)
    board = place / "leaderboard.json"
    one, two = (
        call("compare", "bc", "--out", own, "--against", each, "--baseline", "gail", *FEW, "--json")
        for each in (board, theirs)
    )
    assert json.loads(one.stdout) == json.loads(two.stdout)
    assert "not a leaderboard" in told("compare", "bc", "--out", theirs / "manifest.json")
    board.write_text(board.read_text()[:-100])
    assert "not a leaderboard" in told("compare", "bc", "--out", own, "--against", board)


def test_a_leaderboard_document_is_read_like_imported_results(own, theirs, tmp_path):
    place = tmp_path / "site"
    call("leaderboard", "build", "--results", theirs, "--out", place, *FEW)
    board = place / "leaderboard.json"
    before = content(place)
    count = "select count(*) as runs, avg(score) as score from"
    stated, measured = (
        json.loads(call("sql", f"{count} {table}", "--out", each, "--json").stdout)
        for table, each in (("external_scores", board), ("scores", theirs))
    )
    assert stated == measured
    cells = json.loads(call("status", "--out", board, "--json").stdout)
    assert sum(cell["done"] for cell in cells) == stated[0]["runs"]
    page = call("report", "--out", board, "--format", "md").stdout
    assert "leaderboard:gail" in page
    both = call("report", "--out", own, "--out", board, "--format", "md").stdout
    assert "leaderboard:gail" in both and "### Imported results" in both
    assert content(place) == before
    assert "is a file" in told("leaderboard", "build", "--results", board, "--out", tmp_path / "b")
    board.write_text(board.read_text()[:-100])
    for command in (("report",), ("status",), ("sql", "select 1")):
        assert "not a leaderboard" in told(*command, "--out", board)


@pytest.mark.parametrize(
    ("changed", "field"),
    [({"mixture": "m" * 300}, "mixture"), ({"rows": [["a" * 150, "x" * 100]] * 2}, "algo")],
    ids=["mixture", "name"],
)
def test_a_leaderboard_document_with_longer_names_than_imports_have_is_one_line(
    changed, field, tmp_path
):
    rows = [
        {"algorithm": algo, "kind": "run", "submitted_by": who, "runs": [{"env": "e", "score": 1}]}
        for algo, who in changed.get("rows", [["bc", "me"]])
    ]
    table = {"suite": "s", "budget": "quick", "n_demos": "all", "source": None} | changed
    board = tmp_path / "leaderboard.json"
    document = {"format": "imitbench-leaderboard", "version": 1, "tables": [table | {"rows": rows}]}
    board.write_text(json.dumps(document))
    found = told("status", "--out", board)
    assert found.startswith(f"{board}: cannot be read (table 1: {field}: ")
    assert "\n" not in found


def test_altered_results_are_refused(theirs, tmp_path):
    shutil.copytree(theirs, tmp_path / "theirs")
    [first, *_] = sorted((tmp_path / "theirs" / "episodes").rglob("*.csv"))
    first.write_text(first.read_text().replace("1", "2"))
    assert "does not have the digest" in told("report", "--out", tmp_path / "theirs")


@pytest.mark.parametrize(
    "words",
    [
        ("collect",),
        ("run", "--algo", "random", "--env", "Pendulum-v1", "--budget", "quick", "--seeds", "1"),
        ("import", "csv", ROOT / "results/external/imitation-benchmark.csv"),
    ],
    ids=lambda words: words[0],
)
def test_nothing_is_written_into_published_results(words, theirs):
    before = content(theirs)
    assert "holds published results" in told(*words, "--out", theirs)
    assert content(theirs) == before


@pytest.mark.parametrize("command", ["report", "compare", "sql"])
def test_a_folder_without_results_gets_no_database(command, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    words = {"report": [], "compare": ["bc"], "sql": ["select 1"]}[command]
    assert "no results found" in told(command, *words, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    assert "no such folder" in told(command, *words, "--out", tmp_path / "missing")


@contextmanager
def read_only(folder):
    """The folder cannot be written; root may write anywhere except on a read-only file system."""
    if os.geteuid() == 0:
        subprocess.run(["mount", "--bind", str(folder), str(folder)], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", str(folder)], check=True)
    else:
        folder.chmod(0o555)
    try:
        yield
    finally:
        if os.geteuid() == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        else:
            folder.chmod(0o755)


def test_runs_that_may_only_be_read_have_their_database_in_the_cache(own, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    out = tmp_path / "runs"
    shutil.copytree(own, out, ignore=shutil.ignore_patterns("*.duckdb", ".*"))
    with read_only(out):
        assert rows(out) == rows(own)
        [path, *_] = [row["path"] for row in rows(out, "select path from scores")]
        assert Path(path, "result.json").exists()
        assert (cached_folder(out) / database.DATABASE_FILE).exists()
        shutil.rmtree(cache)
        cache.mkdir()
        with read_only(cache):  # then the database is temporary
            assert len(rows(out)) == len(rows(own))
        assert list(cache.iterdir()) == []
    assert not list(out.glob("*.duckdb"))


def test_on_a_fresh_clone_a_method_is_compared_with_the_others_of_published_results(
    theirs, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    found = call("compare", "bc", "--against", theirs, *FEW, "--json")
    [contest] = json.loads(found.stdout)["contests"]
    assert [verdict["baseline"] for verdict in contest["verdicts"]] == ["gail"]
    assert "no results in runs: bc is the one of --against" in found.stderr
    assert list(tmp_path.iterdir()) == []
    assert len(imitbench.compare("bc", against=theirs, replicates=100).verdicts) == 1
    # A folder that is named must exist.
    named = told("compare", "bc", "--out", "mine", "--against", theirs)
    assert "--out mine: no such folder" in named
    assert "--against away: no such file" in told("compare", "bc", "--against", "away")
