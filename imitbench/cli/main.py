"""The `imitbench` command: finds the command that is asked for, turns bad input into one line."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, cast

import typer
from typer.core import TyperGroup

from imitbench.errors import InputError
from imitbench.util.library_patches import silence_unraisable
from imitbench.util.text_line import printable
from imitbench.version import __version__

# Name, module in imitbench.cli, and there a function or a Typer with commands of its own.
_COMMANDS = {
    "run": "run:run",
    "resume": "resume:resume",
    "status": "status:status",
    "cancel": "cancel:cancel",
    "logs": "logs:logs",
    "collect": "collect:collect",
    "report": "report:report",
    "compare": "compare:compare",
    "sql": "sql:sql",
    "eval": "evaluate:evaluate",
    "train": "train:app",
    "algos": "algos:algos",
    "suites": "suites:app",
    "experts": "experts:app",
    "demos": "demos:app",
    "results": "results:app",
    "import": "import_:app",
    "leaderboard": "leaderboard:app",
    "prefetch": "pull:prefetch",
    "tune": "tune:tune",
    "init-algo": "init_plugin:init_algo",
    "init-suite": "init_plugin:init_suite",
    "check-algo": "check_algo:check_algo",
    "verify-resume": "verify_resume:verify_resume",
    "doctor": "doctor:doctor",
}


class _Commands(Mapping[str, Any]):
    """Imports and builds a command when it is asked for, as each call needs one of them."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, *_COMMANDS[name].split(":"))
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


def _build(name: str, module: str, attribute: str) -> Any:
    target = getattr(importlib.import_module(f"imitbench.cli.{module}"), attribute)
    if isinstance(target, typer.Typer):
        group = typer.main.get_group(target)
        group.name = name
        return group
    alone = typer.Typer(add_completion=False, **_STYLE)
    alone.command(name, cls=vars(target).get("command_class"))(target)
    return typer.main.get_command(alone)


class _Root(TyperGroup):
    """The command itself; a group whose commands are built one by one."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(dict[str, Any], _Commands())

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, in the order of the table."""
        return list(self.commands)


_STYLE: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
app = typer.Typer(
    name="imitbench",
    cls=_Root,
    help="Which imitation or reward learning method is better, on what, and by how much?",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    **_STYLE,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the command as a whole."""


def main() -> None:
    """Runs the command line; never shows a traceback for bad input.

    Exit codes: 0 done; 1 some runs failed, or a check says no; 2 usage or bad input.
    """
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (KeyboardInterrupt, typer.Abort):
        # What was just being made, such as a progress bar, complains of its missing parts when it
        # is thrown away.
        silence_unraisable()
        typer.echo("stopped", err=True)
        sys.exit(130)
    except Exception as error:
        # Typer's own usage errors; their base class has moved between versions.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a group of commands, named alone
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _fail(error.format_message().replace("Value error, ", ""))  # said of wrong choices
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str) -> None:
    typer.echo(f"error: {printable(message)}", err=True)
    sys.exit(2)
