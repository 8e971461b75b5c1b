"""Stores training algorithms of Stable-Baselines3 without pickle, so that training can resume.

The folder of the policy (see `storage`) also gets `algorithm.json`, with the algorithm's name,
hyper-parameters and counters, and `algorithm.state`, with the optimizers' tensors. Only the name
is stored of a hyper-parameter that is not a plain value, such as a custom schedule; it must be
passed again on loading.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from stable_baselines3.common.base_class import BaseAlgorithm

from imitbench.errors import InputError
from imitbench.policies.algorithm_state import (
    AlgorithmState,
    describe_optimizer,
    encode_value,
    hyperparameter_attributes,
    read_counters,
)
from imitbench.policies.storage import DESCRIPTION_FILE, WEIGHTS_FILE
from imitbench.util.files import atomic_write_text
from imitbench.util.state_file import load_state, save_state
from imitbench.util.tensor_storage import digest, read_description

ALGORITHM_FILE = "algorithm.json"
STATE_FILE = "algorithm.state"


class _Description(BaseModel):
    """`algorithm.json`."""

    model_config = ConfigDict(extra="forbid", strict=True)

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
    for name, attribute in hyperparameter_attributes(type(model)).items():
        if not hasattr(model, attribute):
            continue
        value = getattr(model, attribute)
        try:
            hyperparameters[name] = encode_value(value)
        except ValueError:
            not_stored[name] = f"{type(value).__module__}.{type(value).__qualname__}"
    save_state(directory / STATE_FILE, state)
    description = _Description(
        algorithm=type(model).__name__,
        hyperparameters=hyperparameters,
        not_stored=not_stored,
        optimizer=describe_optimizer(model.policy),
        counters=read_counters(vars(model)),
        policy_sha256=_digest(directory / WEIGHTS_FILE),
        state_sha256=_digest(directory / STATE_FILE),
    )
    # Written last, so that the other files are complete if this one exists.
    atomic_write_text(
        directory / ALGORITHM_FILE, json.dumps(description.model_dump(), indent=1) + "\n"
    )


def read_algorithm_state(directory: Path) -> AlgorithmState:
    """Reads what `save_algorithm_state` wrote.

    Raises:
        InputError: A file is missing, altered, or does not belong to the policy.
    """
    path = directory / ALGORITHM_FILE
    if not path.is_file():
        raise InputError(
            f"{path}: no such file: {directory} holds a policy without its training state; "
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


def holds_policy(directory: Path) -> bool:
    """Whether a folder holds a policy in this library's format."""
    return (directory / DESCRIPTION_FILE).is_file()


def _digest(path: Path) -> str:
    try:
        return digest(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
