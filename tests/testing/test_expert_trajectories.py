"""Demonstrations of experts on the hub, to test other code with."""

import shutil

import gymnasium as gym
import numpy as np
import pytest
import seals  # noqa: F401 (registers environments)
from support.hub import serve_hub
from torch.utils.data import DataLoader

from imitbench.algorithms import bc
from imitbench.cards.catalog import suite_directory
from imitbench.data.types import TransitionsWithRew
from imitbench.errors import InputError
from imitbench.testing.expert_trajectories import (
    generate_expert_trajectories,
    lazy_generate_expert_trajectories,
    make_expert_transition_loader,
)

ENV = "seals/CartPole-v0"
EXPERT = "ppo-seals-CartPole-v0"


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A cache that one call has filled, and its episodes; the hub is gone."""
    folder = tmp_path_factory.mktemp("cache")
    files = {
        path.name: path.read_bytes()
        for path in (suite_directory("classic") / "experts" / EXPERT).iterdir()
    }
    with pytest.MonkeyPatch.context() as patch, serve_hub() as hub:
        hub.point_client_here(patch, tmp_path_factory.mktemp("hub"))
        hub.add_model(f"HumanCompatibleAI/{EXPERT}", files)
        made = lazy_generate_expert_trajectories(folder, ENV, 2, np.random.default_rng(0))
        again = generate_expert_trajectories(ENV, 2, np.random.default_rng(0))
    return folder, made, again


def test_episodes_are_those_of_the_expert(places):
    _, made, again = places
    assert [each.rews.sum() for each in made] == [500.0, 500.0]
    np.testing.assert_array_equal(made[0].acts, again[0].acts)


def test_a_filled_cache_is_read_and_not_replaced(places, tmp_path, monkeypatch):
    folder, made, _ = places
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    read = lazy_generate_expert_trajectories(folder, ENV, 1, np.random.default_rng(7))
    assert len(read) == 1
    np.testing.assert_array_equal(read[0].obs, made[0].obs)
    copy = shutil.copytree(folder, tmp_path / "copy")
    [file] = copy.rglob("*.arrow")
    file.write_bytes(b"damaged")
    with pytest.raises(InputError, match="damaged"):
        lazy_generate_expert_trajectories(copy, ENV, 1, np.random.default_rng(7))


@pytest.mark.parametrize(
    "kind", ["trajectories", "data_loader", "ducktyped_data_loader", "transitions"]
)
def test_each_kind_of_data_trains_behavioral_cloning(kind, places):
    rng = np.random.default_rng(0)
    data = make_expert_transition_loader(places[0], 50, kind, ENV, rng, num_trajectories=2)
    assert isinstance(data, DataLoader) == (kind == "data_loader")
    assert isinstance(data, TransitionsWithRew) == (kind == "transitions")
    if kind == "trajectories":
        assert [len(each) for each in data] == [500, 500]
    elif kind != "transitions":
        batches = [len(batch["obs"]) for batch in data]
        assert batches == [50] * 20
        assert len(list(data)) == 20
    env = gym.make(ENV)
    trainer = bc.BC(
        observation_space=env.observation_space,
        action_space=env.action_space,
        demonstrations=data,
        batch_size=50,
        rng=rng,
    )
    trainer.train(n_batches=3, progress_bar=False)


@pytest.mark.parametrize("kind", ["data_loader", "ducktyped_data_loader"])
def test_loaders_shuffle_unless_told_otherwise(kind, places):
    folder, made, _ = places

    def first_batch(**options):
        rng = np.random.default_rng(0)
        loader = make_expert_transition_loader(folder, 50, kind, ENV, rng, **options)
        return next(iter(loader))["obs"]

    np.testing.assert_array_equal(first_batch(shuffle=False), made[0].obs[:50])
    assert not np.array_equal(first_batch(), made[0].obs[:50])


def test_a_large_batch_gets_enough_episodes(places):
    rng = np.random.default_rng(0)
    [batch] = make_expert_transition_loader(places[0], 700, "data_loader", ENV, rng)
    assert len(batch["obs"]) == 700


def test_unknown_kinds_are_refused(tmp_path):
    with pytest.raises(ValueError, match="expert_data_type: 'trajectory'; did you mean"):
        make_expert_transition_loader(tmp_path, 2, "trajectory", ENV, np.random.default_rng(0))
