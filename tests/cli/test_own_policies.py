"""Methods whose policies are classes of their own: run, evaluated, recorded and compared."""

import itertools
import json
import shutil

import pytest
from support.command import call_imitbench, refusal
from support.own_policies import ENSEMBLE, write_ensemble, write_own_policy
from support.short_suite import write_short_suite

import imitbench

ENV = "seals/MountainCar-v0"  # it can be drawn
UNSTORABLE = ENSEMBLE.replace("self.members, self.units = members, units", "self.members = members")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with an ensemble, a policy that plans chunks, and runs of both and of bc.

    Those of a third method have failed: its policy cannot be stored.
    """
    home = tmp_path_factory.mktemp("own")
    write_short_suite(home / "short", ENV, steps=20)
    write_ensemble(home / "ensemble", "ensemble")
    write_own_policy(home / "mine", UNSTORABLE)
    assert call_imitbench("init-algo", "chunks", "--kind", "chunking", cwd=home).code == 0
    answer = call_imitbench(
        "run", "--algo", "./ensemble", "--algo", "./chunks", "--algo", "./mine",
        "--algo", "bc", "--suite", "./short", "--seeds", "2", "--budget", "quick",
        "--executor", "inline", cwd=home,
    )  # fmt: skip
    assert "6 done, 0 already there, 2 failed" in answer.err
    return home


@pytest.fixture(params=["ensemble", "chunks"])
def run(place, request):
    """The method, and the first of its runs."""
    rows = imitbench.results(place / "runs", algo=request.param).to_dict("records")
    assert len(rows) == 2
    return request.param, rows[0]


def evaluate(place, run_id, *more, episodes=50):
    return call_imitbench("eval", run_id, "--episodes", episodes, *more, cwd=place)


def test_a_run_gives_its_own_result_again(place, run):
    algo, row = run
    answer = evaluate(place, row["run_id"], "--algo", f"./{algo}", "--json")
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["mean_return"] == row["raw_return"]
    assert evaluate(place, row["run_id"], "--trust", episodes=1).code == 0


def test_its_policy_is_recorded(place, run, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    algo, row = run
    video = tmp_path / f"{algo}.mp4"
    answer = evaluate(
        place, row["run_id"], "--algo", f"./{algo}", "--video", video, "--json", episodes=1
    )
    assert answer.code == 0, answer.err
    assert answer.err == ""
    [recorded] = json.loads(answer.out)["video"]["episodes"]
    assert recorded["length"] > 1
    assert video.stat().st_size > 1000


def test_it_is_compared(place, run):
    algo, _ = run
    answer = call_imitbench(
        "compare", algo, "--baseline", "bc", "--replicates", 100, "--json", cwd=place
    )
    assert answer.code == 0, answer.err
    [contest] = json.loads(answer.out)["contests"]
    assert contest["algorithm"] == algo
    assert [verdict["baseline"] for verdict in contest["verdicts"]] == ["bc"]


def test_its_class_is_imported_only_if_the_user_names_the_method(place, run):
    algo, row = run
    said = refusal(evaluate(place, row["run_id"]))
    assert f"--algo ./{algo}, or --trust" in said


def test_it_acts_in_another_environment(place, run):
    algo, row = run
    answer = evaluate(
        place, row["run_id"], "--algo", f"./{algo}", "--env", "MountainCar-v0", "--json",
        episodes=2,
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert json.loads(answer.out)["env"] == "MountainCar-v0"


def test_trust_serves_the_plugin_of_each_of_two_policies(place):
    ids = [
        imitbench.results(place / "runs", algo=algo).run_id[0]
        for algo in ("bc", "ensemble", "chunks")
    ]
    for pair in itertools.pairwise(ids):
        answer = evaluate(place, *pair, "--trust", "--json", episodes=1)
        assert answer.code == 0, answer.err


@pytest.mark.parametrize(
    ("algo", "message"),
    [
        ("bc", "--algo bc: is method bc; the policy in "),
        ("./chunks", "--algo ./chunks: is method chunks; the policy in "),
        ("./nothing", "no such file"),
    ],
)
def test_another_method_does_not_serve(place, algo, message):
    [row, _] = imitbench.results(place / "runs", algo="ensemble").to_dict("records")
    assert message in refusal(evaluate(place, row["run_id"], "--algo", algo))


def test_changed_source_is_refused_unless_trusted(place, tmp_path):
    [row, _] = imitbench.results(place / "runs", algo="ensemble").to_dict("records")
    changed = shutil.copytree(place / "ensemble", tmp_path / "ensemble")
    (changed / "policy.py").write_text(ENSEMBLE + "\n# changed\n")
    said = refusal(evaluate(place, row["run_id"], "--algo", changed))
    assert "its source has changed since" in said
    assert evaluate(place, row["run_id"], "--algo", changed, "--trust", episodes=1).code == 0


def test_a_policy_that_cannot_be_stored_is_refused_before_training(place):
    failures = imitbench.results(place / "runs", "failures").to_dict("records")
    assert [failure["algo"] for failure in failures] == ["mine", "mine"]
    for failure in failures:
        assert failure["phase"] == "setup"
        assert failure["error_type"] == "InputError"
        assert "set `self.units = units` there" in failure["message"]
