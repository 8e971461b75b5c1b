"""Others see whether somebody is at work on a results folder."""

import subprocess
import sys

from imitbench.store.attendance import attending, is_attended
from imitbench.store.sweep_file import read_sweeps

HOLD = (
    "import sys\n"
    "from pathlib import Path\n"
    "from imitbench.store.attendance import attending\n"
    "with attending(Path(sys.argv[1])):\n"
    "    print('held', flush=True)\n"
    "    sys.stdin.read()\n"
)


def test_it_is_seen_while_it_lasts_and_leaves_nothing(tmp_path):
    assert not is_attended(tmp_path)
    with attending(tmp_path), attending(tmp_path):
        assert is_attended(tmp_path)
        assert read_sweeps(tmp_path) == []
    assert not is_attended(tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.name.startswith(".lease")] == []


def test_whoever_was_killed_is_not_at_work(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout.readline() == "held\n"
        assert is_attended(tmp_path)
        process.kill()
    assert not is_attended(tmp_path)
    with attending(tmp_path):
        present = list((tmp_path / ".sweeps" / "at-work").iterdir())
    assert len(present) == 1  # what the other left is gone
