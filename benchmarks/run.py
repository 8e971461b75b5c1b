"""Makes all comparisons with the reference library, in one table.

    python benchmarks/run.py --against-reference

creates an environment for the reference library in `.reference` (or uses `--reference-python`) and
measures both libraries alternately. For a ratio that misses its target, it prints the limit.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

import comparison
import reference

MODULES = (
    "bc",
    "rollout",
    "dagger",
    "adversarial",
    "density",
    "sqil",
    "mce_irl",
    "preference_comparisons",
)


def main() -> int:
    """Prints the table.

    Returns:
        0 if every target is reached, else 1.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--against-reference", action="store_true", required=True, help="against imitation 1.0.1"
    )
    parser.add_argument(
        "--reference-python", type=Path, help="interpreter that has imitation 1.0.1"
    )
    parser.add_argument("--only", choices=MODULES, action="append", help="only these")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    python = options.reference_python or reference.install(Path(".reference"))
    comparison.print_heading(options.repeats)
    reached = [
        comparison.print_comparison(each, python.absolute(), options.repeats)
        for module in options.only or MODULES
        for each in importlib.import_module(module).MEASUREMENTS
    ]
    print(f"\n{sum(reached)} of {len(reached)} targets reached")
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
