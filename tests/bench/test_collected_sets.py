"""Sets that a suite does not bundle are collected where a run needs them."""

import json
import shutil

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from imitbench.bench.plan import DemoChoice, plan_request
from imitbench.bench.request import plan_requests
from imitbench.bench.supplement import supplement_of_run
from imitbench.cards.catalog import load_suite, suite_directory, suite_names
from imitbench.cards.demonstrations import PolicySet
from imitbench.cli.main import app
from imitbench.data.demonstrations import read_demonstrations
from imitbench.errors import InputError
from imitbench.experts.demonstrations import collect_set, set_digest
from imitbench.records.runs import RunSpec
from imitbench.store.sweep_file import SweepFile, SweepRequest
from imitbench.util.files import user_cache

ENV = "Pendulum-v1"
ROOT = suite_directory("classic")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def suite(tmp_path):
    """Writes a suite that bundles neither of its sets, but a policy, which is the expert's."""
    folder = tmp_path / "mine"
    document = yaml.safe_load((ROOT / "suite.yaml").read_text())
    card = document["environments"][ENV]
    for part, repo in (("experts", card["expert"]["repo"]), ("demos", card["demos"]["repo"])):
        shutil.copytree(ROOT / part / repo, folder / part / repo)
    shutil.copytree(ROOT / "experts" / card["expert"]["repo"], folder / "experts/half")
    card["sets"] = {
        "medium": {
            "repo": "half", "trajectories": 3, "policy": "checkpoint", "env_steps": 100,
            "bundled": False,
        },
        "random": {"repo": "any", "trajectories": 4, "policy": "random", "bundled": False},
    }  # fmt: skip
    document |= {"name": "mine", "environments": {ENV: card}, "regimes": {}}
    (folder / "suite.yaml").write_text(yaml.safe_dump(document))
    return folder


def run_on(suite, mixture="medium:2,random:3", algo="iswbc"):
    request = SweepRequest(
        algorithms=[algo], suite=str(suite), environment=ENV, seeds=[0], folder="."
    )
    [plan] = plan_requests([request], DemoChoice.parse("1", None, None, mixture=mixture))
    [run] = plan
    return run


def test_both_kinds_are_collected_and_pinned_by_their_recipe(suite):
    run = run_on(suite)
    parts = {part.name: part for part in run.demos.supplement}
    assert [(part.source, part.available) for part in parts.values()] == [
        ("collected", 3), ("collected", 4),
    ]  # fmt: skip
    # A worker needs nothing but the record.
    again = RunSpec.model_validate_json(run.model_dump_json())
    found = supplement_of_run(again, suite, ranked=True)
    assert [len(each) for each in found.trajectories] == [200] * 5
    best = [found.trajectories[i] for i in np.argsort(found.ranks)[-2:]]
    policy = read_demonstrations(user_cache() / "sets" / parts["medium"].digest)
    acts = {each.acts.tobytes() for each in policy}
    noise = read_demonstrations(user_cache() / "sets" / parts["random"].digest)
    assert {each.acts.tobytes() for each in best} <= acts
    # Another process finds what is there, and what it is made from gives the same again.
    kept = {part.digest: (user_cache() / "sets" / part.digest).stat().st_mtime_ns
            for part in parts.values()}  # fmt: skip
    assert run_on(suite).run_id == run.run_id
    for digest, made in kept.items():
        assert (user_cache() / "sets" / digest).stat().st_mtime_ns == made
    shutil.rmtree(user_cache() / "sets")
    assert run_on(suite).run_id == run.run_id
    same = read_demonstrations(user_cache() / "sets" / parts["medium"].digest)
    assert {each.acts.tobytes() for each in same} == acts
    again = read_demonstrations(user_cache() / "sets" / parts["random"].digest)
    for one, other in zip(noise, again, strict=True):
        np.testing.assert_array_equal(one.acts, other.acts)
        np.testing.assert_array_equal(one.obs, other.obs)
    assert len({each.acts.tobytes() for each in noise}) == 4


def test_what_is_collected_is_told_once(suite):
    request = SweepRequest(
        algorithms=["iswbc"], suite=str(suite), environment=ENV, seeds=[0], folder=".", n_demos=1,
        mixture={"medium": 2, "random": 1},
    )  # fmt: skip
    told = []
    plan_request(request, told.append)
    assert told == [
        f"{ENV}: collecting set medium, 3 trajectories",
        f"{ENV}: collecting set random, 4 trajectories",
    ]
    plan_request(request, told.append)
    assert len(told) == 2


def test_a_dry_run_collects_nothing_and_knows_the_runs(suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["run", "--algo", "trex", "--suite", str(suite), "--mixture", "medium:2,random:3"]

    def dry_run(*options):
        return CliRunner().invoke(app, [*words, "--seeds", "2", "--dry-run", *options])

    answer = dry_run()
    assert answer.exit_code == 0
    told = "collected before the first run: medium of Pendulum-v1, random of Pendulum-v1"
    assert told in answer.stderr
    document = json.loads(dry_run("--json").stdout)
    assert document["to_collect"] == [
        {"env": ENV, "set": "medium", "trajectories": 3},
        {"env": ENV, "set": "random", "trajectories": 4},
    ]
    assert [cell["runs"] for cell in document["cells"]] == [2]
    assert not (user_cache() / "sets").exists()
    request = SweepRequest(
        algorithms=["trex"], suite=str(suite), environment=ENV, seeds=[0], folder=".", n_demos=1,
        mixture={"medium": 2, "random": 1},
    )  # fmt: skip
    before = [run.run_id for run in plan_request(request, collect=False)]
    assert before == [run.run_id for run in plan_request(request)]
    assert "collected" not in dry_run().stderr


@pytest.mark.parametrize(
    "words",
    [
        ["race", "iswbc", "--baseline", "bc", "--n-demos", "1", "--mixture", "random:3"],
        ["resume"],
    ],
)
def test_other_dry_runs_collect_nothing_either(suite, tmp_path, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    named = ["--suite", str(suite), "--dry-run"]
    if words == ["resume"]:
        request = SweepRequest(
            algorithms=["iswbc"], suite=str(suite), environment=ENV, seeds=[0], folder=".",
            n_demos=1, mixture={"random": 2},
        )  # fmt: skip
        plan = plan_request(request)
        estimate = plan.estimates(tmp_path).on_cards
        SweepFile.of(tmp_path / "runs", [*plan], "x", plan.request, estimate).write(
            tmp_path / "runs"
        )
        shutil.rmtree(user_cache() / "sets")
    answer = CliRunner().invoke(app, [*words, *named])
    assert answer.exit_code == 0, answer.output
    assert "collected before the first run: random of Pendulum-v1" in answer.stderr
    assert not (user_cache() / "sets").exists()


def test_another_policy_is_another_set(suite):
    before = run_on(suite)
    policy = suite / "experts/half/policy.json"
    policy.write_text(policy.read_text() + "\n")
    assert run_on(suite).run_id != before.run_id


def test_trajectories_that_are_not_in_the_cache_are_refused(suite):
    run = run_on(suite)
    shutil.rmtree(user_cache() / "sets")
    with pytest.raises(InputError, match=r"set half: not in the cache of sets .*once more"):
        supplement_of_run(run, suite, ranked=False)


def test_a_policy_that_is_missing_is_refused_with_the_command_that_trains_it(suite):
    shutil.rmtree(suite / "experts/half")
    with pytest.raises(InputError, match=r"demos collect --suite mine --set medium --to .*mine"):
        run_on(suite)
    assert run_on(suite, "random:2").demos.mixture == {"random": 2}


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"bundled": False}, "bundled: only sets with policy random or checkpoint"),
        ({"bundled": False, "policy": "random", "source": "x"}, "bundled: only sets with policy"),
        ({"policy": "random", "training_seed": 1}, "training_seed: belongs to policy checkpoint"),
    ],
)
def test_recipes_that_contradict_themselves_are_refused(recipe, said):
    with pytest.raises(ValueError, match=said):
        PolicySet(repo="any", trajectories=1, **recipe)


@pytest.mark.parametrize("mixture", ["medium:1", "random:1"])
def test_arguments_that_do_not_fit_are_refused_in_one_line(suite, mixture):
    document = yaml.safe_load((suite / "suite.yaml").read_text())
    document["environments"][ENV]["kwargs"] = {"nonsense": 1}
    (suite / "suite.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(InputError, match=r"not accept its arguments .*correct kwargs") as found:
        run_on(suite, mixture)
    assert "\n" not in str(found.value)
    assert not list((user_cache() / "sets").glob("*"))


def test_collecting_a_set_stores_its_policy_and_uses_it_afterwards(suite, tmp_path):
    card = load_suite("classic").environments[ENV]
    recipe = {"env_steps": 4000, "hyperparameters": {"learning_starts": 40, "batch_size": 8}}
    named = PolicySet(repo="new", trajectories=2, policy="checkpoint", bundled=False, env_steps=150)
    card = card.model_copy(
        update={"sets": {"mine": named}, "expert": card.expert.model_copy(update=recipe)}
    )
    told, out = [], tmp_path / "out"

    def collect(root):
        return collect_set(
            ENV, card, "mine", root, out / "demos", command="test",
            progress=lambda step, _: told.append(step),
        )  # fmt: skip

    first = collect(suite)
    digest = set_digest(ENV, card, "mine", suite, out / "demos")
    assert told == [200]
    shutil.rmtree(out / "demos")
    second = collect(out)  # as if the policy had been put into the suite
    assert told == [200]
    assert set_digest(ENV, card, "mine", out, tmp_path) == digest
    for one, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(one.acts, other.acts)
    assert "the stochastic policy `new`" in (out / "demos/new/README.md").read_text()


COLLECTED = [
    (suite, env_id, name)
    for suite in suite_names()
    for env_id, card in load_suite(suite).environments.items()
    for name, recipe in card.sets.items()
    if not recipe.bundled
]


@pytest.mark.parametrize(("suite_name", "env_id", "name"), COLLECTED)
def test_the_digests_on_the_cards_are_those_of_the_recipes(suite_name, env_id, name):
    card, root = load_suite(suite_name).environments[env_id], suite_directory(suite_name)
    digest = set_digest(env_id, card, name, root, root / "demos")
    assert digest.startswith(card.sets[name].returns.revision)
    assert card.sets[name].returns.episodes == card.sets[name].trajectories


@pytest.mark.slow
@pytest.mark.parametrize(("suite_name", "env_id", "name"), COLLECTED)
def test_the_returns_on_the_cards_are_those_of_the_policies(suite_name, env_id, name, tmp_path):
    # Not all trajectories, and not the same: another processor rounds otherwise.
    card, root = load_suite(suite_name).environments[env_id], suite_directory(suite_name)
    few = card.sets[name].model_copy(update={"trajectories": 3})
    card = card.model_copy(update={"sets": {name: few}})
    made = collect_set(
        env_id, card, name, root, tmp_path / "demos", command="test", progress=lambda *_: None
    )
    returns, stated = [float(each.rews.sum()) for each in made], few.returns
    spread = 4 * max(stated.std, 0.05 * abs(stated.mean)) * np.sqrt(1 / 3 + 1 / stated.episodes)
    assert np.mean(returns) == pytest.approx(stated.mean, abs=spread)
