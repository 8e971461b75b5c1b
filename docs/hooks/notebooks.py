"""Notebooks as pages: cells become text and blocks of code, and outputs are left out."""

from __future__ import annotations

import json
from pathlib import Path


def notebook_pages(docs: Path) -> dict[str, str]:
    """Returns the Markdown of every notebook in `docs/tutorials`, by the path of its page.

    Args:
        docs: Folder of the documentation.
    """
    return {
        path.relative_to(docs).with_suffix(".md").as_posix(): _markdown(path)
        for path in sorted((docs / "tutorials").glob("*.ipynb"))
    }


def _markdown(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
    parts.append(f"This page as a notebook: [{path.name}]({path.name}).")
    return "\n\n".join(parts) + "\n"
