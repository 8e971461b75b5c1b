"""Records of runs that were trained again: who did it, by which draw, and what came out.

    verifications/<submission>-<record>.json    starts of the digests of both

A record stands beside the submissions, not in them, so no submitter writes one about his or her own
results. Whoever reads it does not have to trust its writer either, as far as files can tell: the
draw follows from the public seed and the submission's digest, the numbers stated are those of the
submission, and each outcome follows from the numbers.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import Field, ValidationError

from imitbench.errors import InputError
from imitbench.records.published import PublishedRun
from imitbench.records.runs import Provenance, Record, RunSpec, SealedRecord
from imitbench.untrusted.files import read_bounded
from imitbench.util.files import atomic_write_text
from imitbench.util.numbers import Finite
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

FOLDER = "verifications"
"""Name of the folder of records, inside or next to a folder of submissions."""

_MAX_BYTES = 2**24
_NAME_DIGITS = 16

Verdict = Literal["identical", "within noise", "within seeds", "different", "failed"]
AGREEING: tuple[Verdict, ...] = ("identical", "within noise", "within seeds")
VERDICT_TEXTS: dict[Verdict, str] = {
    "identical": "identical",
    "within noise": "agrees, within the noise of evaluation",
    "within seeds": "agrees, within the spread of seeds",
    "different": "different",
    "failed": "failed here",
}

_R = TypeVar("_R", RunSpec, PublishedRun)


class ReturnComparison(Record):
    """Comparison of a mean return as submitted and as reproduced.

    Attributes:
        stated: Mean return in the submission.
        found: Mean return as reproduced.
        noise_band: Largest difference that the choice of episodes explains.
        seed_band: Largest difference that the choice of the seed explains, from the submission's
            other runs; `None` if there are fewer than two.
    """

    stated: float
    found: float
    noise_band: float
    seed_band: float | None

    @property
    def difference(self) -> float:
        """Found minus stated."""
        return self.found - self.stated

    @property
    def verdict(self) -> Verdict:
        """How well the two agree; NaN never agrees."""
        if abs(self.difference) <= self.noise_band:
            return "within noise"
        if self.seed_band is not None and abs(self.difference) <= self.seed_band:
            return "within seeds"
        return "different"


def worse_verdict(one: ReturnComparison, other: ReturnComparison) -> Verdict:
    """Returns the worse of the verdicts of two comparisons."""
    return max(one.verdict, other.verdict, key=(*AGREEING, "different").index)


class FiniteComparison(ReturnComparison):
    """A comparison in a record, whose numbers are finite."""

    stated: Finite
    found: Finite
    noise_band: Annotated[Finite, Field(ge=0)]
    seed_band: Annotated[Finite, Field(ge=0)] | None


class VerifiedRun(Record):
    """A run that was trained again.

    Attributes:
        run_id: Id of the run.
        label: Its algorithm, environment and seed, as text.
        verdict: How well the reproduced run agrees with the submitted one; `failed` if there are no
            numbers to compare.
        raw_return: Comparison of the stochastic policy; `None` if there is none.
        deterministic_return: Comparison of the deterministic policy; `None` if there is none.
        same_setting: Whether versions and processor were those of the submitter.
        problem: Why there is no comparison; empty if there is one.
    """

    run_id: str
    label: str
    verdict: Verdict
    raw_return: FiniteComparison | None = None
    deterministic_return: FiniteComparison | None = None
    same_setting: bool = False
    problem: str = ""

    @property
    def agrees(self) -> bool:
        """Whether the reproduction agrees with the submission."""
        return self.verdict in AGREEING


class RefusedRun(Record):
    """A run that was drawn but could not be trained, and the reason."""

    run_id: str
    label: str
    why: str


class Verification(SealedRecord):
    """The outcome of `imitbench leaderboard verify` for a submission.

    Attributes:
        submission: Digest of the submission.
        name: Name of its folder, for readers; the digest identifies it.
        verified_by: Who trained the runs again.
        verified_at: ISO 8601 time in UTC.
        seed: Seed of the draw.
        public_seed: Text that became public after the submission, from which the seed follows;
            `None` if the verifier chose the seed.
        completed: Number of completed runs of the submission.
        runs: Runs trained again, in the order of the draw.
        refused: Runs drawn before that could not be trained here.
        provenance: Versions and hardware of the verifier, without the machine's name.
        digest: SHA-256 over all of the above.
    """

    format: Literal["imitbench-verification"] = "imitbench-verification"
    version: Literal[1] = 1
    submission: str
    name: str
    verified_by: str = Field(min_length=1, max_length=100)
    verified_at: str
    seed: int = Field(ge=0)
    public_seed: str | None = None
    completed: int = Field(ge=1)
    runs: list[VerifiedRun]
    refused: list[RefusedRun] = Field(default_factory=list)
    provenance: Provenance
    digest: str = ""

    @property
    def agrees(self) -> bool:
        """Whether runs were trained again, and all agree."""
        return bool(self.runs) and all(run.agrees for run in self.runs)

    @property
    def refutes(self) -> bool:
        """Whether a run that was trained again differs from the submitted one."""
        return any(run.verdict == "different" for run in self.runs)

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.submission[:_NAME_DIGITS]}-{self.digest[:_NAME_DIGITS]}.json"


def public_draw(digest: str, public: str) -> int:
    """Returns the seed of a draw that nobody knew when the submission was made.

    Args:
        digest: Digest of the submission, so that each has a draw of its own.
        public: Text that became public later, such as the numbers of a lottery.
    """
    return int.from_bytes(hashlib.sha256(f"{digest}\n{public}".encode()).digest()[:8], "big")


def draw_order(runs: Iterable[PublishedRun], seed: int) -> list[PublishedRun]:
    """Returns completed runs in the order of a draw; runs without training come last."""
    done = sorted((run for run in runs if run.result), key=lambda run: run.spec.run_id)
    rng = np.random.default_rng(seed)
    shuffled = [done[index] for index in rng.permutation(len(done)).tolist()]
    return sorted(shuffled, key=lambda run: run.spec.budget.unit == "none")


def write_verification(record: Verification, folder: Path) -> Path:
    """Writes a record into a folder of records, which is created if missing.

    Raises:
        InputError: The folder cannot be written.
    """
    path = folder / record.file_name
    try:
        atomic_write_text(path, record.text())
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return path


def read_verifications(folder: Path) -> list[Verification]:
    """Reads the records of a folder, by time; none if the folder is missing.

    Raises:
        InputError: A file is no such record, or was changed after it was written.
    """
    found = []
    for path in sorted(folder.glob("*.json")):
        try:
            record = Verification.model_validate_json(read_bounded(path, _MAX_BYTES))
        except ValidationError as error:
            problem = first_problem(error)
            raise InputError(f"{path}: not a record of a verification ({problem})") from error
        if record.digest != record.own_digest:
            raise InputError(f"{path}: was changed after it was written; restore it or remove it")
        found.append(record)
    return sorted(found, key=lambda record: (record.verified_at, record.digest))


def check_verification(
    record: Verification, where: str, digest: str, runs: Sequence[PublishedRun]
) -> None:
    """Checks that a record fits the submission that it names.

    Raises:
        InputError: It is about other results, its runs are not those of the draw, a number is not
            that of the submission, or an outcome does not follow from the numbers.
    """

    def refuse(what: str) -> InputError:
        return InputError(f"{where}: {what}; remove the record, and verify again")

    if record.submission != digest:
        raise refuse("is about other results")
    if record.public_seed is not None and record.seed != public_draw(digest, record.public_seed):
        raise refuse("its seed does not follow from its public seed")
    order = [run.spec.run_id for run in draw_order(runs, record.seed)]
    drawn = [run.run_id for run in record.runs]
    refused = [run.run_id for run in record.refused]
    taken = order[: len(drawn) + len(refused)]
    if record.completed != len(order) or sorted(taken) != sorted(drawn + refused):
        raise refuse("its runs are not those that its seed draws")
    known = {run.spec.run_id: run for run in runs}
    for run in record.runs:
        problem = _contradiction(run, known[run.run_id])
        if problem:
            raise refuse(f"{one_line(run.label)}: {problem}")


def _contradiction(verified: VerifiedRun, run: PublishedRun) -> str | None:
    """Returns what is wrong with the outcome of a run, if anything."""
    one, other = verified.raw_return, verified.deterministic_return
    if one is None or other is None:
        # That a run differs costs its submission the rank; nobody could check it without numbers.
        failed = verified.verdict == "failed" and bool(verified.problem)
        return None if failed else "an outcome without numbers"
    result = run.result
    assert result is not None  # only completed runs are drawn
    pairs = ((one, result.raw_return), (other, result.deterministic_return))
    if not all(math.isclose(found.stated, own, rel_tol=1e-9) for found, own in pairs):
        return "states another return than the submission"
    due = worse_verdict(one, other)
    equal = one.difference == other.difference == 0.0
    if verified.verdict == due or (verified.verdict == "identical" and equal):
        return None
    return f"its outcome is called {verified.verdict!r}, but the numbers say {due!r}"
