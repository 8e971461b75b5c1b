"""Reads pickles as data, without importing, calling or building anything.

A pickle is a program for a small stack machine. This module executes it, but instructions that
would import a name or call something only record their arguments. The result is a tree of plain
values, in which an object is a `PickledObject` with the name of its class, its arguments and its
state.

The memory and time of an instruction are bounded by its length in the file. An unpickler that
executes allowed names cannot guarantee that.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from imitbench.untrusted.limits import beyond, limits
from imitbench.untrusted.messages import error_line

_MARK = object()
_SCALARS = (str, bytes, int, float, type(None))
# Instructions that only push their argument.
_CONSTANTS = frozenset(
    {
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"),
    }
)
_READ = frozenset({"GET", "BINGET", "LONG_BINGET"})
_WRITE = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_NOTHING = frozenset({"PROTO", "FRAME"})
_MAX_INSTRUCTIONS = 1_000_000


class RefusedPickleError(ValueError):
    """The bytes are not a pickle, or refer to a name that is not allowed."""


@dataclass(frozen=True, eq=False)
class PickledName:
    """A name that the pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class PickledObject:
    """An object that the pickle would build.

    Attributes:
        made_by: The callable, usually a `PickledName`.
        arguments: Positional arguments of the call.
        state: State that would be set, usually a dictionary of attributes.
        items: Items that would be appended, or pairs that would be set as key and value.
    """

    made_by: Any
    arguments: tuple[Any, ...]
    state: Any = None
    items: list[Any] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Name of the class, or of the function that would create the object."""
        made_by = self.made_by
        if isinstance(made_by, PickledName) and made_by.name == "_reconstructor" and self.arguments:
            made_by = self.arguments[0]
        # Only names are formatted: other values may be deeply nested or have a huge `repr`.
        return str(made_by) if isinstance(made_by, PickledName) else "an object of an unnamed class"

    @property
    def attributes(self) -> dict[str, Any]:
        """Attributes in the state by name."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        found: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict):
                found.update(part)
        return found


@dataclass(frozen=True, eq=False)
class PersistentId:
    """An object that is stored outside of the pickle, such as the numbers of a tensor.

    Attributes:
        value: What names it there.
    """

    value: Any


def read_safely(
    data: bytes, admitted: Callable[[PickledName], bool], *, persistent: bool = False
) -> Any:
    """Reads a pickle.

    Args:
        data: The pickle, of any protocol.
        admitted: Returns whether a name is allowed. Names are never imported; refusing them here
            only gives better messages than later checks would.
        persistent: Whether it may name objects outside of it, which are `PersistentId` then.

    Returns:
        The content: plain values, lists, tuples, dictionaries, `PickledName` and
        `PickledObject`.

    Raises:
        RefusedPickleError: It is damaged, or contains something that is not allowed.
    """
    machine = _PickleMachine(admitted, persistent)
    try:
        for count, (instruction, argument, _) in enumerate(pickletools.genops(data)):
            if count > _MAX_INSTRUCTIONS:
                raise RefusedPickleError(f"it has more than {_MAX_INSTRUCTIONS:,} instructions")
            if instruction.name == "STOP":
                return machine.pop()
            machine.run(instruction.name, argument)
    except RefusedPickleError:
        raise
    except (
        ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, struct.error
    ) as error:  # fmt: skip
        problem = error_line(" ".join(str(error).split()), 120)
        raise RefusedPickleError(f"damaged, or not a pickle ({problem})") from error
    raise RefusedPickleError("damaged, or not a pickle (it does not end)")


class _PickleMachine:
    def __init__(self, admitted: Callable[[PickledName], bool], persistent: bool) -> None:
        self._admitted = admitted
        self._persistent = persistent
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._values_left = limits().pickle_values

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise RefusedPickleError("damaged, or not a pickle (a mark instead of a value)")
        return value

    def run(self, name: str, argument: Any) -> None:
        if name in _NOTHING:
            return
        if name in _CONSTANTS:
            self._stack.append(argument)
        elif name in _READ:
            self._stack.append(self._memo[int(argument)])
        elif name in _WRITE:
            self._memo[int(argument)] = self.top()
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        elif name == "BINPERSID" and self._persistent:
            self._stack.append(PersistentId(self.pop()))
        else:  # extension codes, persistent ids, out-of-band buffers
            raise RefusedPickleError(f"it uses {name}, which plain data does not")

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def memoize(self, _argument: Any) -> None:
        self._memo[len(self._memo)] = self.top()

    def drop(self, _argument: Any) -> None:
        self._stack.pop()

    def name(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._import(module, name)

    def name_on_stack(self, _argument: Any) -> None:
        name, module = self.pop(), self.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise RefusedPickleError("damaged, or not a pickle (a name that is not text)")
        self._import(module, name)

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self._stack.append(tuple(reversed(values)))

    def dict_above_mark(self, _argument: Any) -> None:
        values = self.above_mark()
        self._stack.append({})
        self.set_items(values)

    def set_item(self, _argument: Any) -> None:
        value, key = self.pop(), self.pop()
        self.set_items([key, value])

    def call(self, _argument: Any) -> None:
        arguments, made_by = self.pop(), self.pop()
        self._stack.append(PickledObject(made_by, self._tuple(arguments)))

    def call_with_names(self, _argument: Any) -> None:
        names, arguments, made_by = self.pop(), self.pop(), self.pop()
        whole = self._tuple(arguments)
        # The only copy that may be longer than the instructions that made it.
        self._values_left -= len(whole) + 1
        if self._values_left < 0:
            raise RefusedPickleError(beyond("pickle_values", "it copies too many values"))
        self._stack.append(PickledObject(made_by, (*whole, names)))

    def call_named(self, argument: str) -> None:
        arguments = self.above_mark()
        self.name(argument)
        self._stack.append(PickledObject(self.pop(), tuple(arguments)))

    def call_first(self, _argument: Any) -> None:
        made_by, *arguments = self.above_mark()
        self._stack.append(PickledObject(made_by, tuple(arguments)))

    def set_state(self, _argument: Any) -> None:
        state = self.pop()
        target = self.top()
        if not isinstance(target, PickledObject):
            raise RefusedPickleError("damaged, or not a pickle (state of a plain value)")
        target.state = state

    def top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise RefusedPickleError("damaged, or not a pickle (a mark instead of a value)")
        return value

    def above_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        values.reverse()
        return values

    def _import(self, module: str, name: str) -> None:
        found = PickledName(module, name)
        if not self._admitted(found):
            shown = error_line(str(found), 160)
            raise RefusedPickleError(f"it refers to {shown}, which is not allowed")
        self._stack.append(found)

    def extend(self, values: list[Any]) -> None:
        target = self.top()
        (target.items if isinstance(target, PickledObject) else target).extend(values)

    def set_items(self, values: list[Any]) -> None:
        target = self.top()
        for key, value in zip(values[::2], values[1::2], strict=True):
            if isinstance(target, PickledObject):
                target.items.append((key, value))
            elif isinstance(key, _SCALARS):
                target[key] = value
            else:  # hashing a deeply nested key would overflow the interpreter's stack
                raise RefusedPickleError("a dictionary key that is neither text nor a number")

    @staticmethod
    def _tuple(arguments: Any) -> tuple[Any, ...]:
        if not isinstance(arguments, tuple):
            raise RefusedPickleError("damaged, or not a pickle (arguments that are not a tuple)")
        return arguments


_INSTRUCTIONS: dict[str, Callable[[_PickleMachine, Any], object]] = {
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "MARK": lambda machine, _: machine.push(_MARK),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_SET": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "TUPLE1": lambda machine, _: machine.tuple_of(1),
    "TUPLE2": lambda machine, _: machine.tuple_of(2),
    "TUPLE3": lambda machine, _: machine.tuple_of(3),
    "TUPLE": lambda machine, _: machine.push(tuple(machine.above_mark())),
    "LIST": lambda machine, _: machine.push(machine.above_mark()),
    "DICT": _PickleMachine.dict_above_mark,
    # Sets are read as lists; no caller looks up elements in them.
    "FROZENSET": lambda machine, _: machine.push(machine.above_mark()),
    "APPEND": lambda machine, _: machine.extend([machine.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.above_mark()),
    "ADDITEMS": lambda machine, _: machine.extend(machine.above_mark()),
    "SETITEM": _PickleMachine.set_item,
    "SETITEMS": lambda machine, _: machine.set_items(machine.above_mark()),
    "POP": _PickleMachine.drop,
    "POP_MARK": lambda machine, _: machine.above_mark(),
    "DUP": lambda machine, _: machine.push(machine.top()),
    "MEMOIZE": _PickleMachine.memoize,
    "GLOBAL": _PickleMachine.name,
    "STACK_GLOBAL": _PickleMachine.name_on_stack,
    "REDUCE": _PickleMachine.call,
    "NEWOBJ": _PickleMachine.call,
    "NEWOBJ_EX": _PickleMachine.call_with_names,
    "INST": _PickleMachine.call_named,
    "OBJ": _PickleMachine.call_first,
    "BUILD": _PickleMachine.set_state,
}


def names_in(modules: Collection[str], names: Collection[str]) -> Callable[[PickledName], bool]:
    """Returns a function that allows the given names.

    Args:
        modules: Modules of which all names are allowed, including those of submodules.
        names: Other allowed names, with their modules.
    """

    def admitted(found: PickledName) -> bool:
        below = any(found.module == m or found.module.startswith(f"{m}.") for m in modules)
        return below or str(found) in names

    return admitted
