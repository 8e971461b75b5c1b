"""How the hyper-parameters of published results were chosen: `disclosure.json` of their folder.

The file stands beside the results, like a README: it has no digest in the manifest, so that a
statement can be added to results that are published already, and corrected.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from imitbench.cards.catalog import algorithm_directory
from imitbench.cards.tuned import TUNED_FILE, TunedValues, Tuning, read_tuned
from imitbench.errors import InputError
from imitbench.published.findings import Findings
from imitbench.published.table_values import table_values
from imitbench.records.bundled_cards import bundled_algorithm
from imitbench.records.published import PublishedRun
from imitbench.records.runs import AbbreviatedRecord, Record, RunSpec
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

DISCLOSURE_FILE = "disclosure.json"
_AVERAGED = "policy_tau"  # hyper-parameter; below 1, the exported policy is a moving average
_RETURN = "the true return"
_SHORT = 40
_FIX = f"correct {DISCLOSURE_FILE}"
_Row = tuple[str, str]  # suite, and algorithm with its variant
_Text = Annotated[str, Field(min_length=1, max_length=500)]


class Disclosure(AbbreviatedRecord):
    """How the hyper-parameters of an algorithm's runs on a suite were chosen.

    Attributes:
        suite: Name of the suite.
        algo: Name of the algorithm, with its variant, as in the rows of reports.
        chosen: `default` for the values on the method's card; `search` if a program searched for
            them; `hand` if a person tried values, or took them from somewhere.
        criterion: What decided between values, for example `the true return` or the name of an
            objective; `None` if nothing was compared. For `default`, how the card's values were
            chosen.
        tasks: Ids of the environments on which values were compared.
        seeds: Seeds with which they were compared.
        env_steps: Environment steps of all these trainings; `None` if that is not recorded.
        trials: Number of settings that were tried; `None` if that is not recorded. Serialized only
            if it is known, as is the next one.
        core_hours: Hours of these trainings, on one core per run; `None` if that is not recorded.
        published_seeds: Whether results of published seeds had a say; `None`, for the card's
            defaults alone, if that is not recorded.
        exported: Policy that was evaluated: the last one, or an average over training.
        note: What else a reader must know.
    """

    optional = ("trials", "core_hours")

    suite: _Text
    algo: _Text
    chosen: Literal["default", "search", "hand"]
    criterion: _Text | None = None
    tasks: list[_Text] = Field(default_factory=list)
    seeds: list[int] = Field(default_factory=list)
    env_steps: int | None = Field(default=None, ge=0)
    trials: int | None = Field(default=None, ge=1)
    core_hours: float | None = Field(default=None, ge=0)
    published_seeds: bool | None
    exported: Literal["last", "average"]
    note: _Text | None = None

    @property
    def row(self) -> _Row:
        """Suite and algorithm."""
        return self.suite, self.algo

    @property
    def short(self) -> str:
        """How the values were chosen, in a few words."""
        found = {"default": "card's defaults", "search": "searched", "hand": "by hand"}[self.chosen]
        if self.chosen == "search" and self.criterion not in (None, _RETURN):
            found += f" by {one_line(self.criterion, _SHORT)}"
        say = {True: "published seeds had a say", None: "selection not recorded", False: ""}
        return "; ".join(filter(None, (found, say[self.published_seeds])))

    @property
    def text(self) -> str:
        """The whole statement, as a sentence."""
        how = {
            "default": "The values are the card's defaults",
            "search": "The values were found by a search",
            "hand": "The values were chosen by hand",
        }[self.chosen]
        parts = [how]
        if self.criterion is not None:
            parts.append(f"compared by {self.criterion}")
        if self.tasks:
            parts.append(f"on {', '.join(self.tasks)}")
        if self.seeds:
            parts.append(
                f"with seed{'s' * (len(self.seeds) > 1)} {', '.join(map(str, self.seeds))}"
            )
        if self.criterion is not None:
            steps = "an unrecorded number of" if self.env_steps is None else f"{self.env_steps:,}"
            parts.append(f"in {steps} environment steps")
        if self.trials is not None:
            parts.append(f"{self.trials} trials")
        if self.core_hours is not None:
            parts.append(f"{self.core_hours:.1f} core-hours")
        say = {
            True: "Published seeds had a say.",
            False: "No published seeds had a say.",
            None: "Whether published seeds had a say is not recorded.",
        }[self.published_seeds]
        policy = {"last": "last one", "average": "average over training"}[self.exported]
        note = f" {self.note}" if self.note else ""
        return f"{', '.join(parts)}. {say} The evaluated policy is the {policy}.{note}"


class DisclosureFile(Record):
    """`disclosure.json`."""

    format: Literal["imitbench-disclosure"] = "imitbench-disclosure"
    version: Literal[1] = 1
    rows: list[Disclosure]


def parse_disclosures(path: Path) -> list[Disclosure]:
    """Reads the statements of a file.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: It is malformed, or names a row twice.
    """
    try:
        rows = DisclosureFile.model_validate_json(read_content(path)).rows
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}") from error
    twice = [row for row, count in Counter(row.row for row in rows).items() if count > 1]
    if twice:
        raise InputError(f"{path}: {_named(twice[0])} occurs twice; state each row once")
    return rows


def read_disclosures(folder: Path, findings: Findings) -> list[Disclosure]:
    """Reads the statements beside published results; a malformed file is a finding."""
    try:
        return parse_disclosures(folder / DISCLOSURE_FILE)
    except FileNotFoundError:
        return []
    except InputError as error:
        what = str(error).removeprefix(f"{folder / DISCLOSURE_FILE}: ")
        findings.fail("disclosure", DISCLOSURE_FILE, what)
        return []


def check_disclosures(
    rows: Sequence[Disclosure], specs: Iterable[RunSpec], findings: Findings
) -> None:
    """Checks that every row with other values than the card's has a statement that fits its runs.

    Args:
        rows: The statements.
        specs: Specifications of all runs.
        findings: Receives the problems.
    """
    runs = _by_row(specs)
    for what in _undisclosed(rows, runs):
        findings.fail("disclosure", DISCLOSURE_FILE, what, "docs/leaderboard.md has an example")
    for row in rows:
        for what in _contradictions(row, runs.get(row.row, [])):
            findings.fail("disclosure", DISCLOSURE_FILE, f"{_named(row.row)}: {what}", _FIX)


def undisclosed(rows: Sequence[Disclosure], specs: Iterable[RunSpec]) -> list[str]:
    """Returns what `check_disclosures` finds of rows that lack a statement."""
    return _undisclosed(rows, _by_row(specs))


def _undisclosed(rows: Sequence[Disclosure], runs: Mapping[_Row, Sequence[RunSpec]]) -> list[str]:
    stated = {row.row for row in rows}
    return [
        f"{_named(row)} does not say how its hyper-parameters were chosen"
        for row, own in sorted(runs.items())
        if row not in stated and has_other_values(own[0])
    ]


def _by_row(specs: Iterable[RunSpec]) -> dict[_Row, list[RunSpec]]:
    runs: dict[_Row, list[RunSpec]] = defaultdict(list)
    for spec in specs:
        runs[spec.suite, spec.algo_label].append(spec)
    return runs


def has_other_values(spec: RunSpec) -> bool:
    """Whether the label of a run names other hyper-parameters than the card's."""
    return bool(other_values(spec))


def other_values(spec: RunSpec) -> str:
    """Returns which hyper-parameters a label names: its variant without how the run was trained."""
    parts = [part for part in spec.variant.split(",") if part]
    kept = [part for part in parts if part.partition("=")[0] not in ("pack", "device")]
    return ", ".join(kept)


def _named(row: _Row) -> str:
    return one_line(f"{row[1]} on {row[0]}", 120)


def _contradictions(row: Disclosure, runs: Sequence[RunSpec]) -> Iterable[str]:
    if not runs:
        yield "there are no such runs"
        return
    other = has_other_values(runs[0])
    if other and row.chosen == "default":
        yield "chosen is default, but the label says that values differ from the card's"
    elif not other and row.chosen != "default":
        yield f"chosen is {row.chosen}, but the values are the card's: say default, and how those"
    if row.chosen == "search" and (row.criterion is None or not row.tasks or not row.seeds):
        yield "a search has a criterion, tasks and seeds"
    if row.published_seeds is None and row.chosen != "default":
        yield "published_seeds must be true or false for values other than the card's"
    if row.published_seeds is False:
        shared = sorted({spec.seed for spec in runs if spec.environment.id in row.tasks})
        shared = [seed for seed in shared if seed in row.seeds]
        if shared:
            yield (
                f"published_seeds is false, but seed {shared[0]} was compared and is published here"
            )
    exported = {_exported(spec) for spec in runs} - {None}
    if exported and exported != {row.exported}:
        yield f"exported is {row.exported}, but {_AVERAGED} of the runs says otherwise"


def _exported(spec: RunSpec) -> Literal["last", "average"] | None:
    """Returns which policy a run exported; `None` for methods that this package does not have."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    if card is None:
        return None
    share = card.completed(spec.hyperparameters).get(_AVERAGED, 1.0)
    return "average" if isinstance(share, float | int) and share < 1 else "last"


def own_disclosures(out: Path, runs: Sequence[PublishedRun]) -> list[Disclosure]:
    """Returns the statements for runs of a results folder.

    They are those of its own `disclosure.json`, and for other rows with tuned values those that
    follow from the records of `imitbench tune` on the method's card.

    Args:
        out: The results folder.
        runs: Its runs.

    Raises:
        InputError: The file is malformed.
    """
    by_row = _by_row(run.spec for run in runs)
    try:
        stated = [row for row in parse_disclosures(out / DISCLOSURE_FILE) if row.row in by_row]
    except FileNotFoundError:
        stated = []
    known = {row.row for row in stated}
    drafted = (_of_record(specs) for row, specs in by_row.items() if row not in known)
    return sorted((*stated, *filter(None, drafted)), key=lambda row: row.row)


def add_disclosures(out: Path, rows: Sequence[Disclosure]) -> None:
    """Adds statements to the `disclosure.json` of a results folder.

    Args:
        out: The results folder. What its file says of a row stays.
        rows: Statements, as those of published results whose runs were copied there.

    Raises:
        InputError: The folder's file is malformed.
    """
    path = out / DISCLOSURE_FILE
    try:
        stated = parse_disclosures(path)
    except FileNotFoundError:
        stated = []
    known = {row.row for row in stated}
    new = [row for row in rows if row.row not in known]
    if new:
        merged = sorted((*stated, *new), key=lambda row: row.row)
        atomic_write_text(path, disclosure_text(merged))


def disclosure_text(rows: Sequence[Disclosure]) -> str:
    """Returns the content of a file with statements."""
    return DisclosureFile(rows=list(rows)).model_dump_json(indent=1) + "\n"


@dataclass(frozen=True)
class TuningCost:
    """Cost of tuning for the environments of a row.

    Attributes:
        tuned: Number of environments with tuned values, or of all if only a statement names a cost.
        stated: Number of those whose cost is on record.
        trials: Trials of these searches; `None` if no cost is on record.
        env_steps: Environment steps of their runs; `None` if no search recorded them.
        core_hours: Hours of their runs; `None` if no search recorded them.
    """

    tuned: int = 0
    stated: int = 0
    trials: int | None = None
    env_steps: int | None = None
    core_hours: float | None = None


def tuning_cost(specs: Iterable[RunSpec], disclosures: Sequence[Disclosure] = ()) -> TuningCost:
    """Adds up the cost of the searches behind a row.

    The cost is that on the method's tuned values, if these are the values of the runs. Searches of
    a whole suite count once.

    Args:
        specs: The row's runs.
        disclosures: Statements about the row, which count where the tuned values of the method are
            other ones, or where a search ended with the values of the card.
    """
    specs = list(specs)
    found = _tunings(specs)
    known = [tuning for tuning in found.values() if tuning is not None]
    searches = {
        (tuning.suite, tuning.sampler_seed, tuple(tuning.held_out_seeds), tuning.trials)
        if tuning.per == "suite"
        else ("", index): tuning
        for index, tuning in enumerate(known)
    }
    if not searches:
        environments = {spec.environment.id for spec in specs}
        return _stated_cost(len(found), len(environments), disclosures)
    return TuningCost(
        tuned=len(found),
        stated=len(known),
        trials=sum(search.trials for search in searches.values()),
        env_steps=_sum_of_known(search.env_steps for search in searches.values()),
        core_hours=_sum_of_known(search.core_hours for search in searches.values()),
    )


def _stated_cost(tuned: int, environments: int, disclosures: Sequence[Disclosure]) -> TuningCost:
    """Returns the cost that statements name, also of searches that found nothing better."""
    searches = [
        stated for stated in disclosures if stated.chosen == "search" or stated.trials is not None
    ]
    trials = _sum_of_known(search.trials for search in searches)
    if trials is not None:
        tuned = tuned or environments
    return TuningCost(
        tuned=tuned,
        stated=0 if trials is None else tuned,
        trials=trials,
        env_steps=None
        if trials is None
        else _sum_of_known(search.env_steps for search in searches),
        core_hours=None
        if trials is None
        else _sum_of_known(search.core_hours for search in searches),
    )


_Number = TypeVar("_Number", int, float)


def _sum_of_known(values: Iterable[_Number | None]) -> _Number | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tunings(specs: Iterable[RunSpec]) -> dict[str, Tuning | None]:
    """Returns the records of the tuned values of runs by environment; `None` without a record."""
    tuned = {spec.environment.id: spec for spec in specs if spec.tuned}
    found = {env: _tuned_values(spec) for env, spec in tuned.items()}
    return {env: None if values is None else values.tuning for env, values in found.items()}


def _tuned_values(spec: RunSpec) -> TunedValues | None:
    """Returns the tuned values of a run's method, if the run has these values."""
    card = bundled_algorithm(spec.algo) if spec.implementation_digest is None else None
    if card is None:
        return None
    own = card.completed(spec.hyperparameters)
    # Those of the table name every value that was searched, so they are the ones to try first.
    for tuned in (*table_values(spec.algo), _bundled(spec.algo)):
        values = tuned.get(spec.environment.id)
        if values is not None and values.are_in(own):
            return values
    return None


@cache
def _bundled(name: str) -> Mapping[str, TunedValues]:
    path = algorithm_directory(name) / TUNED_FILE
    return read_tuned(path).environments if path.is_file() else {}


def _of_record(specs: Sequence[RunSpec]) -> Disclosure | None:
    """Returns the statement that follows from records of searches, if all values have one."""
    found = _tunings(specs)
    records = [tuning for tuning in found.values() if tuning is not None]
    exported = _exported(specs[0])
    if not records or len(records) < len(found) or exported is None:
        return None
    seeds = {seed for record in records for seed in (*record.search_seeds, *record.held_out_seeds)}
    cost = tuning_cost(specs)
    by = {_RETURN if record.uses_reward else record.objective for record in records}
    return Disclosure(
        suite=specs[0].suite,
        algo=specs[0].algo_label,
        chosen="search",
        criterion=" and ".join(sorted(by)),
        tasks=sorted({task for record in records for task in record.environments or found}),
        seeds=sorted(seeds),
        env_steps=cost.env_steps,
        trials=cost.trials,
        core_hours=cost.core_hours,
        published_seeds=any(spec.seed in seeds for spec in specs),
        exported=exported,
    )
