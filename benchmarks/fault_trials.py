"""Parts of `faults.py`: commands that are disturbed, and the comparison of their outcomes."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.outcomes import database_content, finished_runs

from imitbench.store import database
from imitbench.store.collector import collect

CELLS = ("--budget", "quick", "--set", "bc.hidden_size=8", "--checkpoint-minutes", "0", "--quiet")
SWEEP = ("--algo", "bc", "--algo", "random", "--env", "*", "--seeds", "0-1", *CELLS)
"""Runs of a second or two, each with a checkpoint after every stretch of training."""
PATIENCE_S = 900.0
"""Seconds after which a command that was not killed counts as one that waits for ever."""

Outcome = Mapping[str, Any]


@dataclass
class Tally:
    """A row of the table.

    Attributes:
        fault: What happened.
        during: What the processes did at that time.
        trials: How often it happened.
        lost: Results that an undisturbed command has, and that were missing at the end.
        doubled: Results that count more than once, or are none of the command's.
        different: Results with other numbers or other bytes.
        victims: Number of killed processes by what they were, where that was chosen at random.
        unclear: Commands that printed a traceback, failed when they were repeated, or did not end.
    """

    fault: str
    during: str
    trials: int = 0
    lost: int = 0
    doubled: int = 0
    different: int = 0
    victims: dict[str, int] = field(default_factory=dict)
    unclear: list[str] = field(default_factory=list)

    @property
    def counts(self) -> list[int]:
        """What must be zero: lost, doubled, different, and unclear ones."""
        return [self.lost, self.doubled, self.different, len(self.unclear)]

    @property
    def row(self) -> str:
        """A row of the table."""
        hit = ", ".join(f"{role} {count}" for role, count in sorted(self.victims.items()))
        during = f"{self.during} ({hit})" if hit else self.during
        return f"| {' | '.join(map(str, [self.fault, during, self.trials, *self.counts]))} |"

    def add(self, other: Tally) -> None:
        """Adds the trials of another part with the same faults."""
        self.trials += other.trials
        self.lost += other.lost
        self.doubled += other.doubled
        self.different += other.different
        self.unclear += other.unclear
        for role, count in other.victims.items():
            self.victims[role] = self.victims.get(role, 0) + count

    def compare(self, expected: Outcome, found: Outcome) -> None:
        """Counts what is missing, too much, or different."""
        self.lost += len(expected.keys() - found.keys())
        self.doubled += len(found.keys() - expected.keys())
        self.different += sum(found[name] != expected[name] for name in expected.keys() & found)


class Command:
    """A command of imitbench that runs in a separate process.

    Args:
        arguments: Its arguments.
        cwd: Working directory.
        environment: Variables in addition to those of this process.
        before: Words before the interpreter, for example `unshare`.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str] | None = None,
        before: Sequence[str] = (),
    ) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by `finish`)
        self.process = subprocess.Popen(
            [*before, sys.executable, "-m", "imitbench", *arguments],
            cwd=cwd,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            env={**os.environ, "NO_COLOR": "1", **(environment or {})},
        )

    def tree(self) -> list[psutil.Process]:
        """Returns the process and all that it has started."""
        try:
            parent = psutil.Process(self.process.pid)
            return [parent, *parent.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def send(self, number: int) -> None:
        """Sends a signal to the whole tree."""
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)

    def ends_within(self, seconds: float) -> bool:
        """Waits for it; returns whether it has ended."""
        try:
            self.process.wait(timeout=max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def finish(self, tally: Tally, codes: Sequence[int] = (0,)) -> int:
        """Waits for the end, and notes tracebacks and unexpected exit codes."""
        if not self.ends_within(PATIENCE_S):
            self.send(signal.SIGKILL)
            tally.unclear.append(f"did not end within {PATIENCE_S:.0f} s")
        code = self.process.wait()
        self._errors.seek(0)
        said = self._errors.read()
        self._errors.close()
        if "Traceback" in said or (code not in codes and code != -signal.SIGKILL):
            tally.unclear.append(f"exit code {code}: {said.strip()[-2000:]}")
        return code


def run(arguments: Sequence[str], cwd: Path, tally: Tally, codes: Sequence[int] = (0,)) -> int:
    """Runs a command of imitbench to its end; returns its exit code."""
    return Command(arguments, cwd).finish(tally, codes)


class Sweep:
    """A sweep in a folder of its own, and what it gives without any fault.

    Args:
        scratch: Folder for trials. Results of an undisturbed sweep that an earlier part of the
            benchmark left there are used again.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = scratch
        self.twin = scratch / "twin"
        known = self.twin / "seconds"
        if not known.exists():
            shutil.rmtree(self.twin, ignore_errors=True)
            undisturbed = Tally("none", "sweep")
            started = time.monotonic()
            run(self.arguments(self.twin / "runs"), scratch, undisturbed)
            if undisturbed.unclear:
                raise SystemExit(undisturbed.unclear[0])
            collect(self.twin / "runs")
            known.write_text(str(time.monotonic() - started))
        self.seconds = float(known.read_text())
        self.expected = finished_runs(self.twin / "runs")

    @staticmethod
    def arguments(out: Path) -> list[str]:
        """Returns the arguments of the sweep into a folder."""
        return ["run", *SWEEP, "--jobs", "2", "--out", str(out)]

    @contextlib.contextmanager
    def trial(self) -> Iterator[Path]:
        """Context with an empty folder, which is removed at the end."""
        folder = Path(tempfile.mkdtemp(prefix="trial-", dir=self.scratch))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def judge(self, out: Path, tally: Tally) -> None:
        """Does the sweep again, without a fault, and compares all results."""
        run(self.arguments(out), out.parent, tally)
        judge_results(out, self.expected, tally)


def judge_results(out: Path, expected: Outcome, tally: Tally) -> None:
    """Compares the runs of a folder, and counts rows that are twice in its database."""
    tally.compare(expected, finished_runs(out))
    tally.unclear += [f"cannot be read: {each}" for each in collect(out).quarantined]
    with database.reader(out) as connection:
        for table, key in (
            ("episodes", "run_id, deterministic, episode"),
            ("curves", "run_id, step, metric"),
        ):
            [(extra,)] = connection.execute(
                f"SELECT count(*) - count(DISTINCT ({key})) FROM {table}"
            ).fetchall()
            tally.doubled += extra


@dataclass(frozen=True)
class Step:
    """A command that reads finished runs and writes something.

    Attributes:
        name: What it does, for the table.
        arguments: Its arguments; the finished runs are in `runs` of the working directory.
        outcome: Reads what it wrote, in the working directory.
    """

    name: str
    arguments: Sequence[str]
    outcome: Callable[[Path], Outcome]


def files_below(folder: Path) -> dict[str, bytes]:
    """Returns the content of all files, by their path."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def database_rows(cwd: Path) -> dict[str, list[Any]]:
    """Returns the rows of the database of `runs` by their table, without the stamps of files."""
    content = database_content(cwd / "runs")
    del content["ingested"]
    return dict(content)


STEPS = (
    Step("collect", ("collect", "--out", "runs"), database_rows),
    Step(
        "report",
        ("report", "--out", "runs", "--format", "html", "--to", "report/page.html"),
        lambda cwd: files_below(cwd / "report"),
    ),
    Step(
        "export",
        ("results", "export", "submission", "--out", "runs", "--quiet"),
        lambda cwd: files_below(cwd / "submission"),
    ),
    Step(
        "build",
        ("leaderboard", "build", "--results", "runs", "--out", "site", "--replicates", "1000"),
        lambda cwd: files_below(cwd / "site"),
    ),
)
