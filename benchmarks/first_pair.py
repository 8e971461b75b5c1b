"""How long a person waits for the first pair on the labelling page, and for the next ones.

    python benchmarks/first_pair.py --pairs 10 40

Starts `imitbench label --env Pendulum-v1 --pairs N` and opens the page in Chromium. The first time
is from the start of the command to the first pair whose clips can play: imports, episodes, rendering
of all pairs and the page are in it. The others are measured in the page, from the key that answers
to the frame that shows the next pair. Needs Chromium and playwright.
"""

from __future__ import annotations

import argparse
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
    print("| pairs | first pair, s | next pair: median, ms | 99th percentile, ms | largest, ms |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    with browser() as opened:
        for pairs in options.pairs:
            with tempfile.TemporaryDirectory(prefix="first-pair-") as scratch:
                first, waits = measure(opened, pairs, Path(scratch))
            median, p99 = np.quantile(waits, [0.5, 0.99])
            row = f"| {pairs} | {first:.1f} | {median:.0f} | {p99:.0f} | {max(waits):.0f} |"
            print(row, flush=True)


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
