"""Gives real processes a machine with faults, by a preloaded library."""

import ctypes
import os
import shutil
import struct
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")
_TESTS = Path(__file__).parents[1]


def build_library(folder):
    """Compiles the library; skips the test if that is not possible."""
    compiler = shutil.which("gcc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("failing disks need Linux and gcc")
    library = folder / "failing_disk.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-ldl", str(_SOURCE)]
    subprocess.run([*command, "-o", str(library)], check=True)
    return library


def run_with_library(library, module, *arguments):
    """Runs a module of the tests in a process in which the disk can fail.

    Returns:
        Its output.
    """
    paths = [str(_TESTS), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        env={
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


class FailingDisk:
    """Context in which calls that write below a folder fail.

    Works only in a process started by `run_with_library`.

    Args:
        folder: The folder.
        call: Number of the call that fails, counted from 1.
        number: The `errno` of the failure.
        stays: Whether all later calls fail, too.

    Attributes:
        calls: Number of calls; set at the end.
    """

    def __init__(self, folder, call, number, *, stays):
        self._library = ctypes.CDLL(None)
        self._library.disk_disarm.restype = ctypes.c_long
        self._options = os.fsencode(f"{folder}/"), ctypes.c_long(call), number, int(stays)
        self.calls = 0

    def __enter__(self):
        self._library.disk_arm(*self._options)

    def __exit__(self, *error):
        self.calls = self._library.disk_disarm()


class FaultyMachine:
    """A machine on which the clock is off, or a folder is slow or cannot be written.

    Its faults change while processes run: write `faults` of them with `set`.

    Args:
        library: Made by `build_library`.
        folder: The folder; processes must name it by its absolute path.
        control: File that tells processes the present faults; is created.

    Attributes:
        environment: Variables for processes that run on the machine; their children do, too.
    """

    def __init__(self, library, folder, control):
        self._control = Path(control)
        self._control.write_bytes(bytes(struct.calcsize("3q")))
        self.environment = {
            "LD_PRELOAD": str(library),
            "MACHINE_FAULTS": str(control),
            "MACHINE_FOLDER": f"{folder}/",
        }

    def set(self, *, clock_s=0, delay_s=0.0, error=0):
        """Replaces the present faults.

        Args:
            clock_s: Seconds by which the time of day is ahead.
            delay_s: Mean delay before each call that puts something below the folder or opens it.
            error: `errno` with which calls fail that put something below the folder; 0 for none.
        """
        with self._control.open("r+b") as stream:  # processes have mapped this very file
            stream.write(struct.pack("3q", clock_s, int(delay_s * 1e6), error))

    @contextmanager
    def faulty(self, **faults):
        """Context in which the machine has some faults, and none afterwards."""
        self.set(**faults)
        try:
            yield
        finally:
            self.set()
