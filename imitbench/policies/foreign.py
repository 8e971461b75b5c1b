"""Policies of other programs: TorchScript, ONNX, or linear layers as safetensors.

Such a policy is a folder with `policy.json` (`ForeignDescription`) and the file that it names. No
third-party Python code is executed: TorchScript and ONNX have their own interpreters, and layers
are numbers. Even so, programs are executed only on request, not whenever a folder contains one.
"""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from gymnasium.spaces.utils import flatdim
from pydantic import BaseModel, Field, ValidationError
from stable_baselines3.common.policies import BasePolicy
from torch import nn

from imitbench.errors import InputError
from imitbench.policies.bounded_construction import check_finite
from imitbench.untrusted.files import read_content
from imitbench.util.extras import import_extra
from imitbench.util.files import atomic_write_bytes, atomic_write_text
from imitbench.util.spaces import space_from_json, space_to_json
from imitbench.util.tensor_storage import parse_weights
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

DESCRIPTION_FILE = "policy.json"
FORMAT = "imitbench-foreign-policy"

_ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}
_LOG_STD_RANGE = (-20.0, 2.0)


class ForeignDescription(BaseModel, extra="forbid", strict=True):
    """`policy.json` of a policy that another program wrote.

    Attributes:
        kind: `torchscript`; `onnx`, with one input and one output; or `layers`: safetensors with
            `0.weight` (outputs, inputs), `0.bias`, `1.weight`, …, with activations in between.
        file: Name of the policy's file in the same folder.
        input: `flat`: float32 observations, shape (n, size), for any n. `raw`: as the environment
            returns them, shape (n, …).
        output: `actions`: shape (n, …), for deterministic policies. `logits`: (n, choices),
            concatenated for several discrete actions. `gaussian`: (n, 2 · size), means and then
            logarithms of standard deviations; actions are clipped to the space.
        activation: Function between layers.
        observation_space: JSON of the environment's space, filled in by the harness.
        action_space: JSON of the environment's space, filled in by the harness.
    """

    format: Literal["imitbench-foreign-policy"]
    version: Literal[1] = 1
    kind: Literal["torchscript", "onnx", "layers"]
    file: str = Field(pattern=r"^[\w-][\w.-]*$")
    input: Literal["flat", "raw"] = "flat"
    output: Literal["actions", "logits", "gaussian"]
    activation: Literal["tanh", "relu"] = "tanh"
    observation_space: dict[str, Any] | None = None
    action_space: dict[str, Any] | None = None


class ForeignPolicy(BasePolicy):
    """A policy written by another program.

    Args:
        description: Parsed `policy.json`.
        program: Content of the file that it names.
        observation_space: That of the environment.
        action_space: That of the environment.

    Raises:
        InputError: The file does not match the description.
    """

    def __init__(
        self,
        description: ForeignDescription,
        program: bytes,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
    ) -> None:
        super().__init__(observation_space, action_space)
        self.description = description
        self.register_buffer("program", th.frombuffer(bytearray(program), dtype=th.uint8))
        discrete = isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete)
        if description.output != "actions" and (description.output == "logits") != discrete:
            raise InputError(f"output: {description.output} are not actions of {action_space}")
        try:
            self._network = _open(description, program)
            if isinstance(self._network, nn.Sequential):
                _check_sizes(self._network, description, observation_space, action_space)
        except (RuntimeError, ValueError) as error:
            problem = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(
                f"{description.file}: not readable as {description.kind} ({problem})"
            ) from error

    def _predict(
        self, observation: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        if isinstance(observation, dict):
            raise ValueError("policies of other programs require array observations")
        if self.description.input == "flat":
            observation = observation.reshape(len(observation), -1).float()
        with th.no_grad():
            output = self._network(observation)
        rows = output.shape[0] if output.ndim else 0
        if rows != len(observation):
            raise ValueError(
                f"{self.description.file}: returns {list(output.shape)} for {len(observation)} "
                "observations; the first dimension must be the batch, of any size"
            )
        return self._choose(output, deterministic)

    def _choose(self, output: th.Tensor, deterministic: bool) -> th.Tensor:
        space = self.action_space
        kind = self.description.output
        if kind == "actions":
            return output
        if kind == "logits":
            assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
            sizes = [int(space.n)] if isinstance(space, spaces.Discrete) else space.nvec.tolist()
            parts = th.split(output, sizes, dim=1)
            chosen = [
                part.argmax(dim=1)
                if deterministic
                else th.multinomial(part.softmax(dim=1), 1).squeeze(1)
                for part in parts
            ]
            return chosen[0] if isinstance(space, spaces.Discrete) else th.stack(chosen, dim=1)
        mean, log_std = output.chunk(2, dim=1)
        if deterministic:
            return mean
        return mean + log_std.clamp(*_LOG_STD_RANGE).exp() * th.randn_like(mean)

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: this policy cannot be trained.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a policy of another program cannot be trained; use predict()")

    def save_to(self, directory: Path) -> None:
        """Writes the unchanged policy with its spaces.

        Args:
            directory: Target folder; created if missing.
        """
        document = self.description.model_copy(
            update={
                "observation_space": space_to_json(self.observation_space),
                "action_space": space_to_json(self.action_space),
            }
        )
        program = self.program
        assert isinstance(program, th.Tensor)
        atomic_write_bytes(directory / self.description.file, program.cpu().numpy().tobytes())
        atomic_write_text(directory / DESCRIPTION_FILE, document.model_dump_json(indent=1) + "\n")


def is_foreign(directory: Path) -> bool:
    """Whether a folder contains the policy of another program."""
    try:
        document = json.loads(read_content(directory / DESCRIPTION_FILE))
    except (OSError, ValueError, RecursionError):  # the other format's reader tells
        return False
    return isinstance(document, dict) and document.get("format") == FORMAT


def load_foreign_policy(
    directory: Path,
    observation_space: gym.Space[Any] | None = None,
    action_space: gym.Space[Any] | None = None,
    *,
    programs: bool,
) -> ForeignPolicy:
    """Reads the policy of another program.

    Args:
        directory: Folder with `policy.json`.
        observation_space: That of the environment; by default as stored.
        action_space: That of the environment; by default as stored.
        programs: Whether TorchScript and ONNX are allowed, or only layers.

    Raises:
        InputError: A file is missing or invalid, or contains a program although these are not
            allowed.
    """
    path = directory / DESCRIPTION_FILE
    try:
        description = ForeignDescription.model_validate_json(read_content(path))
        program = read_content(directory / description.file)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}") from error
    if description.kind != "layers" and not programs:
        raise InputError(
            f"{directory / description.file}: is a program ({description.kind}), which is "
            "executed only if you trust it: `imitbench eval --trust`"
        )
    observation_space = observation_space or _space(path, description.observation_space)
    action_space = action_space or _space(path, description.action_space)
    try:
        return ForeignPolicy(description, program, observation_space, action_space)
    except InputError as error:
        raise InputError(f"{directory}: {error}") from error


def load_onnx_file(
    path: Path,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
    *,
    programs: bool,
) -> ForeignPolicy:
    """Reads an ONNX program without a description.

    It must take float32 observations and return actions, or logits of discrete ones.

    Args:
        path: The program.
        observation_space: That of the environment.
        action_space: That of the environment.
        programs: Whether programs are allowed.

    Raises:
        InputError: It cannot be read, or programs are not allowed.
    """
    if not programs:
        raise InputError(
            f"{path}: is a program (onnx), which is executed only if you trust it: `imitbench eval "
            "--trust`"
        )
    discrete = isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete)
    flat = len(observation_space.shape or ()) == 1
    description = ForeignDescription(
        format="imitbench-foreign-policy",
        kind="onnx",
        file="policy.onnx",
        input="flat" if flat else "raw",
        output="logits" if discrete else "actions",
    )
    try:
        return ForeignPolicy(description, read_content(path), observation_space, action_space)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _space(path: Path, document: dict[str, Any] | None) -> gym.Space[Any]:
    if document is None:
        raise InputError(f"{path}: does not state observation and action space")
    try:
        return space_from_json(document)
    except ValueError as error:
        raise InputError(f"{path}: {error}") from error


def _check_sizes(
    network: nn.Sequential,
    description: ForeignDescription,
    observation_space: gym.Space[Any],
    action_space: gym.Space[Any],
) -> None:
    """Checks that layers take observations and return actions.

    Raises:
        ValueError: They do not.
    """
    shape = observation_space.shape
    if shape is None:
        raise ValueError("layers take array observations only")
    taken = math.prod(shape)
    if description.input == "flat" and network[0].in_features != taken:
        raise ValueError(f"layer 0: takes {network[0].in_features} numbers, not {taken}")
    if not (isinstance(action_space, spaces.Box) or description.output == "logits"):
        return
    due = flatdim(action_space) * (2 if description.output == "gaussian" else 1)
    if network[-1].out_features != due:
        raise ValueError(f"the last layer: returns {network[-1].out_features} numbers, not {due}")


def _open(description: ForeignDescription, program: bytes) -> Callable[[th.Tensor], th.Tensor]:
    if description.kind == "torchscript":
        with warnings.catch_warnings():
            # Torch's deprecation warning is for new programs, not for existing ones.
            warnings.filterwarnings("ignore", message=".*torch.jit", category=DeprecationWarning)
            module: nn.Module = th.jit.load(  # type: ignore[no-untyped-call]
                io.BytesIO(program), map_location="cpu"
            )
        module.eval()
        return module
    if description.kind == "onnx":
        return _onnx_program(program)
    return _layers(parse_weights(program), _ACTIVATIONS[description.activation])


def _onnx_program(program: bytes) -> Callable[[th.Tensor], th.Tensor]:
    """Returns an ONNX program, executed on one CPU thread."""
    onnxruntime = import_extra("onnxruntime", "onnx", "an ONNX program")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exceptions have no other common base class
        raise ValueError(str(error)) from error
    name = session.get_inputs()[0].name

    def run(observations: th.Tensor) -> th.Tensor:
        output = session.run(None, {name: observations.cpu().numpy()})[0]
        return th.as_tensor(np.asarray(output), device=observations.device)

    return run


def _layers(weights: dict[str, th.Tensor], activation: type[nn.Module]) -> nn.Module:
    count = len(weights) // 2
    check_finite(weights)
    expected = {f"{index}.{part}" for index in range(count) for part in ("weight", "bias")}
    if not count or set(weights) != expected:
        found = one_line(", ".join(sorted(weights))) or "nothing"
        raise ValueError(f"contains {found}; needs 0.weight, …")
    modules: list[nn.Module] = []
    for index in range(count):
        weight, bias = weights[f"{index}.weight"], weights[f"{index}.bias"]
        if weight.ndim != 2 or bias.shape != weight.shape[:1]:
            raise ValueError(f"layer {index}: {list(weight.shape)} and {list(bias.shape)}")
        if index and weight.shape[1] != weights[f"{index - 1}.weight"].shape[0]:
            raise ValueError(f"layer {index}: takes {weight.shape[1]} numbers, not those before it")
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.weight.data, layer.bias.data = weight.float(), bias.float()
        modules += [layer, activation()]
    return nn.Sequential(*modules[:-1])
