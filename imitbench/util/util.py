"""Helpers of the public API for environments, seeds, tensors and paths."""

from __future__ import annotations

import datetime
import functools
import importlib
import itertools
import os
import sys
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

AnyPath = str | bytes | os.PathLike[str]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

_MAX_SEED = 2**31 - 1


def make_unique_timestamp() -> str:
    """Returns the local time to the second, with six random digits against collisions."""
    stamp = datetime.datetime.now().strftime("%Y%m%d_%H%M%S")
    return f"{stamp}_{uuid.uuid4().hex[:6]}"


@overload
def make_seeds(rng: np.random.Generator) -> int: ...


@overload
def make_seeds(rng: np.random.Generator, n: int) -> list[int]: ...


def make_seeds(rng: np.random.Generator, n: int | None = None) -> list[int] | int:
    """Draws seeds.

    Args:
        rng: Generator of the seeds.
        n: Number of seeds; `None` for a single integer.

    Returns:
        Integers in [0, 2**31 - 1).
    """
    seeds: list[int] = rng.integers(0, _MAX_SEED, 1 if n is None else n).tolist()
    return seeds[0] if n is None else seeds


def make_vec_env(
    env_name: str,
    *,
    rng: np.random.Generator,
    n_envs: int = 8,
    parallel: bool = False,
    log_dir: str | None = None,
    max_episode_steps: int | None = None,
    post_wrappers: Sequence[Callable[[gym.Env[Any, Any], int], gym.Env[Any, Any]]] | None = None,
    env_make_kwargs: Mapping[str, Any] | None = None,
) -> VecEnv:
    """Creates a vectorized environment.

    Args:
        env_name: Gymnasium id, optionally `module:id` to import the module that registers it.
        rng: Generator of the environments' seeds.
        n_envs: Number of environments.
        parallel: Whether each environment runs in a separate process. For cheap environments, a
            single process is faster.
        log_dir: Folder for the monitors' episode files; `None` for none.
        max_episode_steps: Largest length of episodes; by default as registered.
        post_wrappers: Called with (environment, index) inside the monitor, in this order.
        env_make_kwargs: Keyword arguments of the environment.

    Returns:
        The environments, seeded.
    """
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import SubprocVecEnv

    from imitbench.util.serial_vec_env import SerialVecEnv

    module, colon, _ = env_name.partition(":")
    if colon:
        importlib.import_module(module)
    spec = gym.spec(env_name.rpartition(":")[2])
    if max_episode_steps is not None:
        spec = _with_max_episode_steps(spec, max_episode_steps)

    def make(index: int, seed: int) -> gym.Env[Any, Any]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")
            env: gym.Env[Any, Any] = gym.make(spec, **(env_make_kwargs or {}))
        env.reset(seed=seed)
        env.action_space.seed(seed)
        monitor_file = None
        if log_dir is not None:
            folder = Path(log_dir) / "monitor"
            folder.mkdir(parents=True, exist_ok=True)
            monitor_file = str(folder / f"mon{index:03d}")
        env = Monitor(env, monitor_file)
        for wrapper in post_wrappers or ():
            env = wrapper(env, index)
        return env

    seeds = make_seeds(rng, n_envs)
    makers: list[Callable[[], gym.Env[Any, Any]]] = [
        functools.partial(make, index, seed) for index, seed in enumerate(seeds)
    ]
    venv = SubprocVecEnv(makers, start_method="forkserver") if parallel else SerialVecEnv(makers)
    venv.seed(make_seeds(rng))
    return venv


def _with_max_episode_steps(spec: gym.envs.registration.EnvSpec, steps: int) -> Any:
    import copy

    changed = copy.deepcopy(spec)
    changed.max_episode_steps = steps
    return changed


def docstring_parameter(*args: Any, **kwargs: Any) -> Callable[[F], F]:
    """Fills the placeholders of a docstring with `str.format`."""

    def fill(obj: F) -> F:
        if obj.__doc__ is not None:
            obj.__doc__ = obj.__doc__.format(*args, **kwargs)
        return obj

    return fill


def endless_iter(iterable: Iterable[T]) -> Iterator[T]:
    """Repeats an iterable forever.

    Raises:
        ValueError: `iterable` is an iterator, which can be consumed only once, or is empty.
    """
    # The length first: iterating over a loader draws random numbers.
    if not isinstance(iterable, Sized):
        if iter(iterable) is iterable:
            raise ValueError("iterable is an iterator, which can be consumed only once")
        get_first_iter_element(iterable)
    elif len(iterable) == 0:
        raise ValueError("iterable has no elements")
    return itertools.chain.from_iterable(itertools.repeat(iterable))


def get_first_iter_element(iterable: Iterable[T]) -> tuple[T, Iterable[T]]:
    """Returns the first element without losing it.

    Returns:
        The first element, and an iterable with all of them.

    Raises:
        ValueError: The iterable is empty.
    """
    iterator = iter(iterable)
    try:
        first = next(iterator)
    except StopIteration:
        raise ValueError("iterable has no elements") from None
    if iterator is iterable:
        return first, itertools.chain([first], iterator)
    return first, iterable


def safe_to_tensor(array: npt.NDArray[Any] | th.Tensor, **kwargs: Any) -> th.Tensor:
    """Converts an array to a tensor; copies only read-only arrays.

    Args:
        array: Array or tensor.
        **kwargs: Passed on to `torch.as_tensor`.
    """
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = array.copy()
    return th.as_tensor(array, **kwargs)


@overload
def safe_to_numpy(obj: npt.NDArray[Any] | th.Tensor, warn: bool = False) -> npt.NDArray[Any]: ...


@overload
def safe_to_numpy(obj: None, warn: bool = False) -> None: ...


def safe_to_numpy(
    obj: npt.NDArray[Any] | th.Tensor | None, warn: bool = False
) -> npt.NDArray[Any] | None:
    """Converts a tensor to an array; arrays and `None` are returned unchanged.

    Args:
        obj: Tensor, array or `None`.
        warn: Whether to warn that converting a tensor copies it.
    """
    if not isinstance(obj, th.Tensor):
        return obj
    if warn:
        warnings.warn("converting a tensor to an array copies it", stacklevel=2)
    converted: npt.NDArray[Any] = obj.detach().cpu().numpy()
    return converted


def tensor_iter_norm(tensor_iter: Iterable[th.Tensor], ord: int | float = 2) -> th.Tensor:
    """Computes the norm of the concatenation of tensors.

    Args:
        tensor_iter: Tensors of any shape.
        ord: Order of the norm, neither 0 nor NaN.

    Raises:
        ValueError: The order is 0 or NaN.
    """
    if ord == 0 or ord != ord:
        raise ValueError(f"ord must be neither 0 nor NaN, not {ord}")
    norms = [th.linalg.vector_norm(tensor, ord=ord) for tensor in tensor_iter]
    total: th.Tensor = th.linalg.vector_norm(th.stack(norms), ord=ord)
    return total


def oric(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rounds numbers to integers with the same sum, changing each as little as possible.

    Args:
        x: Shape (n,), numbers whose sum is an integer.

    Returns:
        Integers, shape (n,).

    Source: Cont and Heidari 2014, "Optimal rounding under integer constraints".
    """
    floors = np.floor(x)
    missing = round(float(np.sum(x) - np.sum(floors)))
    # Numbers with the largest fractional parts change least if rounded up.
    up = np.argsort(-(x - floors), kind="stable")[:missing]
    rounded: npt.NDArray[Any] = floors.astype(int)
    rounded[up] += 1
    return rounded


def parse_path(
    path: AnyPath, allow_relative: bool = True, base_directory: Path | None = None
) -> Path:
    """Converts a path to an absolute path.

    Args:
        path: Absolute or relative path.
        allow_relative: Whether relative paths are allowed.
        base_directory: Base of relative paths; `None` for the current folder.

    Raises:
        ValueError: Relative paths are not allowed but `path` is relative, or a base is given.
    """
    if base_directory is not None and not allow_relative:
        raise ValueError("base_directory requires allow_relative=True")
    parsed = Path(os.fsdecode(path))
    if parsed.is_absolute():
        return parsed
    if not allow_relative:
        raise ValueError(f"path must be absolute, not {parsed}")
    return Path.cwd() / (base_directory or "") / parsed


def parse_optional_path(
    path: AnyPath | None, allow_relative: bool = True, base_directory: Path | None = None
) -> Path | None:
    """Does what `parse_path` does; returns `None` for `None`."""
    if path is None:
        return None
    return parse_path(path, allow_relative, base_directory)


def split_in_half(x: int) -> tuple[int, int]:
    """Splits a number into two halves with the same sum; of an odd one the second is larger."""
    return x // 2, x - x // 2


def clear_screen() -> None:
    """Clears the terminal; does nothing where the output is not one."""
    if sys.stdout.isatty():
        print("\033[2J\033[H", end="", flush=True)
