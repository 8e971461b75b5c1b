"""Imports results from a CSV table with one row per run.

Columns are found by name, in any order; `algo` (or `algorithm`), `env` (or `environment`) and
`raw_return` (or `return`) or `score` are required, and `COLUMNS` are recognized. The output of
`imitbench sql --format csv` on `scores` or `failures` is such a table. An empty cell means that
the value is unknown.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from imitbench.errors import InputError, did_you_mean
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import (
    MAX_RUNS,
    ExternalRun,
    ImportedResults,
    content_digest,
    visible,
)
from imitbench.untrusted.csv_text import csv_rows
from imitbench.untrusted.files import read_bounded
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

_MAX_BYTES = 256 * 2**20
_MAX_PROBLEMS = 20
_ALIASES = {"algorithm": "algo", "environment": "env", "return": "raw_return"}
_TEXTS = (
    "algo", "env", "suite", "budget", "source", "config", "started_at", "finished_at",
    "reference_version", "demo_actions", "mixture",
)  # fmt: skip
_WHOLE = ("seed", "n_demos", "demo_every", "episodes", "env_steps", "expert_episodes")
_NUMBERS = (
    "raw_return", "return_std", "score", "score_deterministic", "mean_length", "wall_s",
    "expert_return", "expert_std", "reference_random", "reference_expert",
)  # fmt: skip
_FLAGS = {"true": True, "false": False}
# Values of column status; importers derive the other statuses.
_SAYABLE = ("completed", "interrupted", "killed", "failed")
# Columns of this package's tables that `ExternalRun` stores in its provenance.
_PROVENANCE = ("run_id", "uses_reward", "role", "phase")
COLUMNS = (
    *_TEXTS, *_WHOLE, *_NUMBERS, "all_demos", "status", "reason", "error_type", "message",
    *_PROVENANCE,
)  # fmt: skip
"""Recognized columns."""


class InvalidLinesError(InputError):
    """Lines of a table are invalid, and nothing was imported.

    Attributes:
        problems: Problems, each with its line number.
    """

    def __init__(self, message: str, problems: list[str]) -> None:
        super().__init__(message)
        self.problems = problems


def import_csv(path: Path) -> ImportedResults:
    """Imports a table.

    Args:
        path: CSV file in UTF-8, separated by commas, with a header line.

    Returns:
        A run for each row, in the order of the file.

    Raises:
        InvalidLinesError: Rows are malformed, or two rows describe the same run; the error lists
            all of them.
        InputError: The file as a whole is invalid.
    """
    content = read_bounded(path, _MAX_BYTES, follow_link=True)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: is not UTF-8; save the table as UTF-8") from error
    rows = csv_rows(text, path)
    _, header = next(rows, (1, []))
    columns = _columns(header, path)
    runs: list[ExternalRun] = []
    problems: list[str] = []
    seen: dict[tuple[Any, ...], str] = {}
    for line, cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        try:
            run = _run(columns, cells, line)
            _refuse_second(run, seen)
            runs.append(run)
        except ValidationError as error:
            problems.append(f"line {line}: {first_problem(error)}")
        except ValueError as error:
            problems.append(f"line {line}: {one_line(error, 400)}")
        if len(runs) + len(problems) > MAX_RUNS:
            raise InputError(f"{path}: more than {MAX_RUNS} rows; import it in parts")
    if problems:
        _refuse(path, problems)
    if not runs:
        raise InputError(f"{path}: has no rows below its header")
    source = visible(path.name)
    return ImportedResults(
        "csv", source, {source: content_digest(content)}, runs, _notes(columns, runs)
    )


def _columns(header: list[str], path: Path) -> list[str]:
    names = [name.strip().lower() for name in header]
    columns = [_ALIASES.get(name, name) for name in names]
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t"):
        raise InputError(f"{path}, line 1: cells must be separated by commas")
    twice = sorted({name for name in columns if name and columns.count(name) > 1})
    if twice:
        raise InputError(f"{path}, line 1: two columns are {one_line(twice[0])!r}")
    needed = [name for name in ("algo", "env") if name not in columns]
    if not {"raw_return", "score", "status", "error_type"} & set(columns):
        needed.append("raw_return or score")
    if needed:
        raise InputError(
            f"{path}, line 1: column {needed[0]} is missing; it has "
            f"{one_line(', '.join(names), 300) or 'nothing'}"
        )
    return columns


def _run(columns: list[str], cells: list[str], line: int) -> ExternalRun:
    if len(cells) != len(columns):
        raise ValueError(f"{len(cells)} cells, and the header has {len(columns)}")
    row = {
        name: cell.strip()
        for name, cell in zip(columns, cells, strict=True)
        if name in COLUMNS and cell.strip()
    }
    values: dict[str, Any] = {name: row[name] for name in _TEXTS if name in row}
    values |= {name: _whole(name, row[name]) for name in _WHOLE if name in row}
    values |= {name: _number(name, row[name]) for name in _NUMBERS if name in row}
    if "all_demos" in row:
        values["all_demos"] = _flag("all_demos", row["all_demos"])
    provenance = {name: one_line(row[name], 2000) for name in _PROVENANCE if name in row}
    return ExternalRun(place=f"line {line}", provenance=provenance, **_status(row), **values)


def _status(row: dict[str, str]) -> dict[str, Any]:
    word = row.get("status", "failed" if "error_type" in row else "completed").lower()
    if word not in _SAYABLE:
        raise ValueError(f"status {one_line(word)!r}: {did_you_mean(word, _SAYABLE)}")
    if word == "completed":
        return {"status": word}
    told = ": ".join(row[name] for name in ("error_type", "message") if name in row)
    return {"status": word, "reason": one_line(row.get("reason") or told or "says no reason", 500)}


def _number(name: str, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise ValueError(f"{name}: {one_line(cell, 60)!r} is not a number") from None


def _whole(name: str, cell: str) -> int:
    try:
        return int(cell)
    except ValueError:
        pass
    try:
        number = float(cell)  # such as 1e6 and 10000.0
        if number == int(number):
            return int(number)
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{name}: {one_line(cell, 60)!r} is not a whole number")


def _flag(name: str, cell: str) -> bool:
    if cell.lower() not in _FLAGS:
        raise ValueError(f"{name}: {one_line(cell, 60)!r} is neither true nor false")
    return _FLAGS[cell.lower()]


def _refuse_second(run: ExternalRun, seen: dict[tuple[Any, ...], str]) -> None:
    if run.status != "completed" or run.seed is None:
        return
    key = (Conditions.of(run), run.env, run.algo, run.seed, run.config)
    first = seen.setdefault(key, run.place)
    if first != run.place:
        raise ValueError(
            f"the same run as {first} ({one_line(run.algo)} on {one_line(run.env)}, seed "
            f"{run.seed}); distinguish variants in column config"
        )


def _refuse(path: Path, problems: list[str]) -> None:
    told = problems[:_MAX_PROBLEMS]
    if len(problems) > len(told):
        told.append(f"… and {len(problems) - len(told)} more lines")
    lines = "1 line is" if len(problems) == 1 else f"{len(problems)} lines are"
    raise InvalidLinesError(f"{path}: {lines} wrong, nothing was imported; {problems[0]}", told)


def _notes(columns: list[str], runs: list[ExternalRun]) -> list[str]:
    notes = []
    foreign = [name for name in columns if name not in COLUMNS]
    if foreign:
        notes.append(one_line(f"columns left out: {', '.join(n or '(no name)' for n in foreign)}"))
    unseeded = sum(run.status == "completed" and run.seed is None for run in runs)
    if unseeded:
        notes.append(f"{unseeded} rows say no seed: each counts as a run of its own")
    return notes
