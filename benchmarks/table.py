"""Prints the commands that make the table of methods, as its registered design states them.

    python benchmarks/table.py search                                # 16 trials per method
    python benchmarks/table.py search --values state-match --of bc   # without a reward
    python benchmarks/table.py values                                # those found, for all suites
    python benchmarks/table.py rows a                                # rows of one part
    python benchmarks/table.py rows c --best bc,dac,…
    python benchmarks/table.py statements > runs/disclosure.json     # how values were chosen
    python benchmarks/table.py decided results                       # pairs of methods that differ

The design is `results/table-design.json`; `docs/table.md` explains it. It was written before the
first run, and its digest shows that it did not change since.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from imitbench.cards.catalog import load_algorithm, load_suite
from imitbench.cards.suite import mismatch
from imitbench.cards.tuned import TunedValues, read_tuned
from imitbench.errors import InputError
from imitbench.published.disclosure import Disclosure, disclosure_text
from imitbench.published.results_sources import find_results
from imitbench.records.bundled_cards import bundled_suite
from imitbench.records.runs import Record, SealedRecord, variant_label
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.standings import by_method, pair_outcomes
from imitbench.stats.decided_pairs import winners
from imitbench.stats.significance import significance_at
from imitbench.store.comparability import Conditions
from imitbench.tune.held_out_comparison import add_tuned

ROOT = Path(__file__).resolve().parents[1]
DESIGN = ROOT / "results" / "table-design.json"
VALUES = Path("results") / "table-values"
"""Folder of the values that searches found, below the root of the repository."""

Part = Literal["a", "b", "c", "d"]
Kind = Literal["return", "state-match", "mujoco"]
"""A search: that of all methods, one without a reward, or one on `mujoco`."""
KINDS: tuple[Kind, ...] = get_args(Kind)
ACTING: tuple[Literal["sampled", "likely"], ...] = ("sampled", "likely")
REPLICATES = 2_000
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
        divisors: By how much the budget of some methods is divided.
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
    divisors: dict[str, int] = Field(default_factory=dict)


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
        pack: Number of seeds that are trained together; `None` to train each alone. Of the best
            methods of part a, those with a replay buffer are trained together.
        divisors: By how much the budget of some methods is divided.
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
    divisors: dict[str, int] = Field(default_factory=dict)

    def pack_of(self, method: str) -> int | None:
        """How many seeds of a method are trained together; `None` to train each alone."""
        alone = self.methods is None and load_algorithm(method).budget_unit != "replay_steps"
        return None if alone else self.pack


class Amendment(Record):
    """A change of the design before the first run of the table.

    Attributes:
        amended_at: ISO 8601 time in UTC.
        digest: SHA-256 of the design before the change.
        why: What was changed, and why.
    """

    amended_at: str
    digest: str
    why: str


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
        amendments: Changes before the first run.
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
    amendments: list[Amendment] = Field(default_factory=list)
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


def search_command(design: TableDesign, method: str, kind: Kind = "return") -> str:
    """Returns the command of a method's search.

    It writes the best values with their verdict, also if they are not better than the card's:
    what the search has cost stands there, too.
    """
    search = design.search
    suite = "mujoco" if kind == "mujoco" else search.suite
    objective = search.without_reward if kind == "state-match" else search.objective
    words = ["imitbench", "tune", "--algo", method, "--suite", suite, "--per", "suite"]
    words += ["--env", ",".join(_same_tasks(search.environments, suite)), "--regime", search.regime]
    if method in search.divisors:
        words += ["--budget", divided("default", search.divisors[method])]
    words += ["--trials", str(search.trials), "--search-share", f"{search.share:g}"]
    words += ["--search-seeds", _listed(search.seeds)]
    words += ["--held-out-seeds", _listed(search.held_out_seeds)]
    if kind != "state-match" and load_algorithm(method).packs:  # it is measured in each run alone
        words += ["--pack-seeds"]
    words += ["--objective", objective, "--keep-anyway", "--to", str(_file(method, kind))]
    return shlex.join(words)


def divided(budget: str, by: int) -> str:
    """Returns a part of a budget, such as `default/40` for a tenth of `default/4`."""
    name, _, before = budget.partition("/")
    return budget if by == 1 else f"{name}/{int(before or 1) * by}"


def row_commands(
    design: TableDesign,
    part: Part,
    *,
    kind: Kind = "return",
    of: Collection[str] | None = None,
    best: Sequence[str] = (),
) -> Iterator[str]:
    """Yields the commands of a part's rows.

    Args:
        design: The design.
        part: The part.
        kind: The search whose values the rows have. Others than that of all methods make second
            rows, where they found better values than the card's.
        of: Methods to limit the rows to; `None` for all.
        best: Methods of groups whose methods follow from part a.
    """
    for rows in design.rows:
        if rows.part != part or (kind == "mujoco" and rows.suite != "mujoco"):
            continue
        for method in rows.methods or best:
            values = better_values(method, kind) if rows.searched else None
            if (of is None or method in of) and (values is not None or kind == "return"):
                yield _row_command(design, rows, method, values)


def _row_command(design: TableDesign, rows: Rows, method: str, values: Path | None) -> str:
    words = ["imitbench", "run", "--algo", method, "--suite", rows.suite]
    if rows.environments is not None:
        words += ["--env", ",".join(rows.environments)]
    if rows.regime is not None:
        words += ["--regime", rows.regime]
    budget = divided(rows.budget, rows.divisors.get(method, 1))
    if budget != "default":
        words += ["--budget", budget]
    words += ["--seeds", f"{design.seeds[0]}-{design.seeds[-1]}"]
    for setting in rows.settings:
        words += ["--set", setting]
    if values is not None:
        words += ["--config", str(values)]
    if (pack := rows.pack_of(method)) is not None:
        words += ["--pack", str(pack)]
    return shlex.join(words)


def better_values(method: str, kind: Kind) -> Path | None:
    """Returns the file of a search's values; `None` if they are not better than the card's."""
    found = _found(method, kind)
    tuning = next(iter(found.values())).tuning if found else None
    return _file(method, kind) if tuning is not None and tuning.verdict == "better" else None


def _found(method: str, kind: Kind) -> dict[str, TunedValues]:
    path = ROOT / _file(method, kind)
    return dict(read_tuned(path).environments) if path.is_file() else {}


def complete_values(design: TableDesign) -> list[Path]:
    """Gives the values that were found on one suite to the environments of all other suites.

    Returns:
        The changed files.
    """
    suites = {rows.suite: load_suite(rows.suite) for rows in design.rows if rows.searched}
    changed = []
    for method in design.search.methods:
        card = load_algorithm(method)
        for kind in KINDS[:2]:  # what was found on `mujoco` is for `mujoco`
            found = _found(method, kind)
            values = next(iter(found.values()), None)
            new = {
                env_id: values
                for suite in suites.values()
                for env_id, environment in suite.environments.items()
                if values is not None
                and env_id not in found
                and environment.variant_of is None
                and mismatch(card, environment) is None
            }
            if new:
                add_tuned(ROOT / _file(method, kind), card, new)
                changed.append(_file(method, kind))
    return changed


def statements(design: TableDesign) -> list[Disclosure]:
    """Returns how values were chosen, for `disclosure.json` of a results folder.

    These are the rows that keep the values of their cards after a search, and those with settings
    of their own. Of values that a search found, `imitbench results export` says it.
    """
    found: dict[tuple[str, str], Disclosure] = {}
    for rows in design.rows:
        for method in rows.methods or design.search.methods:
            stated = _statement(rows, method)
            if stated is not None:
                found.setdefault(stated.row, stated)
    return sorted(found.values(), key=lambda stated: stated.row)


def _statement(rows: Rows, method: str) -> Disclosure | None:
    card = load_algorithm(method)
    values = card.resolve(dict(setting.split("=", 1) for setting in rows.settings))
    changed = card.changed(values)
    found = next(iter(_found(method, "return").values()), None) if rows.searched else None
    tuning = None if found is None else found.tuning
    if not changed and (tuning is None or tuning.verdict == "better"):
        return None
    label = variant_label(changed, "cpu", pack=rows.pack_of(method))
    share = values.get("policy_tau", 1.0)
    said: dict[str, Any] = {
        "suite": rows.suite,
        "algo": f"{method}[{label}]" if label else method,
        "chosen": "hand" if changed else "default",
        "published_seeds": False,
        "exported": "average" if isinstance(share, float) and share < 1 else "last",
        "note": "Settings of the table's design.",
    }
    if tuning is not None:
        said |= {
            "criterion": "the true return",
            "tasks": tuning.environments or [],
            "seeds": sorted({*tuning.search_seeds, *tuning.held_out_seeds}),
            "env_steps": tuning.env_steps,
            "trials": tuning.trials,
            "core_hours": tuning.core_hours,
            "note": "The search found nothing better on its held-out seeds.",
        }
    return Disclosure.model_validate(said)


def decided_pairs(design: TableDesign, results: Path) -> Iterator[str]:
    """Says for each suite how many pairs of methods differ, of all tracks, after Holm."""
    board = build_board(find_results(results), title="Table", replicates=REPLICATES)
    level = significance_at(board.method.level)
    for part in board.sections:
        found = part.section.conditions
        suite = bundled_suite(found.suite or "")
        if suite is None or design.search.regime not in suite.regimes:
            continue
        regime = suite.regime(design.search.regime)
        if found != Conditions.in_regime(suite.name, "default", "bundled", regime):
            continue
        firsts = [entry.row for entry in by_method(row for row in part.rows if row.tier)]
        rows = {row.result.algorithm: row for row in firsts}
        pairs = list(combinations(rows, 2))
        ways = [winners(pair_outcomes(rows, board.method, acting, pairs), level)
                for acting in ACTING]  # fmt: skip
        shares = [f"{len(won)} {acting}" for acting, won in zip(ACTING, ways, strict=True)]
        both = len(ways[0] & ways[1])
        yield (
            f"{found.title}, version {part.version}: {len(pairs)} pairs of {len(rows)} methods, "
            f"decided: {', '.join(shares)}, {both} both ({both / max(1, len(pairs)):.0%}; "
            f"goal {design.goal:.0%})"
        )


def _same_tasks(environments: Sequence[str], suite: str) -> list[str]:
    """Returns the environments of a suite that have the names of others, whatever the version."""
    by_name = {_task(env_id): env_id for env_id in load_suite(suite).environments}
    return [by_name[_task(env_id)] for env_id in environments]


def _task(env_id: str) -> str:
    return env_id.rpartition("/")[2].partition("-")[0]


def _file(method: str, kind: Kind) -> Path:
    return VALUES / (f"{method}.yaml" if kind == "return" else f"{method}-{kind}.yaml")


def _listed(seeds: list[int]) -> str:
    return ",".join(map(str, seeds))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    search = modes.add_parser("search", help="commands of the searches")
    rows = modes.add_parser("rows", help="commands of rows")
    rows.add_argument("part", choices=get_args(Part))
    rows.add_argument(
        "--best", metavar="METHODS", help="for part c: the methods with the highest IQM in part a"
    )
    for command in (search, rows):
        command.add_argument("--of", metavar="METHODS", help="of these methods only")
        command.add_argument(
            "--values",
            choices=KINDS,
            default=KINDS[0],
            help="state-match: of second rows, chosen without a reward; mujoco: of a search there",
        )
    modes.add_parser("values", help="give values found on one suite to the others, in their files")
    decided = modes.add_parser("decided", help="how many pairs of methods differ after Holm")
    decided.add_argument("results", type=Path, nargs="?", default=ROOT / "results")
    modes.add_parser("statements", help="how values were chosen, as disclosure.json")
    return parser


def _names(
    parser: argparse.ArgumentParser, option: str, text: str | None, known: Collection[str]
) -> list[str] | None:
    names = None if text is None else [name.strip() for name in text.split(",")]
    for name in names or ():
        if name not in known:
            parser.error(f"{option} {name}: the design has {', '.join(known)}")
    return names


def _note_missing(
    design: TableDesign, part: Part, kind: Kind, of: Collection[str] | None, best: Sequence[str]
) -> None:
    groups = [rows for rows in design.rows if rows.part == part and rows.searched]
    wanted = {method for rows in groups for method in rows.methods or best}
    missing = sorted(
        method for method in wanted if (of is None or method in of) and not _found(method, kind)
    )
    if missing:
        names = ", ".join(missing)
        print(f"note: {VALUES} has no values yet of {names}: searches come first", file=sys.stderr)


def main(arguments: list[str] | None = None) -> None:
    """Prints commands or statements.

    Args:
        arguments: Those of the command line when `None`.
    """
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        for line in _lines(parser, given, read_design()):
            print(line)
    except InputError as error:  # such as a file of values that is damaged
        parser.error(str(error))


def _lines(
    parser: argparse.ArgumentParser, given: argparse.Namespace, design: TableDesign
) -> Iterable[str]:
    if given.mode == "statements":
        return disclosure_text(statements(design)).splitlines()
    if given.mode == "values":
        return map(str, complete_values(design))
    if given.mode == "decided":
        found = list(decided_pairs(design, given.results))
        return found or [f"{given.results}: has no table of regime {design.search.regime}"]
    searched = design.search.methods
    every = [*searched, *(name for rows in design.rows for name in rows.methods or ())]
    known = list(dict.fromkeys(every)) if given.mode == "rows" else searched
    of = _names(parser, "--of", given.of, known)
    if given.values != KINDS[0] and of is None:
        parser.error(f"--values {given.values}: name the methods, such as --of bc,dac")
    if given.mode == "search":
        methods = [name for name in searched if of is None or name in of]
        return [search_command(design, method, given.values) for method in methods]
    best = _names(parser, "--best", given.best, searched) or []
    wanted = {rows.best for rows in design.rows if rows.part == given.part and rows.best}
    if wanted and {len(set(best))} != wanted:
        parser.error(f"rows {given.part}: name the {wanted.pop()} best methods with --best")
    _note_missing(design, given.part, given.values, of, best)
    return row_commands(design, given.part, kind=given.values, of=of, best=best)


if __name__ == "__main__":
    main()
