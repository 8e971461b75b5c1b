"""Builds HTML and SVG in which untrusted text cannot become markup."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files

from imitbench.version import __version__

LONGEST_NAME = 40
"""Number of characters up to which a name is kept on one line."""


class Markup(str):
    """HTML that needs no escaping; only functions of this module create it."""

    __slots__ = ()


def escape(value: str) -> Markup:
    """Escapes untrusted text for HTML, in elements and in quoted attributes.

    Args:
        value: Any text; `Markup` is returned unchanged.

    Returns:
        The text with spaces for control and formatting characters.
    """
    if isinstance(value, Markup):
        return value
    if not value.isprintable():
        value = "".join(c if c.isprintable() else " " for c in value)
    return Markup(html.escape(value))


def tag(name: str, /, *children: str, **attributes: str | float | bool | None) -> Markup:
    """Builds an element.

    Args:
        name: Tag name.
        *children: Texts, which are escaped, and `Markup`.
        **attributes: Values, which are escaped. Underscores in names become hyphens, and one at
            the end is dropped. `None` and `False` omit an attribute; `True` writes it without a
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
    """Concatenates texts, which are escaped, and `Markup`."""
    return Markup("".join(escape(child) for child in children))


def named(name: str, *classes: str) -> Markup:
    """Returns a name that stays on one line, unless it is unusually long.

    Args:
        name: Text to show.
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
    title: str,
    body: Markup,
    *,
    styles: Sequence[str],
    scripts: Sequence[str],
    served: bool = False,
    media: bool = False,
) -> str:
    """Returns a page that contains its style sheets and scripts.

    The page loads nothing. Its security policy forbids loading, and any script but its own.

    Args:
        title: Title of the browser window.
        body: Content of the page's body.
        styles: File names of the style sheets in this package's assets.
        scripts: File names of the scripts in these assets; they run in this order in one scope.
        served: Whether the page may get data and videos from the server that it comes from.
        media: Whether the page may show videos that lie beside it.
    """
    style = "\n".join(_asset(name) for name in styles)
    parts = "\n".join(_asset(name) for name in scripts)
    script = f'(() => {{\n"use strict";\n{parts}\n}})();\n'
    head = join(
        tag("meta", charset="utf-8"),
        tag(
            "meta",
            http_equiv="Content-Security-Policy",
            content=_policy(style, script, served=served, media=media),
        ),
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
    """Returns the choice between light, dark and the system's theme; `theme.js` handles it."""
    themes = [
        tag("option", label, value=value)
        for value, label in (("", "System"), ("light", "Light"), ("dark", "Dark"))
    ]
    return tag("label", tag("span", "Theme"), tag("select", *themes, id="theme"), class_="theme")


def block(id_: str, title: str | Markup, *parts: Markup, classes: str = "", **data: str) -> Markup:
    """Returns a section with a heading that links to itself.

    Args:
        id_: HTML id of the section.
        title: Text or markup of the heading.
        *parts: Content.
        classes: Further CSS classes.
        **data: Further attributes.
    """
    link = tag("a", href=f"#{id_}", class_="link", aria_label="Link to this section")
    heading = tag("h2", title, " ", link, id=f"{id_}-title")
    return tag(
        "section",
        heading,
        *parts,
        id=id_,
        aria_labelledby=f"{id_}-title",
        class_=f"block {classes}".strip(),
        **data,
    )


def code_block(lines: Iterable[str], label: str) -> Markup:
    """Returns lines of code in a box that scrolls, with a button that copies them.

    Args:
        lines: Lines of text, which are escaped.
        label: What the code is, for screen readers.
    """
    code = tag("code", Markup("\n".join(map(escape, lines))))
    box = tag("pre", code, class_="scroll", role="region", aria_label=label, tabindex="0")
    button = tag("button", "Copy", type="button", data_copy=True, hidden=True,
                 aria_label=f"Copy: {label}")  # fmt: skip
    return tag("div", box, button, class_="code")


def fact(count: int, what: str, *, bad: bool = False) -> Markup:
    """Returns a count with its noun, as a list item."""
    number = tag("strong", f"{count:,}", class_="bad" if bad else None)
    return tag("li", number, f" {what}{'' if count == 1 else 's'}")


def _asset(name: str) -> str:
    return (files("imitbench.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str, *, served: bool, media: bool) -> str:
    """Returns a security policy that allows only this style and script.

    A page that is not served may not connect to anything.
    """
    hashes = []
    for content in (style, script):
        digest = hashlib.sha256(content.encode("utf-8")).digest()
        hashes.append(f"'sha256-{base64.b64encode(digest).decode('ascii')}'")
    own = "connect-src 'self'; " * served + "media-src 'self'; " * (served or media)
    return (
        f"default-src 'none'; style-src {hashes[0]}; script-src {hashes[1]}; img-src data:; "
        f"{own}base-uri 'none'; form-action 'none'"
    )
