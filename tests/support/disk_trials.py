"""Does a small piece of work again and again on a disk that fails, each time at another call.

    python -m support.disk_trials WORK ERROR once|stays FOLDER FIRST STEP

tries every STEP-th call of the work from FIRST on, each in a folder of its own, and prints a line
of JSON about each trial. `support.failing_disk.run_with_library` starts it.
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
        if disk.calls < call:  # the work has fewer
            return
        print(json.dumps({"call": call} | record), flush=True)
        shutil.rmtree(out)


if __name__ == "__main__":
    main(*sys.argv[1:])
