"""How long a person waits for the first pair on the labelling page, and for the next ones.

    python benchmarks/first_pair.py --pairs 10 40

Starts `imitbench label --env Pendulum-v1 --pairs N` and opens the page in Chromium. The first time
is from the start of the command to the first pair whose clips can play: imports, episodes, the
rendering of all pairs and the page are in it. Beside it stands the processor time of the command,
which depends less on what else the machine does. The times of next pairs are measured in the page,
from the key that answers to the frame that shows the next pair. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.browser import browser
from support.scripted_browser import labelling_page

_MEASURE = """() => {
  window.pressedAt = 0;
  window.waitsMs = [];
  addEventListener("keydown", () => { pressedAt = performance.now(); }, true);
  new MutationObserver(() => {
    const since = pressedAt;
    if (shown === null) return;
    shown.ready.then(() => requestAnimationFrame(() => waitsMs.push(performance.now() - since)));
  }).observe(document.getElementById("left"), { childList: true });
}"""


def main() -> None:
    """Prints a row for each number of pairs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, nargs="+", default=[10, 40])
    options = parser.parse_args()
    head = (
        "pairs",
        "first pair, s",
        "processor, s",
        "next pair: median, ms",
        "99 %, ms",
        "largest, ms",
    )
    print(f"| {' | '.join(head)} |\n|{' ---: |' * len(head)}")
    with browser() as opened:
        for pairs in options.pairs:
            before = processor_s()
            with tempfile.TemporaryDirectory(prefix="first-pair-") as scratch:
                first, waits = measure(opened, pairs, Path(scratch))
            seconds = f"{first:.1f} | {processor_s() - before:.1f}"
            next_ms = " | ".join(f"{ms:.0f}" for ms in np.quantile(waits, [0.5, 0.99, 1]))
            print(f"| {pairs} | {seconds} | {next_ms} |", flush=True)


def processor_s() -> float:
    """Processor time of the commands that ended, with their encoders."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(opened, pairs: int, folder: Path) -> tuple[float, list[float]]:
    """Seconds to the first pair, and milliseconds to each next one."""
    begin = time.perf_counter()
    shown = ("--env", "Pendulum-v1", "--pairs", str(pairs))
    with labelling_page(*shown, cwd=folder) as link:
        page = opened.new_page()
        page.goto(link)
        page.wait_for_selector("#choose-left:enabled")
        first = time.perf_counter() - begin
        page.evaluate(_MEASURE)
        while not page.locator("#end").is_visible():
            if page.evaluate("shown !== null && shown.loaded && !busy"):
                page.keyboard.press("ArrowLeft")
            page.wait_for_timeout(20)
        waits = page.evaluate("waitsMs")
        page.close()
    return first, waits


if __name__ == "__main__":
    main()
