"""Whether the recording page keeps up: the first frame, the rate, and frames that were lost.

    python benchmarks/recording.py --env gym_pusht/PushT-v0 --rate 30 --episodes 6

Starts `imitbench record` and opens its page in Chromium on the same machine, where a scripted mouse
drags the agent in circles until each episode ends. The rate is the recorded one of an episode; a
frame is lost if the page did not draw it. The first frame counts from the start of the command;
Chromium is open already.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.browser import browser


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="gym_pusht/PushT-v0")
    parser.add_argument("--rate", type=float, default=30.0)
    parser.add_argument("--episodes", type=int, default=6)
    arguments = parser.parse_args()
    with browser() as chromium, tempfile.TemporaryDirectory(prefix="recording-") as scratch:
        start = time.perf_counter()
        command = [
            sys.executable, "-m", "imitbench", "record", "--env", arguments.env, "--rate",
            str(arguments.rate), "--to", str(Path(scratch) / "to"), "--port", "0",
            "--episodes", str(arguments.episodes), "--no-browser", "--json", "--quiet",
        ]  # fmt: skip
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            page = chromium.new_page(viewport={"width": 1000, "height": 900})
            page.goto(json.loads(until_brace(process.stdout))["url"])
            wait_for(page, "state && counts.drawn > 0")
            first_s = time.perf_counter() - start
            rates = [drag(page, kept) for kept in range(1, arguments.episodes + 1)]
            counts = page.evaluate("counts")
            process.terminate()
    print("| first frame | frames drawn | frames lost | rate of episodes |\n|---:|---:|---:|---:|")
    spread = f"{min(rates):.2f} to {max(rates):.2f} Hz"
    print(f"| {first_s:.1f} s | {counts['drawn']:,} | {counts['lost']} | {spread} |")
    return 0


def until_brace(stream) -> str:
    """Reads a JSON object whose last line is a brace."""
    text = ""
    while not text.endswith("}\n"):
        text += stream.readline()
    return text


def wait_for(page, expression: str) -> None:
    """Waits in small steps; the page's policy forbids what Playwright itself would do."""
    while not page.evaluate(expression):
        page.wait_for_timeout(5)


def drag(page, kept: int) -> float:
    """Drags in circles until an episode ends, and keeps it; returns its rate in Hz.

    Args:
        page: The page.
        kept: How many episodes it then has.
    """
    box = page.locator("#picture").bounding_box()
    turn = 0.0
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 0.5 * box["height"])
    page.mouse.down()
    while page.evaluate("state.phase !== 'ended'"):
        turn += 0.1
        page.mouse.move(
            box["x"] + (0.5 + 0.2 * math.cos(turn)) * box["width"],
            box["y"] + (0.5 + 0.2 * math.sin(turn)) * box["height"],
        )
        page.wait_for_timeout(20)
    page.mouse.up()
    rate = page.evaluate("state.real_hz")
    page.keyboard.press("Enter")
    wait_for(page, f"state.kept === {kept}")
    return float(rate)


if __name__ == "__main__":
    sys.exit(main())
