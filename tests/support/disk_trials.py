"""Repeats a small task on a disk that fails, each time at another call.

    python -m support.disk_trials WORK ERROR once|stays FOLDER FIRST STEP

tries every STEP-th call of the task, starting with FIRST, each in a separate folder, and prints a
line of JSON for each trial. It is started by `support.failing_disk.run_with_library`.
"""

import errno
import json
import shutil
import sys
from itertools import count
from pathlib import Path

from imitbench.util.torch_startup import use_one_thread
from support.disk_works import WORKS, expected_results, trial
from support.failing_disk import FailingDisk


def main(name, error, mode, folder, first, step):
    use_one_thread()
    folder, work = Path(folder), WORKS[name]()
    expected = expected_results(work, folder / "whole")
    for call in count(int(first), int(step)):
        out = folder / str(call)
        disk = FailingDisk(out, call, getattr(errno, error), stays=mode == "stays")
        record = trial(work, out, disk, expected)
        if disk.calls < call:  # the task has fewer calls
            return
        print(json.dumps({"call": call} | record), flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
