"""Atari games have episodes of fixed length and screens without the score."""

import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from seals.util import MaskScoreWrapper

from imitbench.data.atari import make_fixed_length_atari, register_atari, score_regions
from imitbench.errors import InputError

pytest.importorskip("ale_py", reason="ale-py is missing: pip install 'imitbench[atari]'")
pytest.importorskip("cv2", reason="OpenCV is missing: pip install 'imitbench[atari]'")

# Where each game's console keeps the decimal digits of the score.
SCORE_BYTES = {
    "Asteroids": [61, 62],
    "BeamRider": [9, 10, 11],
    "Breakout": [76, 77],
    "Seaquest": [57, 58],
    "SpaceInvaders": [102, 103],
}


def screens_by_score(env, addresses):
    """Next screens of the same state with different scores."""
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(100):
        env.step(env.action_space.sample())
    console = env.unwrapped.ale
    moment = console.cloneState()
    for digits in (0x00, 0x11, 0x58, 0x99):
        console.restoreState(moment)
        for address in addresses:
            console.setRAM(address, digits)
        env.step(0)
        yield env.step(0)[0]


@pytest.mark.parametrize("game", SCORE_BYTES)
def test_a_masked_screen_does_not_depend_on_the_score(game):
    assert register_atari()
    env_id = f"{game}NoFrameskip-v4"
    plain = gym.make(env_id)
    open_screens = list(screens_by_score(plain, SCORE_BYTES[game]))
    assert not any(np.array_equal(open_screens[0], other) for other in open_screens[1:])
    masked = MaskScoreWrapper(gym.make(env_id), score_regions(env_id))
    screens = list(screens_by_score(masked, SCORE_BYTES[game]))
    for screen in screens:
        np.testing.assert_array_equal(screen, screens[0])
    # Most of the picture is still there, and still one of its space.
    assert (screens[0] == open_screens[0]).mean() > 0.9
    assert masked.observation_space.contains(screens[0])


def test_importing_preference_comparisons_registers_the_games():
    code = """if True:
        import gymnasium
        assert "ALE/Pong-v5" not in gymnasium.registry
        import imitbench.algorithms.preference_comparisons
        assert "ALE/Pong-v5" in gymnasium.registry
    """
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_score_is_hidden_by_default():
    def first_screen(**kwargs):
        env = make_fixed_length_atari("BreakoutNoFrameskip-v4", 10, **kwargs)
        return env.reset(seed=0)[0]

    masked, plain = first_screen(), first_screen(mask_score=False)
    assert masked.shape == (84, 84, 1)
    assert masked.dtype == np.uint8
    differing = np.flatnonzero((masked != plain).any(axis=(1, 2)))
    assert 0 < len(differing) < 10
    assert differing.max() < 10  # only rows at the top
    assert masked.max() > 0


def test_every_episode_has_the_same_length():
    env = make_fixed_length_atari("BreakoutNoFrameskip-v4", 150)
    env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(2):
        ends, games = [], 0
        for _ in range(150):
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            ends.append((terminated, truncated))
            games += "reset_info_dict" in info
            assert ("terminal_observation" in info) == ("reset_info_dict" in info)
        assert ends == [(False, False)] * 149 + [(False, True)]
        assert games > 2
        env.reset()


def test_the_game_is_found_in_all_forms_of_its_id():
    assert score_regions("ALE/Pong-v5") == score_regions("PongNoFrameskip-v4")


def test_an_unknown_game_is_an_error_if_the_score_is_masked():
    with pytest.raises(InputError, match=r"BowlingNoFrameskip-v4: .* known games: Asteroids"):
        make_fixed_length_atari("BowlingNoFrameskip-v4", 10)
    make_fixed_length_atari("BowlingNoFrameskip-v4", 10, mask_score=False)


def test_without_atari_the_error_names_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ale_py", None)
    assert not register_atari()
    with pytest.raises(InputError, match=r"imitbench\[atari\]"):
        make_fixed_length_atari("BreakoutNoFrameskip-v4", 10)
