"""Other processes see whether a sweep is active in a results folder."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from imitbench.errors import InputError
from imitbench.store import lease
from imitbench.store.sweep_file import active_sweep, is_active, read_sweeps

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from imitbench.store.sweep_file import active_sweep\n"
    "with active_sweep(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


def test_an_active_sweep_is_visible_until_it_ends(tmp_path):
    assert not is_active(tmp_path)
    with active_sweep(tmp_path), active_sweep(tmp_path):
        assert is_active(tmp_path)
        assert read_sweeps(tmp_path) == []
    assert not is_active(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".lease")] == []


def test_a_killed_process_is_not_active(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "held\n"
        assert is_active(tmp_path)
        process.kill()
    assert not is_active(tmp_path)
    with active_sweep(tmp_path):
        present = list((tmp_path / ".sweeps" / "at-work").iterdir())
    assert len(present) == 1  # the folder of the killed process is gone


def test_a_folder_removed_before_it_had_a_lease_is_made_again(tmp_path, monkeypatch):
    acquire, removed = lease.acquire, []

    def disturbed(folder, **options):
        if len(removed) < 3:
            folder.rmdir()
            removed.append(folder)
        return acquire(folder, **options)

    monkeypatch.setattr(lease, "acquire", disturbed)
    with active_sweep(tmp_path):
        assert is_active(tmp_path)
    assert len(removed) == 3
    assert list((tmp_path / ".sweeps" / "at-work").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    def refuse(path, text):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lease, "_write_new", refuse)
    message = "cannot be written \\(Permission denied"
    with pytest.raises(InputError, match=message), active_sweep(tmp_path):
        pass


def test_many_sweeps_may_start_and_end_concurrently(tmp_path):
    def come_and_go(_):
        with active_sweep(tmp_path):
            return is_active(tmp_path)

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(come_and_go, range(300)))
    assert not is_active(tmp_path)
    assert list((tmp_path / ".sweeps" / "at-work").iterdir()) == []
