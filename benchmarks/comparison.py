"""Common parts of all comparisons with the reference library: turns, options and the table."""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import reference


@dataclass(frozen=True)
class Measurement:
    """A measurement that is made for both libraries.

    Attributes:
        name: Name in the table.
        unit: Unit of the numbers that the program prints.
        program: Python program; its first argument is the library, and it prints a number.
        arguments: Further arguments of the program.
        target: Minimum ratio to reach.
        limit: What limits the ratio.
        less_is_better: Whether the numbers are times instead of rates.
    """

    name: str
    unit: str
    program: str
    arguments: tuple[str, ...]
    target: float
    limit: str
    less_is_better: bool = False

    def ratios(self, ours: list[float], theirs: list[float]) -> list[float]:
        """Returns how many times faster this library is, for each pair of turns."""
        pairs = zip(ours, theirs, strict=True)
        return [their / our if self.less_is_better else our / their for our, their in pairs]


def main(description: str | None, measurements: Iterable[Measurement]) -> tuple[Path, int]:
    """Parses the command line, measures and prints the table.

    Returns:
        Interpreter of the reference library, and number of repeats.
    """
    python, repeats = parse_options(description or "")
    print_heading(repeats)
    for each in measurements:
        print_comparison(each, python, repeats)
    return python, repeats


def print_comparison(measurement: Measurement, python: Path, repeats: int) -> bool:
    """Measures and prints three rows, and the limit of a ratio that misses its target.

    Returns:
        Whether the median of the ratios reaches the target.
    """
    ours, theirs = take_turns(python, measurement.program, *measurement.arguments, repeats=repeats)
    ratios = measurement.ratios(ours, theirs)
    reached = statistics.median(ratios) >= measurement.target
    digits = 2 if statistics.median(ours) < 100 else 0
    verdict = "" if reached else f"; MISSED, limited by {measurement.limit}"
    print(row(f"{measurement.name}, {measurement.unit}", ours, digits))
    print(row("reference 1.0.1", theirs, digits))
    target = f"ratio of paired turns (target: at least {measurement.target:g}{verdict})"
    print(row(target, ratios, 2), flush=True)
    return reached


def parse_options(description: str) -> tuple[Path, int]:
    """Parses the command line.

    Returns:
        Interpreter of the reference library, which is installed if requested, and number of
        repeats.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--reference-python", type=Path, help="interpreter with imitation 1.0.1")
    which.add_argument("--install-reference", type=Path, metavar="DIR", help="install one there")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    python = options.reference_python or reference.install(options.install_reference)
    return python.absolute(), options.repeats


def take_turns(
    python: Path, program: str, *arguments: str, repeats: int
) -> tuple[list[float], list[float]]:
    """Runs a program for both libraries alternately.

    Args:
        python: Interpreter of the reference library.
        program: Python program; its first argument is the library, and it prints a number.
        *arguments: Further arguments of the program.
        repeats: Number of turns.

    Returns:
        The numbers of this library and of the reference library.
    """
    ours, theirs = [], []
    for _ in range(repeats):
        own = reference.run(Path(sys.executable), program, "imitbench", *arguments)
        ours.append(float(own))
        theirs.append(float(reference.run(python, program, "imitation", *arguments)))
    return ours, theirs


def print_heading(repeats: int) -> None:
    """Prints the conditions and the header of the table."""
    print(f"Python {platform.python_version()}, {repeats} repeats, one thread\n")
    print("| | median | smallest to largest |\n| --- | ---: | ---: |")


def row(what: str, values: list[float], digits: int) -> str:
    """Returns a row of the table: median, minimum and maximum."""
    low, middle, high = (
        f"{value:,.{digits}f}" for value in (min(values), statistics.median(values), max(values))
    )
    return f"| {what} | {middle} | {low} to {high} |"
