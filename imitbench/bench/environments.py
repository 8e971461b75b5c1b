"""Builds the environments that specifications name."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr
from functools import partial
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from gymnasium.wrappers import TimeLimit

from imitbench.cards.suite import SuiteCard
from imitbench.errors import InputError
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.extras import check_extra, extra_of_environment, fix_of
from imitbench.util.library_patches import report_mujoco_warnings
from imitbench.util.source_import import forget_module, import_source
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from stable_baselines3.common.vec_env import VecEnv

_in_batches: dict[tuple[type, str], bool] = {}  # by class and specification
_threads = 1  # of the simulator
_registered: dict[str, str] = {}  # by environment id: digest of the source that registered it last


def make_environment(spec: EnvironmentSpec) -> gym.Env[Any, Any]:
    """Builds one environment.

    Raises:
        InputError: The environment is not installed or not registered.
    """
    extra = extra_of_environment(spec.gym_id, spec.module)
    if extra is not None:
        check_extra(extra, f"environment {spec.id}")
    try:
        if spec.module_digest is not None:
            _import_beside_suite(spec, spec.module_digest)
        elif spec.module:
            _import_quietly(spec.module)
        if extra == "atari":  # games are registered when it is imported
            importlib.import_module("ale_py")
        _import_entry_point(spec.gym_id)
        report_mujoco_warnings()
        with warnings.catch_warnings():
            # Gymnasium warns when it rounds the bounds of a Box to its dtype; that is harmless.
            warnings.filterwarnings("ignore", message=".*precision lowered by casting.*")
            return _disturbed(spec) if spec.active_wrappers else _make(spec.gym_id, **spec.kwargs)
    except (ImportError, gym.error.Error) as error:
        reason = str(error).splitlines()[0]
        if fix := fix_of(error):
            raise InputError(
                f"environment {spec.id}: cannot be loaded ({reason}); {fix}"
            ) from error
        raise InputError(
            f"environment {spec.id}: cannot be created ({reason}); "
            "run `imitbench doctor` to see what is missing"
        ) from error


def _make(gym_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    env = gym.make(gym_id, disable_env_checker=True, **kwargs)
    # Mazes of Gymnasium-Robotics leave the file with their model, which they have read by now.
    model = getattr(env.unwrapped, "tmp_xml_file_path", None)
    if model is not None:
        Path(model).unlink(missing_ok=True)
    return env


def _import_quietly(module: str) -> None:
    """Imports a module that registers environments."""
    if module != "gymnasium_robotics" or module in sys.modules:
        importlib.import_module(module)
        return
    with redirect_stderr(StringIO()):  # it prints news about some of its environments
        importlib.import_module(module)


def _disturbed(spec: EnvironmentSpec) -> gym.Env[Any, Any]:
    """Builds an environment with its wrappers, within its time limit."""
    from imitbench.envs.wrappers import disturbed

    limit: Any = spec.kwargs.get("max_episode_steps", gym.spec(spec.gym_id).max_episode_steps)
    plain = _make(spec.gym_id, **{**spec.kwargs, "max_episode_steps": -1})
    try:
        env = disturbed(plain, spec.active_wrappers)
    except ValueError as error:
        raise InputError(f"environment {spec.id}: {error}; remove it from the card") from error
    return env if limit in (None, -1) else TimeLimit(env, limit)


def check_variants(suite: SuiteCard, env_ids: Iterable[str]) -> None:
    """Checks that variants have the spaces of the environments that they change.

    Args:
        suite: Card of their suite.
        env_ids: Environments of the suite; only its variants are made.

    Raises:
        InputError: The spaces of one differ, or it cannot be created.
    """
    for env_id in env_ids:
        card = suite.environments[env_id]
        if card.variant_of is None:
            continue
        base = suite.environments[card.variant_of]
        own, other = (
            spaces_of(EnvironmentSpec.of_card(*entry).evaluated)
            for entry in ((env_id, card), (card.variant_of, base))
        )
        for what, one, wanted in zip(("observations", "actions"), own, other, strict=True):
            if one != wanted:
                raise InputError(
                    f"suite {suite.name}: {env_id}: has {what} {one_line(one, 200)}, but "
                    f"{card.variant_of} has {one_line(wanted, 200)}; a variant must not change "
                    "spaces, so correct its kwargs or make it an environment of its own"
                )


def spaces_of(spec: EnvironmentSpec) -> tuple[gym.Space[Any], gym.Space[Any]]:
    """Returns the spaces of observations and actions of an environment."""
    env = make_environment(spec)
    env.close()
    return env.observation_space, env.action_space


def _import_entry_point(env_id: str) -> None:
    """Imports the module of a registered environment, as Gymnasium does when it is made."""
    registered = gym.registry.get(env_id)
    if registered is not None and isinstance(registered.entry_point, str):
        load_env_creator(registered.entry_point)


def _import_beside_suite(spec: EnvironmentSpec, digest: str) -> None:
    """Registers an environment whose module is in the folder of a user's suite."""
    what = f"environment {spec.id}"
    if _registered.get(spec.id) != digest:
        module = import_source(digest, str(spec.module), what)
        if spec.id in _registered:  # registered in this process from another version of the source
            forget_module(module)
            import_source(digest, str(spec.module), what)
        _registered[spec.id] = digest


def use_simulator_threads(count: int) -> None:
    """Sets the threads that environments made from now on step their simulations with.

    Results do not depend on them.
    """
    global _threads
    _threads = count


def simulator_threads() -> int:
    """Returns the threads that new environments step their simulations with."""
    return _threads


def stepped_in_batches(env: gym.Env[Any, Any], spec: EnvironmentSpec, count: int) -> bool:
    """Whether several environments can be stepped at once, with the results of their own `step`.

    Args:
        env: One of them.
        spec: Its specification.
        count: Number of environments.
    """
    from imitbench.envs.batch_choice import agrees, knows

    if not knows(env, count):
        return False
    key = (type(env.unwrapped), repr(spec))
    if key not in _in_batches:
        _in_batches[key] = agrees(partial(make_environment, spec))
    return _in_batches[key]


def make_training_environments(spec: EnvironmentSpec, count: int, seed: int) -> VecEnv:
    """Builds environments that are stepped in this process, seeded `seed`, `seed + 1`, ….

    Their episodes can be resumed, see `imitbench.data.resumable_env`.
    """
    return make_packed_environments(spec, count, [seed])


def make_packed_environments(spec: EnvironmentSpec, count: int, seeds: Sequence[int]) -> VecEnv:
    """Builds the environments of several seeds, one seed after the other.

    Args:
        spec: Specification of the environment.
        count: Number of environments of each seed.
        seeds: Those of a seed are seeded `seed`, `seed + 1`, ….
    """
    from imitbench.util.serial_vec_env import SerialVecEnv

    made = [make_environment(spec) for _ in range(count * len(seeds))]
    if stepped_in_batches(made[0], spec, len(made)):
        from imitbench.envs.batch_vec_env import BatchVecEnv

        venv: SerialVecEnv = BatchVecEnv(made, _threads)
    else:
        venv = SerialVecEnv([partial(_resumable, env) for env in made])
    venv.seed_each([seed + number for seed in seeds for number in range(count)])
    return venv


def time_limit_of(venv: VecEnv) -> int | None:
    """Maximum length of episodes in steps, if there is one.

    Tabular environments end at their horizon, without a registered limit.
    """
    spec = venv.get_attr("spec", 0)[0]
    if spec is not None and spec.max_episode_steps is not None:
        return int(spec.max_episode_steps)
    horizon = getattr(venv.get_attr("unwrapped", 0)[0], "horizon", None)
    return horizon if isinstance(horizon, int) else None


def _resumable(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    from stable_baselines3.common.monitor import Monitor

    from imitbench.data.resumable_env import ResumableEnv

    return ResumableEnv(Monitor(env))
