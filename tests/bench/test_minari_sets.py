"""Sets of Minari that a suite's card names: `--source minari`."""

import json
import shutil

import gymnasium as gym
import numpy as np
import pytest
import yaml
from support.command import call_imitbench, refusal
from support.minari_sets import record
from support.short_suite import write_short_suite

from imitbench.bench import artifacts
from imitbench.bench.minari_sets import check_sets, fetch_sets
from imitbench.bench.plan import plan_request
from imitbench.cards.plugins import find_suite
from imitbench.data import minari_source
from imitbench.errors import InputError
from imitbench.store.sweep_file import SweepRequest

NAME = "pendulum/random-v0"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a short suite whose card names a set; Minari's folder is empty."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artifacts.minari_copy.cache_clear()
    write_suite(tmp_path / "own", NAME)
    yield tmp_path
    artifacts.minari_copy.cache_clear()


def write_suite(folder, name):
    shutil.rmtree(folder, ignore_errors=True)
    card = write_short_suite(folder) / "suite.yaml"
    document = yaml.safe_load(card.read_text())
    document["environments"]["Pendulum-v1"]["minari"] = name
    card.write_text(yaml.safe_dump(document))


def plan(place, **request):
    own = {"algorithms": ["bc"], "seeds": [0], "environment": None, **request}
    suite = str(place / "own")
    return plan_request(SweepRequest(**own, suite=suite, source="minari", folder=str(place)))


def test_runs_draw_episodes_of_the_set_and_are_scored_by_its_returns(place):
    record(NAME, gym.make("Pendulum-v1"), steps=10)
    found = plan(place, algorithms=["bc", "random", "dagger"], n_demos=2)
    runs = {run.algo: run for run in found}
    assert runs.keys() == {"bc", "random"}
    [pair] = found.not_applicable
    assert (pair.algo, pair.why) == ("dagger", "a set of Minari comes without an expert")
    demos = runs["bc"].demos
    assert (demos.source, demos.repo, demos.count, demos.available) == ("minari", NAME, 2, 3)
    assert len(demos.revision) == 32
    loaded = artifacts.demos_of_run(runs["bc"], found.source_root)
    assert [len(demo) for demo in loaded] == [10, 10]
    # The second episode is not marked as ended: its return is that of a part.
    location = artifacts.ArtifactLocation.of_spec(found.source_root, "demos", demos, "own")
    returns = artifacts.demonstrated_returns(location)
    assert len(returns) == 2
    references = found.references("Pendulum-v1")
    assert references.expert == references.demonstrations == pytest.approx(np.mean(returns))
    assert references.score_one == "demonstrations"
    card = found.suite.environments["Pendulum-v1"].references
    assert references.random == card.random.mean
    assert references.version == f"{found.suite.version}+minari:{demos.revision[:8]}"


def test_another_set_of_that_name_gives_other_runs(place):
    record(NAME, gym.make("Pendulum-v1"), steps=10)
    [first] = plan(place)
    shutil.rmtree(place / "minari")
    record(NAME, gym.make("Pendulum-v1"), steps=9)
    artifacts.minari_copy.cache_clear()
    [second] = plan(place)
    assert first.run_id != second.run_id
    # The copy of the first one is still there.
    root = artifacts.source_root("minari", place)
    assert len(artifacts.demos_of_run(first, root)[0]) == 10
    shutil.rmtree(place / "cache")
    with pytest.raises(InputError, match="run `imitbench prefetch --suite own --source minari`"):
        artifacts.demos_of_run(first, root)


@pytest.mark.parametrize(
    ("harm", "line"),
    [
        (lambda place: shutil.rmtree(place / "minari"), "minari:pendulum/random-v0: not in "),
        (
            lambda place: shutil.rmtree(place / "minari" / NAME / "data" / "1"),
            "its metadata state 3 episodes, and 2 are there",
        ),
        (lambda place: [f.write_bytes(f.read_bytes()[:40]) for f in files_of(place)], "cannot be"),
        (lambda place: (place / "minari" / NAME / "data/metadata.json").write_text("{"), "damaged"),
    ],
    ids=["missing", "an episode is missing", "a file is cut off", "cut-off metadata"],
)
def test_missing_and_half_downloaded_sets_are_refused_in_one_line(place, harm, line):
    record(NAME, gym.make("Pendulum-v1"))
    harm(place)
    run = ("run", "--algo", "bc", "--suite", "./own", "--source", "minari", "--seeds", "1")
    answer = refusal(call_imitbench(*run, cwd=place))
    assert line in answer
    assert not (place / "runs").exists()


def files_of(place):
    return sorted((place / "minari" / NAME / "data" / "1").iterdir())


@pytest.mark.parametrize(
    ("env", "line"),
    [
        ("CartPole-v1", r"own: Pendulum-v1: minari:{} was recorded on CartPole-v1; name a set"),
        ("MountainCarContinuous-v0", "was recorded on MountainCarContinuous-v0"),
    ],
)
def test_sets_of_another_environment_are_refused(place, env, line):
    record(NAME, gym.make(env))
    with pytest.raises(InputError, match=line.format(NAME)):
        plan(place)


def test_sets_with_other_spaces_are_refused(place, monkeypatch):
    """A set need not state its environment."""
    record(NAME, gym.make("MountainCarContinuous-v0"))
    monkeypatch.setattr(minari_source, "_environment_id", lambda _: None)
    with pytest.raises(InputError, match=f"minari:{NAME}, episode 0: .*observations"):
        plan(place)


def test_cards_without_a_set_are_told(place):
    write_suite(place / "own", None)
    [pair] = plan(place).not_applicable
    assert pair.why == "the suite card names no set of Minari"
    prefetch = ("prefetch", "--suite", "./own", "--source", "minari")
    assert "names no set of Minari for Pendulum-v1" in refusal(call_imitbench(*prefetch, cwd=place))
    write_suite(place / "own", "../nothing")
    with pytest.raises(InputError, match=r"environments\.Pendulum-v1\.minari"):
        find_suite(str(place / "own"))


def test_sets_are_fetched_once(place, monkeypatch):
    import minari

    fetched = []

    def download(name):
        fetched.append(name)
        record(name, gym.make("Pendulum-v1"))

    monkeypatch.setattr(minari, "download_dataset", download)
    suite = find_suite(str(place / "own"))
    with pytest.raises(InputError, match="prefetch --source minari"):
        check_sets(suite, ["Pendulum-v1"])
    [found] = fetch_sets(suite, ["Pendulum-v1"])
    assert (found.env_id, found.name, found.episodes) == ("Pendulum-v1", NAME, 3)
    assert found.mean_return < 0
    assert fetch_sets(suite, ["Pendulum-v1"]) == [found]
    assert fetched == [NAME]
    words = ("prefetch", "--suite", "./own", "--source", "minari", "--json")
    [row] = json.loads(call_imitbench(*words, cwd=place).out)
    assert (row["name"], row["digest"]) == (NAME, found.digest)
    assert not (place / "imitbench.lock").exists()


@pytest.mark.slow
def test_a_suite_runs_on_its_sets(place):
    record(NAME, gym.make("Pendulum-v1"), steps=10)
    run = ("run", "--algo", "bc", "--suite", "./own", "--source", "minari", "--seeds", "1",
           "--budget", "quick", "--quiet")  # fmt: skip
    answer = call_imitbench(*run, cwd=place)
    assert answer.code == 0, answer
    report = call_imitbench("report", "--to", "-", cwd=place).out
    assert "source minari" in report
    assert "Score 1 on Pendulum-v1 is the mean return of the demonstrators" in report
