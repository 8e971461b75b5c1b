"""Makes names of the library in the text of pages links to the reference."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

_FENCED = re.compile(r"^( *)(```|~~~).*?^\1\2[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(?<![\[`])`([A-Za-z_][\w.]*)(\([^`]*\))?`(?![`\]])")
_CLASS = re.compile(r"[A-Z]\w*[a-z]\w*")
# Names at the top of the package are defined elsewhere.
_TOP = {"imitbench": ("imitbench.api", "imitbench.errors")}


class ApiLinks:
    """Finds the entries of names in the reference.

    Args:
        root: Folder of the repository. Modules are parsed, and not imported.
        modules: Modules of the reference, by dotted name.
    """

    def __init__(self, root: Path, modules: Sequence[str]) -> None:
        entries = [entry for module in modules for entry in _entries(root, module)]
        self._entries = {entry: entry for entry in entries}
        for package, homes in _TOP.items():
            for entry in entries:
                home, _, name = entry.rpartition(".")
                if home in homes:
                    self._entries.setdefault(f"{package}.{name}", entry)
        # A class may be called by its own name if there is only one of this name.
        last = {entry: entry.rpartition(".")[2] for entry in entries}
        counts = Counter(last.values())
        for entry, name in last.items():
            if counts[name] == 1 and _CLASS.fullmatch(name):
                self._entries.setdefault(name, entry)

    def link(self, markdown: str) -> str:
        """Returns the text of a page with links; headings and blocks of code stay as they are."""
        parts, end = [], 0
        for block in _FENCED.finditer(markdown):
            parts += [self._linked(markdown[end : block.start()]), block.group()]
            end = block.end()
        return "".join([*parts, self._linked(markdown[end:])])

    def _linked(self, text: str) -> str:
        lines = text.split("\n")
        return "\n".join(
            line if line.lstrip().startswith("#") else _CODE.sub(self._replacement, line)
            for line in lines
        )

    def _replacement(self, code: re.Match[str]) -> str:
        entry = self._entries.get(code[1])
        return code[0] if entry is None else f"[{code[0]}][{entry}]"


def _entries(root: Path, module: str) -> Iterator[str]:
    """Yields the names that the reference shows for a module: those with a docstring."""
    path = root.joinpath(*module.split(".")).with_suffix(".py")
    yield module
    yield from _members(ast.parse(path.read_text(encoding="utf-8")).body, module)


def _members(body: list[ast.stmt], place: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None:
            continue
        yield f"{place}.{node.name}"
        if isinstance(node, ast.ClassDef):
            yield from _members(node.body, f"{place}.{node.name}")
