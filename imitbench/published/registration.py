"""Compares the designs of races with those that were published before their runs.

A digest shows that a design was not edited by accident. Whoever edits it on purpose computes the
digest again. Only a copy that the submitter could not change any more shows which design was first.
"""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import chain
from pathlib import Path

from imitbench.errors import InputError
from imitbench.published.findings import Findings
from imitbench.published.results_folder import RACES, race_file
from imitbench.published.validation import Validation
from imitbench.store.races import (
    RACES_FOLDER,
    RegisteredRace,
    difference,
    overlap,
    parse_race,
)
from imitbench.untrusted import gate
from imitbench.untrusted.files import read_text
from imitbench.untrusted.web import is_url, read_url

_PLACES = ("*.json", f"{RACES}/*.json", f"{RACES_FOLDER}/*/*.json", f"*/{RACES}/*.json")
_FIX = "publish the race as it was registered, or runs of a race that was registered first"


def compare_registered(validation: Validation, place: str) -> Validation:
    """Compares the designs of a submission's races with those at another place.

    Args:
        validation: Validation of the submission.
        place: File or folder of designs, a results folder, published results, or the address of a
            design.

    Returns:
        The validation, with a problem for each race whose design is not there.

    Raises:
        InputError: There are no designs, or one cannot be read.
    """
    known = published_designs(place)
    findings = Findings()
    races = validation.submission.races
    if not races:
        findings.fail("races", RACES, f"has no race, but {place} has designs", _FIX)
    for race in races:
        what = _deviation(race, known)
        if what is not None:
            findings.fail("races", race_file(race), f"{what} at {place}", _FIX)
    return replace(validation, problems=(*validation.problems, *findings.problems))


def published_designs(place: str) -> list[RegisteredRace]:
    """Reads all designs at a place, see `compare_registered`.

    Raises:
        InputError: There are none, or one cannot be read.
    """
    if not is_url(place):
        path = Path(place)
        found = gate.checked(lambda: _designs(path), path)
        if not found:
            raise InputError(
                f"--registered {place}: has no design of a race; name a file races/<id>.json, a "
                "folder of such files, or a results folder"
            )
        return found
    with tempfile.TemporaryDirectory(prefix="imitbench-design-") as scratch:
        path = Path(scratch) / "design.json"
        path.write_bytes(read_url(place))
        try:
            return gate.checked(lambda: [_design(path)], path)
        except InputError as error:
            raise InputError(str(error).replace(str(path), place)) from error


def _designs(path: Path) -> list[RegisteredRace]:
    if path.is_file():
        return [_design(path)]
    if not path.is_dir():
        raise InputError(f"--registered {path}: no such file or folder")
    files = chain.from_iterable(path.glob(pattern) for pattern in _PLACES)
    # Requests of races, manifests and other files lie beside designs.
    return [_design(each) for each in sorted(files) if '"imitbench-race"' in read_text(each)]


def _design(path: Path) -> RegisteredRace:
    """Reads a design; its file may have any name."""
    return parse_race(read_text(path), None, str(path))


def _deviation(race: RegisteredRace, known: list[RegisteredRace]) -> str | None:
    """Says how a design differs from what was published; `None` for the same record."""
    same = next((each for each in known if each.id == race.id), None)
    if same is not None:
        if same.registered_at == race.registered_at:
            return None
        return f"was registered at {race.registered_at!r}, not at {same.registered_at!r} as"
    for other in known:
        if overlap(other.design, race.design):
            return f"has another {difference(other.design, race.design)} than the design"
    return "is not among the designs"
