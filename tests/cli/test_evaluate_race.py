"""`imitbench eval A B --race`: episodes decide about two policies, whatever interrupts them."""

import json
import shutil
import signal

import pytest
from support.command import Started
from typer.testing import CliRunner

import imitbench
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.records.race_design import PolicyDesign, RacedPolicy
from imitbench.records.runs import EnvironmentSpec, ReferenceScores
from imitbench.store.races import read_policy_races

EXPERT = "sac-Pendulum-v1"
LOOKS = ("--batch", "4", "--max-episodes", "12")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Folder of a policy that is worse than the expert."""
    out = tmp_path_factory.mktemp("trained") / "runs"
    imitbench.run(
        "bc", env="Pendulum-v1", seeds=[0], budget="quick", n_demos=1, out=out, progress=False,
        executor="inline",
    )  # fmt: skip
    [folder] = out.glob("classic/bc/*/*")
    return folder


def call(*arguments):
    answer = CliRunner().invoke(
        app, ["eval", *(str(each) for each in arguments)], standalone_mode=False
    )
    if answer.exception is not None:
        raise answer.exception
    return answer


def race(one, other, out, *arguments):
    return json.loads(call(one, other, "--race", "--out", out, "--json", *arguments).stdout)


@pytest.fixture(scope="module")
def whole(trained, tmp_path_factory):
    """A race that was not interrupted, and its folder."""
    out = tmp_path_factory.mktemp("whole") / "runs"
    return race(EXPERT, trained, out, *LOOKS), out


def batches(out):
    return {path.name: path.read_text() for path in out.glob(".policy-races/*/*-*.json")}


def test_a_race_of_policies_ends_with_a_decision_and_its_looks(whole, trained):
    found, out = whole
    assert found["over"]
    assert found["verdict"] in ("better", "undecided")
    last = found["looks"][-1]
    assert last["decision"] == found["verdict"]
    assert last["low"] < last["difference"] < last["high"]
    assert len(batches(out)) == 2 * len(found["looks"])
    [registered] = read_policy_races(out)
    assert registered.id == found["race"]
    assert (registered.design.batch, registered.design.max_episodes) == (4, 12)
    shown = call(EXPERT, trained, "--race", "--out", out, *LOOKS)
    assert EXPERT in shown.stdout
    assert found["verdict"] in shown.stdout.split()
    assert "bc on Pendulum-v1, seed 0" in shown.stdout


def test_the_other_order_has_the_opposite_sign(whole, trained, tmp_path):
    found = race(trained, EXPERT, tmp_path, *LOOKS)
    assert whole[0]["looks"][0]["difference"] > 0 > found["looks"][0]["difference"]


@pytest.mark.parametrize("lost", ["first-0000.json", "second-0000.json", "second-0001.json"])
def test_batches_that_a_kill_took_are_the_same_when_run_again(whole, trained, tmp_path, lost):
    before, out = whole
    out = shutil.copytree(out, tmp_path / "runs")
    told = batches(out)
    for path in out.glob(".policy-races/*/*-*.json"):
        if path.name == lost:
            path.unlink()
    assert race(EXPERT, trained, out, *LOOKS) == before
    assert batches(out) == told


def test_a_race_that_is_over_runs_no_episode(whole, trained, tmp_path, monkeypatch):
    monkeypatch.setattr("imitbench.race.policies.measurement", None)
    before, out = whole
    assert race(EXPERT, trained, out, *LOOKS) == before


def test_a_race_killed_twice_comes_to_the_same_decision(whole, trained, tmp_path):
    command = ("eval", EXPERT, trained, "--race", *LOOKS, "--out", "killed")
    for beginning in ("look 1", "look 2"):
        process = Started(*command, cwd=tmp_path, env={"NO_COLOR": "1"})
        for line in process.stderr:
            if line.startswith(beginning):
                break
        process.signal(signal.SIGKILL)
        process.end()
    found = race(EXPERT, trained, tmp_path / "killed", *LOOKS)
    for part in ("race", "design", "looks", "verdict", "over"):
        assert found[part] == whole[0][part]
    assert batches(tmp_path / "killed") == batches(whole[1])


def test_another_design_stands_beside_the_first_and_has_its_own_episodes(whole, trained, tmp_path):
    out = shutil.copytree(whole[1], tmp_path / "runs")
    found = race(EXPERT, trained, out, "--batch", "4", "--max-episodes", "8")
    assert found["other_designs"] == 1
    assert len(read_policy_races(out)) == 2
    assert found["looks"][0]["difference"] != whole[0]["looks"][0]["difference"]


def test_files_edited_by_hand_are_refused_and_kept(whole, trained, tmp_path):
    for name in ("design.json", "first-0000.json"):
        out = shutil.copytree(whole[1], tmp_path / name)
        [path] = out.glob(f".policy-races/*/{name}")
        text = path.read_text()
        edited = text.replace('"alpha": 0.05', '"alpha": 0.2').replace("-1", "-2", 1)
        assert edited != text
        path.write_text(edited)
        with pytest.raises(InputError, match=rf"{name}: was changed after it was written; restore"):
            race(EXPERT, trained, out, *LOOKS)
        path.write_text(text[:50])
        with pytest.raises(InputError, match=rf"{name}: not "):
            race(EXPERT, trained, out, *LOOKS)
        assert path.read_text() == text[:50]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((EXPERT, "--race"), "--race: needs two policies"),
        ((EXPERT, EXPERT, "--video", "a.mp4"), "--video a.mp4: records one policy; name one"),
        ((EXPERT, "--margin", "0.1"), "--margin 0.1: works only with --race"),
        ((EXPERT, EXPERT, "--race"), "has the same files as the first policy"),
        ((EXPERT, "ppo-seals-CartPole-v0", "--race"), "was made for another environment"),
        ((EXPERT, EXPERT, "--race", "--margin", "0"), "--margin 0: must be above 0"),
        ((EXPERT, EXPERT, "--race", "--alpha", "2"), "--alpha 2: must be between 0 and 1"),
        ((EXPERT, EXPERT, "--race", "--batch", "1"), "--batch 1: must be at least 2"),
        ((EXPERT, EXPERT, "--race", "--batch", "501"), "--batch 501: is above --max-episodes 500"),
        ((EXPERT, EXPERT, "--race", "--max-episodes", "99999"), "--max-episodes 99999: at most"),
        ((EXPERT, EXPERT, "--race", "--episodes", "9"), "--episodes 9: does not work with --race"),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        call(*arguments)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(tmp_path.iterdir())


def design(**changes):
    policies = [RacedPolicy(label=name, digest=digit * 64) for name, digit in ("a1", "b2")]
    values = {
        "policies": policies,
        "environment": EnvironmentSpec(id="Pendulum-v1", horizon="variable"),
        "references": None,
        "deterministic": False,
        "batch": 5,
        "max_episodes": 40,
        "alpha": 0.05,
        "margin": 3.0,
    }
    return PolicyDesign(**(values | changes))


def test_returns_are_compared_as_they_are_without_references():
    returns = [10.0, 10.5, 9.5, 10.2, 9.8] * 8
    found = design().replay((returns, returns))
    assert list(found.outcomes.values()) == ["equivalent"]
    assert found.looks[-1].runs == (10, 10)
    lower = [each - 5 for each in returns]
    assert list(design().replay((lower, returns)).outcomes.values()) == ["worse"]
    scale = ReferenceScores(random=0.0, expert=100.0, version="1")
    scored = design(references=scale, margin=0.001).replay((lower, returns))
    assert scored.looks[0].difference == pytest.approx(-0.05)
