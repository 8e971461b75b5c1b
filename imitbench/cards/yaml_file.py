"""Reads a YAML file into a pydantic model, with errors that name file, line and key path."""

from __future__ import annotations

import re
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted.files import read_text
from imitbench.untrusted.messages import visible_characters
from imitbench.untrusted.yaml_text import BoundedLoader, load_yaml
from imitbench.util.parse_errors import BAD_YAML_VALUES
from imitbench.util.text_line import one_line

Model = TypeVar("Model", bound=BaseModel)
KeyPath = tuple[str | int, ...]

# YAML 1.1 reads a float only with a dot: `3e-4` is text.
_DOTLESS_FLOAT = re.compile(r"[-+]?\d+e[-+]?\d+", re.IGNORECASE)


def read_yaml_model(
    path: Path,
    model: type[Model],
    complete: Callable[[dict[str, Any]], dict[str, Any]] = lambda document: document,
) -> Model:
    """Reads and validates one YAML file.

    Args:
        path: YAML file.
        model: Pydantic model of the whole document.
        complete: Changes the document before it is validated.

    Returns:
        The validated model.

    Raises:
        InputError: The file is missing, is not YAML, or has duplicate keys, unknown keys, wrong
            types or aliases. The message names the file, the line and the key path.
    """
    text = read_text(path)
    try:
        root, document = load_yaml(text, _AliaslessLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        problem = one_line(getattr(error, "problem", None) or error)
        raise InputError(f"{path}{line}: not valid YAML ({problem})") from error
    except RecursionError as error:
        raise InputError(f"{path}: not valid YAML (nested too deeply)") from error
    except BAD_YAML_VALUES as error:
        raise InputError(
            f"{path}: not valid YAML ({one_line(error)}); put quotes around text"
        ) from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: must hold `key: value` lines")
    lines: dict[KeyPath, int] = {}
    for key_path, line_number, duplicate in _walk(root, ()):
        if duplicate:
            key = one_line(key_path[-1])
            raise InputError(f"{path}:{line_number}: duplicate key '{key}'; keep one")
        lines[key_path] = line_number
    try:
        return model.model_validate(complete(document))
    except ValidationError as error:
        # A misspelt key is also a missing one; report the misspelling.
        told = sorted(error.errors(), key=lambda found: found["type"] != "extra_forbidden")
        message = _explain(path, lines, model, told[0])
        raise InputError(visible_characters(message)) from error


class _AliaslessLoader(BoundedLoader):
    """Rejects aliases: a few lines of them can exceed memory or be endless."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                problem=f"alias '*{event.anchor}' is not supported; write out its value",
                problem_mark=event.start_mark,
            )
        return super().compose_node(parent, index)


def _walk(node: yaml.Node | None, path: KeyPath) -> Iterator[tuple[KeyPath, int, bool]]:
    """Yields (key path, line, is duplicate) for each mapping key and list item."""
    if isinstance(node, yaml.MappingNode):
        seen = set()
        for key, value in node.value:
            here = (*path, str(key.value))
            yield here, key.start_mark.line + 1, key.value in seen
            seen.add(key.value)
            yield from _walk(value, here)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            here = (*path, index)
            yield here, value.start_mark.line + 1, False
            yield from _walk(value, here)


def _explain(
    path: Path, lines: dict[KeyPath, int], model: type[BaseModel], error: ErrorDetails
) -> str:
    location = error["loc"]
    known = location
    while known and tuple(known) not in lines:
        known = known[:-1]
    line = f":{lines[tuple(known)]}" if known else ""
    dotted = ".".join(str(part) for part in location) or "document"
    where = f"{path}{line}: {dotted}"
    if error["type"] == "extra_forbidden":
        accepted = _accepted_keys(model, location[:-1])
        return f"{where}: unknown key; {did_you_mean(str(location[-1]), accepted)}"
    if error["type"] == "missing":
        return f"{where}: this key is required"
    value = error["input"]
    if isinstance(value, str) and _DOTLESS_FLOAT.fullmatch(value):
        mantissa, exponent = re.split("[eE]", value)
        return f"{where}: YAML reads {value} as text; write {mantissa}.0e{exponent}"
    problem = error["msg"].removeprefix("Value error, ")
    # A validator of a whole entry names the keys; the entry itself may be long.
    given = "" if isinstance(value, dict | list) else f", not {one_line(repr(value))}"
    return f"{where}: {problem[:1].lower()}{problem[1:]}{given}"


def _accepted_keys(model: type[BaseModel], location: KeyPath) -> list[str]:
    """Follows a key path through nested models; returns the keys accepted at its end."""
    current: Any = model
    for part in location:
        if isinstance(current, type) and issubclass(current, BaseModel):
            field = current.model_fields.get(str(part))
            current = field.annotation if field else None
        else:  # a dict or list: step to its value type
            current = next(reversed(typing.get_args(current)), None)
        current = _model_within(current)
    if isinstance(current, type) and issubclass(current, BaseModel):
        return list(current.model_fields)
    return []


def _model_within(annotation: Any) -> Any:
    """Returns the model in `Optional[Model]`, and anything else unchanged."""
    if typing.get_origin(annotation) in (dict, list, tuple):
        return annotation
    for option in typing.get_args(annotation):
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option
    return annotation
