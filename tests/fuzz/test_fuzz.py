"""Hundreds of hostile files in one process: each is read or refused, in time and memory."""

import re
from pathlib import Path

from support.command import run_script


def test_every_target_reads_or_refuses(tmp_path):
    done = run_script(Path(__file__).with_name("run.py"), "--cases", 200, cwd=tmp_path)
    assert done.code == 0, done.out + done.err[-3000:]
    cases, read, refused = map(int, re.findall(r"(?:cases|read|refused) (\d+)", done.out))
    assert cases >= 200
    assert read > 20
    assert refused > 100
