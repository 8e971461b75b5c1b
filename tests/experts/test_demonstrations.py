"""Demonstrations collected from an expert."""

import numpy as np
import pytest

from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts import demonstrations

ENV = "Pendulum-v1"


@pytest.fixture
def collect(tmp_path):
    def collect(trajectories, **demanded):
        card = load_suite("classic").environments[ENV]
        card = card.model_copy(update={"expert": card.expert.model_copy(update=demanded)})
        recipe = card.demos.model_copy(update={"repo": "demos", "trajectories": trajectories})
        demonstrations.collect_demonstrations(
            ENV,
            card.model_copy(update={"demos": recipe}),
            suite_directory("classic"),
            tmp_path,
            command="test",
        )
        return tmp_path / "demos"

    return collect


def sizes(folder):
    return {path.name: path.stat().st_size for path in (folder / "data").iterdir()}


def test_a_set_is_split_into_files_that_are_small_enough(collect, monkeypatch):
    whole = read_demonstrations(collect(10))
    [size] = sizes(collect(10)).values()
    monkeypatch.setattr(demonstrations, "MAX_FILE_BYTES", size // 2)
    folder = collect(10)
    # Each half would be too large, because it has its own header.
    assert sorted(sizes(folder)) == [f"train-{n:05d}-of-00003.parquet" for n in range(3)]
    assert max(sizes(folder).values()) <= size // 2
    assert {path.name for path in folder.iterdir()} == {"README.md", "data"}
    again = read_demonstrations(folder)
    assert len(again) == 10
    for one, other in zip(whole, again, strict=True):
        np.testing.assert_array_equal(one.obs, other.obs)
        np.testing.assert_array_equal(one.acts, other.acts)
        np.testing.assert_array_equal(one.rews, other.rews)


@pytest.mark.parametrize(
    ("limit", "complaint"),
    [("MAX_SET_BYTES", "set fewer trajectories"), ("MAX_FILE_BYTES", "an episode takes")],
)
def test_a_set_that_is_too_large_keeps_the_old_one(
    collect, monkeypatch, tmp_path, limit, complaint
):
    before = sizes(collect(2))
    monkeypatch.setattr(demonstrations, limit, 1000)
    with pytest.raises(InputError, match=complaint):
        collect(3)
    folder = tmp_path / "demos"
    assert sizes(folder) == before
    assert len(read_demonstrations(folder)) == 2


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("demos/notes.txt", r"demos: holds 'notes\.txt'"), ("demos", "demos: not a folder")],
)
def test_another_folder_is_refused_before_the_expert_acts(
    collect, tmp_path, monkeypatch, name, complaint
):
    mine = tmp_path / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    monkeypatch.setattr(demonstrations, "sample_demonstrations", lambda *_, **__: pytest.fail())
    with pytest.raises(InputError, match=complaint):
        collect(1)
    assert mine.read_text() == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [mine]


@pytest.mark.parametrize(
    ("demanded", "told"),
    [
        ({"least_return": 0.0}, r"mean return -\d+\.\d is below 0 \(least_return\)"),
        ({"most_terminated": 0.1}, r"100% of the episodes end early, more than 10%"),
    ],
)
def test_a_weak_expert_is_refused(collect, monkeypatch, tmp_path, demanded, told):
    if "most_terminated" in demanded:
        monkeypatch.setattr(
            demonstrations, "sample_demonstrations", lambda *_, **__: [ended_early()]
        )
    with pytest.raises(InputError, match=told):
        collect(1, **demanded)
    assert list(tmp_path.iterdir()) == []


def ended_early():
    return TrajectoryWithRew(
        obs=np.zeros((3, 3), np.float32),
        acts=np.zeros((2, 1), np.float32),
        infos=None,
        terminal=True,
        rews=np.zeros(2),
    )


def test_demands_that_an_expert_meets():
    recipe = load_suite("classic").environments[ENV].expert_in(ENV)
    recipe = recipe.model_copy(update={"least_return": -200.0, "most_terminated": 0.05})
    assert recipe.why_too_weak(-200.0, 0.05) is None
    assert recipe.why_too_weak(-200.1, 0.05) is not None
    assert recipe.why_too_weak(float("nan"), 0.0) is not None


@pytest.fixture
def collect_set(tmp_path):
    def collect(told=None, expert=None, **recipe):
        card = load_suite("classic").environments[ENV]
        named = card.sets["random"].model_copy(update={"repo": "set", "trajectories": 3, **recipe})
        update = {"sets": {"mine": named}}
        if expert is not None:
            update["expert"] = card.expert.model_copy(update=expert)
        return demonstrations.collect_set(
            ENV,
            card.model_copy(update=update),
            "mine",
            tmp_path,
            tmp_path / "demos",
            command="test",
            progress=lambda step, _: told.append(step),
        )

    return collect


def test_a_set_of_random_actions_is_written_like_demonstrations(collect_set, tmp_path):
    made = collect_set()
    found = read_demonstrations(tmp_path / "demos/set")
    assert len(found) == 3
    for one, other in zip(made, found, strict=True):
        np.testing.assert_array_equal(one.acts, other.acts)
    acts = np.concatenate([each.acts for each in found])
    assert acts.min() < -1.9
    assert acts.max() > 1.9
    assert abs(acts.mean()) < 0.3
    assert "uniformly random actions" in (tmp_path / "demos/set/README.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["demos"]
    assert [path.name for path in (tmp_path / "demos").iterdir()] == ["set"]


def test_a_set_of_a_checkpoint_stops_at_its_step_of_the_whole_training(collect_set, tmp_path):
    told = []
    # Checkpoints are at each fortieth of the training, so the first one after 150 steps is 200.
    recipe = {"env_steps": 4000, "hyperparameters": {"learning_starts": 40, "batch_size": 8}}
    collect_set(told, recipe, policy="checkpoint", env_steps=150)
    assert told == [200]  # where an episode has ended
    text = (tmp_path / "demos/set/README.md").read_text()
    assert (
        "after 200 of 4,000 steps of a training by the recipe of `sac-Pendulum-v1`, seed 0" in text
    )
    assert [path.name for path in tmp_path.iterdir()] == ["demos"]
    assert [path.name for path in (tmp_path / "demos").iterdir()] == ["set"]


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        ({"policy": "recorded"}, "--set mine: recorded elsewhere"),
        ({"policy": "checkpoint", "env_steps": 30_000}, "takes 20,000 steps, fewer than 30,000"),
    ],
)
def test_sets_that_cannot_be_collected_are_refused(collect_set, recipe, message):
    with pytest.raises(InputError, match=message):
        collect_set(**recipe)
