"""Learned rewards of runs that are there are compared with the true ones."""

import json

import duckdb
import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.command import call_imitbench
from support.runs import make_spec
from support.synthetic_runs import write_finished
from typer.testing import CliRunner

from imitbench.bench.environments import make_environment
from imitbench.cards.wrappers import DelayedActions, ObservationNoise, RandomStart
from imitbench.cli.main import app
from imitbench.data.rollout import flatten_trajectories_with_rew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_expert
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.reward_scores import (
    OptimizationProtocol,
    RewardProtocol,
    RewardScore,
    RewardScores,
)
from imitbench.records.runs import Budget, EnvironmentSpec
from imitbench.reward_board import evaluation, worker
from imitbench.reward_board.evaluation import evaluate_reward
from imitbench.rewards.networks import BasicRewardNet, ConstantRewardNet
from imitbench.rewards.storage import save_reward
from imitbench.store.run_dir import RunDirectory

FEW = RewardProtocol(episodes=2, random_rates=(0.5,), samples=32)


def write_run(out, seed=0, space=None, constant=None, **conditions):
    """A complete run on Pendulum, with the bundled expert as its policy and a random reward."""
    spec = make_spec(seed=seed, algo="airl", **conditions)
    write_finished(out, spec)
    directory = RunDirectory.of(out, spec)
    save_policy(load_policy(find_expert("sac-Pendulum-v1")), directory.policy)
    env = make_environment(spec.environment)
    th.manual_seed(seed)
    net = BasicRewardNet(env.observation_space if space is None else space, env.action_space)
    if constant is not None:
        net = ConstantRewardNet(env.observation_space, env.action_space, constant)
    save_reward(net, directory.reward)
    return directory


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        write_run(folder, seed)
    return folder


@pytest.fixture
def few(monkeypatch):
    """Makes the command measure less."""
    monkeypatch.setattr("imitbench.records.reward_scores.RewardProtocol", lambda: FEW)


def run(*arguments):
    return CliRunner().invoke(app, ["rewards", "evaluate", *map(str, arguments)])


def test_every_behavior_and_measure_is_there_and_repeatable(out):
    first = next(RunDirectory(path.parent) for path in sorted(out.glob("*/*/*/*/result.json")))
    scores = evaluate_reward(first, FEW)
    assert scores == evaluate_reward(first, FEW)
    assert scores.without == {}
    found = {(each.measure, each.behavior) for each in scores.scores}
    behaviors = {"expert", "learner", "mixture", "random", "all"}
    assert {behavior for _, behavior in found} == behaviors
    assert {(measure, "all") for measure in ("spearman_step", "pearson_return", "pair_accuracy",
                                             "epic", "dard")} <= found  # fmt: skip
    for each in scores.scores:
        assert each.low <= each.high
        assert each.low >= -1
        assert each.high <= 1


def test_distances_see_every_mixture(out, monkeypatch):
    """Mixtures have three times as many episodes as other behaviors, in order of their shares."""
    seen = []
    sample = evaluation.sample_behaviors

    def sampled(*arguments):
        seen.append(sample(*arguments))
        return seen[-1]

    def flat(episodes):
        seen.append({id(episode) for episode in episodes})
        return flatten_trajectories_with_rew(episodes)

    first = next(RunDirectory(path.parent) for path in sorted(out.glob("*/*/*/*/result.json")))
    monkeypatch.setattr(evaluation, "sample_behaviors", sampled)
    monkeypatch.setattr(evaluation.rollout, "flatten_trajectories_with_rew", flat)
    evaluate_reward(first, FEW.model_copy(update={"episodes": 3, "random_rates": (0.2, 0.5, 0.8)}))
    behaviors, compared = seen[0], seen[-1]
    kept = {name: [id(own) in compared for own in given] for name, given in behaviors.items()}
    assert np.reshape(kept.pop("mixture"), (3, 3)).sum(axis=1).tolist() == [1, 1, 1]
    assert kept == {name: [True] * 3 for name in ("expert", "learner", "random")}


def test_what_a_task_lacks_is_said(out, monkeypatch):
    first = next(RunDirectory(path.parent) for path in sorted(out.glob("*/*/*/*/result.json")))
    monkeypatch.setattr(evaluation, "equations_of", lambda _: None)
    monkeypatch.setattr(evaluation, "find_same_environment", lambda *_: None)
    scores = evaluate_reward(first, FEW)
    assert set(scores.without) == {"epic", "dard", "expert"}
    assert "not known in closed form" in scores.without["epic"]
    assert "--suite" in scores.without["expert"]
    assert {each.behavior for each in scores.scores} == {"learner", "mixture", "random", "all"}
    assert not {"epic", "dard"} & {each.measure for each in scores.scores}
    monkeypatch.undo()  # a suite may have demonstrations only
    monkeypatch.setattr(evaluation, "load_suite_expert", lambda *_: None)
    why = evaluate_reward(first, FEW).without["expert"]
    assert why == "suite classic has no expert of Pendulum-v1"


@pytest.mark.parametrize(
    ("wrapper", "known"),
    [(DelayedActions(name="delayed_actions", steps=3), False),
     (ObservationNoise(name="observation_noise", std=0.1), False),
     (RandomStart(name="random_start", steps=5), True)],
)  # fmt: skip
def test_a_task_with_wrappers_is_not_the_one_of_the_equations(tmp_path, wrapper, known):
    """With late actions, the reward of a step is not that of its action."""
    disturbed = EnvironmentSpec(
        id="Pendulum-v1+disturbed", variant_of="Pendulum-v1", wrappers=[wrapper]
    )
    scores = evaluate_reward(write_run(tmp_path, environment=disturbed), FEW)
    assert ({"epic", "dard"} <= {each.measure for each in scores.scores}) == known
    assert ("not known in closed form" in scores.without.get("epic", "")) == (not known)


def test_a_constant_reward_has_no_correlations_and_that_is_said(tmp_path, few):
    write_run(tmp_path, constant=-1.0)
    printed = run("--out", tmp_path)
    assert printed.exit_code == 0
    assert printed.stdout.splitlines()[2].split()[3:] == ["n/a", "n/a", "0.50", "n/a", "n/a"]
    assert "n/a: the learned reward is the same in every step" in printed.stderr
    [document] = json.loads(run("--out", tmp_path, "--json").stdout)
    scores = document["reward_scores"]
    correlations = {"pearson_step", "spearman_step", "pearson_return", "spearman_return"}
    assert set(scores["without"]) == {*correlations, "epic", "dard"}
    assert {(each["measure"], each["value"]) for each in scores["scores"]} == {
        ("pair_accuracy", 0.5)
    }


def test_a_reward_that_is_not_finite_is_reported(tmp_path):
    with pytest.raises(InputError, match="its reward is not finite in the compared episodes"):
        evaluate_reward(write_run(tmp_path, constant=float("inf")), FEW)


def test_the_command_stores_what_it_measures_once(out, few):
    printed = run("--out", out)
    assert printed.exit_code == 0
    assert "2 rewards measured, 0 known already" in printed.stderr
    assert printed.stdout.splitlines()[2].split()[:3] == ["Pendulum-v1", "airl", "2"]
    again = run("--out", out, "--json")
    assert "0 rewards measured, 2 known" not in again.stdout
    documents = json.loads(again.stdout)
    assert [each["seed"] for each in documents] == [0, 1]
    rows = duckdb.connect(str(out / "imitbench.duckdb"), read_only=True).execute(
        "SELECT seed, value FROM reward_board WHERE measure = 'epic' ORDER BY seed"
    )
    stored = [
        next(s["value"] for s in each["reward_scores"]["scores"] if s["measure"] == "epic")
        for each in documents
    ]
    assert rows.fetchall() == list(enumerate(stored))
    assert "0 rewards measured, 2 known already" in run("--out", out).stderr
    assert "2 rewards measured, 0 known already" in run("--out", out, "--again").stderr


def policy_scores(optimizer):
    names = (("score", f"reoptimized_{optimizer}"), ("learned_score", f"reoptimized_{optimizer}"),
             ("score", f"true_reward_{optimizer}"))  # fmt: skip
    return [
        RewardScore(measure=measure, behavior=behavior, value=0.5, low=0.4, high=0.6)
        for measure, behavior in names
    ]


def test_what_was_measured_of_policies_is_kept(tmp_path, few):
    """`--again` without `--reoptimize` measures the rest again, also after a malformed record."""
    directory = write_run(tmp_path)
    assert run("--out", tmp_path).exit_code == 0
    plain = directory.read_reward_scores()
    came = RewardScore(measure="score", behavior="learner", value=0.9, low=0.8, high=1.0)
    trained = OptimizationProtocol(policies=1)
    more = plain.model_copy(
        update={
            "protocol": FEW.model_copy(update={"optimization": trained}),
            "scores": (*plain.scores, came, *policy_scores("ppo")),
            "without": {"reoptimized_ppo in moon": "0 of 1", "epic": "outdated"},
        }
    )
    directory.write_reward_scores(more)
    assert run("--out", tmp_path, "--again").exit_code == 0
    again = directory.read_reward_scores()
    assert again == more.model_copy(update={"without": {"reoptimized_ppo in moon": "0 of 1"}})
    (directory.path / "reward_scores.json").write_text("{")
    assert "reward_scores.json" in str(run("--out", tmp_path).exception)
    assert run("--out", tmp_path, "--again").exit_code == 0
    assert directory.read_reward_scores() == plain


def test_policies_of_two_optimizers_add_up():
    def scores(protocol, *names):
        found = tuple(score for name in names for score in policy_scores(name))
        return RewardScores(run_id="a", protocol=protocol, scores=found, imitbench="1")

    def by(*optimizers, **changes):
        trained = OptimizationProtocol(optimizers=optimizers, **changes)
        return FEW.model_copy(update={"optimization": trained})

    ppo, sac = scores(by("ppo"), "ppo"), scores(by("sac"), "sac")
    assert sac.with_policies_of(ppo) == scores(by("sac", "ppo"), "sac", "ppo")
    assert ppo.with_policies_of(sac.with_policies_of(ppo)).scores == (*ppo.scores, *sac.scores)
    assert ppo.with_policies_of(ppo) == ppo
    assert ppo.with_policies_of(scores(FEW)) == ppo
    # Of another protocol, or another number of policies, nothing is added.
    for other in (by("ppo", policies=2), by("ppo").model_copy(update={"episodes": 9})):
        assert sac.with_policies_of(scores(other, "ppo")) == sac
    assert by("sac", "ppo").covers(by("ppo"))
    assert not by("ppo").covers(by("ppo", "sac"))


def test_runs_with_other_budgets_are_not_averaged(tmp_path, few):
    longer = Budget(name="default", unit="env_steps", amount=100_000)
    write_run(tmp_path, 0)
    write_run(tmp_path, 1, budget=longer)
    lines = run("--out", tmp_path).stdout.splitlines()
    headings = [line for line in lines if line.startswith("classic: budget ")]
    assert headings == ["classic: budget default", "classic: budget quick"]
    rows = [line.split()[:3] for line in lines if line.startswith("Pendulum-v1")]
    assert rows == [["Pendulum-v1", "airl", "1"]] * 2


def test_jobs_change_no_number(tmp_path, few):
    """Workers are processes of their own: one run can be measured, and one cannot."""
    write_run(tmp_path, 0)
    write_run(tmp_path, 1, spaces.Box(-1, 1, (5,)))
    printed = run("--out", tmp_path, "--jobs", 2, "--json")
    assert printed.exit_code == 1
    measured = {each["seed"]: each["reward_scores"] for each in json.loads(printed.stdout)}
    assert measured.pop(0)["scores"]
    assert measured == {1: None}
    assert "its reward: made for observations" in printed.stderr
    alone = run("--out", tmp_path, "--again", "--json")
    assert json.loads(alone.stdout) == json.loads(printed.stdout)


def test_a_worker_that_dies_is_the_problem_of_its_run(tmp_path):
    job = tmp_path / "0.json"
    died = "worker exited with code 1\nTraceback\nOSError: no space"
    assert not worker.MeasurementWorker().after_death(job, died)
    problem = "worker exited with code 1: OSError: no space"
    assert worker._read(job, "") == worker.Measured(problem=problem)
    assert worker._read(tmp_path / "1.json", "").problem == "the worker was stopped"


def test_a_run_that_cannot_be_measured_does_not_stop_the_others(tmp_path, few):
    wrong = write_run(tmp_path, 0, spaces.Box(-1, 1, (5,)))
    write_run(tmp_path, 1)
    printed = run("--out", tmp_path)
    assert printed.exit_code == 1
    assert "1 reward measured" in printed.stderr
    [line] = [each for each in printed.stderr.splitlines() if "not measured" in each]
    assert "its reward: made for observations Box(-1.0, 1.0, (5,), float32)" in line
    assert "but the environment has Box(" in line
    assert wrong.read_reward_scores() is None


def test_runs_without_a_reward_are_refused(tmp_path):
    spec = make_spec()
    write_finished(tmp_path, spec)
    assert "none of its complete runs has a stored reward" in str(run("--out", tmp_path).exception)
    with pytest.raises(InputError, match="has no stored reward"):
        evaluate_reward(RunDirectory.of(tmp_path, spec), FEW)
    (RunDirectory.of(tmp_path, spec).path / "result.json").unlink()
    with pytest.raises(InputError, match="is not complete"):
        evaluate_reward(RunDirectory.of(tmp_path, spec), FEW)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "nowhere"], "nowhere: no such folder"),
        (["--suite", "./a", "--suite", "./b"], "name one folder at a time"),
    ],
)
def test_bad_input_is_one_line(arguments, message, tmp_path):
    answer = call_imitbench("rewards", "evaluate", *arguments, cwd=tmp_path)
    assert answer.code == 2
    assert message in answer.err
    assert len(answer.err.strip().splitlines()) == 1
