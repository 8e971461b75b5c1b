"""Races of a results folder: their registered designs, and the runs or episodes of each.

    .races/<id>/design.json                 the design, when it was registered, and their digest
    .races/<id>/request.json                the request that plans its runs, for `imitbench resume`
    .policy-races/<id>/design.json          the design of a race of two given policies
    .policy-races/<id>/<side>-<look>.json   returns of one batch of episodes of one policy

There is no other state: all decisions follow from the design and the outcomes. The seeds of a batch
follow from the design, too, so that a batch whose file was not written before a kill has the same
episodes when it is done again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.records.published import PublishedRun
from imitbench.records.race_design import SIDES, PolicyDesign, RacedCell, RaceDesign
from imitbench.records.runs import RunSpec, SealedRecord
from imitbench.store.comparability import Conditions, run_row
from imitbench.store.registered_designs import (
    RegisteredDesign,
    content_of,
    design_folder,
    parse_design,
    read_designs,
    read_sealed,
    registration,
    was_edited,
    write_design,
)
from imitbench.store.run_dir import RunDirectory
from imitbench.store.sweep_file import SweepRequest
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.numbers import Finite
from imitbench.util.text_line import one_line

RACES_FOLDER, POLICY_RACES_FOLDER = ".races", ".policy-races"
_REQUEST = "request.json"


class RegisteredRace(RegisteredDesign):
    """A design, and when it was registered (`design.json`).

    Attributes:
        registered_at: ISO 8601 time in UTC; no run of the design had ended by then.
        command: The command that the user typed.
        imitbench: Version that registered it.
        digest: SHA-256 over all of the above.
    """

    FOLDER: ClassVar = RACES_FOLDER
    format: Literal["imitbench-race"] = "imitbench-race"
    version: Literal[1] = 1
    design: RaceDesign
    registered_at: str
    command: str
    imitbench: str
    digest: str = ""


def parse_race(text: str | bytes, name: str | None, where: str) -> RegisteredRace:
    """Reads a registered design.

    Args:
        text: Content of its file.
        name: Id of the race according to the name of its file or folder; `None` if it has none.
        where: Path of the file, for messages.

    Raises:
        InputError: The text is no such record, or was changed after the registration.
    """
    return parse_design(RegisteredRace, text, name, where)


def read_races(out: Path) -> list[RegisteredRace]:
    """Reads the registered designs of a results folder, oldest first.

    Raises:
        InputError: A design cannot be read, or was changed after its registration.
    """
    return read_designs(out, RegisteredRace)


def read_request(out: Path, race: RegisteredRace) -> SweepRequest | None:
    """Reads the request that plans the runs of a race; `None` if it is missing or malformed."""
    try:
        return SweepRequest.model_validate_json(read_content(design_folder(out, race) / _REQUEST))
    except (OSError, ValidationError):
        return None


def register(out: Path, race: RegisteredRace, request: SweepRequest) -> RegisteredRace:
    """Writes a design before its first run, unless the same one is registered already.

    Args:
        out: Results folder, created if missing.
        race: The race, sealed.
        request: Request that plans its runs.

    Returns:
        The registered race, which may be an earlier one with the same design.

    Raises:
        InputError: The folder has results that do not belong to the design or are older than it, or
            another race of the same methods; or the folder cannot be written.
    """
    with registration(out, out / RACES_FOLDER):
        races = read_races(out)
        present = next((known for known in races if known.id == race.id), None)
        if present is None:
            _check_free(out, race, races)
            path = design_folder(out, race) / _REQUEST
            atomic_write_text(path, request.model_dump_json(indent=1) + "\n")
            write_design(out, race)
        return present or race


def restore(out: Path, race: RegisteredRace) -> None:
    """Writes the design of a published race, unless it is there already.

    Args:
        out: Results folder, created if missing.
        race: The race, as it was registered.

    Raises:
        InputError: The folder has another race of the same methods, or cannot be written.
    """
    with registration(out, out / RACES_FOLDER):
        present = read_races(out)
        if race.id in {other.id for other in present}:
            return
        for other in present:
            _check_overlap(out, race.design, other.design)
        write_design(out, race)


def _check_overlap(out: Path, design: RaceDesign, other: RaceDesign) -> None:
    if overlap(other, design):
        raise InputError(
            f"--out {out}: has a race of {other.title} with another {difference(other, design)}; "
            "a changed design is a new race: name another --out, or type the command of the first "
            "one to go on with it"
        )


def _check_free(out: Path, race: RegisteredRace, races: Iterable[RegisteredRace]) -> None:
    """Checks that a new design does not follow from results that exist already."""
    design = race.design
    for other in races:
        _check_overlap(out, design, other.design)
    runs = read_outcomes(out, design)
    check_foreign(f"--out {out}", foreign_runs(design, runs))
    own = [run.spec for run in runs if design.has(run)]
    if own:
        first = own[0]
        seeds = _seeds(spec.seed for spec in own if _cell_of(spec) == _cell_of(first))
        raise InputError(
            f"--out {out}: {first.algo_label} on {first.environment.id} has results already "
            f"({seeds}); a design is registered before its first run: name another --out"
        )


_FIELDS = {
    "pairs": "choice of methods",
    "environments": "choice of environments",
    "acting": "way of acting",
    "references": "scale of the suite's card",
    "max_seeds": "limit of seeds",
    "failed_runs": "policy for failed runs",
}


def overlap(one: RaceDesign, other: RaceDesign) -> bool:
    """Whether reports would show runs of both in one cell."""
    return one.suite == other.suite and any(
        other.cells[method][env].model_copy(update={"setting": mine.setting}) == mine
        for method, cells in one.cells.items()
        for env, mine in cells.items()
        if env in other.cells.get(method, {})
    )


def difference(was: RaceDesign, now: RaceDesign) -> str:
    """Names the first field in which two designs differ, with both values if they are short."""
    for name in RaceDesign.model_fields:
        before, after = getattr(was, name), getattr(now, name)
        if before == after:
            continue
        if name == "cells":
            return _cell_difference(was, now)
        if name == "acting":
            before, after = (design.acting or "sampled" for design in (was, now))
        simple = not isinstance(before, dict | list)
        word = _FIELDS.get(name, name)
        return f"{word} ({before}, not {after})" if simple else word
    return "content"


_DEMOS = {
    "n_demos": "number of demonstrations",
    "demo_every": "share of the demonstrations' steps",
    "demo_actions": "actions in the demonstrations",
    "mixture": "mixture",
}


def _cell_difference(was: RaceDesign, now: RaceDesign) -> str:
    for method, cells in was.cells.items():
        for env, before in cells.items():
            after = now.cells.get(method, {}).get(env)
            if after is None:
                return "choice of environments"
            for name in ("label", "budget", *_DEMOS, "source"):
                if getattr(before, name) != getattr(after, name):
                    what = {
                        "label": "setting",
                        **_DEMOS,
                    }
                    told = f"({getattr(before, name)}, not {getattr(after, name)})"
                    return f"{what.get(name, name)} of {method} {told}"
            if before != after:
                return f"card, demonstrations or code of {method}"
    return "set of methods"


def describe_cell(spec: RunSpec) -> RacedCell:
    """Returns the cell of a run, as a design states it."""
    row = run_row(spec)
    conditions = Conditions.of(row)
    return RacedCell(
        label=spec.algo_label,
        setting=spec.setting,
        budget=conditions.budget,
        n_demos=conditions.n_demos,
        source=conditions.source,
        demo_every=row.demo_every,
        demo_actions=row.demo_actions,
        mixture=row.mixture,
    )


def cell_conditions(suite: str, cell: RacedCell) -> Conditions:
    """Returns the conditions of the runs of a cell."""
    parts = cell.demo_every, cell.demo_actions, cell.mixture
    return Conditions.recorded(suite, cell.budget, cell.n_demos, cell.source, *parts)


def read_outcomes(out: Path, design: RaceDesign) -> list[PublishedRun]:
    """Reads all completed and failed runs of the methods of a design, without episodes.

    Args:
        out: Results folder.
        design: The design. Runs of its methods under other settings are among the result.

    Raises:
        InputError: A record is malformed.
    """
    found = []
    for method in design.methods:
        for env in design.environments:
            folder = out / design.suite / method / env.replace("/", "-")
            for path in sorted(folder.glob("*/")):
                run = read_outcome(RunDirectory(path))
                if run is not None and run.spec.environment.id == env:
                    found.append(run)
    return found


def read_outcome(directory: RunDirectory) -> PublishedRun | None:
    """Returns a completed or failed run without its episodes; `None` if it has not ended.

    Raises:
        InputError: A record is malformed.
    """
    if not directory.has_outcome:
        return None
    spec = directory.read_spec()
    if directory.is_done:
        return PublishedRun(spec, directory.read_result())
    failure = directory.failure_on_record()
    return None if failure is None else PublishedRun(spec, failure=failure)


@dataclass(frozen=True)
class ForeignRun:
    """A run that a report would show with those of a race, and that is not part of it.

    Attributes:
        spec: Specification of the run.
        why: `setting`: other card, demonstrations or code; `seed`: not a seed of the design;
            `references`: scored with other references.
    """

    spec: RunSpec
    why: Literal["setting", "seed", "references"]


def foreign_runs(design: RaceDesign, runs: Iterable[PublishedRun]) -> list[ForeignRun]:
    """Returns runs that are comparable with those of a race and do not belong to it."""
    found = []
    for run in runs:
        spec = run.spec
        cell = design.cells.get(spec.algo, {}).get(spec.environment.id)
        if cell is None or spec.suite != design.suite:
            continue
        if spec.setting != cell.setting:
            mine = (spec.algo_label, Conditions.of_spec(spec))
            if mine == (cell.label, cell_conditions(design.suite, cell)):
                found.append(ForeignRun(spec, "setting"))
        elif spec.seed >= design.max_seeds:
            found.append(ForeignRun(spec, "seed"))
        elif run.result and not run.result.references.agrees(
            design.references[spec.environment.id]
        ):
            found.append(ForeignRun(spec, "references"))
    return found


_WHY: Mapping[str, str] = {
    "setting": "results made under another version of its card, demonstrations or code",
    "seed": "results of seeds that the design does not have",
    "references": "results that were scored with other references of the suite's card",
}


def describe_foreign(found: Iterable[ForeignRun]) -> list[str]:
    """Returns a message per method, environment and reason."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for run in found:
        groups.setdefault((*_cell_of(run.spec), run.why), []).append(run.spec.seed)
    return [
        f"{one_line(label)} on {one_line(env)} has {_WHY[why]} ({_seeds(seeds)})"
        for (label, env, why), seeds in groups.items()
    ]


def check_foreign(where: str, found: Iterable[ForeignRun]) -> None:
    """Checks that a results folder has no runs that would stand beside those of a race.

    Raises:
        InputError: It has.
    """
    for message in describe_foreign(found):
        raise InputError(f"{where}: {message}; name another --out")


def _cell_of(spec: RunSpec) -> tuple[str, str]:
    return spec.algo_label, spec.environment.id


def _seeds(seeds: Iterable[int]) -> str:
    known = sorted(set(seeds))
    named = ", ".join(map(str, known[:5])) + (", …" if len(known) > 5 else "")
    return f"seed{'s' * (len(known) > 1)} {named}"


class RegisteredPolicyRace(RegisteredDesign):
    """As `RegisteredRace`, of two given policies; no episode had been run at `registered_at`."""

    FOLDER: ClassVar = POLICY_RACES_FOLDER
    DID: ClassVar = "written"
    digest: str = ""
    format: Literal["imitbench-policy-race"] = "imitbench-policy-race"
    version: Literal[1] = 1
    design: PolicyDesign
    registered_at: str
    command: str
    imitbench: str


class EpisodeBatch(SealedRecord):
    """Episodes of one policy between two looks.

    Attributes:
        design: Digest of the design.
        side: Which policy, as in `SIDES`.
        look: Number of the look that needs them, from 0.
        returns: Undiscounted returns, in the order of episodes.
        digest: SHA-256 over all of the above.
    """

    digest: str = ""
    design: str
    side: str
    look: Annotated[int, Field(ge=0)]
    returns: list[Finite]


def read_policy_races(out: Path) -> list[RegisteredPolicyRace]:
    """Reads the registered designs of a results folder, oldest first.

    Raises:
        InputError: A design cannot be read, or was changed after its registration.
    """
    return read_designs(out, RegisteredPolicyRace)


def register_policy_race(out: Path, race: RegisteredPolicyRace) -> RegisteredPolicyRace:
    """Writes a design before its first episode, unless the same one is registered already.

    Args:
        out: Results folder, created if missing.
        race: The race.

    Returns:
        The registered race, which may be an earlier one with the same design.

    Raises:
        InputError: A design of the folder was edited, or the folder cannot be written.
    """
    with registration(out, out / POLICY_RACES_FOLDER):
        for present in read_policy_races(out):
            if present.id == race.id:
                return present
        write_design(out, race.sealed())
        return race.sealed()


def read_batch(folder: Path, design: PolicyDesign, side: str, look: int) -> list[float] | None:
    """Reads the returns of a batch; `None` if there is none yet.

    Raises:
        InputError: The file was edited, or is not that batch of the design.
    """
    path = _batch_path(folder, side, look)
    if not path.exists():
        return None
    batch = read_sealed(EpisodeBatch, content_of(path), path, "a batch of episodes")
    if (batch.design, batch.side, batch.look) != (design.digest, side, look) or (
        len(batch.returns) != design.episodes_in(look)
    ):
        raise was_edited(path)
    return batch.returns


def write_batch(
    folder: Path, design: PolicyDesign, side: str, look: int, returns: list[float]
) -> None:
    """Writes the returns of a batch atomically."""
    batch = EpisodeBatch(design=design.digest, side=side, look=look, returns=returns)
    atomic_write_text(_batch_path(folder, side, look), batch.sealed().text())


def read_returns(folder: Path, design: PolicyDesign) -> tuple[list[float], list[float]]:
    """Reads the returns of both policies, up to the first batch that is missing.

    Raises:
        InputError: A file was edited.
    """
    sides: dict[str, list[float]] = {}
    for side in SIDES:
        sides[side] = []
        for look in range(len(design.sequential.looks)):
            batch = read_batch(folder, design, side, look)
            if batch is None:
                break
            sides[side] += batch
    return sides["first"], sides["second"]


def _batch_path(folder: Path, side: str, look: int) -> Path:
    return folder / f"{side}-{look:04d}.json"
