"""Options of the command line that come from a record: one for each of its fields."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import field, make_dataclass
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from imitbench.cli import completion
from imitbench.executors.registry import executor_names, option_help
from imitbench.util.options import Option, OptionRecord

_Function = TypeVar("_Function", bound=Callable[..., None])
_LAST = ("json", "quiet")
_COMPLETIONS: dict[str, Callable[..., Any]] = {
    "demos": completion.demos,
    "device": completion.devices,
    "env": completion.environments,
    "executor": completion.executors,
    "expert": completion.experts,
    "suite": completion.suites,
}


def takes(record: type[OptionRecord], **fixed: Any) -> Callable[[_Function], _Function]:
    """Gives a command the options of a record, which it finds as `context.obj`.

    Args:
        record: The record.
        **fixed: Values of options that the command does not offer, by keyword.
    """

    def mark(function: _Function) -> _Function:
        vars(function)["command_class"] = command_class(record, **fixed)
        return function

    return mark


def command_class(
    record: type[OptionRecord], only: Collection[str] | None = None, **fixed: Any
) -> type[TyperCommand]:
    """A class of commands with the options of a record.

    Args:
        record: The record.
        only: Keywords of the options that are offered; all by default.
        **fixed: Values of options that are not offered, by keyword.
    """
    offered = {
        keyword: option
        for keyword, option in record.options().items()
        if keyword not in fixed and (only is None or keyword in only)
    }

    class RecordCommand(TyperCommand):
        """A command with options of a record."""

        def __init__(self, *, params: list[Any], **settings: Any) -> None:
            every = [*params, *_parameters(offered)]
            every.sort(key=lambda each: (each.name in _LAST, not each.required))
            super().__init__(params=every, **settings)

        def invoke(self, ctx: Any) -> Any:
            """Makes the record, and calls the command."""
            given = {keyword: ctx.params.pop(keyword) for keyword in offered}
            ctx.obj = record.of({**fixed, **given})
            return super().invoke(ctx)

    return RecordCommand


def _parameters(options: dict[str, Option]) -> list[Any]:
    """What typer makes of the parameters of a constructor with these keywords."""
    fields = [
        (name, _annotation(each), field(default=each.default)) for name, each in options.items()
    ]
    app = typer.Typer(add_completion=False)
    app.command()(make_dataclass("Options", fields, kw_only=True))
    return typer.main.get_command(app).params


def _annotation(option: Option) -> Any:
    flags = [option.flag] if option.letter is None else [option.flag, option.letter]
    return Annotated[
        option.kind,
        typer.Option(
            *flags,
            help=_help_text(option),
            metavar=option.metavar,
            min=option.least,
            autocompletion=_COMPLETIONS.get(option.keyword),
        ),
    ]


def _help_text(option: Option) -> str:
    """The help of an option; executors say what one means that is theirs alone."""
    if option.keyword == "executor":
        return f"{option.help.removesuffix('.')}: {', '.join(executor_names())}."
    own = option_help(option.keyword)
    return " ".join(f"With {name}: {text}." for name, text in own.items()) or option.help
