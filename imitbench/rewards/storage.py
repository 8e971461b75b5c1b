"""Stores reward networks without pickle: architecture as JSON, weights as safetensors.

A stored network is a folder with `reward.json` and `reward.safetensors`. Wrappers, ensembles and
potentials are stored with their contents. Reading builds only classes named in this module and
in `imitbench.util.tensor_storage`; no code from the file is executed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol, cast

import gymnasium as gym
import torch as th
from pydantic import BaseModel
from torch import nn

from imitbench.errors import InputError
from imitbench.rewards.base import RewardNet
from imitbench.rewards.networks import (
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicRewardNet,
    BasicShapedRewardNet,
    CnnRewardNet,
    ShapedRewardNet,
)
from imitbench.rewards.wrappers import (
    AddSTDRewardWrapper,
    NormalizedRewardNet,
    RewardEnsemble,
    RewardNetFromDiscriminatorLogit,
)
from imitbench.util.spaces import space_from_json, space_to_json
from imitbench.util.tensor_storage import (
    LAYER_TYPES,
    ArgumentCodec,
    digest,
    read_description,
    read_weights,
    weights_to_bytes,
    write_network,
)

DESCRIPTION_FILE = "reward.json"
WEIGHTS_FILE = "reward.safetensors"

_MODULES: dict[str, type[nn.Module]] = {
    cls.__name__: cls
    for cls in (
        BasicRewardNet,
        CnnRewardNet,
        ShapedRewardNet,
        BasicShapedRewardNet,
        BasicPotentialMLP,
        BasicPotentialCNN,
        NormalizedRewardNet,
        AddSTDRewardWrapper,
        RewardEnsemble,
        RewardNetFromDiscriminatorLogit,
    )
}
_TYPES: dict[str, type] = {
    **LAYER_TYPES,
    "torch.nn.Identity": nn.Identity,
    "torch.nn.LayerNorm": nn.LayerNorm,
    "torch.nn.BatchNorm1d": nn.BatchNorm1d,
    "torch.nn.Sigmoid": nn.Sigmoid,
    "torch.nn.Softplus": nn.Softplus,
}


class _Storable(Protocol):
    def arguments(self) -> dict[str, Any]: ...


class _Weights(BaseModel, extra="forbid", strict=True):
    file: Literal["reward.safetensors"] = "reward.safetensors"
    sha256: str


class _Description(BaseModel, extra="forbid", strict=True):
    """`reward.json`."""

    format: Literal["imitbench-reward"] = "imitbench-reward"
    version: Literal[1] = 1
    net: dict[str, Any]
    weights: _Weights


class _Codec(ArgumentCodec):
    """Also encodes spaces and networks."""

    def encode(self, value: Any) -> Any:
        if isinstance(value, gym.Space):
            return {"$space": space_to_json(value)}
        if isinstance(value, nn.Module):
            name = type(value).__name__
            if _MODULES.get(name) is not type(value):
                raise ValueError(
                    f"reward network: class {type(value).__module__}.{name} cannot be stored "
                    f"without pickle; storable: {', '.join(_MODULES)}"
                )
            arguments = cast(_Storable, value).arguments()
            return {"$module": name, "arguments": super().encode(arguments)}
        return super().encode(value)

    def decode(self, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"$space"}:
            return space_from_json(value["$space"])
        if isinstance(value, dict) and set(value) == {"$module", "arguments"}:
            name = value["$module"]
            if name not in _MODULES:
                raise ValueError(f"class {name!r} is not known; accepted: {', '.join(_MODULES)}")
            return _MODULES[name](**super().decode(value["arguments"]))
        return super().decode(value)


_CODEC = _Codec("reward network", _TYPES)


def save_reward(net: RewardNet, directory: Path) -> None:
    """Writes a reward network with its contents to `directory`.

    Args:
        net: A network of classes that this module supports.
        directory: Created if missing; an existing network in it is replaced.

    Raises:
        ValueError: A class, layer, space or potential cannot be stored; the message names it.
    """
    directory = Path(directory)
    weights = weights_to_bytes(net)
    description = _Description(net=_CODEC.encode(net), weights=_Weights(sha256=digest(weights)))
    write_network(directory / WEIGHTS_FILE, weights, directory / DESCRIPTION_FILE, description)


def load_reward_net(directory: Path, device: th.device | str = "cpu") -> RewardNet:
    """Reads a reward network written by `save_reward`.

    Args:
        directory: Folder with both files.
        device: Device of the loaded network.

    Returns:
        The network, wrappers included, in evaluation mode and in its stored data type.

    Raises:
        InputError: A file is missing, truncated, altered or describes something unknown; or the
            path is a file.
    """
    directory = Path(directory)
    if directory.is_file():
        raise InputError(f"{directory}: a file; {_how_to_read(directory)}")
    path = directory / DESCRIPTION_FILE
    description = read_description(path, _Description, "reward network")
    weights = read_weights(directory / WEIGHTS_FILE, description.weights.sha256, DESCRIPTION_FILE)
    try:
        # On the meta device nothing is allocated or sampled; the weights are assigned later.
        with th.device("meta"):
            net = _CODEC.decode(description.net)
        if not isinstance(net, RewardNet):
            raise ValueError("net: not a reward network")
        _check_types(net, weights)
        net.load_state_dict(weights, assign=True)
    except Exception as error:  # with invalid arguments a constructor may fail in any way
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: does not describe its weights ({problem})") from error
    net.eval()
    return net.to(device)


def _how_to_read(file: Path) -> str:
    if (file.parent / DESCRIPTION_FILE).is_file():
        return f"pass its folder, {file.parent}"
    return (
        "pass a folder written by save_reward. A network that imitation saved is a pickle: save "
        "its state_dict() there, load that into the same network here, and write it with "
        'imitbench.rewards.storage.save_reward (see "From imitation to here")'
    )


def _check_types(net: nn.Module, weights: dict[str, th.Tensor]) -> None:
    """Checks data types, which loading by assignment does not compare."""
    for name, expected in net.state_dict().items():
        given = weights[name]
        fits = (
            given.is_floating_point()
            if expected.is_floating_point()
            else given.dtype == expected.dtype
        )
        if not fits:
            raise ValueError(f"{name} has data type {given.dtype}")
