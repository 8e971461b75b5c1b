"""Prints the lowest versions that pyproject.toml accepts, as constraints for pip.

    python .ci/lowest_versions.py [--extras A,B] [EXCEPT…] > constraints-lowest.txt

Packages named EXCEPT are left out. Torch usually is: its old wheels for Linux bring gigabytes of
CUDA along, so that the tests of the lowest versions take it from constraints.txt.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from pathlib import Path

import tomllib

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def lowest_versions(extras: Iterable[str] = (), project: Path = PROJECT) -> dict[str, str]:
    """Lower bound of every dependency at run time, and of those of some extras, by name."""
    document = tomllib.loads(project.read_text())["project"]
    optional = document["optional-dependencies"]
    found = {}
    for requirement in (
        *document["dependencies"],
        *(each for name in extras for each in optional[name]),
    ):
        match = re.match(r"([\w.-]+)>=([\w.]+)", requirement)
        if match is None:
            raise ValueError(
                f"{project}: {requirement!r} has no lower bound; write {requirement}>=…"
            )
        found[match[1]] = match[2]
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the lowest versions that are accepted.")
    parser.add_argument("--extras", type=lambda text: text.split(","), default=[], metavar="A,B")
    parser.add_argument("left_out", nargs="*", metavar="EXCEPT")
    arguments = parser.parse_args()
    for name, version in lowest_versions(arguments.extras).items():
        if name not in arguments.left_out:
            print(f"{name}=={version}")
