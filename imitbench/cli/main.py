"""The `imitbench` command: imports the requested command, reports bad input as one line."""

from __future__ import annotations

import difflib
import importlib
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import typer
from typer.core import TyperGroup

from imitbench.errors import InputError
from imitbench.untrusted import mark_as_command
from imitbench.untrusted.messages import error_line
from imitbench.util.library_patches import silence_unraisable
from imitbench.version import __version__

# Name, module in imitbench.cli, and the function or Typer group in that module.
_COMMANDS = {
    "run": "run:run",
    "race": "race:race",
    "resume": "resume:resume",
    "status": "status:status",
    "cancel": "cancel:cancel",
    "logs": "logs:logs",
    "dashboard": "dashboard:dashboard",
    "collect": "collect:collect",
    "report": "report:report",
    "compare": "compare:compare",
    "claims": "claims:app",
    "sql": "sql:sql",
    "eval": "evaluate:evaluate",
    "train": "train:app",
    "algos": "algos:algos",
    "suites": "suites:app",
    "experts": "experts:app",
    "demos": "demos:app",
    "record": "record:record",
    "label": "label:app",
    "rewards": "rewards:app",
    "results": "results:app",
    "import": "import_:app",
    "leaderboard": "leaderboard:app",
    "prefetch": "pull:prefetch",
    "tune": "tune:tune",
    "init-algo": "init_plugin:init_algo",
    "init-suite": "init_plugin:init_suite",
    "check-algo": "check_algo:check_algo",
    "audit": "audit:audit",
    "verify-resume": "verify_resume:verify_resume",
    "doctor": "doctor:doctor",
}


class _Commands(Mapping[str, Any]):
    """Commands by name; each is imported and built at first access, as a call needs one only."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            self._built[name] = _build(name, *_COMMANDS[name].split(":"))
            refuse_repeated_options(self._built[name])
            _summarize(self._built[name])
            _name_values(self._built[name])
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


def _summarize(command: Any) -> None:
    """Makes lists of commands show whole first sentences, which the library would cut short."""
    first = " ".join((command.help or "").split("\n\n")[0].split())
    command.short_help = re.split(r"(?<=\.)\s", first)[0]
    for child in getattr(command, "commands", {}).values():
        _summarize(child)


_VALUES = {
    "<int>": "N",
    "<int range>": "N",
    "<float>": "NUMBER",
    "<float range>": "NUMBER",
    "<str>": "TEXT",
    "<path>": "PATH",
}
"""Words for values of options, by the library's names of Python types."""


def _name_values(command: Any) -> None:
    """Makes help pages name values by what users write, not by Python types."""
    context = typer.Context(command)
    for parameter in command.params:
        if not hasattr(parameter, "display_type"):  # older versions of the library use such words
            continue
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 (named by the library)
        elif parameter.metavar is None:
            named = parameter.display_type(context)
            parameter.metavar = _VALUES.get(named) or re.sub(r"^<list\[(.*)\]>$", r"<\1>", named)
    for child in getattr(command, "commands", {}).values():
        _name_values(child)


_INTERRUPTED_QUERY = "Query interrupted"
"""What DuckDB raises, as a plain `RuntimeError`, where Ctrl-C ends a query of the main thread."""


class _Root(TyperGroup):
    """The root command: a group that builds a command only when that command is used."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = cast(dict[str, Any], _Commands())

    def list_commands(self, ctx: Any) -> list[str]:
        """Returns the names of all commands, in the order of `_COMMANDS`."""
        return list(self.commands)

    def invoke(self, ctx: Any) -> Any:
        """Runs the command; an interrupt becomes `typer.Abort`, which `main` sees.

        Some versions of the library would turn an interrupt into its exit code alone.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise typer.Abort from error
        except RuntimeError as error:
            if str(error) != _INTERRUPTED_QUERY:
                raise
            raise typer.Abort from error


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
    version: bool = typer.Option(  # noqa: ARG001 (its callback handles it)
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    color: Literal["auto", "always", "never"] = typer.Option(
        "auto",
        "--color",
        help="Color: on terminals (auto; NO_COLOR and FORCE_COLOR change that), always or never.",
    ),
) -> None:
    """Handles the options of `imitbench` itself, which come before a command."""
    if color != "auto":  # variables, so that processes that this one starts follow too
        os.environ.pop("NO_COLOR", None)
        os.environ.pop("FORCE_COLOR", None)
        os.environ.update({"FORCE_COLOR" if color == "always" else "NO_COLOR": "1"})


def main() -> None:
    """Runs the command line; bad input gives one line on stderr, never a traceback.

    Exit codes: 0 done; 1 some runs or a check failed; 2 wrong usage or bad input; 130 stopped by
    Ctrl-C.
    """
    mark_as_command()
    try:
        code = app(standalone_mode=False)
    except InputError as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader, such as `head`, closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a full disk, a read-only folder, a name that is too long
        where = error.filename if error.filename is not None else "a file or folder"
        _fail(f"{where}: {error.strerror or error}; fix that, and try again")
    except (KeyboardInterrupt, typer.Abort):
        # A half-built object, such as a progress bar, reports missing attributes when it is
        # deleted.
        silence_unraisable()
        typer.echo("stopped", err=True)
        sys.exit(130)
    except Exception as error:
        # Typer's own usage errors; their base class has moved between versions.
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # a command group without a command
            typer.echo(error.format_message(), err=True)
            sys.exit(2)
        _fail(_with_hint(error).replace("Value error, ", ""))  # prefix of wrong choices
    sys.exit(code if isinstance(code, int) else 0)


def _with_hint(error: Any) -> str:
    """Returns an error's message; that of a wrong command names the one that it may stand for."""
    message = str(error.format_message())
    name = re.match(r"No such command '(.*?)'\.", message)
    context = getattr(error, "ctx", None)
    if name is None or context is None:
        return message
    typed = context.command_path.removeprefix(context.find_root().command_path)
    paths = dict(_paths(context.command, f"imitbench{typed}"))
    if name[1] not in paths and "Did you mean" in message:
        return message
    near = difflib.get_close_matches(name[1], paths, n=1)
    if near:
        return f"{name[0]} Did you mean `{paths[near[0]]}`?"
    return f"{message} Accepted: {', '.join(context.command.commands)}"


def _paths(group: Any, typed: str) -> Iterator[tuple[str, str]]:
    """Yields the names of all commands below a group, with the words that call each."""
    for name, command in group.commands.items():
        yield name, f"{typed} {name}"
        if hasattr(command, "commands"):
            yield from _paths(command, f"{typed} {name}")


def _fail(message: str) -> None:
    typer.echo(f"error: {error_line(message)}", err=True)
    sys.exit(2)


def refuse_repeated_options(command: Any) -> None:
    """Makes a command, and the commands in its group, refuse repeated single-valued options.

    Options that may be repeated are lists. Repeated flags are accepted, as they say the same
    twice, but not both `--wait` and `--no-wait`.

    Args:
        command: Command or group, as Typer builds it.
    """
    for child in getattr(command, "commands", {}).values():
        refuse_repeated_options(child)
    make_parser = command.make_parser

    def make_checked(context: Any) -> Any:
        parser = make_parser(context)
        parse_args = parser.parse_args

        def parse(args: list[str]) -> tuple[Any, list[str], Sequence[Any]]:
            values, rest, order = parse_args(args=args)
            if not context.resilient_parsing:  # as for completion, while a line is incomplete
                _check(order)
            return values, rest, order

        parser.parse_args = parse
        return parser

    command.make_parser = make_checked


def _check(given: Sequence[Any]) -> None:
    for option, times in Counter(given).items():
        if times == 1 or option.param_type_name != "option" or option.multiple or option.count:
            continue
        if option.is_flag and not option.secondary_opts:
            continue
        name = "/".join([*option.opts[:1], *option.secondary_opts])
        fix = "give it once" if option.is_flag else "it takes one value"
        raise InputError(f"{name}: given {times} times; {fix}")
