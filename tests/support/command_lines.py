"""All commands, and command lines of documents that are changed so that they take seconds."""

import functools

import typer

from imitbench.cli.main import app


@functools.cache
def root_command():
    """Returns the command `imitbench`; to build all below it takes half a second."""
    return typer.main.get_command(app)


def commands(group=None, words=()):
    """Yields each command as its words and its object."""
    for name, command in (group or root_command().commands).items():
        if hasattr(command, "commands"):
            yield from commands(command.commands, (*words, name))
        else:
            yield " ".join((*words, name)), command


def with_options(arguments, options):
    """Returns the arguments with these options, which replace values that are there already."""
    changed = list(arguments)
    for flag, value in options.items():
        if flag in changed:
            changed[changed.index(flag) + 1] = value
        else:
            changed += [flag, value]
    return changed
