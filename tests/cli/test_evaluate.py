"""`imitbench eval` measures any policy, and finds its environment in the policy's files."""

import json
import shutil
import sys
from pathlib import Path

import pytest
import yaml
from support.short_suite import write_short_suite
from typer.testing import CliRunner

import imitbench
from imitbench.cli.main import app
from imitbench.errors import InputError


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("eval")
    suite = str(write_short_suite(place / "short", "seals/CartPole-v0"))
    out = place / "runs"
    imitbench.run(
        "bc",
        suite=suite,
        seeds=[4],
        budget="quick",
        out=out,
        progress=False,
        executor="inline",
    )
    return out


def call(*arguments):
    answer = CliRunner().invoke(
        app, ["eval", *(str(each) for each in arguments)], standalone_mode=False
    )
    if answer.exception is not None:
        raise answer.exception
    return answer


def measure(*arguments):
    return json.loads(call(*arguments, "--json").stdout)


def test_a_run_gives_its_own_result_again(runs):
    [row] = imitbench.results(runs).to_dict("records")
    found = measure(row["run_id"][:6], "--out", runs)
    assert found["mean_return"] == row["raw_return"]
    assert found["score"] == row["score"]
    assert (found["env"], found["episodes"]) == ("seals/CartPole-v0", 50)
    assert len(found["returns"]) == len(found["lengths"]) == 50


def test_a_named_suite_scores_a_run_with_its_own_references(runs, tmp_path):
    card = write_short_suite(tmp_path / "other", "seals/CartPole-v0") / "suite.yaml"
    document = yaml.safe_load(card.read_text())
    document["environments"]["seals/CartPole-v0"]["references"]["expert"]["mean"] = 250.0
    card.write_text(yaml.safe_dump(document))
    [row] = imitbench.results(runs).to_dict("records")
    asked = row["run_id"], "--out", runs, "--env", "seals/CartPole-v0", "--suite", card.parent
    found = measure(*asked)
    assert found["returns"] == measure(row["run_id"], "--out", runs)["returns"]
    assert found["references"]["expert"] == 250.0


def test_a_folder_of_a_policy_needs_an_environment(runs):
    [folder] = runs.glob("*/*/*/*/policy")
    with pytest.raises(InputError, match="name it by --env"):
        call(folder)
    found = measure(folder, "--env", "seals/CartPole-v0", "--episodes", 2, "--seed", 1)
    assert found["references"]["expert"] == 500.0
    assert found["score"] is not None


def test_a_bundled_expert_knows_its_environment(monkeypatch):
    # Importing torch's compiler would take longer than all the rest.
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)
    found = measure("ppo-seals-CartPole-v0", "--episodes", 2, "--deterministic")
    assert (found["env"], found["mean_return"], found["deterministic"]) == (
        "seals/CartPole-v0",
        500.0,
        True,
    )
    shown = call("ppo-seals-CartPole-v0", "--episodes", 2).stdout
    assert "score 1.000 (0: random actions, 32.04; 1: the expert, 500.00)" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing-here"], "neither a file nor a folder, a run of"),
        (["ppo-seals-CartPole-v0", "--env", "Pendulum-v1"], "CartPole"),
        (["ppo-seals-CartPole-v0", "--video", "film.avi"], "must end in .mp4"),
        (["ppo-seals-CartPole-v0", "--revision", "main"], "--revision"),
        (["ppo-seals-CartPole-v0", "--video-episodes", "1"], "--video-episodes 1: needs --video"),
        (
            ["sac-Pendulum-v1", "--suite", "seals"],
            "--suite seals: has no Pendulum-v1, the environment of sac-Pendulum-v1; leave --suite",
        ),
        (["absent/policy.zip"], "^absent/policy.zip: no such file or folder: check the path$"),
        (
            ["sub/policy"],
            "^sub/policy: no such file or folder; `imitbench experts pull ",
        ),
    ],
)
def test_what_cannot_be_measured_is_refused(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sub").mkdir()
    with pytest.raises(InputError, match=message):
        call(*arguments, "--episodes", "1")


def test_a_run_without_a_policy_is_refused(runs, tmp_path):
    import shutil

    [run] = runs.glob("*/*/*/*/")
    shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "policy")
    with pytest.raises(InputError, match="has no policy yet"):
        call(tmp_path / "run")


@pytest.mark.slow
def test_a_policy_is_recorded(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    video = tmp_path / "films" / "pendulum.mp4"
    found = measure(
        "sac-Pendulum-v1", "--episodes", 1, "--video", video, "--video-episodes", 2
    )  # fmt: skip
    assert found["video"]["file"] == str(video)
    assert [episode["length"] for episode in found["video"]["episodes"]] == [200, 200]
    assert video.stat().st_size > 1000
    assert list(video.parent.iterdir()) == [video]
    with pytest.raises(InputError, match="already exists"):
        call("sac-Pendulum-v1", "--video", video)


def test_an_environment_that_does_not_render_is_one_line(tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    with pytest.raises(InputError, match="cannot be rendered here") as raised:
        call(
            "ppo-seals-CartPole-v0", "--env", "seals/CliffWorld7x4-v0",
            "--video", tmp_path / "x.mp4",
        )  # fmt: skip
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"module": "evil_module"}, "evil_module"),
        ({"id": "evil_module:Pendulum-v1"}, "evil_module"),
        ({"id": "evil_module:Pendulum-v1", "module": "seals"}, "evil_module"),
        ({"module": "evil_module", "evaluation_id": "Pendulum-v1"}, "evil_module"),
        (
            {"id": "evil_module:Pendulum-v1", "module": "x", "module_digest": "0" * 64},
            "evil_module",
        ),
    ],
)
def test_a_module_that_only_a_folder_names_is_not_imported(
    runs, tmp_path, monkeypatch, change, named
):
    """The environment may be untrusted code; it is created only if the user names it."""
    [run] = runs.glob("*/*/*/*/")
    folder = Path(shutil.copytree(run, tmp_path / "run"))
    (tmp_path / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    document = json.loads((folder / "spec.json").read_text())
    document["environment"] = {**document["environment"], **change}
    (folder / "spec.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"needs .*{named}.*; name it by --env") as told:
        call(folder)
    assert "\n" not in str(told.value)
    found = measure(folder, "--env", "seals/CartPole-v0", "--episodes", 2)
    assert found["env"] == "seals/CartPole-v0"
