"""Everything from outside passes here: limits, ordinary files, bounded parsers, a child process.

This module imports nothing, as each command needs it at its start.
"""

from __future__ import annotations

_commands: list[bool] = []


def mark_as_command() -> None:
    """Says that this process is a command, which may be copied: it has no threads of others."""
    _commands.append(True)


def is_command() -> bool:
    """Whether this process is a command, and not a program that imports this package."""
    return bool(_commands)
