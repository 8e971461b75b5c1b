"""HTML and SVG, built so that foreign text cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Sequence
from importlib.resources import files

from imitbench.version import __version__

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


def html_document(
    title: str, body: Markup, *, styles: Sequence[str], scripts: Sequence[str]
) -> str:
    """A page with everything inside.

    It loads nothing, and its security policy keeps it from doing so, and from running any script
    but its own.

    Args:
        title: Its title.
        body: Its content.
        styles: Names of the style sheets, among this package's assets.
        scripts: Names of the scripts likewise, which run in this order in one scope.
    """
    style = "\n".join(_asset(name) for name in styles)
    parts = "\n".join(_asset(name) for name in scripts)
    script = f'(() => {{\n"use strict";\n{parts}\n}})();\n'
    head = join(
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"imitbench {__version__}"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        Markup(f"<style>{style}</style>"),
    )
    whole = join(body, Markup(f"<script>{script}</script>"))
    page = tag("html", tag("head", head), tag("body", whole), lang="en")
    return f"<!doctype html>\n{page}\n"


def theme_picker() -> Markup:
    """The choice between light, dark, and what the system says; `theme.js` brings it to life."""
    themes = [
        tag("option", label, value=value)
        for value, label in (("", "System"), ("light", "Light"), ("dark", "Dark"))
    ]
    return tag("label", tag("span", "Theme"), tag("select", *themes, id="theme"), class_="theme")


def fact(count: int, what: str, *, bad: bool = False) -> Markup:
    """A number of things, as an entry of a list."""
    number = tag("strong", f"{count:,}", class_="bad" if bad else None)
    return tag("li", number, f" {what}{'' if count == 1 else 's'}")


def _asset(name: str) -> str:
    return (files("imitbench.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing but this style and this script, and no connection to anywhere."""
    hashes = []
    for content in (style, script):
        digest = hashlib.sha256(content.encode("utf-8")).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode('ascii')}'")
    return (
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
