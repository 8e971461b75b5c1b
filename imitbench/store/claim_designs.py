"""Checks of claims of a results folder: their registered designs.

    .claims/<id>/design.json     claim, margin and seeds, when they were registered, and a digest

A check promises what its interval says only if its seeds are not chosen after results are known. So
they are written before the first run, and other seeds are another check, in another folder.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from imitbench.errors import InputError
from imitbench.records.runs import Record, RunSpec, canonical_digest
from imitbench.store.registered_designs import (
    RegisteredDesign,
    read_designs,
    registration,
    write_design,
)
from imitbench.store.run_dir import RunDirectory
from imitbench.util.numbers import Finite

CLAIMS_FOLDER = ".claims"


class ClaimDesign(Record):
    """Everything that determines what a check of a claim decides.

    Attributes:
        schema_version: Raised when the same design leads to other decisions.
        source: Who claims what, in words.
        url: Address where the figure was read.
        algo: Method.
        suite: Suite.
        env: Environment.
        claimed: The figure, as a share of the expert's return or as a score.
        margin: Largest difference that counts as none.
        level: Confidence level of the interval, in (0, 1).
        seeds: Seeds of the runs.
        setting: Digest of all else that determines the runs (`RunSpec.setting`).
    """

    schema_version: Literal[1] = 1
    source: str
    url: str
    algo: str
    suite: str
    env: str
    claimed: Finite
    margin: Annotated[Finite, Field(gt=0)]
    level: Annotated[float, Field(gt=0, lt=1)]
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    setting: str

    @property
    def digest(self) -> str:
        """Content hash: 64 hexadecimal digits."""
        return canonical_digest(self.model_dump(mode="json"))


class RegisteredClaim(RegisteredDesign):
    """A design, and when it was registered; no run of it had ended by then.

    Attributes:
        registered_at: ISO 8601 time in UTC.
        command: The command that the user typed.
        imitbench: Version that registered it.
        digest: SHA-256 over all of the above.
    """

    FOLDER: ClassVar = CLAIMS_FOLDER
    WHAT: ClassVar = "the design of a check of a claim"
    format: Literal["imitbench-claim"] = "imitbench-claim"
    version: Literal[1] = 1
    design: ClaimDesign
    registered_at: str
    command: str
    imitbench: str
    digest: str = ""


def register_claim(out: Path, claim: RegisteredClaim, specs: Iterable[RunSpec]) -> RegisteredClaim:
    """Writes a design before its first run, unless the same one is registered already.

    Args:
        out: Results folder, created if missing.
        claim: The claim, sealed.
        specs: Its runs.

    Returns:
        The registered claim, which may be an earlier one with the same design.

    Raises:
        InputError: A run has ended already, the folder has another check of the same claim, or it
            cannot be written.
    """
    with registration(out, out / CLAIMS_FOLDER):
        for other in read_designs(out, RegisteredClaim):
            if other.id == claim.id:
                return other
            if (other.design.source, other.design.setting) == (
                claim.design.source,
                claim.design.setting,
            ):
                raise InputError(f"--out {out}: {_difference(other.design, claim.design)}")
        ended = [spec for spec in specs if RunDirectory.of(out, spec).has_outcome]
        if ended:
            raise InputError(
                f"--out {out}: has results of {ended[0].label} already; seeds are registered "
                "before their first run: name another --out"
            )
        write_design(out, claim)
        return claim


def _difference(registered: ClaimDesign, asked: ClaimDesign) -> str:
    if registered.seeds != asked.seeds:
        return (
            f"has a check of this claim with other seeds ({_seeds(registered)}, not "
            f"{_seeds(asked)}); name another --out, or the same seeds to go on with it"
        )
    return (
        f"has a check of this claim with another figure or margin ({registered.claimed:g} within "
        f"{registered.margin:g}, not {asked.claimed:g} within {asked.margin:g}); name another --out"
    )


def _seeds(design: ClaimDesign) -> str:
    first, last = min(design.seeds), max(design.seeds)
    return f"{len(design.seeds)} from {first} to {last}"
