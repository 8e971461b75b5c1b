"""Suite adroit: its data are sets of Minari, none of which is bundled."""

import gymnasium as gym
import pytest
from support.command import call_imitbench, refusal
from support.minari_sets import record

from imitbench.bench import artifacts
from imitbench.bench.environments import make_environment
from imitbench.bench.plan import plan_request
from imitbench.cards.catalog import load_suite
from imitbench.records.runs import EnvironmentSpec
from imitbench.store.sweep_file import SweepRequest

SUITE = load_suite("adroit")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Minari's folder and the cache are empty."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    artifacts.minari_copy.cache_clear()
    yield tmp_path
    artifacts.minari_copy.cache_clear()


def plan(place, algorithms):
    return plan_request(
        SweepRequest(
            algorithms=algorithms, suite="adroit", seeds=[0], source="minari", environment=None,
            folder=str(place),
        )
    )  # fmt: skip


def test_runs_learn_from_the_sets_that_the_card_names(place):
    for env_id, card in SUITE.environments.items():
        env = make_environment(EnvironmentSpec.of_card(env_id, card))
        assert env.spec.max_episode_steps == card.max_episode_steps
        *_, info = (env.reset(seed=0), env.step(env.action_space.sample()))[1]
        assert card.success.rule.read(info) is False
        record(card.minari, gym.make(env_id), episodes=2, steps=4)
    found = plan(place, ["bc", "dagger"])
    assert {run.environment.id: run.demos.repo for run in found} == {
        env_id: card.minari for env_id, card in SUITE.environments.items()
    }
    assert {pair.algo for pair in found.not_applicable} == {"dagger"}
    for run in found:
        demos = artifacts.demos_of_run(run, found.source_root)
        assert [len(demo) for demo in demos] == [4, 4]
        assert found.references(run.environment.id).score_one == "success"


def test_without_the_sets_a_line_says_how_to_get_them(place):
    run = ("run", "--algo", "bc", "--suite", "adroit", "--seeds", "1")
    line = refusal(call_imitbench(*run, cwd=place))
    assert "run `imitbench prefetch --suite adroit --source minari`, and use --source" in line
    line = refusal(call_imitbench(*run, "--source", "minari", cwd=place))
    assert "minari:D4RL/door/human-v2: not in" in line


def test_a_set_of_another_task_is_refused(place):
    for env_id, card in SUITE.environments.items():
        other = "AdroitHandPen-v1" if env_id == "AdroitHandDoor-v1" else env_id
        record(card.minari, gym.make(other), episodes=1, steps=2)
    run = ("run", "--algo", "bc", "--suite", "adroit", "--seeds", "1", "--source", "minari")
    line = refusal(call_imitbench(*run, cwd=place))
    assert "D4RL/door/human-v2 was recorded on AdroitHandPen-v1" in line
