"""The version of this package, and the commit that it was built from, which results state."""

from functools import cache
from pathlib import Path

__version__ = "0.2.0"

COMMIT_FILE = "commit.txt"
"""Written into built packages by `setup.py`, beside this module."""


def checkout_commit(root: Path) -> str | None:
    """Returns the commit of a checkout, or `None` if a folder is no root of one.

    `-dirty` is added if a tracked file differs from that commit.
    """
    if not (root / ".git").exists():
        return None
    import subprocess  # here, because every command imports this module

    described = ("describe", "--always", "--abbrev=40", "--exclude=*", "--dirty")
    try:
        answer = subprocess.run(
            ["git", "-C", str(root), *described],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


@cache
def commit() -> str | None:
    """Returns the commit that this package is from; `None` if nothing records it."""
    package = Path(__file__).parent
    found = checkout_commit(package.parent)
    if found is not None:
        return found
    try:
        return (package / COMMIT_FILE).read_text().strip()
    except OSError:
        return None
