"""Classes of networks that a plug-in method defines: how they are stored and found again.

A stored policy or reward network names such a class as `module:Class`, relative to the source of
the method, with the name of the method and the digest of its source. Nothing is imported because a
file names it: the class is only found in source that the user has named, see
`imitbench.cards.plugins`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, Field
from torch import nn

from imitbench.cards.plugins import find_algorithm
from imitbench.errors import InputError
from imitbench.util.source_import import find_definition, import_source, is_registered
from imitbench.util.tensor_storage import ArgumentCodec

_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class PluginSource(BaseModel, extra="forbid", strict=True, frozen=True):
    """The source of the method that defines classes of a stored network.

    Attributes:
        name: Name of the method.
        digest: Digest of its source.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9_]*$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")


class PluginCodec(ArgumentCodec):
    """Converts arguments of networks to JSON and back; knows classes of one method, too.

    Args:
        what: Kind of network, for messages.
        types: Classes of libraries, by their name in the file.
        plugin: Source in which other classes are found; when storing, that of the first one.

    Attributes:
        plugin: Source of the classes so far; `None` if all are of libraries.
    """

    def __init__(
        self, what: str, types: Mapping[str, type], plugin: PluginSource | None = None
    ) -> None:
        super().__init__(what, types)
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
                f"{self.what}: {cls.__qualname__} is of method {found.method}, and another class "
                f"is of {self.plugin.name}; define both in the same source"
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
        source = import_source(
            self.plugin.digest, module, f"{self.what} of method {self.plugin.name}"
        )
        found = getattr(source, own, None)
        if not (isinstance(found, type) and issubclass(found, nn.Module)):
            raise ValueError(f"{name}: method {self.plugin.name} has no such class of networks")
        return found


def choose_source(
    stated: PluginSource,
    where: object,
    *,
    what: str,
    plugin: str | None,
    trust: bool | None,
    name_it: str,
    option: str = "--algo",
) -> PluginSource:
    """Returns the source from which the classes of a stored network are imported.

    Args:
        stated: Source that the file states.
        where: Path of the file, for messages.
        what: Kind of network, for messages.
        plugin: The method, as the user typed it; `None` if the process was told of it before.
        trust: Whether source that has changed since may be used; `None` for no, where the user
            cannot choose.
        name_it: How to name the method, for messages.
        option: Option with which the user named it, for messages.

    Raises:
        InputError: The method is not named; or `plugin` is another one, or does not exist, or its
            source has changed.
    """
    if plugin is None:
        if not is_registered(stated.digest):
            raise InputError(
                f"{where}: the {what}'s class is in the source of method {stated.name}, which is "
                f"imported only if you name it: {name_it}"
                f"{', or --trust' if trust is False else ''}"
            )
        return stated
    card = find_algorithm(plugin)
    if card.name != stated.name or card.origin.digest is None:
        raise InputError(
            f"{option} {plugin}: is method {card.name}; the {what} in {where} is of {stated.name}"
        )
    if card.origin.digest != stated.digest and not trust:
        else_trust = f", or pass --trust to load the {what} with the present source"
        raise InputError(
            f"{option} {plugin}: its source has changed since it made the {what} (digest "
            f"{card.origin.digest[:12]}, then {stated.digest[:12]}); restore it"
            f"{else_trust if trust is False else ''}"
        )
    return PluginSource(name=card.name, digest=card.origin.digest)


def constructor_arguments(
    net: nn.Module, saved: Mapping[str, Any], what: str = "policy"
) -> dict[str, Any]:
    """Returns the arguments with which a network of a user's class is constructed again.

    They are those that its bases would save, as far as the constructor accepts them, and, for every
    other parameter, the attribute of the same name.

    Args:
        net: The network.
        saved: Arguments that its bases would save.
        what: Kind of network, for messages.

    Raises:
        ValueError: The network does not keep an argument.
    """
    cls = type(net)
    parameters = _parameters(cls)
    passes_on = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    arguments = {name: value for name, value in saved.items() if passes_on or name in parameters}
    for name, parameter in parameters.items():
        if name in arguments or parameter.kind in _OPEN or name == "lr_schedule":
            continue
        if not hasattr(net, name):
            raise ValueError(
                f"{what}: {cls.__qualname__}.__init__ takes '{name}', which the {what} does not "
                f"keep; set `self.{name} = {name}` there, so that it can be stored"
            )
        arguments[name] = getattr(net, name)
    return arguments


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
