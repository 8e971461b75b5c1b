"""From a number to the policy and the reward behind it."""

import numpy as np
import pytest
from support.submissions import write_submitted_runs
from typer.testing import CliRunner

import imitbench
from imitbench import InputError
from imitbench.bench.environments import make_environment
from imitbench.cli.main import app
from imitbench.experts.loading import environment_of
from imitbench.experts.lookup import find_named_policy
from imitbench.published.results_folder import export_results, read_runs
from imitbench.rewards.base import RewardNet
from imitbench.store.run_dir import RunDirectory

QUICK = ("--env", "Pendulum-v1", "--budget", "quick", "--seeds", "1", "--executor", "inline")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("loading") / "runs"
    words = ["run", "--algo", "bc,random", *QUICK, "--quiet", "--out", str(folder)]
    words += ["--set", "bc.hidden_size=8"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    return folder


def actions(policy, out, row):
    spec = RunDirectory(next(out.glob(f"*/*/*/{row.run_id}"))).read_spec()
    environment = make_environment(spec.environment.evaluated)
    first, _ = environment.reset(seed=0)
    action, _ = policy.predict(first, deterministic=True)
    assert environment.action_space.contains(np.asarray(action))
    return action


def test_the_policy_of_a_row_an_id_and_a_folder_is_the_same(out):
    scores = imitbench.results(out, algo="bc")
    [row] = scores.itertuples()
    assert row.path == str(next(out.glob(f"*/*/*/{row.run_id}")))
    ways = [row, scores.iloc[0], dict(scores.iloc[0]), row.path, row.run_id, row.run_id[:8]]
    found = [actions(imitbench.load_policy(way, out=out), out, row) for way in ways]
    assert all(np.array_equal(each, found[0]) for each in found)


def test_a_bundled_expert_is_a_policy_too():
    policy = imitbench.load_policy("sac-Pendulum-v1")
    action, _ = policy.predict(np.zeros(3, np.float32), deterministic=True)
    assert action.shape == (1,)


def test_a_suite_has_the_environments_that_it_only_evaluates_on(tmp_path):
    name = "exact-seals-InitShiftTrain-v0"
    expert = find_named_policy(name, out=tmp_path, revision=None, notify=print)
    spec = environment_of(expert, None, "diagnostics")
    assert spec.id == "seals/InitShiftTest-v0"
    with pytest.raises(InputError, match=f"--suite seals: has no {spec.id}, the environment of"):
        environment_of(expert, None, "seals")


def test_the_path_is_usable_from_sql(out):
    printed = CliRunner().invoke(
        app, ["sql", "--out", str(out), "--format", "csv", "select path from scores"]
    )
    paths = printed.stdout.splitlines()[1:]
    assert len(paths) == 2
    for path in paths:
        assert imitbench.load_policy(path)


@pytest.mark.slow
def test_the_reward_of_a_run_is_a_network(tmp_path):
    done = imitbench.run(
        "gail", env="Pendulum-v1", seeds=1, budget="quick", out=tmp_path / "runs", progress=False
    )
    [row] = done.scores
    net = imitbench.load_reward(row, out=tmp_path / "runs")
    assert isinstance(net, RewardNet)
    shape = (4, 3)
    rewards = net.predict(np.zeros(shape), np.zeros((4, 1)), np.zeros(shape), np.zeros(4, bool))
    assert rewards.shape == (4,)
    assert np.isfinite(rewards).all()


def test_what_is_not_there_is_said(out, tmp_path):
    [row] = imitbench.results(out, algo="bc").itertuples()
    with pytest.raises(InputError, match="has no stored reward"):
        imitbench.load_reward(row, out=out)
    with pytest.raises(InputError, match=r"no run of .* starts with it"):
        imitbench.load_policy("0123456789ab", out=out)
    with pytest.raises(InputError, match="must be the id of a run"):
        imitbench.load_policy(3, out=out)
    write_submitted_runs(tmp_path / "runs", algorithms=("bc",), failing=())
    folder = tmp_path / "theirs"
    export_results(read_runs(tmp_path / "runs").runs, folder, version="0", command="")
    for row in imitbench.results(folder).itertuples():
        with pytest.raises(InputError, match="its policy was not published"):
            imitbench.load_policy(row)
