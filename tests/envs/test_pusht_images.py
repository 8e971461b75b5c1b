"""Demonstrations of PushT that are drawn from states are what the environment shows."""

import sys

import numpy as np
import pytest

pytest.importorskip("gym_pusht")

from imitbench.bench.artifacts import copy_of_package_data
from imitbench.cards.catalog import load_suite
from imitbench.data.demonstrations import read_demonstrations
from imitbench.envs import pusht_images
from imitbench.envs.pusht_images import draw, drawn_states
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec


@pytest.fixture(scope="module")
def states():
    """Demonstrations of states, the first of which touches the block."""
    return read_demonstrations(drawn_states("images").states, rows=[0, 1])


@pytest.fixture
def env():
    with pusht_images._drawing() as made:
        yield made


def test_drawn_states_are_what_the_environment_shows_when_they_are_repeated(states, env):
    for demo in states:
        drawn = draw(env, demo.obs)
        env.reset(seed=0)
        pusht_images._place(env, demo.obs[0].astype(np.float64))
        shown = [env.get_obs(), *(env.step(action)[0] for action in demo.acts)]
        np.testing.assert_array_equal(drawn, shown)
    assert len(np.unique(drawn.reshape(len(drawn), -1), axis=0)) > len(drawn) / 2


def test_a_state_is_drawn_alike_whatever_was_drawn_before(states, env):
    demo = states[0].obs
    again = draw(env, demo[::-1])[::-1]
    np.testing.assert_array_equal(again, draw(env, demo))


def test_the_suite_s_demonstrations_fit_its_environment(states, monkeypatch, tmp_path):
    card = load_suite("pusht-pixels").environments[pusht_images.ENV_ID]
    few = pusht_images.DrawnStates(drawn_states("images").states, "few")
    monkeypatch.setattr(pusht_images, "read_demonstrations", lambda _: states)
    monkeypatch.setattr(pusht_images, "drawn_states", lambda _: few)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    demos = read_demonstrations(copy_of_package_data(card.demos.package))
    space = EnvironmentSpec.of_card(pusht_images.ENV_ID, card)
    assert (space.kwargs["observation_width"], space.kwargs["observation_height"]) == (96, 96)
    for demo, original in zip(demos, states, strict=True):
        assert (demo.obs.shape, demo.obs.dtype) == ((len(original) + 1, 96, 96, 3), np.uint8)
        np.testing.assert_array_equal(demo.acts, original.acts)
        np.testing.assert_array_equal(demo.rews, original.rews)


def test_what_is_no_state_is_refused(env):
    with pytest.raises(InputError, match=r"5 numbers; these have shape \[3, 2\]"):
        draw(env, np.zeros((3, 2), np.float32))
    with pytest.raises(InputError, match="demonstrations pusht:videos: there is only images"):
        drawn_states("videos")


def test_without_the_package_the_message_has_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "gym_pusht", None)
    with pytest.raises(InputError, match=r"pip install 'imitbench\[pusht\]'"):
        _ = drawn_states("images").demonstrations
