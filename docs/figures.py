"""Draws the figures of the README and of the documentation again: `make figures`."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIGURES = {
    # file in docs/images: results, pattern of the figures of `imitbench report`, its file
    "classic.svg": (
        "results/imitbench-classic",
        "intervals",
        "classic-budget-default-*-intervals.svg",
    ),
}


def draw(folder: Path) -> None:
    """Draws all figures into a folder, from the published results."""
    for name, (results, figure, file) in FIGURES.items():
        with tempfile.TemporaryDirectory() as place:
            options = ["--out", results, "--format", "svg", "--figure", figure, "--to", place]
            command = [sys.executable, "-m", "imitbench", "report", *options]
            subprocess.run(command, cwd=ROOT, check=True)
            [drawn] = Path(place).glob(file)
            shutil.copyfile(drawn, folder / name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ROOT / "docs" / "images", metavar="DIR")
    draw(parser.parse_args().to)
