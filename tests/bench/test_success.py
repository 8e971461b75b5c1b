"""Success of episodes: judged by the card's rule, stored, scored and reported."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import yaml
from gymnasium import spaces
from support.command import call_imitbench, refusal
from support.short_suite import write_short_suite

from imitbench.bench.protocol import Evaluator
from imitbench.bench.spec import reference_scores
from imitbench.cards.plugins import find_suite
from imitbench.cards.success import SuccessRule
from imitbench.dashboard.curves import CurveReader
from imitbench.dashboard.run_table import RunTable
from imitbench.errors import InputError
from imitbench.experts.lookup import find_references
from imitbench.policies.base import RandomPolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.stats.proportions import exact_p_value


class Passing(gym.Env):
    """Says in steps 2 and 3 of 4 that it is done, and in every second episode in the last one."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
    action_space = spaces.Discrete(2)
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t, self.stays = 0, self.episodes % 2 == 0
        self.episodes += 1
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        done = self.t in (2, 3) or (self.t == 4 and self.stays)
        return np.zeros(1, np.float32), 0.0, self.t == 4, False, {"done": done, "what": "walking"}


gym.register("test/Passing-v0", Passing)


def evaluate(**rule):
    spec = EnvironmentSpec(id="test/Passing-v0", success=SuccessRule(**rule))
    with Evaluator(spec, 1) as evaluator:
        policy = RandomPolicy(evaluator.observation_space, evaluator.action_space)
        return evaluator.evaluate(policy, episodes=4, seed=0, deterministic=False)


def test_an_episode_succeeds_at_any_step_or_at_its_last():
    assert evaluate(key="done", when="ever").success.tolist() == [True] * 4
    assert evaluate(key="done", when="end").success.tolist() == [True, False, True, False]
    assert evaluate(key="done", when="end").success_rate == 0.5


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("success", "test/Passing-v0: its infos have no 'success', which the suite's card says"),
        ("what", "test/Passing-v0: info\\['what'\\] is 'walking', not a truth value; correct"),
    ],
)
def test_infos_that_do_not_tell_are_refused(key, line):
    with pytest.raises(InputError, match=line):
        evaluate(key=key, when="ever")


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ({}, None),
        ({"done": None}, None),
        ({"done": False}, False),
        ({"done": np.True_}, True),
        ({"done": 0.0}, False),
        ({"done": np.array([1])}, True),
    ],
)
def test_infos_are_read(said, means):
    assert SuccessRule(key="done", when="ever").read(said) is means


def test_what_is_no_number_is_no_success():
    with pytest.raises(ValueError, match="is nan, not a truth value"):
        SuccessRule(key="done", when="ever").read({"done": float("nan")})


MODULE = """
import gymnasium as gym
import numpy as np
from gymnasium.envs.classic_control import PendulumEnv


class Low(PendulumEnv):
    def step(self, action):
        obs, reward, ended, cut, info = super().step(action)
        return obs, reward, ended, cut, {**info, "low": bool(obs[0] < LIMIT)}


gym.register("lab/Low-v0", Low, max_episode_steps=200)
"""
CHANGES = {"module": "lab_low", "success": {"key": "low", "when": "ever"}}


def write_suite(folder, limit=0.0, **changes):
    """The suite of Pendulum, where an episode succeeds if it was below a height."""
    write_short_suite(folder)
    (folder / "lab_low.py").write_text(MODULE.replace("LIMIT", str(limit)))
    path = folder / "suite.yaml"
    document = yaml.safe_load(path.read_text())
    card = document["environments"].pop("Pendulum-v1") | CHANGES | changes
    document["environments"] = {"lab/Low-v0": card}
    path.write_text(yaml.safe_dump(document))
    return folder


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A folder with completed runs of a suite whose headline is success."""
    folder = tmp_path_factory.mktemp("success")
    write_suite(folder / "low")
    words = ("--suite", "./low", "--budget", "quick", "--seeds", "2", "--quiet", "--jobs", 2)
    assert call_imitbench("run", "--algo", "bc,random", *words, cwd=folder).code == 0
    return folder


def documents(folder):
    return [json.loads(path.read_text()) for path in folder.rglob("result.json")]


def test_the_share_of_successful_episodes_is_the_score(ran):
    runs = documents(ran / "runs")
    assert len(runs) == 4
    for run in runs:
        assert run["references"]["score_one"] == "success"
        assert 0 <= run["success_rate"] <= 1
    [path, *_] = (ran / "runs").rglob("episodes.parquet")
    episodes = pd.read_parquet(path)
    result = json.loads((path.parent / "result.json").read_text())
    shares = episodes.groupby("deterministic").success.mean()
    assert shares[False] == pytest.approx(result["success_rate"])
    assert shares[True] == pytest.approx(result["deterministic_success_rate"])
    listed = call_imitbench("sql", "select success_rate, score, score_likely from scores",
                            "--json", cwd=ran)  # fmt: skip
    for row in json.loads(listed.out):
        assert row["score"] == row["success_rate"]
        assert row["score_likely"] is not None
    spread = {run["success_rate"] for run in runs}
    assert len(spread) > 1  # there is something to compare


def test_the_dashboard_lists_it(ran):
    rows = RunTable(ran / "runs", [], CurveReader()).changes("", 0).rows
    shares = {run["run_id"]: run["success_rate"] for run in documents(ran / "runs")}
    assert {row.run_id: row.score for row in rows} == shares


def test_a_single_training_shows_it(ran):
    options = ("--env", "lab/Low-v0", "--suite", "./low", "--batches", 5, "--eval-episodes", 4)
    done = call_imitbench(
        "train", "imitation", "bc", *options, "--log-dir", "trained", "--json", cwd=ran
    )
    assert done.code == 0, done.err
    trained = json.loads(done.out)
    assert trained["score"] == trained["success_rate"]


def test_reports_show_it_with_its_interval(ran):
    assert call_imitbench("report", "--to", "report.md", cwd=ran).code == 0
    shown = (ran / "report.md").read_text()
    assert "score = share of successful episodes" in shown
    assert "Success" in shown
    assert "Wilson" in shown
    assert "References" not in shown
    found = json.loads(call_imitbench("report", "--format", "json", cwd=ran).out)
    [section] = found["sections"]
    cells = [row for row in section["rows"] if row["row"] == "cell"]
    assert all(row["success_rate"] == pytest.approx(row["score_mean"]) for row in cells)
    compared = call_imitbench("compare", "bc", "--baseline", "random", "--json", cwd=ran)
    assert json.loads(compared.out)["contests"][0]["score_one"] == ["success"]
    told = call_imitbench("compare", "bc", "--baseline", "random", cwd=ran).err
    assert "score = share of successful episodes" in told
    assert "of the expert" not in told


def test_reports_have_no_empty_row_of_random_actions(ran, tmp_path):
    shutil.copytree(ran / "runs" / "low" / "bc", tmp_path / "runs" / "low" / "bc")
    told = call_imitbench("report", "--to", "report.md", cwd=tmp_path)
    assert told.code == 0
    shown = (tmp_path / "report.md").read_text()
    assert "| bc |" in shown
    assert "| random |" not in shown
    assert "no reference" not in shown


def test_published_runs_are_checked(ran, tmp_path):
    assert call_imitbench("results", "export", tmp_path / "sent", cwd=ran).code == 0
    checked = call_imitbench("leaderboard", "validate", tmp_path / "sent", cwd=ran)
    assert checked.code == 0, checked.out
    pulled = json.loads(
        call_imitbench(
            "sql", "select avg(success::int) as rate from episodes", "--out", "sent", "--json",
            cwd=tmp_path,
        ).out
    )  # fmt: skip
    assert 0 < pulled[0]["rate"] < 1
    [lines] = (tmp_path / "sent").glob("runs/*.jsonl")
    whole = lines.read_text()
    first = json.loads(whole.splitlines()[0])
    for value in (0.123, None):
        forged = json.loads(json.dumps(first))
        forged["result"]["success_rate"] = value
        lines.write_text("\n".join([json.dumps(forged), *whole.splitlines()[1:]]) + "\n")
        checked = call_imitbench("leaderboard", "validate", tmp_path / "sent", cwd=ran)
        assert checked.code == 1
        assert "success_rate" in checked.out


def test_a_policy_is_evaluated_by_success(ran):
    run = next(each["run_id"] for each in documents(ran / "runs"))
    words = ("eval", run, "--suite", "./low", "--episodes", 10)
    document = json.loads(call_imitbench(*words, "--json", cwd=ran).out)
    success = document["success"]
    assert success["rate"] == success["episodes"] / 10 == document["score"]
    assert success["low"] < success["rate"] < success["high"] or success["rate"] in (0, 1)
    assert f"success in {success['episodes']} of 10 episodes" in call_imitbench(*words, cwd=ran).out


def test_success_beside_scores_of_returns(tmp_path):
    write_suite(tmp_path / "low", success={"key": "low", "when": "end", "headline": False})
    words = ("--suite", "./low", "--budget", "quick", "--seeds", "1", "--quiet")
    assert call_imitbench("run", "--algo", "random", *words, cwd=tmp_path).code == 0
    [run] = documents(tmp_path / "runs")
    assert run["references"].get("score_one", "expert") == "expert"
    assert run["success_rate"] is not None
    assert call_imitbench("report", "--to", "report.md", cwd=tmp_path).code == 0
    shown = (tmp_path / "report.md").read_text()
    assert "Wilson" in shown
    assert "score = (return - random) / (expert - random)" in shown


def test_the_card_is_shown_in_words(ran):
    shown = call_imitbench("suites", "show", "./low", cwd=ran).out
    line = "lab/Low-v0 success: a step says low; the share of episodes is the score"
    assert line in " ".join(shown.split())


def test_a_suite_has_one_headline(tmp_path):
    write_suite(tmp_path / "low")
    path = tmp_path / "low/suite.yaml"
    document = yaml.safe_load(path.read_text())
    card = document["environments"]["lab/Low-v0"]
    document["environments"]["Pendulum-v1"] = {**card, "success": None}
    path.write_text(json.dumps(document))  # which is YAML, without references to other parts
    line = refusal(call_imitbench("suites", "show", "./low", cwd=tmp_path))
    assert "environments.Pendulum-v1.success: must be the headline" in line


def cloned(folder):
    return sorted(path.name for path in folder.glob("runs/low/bc/lab-Low-v0/*"))


def test_two_policies_are_compared_exactly(ran):
    first, second = cloned(ran)
    words = ("eval", first, second, "--suite", "./low", "--episodes", 20)
    found = json.loads(call_imitbench(*words, "--json", cwd=ran).out)
    counts = [each["success"]["episodes"] for each in found["policies"]]
    success = found["difference"]["success"]
    assert success["p"] == exact_p_value(*((count, 20) for count in counts))
    assert success["difference"] == pytest.approx((counts[0] - counts[1]) / 20)
    assert 0 < found["difference"]["return"]["p"] <= 1
    told = call_imitbench(*words, cwd=ran).out
    assert told.count("success in") == 2
    assert "difference in success: " in told


def test_shares_are_no_scores_of_an_environment_without_success(ran):
    suite = find_suite("./low", ran)
    [(env_id, card)] = suite.environments.items()
    spec = EnvironmentSpec.of_card(env_id, card)
    assert find_references(spec, str(ran / "low")).score_one == "success"
    unjudged = spec.model_copy(update={"success": None})
    assert find_references(unjudged, str(ran / "low")) is None


def test_an_expert_of_another_source_does_not_change_the_scale(ran, monkeypatch):
    monkeypatch.chdir(ran)
    suite = find_suite("./low")
    [env_id] = suite.environments
    found = reference_scores(suite, env_id, "path:low", ran)
    assert (found.random, found.expert, found.score_one) == (0.0, 1.0, "success")


def test_boards_follow_success_too(ran, tmp_path):
    results = tmp_path / "results"
    assert call_imitbench("results", "export", results / "sent", cwd=ran).code == 0
    words = ("leaderboard", "build", "--results", results, "--out", tmp_path / "site", "--quiet")
    assert call_imitbench(*words, cwd=ran).code == 0
    shown = (tmp_path / "site/leaderboard.md").read_text()
    assert "for success in every episode" in shown
    assert "### Success" in shown
    assert "Wilson" in shown
    [table] = json.loads((tmp_path / "site/leaderboard.json").read_text())["tables"]
    rates = {run["run_id"]: run["success_rate"] for row in table["rows"] for run in row["runs"]}
    assert rates == {each["run_id"]: each["success_rate"] for each in documents(ran / "runs")}
    assert "do not follow" not in shown
    pages = "".join(path.read_text() for path in (tmp_path / "site").rglob("*.html"))
    assert "do not follow from the references" not in pages
    assert "<h3>Success</h3>" in pages


def test_two_policies_race_by_success(ran):
    first, second = cloned(ran)
    words = ("eval", first, second, "--suite", "./low", "--race", "--batch", 5,
             "--max-episodes", 10, "--json")  # fmt: skip
    raced = json.loads(call_imitbench(*words, cwd=ran).out)
    assert raced["design"]["references"]["score_one"] == "success"
    assert raced["looks"]
    for look in raced["looks"]:
        assert abs(look["difference"]) <= 1
        assert look["difference"] * look["episodes"] == pytest.approx(
            round(look["difference"] * look["episodes"])
        )
