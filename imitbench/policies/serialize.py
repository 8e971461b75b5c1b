"""Loads and saves policies and training algorithms.

Nothing is unpickled unless the caller passes `trust=True`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch as th
from stable_baselines3.common import callbacks
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import get_device
from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize

from imitbench.errors import InputError, MissingPathError, UnknownNameError, did_you_mean
from imitbench.policies import storage
from imitbench.policies.algorithm_storage import (
    build_algorithm,
    read_algorithm_state,
    save_algorithm_state,
    state_from_zip,
)
from imitbench.policies.base import RandomPolicy, ZeroPolicy
from imitbench.policies.expert import Spaces, load_expert_policy
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.hub_policy import STATISTICS_FILE, fetch_policy, own_policy_folder
from imitbench.policies.observation_statistics import (
    NormalizedPolicy,
    read_observation_statistics,
)
from imitbench.policies.sb3_architecture import build_policy
from imitbench.policies.sb3_objects import ALGORITHMS
from imitbench.policies.sb3_zip import read_sb3_zip
from imitbench.policies.space_check import check_policy_fits
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.policies.trusted import unpickle_algorithm
from imitbench.util.registry import Registry, build_loader_fn_require_space

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)
PolicyLoaderFn = Callable[..., BasePolicy]
"""A function that returns a policy, given a vectorized environment and further arguments."""

policy_registry: Registry[PolicyLoaderFn] = Registry()
"""Policy loaders by name, to which others can be added."""

STABLE_BASELINES_CLASSES: dict[str, str] = {
    name: f"stable_baselines3:{cls.__name__}" for name, cls in ALGORITHMS.items()
}
"""Where the algorithms of loaders are, as `registry.load_attr` takes it, by the loader's name."""

_DEFAULT_FILE = "model.zip"
_POLICY_BASES = {cls: cls.policy_aliases["MlpPolicy"] for cls in ALGORITHMS.values()}
# Arguments of Stable-Baselines3's `load` that are not hyper-parameters. They are ignored here:
# environments are always reset, and spaces and schedules are derived from other state.
_WITHOUT_EFFECT = (
    "custom_objects",
    "force_reset",
    "print_system_info",
    "lr_schedule",
    "observation_space",
    "action_space",
)


class MissingModelError(MissingPathError):
    """There is no model at the path; also a `FileNotFoundError`."""


class NormalizedObservationsError(InputError, FileExistsError):
    """A policy needs statistics that only unpickling gives; also a `FileExistsError`."""


def load_policy(policy_type: str, venv: VecEnv, **kwargs: Any) -> BasePolicy:
    """Loads a policy.

    Arguments by type:

    - `zero` and `random` take none.
    - `ppo`, `sac`, `a2c`, `td3` and `dqn` take `path`: a folder written by `save_stable_model` or
      the harness, a zip of Stable-Baselines3, or a folder with a `model.zip`.
    - the same names with `-huggingface` take `env_name`, and optionally `organization` and
      `revision`.

    A `vec_normalize.pkl` next to a zip becomes part of the policy, unless `venv` normalizes.

    All except `zero` and `random` also take `device`, and `trust`: whether parts that cannot be
    read otherwise may be unpickled, which can execute any code.

    Args:
        policy_type: A name in `policy_registry`.
        venv: Environments that the policy will act in; the spaces must fit.
        **kwargs: Arguments of the loader.

    Returns:
        The policy, in evaluation mode.

    Raises:
        UnknownNameError: The type is unknown (also a `KeyError`).
        MissingModelError: There is no model at the path (also a `FileNotFoundError`).
        NormalizedObservationsError: A `vec_normalize.pkl` next to a zip cannot be read without
            unpickling (also a `FileExistsError`).
        InputError: A file is damaged, a part cannot be determined without unpickling, or the
            spaces do not fit.
    """
    try:
        loader = policy_registry.get(policy_type)
    except KeyError:
        raise UnknownNameError(
            f"policy_type '{policy_type}' is not known; "
            f"{did_you_mean(policy_type, policy_registry.keys())}"
        ) from None
    return loader(venv, **kwargs)


def load_stable_baselines_model(
    cls: type[Algorithm], path: str | Path, venv: VecEnv, *, trust: bool = False, **kwargs: Any
) -> Algorithm:
    """Loads an algorithm of Stable-Baselines3 to resume training.

    Policy, optimizers, hyper-parameters and counters are restored; replay buffers are not saved
    and start empty. The environment is reset when training resumes.

    Args:
        cls: Class of the algorithm, such as `PPO`.
        path: A folder written by `save_stable_model`, a zip of Stable-Baselines3, or a folder
            with a `model.zip`.
        venv: Environment to train on.
        trust: Whether a zip may be unpickled, which can execute any code; then `kwargs` are those
            of `cls.load`.
        **kwargs: Hyper-parameters that replace stored ones, and `device`. Those that are stored
            only as Python objects, such as schedules, are required. `custom_objects` may hold
            them too.

    Returns:
        The algorithm with `venv` as its environment.

    Raises:
        MissingModelError: There is no model at the path (also a `FileNotFoundError`).
        NormalizedObservationsError: There is a `vec_normalize.pkl` next to it, but `venv` does
            not normalize observations (also a `FileExistsError`).
        InputError: A file is damaged, a part cannot be determined without unpickling, or the
            spaces do not fit.
    """
    source = _find_model(Path(path))
    zip_with_statistics = source.is_file() and (source.parent / STATISTICS_FILE).is_file()
    if zip_with_statistics and unwrap_vec_normalize(venv) is None:
        raise NormalizedObservationsError(
            f"{source.parent / STATISTICS_FILE}: the model was trained on observations normalized "
            "by these statistics; wrap the environment in VecNormalize.load(…), which unpickles "
            "the file, and pass the result as venv"
        )
    if trust and source.is_file():
        return unpickle_algorithm(cls, source, env=venv, **kwargs)
    overrides = {**kwargs, **(kwargs.get("custom_objects") or {})}
    device = overrides.pop("device", "auto")
    for name in _WITHOUT_EFFECT:
        overrides.pop(name, None)
    if source.is_dir():
        policy = storage.load_policy(source)
        state = read_algorithm_state(source)
        _check_kind(cls, policy, source)
    else:
        archive = read_sb3_zip(source)
        policy, faithful = build_policy(archive, venv.observation_space, venv.action_space)
        _check_kind(cls, policy, source)
        if not faithful:
            raise InputError(
                f"{source}: its networks share layers, which this version of Stable-Baselines3 "
                "cannot train; load_policy loads the policy"
            )
        state = state_from_zip(archive, cls)
    check_policy_fits(policy, venv.observation_space, venv.action_space, where=str(source))
    return build_algorithm(cls, policy, state, venv, overrides, device)


def save_stable_model(
    output_dir: str | Path, model: BaseAlgorithm, filename: str = _DEFAULT_FILE
) -> None:
    """Saves an algorithm of Stable-Baselines3 without pickle.

    Writes `policy.json` and `policy.safetensors` (the policy, in this library's format) and
    `algorithm.json` and `algorithm.state` (the training state) to `output_dir`; for a file name
    other than the default, to the folder `output_dir/<filename without suffix>`. `load_policy`
    and `load_stable_baselines_model` accept `output_dir` as well as `output_dir/filename`.

    Args:
        output_dir: Folder to write to; created if missing.
        model: Algorithm to save.
        filename: Distinguishes several models in one folder.

    Raises:
        ValueError: The class of the policy or its optimizer cannot be stored without pickle, or
            the policy depends on a `VecNormalize` around the environment.
    """
    directory = _folder_of(Path(output_dir) / filename)
    normalizer = model.get_vec_normalize_env()
    if normalizer is not None and normalizer.norm_obs:
        raise ValueError(
            "model: its observations are normalized by a VecNormalize, whose statistics are not "
            "stored; normalize within the policy, with features_extractor_class="
            "NormalizeFeaturesExtractor, or call model.save and normalizer.save"
        )
    storage.save_policy(model.policy, directory)
    save_algorithm_state(model, directory)


class SavePolicyCallback(callbacks.EventCallback):
    """Saves the algorithm on each call, to `policy_dir/<steps, in 12 digits>`.

    Intended as the `callback` of `EveryNTimesteps` or another `EventCallback`.

    Args:
        policy_dir: Folder of the saved models.
        *args: Passed to `EventCallback`.
        **kwargs: Passed to `EventCallback`.
    """

    def __init__(self, policy_dir: str | Path, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.policy_dir = Path(policy_dir)

    def _on_step(self) -> bool:
        save_stable_model(self.policy_dir / f"{self.num_timesteps:012d}", self.model)
        return True


def _load_from_path(
    cls: type[BaseAlgorithm],
    venv: VecEnv,
    path: str | Path,
    trust: bool = False,
    device: th.device | str = "auto",
) -> BasePolicy:
    found = open_expert_folder(_find_model(Path(path)))
    if unwrap_vec_normalize(venv) is not None:
        found = dataclasses.replace(found, statistics=None)
    elif found.statistics is not None and not trust:
        _check_statistics(found.statistics)
    env_spaces = Spaces(venv.observation_space, venv.action_space)
    policy = load_expert_policy(found, env_spaces, trust=trust)
    _check_kind(cls, policy, found.policy)
    return policy.to(get_device(device))


def _check_statistics(path: Path) -> None:
    """Reads statistics before the policy, so that the error is about them."""
    try:
        read_observation_statistics(path)
    except InputError as error:
        raise NormalizedObservationsError(str(error)) from error


def _load_from_hub(
    algo: str,
    venv: VecEnv,
    env_name: str,
    organization: str = "HumanCompatibleAI",
    revision: str | None = None,
    **kwargs: Any,
) -> BasePolicy:
    path = fetch_policy(organization, algo, env_name, revision)
    return _load_from_path(ALGORITHMS[algo], venv, path, **kwargs)


def _find_model(path: Path) -> Path:
    """Finds a folder in this library's format, or a file of Stable-Baselines3."""
    if own := own_policy_folder(path):
        return own
    for file in (path, path / _DEFAULT_FILE, path.with_name(f"{path.name}.zip")):
        if file.is_file():
            return file
    if path.suffix and (_folder_of(path) / storage.DESCRIPTION_FILE).is_file():
        return _folder_of(path)
    raise MissingModelError(
        f"{path}: no model found; it must be a zip of Stable-Baselines3, or a folder with "
        f"policy.json or {_DEFAULT_FILE}"
    )


def _folder_of(path: Path) -> Path:
    """Returns the folder for a file name given to `save_stable_model`."""
    return path.parent if path.name == _DEFAULT_FILE else path.with_suffix("")


def _check_kind(cls: type[BaseAlgorithm], policy: BasePolicy, source: Path) -> None:
    wanted = next((base for a, base in _POLICY_BASES.items() if issubclass(cls, a)), BasePolicy)
    inner = policy
    while isinstance(inner, NormalizedPolicy | TimeFeaturePolicy):
        inner = inner.policy
    if not isinstance(inner, wanted):
        fitting = [name for name, a in ALGORITHMS.items() if isinstance(inner, _POLICY_BASES[a])]
        raise InputError(
            f"{source}: contains a {type(inner).__name__}, which {cls.__name__} does not train; "
            f"it is one of {' or '.join(fitting) or 'no known algorithm'}"
        )


policy_registry.register("random", value=build_loader_fn_require_space(RandomPolicy))
policy_registry.register("zero", value=build_loader_fn_require_space(ZeroPolicy))
for _name, _cls in ALGORITHMS.items():
    policy_registry.register(_name, value=partial(_load_from_path, _cls))
    policy_registry.register(f"{_name}-huggingface", value=partial(_load_from_hub, _name))
