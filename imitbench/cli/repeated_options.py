"""Refuses options that take one value and are given twice, whose first value would be lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from imitbench.errors import InputError


def refuse_repeated_options(command: Any) -> None:
    """Makes a command, and the commands in its group, refuse repeated single-valued options.

    Options that may be repeated are lists. Repeated flags are accepted, as they say the same
    twice, but not both `--wait` and `--no-wait`.

    Args:
        command: Command or group, as Typer builds it.
    """
    for each in getattr(command, "commands", {}).values():
        refuse_repeated_options(each)
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
