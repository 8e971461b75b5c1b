"""Hundreds of hostile files in one process: each is read or refused, in time and memory."""

import re
import subprocess
import sys
from pathlib import Path


def test_every_target_reads_or_refuses():
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("run.py")), "--cases", "200"],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    cases, read, refused = map(int, re.findall(r"(?:cases|read|refused) (\d+)", done.stdout))
    assert cases >= 200
    assert read > 20
    assert refused > 100
