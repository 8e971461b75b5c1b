"""The reference page of the command line, generated from the commands."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

import typer

from imitbench.cli.main import app

INTRODUCTION = """# Commands

Generated from the commands: `imitbench COMMAND --help` prints the same. Data are printed to stdout,
everything else to stderr; `--json` prints one document. Exit codes: 0 success, 1 some runs failed
or a check failed, 2 bad input.
"""


def commands_page() -> str:
    """Returns Markdown with every command, its description and its options."""
    root = typer.main.get_command(app)
    sections = [_section(command, context) for command, context in _walk(root, None, "imitbench")]
    return "\n".join([INTRODUCTION, *sections])


def _walk(command: Any, parent: Any, name: str) -> Iterator[tuple[Any, Any]]:
    context = command.context_class(command, info_name=name, parent=parent)
    yield command, context
    for child_name, child in getattr(command, "commands", {}).items():
        yield from _walk(child, context, child_name)


def _section(command: Any, context: Any) -> str:
    path = context.command_path
    lines = [f"## {path}", "", _prose(command.help or ""), ""]
    lines += ["```text", command.get_usage(context).removeprefix("Usage: "), "```", ""]
    records = [record for param in command.params if (record := param.get_help_record(context))]
    if records:
        lines += ["| | |", "| --- | --- |"]
        lines += [f"| `{names}` | {_cell(text)} |" for names, text in records]
    return "\n".join([*lines, ""])


def _prose(text: str) -> str:
    """Formats a docstring; its examples become code blocks."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip().replace("\b\n", "")):
        start, _, examples = paragraph.partition("Example:")
        if not examples:
            start, _, examples = paragraph.partition("Examples:")
        if start.strip():
            paragraphs.append(_escaped(" ".join(start.split())))
        if examples:
            lines = [line.strip() for line in examples.strip().splitlines()]
            paragraphs.append("\n".join(["```text", *lines, "```"]))
    return "\n\n".join(paragraphs)


def _cell(text: str) -> str:
    return _escaped(" ".join(text.split())).replace("|", "&#124;")


def _escaped(text: str) -> str:
    """Escapes all markup except `code`."""
    parts = text.split("`")
    plain = [html.escape(part, quote=False).replace("*", "&#42;") for part in parts]
    return "`".join(
        parts[number] if number % 2 else each.replace("_", "&#95;").replace("[", "&#91;")
        for number, each in enumerate(plain)
    )
