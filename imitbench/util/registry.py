"""A registry of named objects, which may be loaded only when asked for."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import gymnasium as gym
from stable_baselines3.common.vec_env import VecEnv

from imitbench.errors import did_you_mean

T = TypeVar("T")
LoaderFn = Callable[..., T]
"""What registries commonly hold: a function of an environment and further arguments."""


def load_attr(name: str) -> Any:
    """Imports an attribute.

    Args:
        name: `path.to.module:attribute`.

    Raises:
        ValueError: The name has another form.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"name must be path.to.module:attribute, not '{name}'")
    return getattr(importlib.import_module(module), attribute)


class Registry(Generic[T]):
    """Names of objects; each can be registered once and is never replaced."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        self._indirect: dict[str, str] = {}

    def get(self, key: str) -> T:
        """The object registered under `key`; its module is imported if need be.

        Raises:
            KeyError: Nothing is registered under it.
        """
        if key not in self._values:
            if key not in self._indirect:
                raise KeyError(f"'{key}' is not registered; {did_you_mean(key, self.keys())}")
            self._values[key] = load_attr(self._indirect[key])
        return self._values[key]

    def keys(self) -> Iterable[str]:
        """All names, in the order of registration."""
        return list(dict.fromkeys([*self._indirect, *self._values]))

    def register(self, key: str, value: T | None = None, *, indirect: str | None = None) -> None:
        """Registers an object.

        Args:
            key: Its name.
            value: The object.
            indirect: Where to find it instead, as `path.to.module:attribute`.

        Raises:
            KeyError: The name is taken.
            ValueError: Not exactly one of `value` and `indirect` is given.
        """
        if key in self._values or key in self._indirect:
            raise KeyError(f"'{key}' is registered already")
        if (value is None) == (indirect is None):
            raise ValueError("give exactly one of value and indirect")
        if value is not None:
            self._values[key] = value
        elif indirect is not None:
            self._indirect[key] = indirect


def build_loader_fn_require_space(
    fn: Callable[[gym.Space[Any], gym.Space[Any]], T], **kwargs: Any
) -> LoaderFn[T]:
    """Makes a loader of a factory that takes an observation and an action space.

    Args:
        fn: The factory.
        **kwargs: Further arguments of it.
    """

    @functools.wraps(fn)
    def load(venv: VecEnv, **more: Any) -> T:
        return fn(venv.observation_space, venv.action_space, **kwargs, **more)

    return load


def build_loader_fn_require_env(fn: Callable[[VecEnv], T], **kwargs: Any) -> LoaderFn[T]:
    """Makes a loader of a factory that takes an environment.

    Args:
        fn: The factory.
        **kwargs: Further arguments of it.
    """

    @functools.wraps(fn)
    def load(venv: VecEnv, **more: Any) -> T:
        return fn(venv, **kwargs, **more)

    return load
