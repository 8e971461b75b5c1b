"""Fixtures that any test may ask for."""

import atexit
import fcntl
import gc
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest
from support.browser import browser
from support.command import call_imitbench, share_warm_start

# Several tests run at once, one to a core, and networks as small as these gain nothing from more
# threads. Said before torch and NumPy are imported, and to all processes that tests start.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# A busy machine is no failure.
hypothesis.settings.register_profile(
    "any-machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("any-machine")


def pytest_configure(config):
    """All workers run commands from one warm process, which gets ready while they collect tests.

    With coverage, each worker measures commands of its own.
    """
    shared = config.getoption("numprocesses", None) and not config.getoption("cov_source", None)
    if shared and "PYTEST_XDIST_WORKER" not in os.environ:
        share_warm_start()


def pytest_collection_modifyitems(items):
    """Groups, which one worker runs from beginning to end, begin first: no core waits for them."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection():
    """Modules and tests live until the end, so there is no garbage to look for among them."""
    gc.disable()


def pytest_collection_finish():
    """As in every worker of the package, torch's optimizers leave its compiler unloaded."""
    gc.enable()
    gc.freeze()
    atexit.register(gc.unfreeze)  # extensions warn about what is left
    if "torch" in sys.modules:
        from imitbench.util.library_patches import leave_compiler_unloaded

        leave_compiler_unloaded()


@pytest.fixture(scope="session", autouse=True)
def _no_litter(tmp_path_factory):
    """Temporary folders of the library, its workers' too, go where pytest clears up."""
    folder = str(tmp_path_factory.mktemp("t"))
    patch = pytest.MonkeyPatch()
    patch.setenv("TMPDIR", folder)
    patch.setattr(tempfile, "tempdir", folder)
    yield
    patch.undo()


@pytest.fixture(scope="session", autouse=True)
def _no_waiting_for_disks():
    """What tests write need not survive the machine; `flushed` tells what would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def shared_dir():
    """Folder of real files that other tools wrote; too large for the repository."""
    default = Path(__file__).resolve().parents[1].parent / "shared"
    folder = Path(os.environ.get("IMITBENCH_SHARED", default))
    if not folder.is_dir():
        pytest.skip(f"no fixtures at {folder}: set IMITBENCH_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def real_sweep(tmp_path_factory):
    """Copies runs of `bc` and `random`, which real commands trained once for all test workers.

    Call it with the folder that gets `runs`, and with the number of seeds, at most three.
    """
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "real_sweep"
    place.mkdir(exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "done").exists():
            words = "run --algo bc --algo random --env Pendulum-v1 --budget quick --seeds 3"
            more = ("--executor", "inline", "--quiet")
            assert call_imitbench(*words.split(), *more, cwd=place).code == 0
            (place / "done").touch()

    def copy(folder, seeds=3):
        def left_out(path, names):
            others = [
                name
                for name in names
                if (spec := Path(path, name, "spec.json")).exists()
                and json.loads(spec.read_text())["seed"] >= seeds
            ]
            return [*others, *(name for name in names if ".duckdb" in name)]

        shutil.copytree(place / "runs", folder / "runs", ignore=left_out)

    return copy


@pytest.fixture(scope="session")
def chromium():
    """Chromium, opened once."""
    with browser() as opened:
        yield opened


@pytest.fixture
def flushed(monkeypatch):
    """What was flushed to the disk so far: each path, with the names beside or in it just then."""
    found = []
    flush = os.fsync

    def note(descriptor):
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        folder = path if path.is_dir() else path.parent
        found.append((path, {each.name for each in folder.iterdir()}))
        flush(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return found
