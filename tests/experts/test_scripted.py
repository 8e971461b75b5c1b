"""Scripted experts: commands make the bundled files again, and bad recipes are named."""

import pytest

from imitbench.cards.catalog import load_suite
from imitbench.data.demonstrations import read_demonstrations
from imitbench.errors import InputError
from imitbench.experts.demonstrations import collect_demonstrations
from imitbench.experts.training import train_expert
from imitbench.policies.scripted import _SCRIPTS, script
from imitbench.store.artifact_files import content_files
from imitbench.util.files import digest_files

pytest.importorskip("gymnasium_robotics", reason="needs the extra robotics")
ENV_ID = "PointMaze_UMaze-v3"
SUITE = load_suite("maze")


def recipe(**changes):
    card = SUITE.environments[ENV_ID]
    return card.model_copy(update={"expert": card.expert.model_copy(update=changes)})


def make(folder, card, trajectories):
    card = card.model_copy(
        update={"demos": card.demos.model_copy(update={"trajectories": trajectories})}
    )
    collect_demonstrations(ENV_ID, card, SUITE.origin.folder, folder, command="collect")
    return folder / card.demos.repo


def digest(folder):
    return digest_files(folder, content_files("dataset", folder, folder.name))


def test_the_command_makes_the_bundled_expert(tmp_path):
    train_expert(ENV_ID, recipe(), tmp_path, command="train", progress=lambda *_: None)
    name = recipe().expert.repo
    for file in ("policy.json", "policy.safetensors", "config.yml", "env_kwargs.yml"):
        made, bundled = tmp_path / name / file, SUITE.origin.folder / "experts" / name / file
        assert made.read_bytes() == bundled.read_bytes()


def test_the_same_seed_collects_the_same_demonstrations(tmp_path):
    one, other = make(tmp_path / "a", recipe(), 2), make(tmp_path / "b", recipe(), 2)
    assert digest(one) == digest(other)
    assert all(demo.rews.sum() == 1 for demo in read_demonstrations(one))


@pytest.mark.slow
def test_the_command_makes_the_bundled_demonstrations(tmp_path):
    made = make(tmp_path, recipe(), recipe().demos.trajectories)
    assert digest(made) == digest(SUITE.origin.folder / "demos" / recipe().demos.repo)


@pytest.mark.parametrize(
    ("hyperparameters", "message"),
    [
        ({"speed": 2.0}, r"UMaze-v3: expert: script maze_waypoints: .*'speed'"),
        ({"detour": 2.0}, r"script maze_waypoints: detour: must be 0 to 1, not 2"),
    ],
)
def test_a_bad_setting_is_named(hyperparameters, message, tmp_path):
    card = recipe(hyperparameters=hyperparameters)
    with pytest.raises(InputError, match=message):
        train_expert(ENV_ID, card, tmp_path, command="train", progress=lambda *_: None)


def test_every_script_has_its_class():
    names = type(recipe().expert).model_fields["script"].annotation
    assert all(script(name).__name__ == cls for name, (_, cls) in _SCRIPTS.items())
    assert all(f"'{name}'" in str(names) for name in _SCRIPTS)
