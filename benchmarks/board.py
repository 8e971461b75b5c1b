"""Measures a large leaderboard: time and memory of its build, size and start of its first page.

    python benchmarks/board.py
    python benchmarks/board.py --methods 20 --environments 5

writes published results of methods that do not exist, builds the site in a process of its own, and
opens its first page in Chromium, if that is installed. Processor seconds are those of the build and
of the process that tries the files first; on a busy machine, only they can be compared. The exit
code is 1 if a target is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from scale import Row

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.browser import CANDIDATES, browser
from support.many_results import write_many_results

OPENED = 5


def main() -> int:
    """Prints the table.

    Returns:
        0 if every target is reached, else 1.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--methods", type=int, default=100)
    parser.add_argument("--environments", type=int, default=20)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="folder for the results [a temporary folder]")
    options = parser.parse_args()
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    runs = options.methods * options.environments * options.seeds
    print(f"Python {platform.python_version()}, {runs:,} runs, load {load}\n")
    print("| | |\n| --- | ---: |", flush=True)
    reached = True
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        results, site = Path(folder) / "results", Path(folder) / "site"
        os.fsync = lambda _: None  # results that are thrown away need not survive a power cut
        write_many_results(
            results / "synthetic", options.methods, options.environments, options.seeds
        )
        for row in (*measure_build(results, site), *measure_first_page(site)):
            print(row, flush=True)
            reached &= row.reached
    return 0 if reached else 1


def measure_build(results: Path, site: Path) -> Iterator[Row]:
    """Measures the command that builds the site."""
    before = time.perf_counter()
    command = [sys.executable, "-m", "imitbench", "leaderboard", "build", "--quiet"]
    process = subprocess.Popen([*command, "--results", str(results), "--out", str(site)])
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - before
    if status:
        raise SystemExit(f"the build ended with status {status}")
    files = [path for path in site.rglob("*") if path.is_file()]
    yield Row("building the site, seconds", seconds, most=60)
    yield Row("processor seconds of it", usage.ru_utime + usage.ru_stime)
    yield Row("peak memory of a process of it, MiB", usage.ru_maxrss / 2**10, most=1536)
    yield Row("files of the site", len(files))
    yield Row("size of the site, MiB", sum(path.stat().st_size for path in files) / 2**20)
    yield Row("first page, kB", (site / "index.html").stat().st_size / 1000, most=300)


def measure_first_page(site: Path) -> Iterator[Row]:
    """Measures how soon the first page answers in Chromium: loaded, with its script run."""
    import shutil

    if not any(map(shutil.which, CANDIDATES)):
        print("(no Chromium)")
        return
    ready, busy, filtered = [], [], []
    entry = "performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd"
    with browser() as opened:
        for _ in range(OPENED):
            page = opened.new_page(viewport={"width": 1400, "height": 900})
            session = page.context.new_cdp_session(page)
            session.send("Performance.enable", {"timeDomain": "threadTicks"})
            page.goto((site / "index.html").as_uri())
            ready.append(page.evaluate(entry) / 1000)
            metrics = session.send("Performance.getMetrics")["metrics"]
            busy.append(next(each["value"] for each in metrics if each["name"] == "ThreadTime"))
            filtered.append(page.evaluate(_FILTER) / 1000)
            page.close()
    yield Row("first page answers after, seconds (median)", statistics.median(ready), most=1)
    yield Row("processor seconds of its thread (median)", statistics.median(busy))
    yield Row("filtering its rows, seconds (median)", statistics.median(filtered))


_FILTER = """() => {
  const field = document.querySelector("[data-view=q]");
  const before = performance.now();
  field.value = "method_001";
  field.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect();
  return performance.now() - before;
}"""


if __name__ == "__main__":
    sys.exit(main())
