"""`imitbench leaderboard intake`, records of verifications, and the repository of submissions."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support.command import call_imitbench
from support.forge import Forger
from support.published import change, sign

from imitbench.errors import InputError
from imitbench.published.results_sources import find_results
from imitbench.published.submission import read_strictly
from imitbench.published.verification import draw_order, read_verifications
from imitbench.records.runs import canonical_digest
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.row_facts import level_text

SEED = "the numbers of 2026-11-24: 4 8 15 16 23 42"
HOSTILE = "<img src=x onerror=boom()> | @someone **bold**"


@pytest.fixture(scope="module")
def workplace(real_sweep, tmp_path_factory):
    """A real sweep, as it is submitted: three seeds of bc, and of random."""
    folder = tmp_path_factory.mktemp("workplace")
    real_sweep(folder)
    assert call_imitbench("results", "export", "submissions/good", cwd=folder).code == 0
    return folder


@pytest.fixture
def board(workplace, tmp_path):
    shutil.copytree(workplace / "submissions", tmp_path / "submissions")
    return tmp_path


@pytest.fixture(scope="module")
def good(workplace, tmp_path_factory):
    """The outcome of an intake of the honest submission, which other tests only read."""
    folder = tmp_path_factory.mktemp("good")
    shutil.copytree(workplace / "submissions", folder / "submissions")
    answer = take_in(folder, "good", "--public-seed", SEED, "--by", "the board")
    assert answer.code == 0, answer
    assert "verified, 1 of 6 runs trained again" in answer.out
    return folder


def take_in(board, name, *more):
    where = f"submissions/{name}" if name else "submissions"
    common = ("--runs", 1, "--out", "outcome", "--replicates", 200, "--quiet")
    return call_imitbench("leaderboard", "intake", where, *common, *more, cwd=board)


def rows(site):
    document = json.loads((site / "leaderboard.json").read_text())
    return document, [row for table in document["tables"] for row in table["rows"]]


def test_a_good_submission_is_verified_and_the_site_says_so(good):
    out = good / "outcome"
    comment = (out / "comment.md").read_text()
    assert "## good: accepted" in comment
    assert "17 of 17 checks of the files passed, 6 runs" in comment
    assert "identical" in comment
    [record] = read_verifications(out / "verifications")
    assert (record.verified_by, record.public_seed) == ("the board", SEED)
    assert record.provenance.host == ""
    assert [each.verdict for each in record.runs] == ["identical"]
    document, found = rows(out / "site")
    [submission] = document["submissions"]
    [verification] = submission["verifications"]
    assert verification["digest"] == record.digest
    again = {row["algorithm"]: row["trained_again"] for row in found if row["kind"] == "run"}
    assert again == {"bc": 1, "random": 0}
    assert "verified (1 of 3 runs trained again)" in (out / "site/suites/classic.html").read_text()
    outcome = json.loads((out / "outcome.json").read_text())
    assert [each["accepted"] for each in outcome["submissions"]] == [True]


def test_an_edited_submission_is_not_trained_and_changes_no_site(board):
    change(board / "submissions/good", "runs/classic.jsonl", '"raw_return":-', '"raw_return":-1')
    answer = take_in(board, "good", "--public-seed", SEED)
    assert answer.code == 1
    assert "not valid: scores" in answer.out
    comment = (board / "outcome/comment.md").read_text()
    assert "## good: not accepted" in comment
    assert "raw" in comment.partition("**Problems**")[2]
    assert not (board / "outcome/site").exists()
    assert not (board / "outcome/verifications").exists()


@pytest.mark.slow
def test_a_forged_submission_is_found_and_loses_its_ranks(board, imitbench):
    """All three runs of bc are forged, so that every draw finds one."""
    forger = Forger(board / "submissions/good", None)
    for number in forger.of("bc"):
        forger.set_episodes(number, forger.episodes(number).returns + 900.0)
    assert imitbench("leaderboard", "validate", board / "submissions/good").code == 0
    answer = take_in(board, "good", "--public-seed", SEED)
    assert answer.code == 1
    assert "not verified, 1 of 6 runs trained again: 1 differ" in answer.out
    assert "**different**" in (board / "outcome/comment.md").read_text()
    _, found = rows(board / "outcome/site")
    assert [row["rank"] for row in found if row["kind"] == "run"] == [None, None]
    assert {row["differing"] for row in found if row["algorithm"] == "bc"} == {1}
    index = (board / "outcome/site/index.html").read_text()
    assert "differs when trained again" in index


def test_submissions_with_a_record_are_not_taken_in_again(board, good):
    shutil.copytree(good / "outcome/verifications", board / "verifications")
    answer = take_in(board, "")
    assert answer.code == 0
    assert "every submission has a record" in answer.out
    _, found = rows(board / "outcome/site")
    assert {row["trained_again"] for row in found if row["algorithm"] == "bc"} == {1}


@pytest.fixture
def recorded(board, good):
    """Edits the record of the good submission, signs it again, and reads the results."""
    shutil.copytree(good / "outcome/verifications", board / "verifications")
    [path] = (board / "verifications").iterdir()

    def edit(change, *, signed=True):
        document = json.loads(path.read_text())
        change(document)
        if signed:
            del document["digest"]
            document["digest"] = canonical_digest(document)
        path.write_text(json.dumps(document))
        return find_results(board / "submissions")

    return edit


def test_a_record_that_was_edited_is_refused(recorded):
    with pytest.raises(InputError, match="was changed after it was written"):
        recorded(lambda d: d.update(verified_by="somebody else"), signed=False)


def other_draw(document):
    """A seed that draws another run first, which the verifier would have chosen."""
    runs = read_strictly(Path("submissions/good").resolve()).published
    drawn = document["runs"][0]["run_id"]
    seed = next(n for n in range(99) if draw_order(runs, n)[0].spec.run_id != drawn)
    document.update(public_seed=None, seed=seed)


def without_numbers(verdict, problem=""):
    """An outcome that nobody can check."""
    values = {"verdict": verdict, "problem": problem}
    numbers = dict.fromkeys(("raw_return", "deterministic_return"))
    return lambda document: document["runs"][0].update(values | numbers)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda d: d.update(public_seed="another"), "its seed does not follow from its public"),
        (other_draw, "are not those that its seed draws"),
        (lambda d: d["runs"][0]["raw_return"].update(stated=-1.0), "states another return"),
        (lambda d: d["runs"][0]["raw_return"].update(found=-9e9), "but the numbers say"),
        (lambda d: d["runs"][0].update(verdict="different"), "but the numbers say"),
        (lambda d: d["runs"][0].update(raw_return=None), "an outcome without numbers"),
        (without_numbers("different"), "an outcome without numbers"),
        (without_numbers("different", "returns are not finite"), "an outcome without numbers"),
        (without_numbers("failed"), "an outcome without numbers"),
        (lambda d: d["runs"][0].update(verdict="failed", problem="x"), "but the numbers say"),
    ],
)
def test_a_signed_record_must_agree_with_the_draw_and_the_submission(
    recorded, board, monkeypatch, edit, told
):
    monkeypatch.chdir(board)
    with pytest.raises(InputError, match=told):
        recorded(edit)


def test_an_honest_record_without_a_run_verifies_nothing(recorded):
    [source] = recorded(lambda d: d["runs"].clear()).sources
    assert (source.verdicts, source.refuted) == ({}, False)


def test_a_run_that_failed_at_the_verifier_refutes_nothing(recorded):
    [source] = recorded(without_numbers("failed", "train: KilledError")).sources
    assert (source.refuted, list(source.verdicts.values())) == (False, [("failed",)])


def test_a_difference_costs_the_whole_submission_its_ranks(recorded, board):
    def differ(document):
        run = document["runs"][0]
        for name in ("raw_return", "deterministic_return"):
            run[name]["found"] = run[name]["stated"] - 1e6
        run["verdict"] = "different"

    made = build_board(recorded(differ), title="x", replicates=200)
    [part] = made.sections
    own = [row for row in part.rows if row.kind == "run"]
    assert {row.name: (row.rank, row.refuted) for row in own} == {
        "bc": (None, True), "random": (None, True)
    }  # fmt: skip
    assert {row.name: level_text(row) for row in own} == {
        "bc": "1 differ, 0 agree of 3 runs trained again",
        "random": "other runs of its submission differ",
    }


def test_a_record_of_other_results_is_left_out_with_a_note(recorded, board):
    manifest = json.loads((board / "submissions/good/manifest.json").read_text())
    manifest["command"] = "another command"
    (board / "submissions/good/manifest.json").write_text(json.dumps(manifest))
    sign(board / "submissions/good")
    found = recorded(dict)
    assert any("1 record of verifications left out" in note for note in found.notes)
    assert [source.verifications for source in found.sources] == [()]


def test_a_submission_cannot_contain_its_own_record(board, good, imitbench):
    shutil.copytree(good / "outcome/verifications", board / "submissions/good/verifications")
    answer = imitbench("leaderboard", "validate", board / "submissions/good")
    assert (answer.code, "is not in the manifest" in answer.out) == (1, True)
    [source] = find_results(board / "submissions").sources
    assert source.verifications == ()


def test_hostile_names_stay_text(board):
    """The name of a folder, and a failure's message, in the comment, the record and the site."""
    name = HOSTILE.replace("/", "")
    (board / "submissions/good").rename(board / "submissions" / name)
    (board / "submissions" / name / "<b>stray.txt").write_text("x")
    answer = take_in(board, name, "--public-seed", "<script>boom()</script>")
    assert answer.code == 1
    comment = (board / "outcome/comment.md").read_text()
    assert "<img" not in comment
    assert "<b>" not in comment
    assert not re.search(r"@\w", comment)


def test_bad_input_is_reported_in_one_line(board, refused):
    (board / "full").mkdir()
    (board / "full" / "mine").write_text("x")
    for command, told in (
        (["intake", "missing"], "no such folder"),
        (["intake", "full"], "the folder has no published results"),
        (["intake", "submissions/good", "--out", "full"], "not the outcome of an intake"),
        (["intake", "submissions/good", "--out", "submissions"], "contains the results"),
        (["intake", "submissions/good", "--public-seed", " "], "--public-seed: is empty"),
        (["intake", "submissions/good", "--by", "x" * 101], "--by: must be one line"),
        (["verify", "submissions/good", "--record", "records"], "--by NAME"),
        (["build", "--results", "submissions", "--out", "s", "--verifications", "no"], "no such"),
        (["init", "full"], "is not empty"),
    ):
        quiet = () if command[0] == "init" else ("--quiet",)
        assert told in refused("leaderboard", *command, *quiet, cwd=board)
    assert (board / "full" / "mine").read_text() == "x"


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    folder = tmp_path_factory.mktemp("init") / "board"
    assert call_imitbench("leaderboard", "init", folder, cwd=folder.parent).code == 0
    return folder


def workflows(repository):
    return {path.stem: yaml.safe_load(path.read_text())
            for path in (repository / ".github/workflows").iterdir()}  # fmt: skip


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_workflows_have_no_more_rights_than_they_need(repository):
    found = workflows(repository)
    assert set(found) == {"intake", "comment", "publish"}
    for name, workflow in found.items():
        assert workflow["permissions"] == {}, name
        text = (repository / f".github/workflows/{name}.yml").read_text()
        assert not re.search(r"secrets\.\w", text)
        assert "pull_request_target:" not in text
        assert "cache:" not in text
        for step in steps(workflow):
            # A value of the event inside a script would be executed.
            assert "${{" not in step.get("run", ""), step
            if "uses" in step:
                assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])
            if step.get("uses", "").startswith("actions/checkout@"):
                assert step["with"]["persist-credentials"] is False
            assert "pip install" not in step.get("run", "") or "python -I -m pip" in step["run"]
    # What reads submissions may only read; what may write installs and reads nothing of them.
    for job in (job for workflow in found.values() for job in workflow["jobs"].values()):
        writes = {name for name, right in job["permissions"].items() if right == "write"}
        reads_submissions = any("imitbench" in step.get("run", "") for step in job["steps"])
        assert not (writes and reads_submissions)
    assert found["intake"][True].keys() == {"pull_request"}  # YAML reads `on` as true


def test_commands_of_the_workflows_exist(repository, imitbench):
    for workflow in workflows(repository).values():
        for step in steps(workflow):
            for line in re.findall(r"imitbench leaderboard [^|]*", step.get("run", "")):
                words = line.replace("\\\n", " ").split()
                options = {word for word in words if word.startswith("--")}
                told = imitbench("leaderboard", words[2], "--help").out
                assert options <= set(re.findall(r"--[\w-]+", told)), line


def git(folder, *words):
    names = {"GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x", "GIT_COMMITTER_NAME": "x",
             "GIT_COMMITTER_EMAIL": "x@x"}  # fmt: skip
    done = subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True,
                          env={**os.environ, **names})  # fmt: skip
    return done.stdout.strip()


@pytest.fixture
def clone(repository, tmp_path):
    """A repository with a submission `old`, and a function that runs the step of the workflow."""
    folder = shutil.copytree(repository, tmp_path / "clone")
    (folder / "submissions/old").mkdir()
    (folder / "submissions/old/manifest.json").write_text("{}")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "base")
    [script] = [step["run"] for step in steps(workflows(repository)["intake"])
                if step.get("id") == "changed"]  # fmt: skip

    def run(files):
        base = git(folder, "rev-parse", "HEAD")
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", "change")
        output = tmp_path / "output"
        output.write_text("")
        (tmp_path / "temp").mkdir(exist_ok=True)
        done = subprocess.run(
            ["bash", "-c", script], cwd=folder, capture_output=True, text=True,
            env={**os.environ, "BASE": base, "RUNNER_TEMP": str(tmp_path / "temp"),
                 "GITHUB_OUTPUT": str(output)},
        )  # fmt: skip
        return done.returncode, output.read_text()

    return run


@pytest.mark.parametrize(
    ("files", "name"),
    [
        ({"submissions/new-1/manifest.json": "{}"}, "new-1"),
        ({"submissions/new/manifest.json": "{}", ".github/workflows/intake.yml": "x"}, None),
        ({"submissions/new/manifest.json": "{}", "verifications/x.json": "{}"}, None),
        ({"submissions/old/manifest.json": "{ }"}, None),
        ({"submissions/old/more.txt": "x"}, "old"),
        ({"submissions/a/manifest.json": "{}", "submissions/b/manifest.json": "{}"}, None),
        ({"submissions/$(touch pwned)/manifest.json": "{}"}, None),
        ({"submissions/x\nname=y/manifest.json": "{}"}, None),
        ({"submissions/..x/manifest.json": "{}"}, None),
        ({"submissions/loose.txt": "x"}, None),
    ],
    ids=str,
)
def test_the_workflow_accepts_one_new_folder_with_a_plain_name(clone, files, name):
    code, output = clone(files)
    assert (code == 0, output) == (name is not None, "" if name is None else f"name={name}\n")
