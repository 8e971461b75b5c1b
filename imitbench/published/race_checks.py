"""Checks that published races follow their registered designs.

A design says after which runs a race looks, and the looks say where it stops. All of that is
computed again from the episodes: a race that went on after a decision, or stopped before one, is
refused.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path

from imitbench.errors import InputError
from imitbench.published.findings import Finding, Findings
from imitbench.published.results_folder import RACES, race_file
from imitbench.published.run_checks import NO_TIME, parse_time, recompute
from imitbench.published.submission import Submission
from imitbench.records.bundled_cards import likely_expert
from imitbench.records.published import PublishedRun
from imitbench.records.race_design import RaceDesign
from imitbench.stats.sequential import Race
from imitbench.store.races import (
    RACES_FOLDER,
    RegisteredRace,
    describe_foreign,
    difference,
    foreign_runs,
    overlap,
    parse_race,
)
from imitbench.untrusted import gate
from imitbench.untrusted.files import read_text
from imitbench.untrusted.web import is_url, read_url
from imitbench.util.text_line import one_line

CLOCK_TOLERANCE = timedelta(minutes=5)
"""Clocks of the machines of a cluster may differ by this."""

_RERUN = "publish the results folder of the race as it is"
_DESIGN_FILES = ("*.json", f"{RACES}/*.json", f"{RACES_FOLDER}/*/*.json", f"*/{RACES}/*.json")
_REGISTER = "publish the race as it was registered, or runs of a race that was registered first"


def check_races(submission: Submission, findings: Findings) -> set[str]:
    """Checks all races of a submission.

    Returns:
        Settings of runs (`RunSpec.setting`) whose seeds a race decides on.
    """
    settings: set[str] = set()
    for race in submission.races:
        _check(race, submission.published, findings)
        design = race.design
        settings |= {cell.setting for cells in design.cells.values() for cell in cells.values()}
    return settings


def replay(design: RaceDesign, runs: Sequence[PublishedRun]) -> Race:
    """Looks at all published runs of a design, with scores computed from their episodes."""
    return design.replay(map(_from_episodes, runs))


def _from_episodes(run: PublishedRun) -> PublishedRun:
    if run.result is None or run.episodes is None or len({*run.episodes.deterministic}) < 2:
        return run
    return replace(run, result=run.result.model_copy(update=recompute(run.episodes)))


def _check(race: RegisteredRace, runs: Sequence[PublishedRun], findings: Findings) -> None:
    design, where = race.design, race_file(race)
    for message in describe_foreign(foreign_runs(design, runs)):
        findings.fail("races", where, message, "publish the race alone")
    for env, scale in design.references.items():
        # Records of runs do not state it: another one would move the margin, and all scores.
        due = likely_expert(design.suite, env, scale.model_copy(update={"expert_likely": None}))
        if due is not None and scale.expert_likely not in (None, due):
            what = f"{one_line(env)}: expert_likely {scale.expert_likely}; the card says {due}"
            findings.fail("races", where, what, "register a design with the suite's references")
    own = [run for run in runs if design.has(run)]
    registered = parse_time(race.registered_at)
    if registered is None:
        stated = one_line(race.registered_at, 40)
        findings.fail("races", where, f"registered_at {stated!r} {NO_TIME}", _RERUN)
    elif (early := next(_early(own, registered), None)) is not None:
        run, did = early
        what = f"{run.spec.label} {did} before the design was registered"
        findings.fail("races", where, what, "register a design before its first run")
    found = replay(design, own)
    for message in _deviations(design, own, found):
        findings.fail("races", where, message, _RERUN)


def _deviations(design: RaceDesign, runs: Sequence[PublishedRun], found: Race) -> Iterator[str]:
    """Yields what does not follow from the design, cell by cell."""
    used = design.used(found)
    seeds: dict[tuple[str, str], set[int]] = {cell: set() for cell in used}
    for run in runs:
        seeds[run.spec.algo, run.spec.environment.id].add(run.spec.seed)
    for need in found.needed:
        cell = need.method, need.environment
        lacking = [seed for seed in range(need.last) if seed not in seeds[cell]]
        yield (
            f"{one_line(need.method)} on {one_line(need.environment)} stopped before a decision: "
            f"no run of seeds {', '.join(map(str, lacking[:5]))}"
        )
    for (method, env), wanted in used.items():
        beyond = sorted(seed for seed in seeds[method, env] if seed >= wanted)
        if beyond:
            yield (
                f"{one_line(method)} on {one_line(env)} went on after the decision with {wanted} "
                f"seeds: there are runs of seeds {', '.join(map(str, beyond[:5]))}"
            )


def _early(
    runs: Sequence[PublishedRun], registered: datetime
) -> Iterator[tuple[PublishedRun, str]]:
    """Yields runs that ended, or started, before a design was registered."""
    for run in runs:
        times = {"ended": run.ended_at, "started": run.result.started_at if run.result else ""}
        for did, text in times.items():
            when = parse_time(text)  # another check reports malformed times
            if when is not None and when < registered - CLOCK_TOLERANCE:
                yield run, did
                break


def compare_registered(races: Sequence[RegisteredRace], source: str) -> list[Finding]:
    """Compares the designs of a submission's races with those that were published before.

    A digest shows that a design was not edited by accident. Whoever edits it on purpose computes
    the digest again. Only a copy that the submitter could not change any more shows which design
    was first.

    Args:
        races: Races of the submission.
        source: File or folder of designs, a results folder, published results, or the address of a
            design.

    Returns:
        A problem for each race whose design is not there.

    Raises:
        InputError: There are no designs, or one cannot be read.
    """
    known = published_designs(source)
    findings = Findings()
    if not races:
        findings.fail("races", RACES, f"has no race, but {source} has designs", _REGISTER)
    for race in races:
        what = _deviation(race, known)
        if what is not None:
            findings.fail("races", race_file(race), f"{what} at {source}", _REGISTER)
    return findings.problems


def published_designs(source: str) -> list[RegisteredRace]:
    """Reads all designs of a source, see `compare_registered`.

    Raises:
        InputError: There are none, or one cannot be read.
    """
    if not is_url(source):
        path = Path(source)
        found = gate.checked(lambda: _designs(path), path)
        if not found:
            raise InputError(
                f"--registered {source}: has no design of a race; name a file races/<id>.json, a "
                "folder of such files, or a results folder"
            )
        return found
    with tempfile.TemporaryDirectory(prefix="imitbench-design-") as scratch:
        path = Path(scratch) / "design.json"
        path.write_bytes(read_url(source))
        try:
            return gate.checked(lambda: [_design(path)], path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), source)) from error


def _designs(path: Path) -> list[RegisteredRace]:
    if path.is_file():
        return [_design(path)]
    if not path.is_dir():
        raise InputError(f"--registered {path}: no such file or folder")
    files = chain.from_iterable(path.glob(pattern) for pattern in _DESIGN_FILES)
    # Requests of races, manifests and other files lie beside designs.
    return [_design(file) for file in sorted(files) if '"imitbench-race"' in read_text(file)]


def _design(path: Path) -> RegisteredRace:
    """Reads a design; its file may have any name."""
    return parse_race(read_text(path), None, str(path))


def _deviation(race: RegisteredRace, known: list[RegisteredRace]) -> str | None:
    """Says how a design differs from what was published; `None` for the same record."""
    same = next((published for published in known if published.id == race.id), None)
    if same is not None:
        if same.registered_at == race.registered_at:
            return None
        return f"was registered at {race.registered_at!r}, not at {same.registered_at!r} as"
    for other in known:
        if overlap(other.design, race.design):
            return f"has another {difference(other.design, race.design)} than the design"
    return "is not among the designs"
