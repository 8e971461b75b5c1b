"""Prints the commands that make the table of methods, as its registered design states them.

    python benchmarks/table.py search            # 16 trials per method
    python benchmarks/table.py search --of dac
    python benchmarks/table.py rows a            # rows of one part

The design is `results/table-design.json`; `docs/table.md` explains it. It was written before the
first run, and its digest shows that it did not change since.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from imitbench.cards.catalog import load_algorithm
from imitbench.records.runs import Record, SealedRecord

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "results" / "table-design.json"
VALUES = Path("results") / "table-values"
"""Folder of the values that searches found, below the root of the repository."""

Part = Literal["a", "b", "c", "d"]
_Names = Annotated[list[str], Field(min_length=1)]


class Search(Record):
    """The search for values, the same for every method.

    Attributes:
        suite: Suite whose environments are searched on.
        regime: Regime of the demonstrations.
        environments: Environments of the trials.
        methods: Methods that are searched for.
        trials: Trials of each method; the first has the values of its card.
        seeds: Seeds of each trial.
        share: Share of the budget `default` that a trial trains.
        held_out_seeds: Seeds on which the best trials are compared with the card's values.
        objective: What is maximized.
        without_reward: Objective of second rows, for the best three methods and `bc`.
        again_below: Score on `mujoco` below which a method gets a search of the same size there.
    """

    suite: str
    regime: str
    environments: _Names
    methods: _Names
    trials: int
    seeds: list[int]
    share: float
    held_out_seeds: list[int]
    objective: str
    without_reward: str
    again_below: float


class Rows(Record):
    """Rows of the table that have their conditions in common.

    Attributes:
        part: Part of the table, in the order in which they are made.
        suite: Suite.
        environments: Environments; `None` for all of the suite.
        regime: Regime of the demonstrations; `None` for methods without any.
        budget: Budget.
        methods: Methods; `None` for the best ones of part a, see `best`.
        best: Number of methods with the highest IQM in part a.
        settings: Hyper-parameters that every row of the group has, as `--set` takes them.
        pack: Number of seeds that are trained together; `None` to train each alone.
        searched: Whether the methods have the values of the search, where it found better ones than
            those of their cards.
    """

    part: Part
    suite: str
    environments: list[str] | None = None
    regime: str | None = None
    budget: str = "default"
    methods: list[str] | None = None
    best: int | None = None
    settings: list[str] = Field(default_factory=list)
    pack: int | None = None
    searched: bool = False


class TableDesign(SealedRecord):
    """Everything that was decided before the first run of the table.

    Attributes:
        registered_at: ISO 8601 time in UTC.
        seeds: Seeds of the rows, which no search has seen.
        acting: Ways of acting that are measured and shown.
        failed_run: What counts as a failed run, and how it counts.
        exported: Which policy of a run is evaluated.
        margin: Largest difference of shares up to which a paper's figure is reproduced.
        goal: Share of the pairs of methods to decide after Holm in regime `few` on each suite.
        search: The search for values.
        rows: The rows.
        digest: SHA-256 over all of the above.
    """

    format: Literal["imitbench-table"] = "imitbench-table"
    version: Literal[1] = 1
    registered_at: str
    seeds: list[int]
    acting: list[Literal["sampled", "likely"]]
    failed_run: str
    exported: str
    margin: float
    goal: float
    search: Search
    rows: list[Rows]
    digest: str = ""


def read_design(path: Path = DESIGN) -> TableDesign:
    """Reads the design.

    Raises:
        ValueError: It was changed after it was registered.
    """
    design = TableDesign.model_validate_json(path.read_text())
    if design.digest != design.own_digest:
        raise ValueError(f"{path}: was changed after it was registered")
    return design


def search_command(design: TableDesign, method: str) -> str:
    """Returns the command of a method's search."""
    search = design.search
    words = ["imitbench", "tune", "--algo", method, "--suite", search.suite, "--per", "suite"]
    words += ["--env", ",".join(search.environments), "--regime", search.regime]
    words += ["--trials", str(search.trials), "--search-share", f"{search.share:g}"]
    words += ["--search-seeds", _listed(search.seeds)]
    words += ["--held-out-seeds", _listed(search.held_out_seeds)]
    if load_algorithm(method).packs:
        words += ["--pack-seeds"]
    words += ["--objective", search.objective, "--to", str(_values(method))]
    return shlex.join(words)


def row_commands(design: TableDesign, part: Part) -> Iterator[str]:
    """Yields the commands of a part's rows; groups whose methods follow from part a have none."""
    for rows in design.rows:
        if rows.part != part or rows.methods is None:
            continue
        for method in rows.methods:
            words = ["imitbench", "run", "--algo", method, "--suite", rows.suite]
            if rows.environments is not None:
                words += ["--env", ",".join(rows.environments)]
            if rows.regime is not None:
                words += ["--regime", rows.regime]
            if rows.budget != "default":
                words += ["--budget", rows.budget]
            words += ["--seeds", f"{design.seeds[0]}-{design.seeds[-1]}"]
            for setting in rows.settings:
                words += ["--set", setting]
            if rows.searched and (ROOT / _values(method)).is_file():
                words += ["--config", str(_values(method))]
            if rows.pack is not None:
                words += ["--pack", str(rows.pack)]
            yield shlex.join(words)


def _values(method: str) -> Path:
    return VALUES / f"{method}.yaml"


def _listed(seeds: list[int]) -> str:
    return ",".join(map(str, seeds))


def main() -> None:
    """Prints commands."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    search = kinds.add_parser("search", help="commands of the searches")
    search.add_argument("--of", metavar="METHOD", help="of this method only")
    rows = kinds.add_parser("rows", help="commands of rows")
    rows.add_argument("part", choices=["a", "b", "c", "d"])
    given = parser.parse_args()
    design = read_design()
    if given.kind == "search":
        methods = [name for name in design.search.methods if given.of in (None, name)]
        lines = [search_command(design, method) for method in methods]
    else:
        lines = list(row_commands(design, given.part))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
