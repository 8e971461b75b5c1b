"""Commands on single policies and files know the environments of a user's suite."""

import json
import shutil

import pytest
import yaml
from support.command import call_imitbench, refusal
from support.races import planned
from support.short_suite import write_short_suite
from typer.testing import CliRunner

import imitbench
from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.templates.writing import write_template


def call(*words):
    answer = CliRunner().invoke(app, [str(word) for word in words], standalone_mode=False)
    if answer.exception is not None:
        raise answer.exception
    return answer.stdout


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    """A suite with an expert that is better than chance, demonstrations and references."""
    folder = write_template("suite", "own", tmp_path_factory.mktemp("own"))
    call("experts", "train", "--suite", folder, "--steps", 16_000, "--episodes", 10,
         "--to", folder / "experts")  # fmt: skip
    call("demos", "collect", "--suite", folder, "--to", folder / "demos")
    call("suites", "measure", folder, "--episodes", 10, "--card", folder / "suite.yaml")
    return folder


@pytest.fixture(scope="module")
def env(suite):
    [name] = json.loads(call("suites", "show", suite, "--json"))["environments"]
    return name


@pytest.mark.slow
def test_its_environment_is_found_by_every_command(suite, env, tmp_path):
    [expert] = (suite / "experts").iterdir()
    [demos] = (suite / "demos").iterdir()
    there = ("--suite", suite, "--env", env)
    own = json.loads((expert / "results.json").read_text())
    measured = json.loads(call("experts", "eval", expert, *there, "--episodes", 10, "--json"))
    assert measured["published"]["mean_return"] == own["mean_reward"]
    call("experts", "convert", expert, tmp_path / "converted", *there)
    call("demos", "convert", demos, tmp_path / "demos", *there)
    assert json.loads(call("demos", "validate", tmp_path / "demos", *there, "--json"))
    training = ("--batches", 5, "--eval-episodes", 2, "--log-dir", tmp_path / "bc", "--quiet")
    trained = json.loads(call("train", "imitation", "bc", *there, *training, "--json"))
    for named in (there, there[:2]):
        again = json.loads(call("eval", tmp_path / "bc", *named, "--episodes", 2, "--json"))
        assert again["mean_return"] == trained["mean_return"]


@pytest.mark.slow
def test_its_source_is_run_only_where_it_is_named(suite, tmp_path):
    """Unlike the tests above, in a process that has not seen the suite before."""
    words = ("--suite", suite, "--budget", "quick", "--seeds", "1", "--out", tmp_path / "runs")
    assert call_imitbench("run", "--algo", "random", *words, cwd=tmp_path).code == 0
    [run] = imitbench.results(tmp_path / "runs")["run_id"]
    words = ("eval", run, "--out", tmp_path / "runs", "--episodes", "2")
    line = refusal(call_imitbench(*words, cwd=tmp_path))
    assert "--suite" in line
    assert call_imitbench(*words, "--suite", suite, cwd=tmp_path).code == 0


@pytest.mark.slow
def test_its_sets_need_not_be_stored(suite, env, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / suite.name
    shutil.copytree(suite, folder)
    document = yaml.safe_load((folder / "suite.yaml").read_text())
    recipe = {"repo": "any", "trajectories": 3, "policy": "random", "bundled": False}
    document["environments"][env]["sets"] = {"random": recipe}
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    call("demos", "collect", "--suite", folder, "--set", "random", "--to", tmp_path / "look",
         "--card", folder / "suite.yaml")  # fmt: skip
    card = yaml.safe_load((folder / "suite.yaml").read_text())["environments"][env]
    assert card["sets"]["random"]["returns"]["episodes"] == 3
    words = ("run", "--algo", "bc", "--suite", folder, "--budget", "quick", "--seeds", "1",
             "--n-demos", "1", "--mixture", "random:2", "--out", tmp_path / "runs")  # fmt: skip
    ended = call_imitbench(*words, "--dry-run", cwd=tmp_path)
    assert ended.code == 0
    assert f"collected before the first run: random of {env}" in ended.err
    ended = call_imitbench(*words, cwd=tmp_path)
    assert ended.code == 0
    assert f"{env}: collecting set random, 3 trajectories" in ended.err
    [run] = (tmp_path / "runs").rglob("spec.json")
    [part] = json.loads(run.read_text())["demos"]["supplement"]
    assert part["digest"].startswith(card["sets"]["random"]["returns"]["revision"])


@pytest.mark.parametrize("words", [("experts", "convert"), ("demos", "convert")])
def test_a_suite_alone_names_no_environment(words, tmp_path):
    with pytest.raises(InputError, match="--suite seals: needs --env"):
        call(*words, "ppo-seals-Hopper-v1", tmp_path / "out", "--suite", "seals")


def test_an_environment_that_the_suite_lacks_is_refused():
    for words in (
        ("eval", "ppo-seals-CartPole-v0"),
        ("experts", "eval", "ppo-seals-CartPole-v0"),
        ("train", "imitation", "bc"),
    ):
        with pytest.raises(InputError, match="--env Pendulum-v1: not in suite seals; "):
            call(*words, "--env", "Pendulum-v1", "--suite", "seals")


def unlikely_suite(folder):
    """A suite whose expert's most likely actions are not measured yet."""
    card = write_short_suite(folder) / "suite.yaml"
    document = yaml.safe_load(card.read_text())
    del document["environments"]["Pendulum-v1"]["references"]["expert_likely"]
    card.write_text(yaml.safe_dump(document))
    return folder


def test_a_race_by_most_likely_actions_needs_their_reference(tmp_path):
    race = ("race", "bc", "--baseline", "random", "--suite", unlikely_suite(tmp_path / "own"),
            "--budget", "quick")  # fmt: skip
    for acting in ("likely", "both"):
        line = refusal(call_imitbench(*race, "--acting", acting, cwd=tmp_path))
        assert f"--acting {acting}: the return of the expert's most likely actions" in line
        assert "use --acting sampled, or add it to the card" in line
    assert not (tmp_path / "runs").exists()
    found = call_imitbench(*race, "--dry-run", cwd=tmp_path)
    assert found.code == 0
    assert "sampled actions only: the return of the expert's most likely actions" in found.err


@pytest.mark.slow
def test_a_suite_is_measured_run_and_compared_by_most_likely_actions(tmp_path):
    suite = unlikely_suite(tmp_path / "own")
    run = ("run", "--algo", "bc,random", "--suite", "./own", "--budget", "quick", "--quiet")
    compare = ("compare", "bc", "--baseline", "random", "--acting", "likely", "--json")
    assert call_imitbench(*run, "--seeds", "1", cwd=tmp_path).code == 0
    line = refusal(call_imitbench(*compare, cwd=tmp_path))
    assert "`imitbench suites measure ./SUITE --likely --card ./SUITE/suite.yaml`" in line
    words = ("--likely", "--episodes", "20", "--card", "./own/suite.yaml")
    assert call_imitbench("suites", "measure", "./own", *words, cwd=tmp_path).code == 0
    runs = imitbench.results(tmp_path / "runs")
    assert runs["score_likely"].isna().all()
    again = call_imitbench(*run, "--seeds", "4", "--force", cwd=tmp_path)
    assert again.code == 0, again.err
    likely = yaml.safe_load((suite / "suite.yaml").read_text())["environments"]["Pendulum-v1"]
    random, one = (likely["references"][name]["mean"] for name in ("random", "expert_likely"))
    results = [json.loads(path.read_text()) for path in tmp_path.glob("runs/*/*/*/*/result.json")]
    assert {each["references"]["expert_likely"] for each in results} == {one}
    scores = {each["run_id"]: (each["deterministic_return"] - random) / (one - random)
              for each in results}  # fmt: skip
    runs = imitbench.results(tmp_path / "runs")
    assert dict(zip(runs["run_id"], runs["score_likely"], strict=True)) == pytest.approx(scores)
    # The same runs, though the card knows more: an id never changes its meaning.
    assert len(results) == 8
    found = json.loads(call_imitbench(*compare, cwd=tmp_path).out)
    assert [each["acting"] for each in found["contests"]] == [["likely"]]
    rows = json.loads(call_imitbench("report", "--format", "json", cwd=tmp_path).out)
    [reference] = rows["sections"][0]["references"]
    assert reference["expert_likely"] == one


def test_runs_of_suites_of_this_package_leave_the_second_reference_to_the_card():
    plan = planned(acting=None)
    assert plan.plan.references("Pendulum-v1").expert_likely is None
    assert plan.race.design.references["Pendulum-v1"].expert_likely is not None


def test_a_bad_second_reference_is_refused_in_one_short_line(tmp_path):
    card = write_short_suite(tmp_path / "own") / "suite.yaml"
    text = card.read_text()
    at = text.index("expert_likely")
    card.write_text(text[:at] + text[at:].replace("deterministic: true", "deterministic: false", 1))
    line = refusal(call_imitbench("suites", "show", "./own", cwd=tmp_path))
    number = text[: text.index("references:")].count("\n") + 1
    assert line.endswith(
        f"suite.yaml:{number}: environments.Pendulum-v1.references: expert_likely.deterministic "
        "must be true; remove it, and add it by `imitbench suites measure --likely`"
    )
