"""Writes a repository of submissions: README, folders, and workflows for GitHub."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from imitbench.util.files import new_folder
from imitbench.version import __version__

_PATHS = {
    "README.md": "README.md",
    "submissions.md": "submissions/README.md",
    "verifications.md": "verifications/README.md",
    "intake.yaml": ".github/workflows/intake.yml",
    "comment.yaml": ".github/workflows/comment.yml",
    "publish.yaml": ".github/workflows/publish.yml",
}
"""Paths of the files, by the name in the template."""


def write_board_repository(folder: Path) -> None:
    """Writes the files of a repository of submissions, completely or not at all.

    Args:
        folder: Folder to create; must be empty or missing.

    Raises:
        InputError: The folder is not empty, or cannot be written.
    """
    source = Path(str(resources.files("imitbench.templates.board")))
    with new_folder(folder) as draft:
        for name, target in _PATHS.items():
            text = (source / name).read_text(encoding="utf-8")
            path = draft / target
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.replace("IMITBENCH_VERSION", __version__), encoding="utf-8")
