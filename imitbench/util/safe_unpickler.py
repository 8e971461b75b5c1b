"""Reads pickles as data: nothing in them is imported, called or built.

A pickle is a program for a small stack machine. This module runs that machine with every
instruction that would import a name or call something replaced by one that records what was asked
for. The result is a tree of plain values. An object is a `PickledObject` with the name of its
class, its arguments and its state. Callers take values out of the records.

No instruction takes more memory or time than its place in the file accounts for. No unpickler that
admits some names and runs the rest can promise that.
"""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

_MARK = object()
_SCALARS = (str, bytes, int, float, type(None))
# The machine's instructions that do nothing but push their argument.
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
    """The bytes are no pickle, or ask for something that is not admitted."""


@dataclass(frozen=True, eq=False)
class PickledName:
    """Something that the pickle would import."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class PickledObject:
    """Something that the pickle would build.

    Attributes:
        made_by: What it would call: a `PickledName`, as a rule.
        arguments: What it would pass.
        state: What it would then set; a dictionary of attributes, as a rule.
        items: What it would then append, or set by key as pairs.
    """

    made_by: Any
    arguments: tuple[Any, ...]
    state: Any = None
    items: list[Any] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Name of its class, or of the function that would make it."""
        made_by = self.made_by
        if isinstance(made_by, PickledName) and made_by.name == "_reconstructor" and self.arguments:
            made_by = self.arguments[0]
        # Nothing but names is printed: other things may be nested deeply, or print to gigabytes.
        return str(made_by) if isinstance(made_by, PickledName) else "an object of no named class"

    @property
    def attributes(self) -> dict[str, Any]:
        """Its attributes by name."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        found: dict[str, Any] = {}
        for part in parts:
            if isinstance(part, dict):
                found.update(part)
        return found


def read_safely(data: bytes, admitted: Callable[[PickledName], bool]) -> Any:
    """Reads a pickle.

    Args:
        data: The pickle, of any protocol.
        admitted: Whether a name may stand in it. None is ever imported; what is refused here
            merely makes a better message than what would come later.

    Returns:
        The content: plain values, lists, tuples, dictionaries, `PickledName` and
        `PickledObject`.

    Raises:
        RefusedPickleError: It is damaged, or holds something that is not admitted.
    """
    machine = _PickleMachine(admitted)
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
        problem = " ".join(str(error).split())[:120]
        raise RefusedPickleError(f"damaged or no pickle ({problem})") from error
    raise RefusedPickleError("damaged or no pickle (it does not end)")


class _PickleMachine:
    def __init__(self, admitted: Callable[[PickledName], bool]) -> None:
        self._admitted = admitted
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        value = self._stack.pop()
        if value is _MARK:
            raise RefusedPickleError("damaged or no pickle (a mark where a value belongs)")
        return value

    def run(self, name: str, argument: Any) -> None:
        if name in _NOTHING:
            return
        if name in _CONSTANTS:
            self._stack.append(argument)
        elif name in _READ:
            self._stack.append(self._memo[int(argument)])
        elif name in _WRITE:
            self._memo[int(argument)] = self._top()
        elif name in _INSTRUCTIONS:
            _INSTRUCTIONS[name](self, argument)
        else:  # extension codes, persistent ids, buffers outside of the file
            raise RefusedPickleError(f"it uses {name}, which plain data does not")

    def push(self, value: Any) -> None:
        self._stack.append(value)

    def memoize(self, _argument: Any) -> None:
        self._memo[len(self._memo)] = self._top()

    def duplicate(self, _argument: Any) -> None:
        self._stack.append(self._top())

    def drop(self, _argument: Any) -> None:
        self._stack.pop()

    def drop_to_mark(self, _argument: Any) -> None:
        self._above_mark()

    def name(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._import(module, name)

    def name_on_stack(self, _argument: Any) -> None:
        name, module = self.pop(), self.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise RefusedPickleError("damaged or no pickle (a name that is no text)")
        self._import(module, name)

    def tuple_above_mark(self, _argument: Any) -> None:
        self._stack.append(tuple(self._above_mark()))

    def tuple_of(self, count: int) -> None:
        values = [self.pop() for _ in range(count)]
        self._stack.append(tuple(reversed(values)))

    def list_above_mark(self, _argument: Any) -> None:
        self._stack.append(self._above_mark())

    def dict_above_mark(self, _argument: Any) -> None:
        values = self._above_mark()
        self._stack.append({})
        self._set_items(values)

    def frozenset_above_mark(self, _argument: Any) -> None:
        # Sets stay lists: nobody looks anything up in them.
        self._stack.append(self._above_mark())

    def append(self, _argument: Any) -> None:
        value = self.pop()
        self._extend([value])

    def append_above_mark(self, _argument: Any) -> None:
        self._extend(self._above_mark())

    def set_item(self, _argument: Any) -> None:
        value, key = self.pop(), self.pop()
        self._set_items([key, value])

    def set_above_mark(self, _argument: Any) -> None:
        self._set_items(self._above_mark())

    def call(self, _argument: Any) -> None:
        arguments, made_by = self.pop(), self.pop()
        self._stack.append(PickledObject(made_by, self._tuple(arguments)))

    def call_with_names(self, _argument: Any) -> None:
        names, arguments, made_by = self.pop(), self.pop(), self.pop()
        self._stack.append(PickledObject(made_by, (*self._tuple(arguments), names)))

    def call_named(self, argument: str) -> None:
        arguments = self._above_mark()
        self.name(argument)
        self._stack.append(PickledObject(self.pop(), tuple(arguments)))

    def call_first(self, _argument: Any) -> None:
        made_by, *arguments = self._above_mark()
        self._stack.append(PickledObject(made_by, tuple(arguments)))

    def set_state(self, _argument: Any) -> None:
        state = self.pop()
        target = self._top()
        if not isinstance(target, PickledObject):
            raise RefusedPickleError("damaged or no pickle (state of something that has none)")
        target.state = state

    def _top(self) -> Any:
        value = self._stack[-1]
        if value is _MARK:
            raise RefusedPickleError("damaged or no pickle (a mark where a value belongs)")
        return value

    def _above_mark(self) -> list[Any]:
        values: list[Any] = []
        while (value := self._stack.pop()) is not _MARK:
            values.append(value)
        values.reverse()
        return values

    def _import(self, module: str, name: str) -> None:
        found = PickledName(module, name)
        if not self._admitted(found):
            raise RefusedPickleError(f"it names {found}, which has no place there")
        self._stack.append(found)

    def _extend(self, values: list[Any]) -> None:
        target = self._top()
        (target.items if isinstance(target, PickledObject) else target).extend(values)

    def _set_items(self, values: list[Any]) -> None:
        target = self._top()
        for key, value in zip(values[::2], values[1::2], strict=True):
            if isinstance(target, PickledObject):
                target.items.append((key, value))
            elif isinstance(key, _SCALARS):
                target[key] = value
            else:  # hashing a deeply nested key would overflow the interpreter's own stack
                raise RefusedPickleError("a dictionary with keys that are neither text nor number")

    @staticmethod
    def _tuple(arguments: Any) -> tuple[Any, ...]:
        if not isinstance(arguments, tuple):
            raise RefusedPickleError("damaged or no pickle (arguments that are no tuple)")
        return arguments


_INSTRUCTIONS: dict[str, Callable[[_PickleMachine, Any], None]] = {
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
    "TUPLE": _PickleMachine.tuple_above_mark,
    "LIST": _PickleMachine.list_above_mark,
    "DICT": _PickleMachine.dict_above_mark,
    "FROZENSET": _PickleMachine.frozenset_above_mark,
    "APPEND": _PickleMachine.append,
    "APPENDS": _PickleMachine.append_above_mark,
    "ADDITEMS": _PickleMachine.append_above_mark,
    "SETITEM": _PickleMachine.set_item,
    "SETITEMS": _PickleMachine.set_above_mark,
    "POP": _PickleMachine.drop,
    "POP_MARK": _PickleMachine.drop_to_mark,
    "DUP": _PickleMachine.duplicate,
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
    """Admits names.

    Args:
        modules: Modules all of whose names are admitted, with those below them.
        names: Further names, with their modules.
    """

    def admitted(found: PickledName) -> bool:
        below = any(found.module == m or found.module.startswith(f"{m}.") for m in modules)
        return below or str(found) in names

    return admitted
