"""Results of other tools: one text file per import, `external/<name>.jsonl`.

The first line is an `ExternalHeader`: the source of the import, with digests. Every other line is
an `ExternalRun`. The same source gives the same bytes. Table `external` of the database is derived
from the file; results of this package are stored elsewhere and never mixed with these.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import from_json

from imitbench.cards.suite import SuiteCard
from imitbench.errors import InputError
from imitbench.records.bundled_cards import likely_score
from imitbench.records.runs import Record, ReferenceScores
from imitbench.stats.normalization import normalize
from imitbench.store.scan import EXTERNAL_FOLDER, EXTERNAL_SUFFIX
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.numbers import Count, Finite, Integer
from imitbench.util.text_line import one_line
from imitbench.util.validation_errors import first_problem

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
MAX_RUNS = 200_000
_MAX_BYTES = 2**30

Tool = Literal["sacred", "csv", "rliable", "leaderboard"]
Status = Literal["completed", "interrupted", "killed", "failed", "running", "duplicate", "unusable"]
STATUSES: tuple[Status, ...] = get_args(Status)


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("contains control characters or line breaks")
    return text


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_printable)]
Line = Annotated[str, Field(max_length=5000), AfterValidator(_printable)]


class ExternalRun(Record):
    """A run of another tool. A value that the source does not contain is `None`.

    Attributes:
        place: Location in the source, unique within the import.
        status: Only `completed` runs have a result that counts; `duplicate` is a copy of another
            run, and `unusable` is a run that is damaged or has no result.
        reason: Why a run is not completed.
        algo: Algorithm, by the source's name.
        env: Environment, by the source's name.
        seed: Seed; `None` for runs that differ only in their place.
        suite: Suite by the source's name.
        budget: Training budget by the source's name.
        n_demos: Number of demonstrations used.
        all_demos: Whether these are all demonstrations of the source.
        demo_every: One step was used out of so many of each demonstration; `None` for all steps.
        demo_actions: `hidden` if the method got no actions; `shown` or `None` otherwise.
        mixture: Trajectories besides demonstrations, such as `medium:10,random:10`.
        source: Where demonstrations came from.
        config: Digest of the settings apart from the seed; runs of one algorithm with different
            digests are variants.
        raw_return: Mean undiscounted return under the environment's own reward.
        return_std: Standard deviation over episodes (ddof 0).
        score: Normalized score that the source reports.
        score_deterministic: Normalized score of the deterministic policy.
        episodes: Number of evaluation episodes.
        mean_length: Mean episode length in steps.
        env_steps: Requested environment steps of training.
        wall_s: Seconds of the whole run.
        started_at: ISO 8601 time in UTC, as is `finished_at`.
        expert_return: Mean return of the source's expert or its demonstrations.
        expert_std: Standard deviation over the expert's episodes.
        expert_episodes: Number of the expert's episodes.
        reference_random: Mean return that maps to score 0.
        reference_expert: Mean return that maps to score 1.
        reference_version: Source of these two references.
        provenance: Versions and other details of the run in the source.
    """

    place: Line = Field(min_length=1)
    status: Status
    reason: Line = ""
    algo: Name | None = None
    env: Name | None = None
    seed: Integer | None = None
    suite: Name | None = None
    budget: Name | None = None
    n_demos: Count | None = None
    all_demos: bool | None = None
    demo_every: Count | None = None
    demo_actions: Literal["shown", "hidden"] | None = None
    mixture: Name | None = None
    source: Name | None = None
    config: Name | None = None
    raw_return: Finite | None = None
    return_std: Finite | None = None
    score: Finite | None = None
    score_deterministic: Finite | None = None
    episodes: Count | None = None
    mean_length: Finite | None = None
    env_steps: Count | None = None
    wall_s: Finite | None = None
    started_at: Name | None = None
    finished_at: Name | None = None
    expert_return: Finite | None = None
    expert_std: Finite | None = None
    expert_episodes: Count | None = None
    reference_random: Finite | None = None
    reference_expert: Finite | None = None
    reference_version: Name | None = None
    provenance: dict[Name, Line] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _says_what_its_status_needs(self) -> ExternalRun:
        if self.status != "completed":
            if not self.reason:
                raise ValueError(f"reason: must say why a run is {self.status}")
            return self
        if self.algo is None or self.env is None:
            raise ValueError("algo and env: a completed run needs both")
        if self.raw_return is None and self.score is None:
            raise ValueError("raw_return or score: a completed run needs one of them")
        return self

    @property
    def any_score(self) -> float | None:
        """The score that the source reports, else the one from its references, if it has any."""
        raw, random, expert = self.raw_return, self.reference_random, self.reference_expert
        if self.score is not None or raw is None or random is None or expert is None:
            return self.score
        score = normalize(raw, random, expert)
        return score if math.isfinite(score) else None

    @property
    def score_likely(self) -> float | None:
        """The score of most likely actions, see `likely_score`; `None` if it is unknown."""
        deterministic, version = self.score_deterministic, self.reference_version
        random, expert = self.reference_random, self.reference_expert
        if deterministic is None or version is None or random is None or expert is None:
            return None
        scale = ReferenceScores(random=random, expert=expert, version=version)
        score = likely_score(self.suite or "", self.env or "", scale, deterministic)
        return score if math.isfinite(score) else None


class ExternalHeader(Record):
    """First line of a file of imported results.

    Attributes:
        name: Label of the import, which is also the file's name.
        tool: Importer that wrote it.
        imitbench: Version that wrote the file.
        source: Base name of the folder or file that was imported.
        files: SHA-256 of the files that were read, by their path below the source.
        notes: Remarks on the import for users.
        digest: SHA-256 of all lines after the first.
    """

    format: Literal["imitbench-external"] = "imitbench-external"
    version: Literal[1] = 1
    name: str = Field(pattern=f"^{NAME_PATTERN}$")
    tool: Tool
    imitbench: str
    source: Line
    files: dict[Line, str]
    notes: list[Line]
    digest: str


class ExternalScoreRow(Record):
    """A row of the `external_scores` view: a completed run of another tool.

    Attributes:
        name: Label of the import.
        score: See `ExternalRun.any_score`.
        reference_version: Source of the references of the score; `None` if the source of the
            import reports the score.
        reference_random: Return of score 0, if it is known, and `reference_expert` of score 1.
    """

    run_id: str
    name: str
    tool: Tool
    suite: str | None
    env: str
    algo: str
    seed: int | None
    budget: str | None
    n_demos: int | None
    all_demos: bool | None
    demo_every: int | None
    demo_actions: str | None = None
    mixture: str | None = None
    source: str | None
    config: str | None
    raw_return: float | None
    score: float | None
    score_deterministic: float | None
    mean_length: float | None
    episodes: int | None
    env_steps: int | None
    wall_s: float | None
    finished_at: str | None
    reference_version: str | None
    reference_random: float | None = None
    reference_expert: float | None = None


@dataclass(frozen=True)
class ImportedResults:
    """Runs that an importer found in a source.

    Attributes:
        tool: Name of the importer.
        source: Base name of the folder or file.
        files: SHA-256 of the files that were read, by their path below the source.
        runs: All runs, including those that did not complete.
        notes: Remarks on the import for users.
    """

    tool: Tool
    source: str
    files: dict[str, str]
    runs: list[ExternalRun]
    notes: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[Status, int]:
        """Number of runs by status, without zeros."""
        found = Counter(run.status for run in self.runs)
        return {status: found[status] for status in STATUSES if found[status]}


def default_name(source: Path) -> str:
    """Returns a label for an import of a folder or file, derived from its name.

    Raises:
        InputError: The name has no character that a label may contain.
    """
    path = source.resolve()
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", path.name if path.is_dir() else path.stem)
    return check_name(plain.strip("._-")[:100])


def check_name(name: str) -> str:
    """Checks and returns the label of an import.

    Raises:
        InputError: The label is not valid.
    """
    if not re.fullmatch(NAME_PATTERN, name):
        raise InputError(
            f"--name {one_line(name, 60)!r}: must be at most 100 letters, digits, points, hyphens "
            "and underscores, and start with a letter or digit"
        )
    return name


def external_path(out: Path, name: str) -> Path:
    """Returns the path of an import's file in a results folder."""
    return out / EXTERNAL_FOLDER / f"{name}{EXTERNAL_SUFFIX}"


def write_external(
    results: ImportedResults, out: Path, name: str, *, version: str, force: bool = False
) -> bool:
    """Writes the file of an import atomically.

    Args:
        results: Imported results.
        out: Results folder, created if missing.
        name: Label, which must match `NAME_PATTERN`.
        version: Version of this package.
        force: Whether to replace other results of this name.

    Returns:
        Whether the file was written; `False` if it already has the same content.

    Raises:
        InputError: The label is invalid, other results have it, or the folder cannot be written.
    """
    check_name(name)
    body = "".join(run.model_dump_json(exclude_none=True) + "\n" for run in results.runs)
    header = ExternalHeader(
        name=name,
        tool=results.tool,
        imitbench=version,
        source=results.source,
        files=dict(sorted(results.files.items())),
        notes=results.notes,
        digest=content_digest(body.encode()),
    )
    path = external_path(out, name)
    if path.exists() and _holds(path, header):
        return False
    if path.exists() and not force:
        raise InputError(
            f"{path}: other results have this name; choose another with --name, or replace them "
            "with --force"
        )
    try:
        atomic_write_text(path, header.model_dump_json() + "\n" + body)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    return True


def _holds(path: Path, header: ExternalHeader) -> bool:
    """Whether a file is intact and has the same header, regardless of the version that wrote it."""
    try:
        there, _ = read_external(path)
    except InputError:
        return False
    return there.model_copy(update={"imitbench": header.imitbench}) == header


def read_external(path: Path) -> tuple[ExternalHeader, list[ExternalRun]]:
    """Reads and checks a file that `write_external` wrote.

    Raises:
        InputError: The file is missing, altered, malformed, or has another name than its header.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise InputError(f"{path}: more than {_MAX_BYTES} bytes, the maximum of such files")
        first, _, body = read_content(path).decode("utf-8").partition("\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not a text file; import it again with --force") from error
    try:
        header = ExternalHeader.model_validate_json(first)
        if header.digest != content_digest(body.encode()):
            raise InputError(f"{path}: was altered; import it again with --force")
        lines = body.removesuffix("\n").split("\n") if body else []
        if len(lines) > MAX_RUNS:
            raise InputError(f"{path}: more than {MAX_RUNS} runs")
        runs = [ExternalRun.model_validate_json(line) for line in lines]
    except ValidationError as error:
        raise InputError(
            f"{path}: not a file of an import ({first_problem(error)}); "
            "import it again with --force"
        ) from error
    if header.name != path.stem:
        raise InputError(f"{path}: is named {header.name!r} inside; rename the file back")
    if len({run.place for run in runs}) < len(runs):
        raise InputError(f"{path}: two runs have the same place; import it again with --force")
    return header, runs


def with_references(results: ImportedResults, suite: SuiteCard) -> ImportedResults:
    """Adds a suite's references to runs, which makes their scores comparable with own ones.

    Returns:
        The same results; completed runs on the suite's environments that have a return, but
        neither a score nor references, get the suite's references, unless scores are shares of
        successful episodes there.
    """
    runs = [_with_references(run, suite) for run in results.runs]
    lacking = sorted(
        {
            run.env
            for run in runs
            if run.status == "completed" and run.env is not None and not _has_scale(run)
        }
    )
    note = f"suite {suite.name} has no references of {', '.join(lacking)[:1000]}"
    return replace(results, runs=runs, notes=[*results.notes, *([note] if lacking else [])])


def _with_references(run: ExternalRun, suite: SuiteCard) -> ExternalRun:
    card = suite.environments.get(run.env or "")
    if run.status != "completed" or _has_scale(run) or card is None or card.scale is None:
        return run
    if card.scale.score_one == "success":  # a return says nothing of success
        return run
    return run.model_copy(
        update={
            "reference_random": card.scale.random,
            "reference_expert": card.scale.one,
            "reference_version": f"{suite.name} {suite.version}",
        }
    )


def _has_scale(run: ExternalRun) -> bool:
    given = (run.reference_random, run.reference_expert)
    return run.score is not None or None not in given


_MAX_NAME = 1000


def parse_json(content: bytes, where: str) -> Any:
    """Parses JSON into plain values; never creates objects of types that it names.

    Raises:
        InputError: The content is not JSON, or nested too deeply.
    """
    try:
        return from_json(content)
    except ValueError as error:
        raise InputError(f"{where}: is no JSON ({one_line(error)})") from error


def content_digest(content: bytes) -> str:
    """Returns the SHA-256 as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def visible(name: str) -> str:
    """Returns a name as one line of at most 1000 characters; different names stay different."""
    line = name if name.isprintable() else name.encode("unicode_escape").decode("ascii")
    if len(line) <= _MAX_NAME:
        return line
    return f"{line[: _MAX_NAME - 20]}…{content_digest(line.encode())[:12]}"
