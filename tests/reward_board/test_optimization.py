"""Fresh policies are trained on frozen rewards, where these were learned and elsewhere."""

import copy
import json
import shutil

import duckdb
import numpy as np
import pytest
import yaml
from gymnasium import spaces
from reward_board.test_evaluation import FEW
from support.runs import make_spec
from support.short_suite import write_short_suite
from support.synthetic_runs import write_finished
from typer.testing import CliRunner

from imitbench.bench.environments import make_environment
from imitbench.bench.frozen_reward import pin_reward, reward_of_run
from imitbench.bench.job import group_runs
from imitbench.bench.learner import Task
from imitbench.bench.learners.off_policy import TrueRewardLearner
from imitbench.cards.catalog import load_algorithm
from imitbench.cards.plugin_classes import PluginSource
from imitbench.cards.plugins import find_suite
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.experts.lookup import find_expert
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.reward_scores import OptimizationProtocol, RewardProtocol
from imitbench.records.runs import Budget, EnvironmentSpec, ReferenceScores
from imitbench.report.reward_board import LEAST_TRUE_SCORE
from imitbench.reward_board import optimization, outcomes
from imitbench.reward_board.evaluation import evaluate_reward
from imitbench.reward_board.optimization import (
    Optimizations,
    plan_optimizations,
    reoptimized_folder,
)
from imitbench.reward_board.outcomes import hacking_gap, learned_score, optimization_scores
from imitbench.rewards.reward_nets import BasicRewardNet
from imitbench.rewards.storage import save_reward
from imitbench.store.run_dir import RunDirectory

ENV, OTHER = "Pendulum-v1", "Pendulum-v1+moon"
ONE = OptimizationProtocol(policies=1)
LENGTH = 8  # of episodes, in steps


def write_suite(folder):
    """Pendulum with short episodes, and a variant on the moon in which rewards are tested."""
    write_short_suite(folder, steps=LENGTH, env_steps=4096, replay_steps=32)
    path = folder / "suite.yaml"
    document = yaml.safe_load(path.read_text())
    base = copy.deepcopy(document["environments"][ENV])
    document["environments"][OTHER] = {
        "title": "Pendulum on the moon",
        "variant_of": ENV,
        "kwargs": {**base["kwargs"], "g": 1.6},
        "transfer": True,
        "expert": {**base["expert"], "repo": "moon"},
        "references": base["references"],
    }
    shutil.copytree(folder / "experts" / base["expert"]["repo"], folder / "experts" / "moon")
    path.write_text(yaml.safe_dump(document))
    return folder


def write_run(out, suite, seed=0):
    """A complete run with a reward, which is the bundled expert's policy otherwise."""
    card = find_suite(str(suite))
    environment = EnvironmentSpec.of_card(ENV, card.environments[ENV])
    spec = make_spec(
        seed, "airl", suite=card.name, environment=environment,
        budget=Budget(name="quick", unit="env_steps", amount=4096),
    )  # fmt: skip
    write_finished(out, spec)
    directory = RunDirectory.of(out, spec)
    save_policy(load_policy(find_expert("sac-Pendulum-v1")), directory.policy)
    env = make_environment(environment)
    save_reward(BasicRewardNet(env.observation_space, env.action_space), directory.reward)
    return directory


@pytest.fixture
def suite(tmp_path):
    return write_suite(tmp_path / "short")


@pytest.fixture
def learned(tmp_path, suite):
    return write_run(tmp_path / "out", suite)


def evaluate(*arguments):
    return CliRunner().invoke(app, ["rewards", "evaluate", *map(str, arguments)])


def test_policies_are_trained_anew_here_and_with_other_dynamics(
    tmp_path, suite, learned, monkeypatch
):
    monkeypatch.setattr("imitbench.records.reward_scores.RewardProtocol", lambda: FEW)
    monkeypatch.setattr(
        "imitbench.records.reward_scores.OptimizationProtocol",
        lambda optimizers: OptimizationProtocol(optimizers=optimizers, policies=1),
    )
    out = tmp_path / "out"
    asked = ("--out", out, "--suite", suite, "--reoptimize", "--true-policies", 1)
    asked = (*asked, "--executor", "inline")
    printed = evaluate(*asked, "--json")
    assert printed.exit_code == 0, printed.output
    [document] = json.loads(printed.stdout)
    scores = {
        (each["measure"], each["behavior"], each["tested_in"]): each["value"]
        for each in document["reward_scores"]["scores"]
        if each["measure"] in ("score", "hacking_gap", "learned_score")
    }
    # The network is random, so it may prefer random actions to the expert.
    undefined = document["reward_scores"]["without"]
    followed = ("learned_score", "reoptimized_ppo", None)
    assert ("learned_score" in undefined) != (scores.pop(followed, None) is not None)
    policies = ("learner", "reoptimized_ppo", "true_reward_ppo")
    assert scores.keys() == {
        *(("score", policy, env) for policy in policies for env in (None, OTHER)),
        ("hacking_gap", "reoptimized_ppo", None),
    }
    # Each number is that of its own run, on the scale of the environment in which it is scored.
    found = [
        RunDirectory(path.parent) for path in reoptimized_folder(out).glob("*/*/*/*/spec.json")
    ]
    for directory in found:
        spec, result = directory.read_spec(), directory.read_result()
        behavior = "true_reward_ppo" if spec.reward is None else "reoptimized_ppo"
        tested_in = OTHER if spec.environment.id == OTHER else None
        score = result.references.score(result.raw_return)
        assert scores["score", behavior, tested_in] == score
        assert spec.uses_reward == (spec.reward is None)
        named = f", reward of airl {learned.read_spec().run_id}" if spec.reward else ""
        assert spec.label.endswith(f"seed {spec.seed}{named}")
        assert spec.label.startswith("ppo_true_reward") == (spec.reward is None)
        has_learned = any("rollout/learned_return_mean" in each for each in directory.read_curve())
        assert has_learned == (spec.reward is not None)
    assert len(found) == 4

    # Where the true reward is not learned from either, nothing follows, and that is said.
    for env in (ENV, OTHER):
        true = scores["score", "true_reward_ppo", None if env == ENV else env]
        assert (f"{env} (PPO: {true:.3f})" in printed.stderr) == (true < LEAST_TRUE_SCORE)

    # They are known now.
    assert "1 known already" in evaluate(*asked).stderr
    # Policies that are trained again are scored again; the seeds are the same, and so the numbers.
    path = learned.path / "reward_scores.json"
    path.write_text(path.read_text().replace('"imitbench": "', '"imitbench": "older than '))
    forced = evaluate(*asked, "--force", "--json")
    assert forced.exit_code == 0, forced.output
    assert json.loads(forced.stdout) == json.loads(printed.stdout)

    # No table of runs has them.
    database = duckdb.connect(str(out / "imitbench.duckdb"), read_only=True)
    assert database.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    rows = database.execute(
        "SELECT value FROM reward_board WHERE behavior = 'reoptimized_ppo' AND tested_in = ?",
        [OTHER],
    ).fetchall()
    assert rows == [(scores["score", "reoptimized_ppo", OTHER],)]


def test_sac_is_for_continuous_actions_and_seeds_are_its_own(suite, learned):
    protocol = OptimizationProtocol(optimizers=("ppo", "sac"), policies=2, true_policies=3)
    plans, found = plan_optimizations([learned], protocol, suite=str(suite))
    [plan] = plans
    runs = list(plan)
    assert {run.algo for run in runs} == {"ppo_true_reward", "sac_true_reward"}
    assert len({run.run_id for run in runs}) == len(runs) == 20
    assert sum(run.uses_reward for run in runs) == 12  # 3 for each optimizer and environment
    assert learned.read_spec().seed not in {run.seed for run in runs}
    assert {run.budget.name for run in runs} == {"quick"}
    assert len(found) == 1


def test_a_pack_has_policies_of_one_reward(tmp_path, suite):
    """Whatever the number of policies on the true reward."""
    runs = [write_run(tmp_path / "out", suite, seed) for seed in (0, 1)]
    protocol = OptimizationProtocol(policies=3, true_policies=4)
    [plan], _ = plan_optimizations(runs, protocol, suite=str(suite))
    packs = [{(run.environment.id, run.reward) for run in pack} for pack in group_runs(plan, 1)]
    assert all(len(pack) == 1 for pack in packs)
    assert len(packs) == 2 * (2 + 2)  # the true reward has a pack of three and one of one


def test_one_wrong_reward_does_not_stop_the_others(tmp_path, suite):
    """Measuring it says what is wrong."""
    unreadable, altered, other, right = (
        write_run(tmp_path / "out", suite, seed) for seed in range(4)
    )
    (unreadable.reward / "reward.json").write_text("{")
    (altered.reward / "reward.safetensors").write_bytes(b"altered")
    small = spaces.Box(-1, 1, (2,))
    save_reward(BasicRewardNet(small, small), other.reward)
    runs = [unreadable, altered, other, right]
    [plan], found = plan_optimizations(runs, ONE, suite=str(suite))
    assert set(found) == {right.read_spec().run_id}
    named = {run.reward.run for run in plan if run.reward is not None}
    assert named == {pin_reward(right).run}


def test_an_environment_that_the_suite_lacks_is_an_error(learned):
    with pytest.raises(InputError, match=r"suite classic has no Pendulum-v1 with the same"):
        plan_optimizations([learned], ONE, suite="classic")


def test_an_optimizer_that_trains_nothing_is_said(learned):
    """As SAC does where actions are discrete."""
    protocol = FEW.model_copy(update={"optimization": OptimizationProtocol(optimizers=("sac",))})
    scores = evaluate_reward(learned, protocol, optimizations=Optimizations((), (), ()))
    assert scores.without["reoptimized_sac"] == f"SAC is not for the actions of {ENV}"
    assert [score.key for score in scores.scores if score.measure == "score"] == [
        ("score", "learner", None)
    ]


def test_references_that_define_no_scores_are_an_error(learned):
    path = learned.path / "result.json"
    document = json.loads(path.read_text())
    document["references"]["expert"] = document["references"]["random"]
    path.write_text(json.dumps(document))
    policy = load_policy(learned.policy)
    with pytest.raises(InputError, match="define no scores; measure its reward without"):
        optimization_scores(learned, Optimizations((), (), ()), policy, {"random": 0.0})


def test_a_reward_that_changed_is_not_optimized(learned, tmp_path, suite):
    reward = pin_reward(learned)
    out = reoptimized_folder(tmp_path / "out")
    env = make_environment(learned.read_spec().environment)
    spec = learned.read_spec().model_copy(update={"reward": reward})
    of_env = env.observation_space, env.action_space
    assert reward_of_run(spec, out, *of_env, "cpu") is not None
    with pytest.raises(InputError, match="made for actions"):
        reward_of_run(spec, out, env.observation_space, env.observation_space, "cpu")
    save_reward(BasicRewardNet(*of_env), learned.reward)
    with pytest.raises(InputError, match="changed since its optimization was planned"):
        reward_of_run(spec, out, *of_env, "cpu")
    shutil.rmtree(learned.reward)
    with pytest.raises(InputError, match="no such reward"):
        reward_of_run(spec, out, *of_env, "cpu")


def test_the_replay_agent_learns_from_the_given_reward_and_resumes():
    card = load_algorithm("sac_true_reward")
    env = make_environment(EnvironmentSpec(id=ENV, kwargs={"max_episode_steps": LENGTH}))
    values = card.resolve({"learning_starts": "8", "batch_size": "4", "hidden_size": "4"})

    def twos(state, action, next_state, done):
        return np.full(len(state), 2.0, np.float32)

    def trained(steps, state=None):
        learner = TrueRewardLearner()
        task = Task(
            EnvironmentSpec(id=ENV, kwargs={"max_episode_steps": LENGTH}),
            env.observation_space, env.action_space,
            hyperparameters=values, seed=3, reward=twos,
        )  # fmt: skip
        learner.setup(task, (), np.random.default_rng(0), "cpu")
        if state is not None:
            learner.load_state_dict(state)
        points = []
        budget = Budget(name="quick", unit="env_steps", amount=steps)
        learner.train(budget, lambda _, metrics: points.append(dict(metrics)))
        return learner, points

    whole, points = trained(24)
    assert {each.get("rollout/learned_return_mean") for each in points} == {None, 2.0 * LENGTH}
    assert all(each.get("rollout/return_mean", -1) < 0 for each in points)
    half, _ = trained(12)
    resumed, _ = trained(24, half.state_dict())
    for one, other in zip(
        whole.policy().state_dict().values(), resumed.policy().state_dict().values(), strict=True
    ):
        assert one.equal(other)


def curve(true, learned):
    return [
        {"rollout/return_mean": one, "rollout/learned_return_mean": other}
        for one, other in zip(true, learned, strict=True)
    ]


@pytest.mark.parametrize(
    ("true", "learned", "gap"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], 0),
        ([0, 4, 3, 1], [0, 1, 2, 3], 3),  # hacked: the true return falls, the learned one rises
        ([0, 4, 3, 1], [0, 3, 2, 1], 0),  # both fall: training failed
        ([3, 2, 1, 0], [0, 1, 2, 3], 3),
        ([2], [1], 0),
        ([], [], 0),
    ],
)
def test_the_hacking_gap_is_what_is_lost_while_the_learned_return_rises(true, learned, gap):
    points = curve(true, learned)
    assert hacking_gap(points, lambda mean: mean / 2) == gap / 2
    assert hacking_gap([{"loss": 1.0}, *points], lambda mean: mean / 2) == gap / 2


def test_the_score_of_a_single_episode_has_no_margin():
    found = outcomes._of_episodes(
        None, ReferenceScores(random=0.0, expert=10.0, version="1"), 5.0, 0.0, None, 1
    )
    assert (found.low, found.value, found.high) == (0.5, 0.5, 0.5)


def test_where_success_is_the_score_returns_do_not_count():
    by_success = ReferenceScores(random=0.0, expert=1.0, version="1", score_one="success")
    found = outcomes._of_episodes(None, by_success, 87.0, 9.0, 0.4, 25)
    assert found.value == 0.4
    assert found.high - found.value == pytest.approx(2.0639 * (0.4 * 0.6 / 24) ** 0.5, abs=1e-4)


def test_what_was_measured_with_policies_includes_what_was_measured_without():
    without = RewardProtocol(samples=8)
    with_policies = without.model_copy(update={"optimization": ONE})
    assert with_policies.covers(without)
    assert not without.covers(with_policies)
    assert not with_policies.covers(RewardProtocol(samples=9))
    usual, more, others = (
        RewardProtocol(optimization=protocol)
        for protocol in (
            OptimizationProtocol(),
            OptimizationProtocol(true_policies=10),
            OptimizationProtocol(policies=4),
        )
    )
    assert "true_policies" not in usual.model_dump_json()  # as in earlier records
    for protocol in (usual, more):
        assert RewardProtocol.model_validate_json(protocol.model_dump_json()) == protocol
    assert more.covers(usual)
    assert not usual.covers(more)
    assert not more.covers(others)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--optimizer", "ppo"], "--optimizer: trains policies with --reoptimize only"),
        (["--true-policies", "4"], "--true-policies: trains policies with --reoptimize only"),
        (["--force"], "--force: trains policies again with --reoptimize only"),
        (["--reoptimize", "--optimizer", "dqn"], "--optimizer dqn: Accepted: ppo, sac"),
    ],
)
def test_optimizers_that_make_no_sense_are_refused(tmp_path, learned, options, words):
    printed = CliRunner().invoke(app, ["rewards", "evaluate", "--out", str(tmp_path), *options])
    assert words in str(printed.exception)


def test_the_source_of_a_reward_is_imported_only_if_the_user_named_it(suite, learned, monkeypatch):
    stated = PluginSource(name="theirs", digest="0" * 64)
    monkeypatch.setattr(optimization, "plugin_of_reward", lambda _: stated)
    [plan], found = plan_optimizations([learned], ONE, suite=str(suite))
    assert (list(plan), found) == ([], {})
    # A folder of runs that were copied does not name it, so that there is nothing to trust.
    [plan], found = plan_optimizations([learned], ONE, suite=str(suite), trust=True)
    assert (list(plan), found) == ([], {})
    monkeypatch.setattr(optimization, "is_registered", lambda digest: digest == stated.digest)
    monkeypatch.setattr(optimization, "location_of_source", lambda *_: "where it is")
    [plan], found = plan_optimizations([learned], ONE, suite=str(suite))
    assert len(found) == 1
    assert plan.sources[stated.digest] == "where it is"


def test_the_learned_score_is_that_of_the_end_of_the_training():
    points = curve([0] * 20, range(20))  # the last tenth has a mean of 18.5
    assert learned_score(points, random=8.5, expert=28.5) == pytest.approx(0.5)
