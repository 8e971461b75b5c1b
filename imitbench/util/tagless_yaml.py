"""Reads YAML that other programs wrote with tags for objects of theirs, as plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from imitbench.errors import InputError
from imitbench.util.yaml_errors import UNREADABLE

_MAX_BYTES = 2**20


class _PlainLoader(yaml.SafeLoader):
    """Takes whatever has an unknown tag as the mapping, list or text that is written there."""

    def plain(self, _suffix: str, node: yaml.Node) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self.construct_mapping(node, deep=True)
        if isinstance(node, yaml.SequenceNode):
            return self.construct_sequence(node, deep=True)
        return self.construct_scalar(node)  # type: ignore[arg-type]


_PlainLoader.add_multi_constructor("", _PlainLoader.plain)


def read_tagless_mapping(path: Path) -> dict[str, Any]:
    """Reads a file with a mapping, such as `args.yml` and `config.yml` of RL Zoo.

    Tags are ignored, so nothing is built; a tagged `OrderedDict`, which is a list of a list of
    pairs, is read as the mapping that it stands for.

    Args:
        path: The file.

    Returns:
        The mapping; an empty one where the file is empty.

    Raises:
        InputError: It cannot be read, is no YAML, or no mapping.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: {path.stat().st_size:,} bytes are no settings")
        loader = _PlainLoader(path.read_text(encoding="utf-8"))
        document = loader.get_single_data()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UNREADABLE as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(f"{path}: no readable YAML ({problem})") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        document = _from_pairs(document)
    if document is None:
        raise InputError(f"{path}: must be a mapping of names to values")
    return {str(key): value for key, value in document.items()}


def _from_pairs(document: Any) -> dict[Any, Any] | None:
    """The mapping that the arguments of `OrderedDict` stand for; `None` where they are not."""
    pairs = document[0] if isinstance(document, list) and len(document) == 1 else None
    if not isinstance(pairs, list):
        return None
    if not all(isinstance(p, list) and len(p) == 2 and isinstance(p[0], str) for p in pairs):
        return None
    return {key: value for key, value in pairs}  # noqa: C416 (pairs are lists, as mypy sees it)
