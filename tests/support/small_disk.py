"""A small file system that fills up quickly."""

import os
import subprocess
from contextlib import contextmanager

import pytest

_BALLAST = ".ballast"


@contextmanager
def small_disk(folder, size):
    """Mounts a file system of a given size; skips the test if that is not allowed."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def room(folder, size):
    """Context in which the file system of a folder has only `size` free bytes."""
    disk = os.statvfs(folder)
    ballast = folder / _BALLAST
    with ballast.open("wb") as stream:
        os.posix_fallocate(stream.fileno(), 0, disk.f_bavail * disk.f_frsize - size)
    try:
        yield
    finally:
        ballast.unlink()
