"""Exceptions whose message is meant for the person at the keyboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_LONGEST, _MOST = 200, 2_000


class InputError(ValueError):
    """Bad input, told in one line: what is wrong, where, and how to fix it.

    The command line prints the message alone and exits with code 2. Library callers see an
    ordinary `ValueError`.
    """


class MissingPathError(InputError, FileNotFoundError):
    """Nothing is at the path that a function of the reference API reads."""


class UnknownNameError(InputError, KeyError):
    """A name is not in a registry of the reference API."""

    def __str__(self) -> str:
        return ", ".join(map(str, self.args))  # `KeyError` would show the message in quotes


class WrongTypeError(InputError, TypeError):
    """An object that a function of the reference API reads has another type than requested."""


def did_you_mean(wrong: str, accepted: Iterable[str]) -> str:
    """Names the nearest accepted value, then all of them.

    Args:
        wrong: What was given.
        accepted: Every value that would have been valid.

    Returns:
        A clause to append to an error message, such as
        `did you mean 'bc'? Accepted: bc, expert, random`.
    """
    names = sorted(accepted)
    # Names from files may have any length and number, and the comparison takes their product.
    shown = [name for name in names if len(name) <= _LONGEST][:_MOST]
    near = nearest(wrong[:_LONGEST], shown)
    hint = f"did you mean '{near}'? " if near else ""
    return f"{hint}Accepted: {', '.join(names) or 'nothing'}"


def nearest(wrong: str, accepted: Iterable[str]) -> str | None:
    """Returns the accepted name that was probably meant; `None` if none is near.

    Case does not count, initials stand for words (`lr` for `learning_rate`), and of environments
    another version or namespace is nearest (`HalfCheetah-v4` to `seals/HalfCheetah-v1`).
    """
    names, typed = list(accepted), wrong.lower()
    for name in names:
        if typed in (name.lower(), _initials(name.lower())):
            return name
    for name in names:
        if _without_version(name.lower()) == _without_version(typed):
            return name
    by_lower = {name.lower(): name for name in names}
    near = difflib.get_close_matches(typed, by_lower, n=1, cutoff=0.5)
    return by_lower[near[0]] if near else None


def _initials(name: str) -> str:
    words = name.split("_")
    return "".join(word[:1] for word in words) if len(words) > 1 else name


def _without_version(name: str) -> str:
    """The name of an environment without namespace and version; all of another name."""
    stem, dash, version = name.rpartition("/")[2].rpartition("-v")
    return stem if dash and version.isdecimal() else name
