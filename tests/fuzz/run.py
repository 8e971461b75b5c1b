"""Runs fuzz targets in child processes with limits on memory: `make fuzz MINUTES=20`.

Exits with 1 if a case raises anything but a refusal, takes more than ten seconds, or ends its
process. C++ libraries end it on some damaged files (`ABORTING`); those are read behind the gate,
where this is a refusal, too, and are counted as aborted.
"""

import argparse
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import pandas  # noqa: F401 (Arrow imports it later, in each child)
import torch as th
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from near_files import TEXTS
from targets import REFUSALS, TARGETS

SLOWEST_S = 10.0
MEMORY = 2**31  # a gigabyte, and one that libraries reserve
ABORTING = ("parquet", "arrow")
COUNTS = ("cases", "read", "refused", "aborted")


class FindingError(Exception):
    """A case that took too long."""


def run(name, examples, number, counts):
    """Runs cases of one target; raises what it raises."""

    @seed(number)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
    )
    @given(st.data())
    def case(data):
        folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
        start = time.process_time()
        counts["cases"] += 1
        try:
            TARGETS[name](folder, data.draw)
            counts["read"] += 1
        except REFUSALS as error:
            counts["refused"] += 1
            if len(str(error).splitlines()) > 1:
                raise FindingError("a message of several lines") from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if time.process_time() - start > SLOWEST_S:
            raise FindingError(f"more than {SLOWEST_S} seconds")

    case()


def run_in_child(name, examples, number):
    """Runs cases of one target in a child process.

    Returns:
        Counts, and what was found: a text, or nothing.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        counts, found = Counter(), ""
        try:
            run(name, examples, number, counts)
        except BaseException as error:
            traceback.print_exc(limit=-3)
            found = f"{type(error).__name__}: {str(error)[:300]}"
        with os.fdopen(writer, "w") as pipe:
            json.dump([counts, found], pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        told = pipe.read()
    _, status = os.waitpid(child, 0)
    if told:
        counts, found = json.loads(told)
        return Counter(counts), found
    killed_by = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
    if killed_by is signal.SIGABRT and name in ABORTING:
        return Counter(aborted=1), ""
    return Counter(), f"the process ended ({killed_by.name if killed_by else status})"


def main():
    """Runs every target in turn until the time or the number of cases is spent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--cases", type=int, default=0, help="in all, at least")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", choices=TARGETS, action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    th.set_num_threads(1)
    # Hypothesis prepares its texts, and collects the numbers that stand in the source, from which
    # it draws now and then. Each child would do both again.
    settings(max_examples=1, database=None)(given(TEXTS)(lambda _: None))()
    settings(max_examples=200, database=None)(given(st.integers())(lambda _: None))()
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    names = options.target or list(TARGETS)
    each = -(-options.cases // len(names)) if options.cases else 50
    end = time.monotonic() + 60 * options.minutes
    counts, found, number = Counter(), [], options.seed
    while True:
        for name in names:
            part, problem = run_in_child(name, each, number)
            counts += part
            if problem:
                print(f"FINDING {name}, seed {number}: {problem}", flush=True)
                found.append(name)
            if options.minutes and time.monotonic() > end:
                break
        number += 1
        if time.monotonic() >= end:
            break
    print(" ".join(f"{key} {counts[key]}" for key in COUNTS), end=" ")
    print(f"findings {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
