"""Repeats a small task on a disk that fails, each time at another call.

    python -m support.disk_trials WORK FOLDER FIRST STEP ERROR-once|ERROR-stays…

tries every STEP-th call of the task, starting with FIRST, each with every error and in a separate
folder, and prints a line of JSON for each trial. `support.failing_disk.run_with_library` starts it.
"""

import errno
import json
import shutil
import sys
from itertools import count
from pathlib import Path

from support.disk_works import WORKS, expected_results, trial
from support.failing_disk import FailingDisk


def main(name, folder, first, step, *failures):
    folder, work = Path(folder), WORKS[name]()
    expected = expected_results(work, folder / "whole")
    for failure in failures:
        error, mode = failure.split("-")
        for call in count(int(first), int(step)):
            out = folder / str(call)
            disk = FailingDisk(out, call, getattr(errno, error), stays=mode == "stays")
            record = trial(work, out, disk, expected)
            shutil.rmtree(out)
            if disk.calls < call:  # the task has fewer calls
                break
            print(json.dumps({"failure": failure, "call": call} | record), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
