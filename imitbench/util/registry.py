"""A registry of named objects, which can be imported on first use."""

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
"""A function of an environment and further arguments, the usual type of registered objects."""


def load_attr(name: str) -> Any:
    """Imports an attribute.

    Args:
        name: `path.to.module:attribute`.

    Raises:
        ValueError: The name does not have this form.
    """
    module, colon, attribute = name.partition(":")
    if not colon:
        raise ValueError(f"name must be path.to.module:attribute, not '{name}'")
    return getattr(importlib.import_module(module), attribute)


class Registry(Generic[T]):
    """Maps names to objects; a name can be registered only once."""

    def __init__(self) -> None:
        self._values: dict[str, T] = {}
        self._indirect: dict[str, str] = {}

    def get(self, key: str) -> T:
        """Returns the object registered under `key`; imports its module if necessary.

        Raises:
            KeyError: The name is not registered.
        """
        if key not in self._values:
            if key not in self._indirect:
                raise KeyError(f"'{key}' is not registered; {did_you_mean(key, self.keys())}")
            self._values[key] = load_attr(self._indirect[key])
        return self._values[key]

    def keys(self) -> Iterable[str]:
        """Returns all names, in the order of registration."""
        return list(dict.fromkeys([*self._indirect, *self._values]))

    def register(self, key: str, value: T | None = None, *, indirect: str | None = None) -> None:
        """Registers an object.

        Args:
            key: Name of the object.
            value: The object.
            indirect: Location of the object instead, as `path.to.module:attribute`.

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
    """Turns a factory that takes observation and action space into a loader.

    Args:
        fn: The factory.
        **kwargs: Further arguments of the factory.
    """

    @functools.wraps(fn)
    def load(venv: VecEnv, **more: Any) -> T:
        return fn(venv.observation_space, venv.action_space, **kwargs, **more)

    return load


def build_loader_fn_require_env(fn: Callable[[VecEnv], T], **kwargs: Any) -> LoaderFn[T]:
    """Turns a factory that takes an environment into a loader.

    Args:
        fn: The factory.
        **kwargs: Further arguments of the factory.
    """

    @functools.wraps(fn)
    def load(venv: VecEnv, **more: Any) -> T:
        return fn(venv, **kwargs, **more)

    return load
