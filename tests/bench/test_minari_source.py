"""Runs on demonstrations of Minari."""

import gymnasium as gym
import pytest
from support.minari_sets import record
from support.plans import make_plan

from imitbench.bench import artifacts
from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError

NAME = "pendulum/random-v0"


@pytest.fixture
def plan(tmp_path, monkeypatch):
    """Returns a plan for BC, DAgger and random actions on the set's environment and another."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artifacts.minari_copy.cache_clear()
    record(NAME, gym.make("Pendulum-v1"))
    yield make_plan(
        algorithms=["bc", "dagger", "random"],
        suite="classic",
        environment=None,
        seeds=[0],
        source=f"minari:{NAME}",
    )
    artifacts.minari_copy.cache_clear()


def test_only_methods_that_the_set_fits_are_planned(plan):
    assert {(run.algo, run.environment.id) for run in plan} == {
        ("bc", "Pendulum-v1"),
        *(("random", env) for env in ("Pendulum-v1", "seals/CartPole-v0", "seals/MountainCar-v0")),
    }
    why = {(each.algo, each.env): each.why for each in plan.not_applicable}
    assert "recorded on Pendulum-v1" in why["bc", "seals/CartPole-v0"]
    assert "without an expert" in why["dagger", "Pendulum-v1"]


def test_a_run_pins_the_set_and_loads_it_by_its_digest(plan):
    [run] = [run for run in plan if run.algo == "bc"]
    assert (run.demos.repo, run.demos.count, run.source) == (NAME, 3, f"minari:{NAME}")
    root = artifacts.source_root(run.demos.source, suite_directory("classic"))
    place = artifacts.ArtifactLocation.of_spec(root, "demos", run.demos, "classic")
    assert [len(demo) for demo in artifacts.demos_of_run(run, root)] == [20, 20, 20]
    [file] = place.files()
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(InputError, match="content changed since"):
        artifacts.demos_of_run(run, root)


def test_a_missing_set_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    with pytest.raises(InputError, match="nowhere/at-all-v0"):
        make_plan(
            algorithms=["bc"],
            suite="classic",
            environment="Pendulum-v1",
            seeds=[0],
            source="minari:nowhere/at-all-v0",
        )
