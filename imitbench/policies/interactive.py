"""Policies that ask a person at the terminal, for demonstrations and for DAgger."""

from __future__ import annotations

import abc
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space_channels_first
from stable_baselines3.common.vec_env import VecEnv

from imitbench.policies.base import NonTrainablePolicy
from imitbench.util.extras import import_extra

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = npt.NDArray[Any]

_CLEAR_SCREEN = "\x1b[2J\x1b[H"
_ENDED = "the input ended before an action was entered"

ATARI_ACTION_NAMES_TO_KEYS = {
    "NOOP": "1",
    "FIRE": "2",
    "UP": "w",
    "RIGHT": "d",
    "LEFT": "a",
    "DOWN": "x",
    "UPRIGHT": "e",
    "UPLEFT": "q",
    "DOWNRIGHT": "c",
    "DOWNLEFT": "z",
    "UPFIRE": "t",
    "RIGHTFIRE": "h",
    "LEFTFIRE": "f",
    "DOWNFIRE": "b",
    "UPRIGHTFIRE": "y",
    "UPLEFTFIRE": "r",
    "DOWNRIGHTFIRE": "n",
    "DOWNLEFTFIRE": "v",
}
"""Keys in the same arrangement on a keyboard as the directions."""


class DiscreteInteractivePolicy(NonTrainablePolicy, abc.ABC):
    """Shows each observation to a person and takes the action whose key is entered.

    Args:
        observation_space: That of the environment.
        action_space: Must be Discrete.
        action_keys_names: Names of actions by key, in the order of the actions.
        clear_screen_on_query: Whether to clear the terminal before each question.
        input_stream: Source of answers, one per line; by default Python's `input`, which notebooks
            replace.
        output_stream: Destination of questions; standard output by default.

    Raises:
        ValueError: The actions are not discrete, or there is not exactly one distinct key and name
            per action.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        action_keys_names: Mapping[str, str],
        clear_screen_on_query: bool = True,
        *,
        input_stream: TextIO | None = None,
        output_stream: TextIO | None = None,
    ) -> None:
        super().__init__(observation_space, action_space)
        if not isinstance(action_space, spaces.Discrete):
            raise ValueError(f"action_space: must be discrete, not {action_space}")
        if len(action_keys_names) != action_space.n:
            raise ValueError(
                f"action_keys_names: has {len(action_keys_names)} keys for {action_space.n} actions"
            )
        if len(set(action_keys_names.values())) != len(action_keys_names):
            raise ValueError("action_keys_names: two actions have the same name")
        self.action_keys_names = dict(action_keys_names)
        self.clear_screen_on_query = clear_screen_on_query
        first = int(action_space.start)
        self._actions = {key: first + index for index, key in enumerate(action_keys_names)}
        self._input, self._output = input_stream, output_stream

    def _choose_action(self, obs: Any) -> Array:
        if self.clear_screen_on_query and self._out.isatty():
            self._out.write(_CLEAR_SCREEN)
        context = self._render(obs)
        try:
            key = self._get_input_key()
        finally:
            self._clean_up(context)
        return np.array(self._actions[key])

    @property
    def _out(self) -> TextIO:
        return self._output if self._output is not None else sys.stdout

    def _get_input_key(self) -> str:
        """Asks until the answer is a key of an action.

        Raises:
            EOFError: The input ended.
        """
        choices = ", ".join(f"{name}: {key}" for key, name in self.action_keys_names.items())
        question = f"Choose an action ({choices}) and press Enter: "
        while True:
            key = self._answer(question)
            if key in self._actions:
                return key
            question = f"'{key}' is not the key of an action. {choices}: "

    def _answer(self, question: str) -> str:
        if self._input is not None or self._output is not None:
            self._out.write(question)
            self._out.flush()
            question = ""
        if self._input is None:
            try:
                return input(question).strip()
            except EOFError:
                raise EOFError(_ENDED) from None
        line = self._input.readline()
        if not line:
            raise EOFError(_ENDED)
        return line.strip()

    @abc.abstractmethod
    def _render(self, obs: Any) -> object | None:
        """Shows an observation.

        Returns:
            Argument of `_clean_up`.
        """

    def _clean_up(self, context: object | None) -> None:
        """Removes the observation shown by `_render`, after the action is chosen."""
        del context


class ImageObsDiscreteInteractivePolicy(DiscreteInteractivePolicy):
    """Shows image observations in a window; needs matplotlib."""

    def _render(self, obs: Array) -> Figure:
        plt = import_extra("matplotlib.pyplot", "interactive", "showing images")
        image = self._prepare_obs_image(obs)
        figure: Figure
        figure, axes = plt.subplots()
        axes.imshow(image, cmap="gray" if image.ndim == 2 else None)
        axes.axis("off")
        plt.show(block=False)
        # A window is drawn only while its event loop runs.
        figure.canvas.draw_idle()
        figure.canvas.flush_events()
        return figure

    def _clean_up(self, context: object | None) -> None:
        import matplotlib.pyplot as plt

        plt.close(context)  # type: ignore[arg-type]

    def _prepare_obs_image(self, obs: Array) -> Array:
        """Converts an observation to an image; override for other encodings.

        Args:
            obs: Shape (height, width), or with channels first or last, as in the space.

        Returns:
            Shape (height, width) or (height, width, 3); the latest of stacked frames.
        """
        space = self.observation_space
        if obs.ndim != 3:
            return obs
        image = obs
        if isinstance(space, spaces.Box) and is_image_space_channels_first(space):
            image = np.moveaxis(obs, 0, -1)
        # Three channels are colors; any other number are grey frames.
        return image[..., -3:] if image.shape[-1] % 3 == 0 else image[..., -1]


class AtariInteractivePolicy(ImageObsDiscreteInteractivePolicy):
    """Asks for actions of an Atari game, with the keys of `ATARI_ACTION_NAMES_TO_KEYS`.

    Args:
        env: The game, single or vectorized.
        *args: Passed to `DiscreteInteractivePolicy`, after the keys.
        **kwargs: Passed to `DiscreteInteractivePolicy`.

    Raises:
        ValueError: The environment does not name its actions, or names unknown ones.
    """

    def __init__(self, env: gym.Env[Any, Any] | VecEnv, *args: Any, **kwargs: Any) -> None:
        names = _action_names(env)
        unknown = [name for name in names if name not in ATARI_ACTION_NAMES_TO_KEYS]
        if unknown:
            raise ValueError(f"env: has actions without a key: {', '.join(unknown)}")
        keys_names = {ATARI_ACTION_NAMES_TO_KEYS[name]: name for name in names}
        super().__init__(env.observation_space, env.action_space, keys_names, *args, **kwargs)


def _action_names(env: gym.Env[Any, Any] | VecEnv) -> list[str]:
    try:
        if isinstance(env, VecEnv):
            return list(env.env_method("get_action_meanings", indices=[0])[0])
        return list(env.get_wrapper_attr("get_action_meanings")())
    except AttributeError:
        raise ValueError(
            "env: not an Atari game: it has no get_action_meanings; use "
            "ImageObsDiscreteInteractivePolicy with your own keys"
        ) from None
