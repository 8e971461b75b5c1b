"""Imports runs that Sacred observed, in the layout of the reference library's scripts.

A run is a folder with `run.json` (status, times, result, versions) and `config.json`; folders of
runs may be at any depth. Both files are read as plain JSON: types that jsonpickle wrote into them
stay text.

The imported return is that under the environment's own reward. Adversarial methods evaluate in an
environment with the learned reward, where `monitor_return_mean` is the true return and
`return_mean` is not; so `monitor_return_mean` is used if it exists.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.store.external_results import (
    MAX_RUNS,
    ExternalRun,
    ImportedResults,
    Status,
    content_digest,
    parse_json,
    visible,
)
from imitbench.untrusted.files import read_bounded
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

_FILES = ("run.json", "config.json")
_BESIDE_CONFIG = ("cout.txt", "metrics.json")
_MAX_BYTES = 16 * 2**20
_MAX_DEPTH = 16
# Sacred updates the heartbeat every ten seconds.
_ALIVE_S = 300.0
_STATUSES: dict[str, Status] = {
    "COMPLETED": "completed",
    "INTERRUPTED": "interrupted",
    "TIMEOUT": "interrupted",
    "FAILED": "failed",
}
# Methods that evaluate under the environment's own reward where the monitor is missing.
_TRUE_REWARD = ("bc", "dagger", "sqil")
# Methods whose "expert statistics" describe demonstrations. DAgger's describe the mixture of the
# expert and the learner, not the expert alone.
_HAVE_DEMOS = ("bc", "sqil", "gail", "airl")
# Settings that do not change what a run computes, or belong to the seed.
_NO_SETTINGS = ("seed", "logging", "show_config")
# `train_imitation` keeps settings of all its methods in each run.
_OF_OTHERS = ("dagger", "sqil")


def import_sacred(folder: Path, *, now: datetime | None = None) -> ImportedResults:
    """Imports the runs in a folder.

    Args:
        folder: Folder with run folders, at any depth, or a run folder itself. Symbolic links in
            it are not followed.
        now: Current time, which distinguishes running from killed runs; both have the status
            `RUNNING` on the disk.

    Returns:
        A run for each run folder, in natural order of the paths.

    Raises:
        InputError: The folder does not exist, has no run, or has too many.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; check the path")
    now = now or datetime.now(timezone.utc)
    walk = _FolderWalk(folder)
    paths = sorted(walk.runs(), key=_natural)
    if not paths:
        raise InputError(f"{folder}: no Sacred runs in it, which are folders with run.json")
    runs: list[ExternalRun] = []
    files: dict[str, str] = {}
    originals: dict[tuple[str, ...], str] = {}
    for path in paths:
        found = _RunFolder(folder, path)
        run = found.run(now)
        digests = tuple(found.digests.values())
        if len(digests) == len(_FILES) and digests in originals:
            reason = f"has the same files as {originals[digests]}"
            run = run.model_copy(update={"status": "duplicate", "reason": reason})
        originals.setdefault(digests, run.place)
        files |= found.digests
        runs.append(run)
    source = visible(folder.resolve().name) or "/"
    return ImportedResults("sacred", source, files, runs, [*walk.notes, *_notes(runs)])


@dataclass
class _FolderWalk:
    """A walk through folders, without following links.

    Attributes:
        notes: Remarks on skipped folders.
    """

    root: Path
    notes: list[str] = field(default_factory=list)

    def runs(self) -> Iterator[str]:
        """Yields paths of run folders below the root; `.` is the root."""
        found = 0
        waiting = [("", 0)]
        while waiting:
            prefix, depth = waiting.pop()
            entries = self._entries(prefix)
            names = {entry.name for entry in entries}
            if "run.json" in names or ("config.json" in names and names & {*_BESIDE_CONFIG}):
                found += 1
                if found > MAX_RUNS:
                    raise InputError(f"{self.root}: more than {MAX_RUNS} runs; import parts of it")
                yield prefix or "."
                continue
            folders = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
            if folders and depth == _MAX_DEPTH:
                self._leave_out(prefix, f"more than {_MAX_DEPTH} folders deep")
                continue
            waiting += [(f"{prefix}/{name}".lstrip("/"), depth + 1) for name in folders]

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(self.root / prefix) as entries:
                return list(entries)
        except OSError as error:
            self._leave_out(prefix, str(error.strerror))
            return []

    def _leave_out(self, prefix: str, why: str) -> None:
        self.notes.append(one_line(f"{visible(prefix) or '.'}: not looked into ({why})"))


class _RunFolder:
    """The folder of a run.

    Args:
        root: Folder that is imported.
        path: Path of the run folder below the root.
    """

    def __init__(self, root: Path, path: str) -> None:
        self.location = visible(path)
        self.digests: dict[str, str] = {}
        self._problems: list[str] = []
        self._record, self._config = (self._read(root / path, name) for name in _FILES)

    def _read(self, folder: Path, name: str) -> dict[str, Any]:
        try:
            content = read_bounded(folder / name, _MAX_BYTES)
            self.digests[f"{self.location}/{name}"] = content_digest(content)
            document = parse_json(content, str(folder / name))
        except InputError as error:
            self._problems.append(str(error).replace(f"{folder}/", ""))
            return {}
        if isinstance(document, dict):
            return document
        self._problems.append(f"{name}: is no object")
        return {}

    def run(self, now: datetime) -> ExternalRun:
        """Converts the folder to a run, even if little of it is readable."""
        status, reason = self._status(now)
        values = self._identity() | self._times() | {"provenance": self._provenance()}
        if status == "completed":
            values |= self._result()
            if "raw_return" not in values:
                status, reason = "unusable", self._why_no_return()
        if self._problems:
            status, reason = "unusable", "; ".join(self._problems)
        try:
            return ExternalRun(
                place=self.location, status=status, reason=one_line(reason, 500), **values
            )
        except ValidationError as error:
            return ExternalRun(place=self.location, status="unusable", reason=first_problem(error))

    def _status(self, now: datetime) -> tuple[Status, str]:
        word = str(self._record.get("status"))
        heartbeat = _time(self._record.get("heartbeat"))
        last = f"last sign of life {heartbeat.isoformat()}" if heartbeat else "no sign of life"
        if word == "RUNNING":
            if heartbeat and abs((now - heartbeat).total_seconds()) < _ALIVE_S:
                return "running", f"not finished yet, {last}"
            return "killed", f"ended without a word, {last}"
        status = _STATUSES.get(word, "failed")
        if status == "completed":
            return status, ""
        trace = self._record.get("fail_trace")
        if isinstance(trace, list) and trace:
            return status, one_line(str(trace[-1])) or word
        return status, f"Sacred's status is {word}"

    @property
    def _algo(self) -> str | None:
        command = self._record.get("command")
        return command.removeprefix("train_") if isinstance(command, str) else None

    def _identity(self) -> dict[str, Any]:
        config, algo = self._config, self._algo
        demos = _at(config, "demonstrations", "n_expert_demos")
        # Older versions stored the environment under other keys.
        env = [
            _at(config, "environment", "gym_id"),
            _at(config, "common", "env_name"),
            config.get("env_name"),
        ]
        source = _at(config, "demonstrations", "source") or _at(
            config, "demonstrations", "rollout_type"
        )
        takes_demos = algo in _HAVE_DEMOS or (
            algo == "dagger" and _at(config, "dagger", "use_offline_rollouts") is True
        )
        return {
            "algo": algo,
            "env": next((name for name in env if isinstance(name, str)), None),
            "seed": _whole(config.get("seed")),
            "config": self._settings() if config else None,
            "n_demos": _whole(demos) if takes_demos else None,
            "all_demos": demos is None if takes_demos else None,
            "source": source if takes_demos and isinstance(source, str) else None,
        }

    def _settings(self) -> str:
        others = {name for name in _OF_OTHERS if name != self._algo}
        kept = {k: v for k, v in self._config.items() if k not in {*_NO_SETTINGS, *others}}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:12]

    def _times(self) -> dict[str, Any]:
        start, stop = (_time(self._record.get(f"{name}_time")) for name in ("start", "stop"))
        return {
            "started_at": start.isoformat() if start else None,
            "finished_at": stop.isoformat() if stop else None,
            "wall_s": (stop - start).total_seconds() if start and stop else None,
        }

    def _provenance(self) -> dict[str, str]:
        values = {
            "experiment": _at(self._record, "experiment", "name"),
            "python": _at(self._record, "host", "python_version"),
            "sacred_status": self._record.get("status"),
        }
        packages = _at(self._record, "experiment", "dependencies")
        if isinstance(packages, list):
            values["packages"] = " ".join(sorted(str(package) for package in packages))
        return {name: one_line(value, 2000) for name, value in values.items() if value}

    def _statistics(self) -> dict[str, Any]:
        result = self._record.get("result")
        stats = _at(result, "imit_stats")
        for candidate in (stats, result):
            if isinstance(candidate, dict):
                return candidate
        return {}

    def _result(self) -> dict[str, Any]:
        """Returns statistics of the trained policy, and of the expert's demonstrations."""
        stats = self._statistics()
        kind = "monitor_return"
        if _number(stats.get("monitor_return_mean")) is None and self._algo in _TRUE_REWARD:
            kind = "return"
        mean = _number(stats.get(f"{kind}_mean"))
        if mean is None:
            return {}
        result = {
            "raw_return": mean,
            "return_std": _number(stats.get(f"{kind}_std")),
            "episodes": _whole(stats.get("n_traj")),
            "mean_length": _number(stats.get("len_mean")),
            "env_steps": self._env_steps(),
        }
        expert = _at(self._record, "result", "expert_stats")
        if isinstance(expert, dict) and self._algo in _HAVE_DEMOS:
            expert_kind = "monitor_return" if "monitor_return_mean" in expert else "return"
            result |= {
                "expert_return": _number(expert.get(f"{expert_kind}_mean")),
                "expert_std": _number(expert.get(f"{expert_kind}_std")),
                "expert_episodes": _whole(expert.get("n_traj")),
            }
            if _at(self._config, "demonstrations", "n_expert_demos") is None:
                result["n_demos"] = result["expert_episodes"]
        return result

    def _why_no_return(self) -> str:
        stats = self._statistics()
        if "return_mean" in stats and "monitor_return_mean" not in stats:
            return "completed, but return_mean may be that of a learnt reward"
        return "completed, but its result has no finite mean return"

    def _env_steps(self) -> int | None:
        if self._algo == "bc":
            return 0
        own = _whole(_at(self._config, self._algo or "", "total_timesteps"))
        return own if own is not None else _whole(self._config.get("total_timesteps"))


def _notes(runs: list[ExternalRun]) -> list[str]:
    """Returns remarks on runs that cannot be compared directly."""
    done = [run for run in runs if run.status == "completed"]
    notes = []
    again = Counter((run.algo, run.env, run.seed, run.config) for run in done)
    for (algo, env, seed, _), number in again.items():
        if number > 1 and seed is not None:
            notes.append(f"{algo} on {env}: {number} runs with seed {seed} and equal settings")
    settings = Counter((algo, env) for algo, env, _ in {(r.algo, r.env, r.config) for r in done})
    for (algo, env), number in sorted(settings.items(), key=str):
        if number > 1:
            notes.append(f"{algo} on {env}: {number} different settings, see column config")
    unseeded = sum(run.seed is None for run in done)
    if unseeded:
        notes.append(f"{unseeded} completed runs say no seed")
    return notes


def _at(document: Any, *path: str) -> Any:
    """Returns a value in nested objects; `None` if it does not exist."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _whole(value: Any) -> int | None:
    number = _number(value)
    return int(value) if number is not None and number == int(number) else None


def _time(value: Any) -> datetime | None:
    """Parses a time; Sacred writes UTC without a time zone."""
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)


def _natural(path: str) -> list[tuple[int, int, str]]:
    """Sort key that puts 2 before 10."""
    parts = re.split(r"(\d{1,18})", path)
    return [(1, int(p), "") if i % 2 else (0, 0, p) for i, p in enumerate(parts)]
