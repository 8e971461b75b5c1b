"""HTML and SVG, built so that foreign text cannot become markup."""

from __future__ import annotations

import html
import re

LONGEST_NAME = 40
"""Characters of a name that is kept on one line."""


class Markup(str):
    """HTML that is fit to stand as it is; only `tag` and `join` make it."""

    __slots__ = ()


def escape(value: str) -> Markup:
    """Turns foreign text into HTML that shows it, in elements and in quoted attributes.

    Args:
        value: Any text, or markup, which stays as it is.

    Returns:
        The text with spaces for control and formatting characters.
    """
    if isinstance(value, Markup):
        return value
    return Markup(html.escape("".join(c if c.isprintable() else " " for c in value)))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Builds an element.

    Args:
        name: Its name.
        *children: Texts, which are escaped, and markup.
        **attributes: Values, which are escaped. Underscores in names stand for hyphens, and one
            at the end is dropped. `None` and `False` leave an attribute out, `True` gives it no
            value.
    """
    given = []
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = key.removesuffix("_").replace("_", "-")
        given.append(f" {key}" if value is True else f' {key}="{escape(_number(value))}"')
    opening = f"<{name}{''.join(given)}>"
    if name in _VOID:
        return Markup(opening)
    return Markup(f"{opening}{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Puts texts, which are escaped, and markup together."""
    return Markup("".join(escape(child) for child in children))


def named(name: str, *classes: str) -> Markup:
    """A name, on one line where there is room and it is no longer than names are.

    Args:
        name: The name.
        *classes: Further CSS classes.
    """
    parts = [piece for part in _BREAKS.split(name) for piece in (part, Markup("<wbr>"))]
    long = ["long"] if len(name) > LONGEST_NAME else []
    return tag("span", *parts[:-1], class_=" ".join(["name", *long, *classes]))


def _number(value: str | float) -> str:
    return format(value, ".6g") if isinstance(value, float) else str(value)


_BREAKS = re.compile(r"(?<=[_/])")
_VOID = {"br", "input", "link", "meta"}
