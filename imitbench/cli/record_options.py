"""Builds command-line options from a record class: one option for each field."""

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


def with_options_of(record: type[OptionRecord], **fixed: Any) -> Callable[[_Function], _Function]:
    """Adds the options of a record to a command, which gets the record as `context.obj`.

    Args:
        record: Class whose fields become options.
        **fixed: Values of fields that the command does not offer as options, by keyword.
    """

    def mark(function: _Function) -> _Function:
        vars(function)["command_class"] = command_class(record, **fixed)
        return function

    return mark


def command_class(
    record: type[OptionRecord], only: Collection[str] | None = None, **fixed: Any
) -> type[TyperCommand]:
    """Returns a Typer command class that has the options of a record.

    Args:
        record: Class whose fields become options.
        only: Keywords of the options that are offered; all by default.
        **fixed: Values of fields that are not offered as options, by keyword.
    """
    offered = {
        keyword: option
        for keyword, option in record.options().items()
        if keyword not in fixed and (only is None or keyword in only)
    }

    class RecordCommand(TyperCommand):
        """A command whose options are the fields of `record`."""

        def __init__(self, *, params: list[Any], **settings: Any) -> None:
            every = [*params, *_parameters(offered)]
            every.sort(key=lambda parameter: (parameter.name in _LAST, not parameter.required))
            super().__init__(params=every, **settings)

        def invoke(self, ctx: Any) -> Any:
            """Builds the record from the options, and calls the command."""
            given = {keyword: ctx.params.pop(keyword) for keyword in offered}
            ctx.obj = record.of({**fixed, **given})
            return super().invoke(ctx)

    return RecordCommand


def _parameters(options: dict[str, Option]) -> list[Any]:
    """Returns the Typer parameters for these options."""
    fields = [(name, _annotation(one), field(default=one.default)) for name, one in options.items()]
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
    """Returns the help of an option; executors describe the options that only they have."""
    if option.keyword == "executor":
        return f"{option.help.removesuffix('.')}: {', '.join(executor_names())}."
    own = option_help(option.keyword)
    return " ".join(f"With {name}: {text}." for name, text in own.items()) or option.help
