"""Stores reward networks without pickle: architecture as JSON, weights as safetensors.

A stored network is a folder with `reward.json` and `reward.safetensors`. Wrappers, ensembles and
potentials are stored with their contents. Reading builds only classes named in this module and
in `imitbench.util.tensor_storage`, and classes in the source of a method that the user named; no
code from the file is executed.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

import gymnasium as gym
import torch as th
from pydantic import BaseModel, SerializerFunctionWrapHandler, model_serializer
from torch import nn

from imitbench.cards.plugin_classes import (
    PluginCodec,
    PluginSource,
    choose_source,
    constructor_arguments,
)
from imitbench.errors import InputError
from imitbench.rewards.agent_rewards import CoherentRewardNet, InverseSoftQRewardNet
from imitbench.rewards.base import RewardNet
from imitbench.rewards.density import DensityRewardNet
from imitbench.rewards.networks import (
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicRewardNet,
    BasicShapedRewardNet,
    CnnRewardNet,
    ConstantRewardNet,
    ShapedRewardNet,
)
from imitbench.rewards.tabular import TabularRewardNet
from imitbench.rewards.wrappers import (
    AddSTDRewardWrapper,
    NormalizedRewardNet,
    RewardEnsemble,
    RewardNetFromDiscriminatorLogit,
)
from imitbench.util.spaces import space_from_json, space_to_json
from imitbench.util.tensor_storage import (
    LAYER_TYPES,
    check_rebuilds,
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
        ConstantRewardNet,
        TabularRewardNet,
        DensityRewardNet,
        InverseSoftQRewardNet,
        CoherentRewardNet,
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


@runtime_checkable
class _Storable(Protocol):
    def arguments(self) -> dict[str, Any]: ...


class _Weights(BaseModel, extra="forbid", strict=True):
    file: Literal["reward.safetensors"] = "reward.safetensors"
    sha256: str


class _Description(BaseModel, extra="forbid", strict=True):
    """`reward.json`.

    `plugin` is the source of classes that are not of this package.
    """

    format: Literal["imitbench-reward"] = "imitbench-reward"
    version: Literal[1] = 1
    net: dict[str, Any]
    weights: _Weights
    plugin: PluginSource | None = None

    @model_serializer(mode="wrap")
    def _without_nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


class _Codec(PluginCodec):
    """Also encodes spaces and networks."""

    def __init__(self, plugin: PluginSource | None = None) -> None:
        super().__init__("reward network", _TYPES, plugin)

    def encode(self, value: Any) -> Any:
        if isinstance(value, gym.Space):
            return {"$space": space_to_json(value)}
        if isinstance(value, nn.Module):
            name, arguments = self._class_and_arguments(value)
            return {"$module": name, "arguments": super().encode(arguments)}
        return super().encode(value)

    def _class_and_arguments(self, net: nn.Module) -> tuple[str, dict[str, Any]]:
        name = type(net).__name__
        if _MODULES.get(name) is type(net):
            return name, cast(_Storable, net).arguments()
        try:
            name = self.name_of(type(net))
        except ValueError as error:
            raise ValueError(
                f"reward network: class {type(net).__module__}.{name} cannot be stored without "
                "pickle; define it at the top of a module of a plug-in method, next to the card; "
                f"of this library these can be stored: {', '.join(_MODULES)}"
            ) from error
        of_bases = net.arguments() if isinstance(net, _Storable) else {}
        return name, constructor_arguments(net, of_bases, "reward network")

    def decode(self, value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"$space"}:
            return space_from_json(value["$space"])
        if isinstance(value, dict) and set(value) == {"$module", "arguments"}:
            return self._module_of(value["$module"])(**super().decode(value["arguments"]))
        return super().decode(value)

    def _module_of(self, name: Any) -> type[nn.Module]:
        if isinstance(name, str) and name in _MODULES:
            return _MODULES[name]
        if self.plugin is not None and isinstance(name, str) and ":" in name:
            return self.type_of(name)
        raise ValueError(f"class {name!r} is not known; accepted: {', '.join(_MODULES)}")


def save_reward(net: RewardNet, directory: Path) -> None:
    """Writes a reward network with its contents to `directory`.

    Args:
        net: A network of classes that this module supports, or that the source of a plug-in method
            defines.
        directory: Created if missing; an existing network in it is replaced.

    Raises:
        ValueError: A class, layer, space or potential cannot be stored; the message names it.
    """
    directory = Path(directory)
    description, weights = _describe(net)
    write_network(directory / WEIGHTS_FILE, weights, directory / DESCRIPTION_FILE, description)


def check_storable(net: RewardNet) -> None:
    """Checks that a reward network can be stored and built again, without writing it.

    Raises:
        InputError: It cannot be stored, or what is stored does not determine it.
    """
    if not isinstance(net, RewardNet):
        raise InputError(
            f"reward network: is a {type(net).__qualname__}; make its class a subclass of "
            "imitbench.rewards.reward_nets.RewardNet"
        )
    check_rebuilds("reward network", net, _describe, _rebuild)


def _describe(net: RewardNet) -> tuple[_Description, bytes]:
    """Returns the content of both files.

    Raises:
        ValueError: As `save_reward`.
    """
    codec = _Codec()
    encoded, weights = codec.encode(net), weights_to_bytes(net)
    stated = _Weights(sha256=digest(weights))
    return _Description(net=encoded, weights=stated, plugin=codec.plugin), weights


def load_reward_net(
    directory: Path,
    device: th.device | str = "cpu",
    *,
    plugin: str | None = None,
    trust: bool | None = False,
    option: str | None = None,
) -> RewardNet:
    """Reads a reward network written by `save_reward`.

    Args:
        directory: Folder with both files.
        device: Device of the loaded network.
        plugin: The method whose source defines a class of the network, in any form that
            `imitbench.cards.plugins.find_algorithm` accepts: its modules are imported. Not needed
            for other networks.
        trust: Whether the class may also come from source that has changed since; `None` for no,
            in a command that has no `--trust`.
        option: Option of the command that names the method, for messages; `None` in Python.

    Returns:
        The network, wrappers included, in evaluation mode and in its stored data type.

    Raises:
        InputError: A file is missing, truncated, altered or describes something unknown; the path
            is a file; or a class is of a plug-in that is not named, or not of this one.
    """
    directory = Path(directory)
    if directory.is_file():
        raise InputError(f"{directory}: a file; {_how_to_read(directory)}")
    path = directory / DESCRIPTION_FILE
    description = read_description(path, _Description, "reward network")
    weights = read_weights(directory / WEIGHTS_FILE, description.weights.sha256, DESCRIPTION_FILE)
    if description.plugin is not None:
        name = f"./{description.plugin.name}"
        source = choose_source(
            description.plugin, path, what="reward network", plugin=plugin,
            trust=trust, option=option or "--algo",
            name_it=f"{option} {name}" if option else f"plugin='{name}' of imitbench.load_reward",
        )  # fmt: skip
        description = description.model_copy(update={"plugin": source})
    try:
        net = _rebuild(description, weights)
    except InputError:
        raise
    except Exception as error:  # with invalid arguments a constructor may fail in any way
        problem = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(f"{path}: does not describe its weights ({problem})") from error
    net.eval()
    return net.to(device)


def plugin_of_reward(directory: Path) -> PluginSource | None:
    """Returns the source that defines classes of a stored network; `None` if this package does.

    Raises:
        InputError: `reward.json` is missing or malformed.
    """
    return read_description(directory / DESCRIPTION_FILE, _Description, "reward network").plugin


def _how_to_read(file: Path) -> str:
    if (file.parent / DESCRIPTION_FILE).is_file():
        return f"pass its folder, {file.parent}"
    return (
        "pass a folder written by save_reward. A network that imitation saved is a pickle: save "
        "its state_dict() there, load that into the same network here, and write it with "
        'imitbench.rewards.storage.save_reward (see "From imitation to here")'
    )


def _rebuild(description: _Description, weights: dict[str, th.Tensor]) -> RewardNet:
    """Builds the network and gives it its weights; raises any error that classes may raise."""
    # On the meta device nothing is allocated or sampled; the weights are assigned later. Classes of
    # users may keep tensors that are not stored, so they are built in full.
    with th.device("meta") if description.plugin is None else nullcontext():
        net = _Codec(description.plugin).decode(description.net)
    if not isinstance(net, RewardNet):
        raise ValueError("net: not a reward network")
    _check_types(net, weights)
    net.load_state_dict(weights, assign=True)
    return net


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
