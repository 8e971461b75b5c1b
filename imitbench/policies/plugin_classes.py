"""Classes of policies that a plug-in method defines: how they are stored and found again.

A stored policy names such a class as `module:Class`, relative to the source of the method, with the
name of the method and the digest of its source. Nothing is imported because a file names it: the
class is only found in source that the user has named, see `imitbench.cards.plugins`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from stable_baselines3.common.policies import BasePolicy
from torch import nn

from imitbench.cards.plugins import find_algorithm
from imitbench.errors import InputError
from imitbench.util.source_import import find_definition, import_source, is_registered
from imitbench.util.tensor_storage import ArgumentCodec

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class PluginSource(BaseModel, extra="forbid", strict=True, frozen=True):
    """The source of the method that defines classes of a stored policy.

    Attributes:
        name: Name of the method.
        digest: Digest of its source.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class PolicyCodec(ArgumentCodec):
    """Converts arguments of policies to JSON and back; knows classes of one method, too.

    Args:
        types: Classes of libraries, by their name in the file.
        plugin: Source in which other classes are found; when storing, that of the first one.

    Attributes:
        plugin: Source of the classes so far; `None` if all are of libraries.
    """

    def __init__(self, types: Mapping[str, type], plugin: PluginSource | None = None) -> None:
        super().__init__("policy", types)
        self.plugin = plugin

    def name_of(self, cls: type) -> str:
        """Returns the name under which a class is stored: `module:Class` for one of a method.

        Raises:
            ValueError: The class cannot be stored.
        """
        found = find_definition(cls) if cls not in self._names else None
        if found is None:
            return super().name_of(cls)
        source = PluginSource(name=found.method, digest=found.digest)
        if self.plugin not in (None, source):
            raise ValueError(
                f"policy: {cls.__qualname__} is of method {found.method}, and another class is of "
                f"{self.plugin.name}; define both in the same source"
            )
        self.plugin = source
        return found.reference

    def type_of(self, name: Any) -> type:
        """Inverts `name_of`.

        Raises:
            ValueError: The class is not in the allow-list, or not one of networks.
            InputError: The source of the method was not named, or has changed.
        """
        if self.plugin is None or not isinstance(name, str) or ":" not in name:
            return super().type_of(name)
        module, _, own = name.partition(":")
        source = import_source(self.plugin.digest, module, f"policy of method {self.plugin.name}")
        found = getattr(source, own, None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise ValueError(f"{name}: method {self.plugin.name} has no such class of networks")
        return found


def choose_source(
    stated: PluginSource, where: object, *, plugin: str | None, trust: bool
) -> PluginSource:
    """Returns the source from which the classes of a stored policy are imported.

    Args:
        stated: Source that the file states.
        where: Path of the file, for messages.
        plugin: The method, as the user typed it; `None` if the process was told of it before.
        trust: Whether source that has changed since may be used.

    Raises:
        InputError: The method is not named; or `plugin` is another one, or does not exist, or its
            source has changed.
    """
    if plugin is None:
        if not is_registered(stated.digest):
            raise InputError(
                f"{where}: the policy's class is in the source of method {stated.name}, which is "
                f"imported only if you name it: --algo ./{stated.name}"
                f"{'' if trust else ', or --trust'}"
            )
        return stated
    card = find_algorithm(plugin)
    if card.name != stated.name or card.origin.digest is None:
        raise InputError(
            f"--algo {plugin}: is method {card.name}; the policy in {where} is of {stated.name}"
        )
    if card.origin.digest != stated.digest and not trust:
        raise InputError(
            f"--algo {plugin}: its source has changed since it made the policy (digest "
            f"{card.origin.digest[:12]}, then {stated.digest[:12]}); restore it, or pass --trust "
            "to load the policy with the present source"
        )
    return PluginSource(name=card.name, digest=card.origin.digest)


def constructor_arguments(policy: BasePolicy) -> dict[str, Any]:
    """Returns the arguments with which a policy of a user's class is constructed again.

    They are those that Stable-Baselines3 would save (`_get_constructor_parameters`), as far as the
    constructor accepts them, and, for every other parameter, the attribute of the same name.

    Raises:
        ValueError: The policy does not keep an argument.
    """
    cls = type(policy)
    parameters = _parameters(cls)
    saved = policy._get_constructor_parameters()
    if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        saved = {name: value for name, value in saved.items() if name in parameters}
    for name, parameter in parameters.items():
        if name in saved or parameter.kind in _OPEN or name == "lr_schedule":
            continue
        if not hasattr(policy, name):
            raise ValueError(
                f"policy: {cls.__qualname__}.__init__ takes '{name}', which the policy does not "
                f"keep; set `self.{name} = {name}` there, so that it can be stored"
            )
        saved[name] = getattr(policy, name)
    return saved


def accepts(cls: type, name: str) -> bool:
    """Whether the constructor of a class has a parameter of this name.

    If it passes on arguments that it does not name, the constructors of its bases count as well.
    """
    for base in cls.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = _parameters(base)
        if name in parameters:
            return True
        if not any(parameter.kind in _OPEN for parameter in parameters.values()):
            return False
    return False


def _parameters(cls: type) -> dict[str, inspect.Parameter]:
    _, *parameters = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {parameter.name: parameter for parameter in parameters}
