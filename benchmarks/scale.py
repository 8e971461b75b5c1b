"""Measures how the harness scales to thousands of runs: overhead, reports, memory, two workers.

    python benchmarks/scale.py
    python benchmarks/scale.py --runs 2000 --only collect

has three parts. `overhead` runs sweeps whose worker only writes an empty result, and subtracts the
time of a short one from that of a long one, which excludes the constant part. `collect` writes
synthetic run directories with learning curves and episodes, and measures each step in a separate
process, including imports. `workers` alternately runs the same real cells with one worker and with
two. Targets are for 10,000 runs; the exit code is 1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
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
SHORT, LONG = 100, 1100  # runs of the sweeps for `overhead`
SWEEPS, WRITTEN = 3, 200
CELLS = ("--algo", "bc", "--env", "Pendulum-v1")
SEEDS = 8
PAIRS = 3

# A worker that takes almost no time: it writes empty results and imports only small modules.
IDLE_WORKER = """
import json, sys
from pathlib import Path
for line in sys.stdin:
    path = Path(line.strip())
    job = json.loads(path.read_bytes())
    for run in job["runs"]:
        run_id = path.name.partition("-")[0]
        folder = Path(job["out"], run["suite"], run["algo"], run["environment"]["id"], run_id)
        folder.mkdir(parents=True)
        (folder / "result.json").touch()
    print(path, flush=True)
"""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        what: Name of the measurement, with its unit.
        value: Result of the measurement.
        most: Largest value that reaches the target; `None` for no upper limit.
        least: Smallest value that reaches the target; `None` for no lower limit.
    """

    what: str
    value: float
    most: float | None = None
    least: float | None = None

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return (self.most is None or self.value <= self.most) and (
            self.least is None or self.value >= self.least
        )

    def __str__(self) -> str:
        bounds = {"most": self.most, "least": self.least}
        goals = [f"at {side} {bound:g}" for side, bound in bounds.items() if bound is not None]
        goal = f" (target: {goals[0]})" if goals else ""
        missed = "" if self.reached else ", MISSED"
        return f"| {self.what}{goal}{missed} | {self.value:,.2f} |"


def measure_overhead(_runs: int, folder: Path) -> list[Row]:
    """Measures the overhead of each run: scheduling it, and writing its files."""
    per_run = []
    for turn in range(SWEEPS):
        seconds = {
            count: _in_process("sweep", str(folder / f"sweep-{turn}-{count}"), str(count))[
                "seconds"
            ]
            for count in (SHORT, LONG)
        }
        per_run.append((seconds[LONG] - seconds[SHORT]) / (LONG - SHORT))
    written = _in_process("write", str(folder / "written"))
    return [
        Row(
            "scheduling, ms per run (plan, job file, passing it to an idle worker and back, "
            "handling its outcome)",
            1000 * statistics.median(per_run),
            most=50,
        ),
        Row(
            "writing a run, ms (claim, specification, curve, episodes, result, flushed to "
            "the disk)",
            1000 * written["seconds"] / WRITTEN,
        ),
    ]


def measure_collect(runs: int, folder: Path) -> list[Row]:
    """Measures collecting the runs, collecting without changes, and reporting."""
    out = folder / "runs"
    _in_process("make", str(out), str(runs))
    first = _in_process("collect", str(out))
    again = _in_process("collect", str(out))
    one = _in_process("collect-one-more", str(out))
    report = _in_process("report", str(out))
    both = first["seconds"] + report["seconds"]
    return [
        Row(f"collecting {runs:,} runs, seconds", first["seconds"], most=30),
        Row("CPU time of collecting, seconds", first["processor_seconds"]),
        Row("runs collected per second", runs / first["seconds"]),
        Row("peak memory of collecting, MiB", first["peak_mib"], most=1024),
        Row("collecting again without changes, seconds", again["seconds"], most=3),
        Row("collecting again with one run replaced, seconds", one["seconds"]),
        Row("`imitbench status`, seconds", report["status_seconds"]),
        Row("building the report, seconds", report["seconds"]),
        Row("CPU time of status and report, seconds", report["processor_seconds"]),
        Row("peak memory of status and report, MiB", report["peak_mib"], most=1024),
        Row("collecting and reporting together, seconds", both, most=30),
    ]


def measure_workers(_runs: int, folder: Path) -> list[Row]:
    """Measures commands with one worker, with two workers, and two independent commands."""
    one, two, apart = [], [], []
    everything, halves = f"0-{SEEDS - 1}", (f"0-{SEEDS // 2 - 1}", f"{SEEDS // 2}-{SEEDS - 1}")
    for turn in range(PAIRS + 1):
        place = folder / str(turn)
        one.append(_seconds_of([(everything, 1)], place / "one"))
        two.append(_seconds_of([(everything, 2)], place / "two"))
        apart.append(_seconds_of([(half, 1) for half in halves], place / "apart"))
    # The first turn reads files that are cached later.
    ratios = [alone / both for alone, both in zip(one[1:], two[1:], strict=True)]
    bounds = [alone / both for alone, both in zip(one[1:], apart[1:], strict=True)]
    command = " ".join(CELLS)
    return [
        Row(f"{SEEDS} runs of `{command}` with one worker, seconds", statistics.median(one[1:])),
        Row("with two workers, seconds", statistics.median(two[1:])),
        Row("ratio of paired turns", statistics.median(ratios), least=1.8),
        Row("smallest ratio", min(ratios)),
        Row("largest ratio", max(ratios)),
        Row("ratio of two commands that share nothing, half each", statistics.median(bounds)),
    ]


PARTS: dict[str, Callable[[int, Path], list[Row]]] = {
    "overhead": measure_overhead,
    "collect": measure_collect,
    "workers": measure_workers,
}


def main() -> int:
    """Prints the table.

    Returns:
        0 if every target is reached, else 1.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000, help="run directories to collect")
    parser.add_argument("--only", choices=PARTS, action="append", help="only these")
    parser.add_argument("--folder", type=Path, help="folder for the runs [a temporary folder]")
    options = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"Python {platform.python_version()}, {options.runs:,} runs, load {load}\n")
    print("| | |\n| --- | ---: |", flush=True)
    reached = True
    for part in options.only or PARTS:
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            for row in PARTS[part](options.runs, Path(folder)):
                print(row, flush=True)
                reached &= row.reached
    return 0 if reached else 1


def _in_process(*step: str) -> dict[str, float]:
    """Runs a step in a separate process, to measure its memory."""
    done = subprocess.run(
        [sys.executable, __file__, "--step", *step], stdout=subprocess.PIPE, check=True, text=True
    )
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _seconds_of(commands: list[tuple[str, int]], out: Path) -> float:
    """Returns the seconds until all sweeps end, given their seeds and numbers of workers."""
    started = time.perf_counter()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "imitbench", "run", *CELLS, "--seeds", seeds, "--jobs",
             str(jobs), "--quiet", "--out", str(out / seeds)],
            stdout=subprocess.DEVNULL,
        )
        for seeds, jobs in commands
    ]  # fmt: skip
    for process in processes:
        if process.wait() != 0:
            raise SystemExit(f"`imitbench run` ended with {process.returncode}")
    return time.perf_counter() - started


def _step(name: str, out: Path, *arguments: str) -> dict[str, float]:
    answer = STEPS[name](out, *arguments)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return answer | {
        "peak_mib": used.ru_maxrss / 1024,
        "processor_seconds": used.ru_utime + used.ru_stime,
    }


def _make(out: Path, runs: str) -> dict[str, float]:
    sys.path.insert(0, str(TESTS))
    from support.synthetic_runs import plan_runs, write_results

    sizes = {"metrics": METRICS, "points": POINTS, "episodes": EPISODES}
    write_results(out, plan_runs(int(runs)), failed_every=50, **sizes)
    return {}


def _sweep(out: Path, runs: str) -> dict[str, float]:
    sys.path.insert(0, str(TESTS))
    from support.observer import Recorder
    from support.plans import make_plan

    from imitbench.bench.sweep import run_sweeps
    from imitbench.bench.worker_death import JobWorker
    from imitbench.executors.local import LocalExecutor
    from imitbench.executors.options import RunOptions

    out.mkdir()
    (out / "idle_worker.py").write_text(IDLE_WORKER)
    os.environ["PYTHONPATH"] = str(out)
    started = time.perf_counter()
    plan = make_plan(
        algorithms=["bc"],
        suite="classic",
        environment="Pendulum-v1",
        seeds=range(int(runs)),
    )
    executor = LocalExecutor(JobWorker("idle_worker"), 1)
    outcome = run_sweeps(
        [plan],
        executor,
        out=out / "runs",
        command="imitbench run",
        observer=Recorder(),
        options=RunOptions(),
    )
    seconds = time.perf_counter() - started
    if outcome.done != int(runs):
        raise SystemExit(f"{outcome.done} of {runs} runs were done")
    return {"seconds": seconds}


def _write(out: Path) -> dict[str, float]:
    sys.path.insert(0, str(TESTS))
    from support.synthetic_runs import plan_runs, write_finished

    specs = plan_runs(WRITTEN + 1)
    sizes = {"metrics": METRICS, "points": POINTS, "episodes": EPISODES}
    write_finished(out, specs[0], **sizes)  # imports its modules
    started = time.perf_counter()
    for spec in specs[1:]:
        write_finished(out, spec, **sizes)
    return {"seconds": time.perf_counter() - started}


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
    from imitbench.store.overview import StatusSurvey

    StatusSurvey(out).cells()
    looked = time.perf_counter()
    from imitbench.report.build import build
    from imitbench.report.markdown import render_markdown

    render_markdown(build(out, notify=print))
    return {"status_seconds": looked - started, "seconds": time.perf_counter() - looked}


STEPS: dict[str, Callable[..., dict[str, float]]] = {
    "sweep": _sweep,
    "write": _write,
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
