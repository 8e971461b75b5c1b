"""The numbers of docs/tutorials/your_answers.md, with a scripted browser as annotator.

    python benchmarks/sixty_answers.py --teacher oracle --seed 0

Starts `imitbench label` and `imitbench run` as the tutorial does. In place of a person, Chromium
opens the page, and for each pair on it the key is pressed that one of B-Pref's teachers would
press, who knows the true reward. The training gets its answers only through the page. Needs
Chromium and playwright.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.browser import browser
from support.scripted_browser import IMITBENCH, ScriptedBrowser, labelling_page

from imitbench.algorithms.preference_comparisons.gatherers import TEACHERS, make_teacher

SETTINGS = {"gatherer": "human", "total_comparisons": "60", "num_iterations": "5"}


def main() -> int:
    """Runs the tutorial once; returns the exit code of the training."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("sixty-answers"))
    parser.add_argument("--teacher", default="oracle", choices=list(TEACHERS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", default="quick", choices=["quick", "default", "full"])
    options = parser.parse_args()
    queue = (options.out / f"{options.teacher}-{options.seed}").resolve()
    queue.mkdir(parents=True, exist_ok=True)
    teacher = make_teacher(options.teacher, np.random.default_rng(options.seed), floor=None)
    command = [*IMITBENCH, "run", "--algo", "pebble", "--env", "Pendulum-v1", "--json"]
    command += ["--seeds", f"{options.seed}-{options.seed}", "--budget", options.budget]
    command += ["--out", str(options.out / "runs")]
    for name, value in {**SETTINGS, "answers": str(queue)}.items():
        command += ["--set", f"{name}={value}"]
    begin = time.perf_counter()
    with (
        labelling_page(str(queue), "--queue", "--env", "Pendulum-v1") as link,
        browser() as opened,
        (queue / "training.json").open("w") as output,
    ):
        training = subprocess.Popen(command, stdout=output)
        annotator = ScriptedBrowser(opened, link, queue, teacher)
        given = annotator.answer_all(ended=lambda: training.poll() is not None)
    print(f"{given} answers, {time.perf_counter() - begin:.0f} s, exit {training.returncode}")
    print((queue / "training.json").read_text())
    print(annotator.complaints or "nothing on the page's console")
    return int(training.returncode)


if __name__ == "__main__":
    sys.exit(main())
