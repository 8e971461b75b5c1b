"""Lists of names and globs, as options take them: repeated, or separated by commas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from imitbench.errors import InputError

Names = str | Sequence[str] | None
"""One name, several, or none; each text may have several, separated by commas."""


def split_names(option: str, given: Names) -> list[str]:
    """Returns names in the order in which they were given, without duplicates.

    Commas in brackets belong to a name, as in `bc[hidden_size=8,epochs=1]`.

    Args:
        option: Name of the option, for messages.
        given: Names, or texts with names that are separated by commas.

    Raises:
        InputError: A name is empty.
    """
    texts = [given] if isinstance(given, str) else list(given or [])
    names = [name.strip() for text in texts for name in at_commas(text)]
    if "" in names:
        shown = ",".join(texts)
        raise InputError(f"{option} {shown!r}: has an empty name; separate names by one comma")
    return list(dict.fromkeys(names))


def join_names(option: str, given: Names) -> str | None:
    """Returns names as one text with commas; `None` for none.

    Args:
        option: Name of the option, for messages.
        given: As for `split_names`.

    Raises:
        InputError: A name is empty.
    """
    return ",".join(split_names(option, given)) or None


def at_commas(text: str) -> list[str]:
    """Splits a text at the commas that are not in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += {"[": 1, "]": -1}.get(letter, 0)
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def matches_id(env_id: str, patterns: Iterable[str]) -> bool:
    """Whether the id of an environment matches a shell-style pattern, with or without namespace.

    `Pendulum*` selects `imitbench/Pendulum-v0`, too: what follows the last `/` is also compared.
    """
    names = {env_id, env_id.rpartition("/")[2]}
    return any(matches(name, patterns) for name in names)


def matches(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name is equal to, or matches, one of some shell-style patterns."""
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
