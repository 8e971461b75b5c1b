"""The commands that fetch from a hub."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from support.plans import make_plan
from typer.testing import CliRunner

from imitbench.cards.catalog import suite_directory
from imitbench.cli.main import app
from imitbench.hub.lock_file import read_lock

CARTPOLE = "HumanCompatibleAI/ppo-seals-CartPole-v0"
PENDULUM = "HumanCompatibleAI/ppo-Pendulum-v1"


@pytest.mark.parametrize(
    "command",
    [["experts", "pull"], ["demos", "pull"], ["prefetch"], ["suites", "pin"]],
    ids=" ".join,
)
def test_every_help_text_has_an_example(command):
    answer = CliRunner().invoke(app, [*command, "--help"])
    assert answer.exit_code == 0
    assert f"Example: imitbench {' '.join(command)}" in " ".join(answer.stdout.split())


def test_the_experts_of_a_suite_are_pulled(imitbench, classic):
    answer = imitbench("experts", "pull", "--suite", "classic", "--json")
    assert answer.code == 0, answer.err
    rows = json.loads(answer.out)
    assert [(row["repo"], row["revision"]) for row in rows] == [
        (repo, classic.resolve("model", repo, "main")) for repo in (CARTPOLE, PENDULUM)
    ]
    assert f"{CARTPOLE}: fetching commit" in answer.err
    again = imitbench("experts", "pull", "--suite", "classic", "--json")
    assert (again.out, again.err) == (answer.out, "")


def test_one_set_is_pulled_by_its_short_name_to_a_folder(imitbench, classic, tmp_path):
    answer = imitbench("demos", "pull", "ppo-Pendulum-v1", "--to", "pulled/demos")
    assert answer.code == 0, answer.err
    assert PENDULUM in answer.out
    assert "pulled/demos/ppo-Pendulum-v1" in answer.out
    [shard] = (tmp_path / "pulled").rglob("*.parquet")
    bundled = suite_directory("classic") / "demos" / "sac-Pendulum-v1" / "data" / shard.name
    assert shard.read_bytes() == bundled.read_bytes()


def test_a_revision_is_pulled(imitbench, classic):
    old = classic.resolve("dataset", CARTPOLE, "main")
    files = classic.files("dataset", CARTPOLE)
    classic.add_dataset(CARTPOLE, {**files, "README.md": b"new"})
    classic.add_dataset(CARTPOLE, {**files, "README.md": b"tried"}, revision="trial")
    for revision, commit in ((old, old), ("trial", classic.resolve("dataset", CARTPOLE, "trial"))):
        answer = imitbench("demos", "pull", CARTPOLE, "--revision", revision, "--json")
        assert json.loads(answer.out)[0]["revision"] == commit


def test_pulled_folders_are_a_source(imitbench, classic, tmp_path):
    for what in ("experts", "demos"):
        answer = imitbench(what, "pull", "--suite", "classic", "--to", f"pulled/{what}")
        assert answer.code == 0, answer.err
    plan = make_plan(
        algorithms=["bc", "expert"],
        suite="classic",
        environment="Pendulum-v1",
        seeds=[0],
        source=f"path:{tmp_path / 'pulled'}",
    )
    by_bc, by_expert = plan
    assert by_bc.demos.repo == by_expert.expert.repo == "ppo-Pendulum-v1"
    assert by_bc.demos.count == 50


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["experts", "pull"], "a suite by --suite"),
        (["experts", "pull", CARTPOLE, "--suite", "classic"], "a suite by --suite"),
        (["experts", "pull", "--suite", "clasic"], "did you mean 'classic'"),
        (["experts", "pull", "--suite", "tabular"], "names no such repository"),
        (["experts", "pull", "--suite", "classic", "--revision", "x"], "applies to one repository"),
        (["experts", "pull", CARTPOLE, "--env", "x"], "needs --suite"),
        (["experts", "pull", "ppo-seals-CartPol-v0"], f"did you mean '{CARTPOLE}'"),
        (["experts", "pull", "no name!/x"], "not a valid repository name"),
        (["demos", "pull", "org/absent"], "datasets/org/absent: no such repository"),
        (["demos", "pull", CARTPOLE, "--revision", "absent"], "no revision 'absent'"),
        (["prefetch", "--suite", "tabular"], "names no hub repository"),
        (["prefetch", "--suite", "classic", "--env", "seals/MountainCar-v0"], "names no hub"),
        (["suites", "pin", "clasic"], "did you mean 'classic'"),
        (["suites", "pin", "--card", "absent.yaml"], "cannot be read"),
        (["run", "--algo", "bc", "--source", "hub:x"], "'minari', 'path:DIR' or 'minari:NAME'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_input_is_one_line(told, classic, tmp_path, arguments, message):
    assert message in told(*arguments)
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


def test_prefetch_writes_a_lock(imitbench, classic, tmp_path):
    answer = imitbench("prefetch", "--suite", "classic")
    assert answer.code == 0, answer.err
    assert "wrote imitbench-hub.lock" in answer.err
    lock = read_lock(tmp_path / "imitbench-hub.lock")
    assert {(item.kind, item.repo) for item in lock.items} == {
        (kind, repo) for kind in ("model", "dataset") for repo in (CARTPOLE, PENDULUM)
    }
    shard = suite_directory("classic") / "demos/sac-Pendulum-v1/data/train-00000-of-00001.parquet"
    assert lock.find("dataset", PENDULUM).size == shard.stat().st_size

    moved = classic.add_model(PENDULUM, {**classic.files("model", PENDULUM), "README.md": b"new"})
    again = imitbench("prefetch", "--suite", "classic", "--env", "Pendulum*", "--json", "-q")
    assert again.err == ""
    assert json.loads(again.out)[0]["revision"] == moved
    after = read_lock(tmp_path / "imitbench-hub.lock")
    assert after.find("model", PENDULUM).revision == moved
    assert after.find("model", CARTPOLE) == lock.find("model", CARTPOLE)


def test_a_missing_repository_is_reported_with_the_command_that_fetches_it(refused, classic):
    line = refused("run", "--algo", "bc", "--source", "hub", HF_HUB_OFFLINE="1")
    assert "run `imitbench prefetch --suite classic`" in line
    classic.stop()
    line = refused("run", "--algo", "bc", "--source", "hub")
    assert "the hub cannot be reached" in line
    assert "run `imitbench prefetch --suite classic`" in line


def test_pin_fills_in_commits_once(imitbench, classic, tmp_path):
    shutil.copy(suite_directory("classic") / "suite.yaml", tmp_path)
    pin = ("suites", "pin", "classic", "--card", "suite.yaml", "--json")
    rows = json.loads(imitbench(*pin).out)
    assert all(row["changed"] for row in rows)
    assert {row["revision"] for row in rows} == {
        classic.resolve(kind, repo, "main")
        for kind in ("model", "dataset")
        for repo in (CARTPOLE, PENDULUM)
    }
    moved = classic.add_model(PENDULUM, {**classic.files("model", PENDULUM), "README.md": b"new"})
    assert json.loads(imitbench(*pin).out) == [{**row, "changed": False} for row in rows]
    newest = json.loads(imitbench(*pin, "--newest").out)
    assert [row["revision"] for row in newest if row["changed"]] == [moved]


def test_pin_without_network_does_not_change_the_card(refused, classic, tmp_path):
    shutil.copy(suite_directory("classic") / "suite.yaml", tmp_path)
    classic.stop()
    assert "cannot be reached" in refused("suites", "pin", "--card", "suite.yaml")
    before = (suite_directory("classic") / "suite.yaml").read_bytes()
    assert (tmp_path / "suite.yaml").read_bytes() == before


def test_the_token_is_used_and_never_shown(imitbench, refused, hub):
    hub.private["org/secret"] = "hf_secret"
    hub.add_dataset("org/secret", {"data/train-0.parquet": b"x"})
    assert "set HF_TOKEN" in refused("demos", "pull", "org/secret")
    answer = imitbench("demos", "pull", "org/secret", HF_TOKEN="hf_secret")
    assert answer.code == 0
    assert "hf_secret" not in answer.out + answer.err


def test_ctrl_c_stops_a_download_and_leaves_no_partial_file(hub, imitbench, tmp_path):
    content = b"x" * 3_000_000
    commit = hub.add_dataset("org/large", {"data/train-0.parquet": content, "README.md": b""})
    hub.spoil("GET /store/", "stalled", times=1000)
    pulling = subprocess.Popen(
        [sys.executable, "-m", "imitbench", "demos", "pull", "org/large", "--to", "to"],
        cwd=tmp_path,
        env={**os.environ, **hub.environment(tmp_path / "home")},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert hub.stalled.wait(60)
    pulling.send_signal(signal.SIGINT)
    _, err = pulling.communicate(timeout=60)
    assert pulling.returncode == 130
    assert "Traceback" not in err
    assert not (tmp_path / "to").exists()
    assert not [
        path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 500
    ]
    hub.faults.clear()
    answer = imitbench("demos", "pull", "org/large", "--revision", commit, "--to", "to")
    assert answer.code == 0, answer.err
    assert (tmp_path / "to" / "large" / "data" / "train-0.parquet").read_bytes() == content


def test_a_commit_of_a_million_characters_is_refused_in_one_line(classic, refused):
    kind, name = "dataset", PENDULUM
    long = "a" * 1_000_000
    classic.commits[kind, name, long] = classic.files(kind, name)
    classic.revisions[kind, name, "main"] = long
    line = refused("demos", "pull", name)
    assert "is not 40 hexadecimal digits" in line
    assert len(line) < 500


def test_a_file_of_a_stated_terabyte_is_refused_in_one_line(classic, imitbench):
    classic.stated_size = 10**12
    answer = imitbench("demos", "pull", PENDULUM)
    assert (answer.code, answer.out) == (2, "")
    _, line = answer.err.splitlines()  # the first one names the commit
    assert line.startswith(f"error: datasets/{PENDULUM}: ")
