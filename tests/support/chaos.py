"""Kills processes of a sweep at random times and restarts them."""

import contextlib
import math
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter

import psutil

_MARK = "IMITBENCH_TEST_SWEEP"
_COLLECT_EVERY_S = 1.0
ROLES = ("worker", "submitter", "collector", "group")
"""What may be killed; a group is a submitter with all that it started."""


class Chaos:
    """Runs overlapping submitters and a collector in one results folder.

    Args:
        out: The results folder.
        commands: Arguments of `imitbench run`, one list for each submitter; `--out` is added.
        seed: Seed of the times and of the choice of processes.
        pause_s: Mean seconds between two kills.

    Attributes:
        kills: Number of processes killed so far, by role.
        complaints: Unexpected exits of processes that were not killed.
    """

    def __init__(self, out, commands, seed, pause_s):
        self.kills = Counter()
        self.complaints = []
        out.mkdir(parents=True)  # the collector may start first
        self._out = out
        self._rng = random.Random(seed)
        self._pause_s = pause_s
        self._mark = uuid.uuid4().hex
        self._commands = {
            f"submitter {number}": ("submitter", ["run", *map(str, command), "--out", str(out)])
            for number, command in enumerate(commands)
        }
        self._commands["collector"] = ("collector", ["collect", "--out", str(out)])
        self._running = {}
        self._started_at = {}
        self._complete = set()

    def kill(self, count):
        """Kills up to `count` processes; fewer if the sweep completes earlier.

        Returns:
            Number of killed processes.
        """
        killed = 0
        due = time.monotonic()
        while killed < count and not self._all_submitters_completed():
            self._keep_running()
            if time.monotonic() >= due and self._kill_one():
                killed += 1
                due = time.monotonic() + self._rng.uniform(0, 2 * self._pause_s)
            time.sleep(0.01)
        return killed

    def let_finish(self):
        """Waits for the submitters, and restarts each until it completes."""
        while not self._all_submitters_completed():
            self._keep_running()
            time.sleep(0.05)

    def close(self):
        """Kills all remaining processes, including workers without a submitter."""
        for process in self._alive("submitter", "collector", "worker"):
            process.kill()
        for process, _ in self._running.values():
            process.wait()
        while self._alive("worker"):  # they are orphans
            time.sleep(0.02)

    def _all_submitters_completed(self):
        return len(self._complete) == len(self._commands) - 1

    def _keep_running(self):
        for name, (role, arguments) in self._commands.items():
            if name in self._running and self._running[name][0].poll() is None:
                continue
            if name in self._running:
                self._note_end(name, role)
            pause_s = _COLLECT_EVERY_S if role == "collector" else 0.0
            rested = time.monotonic() - self._started_at.get(name, -math.inf) >= pause_s
            if rested and name not in self._complete:
                self._started_at[name] = time.monotonic()
                self._running[name] = self._start(arguments)

    def _start(self, arguments):
        errors = (self._out.parent / f"{uuid.uuid4().hex}.err").open("w+")
        process = subprocess.Popen(
            [sys.executable, "-m", "imitbench", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, _MARK: self._mark},
        )
        return process, errors

    def _note_end(self, name, role):
        process, errors = self._running.pop(name)
        errors.seek(0)
        said = errors.read()
        errors.close()
        # A worker that died is recorded as a failure, which the submitter's exit code reports.
        tolerated = (0, 1, -signal.SIGKILL) if role == "submitter" else (0, -signal.SIGKILL)
        if process.returncode not in tolerated or "Traceback" in said or "left out" in said:
            self.complaints.append(f"{name} ended with {process.returncode}: {said}")
        if role == "submitter" and process.returncode == 0:
            self._complete.add(name)

    def _kill_one(self):
        role = self._rng.choice(ROLES)
        candidates = self._alive("submitter" if role == "group" else role)
        if not candidates:
            return False
        victim = self._rng.choice(sorted(candidates, key=lambda process: process.pid))
        try:
            others = victim.children(recursive=True) if role == "group" else []
            victim.kill()
        except psutil.NoSuchProcess:  # it has exited already
            return False
        for other in others:
            with contextlib.suppress(psutil.NoSuchProcess):
                other.kill()
        self.kills[role] += 1
        return True

    def _alive(self, *roles):
        """Returns processes by role; workers inherit the mark of their submitter."""
        found = [
            psutil.Process(process.pid)
            for name, (process, _) in self._running.items()
            if self._commands[name][0] in roles and process.poll() is None
        ]
        if "worker" in roles:
            found += [process for process in psutil.process_iter() if self._is_worker(process)]
        return found

    def _is_worker(self, process):
        try:
            return (
                "imitbench.bench.worker" in process.cmdline()
                and process.environ().get(_MARK) == self._mark
                and process.status() != psutil.STATUS_ZOMBIE
            )
        except psutil.Error:  # it has exited, or belongs to another user
            return False
