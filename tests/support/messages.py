"""Texts in the package's source, with gaps for inserted values."""

import ast
from functools import cache
from pathlib import Path

import imitbench

GAP = "…"


@cache
def texts():
    """Returns all texts of the package, after implicit and explicit concatenation."""
    found = set()
    for path in Path(imitbench.__file__).parent.rglob("*.py"):
        found.update(
            text
            for node in ast.walk(ast.parse(path.read_text()))
            if (text := _text_of(node)) is not None
        )
    return found


def is_said(message):
    """Whether the message, with gaps for values, is part of a text in the source."""
    parts = [part for part in message.split(GAP) if part]
    return any(_in_order(parts, text) for text in texts())


def _text_of(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            part.value if isinstance(part, ast.Constant) else GAP for part in node.values
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text_of(node.left), _text_of(node.right)
        return None if left is None or right is None else left + right
    return None


def _in_order(parts, text):
    place = 0
    for part in parts:
        place = text.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True
