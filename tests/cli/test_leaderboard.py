"""`imitbench leaderboard` and `results export` as people type them, on real runs."""

import json

import pytest
from support.command import call_imitbench
from support.published import change, edit_line, sign

RUNS = "runs/classic.jsonl"


@pytest.fixture(scope="module")
def workplace(real_sweep, tmp_path_factory):
    """A real sweep, and its results as they are published."""
    folder = tmp_path_factory.mktemp("workplace")
    real_sweep(folder, seeds=2)
    assert call_imitbench("results", "export", "submission", cwd=folder).code == 0
    return folder


@pytest.fixture
def submission(workplace, tmp_path):
    import shutil

    return shutil.copytree(workplace / "submission", tmp_path / "submission")


def test_a_real_sweep_is_exported_and_valid(imitbench, workplace):
    answer = imitbench("leaderboard", "validate", "submission", cwd=workplace)
    assert answer.code == 0
    assert "submission: valid, 4 runs" in answer.out
    assert "FAILED" not in answer.out
    assert "nothing was run on seals/CartPole-v0" in answer.err
    document = json.loads(
        imitbench("leaderboard", "validate", "submission", "--json", cwd=workplace).out
    )
    assert (document["valid"], document["problems"], document["runs"]) == (True, [], 4)
    manifest = json.loads((workplace / "submission" / "manifest.json").read_text())
    assert document["digest"] == manifest["digest"]
    assert all(check["ok"] for check in document["checks"])


def test_an_edited_submission_is_not_valid_and_all_problems_are_reported(imitbench, submission):
    edit_line(submission, RUNS, 0, lambda line: line["result"].update(raw_return=-1.0, wall_s=-2.0))
    (submission / "stray.txt").write_text("x")
    answer = imitbench("leaderboard", "validate", submission)
    assert answer.code == 1
    assert "NOT valid, 3 problems in 4 runs" in answer.out
    for told in ("raw_return -1 is not the mean", "wall_s is -2", "stray.txt: is not in the"):
        assert told in answer.out
    document = json.loads(imitbench("leaderboard", "validate", submission, "--json").out)
    failed = [check["check"] for check in document["checks"] if not check["ok"]]
    assert failed == ["files", "scores", "values"]
    assert {each["where"] for each in document["problems"]} == {f"{RUNS}, line 1", "stray.txt"}


def test_a_folder_that_is_not_a_submission_is_refused(refused, tmp_path):
    line = refused("leaderboard", "validate", tmp_path)
    assert "the folder has no published results" in line


def forge(submission, number):
    """Raises a run's returns, and makes all stated numbers agree: no check of files finds it."""
    line = json.loads((submission / RUNS).read_text().splitlines()[number])
    path = submission / "episodes" / "classic" / f"{line['run_id']}.csv"
    header, *rows = (row.split(",") for row in path.read_text().splitlines())
    for row in rows:
        row[2] = repr(float(row[2]) + 1500.0)
    path.write_text("".join(f"{','.join(row)}\n" for row in [header, *rows]))

    def edit(line):
        for name in ("raw_return", "deterministic_return"):
            line["result"][name] += 1500.0

    edit_line(submission, RUNS, number, edit)


@pytest.mark.slow
def test_training_again_finds_what_files_cannot_tell(imitbench, submission, tmp_path):
    """One of the two runs of bc is forged; the other gives identical numbers."""
    forge(submission, 0)
    assert imitbench("leaderboard", "validate", submission).code == 0
    answer = imitbench(
        "leaderboard", "verify", submission, "--runs", 2, "--json", "--keep", tmp_path / "kept"
    )
    assert answer.code == 1
    assert "drawn with seed 0: bc on Pendulum-v1, seed 1" in answer.err
    document = json.loads(answer.out)
    forged, honest = sorted(document["runs"], key=lambda run: run["label"])
    assert (honest["verdict"], honest["raw_return"]["difference"]) == ("identical", 0.0)
    assert forged["raw_return"]["difference"] == pytest.approx(-1500.0)
    assert not document["agrees"]
    assert len(list((tmp_path / "kept").glob("classic/bc/*/*/result.json"))) == 2


def test_a_submission_that_is_not_valid_is_not_trained(imitbench, submission):
    lines = (submission / RUNS).read_text().splitlines()
    for number in range(len(lines)):
        respecify(submission, number)
    sign(submission)
    answer = imitbench("leaderboard", "verify", submission)
    assert answer.code == 1
    [line] = answer.err.splitlines()
    assert "is not valid, so nothing was trained" in line
    assert answer.out == ""


def respecify(submission, number):
    from imitbench.records.runs import RunSpec

    def edit(line):
        line["spec"]["implementation"] = "evil:Learner"
        spec = RunSpec.model_validate_json(json.dumps(line["spec"]))
        for path in submission.glob(f"*/classic/{line['run_id']}.csv"):  # episodes, learning curve
            path.rename(path.with_stem(spec.run_id))
        path = submission / "manifest.json"
        path.write_text(path.read_text().replace(line["run_id"], spec.run_id))
        line |= {"run_id": spec.run_id, "spec_digest": spec.digest}

    edit_line(submission, RUNS, number, edit)


def test_a_submission_that_contradicts_itself_is_not_trained(refused, submission):
    change(submission, RUNS, '"seed":0', '"seed":1', signed=False)
    assert "does not have the digest in the manifest" in refused(
        "leaderboard", "verify", submission
    )


def test_a_site_is_built_from_runs_and_from_what_they_publish(imitbench, workplace, tmp_path):
    common = ("--out", tmp_path / "site", "--replicates", 200)
    answer = imitbench("leaderboard", "build", *common, cwd=workplace)
    assert (answer.code, answer.out) == (0, "")
    assert "runs: taken as a results folder of own runs, 4 runs" in answer.err
    answer = imitbench(
        "leaderboard", "build", "--results", "submission", *common, "--title", "A <board>",
        "--json", cwd=workplace,
    )  # fmt: skip
    document = json.loads(answer.out)
    assert (document["taken"], document["submissions"]) == ("published results", ["submission"])
    board = json.loads((tmp_path / "site" / "leaderboard.json").read_text())
    assert (board["format"], board["title"]) == ("imitbench-leaderboard", "A <board>")
    [table] = board["tables"]
    assert [row["algorithm"] for row in table["rows"]] == ["bc", "random", "expert"]
    assert "<title>A &lt;board&gt;</title>" in (tmp_path / "site" / "index.html").read_text()


def test_bad_input_is_reported_in_one_line(refused, workplace, tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine")
    for command, told in (
        (["leaderboard", "build", "--out", "site", "--results", "missing"], "no such folder"),
        (["leaderboard", "build", "--out", tmp_path / "full"], "not a leaderboard of this program"),
        (["results", "export", tmp_path / "full"], "is not empty"),
        (["leaderboard", "verify", "submission", "--keep", tmp_path / "full"], "is not empty"),
    ):
        assert told in refused(*command, "--quiet", cwd=workplace)
    assert (tmp_path / "full" / "x").read_text() == "mine"


@pytest.mark.parametrize(
    "command",
    [["leaderboard", "build"], ["leaderboard", "validate"], ["leaderboard", "verify"],
     ["results", "export"]],
    ids=" ".join,
)  # fmt: skip
def test_every_command_explains_itself_with_an_example(imitbench, command):
    answer = imitbench(*command, "--help")
    assert answer.code == 0
    assert "Example: imitbench" in " ".join(answer.out.split())
