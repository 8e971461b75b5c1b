"""Races of two given policies in a results folder: their designs, and the episodes so far.

    .policy-races/<id>/design.json          the design, when it was registered, and a digest
    .policy-races/<id>/<side>-<look>.json   returns of one batch of episodes of one policy

There is no other state. The seeds of a batch follow from the design, so that a batch whose file was
not written before a kill has the same episodes when it is done again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.records.policy_design import SIDES, PolicyDesign
from imitbench.records.sealed import SealedRecord
from imitbench.store import lease
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.numbers import Finite
from imitbench.util.validation_errors import first_problem

POLICY_RACES_FOLDER = ".policy-races"
_DESIGN = "design.json"
_ID_LENGTH = 16


class _Sealed(SealedRecord):
    digest: str = ""


class RegisteredPolicyRace(_Sealed):
    """A design, and when it was registered (`design.json`).

    Attributes:
        registered_at: ISO 8601 time in UTC; no episode had been run by then.
        command: The command that the user typed.
        imitbench: Version that registered it.
        digest: SHA-256 over all of the above.
    """

    format: Literal["imitbench-policy-race"] = "imitbench-policy-race"
    version: Literal[1] = 1
    design: PolicyDesign
    registered_at: str
    command: str
    imitbench: str

    @property
    def id(self) -> str:
        """Start of the design's digest, which names the race."""
        return self.design.digest[:_ID_LENGTH]


class EpisodeBatch(_Sealed):
    """Episodes of one policy between two looks.

    Attributes:
        design: Digest of the design.
        side: Which policy, as in `SIDES`.
        look: Number of the look that needs them, from 0.
        returns: Undiscounted returns, in the order of episodes.
        digest: SHA-256 over all of the above.
    """

    design: str
    side: str
    look: Annotated[int, Field(ge=0)]
    returns: list[Finite]


_S = TypeVar("_S", bound=_Sealed)


def policy_race_folder(out: Path, race: RegisteredPolicyRace) -> Path:
    """Returns the folder of a race in a results folder."""
    return out / POLICY_RACES_FOLDER / race.id


def read_policy_races(out: Path) -> list[RegisteredPolicyRace]:
    """Reads the registered designs of a results folder, oldest first.

    Raises:
        InputError: A design cannot be read, or was changed after its registration.
    """
    found = []
    for path in sorted((out / POLICY_RACES_FOLDER).glob(f"*/{_DESIGN}")):
        race = _read(RegisteredPolicyRace, path, "the design of a race")
        if race.id != path.parent.name:
            raise _edited(path)
        found.append(race)
    return sorted(found, key=lambda race: (race.registered_at, race.id))


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
    folder = out / POLICY_RACES_FOLDER
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lease.acquire(folder, wait=True)  # two processes register one after the other
        assert held is not None
        try:
            for each in read_policy_races(out):
                if each.id == race.id:
                    return each
            atomic_write_text(policy_race_folder(out, race) / _DESIGN, race.sealed().text())
            return race.sealed()
        finally:
            held.release()
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error


def read_batch(folder: Path, design: PolicyDesign, side: str, look: int) -> list[float] | None:
    """Reads the returns of a batch; `None` if there is none yet.

    Raises:
        InputError: The file was edited, or is not that batch of the design.
    """
    path = _batch_path(folder, side, look)
    if not path.exists():
        return None
    batch = _read(EpisodeBatch, path, "a batch of episodes")
    if (batch.design, batch.side, batch.look) != (design.digest, side, look) or (
        len(batch.returns) != design.episodes_in(look)
    ):
        raise _edited(path)
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


def _read(kind: type[_S], path: Path, what: str) -> _S:
    try:
        record = kind.model_validate_json(read_content(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{path}: not {what} ({first_problem(error)})") from error
    if record.digest != record.own_digest:
        raise _edited(path)
    return record


def _edited(path: Path) -> InputError:
    return InputError(
        f"{path}: was changed after it was written; restore it, or start another race in another "
        "--out"
    )
