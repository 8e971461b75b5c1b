"""What a person presses becomes actions; controls that do not fit are refused."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from support.recording import action_of

from imitbench.errors import InputError
from imitbench.recording.controls import (
    Inputs,
    default_controls,
    describe_controls,
    out_of_reach,
    read_controls,
)
from imitbench.recording.task import controls_for
from imitbench.records.runs import EnvironmentSpec


class Made(gym.Env):
    """An environment of which only the spaces count."""

    observation_space = spaces.Box(-1, 1, (1,))

    def __init__(self, action_space, meanings=None):
        self.action_space = action_space
        if meanings:
            self.get_action_meanings = lambda: meanings


def box(low, high, size):
    return spaces.Box(low, high, (size,), np.float32)


def acts(space, inputs, **how):
    return np.asarray(action_of(default_controls(Made(space), "test"), space, inputs, **how))


FORCE, PLACE = box(-2, 2, 2), box(0, 512, 2)
WHOLE = spaces.Box(0, 5, (1,), np.int64)


@pytest.mark.parametrize(
    ("space", "inputs", "expected"),
    [
        (box(-2, 2, 1), Inputs(), [0]),
        (box(-2, 2, 1), Inputs(keys=["ArrowLeft"]), [-2]),
        (box(-2, 2, 1), Inputs(keys=["ArrowLeft", "ArrowRight"]), [0]),
        (box(-2, 2, 1), Inputs(pointer=(0.75, 0)), [1]),
        (FORCE, Inputs(keys=["ArrowUp"]), [0, 2]),
        (FORCE, Inputs(pointer=(1, 1)), [2, -2]),  # down in the picture
        (FORCE, Inputs(pointer=(0.5, 0.5), keys=["ArrowUp"]), [0, 0]),  # the pointer comes first
        (FORCE, Inputs(axes=[0.5, -1]), [1, 2]),  # a stick that is pushed forward
        (FORCE, Inputs(axes=[0.1, 0.1]), [0, 0]),  # and one that does not rest exactly
        (PLACE, Inputs(), [256, 256]),
        (PLACE, Inputs(pointer=(0.25, 1)), [128, 512]),
        (PLACE, Inputs(keys=["ArrowRight", "ArrowUp"]), [281.6, 230.4]),  # moved by half a range/s
        (box(-1, 3, 1), Inputs(keys=["ArrowRight"]), [3]),
        (box(-3, -1, 1), Inputs(), [-1]),
        # Whole numbers have equal parts of the picture, but for those at its edges.
        (WHOLE, Inputs(pointer=(0.92, 0)), [5]),
        (WHOLE, Inputs(pointer=(0.55, 0)), [3]),
    ],
)
def test_box_actions(space, inputs, expected):
    found = acts(space, inputs)
    assert found == pytest.approx(expected)
    assert found.dtype == space.dtype
    assert space.contains(found)


def test_places_are_held_within_the_bounds():
    assert acts(PLACE, Inputs(keys=["ArrowRight"]), steps=100) == pytest.approx([512, 256])


def test_many_numbers_have_pairs_of_keys_in_their_shape():
    space = spaces.Box(-1, 1, (2, 4), np.float64)
    found = acts(space, Inputs(keys=["d", "k"]))
    assert found.tolist() == [[0, 0, 1, 0], [0, 0, 0, -1]]


@pytest.mark.parametrize(
    ("count", "keys", "expected"),
    [
        (2, [], None),  # there is no action that does nothing, so that the task waits
        (2, ["ArrowRight"], 1),
        (3, [], 1),
        (3, ["ArrowLeft"], 0),
        (4, ["ArrowUp"], 3),
        (4, ["ArrowUp", "1"], 0),  # the key that was pressed last
        (12, ["9"], 8),
    ],
)
def test_discrete_actions(count, keys, expected):
    space = spaces.Discrete(count)
    found = action_of(default_controls(Made(space), "test"), space, Inputs(keys=keys))
    assert found == expected


def test_discrete_actions_begin_where_their_space_does_and_have_their_meanings():
    space = spaces.Discrete(3, start=5)
    controls = default_controls(Made(space, ["NOOP", "FIRE", "UP"]), "test")
    found = [
        action_of(controls, space, Inputs(keys=keys)) for keys in ([], [" "], ["ArrowUp"], ["3"])
    ]
    assert found == [5, 6, 7, 7]


@pytest.mark.parametrize(
    ("count", "meanings", "button", "expected"),
    [
        (3, None, 15, 2),  # right on the cross of a gamepad
        (4, None, 12, 3),
        (6, None, 4, 4),
        (3, ["NOOP", "FIRE", "UP"], 0, 1),
        (3, ["NOOP", "FIRE", "UP"], 12, 2),
    ],
)
def test_buttons_of_a_gamepad_have_actions(count, meanings, button, expected):
    space = spaces.Discrete(count)
    controls = default_controls(Made(space, meanings), "test")
    assert action_of(controls, space, Inputs(buttons=[button])) == expected
    [told] = [each for each in describe_controls(controls) if f"action {expected}" in each["what"]]
    assert f"gamepad button {button}" in told["others"]


def test_actions_without_an_input_are_told(capsys):
    gym.register("test/Many-v0", lambda: Made(spaces.Discrete(14)), disable_env_checker=True)
    space = spaces.Discrete(14)
    assert out_of_reach(default_controls(Made(space), "test"), space) == [12, 13]
    assert out_of_reach(default_controls(Made(FORCE), "test"), FORCE) == []
    controls_for(EnvironmentSpec(id="test/Many-v0"), None)
    assert (
        "no key or button gives action 12, 13; --controls names others" in capsys.readouterr().err
    )
    few = spaces.Discrete(3)
    assert out_of_reach(default_controls(Made(few, ["NOOP", "FIRE", "UP"]), "test"), few) == []


@pytest.mark.parametrize(
    ("space", "problem"),
    [
        (spaces.MultiDiscrete([2, 2]), "have no mapping"),
        (box(-np.inf, np.inf, 1), "have no bounds"),
        (box(-1, 1, 9), "have 9 numbers"),
    ],
)
def test_spaces_without_a_mapping(space, problem):
    with pytest.raises(InputError, match=rf"^--env X: its actions {problem}.*[^\n]$"):
        default_controls(Made(space), "X")


def test_a_press_that_is_over_before_the_step_counts_once():
    earlier = Inputs(keys=["a", "b"], pointer=(0.1, 0.2), buttons=[3])
    both = Inputs(keys=["c", "a"]).after(earlier)
    assert both.keys == ["a", "b", "c"]
    assert (both.pointer, both.buttons) == ((0.1, 0.2), [3])
    assert not Inputs(axes=[0.1]).active
    assert both.active
    assert Inputs(axes=[0, -0.9]).active


def test_a_file_replaces_the_default_controls(tmp_path):
    path = tmp_path / "controls.yaml"
    path.write_text("keys: {1: 0, w: 2}\nbuttons: {4: 1}\nidle: 1\n")
    space = spaces.Discrete(3)
    controls = read_controls(path, space)
    found = [
        action_of(controls, space, inputs)
        for inputs in (Inputs(keys=["1"]), Inputs(keys=["w"]), Inputs(buttons=[4]), Inputs())
    ]
    assert found == [0, 2, 1, 1]
    assert [each["keys"] for each in describe_controls(controls)] == [["1"], [], ["w"]]
    path.write_text('{"mouse": "position", "axes": [{"low": -1, "high": 1, "rest": 0.5}]}')
    controls = read_controls(path, box(-np.inf, np.inf, 1))
    assert action_of(controls, box(-np.inf, np.inf, 1), Inputs()) == pytest.approx([0.5])


@pytest.mark.parametrize(
    ("text", "space", "problem"),
    [
        ("keys: {p: 0}", spaces.Discrete(2), "key 'p' means pause on the page"),
        ("keys: {a: 7}", spaces.Discrete(2), "there is no action 7"),
        ("keys: {a: 0}\nidle: 2", spaces.Discrete(2), "there is no action 2"),
        ("keys: {a: 0}\ncolor: 2", spaces.Discrete(2), "color: unknown key"),
        ("axes: []", box(-1, 1, 2), "has 0 axes, but an action has 2 numbers"),
        ("axes: [{rest: 3}]", box(-1, 1, 1), "axes.0.rest: 3 is not between"),
        ("axes: [{rest: 0, low: 1, high: -1}]", box(-1, 1, 1), "axes.0: low 1 and high -1 must"),
        ("axes: [{rest: 0}]", box(-np.inf, np.inf, 1), "axes.0: low -inf and high inf must"),
        ("axes: [{rest: 0, keys: [a, a]}]", box(-1, 1, 1), "key 'a' is used twice"),
        ("keys: {A: 0}", spaces.Discrete(2), "lower case; write 'a'"),
        ("axes: [{rest: 0, keys: [a, D]}]", box(-1, 1, 1), "key 'D' never comes"),
        ("axes: [{rest: up}]", box(-1, 1, 1), "axes.0.rest"),
    ],
)
def test_files_that_do_not_fit(text, space, problem, tmp_path):
    path = tmp_path / "controls.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_controls(path, space)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
