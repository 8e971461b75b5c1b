"""How the harness bears thousands of runs: collecting, looking again, and memory.

    python benchmarks/scale.py
    python benchmarks/scale.py --runs 2000 --only collect

makes run directories of runs that nobody ran, with learning curves and episodes, and measures each
part in a process of its own, imports included. The targets are those for 10,000 runs; it ends with
1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
METRICS = ("loss", "entropy", "accuracy", "l2_norm", "grad_norm")
POINTS = 50
EPISODES = 50


@dataclass(frozen=True)
class Row:
    """A line of the table.

    Attributes:
        what: What was measured, with its unit.
        value: The number.
        target: Most that it should be; `None` where there is no target.
    """

    what: str
    value: float
    target: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.target is None or self.value <= self.target

    def __str__(self) -> str:
        goal = "" if self.target is None else f" (target: at most {self.target:g})"
        missed = "" if self.reached else ", MISSED"
        return f"| {self.what}{goal}{missed} | {self.value:,.2f} |"


def measure_collect(runs: int, folder: Path) -> list[Row]:
    """Collects the runs for the first time, again with nothing new, and reports on them."""
    out = folder / "runs"
    _in_process("make", str(out), str(runs))
    first = _in_process("collect", str(out))
    again = _in_process("collect", str(out))
    one = _in_process("collect-one-more", str(out))
    report = _in_process("report", str(out))
    return [
        Row(f"collecting {runs:,} runs, seconds", first["seconds"], 30),
        Row("runs collected per second", runs / first["seconds"]),
        Row("peak memory of that, MiB", first["peak_mib"], 1024),
        Row("collecting again with nothing new, seconds", again["seconds"], 3),
        Row("collecting again with one run replaced, seconds", one["seconds"]),
        Row("`imitbench status`, seconds", report["status_seconds"]),
        Row("building the report, seconds", report["seconds"]),
        Row("peak memory of that, MiB", report["peak_mib"], 1024),
    ]


# Scheduling overhead per run belongs here, beside `measure_collect`.
PARTS: dict[str, Callable[[int, Path], list[Row]]] = {"collect": measure_collect}


def main() -> int:
    """Prints the table.

    Returns:
        0 if every target is reached, else 1.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--only", choices=PARTS, action="append", help="just these")
    parser.add_argument("--folder", type=Path, help="where to make the runs [a temporary folder]")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {options.runs:,} runs\n\n| | |\n| --- | ---: |")
    reached = True
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for row in PARTS[part](options.runs, Path(folder)):
                print(row, flush=True)
                reached &= row.reached
    return 0 if reached else 1


def _in_process(*step: str) -> dict[str, float]:
    """Runs a step in a process of its own, so that its memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--step", *step], stdout=subprocess.PIPE, check=True, text=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _step(name: str, out: Path, *arguments: str) -> dict[str, float]:
    answer = STEPS[name](out, *arguments)
    return answer | {"peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _make(out: Path, runs: str) -> dict[str, float]:
    sys.path.insert(0, str(TESTS))
    from support.synthetic_runs import plan_runs, write_results

    sizes = {"metrics": METRICS, "points": POINTS, "episodes": EPISODES}
    write_results(out, plan_runs(int(runs)), failed_every=50, **sizes)
    return {}


def _collect(out: Path) -> dict[str, float]:
    started = time.perf_counter()
    from imitbench.store.collector import collect

    collect(out)
    return {"seconds": time.perf_counter() - started}


def _collect_one_more(out: Path) -> dict[str, float]:
    result = next(out.glob("*/*/*/*/result.json"))
    result.write_bytes(result.read_bytes())
    return _collect(out)


def _report(out: Path) -> dict[str, float]:
    started = time.perf_counter()
    from imitbench.store.overview import survey

    survey(out)
    looked = time.perf_counter()
    from imitbench.cli.report import build
    from imitbench.report.markdown import render_markdown

    render_markdown(build(out))
    return {"status_seconds": looked - started, "seconds": time.perf_counter() - looked}


STEPS: dict[str, Callable[..., dict[str, float]]] = {
    "make": _make,
    "collect": _collect,
    "collect-one-more": _collect_one_more,
    "report": _report,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(_step(sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])))
    else:
        sys.exit(main())
