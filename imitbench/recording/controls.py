"""Maps what a person presses and points at to actions, for Box and Discrete action spaces."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from pydantic import BaseModel, Field

from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Action = Any
"""An action of the environment: an array for a Box, a number for a Discrete space."""

PAGE_KEYS = {
    "Enter": "keep",
    "Backspace": "discard",
    "r": "restart",
    "z": "undo",
    "p": "pause",
    "c": "take over or give back",
    "?": "help",
}
"""Keys that the page uses itself, and what for."""

MOST_KEYED_AXES = 8
"""Numbers of a Box action that have keys by default."""

_DEAD_ZONE = 0.15  # of gamepads, whose axes rarely rest at exactly 0
_PAIRS = (
    ("ArrowLeft", "ArrowRight"), ("ArrowDown", "ArrowUp"), ("a", "d"), ("s", "w"),
    ("f", "h"), ("g", "t"), ("j", "l"), ("k", "i"),
)  # fmt: skip
_FEW = {
    2: ({"ArrowLeft": 0, "ArrowRight": 1}, None),
    3: ({"ArrowLeft": 0, "ArrowDown": 1, "ArrowRight": 2}, 1),
    4: ({"ArrowLeft": 0, "ArrowDown": 1, "ArrowRight": 2, "ArrowUp": 3}, None),
}
_MEANT = {
    "UP": ("ArrowUp",), "DOWN": ("ArrowDown",), "LEFT": ("ArrowLeft",), "RIGHT": ("ArrowRight",),
    "FIRE": (" ",),
}  # fmt: skip

# Buttons of a gamepad with the standard layout: its cross, and the lower one on the right.
_BUTTONS = {"ArrowUp": 12, "ArrowDown": 13, "ArrowLeft": 14, "ArrowRight": 15, " ": 0}
_MOST_BUTTONS = 12  # before those of the cross

Key = Annotated[str, Field(min_length=1, max_length=20)]


class Inputs(BaseModel, extra="forbid"):
    """What a person does at one moment, as the page sends it.

    Attributes:
        keys: Keys that are down, as `KeyboardEvent.key` names them, letters in lower case; the
            one that was pressed last comes last.
        pointer: Position in the picture, from its left and upper edge, as fractions of its size;
            `None` if the person does not point.
        axes: Axes of the gamepad, from -1 to 1.
        buttons: Numbers of its buttons that are down.
    """

    keys: list[Key] = Field(default=[], max_length=16)
    pointer: (
        tuple[Annotated[float, Field(ge=0, le=1)], Annotated[float, Field(ge=0, le=1)]] | None
    ) = None
    axes: list[Annotated[float, Field(ge=-1, le=1)]] = Field(default=[], max_length=16)
    buttons: list[Annotated[int, Field(ge=0, le=63)]] = Field(default=[], max_length=64)

    @property
    def active(self) -> bool:
        """Whether the person does anything."""
        moved = any(abs(value) > _DEAD_ZONE for value in self.axes)
        return bool(self.keys or self.buttons or moved) or self.pointer is not None

    def after(self, earlier: Inputs) -> Inputs:
        """Adds what was pressed earlier and may be released already, so that no press is lost."""
        return Inputs.model_construct(
            keys=list(dict.fromkeys([*earlier.keys, *self.keys])),
            pointer=self.pointer or earlier.pointer,
            axes=self.axes,
            buttons=list(dict.fromkeys([*earlier.buttons, *self.buttons])),
        )


class _Strict(BaseModel, extra="forbid", frozen=True):
    pass


class AxisControl(_Strict):
    """Where one number of a Box action comes from: the pointer, else keys, else the gamepad.

    Attributes:
        mouse: Direction of the pointer in which it increases; y points down.
        keys: Key for the lowest, and key for the highest value.
        gamepad: Number of the axis.
        inverted: Whether the gamepad's highest value means the lowest one; its y points down.
        low: Lowest value; the space's bound if `None`.
        high: Highest value; the space's bound if `None`.
        rest: Value without an input; `hold` for the last value, which keys and gamepad then move.
        speed: How fast they move it, in ranges per second.
    """

    mouse: Literal["x", "-x", "y", "-y"] | None = None
    keys: tuple[Key, Key] | None = None
    gamepad: int | None = Field(default=None, ge=0, le=15)
    inverted: bool = False
    low: float | None = Field(default=None, allow_inf_nan=False)
    high: float | None = Field(default=None, allow_inf_nan=False)
    rest: Annotated[float, Field(allow_inf_nan=False)] | Literal["hold"]
    speed: float = Field(default=0.5, gt=0, le=100)


class BoxControls(_Strict):
    """Controls of a Box space.

    Attributes:
        mouse: Whether the pointer counts while a button is pressed, or from the first press of an
            episode on.
        axes: One for each number of the action, in order.
    """

    mouse: Literal["drag", "position"] = "drag"
    axes: list[AxisControl]


class DiscreteControls(_Strict):
    """Controls of a Discrete space.

    Attributes:
        keys: Action of each key; the key that was pressed last counts.
        buttons: Action of each button of the gamepad.
        idle: Action without an input; `None` to let the task wait for one.
    """

    keys: dict[Key, int] = Field(min_length=1, max_length=64)
    buttons: dict[int, int] = {}
    idle: int | None = None


Controls = BoxControls | DiscreteControls


def default_controls(env: gym.Env[Any, Any], env_id: str) -> Controls:
    """Returns controls that fit an environment's actions.

    Raises:
        InputError: Its action space has no mapping.
    """
    space = env.action_space
    if isinstance(space, spaces.Discrete):
        return _discrete(env, int(space.start), int(space.n))
    bounded = isinstance(space, spaces.Box) and space.is_bounded("both")
    if not isinstance(space, spaces.Box):
        raise InputError(
            f"--env {env_id}: its actions have no mapping ({one_line(space, 80)}); people can act "
            "in Box and Discrete spaces"
        )
    size = int(np.prod(space.shape))
    if not bounded or size > MOST_KEYED_AXES:
        what = f"{size} numbers" if bounded else "no bounds"
        raise InputError(
            f"--env {env_id}: its actions have {what}, for which there is no default mapping; "
            "write one and name it by --controls"
        )
    low, high = space.low.ravel(), space.high.ravel()
    axes = []
    for number in range(size):
        is_position = bool(low[number] >= 0)  # a position is held, a force ends with the key
        mouse = ("x", "y" if is_position else "-y", None)[min(number, 2)]
        keys = _PAIRS[number]
        axes.append(
            AxisControl.model_validate(
                {
                    "mouse": mouse,
                    "keys": keys[::-1] if number == 1 and is_position else keys,
                    "gamepad": number if number < 4 else None,
                    "inverted": number in (1, 3) and not is_position,
                    "rest": "hold" if is_position else min(0.0, float(high[number])),
                }
            )
        )
    return BoxControls(axes=axes)


def _discrete(env: gym.Env[Any, Any], start: int, count: int) -> DiscreteControls:
    meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
    digits = {str(number + 1): start + number for number in range(min(count, 9))}
    if len(meanings) == count:
        known: dict[str, int] = {}
        for number, name in enumerate(meanings):
            for key in _MEANT.get(name, ()):
                known[key] = start + number
        idle = start + meanings.index("NOOP") if "NOOP" in meanings else None
    else:
        keys, rest = _FEW.get(count, ({}, None))
        known = {key: start + number for key, number in keys.items()}
        idle = None if rest is None else start + rest
    numbered = {number: start + number for number in range(min(count, _MOST_BUTTONS))}
    buttons = {_BUTTONS[key]: action for key, action in known.items()}
    return DiscreteControls(keys={**known, **digits}, buttons=buttons or numbered, idle=idle)


def out_of_reach(controls: Controls, space: gym.Space[Any]) -> list[int]:
    """Returns the actions of a Discrete space that no key, no button and no rest gives."""
    if not isinstance(controls, DiscreteControls) or not isinstance(space, spaces.Discrete):
        return []
    given = {*controls.keys.values(), *controls.buttons.values(), controls.idle}
    every = range(int(space.start), int(space.start) + int(space.n))
    return [action for action in every if action not in given]


def read_controls(path: Path, space: gym.Space[Any]) -> Controls:
    """Reads controls from a YAML or JSON file, and checks that they fit a space.

    Raises:
        InputError: The file cannot be read, or does not fit.
    """
    if isinstance(space, spaces.Discrete):
        controls: Controls = read_yaml_model(path, DiscreteControls, _texts)
    elif isinstance(space, spaces.Box):
        controls = read_yaml_model(path, BoxControls)
    else:
        raise InputError(f"{path}: people can act in Box and Discrete spaces only, not in {space}")
    ActionMapper(controls, space, str(path))
    return controls


def _texts(document: dict[str, Any]) -> dict[str, Any]:
    """Reads keys such as `1: 0`, which YAML takes for numbers, as texts."""
    keys = document.get("keys")
    if isinstance(keys, dict):
        document = {**document, "keys": {str(key): value for key, value in keys.items()}}
    return document


class ActionMapper:
    """Makes actions of inputs; remembers the numbers that are held.

    Args:
        controls: Where actions come from.
        space: The action space.
        where: Name of the controls in errors.

    Raises:
        InputError: The controls do not fit the space.
    """

    def __init__(self, controls: Controls, space: gym.Space[Any], where: str) -> None:
        self._space = space
        self._controls = controls
        used = _used_keys(controls)
        if upper := sorted({key for key in used if len(key) == 1 and key != key.lower()}):
            raise InputError(
                f"{where}: key '{upper[0]}' never comes: the page names letters in lower case; "
                f"write '{upper[0].lower()}'"
            )
        if reserved := sorted({key for key in used if key in PAGE_KEYS}):
            raise InputError(
                f"{where}: key '{reserved[0]}' means {PAGE_KEYS[reserved[0]]} on the page; "
                "choose another"
            )
        if double := sorted({key for key in used if used.count(key) > 1}):
            raise InputError(f"{where}: key '{double[0]}' is used twice; choose another")
        if isinstance(controls, DiscreteControls):
            self._check_discrete(controls, where)
        else:
            self._check_box(controls, where)
        self.begin()

    def begin(self, last: Action | None = None) -> None:
        """Begins an episode, or continues one after an action."""
        if isinstance(self._controls, BoxControls):
            middle = (self._low + self._high) / 2
            self._held = middle if last is None else np.asarray(last, np.float64).ravel().copy()

    def action(self, inputs: Inputs, seconds: float) -> Action | None:
        """Returns the action of a step.

        Args:
            inputs: What the person does.
            seconds: Length of a step.

        Returns:
            `None` if the task waits for an input.
        """
        if isinstance(self._controls, DiscreteControls):
            return self._choice(self._controls, inputs)
        for number, axis in enumerate(self._controls.axes):
            self._held[number] = self._value(axis, number, inputs, seconds)
        assert isinstance(self._space, spaces.Box)
        whole = np.issubdtype(self._space.dtype, np.integer)
        acts = (np.rint(self._held) if whole else self._held).astype(self._space.dtype)
        acts = acts.reshape(self._space.shape)
        return np.clip(acts, self._space.low, self._space.high)

    def _value(self, axis: AxisControl, number: int, inputs: Inputs, seconds: float) -> float:
        low, high = self._low[number], self._high[number]
        if axis.mouse is not None and inputs.pointer is not None:
            share = inputs.pointer["xy".index(axis.mouse[-1])]
            return float(low + (high - low) * (1 - share if axis.mouse[0] == "-" else share))
        push = 0.0
        if axis.keys is not None:
            push = float((axis.keys[1] in inputs.keys) - (axis.keys[0] in inputs.keys))
        if push == 0 and axis.gamepad is not None and axis.gamepad < len(inputs.axes):
            read = inputs.axes[axis.gamepad] * (-1 if axis.inverted else 1)
            push = read if abs(read) > _DEAD_ZONE else 0.0
        if axis.rest == "hold":
            moved = self._held[number] + push * axis.speed * (high - low) * seconds
            return float(min(max(moved, low), high))
        return float(axis.rest + push * (high - axis.rest if push > 0 else axis.rest - low))

    def _choice(self, controls: DiscreteControls, inputs: Inputs) -> Action | None:
        for key in reversed(inputs.keys):
            if key in controls.keys:
                return np.int64(controls.keys[key])
        for button in inputs.buttons:
            if button in controls.buttons:
                return np.int64(controls.buttons[button])
        return None if controls.idle is None else np.int64(controls.idle)

    def _check_discrete(self, controls: DiscreteControls, where: str) -> None:
        named = [*controls.keys.values(), *controls.buttons.values()]
        named += [] if controls.idle is None else [controls.idle]
        for action in named:
            if not self._space.contains(np.int64(action)):
                raise InputError(f"{where}: there is no action {action} in {self._space}")

    def _check_box(self, controls: BoxControls, where: str) -> None:
        assert isinstance(self._space, spaces.Box)
        size = int(np.prod(self._space.shape))
        if len(controls.axes) != size:
            raise InputError(
                f"{where}: has {len(controls.axes)} axes, but an action has {size} numbers"
            )
        self._low, self._high = np.empty(size), np.empty(size)
        bounds = zip(self._space.low.ravel(), self._space.high.ravel(), strict=True)
        for number, (axis, (least, most)) in enumerate(zip(controls.axes, bounds, strict=True)):
            low = float(least) if axis.low is None else axis.low
            high = float(most) if axis.high is None else axis.high
            inside = math.isfinite(low) and math.isfinite(high) and least <= low < high <= most
            if not inside:
                raise InputError(
                    f"{where}: axes.{number}: low {low:g} and high {high:g} must be numbers from "
                    f"{least:g} to {most:g}, the lower one first"
                )
            if axis.rest != "hold" and not low <= axis.rest <= high:
                raise InputError(
                    f"{where}: axes.{number}.rest: {axis.rest:g} is not between low {low:g} and "
                    f"high {high:g}"
                )
            self._low[number], self._high[number] = low, high


def _used_keys(controls: Controls) -> Sequence[str]:
    if isinstance(controls, DiscreteControls):
        return list(controls.keys)
    return [key for axis in controls.axes for key in axis.keys or ()]


def describe_controls(controls: Controls) -> list[dict[str, Any]]:
    """Returns what the page lists: the inputs of each action, or of each of its numbers.

    Returns:
        Each with `what`, `keys` (each with the action or direction that it means) and `others`,
        texts on the pointer and the gamepad.
    """
    if isinstance(controls, DiscreteControls):
        actions = sorted({*controls.keys.values(), *controls.buttons.values()})
        return [
            {
                "what": f"action {action}" + (" (also without a key)" * (action == controls.idle)),
                "keys": [key for key, value in controls.keys.items() if value == action],
                "others": [
                    f"gamepad button {button}"
                    for button, value in controls.buttons.items()
                    if value == action
                ],
            }
            for action in actions
        ]
    how = "drag" if controls.mouse == "drag" else "pointer"
    return [
        {
            "what": f"number {number + 1} of the action",
            "keys": list(axis.keys or ()),
            "others": ([f"{how} {axis.mouse}"] if axis.mouse else [])
            + ([f"gamepad axis {axis.gamepad}"] if axis.gamepad is not None else []),
        }
        for number, axis in enumerate(controls.axes)
    ]
