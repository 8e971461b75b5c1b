"""What kills, stops, full disks, vanishing folders, wrong clocks and slow file servers destroy.

    python benchmarks/faults.py --kills 200

Real commands run while faults hit them at random moments. Then the same command runs again without
faults, and its results are compared with those of an undisturbed command, bit for bit. The table
must have zeros in all columns after the number of faults.

Each training process is small, so that many moments are hit: the sweep does 12 runs of BC and of
random actions on three tasks, with a checkpoint after each stretch of training. All of it takes
hours; parts add up if they share a folder and a file of rows:

    python benchmarks/faults.py --only kill-training --kills 50 --seed 1 --folder f --rows rows
    python benchmarks/faults.py --table --rows rows
"""

from __future__ import annotations

import argparse
import dataclasses
import errno
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
from fault_trials import (
    PATIENCE_S,
    STEPS,
    Command,
    Step,
    Sweep,
    Tally,
    judge_results,
    run,
)
from support.chaos import Chaos
from support.disk_works import WORKS
from support.failing_disk import FaultyMachine, build_library, run_with_library
from support.outcomes import finished_runs

from imitbench.store import database
from imitbench.store.races import read_races

RACE = (
    "--env", "Pendulum-v1", "--budget", "quick", "--set", "bc.hidden_size=8",
    "--batch", "2", "--max-seeds", "4", "--jobs", "2", "--checkpoint-minutes", "0", "--quiet",
)  # fmt: skip
IN_TRAINING = 0.6
"""Share of the kills that hit workers, supervisors, collectors and whole groups in training."""
PAUSES = 20
"""Mean number of kills in the time of an undisturbed sweep, so that workers live long enough."""
OUTAGES = ("EROFS", "ENOSPC", "EIO", "ESTALE")
DAY_S = 86_400
OTHER_MACHINE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""In its own namespace of process ids, a command counts as one of another machine."""


@dataclass(frozen=True)
class Trials:
    """How faults are tried.

    Attributes:
        sweep: The sweep that they hit.
        rng: Chooses moments and victims.
        kills: Number of kills of all kinds.
        times: Number of other faults of a kind that takes seconds.
    """

    sweep: Sweep
    rng: random.Random
    kills: int
    times: int

    @property
    def few(self) -> int:
        """Number of faults of a kind that takes minutes."""
        return max(1, self.times // 5)


def main() -> int:
    """Prints the table; returns 0 if nothing was lost, doubled, different or unclear."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200, help="number of kills in all")
    parser.add_argument("--trials", type=int, default=10, help="number of other faults of a kind")
    parser.add_argument("--seed", type=int, default=0, help="seed of the moments")
    parser.add_argument("--only", choices=FAULTS, action="append", help="only these faults")
    parser.add_argument("--folder", type=Path, help="folder for trials, kept for other parts")
    parser.add_argument("--rows", type=Path, help="file to which rows are appended")
    parser.add_argument("--table", action="store_true", help="only print the table of --rows")
    options = parser.parse_args()
    if options.table:
        return print_table(read_rows(options.rows))
    done = []
    with tempfile.TemporaryDirectory(prefix="faults-", dir=Path.cwd()) as scratch:
        folder = options.folder or Path(scratch)
        folder.mkdir(exist_ok=True)
        sweep = Sweep(folder)
        for name in options.only or FAULTS:
            trials = Trials(sweep, random.Random(options.seed), options.kills, options.trials)
            for tally in FAULTS[name](trials):
                done.append(tally)
                print(tally.row, file=sys.stderr, flush=True)
                if options.rows is not None:
                    with options.rows.open("a") as stream:
                        stream.write(json.dumps(dataclasses.asdict(tally)) + "\n")
    return print_table(done)


def read_rows(path: Path) -> list[Tally]:
    """Reads the rows of all parts; those with the same faults are added."""
    found: dict[tuple[str, str], Tally] = {}
    for line in path.read_text().splitlines():
        tally = Tally(**json.loads(line))
        found.setdefault((tally.fault, tally.during), Tally(tally.fault, tally.during)).add(tally)
    return list(found.values())


def print_table(tallies: list[Tally]) -> int:
    """Prints the table; returns 0 if all that must be zero is."""
    print("| fault | during | times | lost | doubled | different | unclear |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for tally in tallies:
        print(tally.row)
        for message in tally.unclear:
            print(f"{tally.fault}, {tally.during}: {message}", file=sys.stderr)
    return 1 if any(any(each.counts) or not each.trials for each in tallies) else 0


def kill_in_training(trials: Trials) -> Iterator[Tally]:
    """Kills processes of two overlapping sweeps and of a collector."""
    tally = Tally("kill", "training")
    wanted = round(IN_TRAINING * trials.kills)
    while tally.trials < wanted:
        with trials.sweep.trial() as folder:
            command = trials.sweep.arguments(folder / "runs")[1:-2]
            chaos = Chaos(
                folder / "runs",
                [command, command],
                trials.rng.randrange(2**31),
                pause_s=trials.sweep.seconds / PAUSES,
            )
            try:
                chaos.kill(wanted - tally.trials)
                chaos.let_finish()
            finally:
                chaos.close()
            tally.trials += sum(chaos.kills.values())
            tally.unclear += chaos.complaints
            for role, count in chaos.kills.items():
                tally.victims[role] = tally.victims.get(role, 0) + count
            trials.sweep.judge(folder / "runs", tally)
    yield tally


def kill_in_steps(trials: Trials) -> Iterator[Tally]:
    """Kills commands that collect, report, export, build a site, or race."""
    in_training = round(IN_TRAINING * trials.kills)
    kills = -(-(trials.kills - in_training) // (len(STEPS) + 1))
    for step in STEPS:
        yield _kill_step(trials, step, kills)
    yield _kill_races(trials, kills)


def _kill_step(trials: Trials, step: Step, kills: int) -> Tally:
    tally = Tally("kill", step.name)
    with trials.sweep.trial() as folder:
        shutil.copytree(trials.sweep.twin / "runs", folder / "runs")
        (folder / "runs" / database.DATABASE_FILE).unlink()
        started = time.monotonic()
        run(step.arguments, folder, tally)
        seconds, expected = time.monotonic() - started, step.outcome(folder)
    while tally.trials < kills:
        with trials.sweep.trial() as folder:
            shutil.copytree(trials.sweep.twin / "runs", folder / "runs")
            (folder / "runs" / database.DATABASE_FILE).unlink()
            for _ in range(trials.rng.randint(1, 3)):
                tally.trials += _kill_once(step.arguments, folder, seconds, tally, trials.rng)
            # A command that completed just before it was killed may refuse to write again.
            run(step.arguments, folder, tally, codes=(0, 2))
            tally.compare(expected, step.outcome(folder))
    return tally


def _kill_once(
    arguments: tuple[str, ...], cwd: Path, seconds: float, tally: Tally, rng: random.Random
) -> bool:
    """Starts a command and kills all its processes; returns whether it was still running."""
    command = Command(arguments, cwd)
    killed = not command.ends_within(rng.uniform(0.0, seconds))
    if killed:
        command.send(signal.SIGKILL)
    command.finish(tally, codes=(0, 2))
    return killed


def _kill_races(trials: Trials, kills: int) -> Tally:
    tally = Tally("kill", "race")
    race = ("race", "bc", "--baseline", "random", *RACE, "--out", "runs")

    def outcome(folder: Path) -> dict[str, object]:
        [registered] = read_races(folder / "runs")
        return {"design": registered.design, **finished_runs(folder / "runs")}

    with trials.sweep.trial() as folder:
        started = time.monotonic()
        run(race, folder, tally)
        seconds, expected = time.monotonic() - started, outcome(folder)
    while tally.trials < kills:
        with trials.sweep.trial() as folder:
            for _ in range(trials.rng.randint(1, 4)):
                tally.trials += _kill_once(race, folder, seconds, tally, trials.rng)
            run(race, folder, tally)
            tally.compare(expected, outcome(folder))
    return tally


def stop_for_long(trials: Trials) -> Iterator[Tally]:
    """Stops a sweep until another machine has taken over its runs, then lets it go on."""
    tally = Tally("stopped for longer than a lease", "training, taken over by another machine")
    while tally.trials < trials.few:
        with trials.sweep.trial() as folder:
            arguments = trials.sweep.arguments(folder / "runs")
            first = Command(arguments, folder, before=OTHER_MACHINE)
            while not list(folder.rglob(".lease")) and not first.ends_within(0.05):
                pass
            first.ends_within(trials.rng.uniform(0.0, 3.0))
            first.send(signal.SIGSTOP)
            claimed = len(list(folder.rglob(".lease")))
            Command(arguments, folder, before=OTHER_MACHINE).finish(tally)
            tally.trials += claimed
            first.send(signal.SIGCONT)
            # It finds its runs taken, which is neither its success nor its failure.
            first.finish(tally, codes=(0, 1))
            trials.sweep.judge(folder / "runs", tally)
    yield tally


def fail_at_every_write(trials: Trials) -> Iterator[Tally]:
    """Lets the disk fail at each call that writes, of a worker, a sweep and a collection."""
    library = build_library(trials.sweep.scratch)
    for error, mode in (("ENOSPC", "stays"), ("EIO", "once"), ("EROFS", "stays")):
        for work in WORKS:
            tally = Tally(f"{error}, {mode}, at every write", work)
            with trials.sweep.trial() as folder:
                printed = run_with_library(
                    library, "support.disk_trials", work, error, mode, folder / "trials", 1, 1
                )
            for line in printed.splitlines():
                record = json.loads(line)
                tally.trials += 1
                tally.lost += not record["whole_after"]
                tally.different += len(record["untrue"])
                if "Traceback" in record["said"] or record["code_after"] != 0:
                    tally.unclear.append(line)
            yield tally


def lose_the_folder(trials: Trials) -> Iterator[Tally]:
    """Takes the results folder away for a while, or lets all its writes fail for a while."""
    away = Tally("folder away for up to 3 s", "training")
    for _ in range(trials.times):
        with trials.sweep.trial() as folder:
            out = folder / "runs"
            command = Command(trials.sweep.arguments(out), folder)
            while not out.exists():
                time.sleep(0.01)
            command.ends_within(trials.rng.uniform(0.0, trials.sweep.seconds))
            out.rename(folder / "away")
            time.sleep(trials.rng.uniform(0.0, 3.0))
            if out.exists():  # written anew, as below a mount point without its mount
                out.rename(folder / "anew")
            (folder / "away").rename(out)
            away.trials += 1
            command.finish(away, codes=(0, 1, 2))
            trials.sweep.judge(out, away)
    yield away
    library = build_library(trials.sweep.scratch)
    for error in OUTAGES:
        tally = Tally(f"{error} for up to 3 s", "training")
        for _ in range(trials.few):
            with trials.sweep.trial() as folder:
                machine = FaultyMachine(library, folder / "runs", folder / "faults")
                command = Command(
                    trials.sweep.arguments(folder / "runs"), folder, machine.environment
                )
                command.ends_within(trials.rng.uniform(0.0, trials.sweep.seconds))
                with machine.faulty(error=getattr(errno, error)):
                    time.sleep(trials.rng.uniform(0.0, 3.0))
                tally.trials += 1
                command.finish(tally, codes=(0, 1, 2))
                trials.sweep.judge(folder / "runs", tally)
        yield tally


def step_the_clock(trials: Trials) -> Iterator[Tally]:
    """Sets the time of day of two machines a day ahead and back while both do one sweep."""
    tally = Tally("clock set by a day", "training on two machines")
    library = build_library(trials.sweep.scratch)
    for _ in range(trials.few):
        with trials.sweep.trial() as folder:
            machines = [
                FaultyMachine(library, folder / "runs", folder / f"faults-{number}")
                for number in (0, 1)
            ]
            commands = [
                Command(
                    trials.sweep.arguments(folder / "runs"),
                    folder,
                    machine.environment,
                    OTHER_MACHINE,
                )
                for machine in machines
            ]
            while any(command.process.poll() is None for command in commands):
                commands[0].ends_within(trials.rng.uniform(0.5, 2.0))
                trials.rng.choice(machines).set(clock_s=trials.rng.choice((-DAY_S, 0, DAY_S)))
                tally.trials += 1
                if tally.trials > PATIENCE_S:
                    break
            for command in commands:
                command.finish(tally)
            trials.sweep.judge(folder / "runs", tally)
    yield tally


def delay_the_disk(trials: Trials) -> Iterator[Tally]:
    """Delays all writes and openings, as a busy file server does."""
    tally = Tally("each call up to 40 ms late", "training on two machines")
    library = build_library(trials.sweep.scratch)
    for _ in range(trials.few):
        with trials.sweep.trial() as folder:
            machine = FaultyMachine(library, folder / "runs", folder / "faults")
            with machine.faulty(delay_s=0.02):
                commands = [
                    Command(
                        trials.sweep.arguments(folder / "runs"),
                        folder,
                        machine.environment,
                        OTHER_MACHINE,
                    )
                    for _ in range(2)
                ]
                for command in commands:
                    command.finish(tally)
            tally.trials += 1
            trials.sweep.judge(folder / "runs", tally)
    yield tally


def hold_the_database(trials: Trials) -> Iterator[Tally]:
    """Holds the database in another process while commands need it."""
    for step in STEPS[:2]:
        tally = Tally("database held by another process", step.name)
        for _ in range(trials.few):
            with trials.sweep.trial() as folder:
                shutil.copytree(trials.sweep.twin / "runs", folder / "runs")
                path = folder / "runs" / database.DATABASE_FILE
                with duckdb.connect(str(path)):
                    # The copies are new files, so that the database needs an update.
                    run(step.arguments, folder, tally, codes=(0, 2))
                tally.trials += 1
                run(step.arguments, folder, tally)
                judge_results(folder / "runs", trials.sweep.expected, tally)
        yield tally


FAULTS: dict[str, Callable[[Trials], Iterator[Tally]]] = {
    "kill-training": kill_in_training,
    "kill-steps": kill_in_steps,
    "stop": stop_for_long,
    "writes": fail_at_every_write,
    "folder": lose_the_folder,
    "clock": step_the_clock,
    "delay": delay_the_disk,
    "database": hold_the_database,
}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
