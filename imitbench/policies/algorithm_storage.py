"""Stores training algorithms of Stable-Baselines3 without pickle, so that training can resume.

The folder of the policy (see `storage`) also gets `algorithm.json`, with the algorithm's name,
hyper-parameters and counters, and `algorithm.state`, with the optimizers' tensors. Only the name
is stored of a hyper-parameter that is not a plain value, such as a custom schedule; it must be
passed again on loading.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch as th
from pydantic import BaseModel
from stable_baselines3.common import buffers
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import TrainFreq
from stable_baselines3.common.utils import ConstantSchedule, FloatSchedule, LinearSchedule
from stable_baselines3.common.vec_env import VecEnv

from imitbench.errors import InputError, did_you_mean
from imitbench.policies.sb3_objects import OPTIMIZERS, class_in_text, class_of_object
from imitbench.policies.sb3_zip import TRUST_HINT, Sb3Zip, UnreadObject
from imitbench.policies.storage import WEIGHTS_FILE
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.state_file import load_state, save_state
from imitbench.util.tensor_storage import ArgumentCodec, digest, read_description

Algorithm = TypeVar("Algorithm", bound=BaseAlgorithm)

# Constructor arguments that are not hyper-parameters, or are stored separately.
_OTHER_ARGUMENTS = {"self", "policy", "env", "device", "policy_kwargs", "_init_setup_model"}
_COUNTERS = (
    "num_timesteps",
    "_total_timesteps",
    "_num_timesteps_at_start",
    "_current_progress_remaining",
    "_n_updates",
    "_episode_num",
    "_n_calls",
    "exploration_rate",
)
# The algorithms choose one of these by default.
_DEFAULT_BUFFERS: dict[str, type[buffers.BaseBuffer]] = {
    cls.__name__: cls
    for cls in (
        buffers.RolloutBuffer,
        buffers.DictRolloutBuffer,
        buffers.ReplayBuffer,
        buffers.DictReplayBuffer,
        buffers.NStepReplayBuffer,
    )
}
_CONSTANT_TEXT = re.compile(r"ConstantSchedule\(val=(\S+)\)")
_LINEAR_TEXT = re.compile(
    r"LinearSchedule\(start=(?P<start>\S+), end=(?P<end>\S+), end_fraction=(?P<end_fraction>\S+)\)"
)
_LINEAR = "linear"
_CODEC = ArgumentCodec("hyper-parameter", {})


@dataclass(frozen=True)
class AlgorithmState:
    """State needed to resume training, except for the policy.

    Attributes:
        where: Name of the source in messages.
        algorithm: Class name of the algorithm; `None` if the source does not state it.
        hyperparameters: JSON values, by the names of the constructor's arguments.
        unknown: Descriptions of hyper-parameters whose values were not stored, by name.
        optimizer: `class` and `kwargs` of the policy's optimizers.
        counters: Attributes of the algorithm that measure progress, such as `num_timesteps`.
        optimizers: State dictionaries of the optimizers, by name.
        variables: Other tensors of the algorithm, by name.
    """

    where: str
    algorithm: str | None
    hyperparameters: Mapping[str, Any]
    unknown: Mapping[str, str]
    optimizer: Mapping[str, Any]
    counters: Mapping[str, int | float]
    optimizers: Mapping[str, Mapping[str, Any]]
    variables: Mapping[str, th.Tensor]


def _hyperparameter_attributes(cls: type[BaseAlgorithm]) -> dict[str, str]:
    """Returns the hyper-parameters of an algorithm, each with the name of its attribute."""
    names = [n for n in inspect.signature(cls.__init__).parameters if n not in _OTHER_ARGUMENTS]
    return {name: "_" * (name == "stats_window_size") + name for name in names}


def _encode_value(value: Any) -> Any:
    """Encodes a JSON value, NumPy scalar, schedule, training frequency or default buffer class.

    Raises:
        ValueError: `value` is of another type.
    """
    if isinstance(value, FloatSchedule):
        value = value.value_schedule
    if isinstance(value, ConstantSchedule):
        return float(value.val)
    if isinstance(value, LinearSchedule):
        return {"schedule": _LINEAR, **{k: float(v) for k, v in vars(value).items()}}
    if isinstance(value, TrainFreq):
        return [int(value.frequency), value.unit.value]
    if isinstance(value, type) and value in _DEFAULT_BUFFERS.values():
        return None
    if isinstance(value, np.generic):
        value = value.item()
    return _CODEC.encode(value)


def _read_counters(attributes: Mapping[str, Any]) -> dict[str, int | float]:
    """Returns the counters among an algorithm's attributes."""
    found = {name: attributes.get(name) for name in _COUNTERS}
    return {k: v for k, v in found.items() if type(v) in (int, float) and v is not None}


def _describe_optimizer(policy: BasePolicy) -> dict[str, Any]:
    """Returns class and arguments of a policy's optimizer as JSON."""
    cls: type[th.optim.Optimizer] = policy.optimizer_class
    if OPTIMIZERS.get(cls.__name__) is not cls:
        raise ValueError(
            f"model: optimizer {cls.__module__}.{cls.__name__} cannot be stored without pickle; "
            f"storable: {', '.join(OPTIMIZERS)}"
        )
    return {"class": cls.__name__, "kwargs": _CODEC.encode(policy.optimizer_kwargs)}


def state_from_zip(archive: Sb3Zip, cls: type[BaseAlgorithm]) -> AlgorithmState:
    """Reads the training state from a zip of Stable-Baselines3.

    Args:
        archive: Content of the zip.
        cls: Class of the algorithm that was saved.

    Raises:
        InputError: The optimizer cannot be determined.
    """
    hyperparameters: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name, attribute in _hyperparameter_attributes(cls).items():
        if attribute not in archive.data:
            continue
        value = archive.data[attribute]
        if isinstance(value, UnreadObject):
            try:
                hyperparameters[name] = _from_text(name, value)
            except ValueError:
                unknown[name] = str(value)
        else:
            hyperparameters[name] = value
    return AlgorithmState(
        where=str(archive.path),
        algorithm=None,
        hyperparameters=hyperparameters,
        unknown=unknown,
        optimizer=_optimizer_from_zip(archive),
        counters=_read_counters(archive.data),
        optimizers=archive.optimizers,
        variables=archive.variables,
    )


def build_algorithm(
    cls: type[Algorithm],
    policy: BasePolicy,
    state: AlgorithmState,
    venv: VecEnv,
    overrides: Mapping[str, Any],
    device: th.device | str = "auto",
) -> Algorithm:
    """Builds an algorithm that resumes training.

    Args:
        cls: Class of the algorithm.
        policy: Policy with the current weights.
        state: All other state.
        venv: Environment to train on.
        overrides: Hyper-parameters that replace stored ones.
        device: Device to train on.

    Raises:
        InputError: The state belongs to another algorithm, a hyper-parameter is missing or unknown,
            or the optimizers' state does not fit the policy.
    """
    if state.algorithm not in (None, cls.__name__):
        raise InputError(
            f"{state.where}: contains the algorithm {state.algorithm}, not {cls.__name__}; "
            f"load it as {state.algorithm}"
        )
    accepted = _hyperparameter_attributes(cls)
    for name in [*overrides, *state.hyperparameters]:
        if name not in accepted:
            raise InputError(
                f"{name}: not an argument of {cls.__name__}; {did_you_mean(name, accepted)}"
            )
    missing = {name: what for name, what in state.unknown.items() if name not in overrides}
    if missing:
        listed = ", ".join(f"{name} ({what})" for name, what in missing.items())
        raise InputError(
            f"{state.where}: not stored as plain values: {listed}; pass "
            f"{', '.join(f'{name}=…' for name in missing)}, or {TRUST_HINT}"
        )
    values = {name: _decode_value(value) for name, value in state.hyperparameters.items()}
    values |= overrides
    if values.get("replay_buffer_class") is None and values.get("replay_buffer_kwargs"):
        # The algorithm adds these to the buffer that it chooses.
        kept = values["replay_buffer_kwargs"].items()
        values["replay_buffer_kwargs"] = {k: v for k, v in kept if k not in ("n_steps", "gamma")}
    optimizer = OPTIMIZERS[state.optimizer["class"]]
    kwargs = {**policy_arguments(policy), "optimizer_class": optimizer}
    if state.optimizer["kwargs"] is not None:
        kwargs["optimizer_kwargs"] = dict(state.optimizer["kwargs"])
    model = cls(type(policy), venv, policy_kwargs=kwargs, device=device, **values)
    _set_state(model, policy, state)
    return model


def policy_arguments(policy: BasePolicy) -> dict[str, Any]:
    """Returns arguments of a policy's constructor that its algorithm does not set."""
    given = {
        "observation_space",
        "action_space",
        "lr_schedule",
        "use_sde",
        "optimizer_class",
        "optimizer_kwargs",
    }
    arguments = policy._get_constructor_parameters()
    if hasattr(policy, "share_features_extractor"):
        arguments["share_features_extractor"] = policy.share_features_extractor
    # Policies without gSDE list its arguments as `None`.
    return {k: v for k, v in arguments.items() if k not in given and v is not None}


def _set_state(model: BaseAlgorithm, policy: BasePolicy, state: AlgorithmState) -> None:
    parameters: dict[str, Any] = {"policy": policy.state_dict(), **state.optimizers}
    if "policy.optimizer" in parameters:
        parameters["policy.optimizer"] = _without_target(model, parameters["policy.optimizer"])
    try:
        model.set_parameters(parameters, exact_match=True)
        for name, tensor in state.variables.items():
            getattr(model, name).data = tensor.data.to(model.device)
    except (ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        problem = " ".join(str(error).split())[:300]
        raise InputError(
            f"{state.where}: optimizers: their state does not fit {type(model).__name__} "
            f"({problem}); {TRUST_HINT}"
        ) from error
    for name, number in state.counters.items():
        if hasattr(model, name):
            setattr(model, name, number)
    if model.use_sde:
        model.policy.reset_noise()  # type: ignore[operator]


def _without_target(model: BaseAlgorithm, state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Drops the target network's parameters, which DQN's optimizer listed before version 2.4."""
    wanted = len(model.policy.optimizer.param_groups[0]["params"])
    groups = state.get("param_groups")
    if not groups or len(groups) > 1 or len(groups[0]["params"]) != 2 * wanted:
        return state
    return {**state, "param_groups": [{**groups[0], "params": groups[0]["params"][:wanted]}]}


def _optimizer_from_zip(archive: Sb3Zip) -> dict[str, Any]:
    stored = archive.data.get("policy_kwargs") or {}
    settings = stored.shown if isinstance(stored, UnreadObject) else stored
    name, at_home = class_in_text(settings.get("optimizer_class", "<class 'torch.Adam'>"))
    kwargs = settings.get("optimizer_kwargs")
    if not at_home or name not in OPTIMIZERS or not (kwargs is None or isinstance(kwargs, dict)):
        raise InputError(
            f"{archive.path}: policy_kwargs.optimizer_class: {name} with {kwargs} is not known; "
            f"{TRUST_HINT}"
        )
    return {"class": name, "kwargs": kwargs}


def _from_text(name: str, value: UnreadObject) -> Any:
    """Derives a hyper-parameter from its printed attributes, in the form of `_encode_value`."""
    kind, at_home = class_in_text(value.type_name)
    shown = value.shown
    if at_home and kind == "FloatSchedule":
        text = str(shown.get("value_schedule"))
        if constant := _CONSTANT_TEXT.fullmatch(text):
            return float(constant[1])
        if linear := _LINEAR_TEXT.fullmatch(text):
            return {"schedule": _LINEAR, **{k: float(v) for k, v in linear.groupdict().items()}}
    if at_home and kind == "ConstantSchedule":
        return float(shown["val"])
    if at_home and kind == "LinearSchedule":
        return {"schedule": _LINEAR, **{k: float(v) for k, v in shown.items()}}
    if name.endswith("_buffer_class"):
        class_name, known = class_of_object(value)
        if known and class_name in _DEFAULT_BUFFERS:
            return None
    raise ValueError(name)


def _decode_value(value: Any) -> Any:
    if isinstance(value, Mapping) and value.get("schedule") == _LINEAR:
        return LinearSchedule(value["start"], value["end"], value["end_fraction"])
    # The only sequence is the training frequency, and it must be a tuple.
    return tuple(value) if isinstance(value, list) else value


ALGORITHM_FILE = "algorithm.json"
STATE_FILE = "algorithm.state"


class _Description(BaseModel, extra="forbid", strict=True):
    """`algorithm.json`."""

    format: Literal["imitbench-algorithm"] = "imitbench-algorithm"
    version: Literal[1] = 1
    algorithm: str
    hyperparameters: dict[str, Any]
    not_stored: dict[str, str]
    optimizer: dict[str, Any]
    counters: dict[str, int | float]
    policy_sha256: str
    state_sha256: str


def save_algorithm_state(model: BaseAlgorithm, directory: Path) -> None:
    """Writes the training state of `model` next to its policy.

    Args:
        model: Algorithm whose policy is already saved.
        directory: Folder that holds its policy.

    Raises:
        TypeError: The state of an optimizer holds more than tensors and plain values.
    """
    names, variables = model._get_torch_save_params()
    parameters = model.get_parameters()
    state = {
        "optimizers": {name: parameters[name] for name in names if name != "policy"},
        "variables": {name: getattr(model, name) for name in variables},
    }
    hyperparameters: dict[str, Any] = {}
    not_stored: dict[str, str] = {}
    for name, attribute in _hyperparameter_attributes(type(model)).items():
        if not hasattr(model, attribute):
            continue
        value = getattr(model, attribute)
        try:
            hyperparameters[name] = _encode_value(value)
        except ValueError:
            not_stored[name] = f"{type(value).__module__}.{type(value).__qualname__}"
    save_state(directory / STATE_FILE, state)
    description = _Description(
        algorithm=type(model).__name__,
        hyperparameters=hyperparameters,
        not_stored=not_stored,
        optimizer=_describe_optimizer(model.policy),
        counters=_read_counters(vars(model)),
        policy_sha256=_digest(directory / WEIGHTS_FILE),
        state_sha256=_digest(directory / STATE_FILE),
    )
    # Written last, so that the other files are complete if this one exists.
    atomic_write_text(
        directory / ALGORITHM_FILE, json.dumps(description.model_dump(), indent=1) + "\n"
    )


def read_algorithm_state(directory: Path) -> AlgorithmState:
    """Reads a state written by `save_algorithm_state`.

    Raises:
        InputError: A file is missing, altered, or does not belong to the policy.
    """
    path = directory / ALGORITHM_FILE
    if not path.is_file():
        raise InputError(
            f"{path}: no such file: {directory} contains a policy without training state; "
            "load_policy reads it"
        )
    description = read_description(path, _Description, "algorithm")
    for name, expected in (
        (WEIGHTS_FILE, description.policy_sha256),
        (STATE_FILE, description.state_sha256),
    ):
        if _digest(directory / name) != expected:
            raise InputError(
                f"{directory / name}: altered, or not saved together with {ALGORITHM_FILE}; "
                "save the model again"
            )
    state = load_state(directory / STATE_FILE)
    return AlgorithmState(
        where=str(directory),
        algorithm=description.algorithm,
        hyperparameters=description.hyperparameters,
        unknown=description.not_stored,
        optimizer=description.optimizer,
        counters=description.counters,
        optimizers=state["optimizers"],
        variables=state["variables"],
    )


def _digest(path: Path) -> str:
    try:
        return digest(read_content(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
