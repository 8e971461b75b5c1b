"""What every page has around its content, and what keeps it from loading anything."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from imitbench import __version__
from imitbench.report.html_markup import Markup, join, tag


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
