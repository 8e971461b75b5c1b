"""The commands that publish."""

import json
import shutil

import pytest
from support.results import write_failed_run, write_finished_run
from typer.testing import CliRunner

from imitbench.cards.catalog import suite_directory
from imitbench.cli.main import app
from imitbench.errors import InputError

ROOT = suite_directory("classic")
EXPERT = ROOT / "experts" / "ppo-seals-CartPole-v0"
DEMOS = ROOT / "demos" / "ppo-seals-CartPole-v0"
TOKEN = {"HF_TOKEN": "hf_mine"}


@pytest.fixture
def results(tmp_path):
    for seed in range(3):
        write_finished_run(tmp_path / "runs", seed)
    write_failed_run(tmp_path / "runs", seed=7)


@pytest.mark.parametrize(
    "command",
    [["experts", "push"], ["demos", "push"], ["results", "push"], ["results", "pull"]],
    ids=" ".join,
)
def test_every_help_text_has_an_example(command):
    answer = CliRunner().invoke(app, [*command, "--help"])
    assert answer.exit_code == 0
    assert f"Example: imitbench {' '.join(command)}" in " ".join(answer.stdout.split())


def test_without_yes_files_and_card_are_shown_without_a_prompt(imitbench, hub):
    answer = imitbench("experts", "push", EXPERT, "me/cartpole")
    assert answer.code == 0
    assert hub.requests == []
    for name in ("policy.json", "policy.safetensors", "cartpole.zip", "README.md"):
        assert name in answer.out
    assert f"model {hub.url}/me/cartpole: 9 files" in answer.out
    assert "value: 500.00 +/- 0.00" in answer.out
    assert answer.err == "nothing was uploaded; add --yes to upload\n"


def test_the_plan_and_the_outcome_are_json(imitbench, hub):
    command = ("demos", "push", DEMOS, "me/cartpole", "--json", "--message", "first")
    plan = json.loads(imitbench(*command).out)
    assert (plan["uploaded"], plan["commit"], hub.requests) == (False, None, [])
    answer = imitbench(*command, "--yes", **TOKEN)
    assert answer.code == 0, answer.err
    done = json.loads(answer.out)
    assert (done["uploaded"], done["created"], done["changed"]) == (True, True, True)
    assert done["commit"] == hub.resolve("dataset", "me/cartpole", "main")
    assert done["commit_url"] == f"{hub.url}/datasets/me/cartpole/commit/{done['commit']}"
    assert done["files"] == plan["files"]
    assert {each["path"]: each["bytes"] for each in done["files"]} == {
        name: len(content)
        for name, content in hub.files("dataset", "me/cartpole").items()
        if name != ".gitattributes"
    }
    assert hub.messages == ["first"]
    assert "datasets/me/cartpole: uploading 2 files" in answer.err


def test_results_pushed_and_pulled_give_the_same_report(imitbench, hub, results, tmp_path):
    own = imitbench("report", "--format", "csv", "--replicates", 100).out
    answer = imitbench("results", "push", "me/results", "--license", "mit", "--yes", **TOKEN)
    assert answer.code == 0, answer.err
    assert answer.out.rstrip().endswith(hub.resolve("dataset", "me/results", "main"))
    card = hub.files("dataset", "me/results")["README.md"].decode()
    assert "# imitbench report" in card
    assert "| bc | 1 of 1 | 3 |" in card
    answer = imitbench("results", "pull", "me/results", "--out", "theirs", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["added"] == 4
    theirs = imitbench("report", "--out", "theirs", "--format", "csv", "--replicates", 100).out
    assert theirs == own
    again = imitbench("results", "pull", "me/results", "--out", "theirs", "--json")
    assert json.loads(again.out)["present"] == 4


def test_results_are_pulled_from_a_local_folder(imitbench, results, tmp_path):
    imitbench("results", "export", "published")
    answer = imitbench("results", "pull", "published", "--out", "theirs")
    assert answer.err.rstrip() == "theirs: 4 runs added, 0 existed, from published"
    imitbench("results", "export", "again", "--out", "theirs")
    [one], [other] = ((tmp_path / each / "runs").iterdir() for each in ("published", "again"))
    assert one.read_text() == other.read_text()
    refused = imitbench("results", "pull", "published", "--revision", "main", "--out", "none")
    assert (refused.code, "published is a local folder" in refused.err) == (2, True)
    assert not (tmp_path / "none").exists()


def test_results_of_one_suite_are_chosen(imitbench, hub, results, tmp_path):
    write_finished_run(tmp_path / "runs", suite="tabular", env="Other-v0")
    answer = imitbench("results", "push", "me/results", "--suite", "tabular", "--json")
    paths = [each["path"] for each in json.loads(answer.out)["files"]]
    assert "runs/tabular.jsonl" in paths
    assert not any("classic" in path for path in paths)


@pytest.mark.usefixtures("client")
def test_an_interrupted_push_says_how_to_resume_and_resumes(hub, monkeypatch):
    def call():
        return CliRunner().invoke(app, ["demos", "push", str(DEMOS), "me/cartpole", "--yes"])

    monkeypatch.setenv("HF_TOKEN", "hf_mine")
    hub.fail("POST .*/commit", 503, times=1000)
    error = call().exception
    assert isinstance(error, InputError)
    assert "the upload was interrupted (the hub answered 503)" in str(error)
    assert "the same command continues" in str(error)
    hub.faults.clear()
    assert call().exit_code == 0
    assert hub.count("PUT /store/") == 1


def test_a_missing_token_is_reported(refused, hub):
    line = refused("demos", "push", DEMOS, "me/x", "--yes", "--json", "--quiet", HF_TOKEN="")
    assert "no token; set HF_TOKEN" in line
    assert hub.requests == []


def test_a_token_without_permission_is_reported(refused, hub):
    hub.writers = {"hf_mine": {"me"}}
    line = refused("demos", "push", DEMOS, "you/x", "--yes", "--json", "--quiet", **TOKEN)
    assert "may not write there (403)" in line


def test_a_public_repository_is_refused_for_a_private_push(refused, hub):
    hub.add_dataset("me/x", {})
    line = refused(
        "demos", "push", DEMOS, "me/x", "--yes", "--private", "--json", "--quiet", **TOKEN
    )
    assert "exists already and is public" in line


def test_a_link_is_refused(refused, hub, tmp_path):
    shutil.copytree(EXPERT, tmp_path / "expert")
    (tmp_path / "expert" / "config.yml").unlink()
    (tmp_path / "expert" / "config.yml").symlink_to("/etc/hostname")
    assert "a link" in refused("experts", "push", "expert", "me/x")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["experts", "push", str(EXPERT), "x"], "not owner/name"),
        (["experts", "push", "nowhere", "me/x"], "no such file or folder"),
        (["demos", "push", str(EXPERT), "me/x"], "data/train-*.parquet"),
        (["demos", "push", str(DEMOS), "me/x", "--message", " "], "--message"),
        (["results", "push", "me/x"], "no such folder; run `imitbench run"),
        (["results", "pull", "x"], "not owner/name"),
    ],
)
def test_bad_input_is_one_line(told, hub, command, message):
    assert message in told(*command)
    assert hub.requests == []


def test_another_kind_of_repository_is_reported(refused, classic):
    line = refused("results", "pull", "HumanCompatibleAI/ppo-seals-CartPole-v0", "--quiet")
    assert "no published results" in line
