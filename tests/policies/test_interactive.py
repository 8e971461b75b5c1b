"""Policies that query a person; here a stream of lines answers."""

import io

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.policies.interactive import (
    ATARI_ACTION_NAMES_TO_KEYS,
    AtariInteractivePolicy,
    DiscreteInteractivePolicy,
    ImageObsDiscreteInteractivePolicy,
)

SPACE = spaces.Box(-1, 1, (2,), np.float32)
KEYS = {"a": "left", "s": "stay", "d": "right"}


class Person(DiscreteInteractivePolicy):
    """Records what is shown and removed."""

    def __init__(self, answers, action_space=None, keys=KEYS, **kwargs):
        action_space = action_space or spaces.Discrete(3)
        self.screen = kwargs.pop("screen", io.StringIO())
        super().__init__(
            SPACE,
            action_space,
            keys,
            input_stream=io.StringIO(answers),
            output_stream=self.screen,
            **kwargs,
        )
        self.shown = []

    def _render(self, obs):
        self.shown.append(obs)
        return len(self.shown)

    def _clean_up(self, context):
        self.shown[context - 1] = None


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_action_of_the_key_is_taken():
    person = Person("d\n a \ns\n")
    assert person.predict(np.zeros((3, 2), np.float32))[0].tolist() == [2, 0, 1]
    assert "left: a, stay: s, right: d" in person.screen.getvalue()
    assert person.shown == [None, None, None]


def test_one_observation_gives_one_action():
    action, _ = Person("d\n").predict(np.zeros(2, np.float32))
    assert (action.shape, int(action)) == ((), 2)


def test_other_keys_are_rejected():
    person = Person("q\n\nleft\nD\nd\n")
    assert person.predict(np.zeros((1, 2), np.float32))[0].tolist() == [2]
    for wrong in ("'q'", "''", "'left'", "'D'"):
        assert f"{wrong} is not the key of an action" in person.screen.getvalue()


def test_actions_may_start_anywhere():
    person = Person("d\n", spaces.Discrete(3, start=5))
    assert person.predict(np.zeros((1, 2), np.float32))[0].tolist() == [7]


def test_the_end_of_the_input_is_an_error_and_cleans_up():
    person = Person("x\n")
    with pytest.raises(EOFError, match="the input ended"):
        person.predict(np.zeros((1, 2), np.float32))
    assert person.shown == [None]


def test_only_terminals_are_cleared():
    for screen, clear, cleared in (
        (Terminal(), True, True),
        (Terminal(), False, False),
        (io.StringIO(), True, False),
    ):
        person = Person("a\n", screen=screen, clear_screen_on_query=clear)
        person.predict(np.zeros((1, 2), np.float32))
        assert ("\x1b[2J" in screen.getvalue()) is cleared


def test_standard_streams_are_the_default(monkeypatch, capsys):
    class Plain(Person):
        def _render(self, obs):
            return None

        def _clean_up(self, context):
            pass

    person = Plain("")
    person._input = person._output = None
    monkeypatch.setattr("sys.stdin", io.StringIO("s\n"))
    assert person.predict(np.zeros((1, 2), np.float32))[0].tolist() == [1]
    assert "Choose an action" in capsys.readouterr().out


def test_answers_come_from_a_replaced_input(monkeypatch):
    """Notebooks, and tests of users, replace `input`."""
    questions, answers = [], iter(["x", "d"])

    def ask(question):
        questions.append(question)
        return next(answers)

    monkeypatch.setattr("builtins.input", ask)
    person = Person("")
    person._input = person._output = None
    assert person.predict(np.zeros((1, 2), np.float32))[0].tolist() == [2]
    assert [text.split(" ")[0] for text in questions] == ["Choose", "'x'"]

    answers = iter(["a"])
    screen = person._output = io.StringIO()
    assert person.predict(np.zeros((1, 2), np.float32))[0].tolist() == [0]
    assert questions[-1] == ""
    assert "Choose an action" in screen.getvalue()

    def ended(question):
        raise EOFError

    monkeypatch.setattr("builtins.input", ended)
    with pytest.raises(EOFError, match="before an action was entered"):
        person.predict(np.zeros((1, 2), np.float32))


@pytest.mark.parametrize(
    ("action_space", "keys", "message"),
    [
        (SPACE, KEYS, "action_space: must be discrete"),
        (spaces.Discrete(2), KEYS, "has 3 keys for 2 actions"),
        (spaces.Discrete(2), {"a": "left", "b": "left"}, "the same name"),
    ],
)
def test_keys_that_do_not_fit_are_refused(action_space, keys, message):
    with pytest.raises(ValueError, match=message):
        Person("", action_space, keys)


class Game(gym.Env):
    """Names its actions as Atari games do."""

    observation_space = spaces.Box(0, 255, (6, 8, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def get_action_meanings(self):
        return ["NOOP", "LEFT", "RIGHTFIRE"]

    def reset(self, *, seed=None, options=None):
        return np.zeros((6, 8, 3), np.uint8), {}

    def step(self, action):
        return np.zeros((6, 8, 3), np.uint8), 0.0, False, False, {}


@pytest.mark.parametrize("vectorized", [False, True])
def test_games_have_standard_keys(vectorized):
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    env = DummyVecEnv([Game]) if vectorized else gym.wrappers.TimeLimit(Game(), 5)
    answers = "\n".join(ATARI_ACTION_NAMES_TO_KEYS[name] for name in ("RIGHTFIRE", "NOOP"))
    person = AtariInteractivePolicy(
        env, input_stream=io.StringIO(answers), output_stream=io.StringIO()
    )
    observations = np.zeros((2, 6, 8, 3), np.uint8)
    assert person.predict(observations)[0].tolist() == [2, 0]
    assert plt.get_fignums() == []


def test_all_keys_of_games_differ():
    assert len(set(ATARI_ACTION_NAMES_TO_KEYS.values())) == 18


def test_games_without_known_actions_are_refused():
    class Odd(Game):
        def get_action_meanings(self):
            return ["NOOP", "JUMP", "FIRE"]

    with pytest.raises(ValueError, match="actions without a key: JUMP"):
        AtariInteractivePolicy(Odd())
    for env in (gym.make("CartPole-v1"), DummyVecEnv([lambda: gym.make("CartPole-v1")])):
        with pytest.raises(ValueError, match="not an Atari game"):
            AtariInteractivePolicy(env)


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((6, 40, 3), (6, 40, 3)),
        ((3, 40, 40), (40, 40, 3)),
        ((40, 40, 4), (40, 40)),
        ((40, 40, 6), (40, 40, 3)),
        ((4, 40, 40), (40, 40)),
        ((40, 40), (40, 40)),
    ],
)
def test_images_of_any_layout_can_be_shown(shape, shown):
    """Channels first or last, colors or grey, stacked or not: the latest frame is shown."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    person = ImageObsDiscreteInteractivePolicy(
        spaces.Box(0, 255, shape, np.uint8),
        spaces.Discrete(3),
        KEYS,
        input_stream=io.StringIO("a\n"),
        output_stream=io.StringIO(),
    )
    image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    prepared = person._prepare_obs_image(image)
    assert prepared.shape == shown
    if len(shape) == 3 and shape[0] == 4:
        np.testing.assert_array_equal(prepared, image[-1])
    figure = person._render(image)
    np.testing.assert_array_equal(figure.axes[0].images[0].get_array(), prepared)
    person._clean_up(figure)
    assert plt.get_fignums() == []
