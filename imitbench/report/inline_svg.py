"""Puts figures of matplotlib into pages whose security policy forbids style attributes."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator

from imitbench.report.html_markup import Markup, tag

_SIZES = ("width", "height", "version")
# `font` is no attribute of SVG: its parts are.
_FONT = re.compile(r"(?:(?P<style>italic|oblique) )?(?:(?P<weight>bold|\d+) )?(?P<size>[\d.]+px) "
                   r"(?P<family>.+)")  # fmt: skip


def inline_svg(content: bytes, label: str) -> Markup:
    """Returns a figure as an element of a page, as wide as its surroundings.

    Declarations of style become attributes of their elements. Texts are escaped again.

    Args:
        content: SVG as matplotlib writes it, from this process.
        label: What the figure shows, for screen readers.
    """
    root = ET.fromstring(content)
    attributes = {name: value for name, value in root.attrib.items() if name not in _SIZES}
    # Matplotlib sets these two for all elements, in a style sheet.
    joins = {"stroke-linejoin": "round", "stroke-linecap": "butt"}
    return tag("svg", *_children(root), role="img", aria_label=label, **attributes, **joins)


def _children(element: ET.Element) -> Iterator[Markup]:
    for child in element:
        name = _local(child.tag)
        if name in ("metadata", "style"):
            continue
        attributes = {_local(key): value for key, value in child.attrib.items()}
        for key, value in _declarations(attributes.pop("style", "")):
            attributes.setdefault(key, value)
        own = [] if child.text is None or not child.text.strip() else [child.text]
        yield tag(name, *own, *_children(child), **attributes)


def _declarations(style: str) -> Iterator[tuple[str, str]]:
    """Yields the attributes that say the same as a style."""
    for declaration in style.split(";"):
        name, _, value = (part.strip() for part in declaration.partition(":"))
        font = _FONT.fullmatch(value) if name == "font" else None
        if font is not None:
            yield from ((f"font-{part}", text) for part, text in font.groupdict().items() if text)
        elif name:
            yield name, value


def _local(name: str) -> str:
    return name.rpartition("}")[2]
