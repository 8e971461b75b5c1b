"""Prints the lowest versions that pyproject.toml accepts, as constraints for pip.

    python .ci/lowest_versions.py [EXCEPT…] > constraints-lowest.txt

Packages named EXCEPT are left out. Torch usually is: its old wheels for Linux bring gigabytes of
CUDA along, so that the tests of the lowest versions take it from constraints.txt.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import tomllib

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest_versions(project: Path = PROJECT) -> dict[str, str]:
    """Lower bound of every runtime dependency, by its name."""
    found = {}
    for requirement in tomllib.loads(project.read_text())["project"]["dependencies"]:
        match = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            raise ValueError(
                f"{project}: {requirement!r} has no lower bound; write {requirement}>=…"
            )
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    for name, version in lowest_versions().items():
        if name not in sys.argv[1:]:
            print(f"{name}=={version}")
