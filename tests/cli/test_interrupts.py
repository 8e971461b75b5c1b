"""Ctrl-C ends every command with one line, also in the middle of a query."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
from support.synthetic_runs import plan_runs, write_results

ENDLESS = "select sum(a.range * b.range * c.range) from range({0}) a, range({0}) b, range({0}) c"
PATIENCE_S = 300.0
WORK_S = 1.0


def interrupted(script, words, folder):
    """Interrupts a script, which works after its first line: `begun`.

    Returns:
        Its exit code, what it printed after that line, and stderr.
    """
    path = folder / "script.py"  # a script in a file is no session, which DuckDB shows progress to
    path.write_text(script)
    process = subprocess.Popen(
        [sys.executable, path, *words], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "begun\n"
        end = time.monotonic() + PATIENCE_S
        before = used(process)
        while used(process) < before + WORK_S:
            assert time.monotonic() < end, "it does nothing"
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    return process.returncode, out, err


def used(process):
    """Seconds of processor time that a process has taken."""
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


# Tells when the function that does the work is called, by its module and name.
TELLING = """
import importlib, sys
module, name, *words = sys.argv[1:]
sys.argv = ["imitbench", *words]
target = importlib.import_module(module)
original = getattr(target, name)
def tell(*arguments, **named):
    print("begun", flush=True)
    return original(*arguments, **named)
setattr(target, name, tell)
from imitbench.cli.main import main
main()
"""

# As a query of DuckDB in the main thread, which its library ends at a signal in its own way.
IN_MAIN_THREAD = """
import sys
import duckdb
from imitbench.published import opening
def open_results(paths, *, notify):
    with duckdb.connect(config={"threads": 1}) as connection:
        print("begun", flush=True)
        connection.execute("select sum(hash(range)) from range(1000000000000)").fetchall()
opening.open_results = open_results
sys.argv = ["imitbench", "sql", "select 1"]
from imitbench.cli.main import main
main()
"""


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (("duckdb", "extract_statements"), ("sql", ENDLESS.format(100_000), "--out", "runs")),
        (
            ("imitbench.experts.measurement", "measure"),
            ("eval", "sac-Pendulum-v1", "--episodes", "5000"),
        ),
    ],
    ids=["sql", "eval"],
)
def test_an_interrupted_command_says_so_once(tmp_path, place, words):
    write_results(tmp_path / "runs", plan_runs(1))
    answer = interrupted(TELLING, [*place, *words], tmp_path)
    assert answer == (130, "", "stopped\n")


def test_a_query_that_the_library_ends_counts_as_interrupted(tmp_path):
    assert interrupted(IN_MAIN_THREAD, [], tmp_path) == (130, "", "stopped\n")
