"""Reads the table of claims: figures of other papers, and the own runs to hold against them.

The table is a CSV file with the columns of `Claim`. An empty cell means that the source does not
state the value.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from imitbench.cards.budgets import BudgetName
from imitbench.cards.catalog import algorithm_names, suite_names
from imitbench.cards.demonstrations import FULL
from imitbench.cards.suite import mismatch
from imitbench.errors import InputError, did_you_mean
from imitbench.records.bundled_cards import bundled_algorithm, bundled_suite
from imitbench.records.runs import Record
from imitbench.stats.normalization import has_scale, normalize
from imitbench.store.comparability import Conditions
from imitbench.untrusted.csv_text import csv_rows
from imitbench.untrusted.files import read_bounded
from imitbench.util.numbers import Count, Finite, Size
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

BUNDLED_TABLE = "claims.csv"
"""Name of a table in a folder of results."""

_MAX_BYTES = 2**20
_SEEDS = 10

Text = Annotated[str, Field(max_length=300)]


class Claim(Record):
    """One figure of a source, and the own results that it stands beside.

    Attributes:
        paper: Short name of the source.
        year: Year of its publication.
        figure: Location of the figure in the source, for example `Table 3, row DAC`.
        url: Address where the figure was read.
        task: Environment of the source.
        expert_return: Mean return of its expert, or of its demonstrations.
        random_return: Mean return of random actions on its task.
        demos: Number of its demonstrations.
        env_steps: Number of its environment steps; 0 for training without an environment.
        seeds: Number of its seeds.
        claimed_return: The figure, as a mean return.
        claimed_score: The figure as a normalized score, if the source states one.
        point: Whether the figure is that of the last policy, or the best point of a curve.
        algo: Own algorithm.
        suite: Own suite.
        env: Own environment.
        budget: Own budget.
        n_demos: Own number of demonstrations; `None` for methods that use none.
        config: Own hyper-parameters: the card's or the tuned ones.
        regime: Own regime, by its name on the suite's card, in place of `n_demos`.
        note: What a reader needs to know about the figure.
    """

    paper: Text
    year: Annotated[int, Field(ge=1980, le=2100)]
    figure: Text
    url: Annotated[str, Field(pattern=r"^https://[^\s()<>|]+$")]
    task: Text
    expert_return: Finite | None = None
    random_return: Finite | None = None
    demos: Size | None = None
    env_steps: Count | None = None
    seeds: Size | None = None
    claimed_return: Finite | None = None
    claimed_score: Finite | None = None
    point: Literal["last", "best", "not stated"]
    algo: str
    suite: str
    env: str
    budget: BudgetName
    n_demos: Size | Literal["all"] | None = None
    config: Literal["default", "tuned"]
    regime: Text | None = None
    note: Text | None = None

    @model_validator(mode="after")
    def _has_a_figure(self) -> Claim:
        if self.claimed_return is None and self.claimed_score is None:
            raise ValueError("needs claimed_return or claimed_score")
        if self.claimed_score is not None and self.random_return is not None:
            raise ValueError("claimed_score is stated, so random_return must be empty")
        if self.random_return is not None and not (
            self.expert_return is not None and has_scale(self.random_return, self.expert_return)
        ):
            raise ValueError("random_return needs an expert_return above it")
        return self

    @model_validator(mode="after")
    def _own_results_exist_or_can_be_made(self) -> Claim:
        card, suite = bundled_algorithm(self.algo), bundled_suite(self.suite)
        if card is None:
            raise ValueError(f"algo {self.algo!r}: {did_you_mean(self.algo, algorithm_names())}")
        if suite is None:
            raise ValueError(f"suite {self.suite!r}: {did_you_mean(self.suite, suite_names())}")
        environment = suite.environments.get(self.env)
        if environment is None:
            raise ValueError(f"env {self.env!r}: {did_you_mean(self.env, suite.environments)}")
        if (why := mismatch(card, environment)) is not None:
            raise ValueError(f"algo {self.algo} on {self.env}: {why}")
        if self.regime is not None:
            suite.regime(self.regime)  # says what is wrong
            if self.n_demos is not None or not card.needs.demos:
                raise ValueError("regime: says what n_demos says, of methods with demonstrations")
            return self
        if card.needs.demos != (self.n_demos is not None):
            rule = "a number or all" if card.needs.demos else "empty, it uses no demonstrations"
            raise ValueError(f"n_demos of {self.algo} must be {rule}")
        available = environment.demos.trajectories
        if isinstance(self.n_demos, int) and self.n_demos >= available:
            raise ValueError(f"n_demos {self.n_demos}: {self.env} has {available}; write all")
        return self

    @property
    def own_conditions(self) -> Conditions:
        """The conditions of own runs, without their source."""
        suite = bundled_suite(self.suite)
        if self.regime is None or suite is None:
            return Conditions.recorded(self.suite, self.budget, self.n_demos, None)
        regime = suite.regime(self.regime)
        if regime.n_demos == suite.environments[self.env].demos.trajectories:
            regime = regime.model_copy(update={"n_demos": None})
        return Conditions.in_regime(self.suite, self.budget, None, regime)

    @property
    def own_demos(self) -> int | None:
        """Own number of demonstrations; `None` for methods that use none."""
        card, suite = bundled_algorithm(self.algo), bundled_suite(self.suite)
        if card is None or suite is None or not card.needs.demos:
            return None
        count = suite.regime(self.regime).n_demos if self.regime is not None else self.n_demos
        return count if isinstance(count, int) else suite.environments[self.env].demos.trajectories

    @property
    def share(self) -> float | None:
        """The figure divided by the expert's return; `None` without a positive expert's return."""
        if self.claimed_return is None:
            return None
        return share_of_expert(self.claimed_return, self.expert_return)

    @property
    def score(self) -> float | None:
        """The figure as a normalized score; `None` if the source does not give enough for one."""
        if self.claimed_score is not None:
            return self.claimed_score
        if self.claimed_return is None or self.random_return is None or self.expert_return is None:
            return None
        return normalize(self.claimed_return, self.random_return, self.expert_return)

    @property
    def text(self) -> str:
        """The figure in words: who says what about which task."""
        return f"{self.paper} {self.year}, {self.figure}, {self.task}"

    def command(self, *, seeds: int = _SEEDS, pack: int | None = None, device: str = "cpu") -> str:
        """Returns the command that makes the own results."""
        words = ["imitbench", "run", "--algo", self.algo, "--suite", self.suite, "--env", self.env]
        words += ["--seeds", str(seeds)]
        if self.budget != "default":
            words += ["--budget", self.budget]
        suite = bundled_suite(self.suite)
        told = suite is None or suite.default_regime == FULL  # else all are not the default
        if self.n_demos is not None and not (told and self.n_demos == "all"):
            words += ["--n-demos", str(self.n_demos)]
        if self.regime is not None:
            words += ["--regime", self.regime]
        if self.config != "default":
            words += ["--config", self.config]
        if pack is not None:
            words += ["--pack", str(pack)]
        if device != "cpu":
            words += ["--device", device]
        return shlex.join(words)


COLUMNS = tuple(Claim.model_fields)
"""Columns of the table."""

REQUIRED = tuple(name for name, field in Claim.model_fields.items() if field.is_required())
"""Columns that must not be empty."""


def share_of_expert(mean_return: float, expert: float | None) -> float | None:
    """Returns a return divided by the expert's; `None` if the expert's is not above 0."""
    return None if expert is None or expert <= 0 else mean_return / expert


def claims_beside(folders: Iterable[Path]) -> list[Claim]:
    """Reads the tables of claims that stand in folders of results, if there are any.

    Raises:
        InputError: A table is malformed.
    """
    tables = (folder / BUNDLED_TABLE for folder in folders)
    return [claim for table in tables if table.is_file() for claim in read_claims(table)]


def read_claims(path: Path) -> list[Claim]:
    """Reads a table of claims.

    Args:
        path: CSV file in UTF-8, separated by commas, whose header has columns of `Claim`.

    Returns:
        The claims, in the order of the file.

    Raises:
        InputError: The file is missing or malformed, has an unknown column, a value that is not
            valid, or the same claim twice.
    """
    claims: list[Claim] = []
    lines: dict[tuple[object, ...], int] = {}
    for line, row in _read_rows(path):
        try:
            claim = Claim.model_validate_strings(row)
        except ValidationError as error:
            raise InputError(f"{path}, line {line}: {first_problem(error)}") from error
        location = (claim.url, claim.figure, claim.task, claim.demos, claim.point)
        key = (*location, claim.algo, claim.suite)
        first = lines.setdefault(key, line)
        if first != line:
            raise InputError(
                f"{path}, line {line}: the same claim as in line {first}; distinguish them in "
                "column figure"
            )
        claims.append(claim)
    if not claims:
        raise InputError(f"{path}: has no rows below its header")
    return claims


def _read_rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the number of each line, and its cells by column without empty ones."""
    try:
        text = read_bounded(path, _MAX_BYTES, follow_link=True).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8; save the table as UTF-8") from error
    header: list[str] = []
    for line, cells in csv_rows(text, path):
        if not header:
            header = [cell.strip() for cell in cells]
            _check_header(path, header)
        elif len(cells) != len(header):
            raise InputError(
                f"{path}, line {line}: {len(cells)} cells, and the header has {len(header)}"
            )
        else:
            row = zip(header, (cell.strip() for cell in cells), strict=True)
            yield line, {name: cell for name, cell in row if cell}
    if not header:
        raise InputError(f"{path}: is empty; its first line must name the columns")


def _check_header(path: Path, header: list[str]) -> None:
    for name in header:
        if name not in COLUMNS:
            raise InputError(
                f"{path}, line 1: unknown column {one_line(name, 60)!r}; "
                f"{did_you_mean(name, COLUMNS)}"
            )
        if header.count(name) > 1:
            raise InputError(f"{path}, line 1: two columns are {name!r}")
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        raise InputError(f"{path}, line 1: column {missing[0]} is missing")
