"""Results that must not depend on interruptions of a sweep."""

from pathlib import Path

import pyarrow.parquet as pq

from imitbench.store import database
from imitbench.store.run_dir import RunDirectory

NUMBERS = (
    "raw_return",
    "return_std",
    "deterministic_return",
    "mean_length",
    "termination_rate",
    "env_steps",
    "measures",
)
TABLES = ("runs", "curves", "measures", "episodes", "failures", "ingested")


def finished_runs(out):
    """Reads the completed runs of a results folder, by their path below the folder.

    Returns:
        For each run, its returns, episodes, learning curve, and the bytes of its policy.
    """
    return {
        result.parent.relative_to(out).as_posix(): _outcome(result.parent)
        for result in Path(out).glob("*/*/*/*/result.json")
    }


def _outcome(path):
    directory = RunDirectory(path)
    result = directory.read_result()
    return {
        "numbers": [getattr(result, name) for name in NUMBERS],
        "episodes": pq.read_table(path / "episodes.parquet").to_pydict(),
        "curve": (path / "metrics.jsonl").read_text(),
        "policy": {file.name: file.read_bytes() for file in directory.policy.iterdir()},
        "files": sorted(
            file.relative_to(path).as_posix()
            for file in path.rglob("*")
            # The last owner of the run does not matter, if others can claim it.
            if not file.name.startswith(".lease")
        ),
    }


def database_content(out):
    """Returns all rows of a results folder's database, sorted."""
    with database.reader(Path(out)) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()
            for table in TABLES
        }
