"""Finds the results in a folder: one submission, several submissions, or own runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from imitbench.errors import InputError
from imitbench.published import verification
from imitbench.published.alarms import Alarm, find_alarms, find_copies
from imitbench.published.card_checks import is_earlier
from imitbench.published.disclosure import Disclosure, own_disclosures
from imitbench.published.findings import Check, Findings, failed_checks
from imitbench.published.results_folder import (
    MANIFEST_FILE,
    curve_text,
    episodes_text,
    races_of,
    read_runs,
    rescore,
)
from imitbench.published.submission import read_strictly
from imitbench.published.validation import Validation, check_runs
from imitbench.published.verification import (
    Verdict,
    Verification,
    check_verification,
    read_verifications,
)
from imitbench.records.published import PublishedRun
from imitbench.store.external_results import ExternalHeader, ExternalRun, read_external
from imitbench.store.races import RegisteredRace
from imitbench.store.scan import EXTERNAL_FOLDER, EXTERNAL_SUFFIX, run_directories
from imitbench.untrusted import gate


@dataclass(frozen=True)
class ResultsSource:
    """Results of one submitter.

    Attributes:
        name: Name of the submitter, from the folder; empty for own runs.
        runs: Completed and failed runs.
        digest: Digest in the manifest; `None` for own runs.
        failed: Checks that the runs do not pass, such as that of budgets. Leaderboards show such
            runs with a mark; runs that contradict themselves are not read.
        races: Registered races of these runs.
        alarms: Signs of invented results, or of copies among the results that were read together.
        verifications: Records of runs that were trained again, which fit these results, and those
            of the results that they supersede.
        supersedes: Digest of the results whose runs these are, with newer references.
        superseded_by: Name of results that have these runs, with newer references; may be empty.
        disclosures: Statements of how hyper-parameters were chosen.
    """

    name: str
    runs: tuple[PublishedRun, ...]
    digest: str | None = None
    failed: tuple[Check, ...] = ()
    races: tuple[RegisteredRace, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    verifications: tuple[Verification, ...] = ()
    supersedes: str | None = None
    superseded_by: str = ""
    disclosures: tuple[Disclosure, ...] = ()

    @property
    def verdicts(self) -> dict[str, tuple[Verdict, ...]]:
        """Outcomes of the runs that were trained again, by run id."""
        found: dict[str, tuple[Verdict, ...]] = {}
        for record in self.verifications:
            for run in record.runs:
                found[run.run_id] = (*found.get(run.run_id, ()), run.verdict)
        return found

    @property
    def refuted(self) -> bool:
        """Whether a run differed when it was trained again."""
        return any(record.refutes for record in self.verifications)

    @property
    def sound(self) -> bool:
        """Whether nothing speaks against ranking its runs."""
        return not (self.failed or self.refuted or self.superseded_by)


@dataclass(frozen=True)
class ExternalResults:
    """Imported results of another tool."""

    header: ExternalHeader
    runs: tuple[ExternalRun, ...]


@dataclass(frozen=True)
class LoadedResults:
    """Results in a folder.

    Attributes:
        kind: Detected kind of the folder, as text.
        sources: Results by submitter, in the order of their names.
        external: Imports, in the order of their labels.
        notes: Messages about skipped folders and results.
    """

    kind: str
    sources: tuple[ResultsSource, ...]
    external: tuple[ExternalResults, ...] = ()
    notes: tuple[str, ...] = ()


def find_results(
    *folders: Path, external: bool = False, verifications: Sequence[Path] | None = None
) -> LoadedResults:
    """Reads the results in folders.

    Args:
        *folders: Each has published results (it has a manifest), is a folder of such folders, or a
            results folder of own runs.
        external: Whether to read the imports inside or next to it, too.
        verifications: Folders of records of verifications; `None` for those inside or next to the
            folders of submissions.

    Raises:
        InputError: One is none of these, published results do not pass their checks, or two
            submissions have the same name and different content; or a record of a verification
            is malformed, or contradicts the submission that it is about.
    """
    found = [_find_results(folder) for folder in folders]
    notes = [note for results in found for note in results.notes]
    sources = _different([source for results in found for source in results.sources], notes)
    copies = find_copies({source.name: source.runs for source in sources if source.name})
    sources = [replace(one, alarms=(*one.alarms, *copies.get(one.name, ()))) for one in sources]
    locations = verification_folders(folders) if verifications is None else verifications
    sources = link_superseded(_verified(sources, locations, notes), notes)
    notes += [
        f"{source.name}: does not pass the checks {', '.join(source.failed)}; "
        "`imitbench leaderboard validate` shows the problems"
        for source in sources
        if source.failed
    ]
    notes += [f"warning: {source.name}: {alarm}" for source in sources for alarm in source.alarms]
    imports: dict[str, ExternalResults] = {}
    for folder in folders if external else ():
        read = read_imports(folder)
        if not read:
            location = folder / EXTERNAL_FOLDER
            notes.append(f"there are no imported results in {location} or next to it")
        imports |= {
            imported.header.name: imported
            for imported in read
            if imported.header.name not in imports
        }
    kind = ", ".join(results.kind for results in found)
    return LoadedResults(kind, tuple(sources), tuple(imports.values()), tuple(notes))


def _find_results(folder: Path) -> LoadedResults:
    if folder.is_file():
        raise InputError(
            f"--results {folder}: is a file; name the folder of the results that it was made from"
        )
    if not folder.is_dir():
        raise InputError(f"--results {folder}: no such folder; check the path")
    notes: list[str] = []
    submissions = submission_folders(folder)
    if submissions:
        alone = submissions == [folder]
        several = f"{len(submissions)} submission{'s' * (len(submissions) > 1)}"
        kind = "published results" if alone else several
        sources = [read_source(path, with_alarms=True) for path in submissions]
        others = {p.name for p in folder.iterdir() if p.is_dir() and p.name[0] not in "._"}
        others -= {EXTERNAL_FOLDER, verification.FOLDER, *(path.name for path in submissions)}
        if not alone:
            notes += [
                f"skipped: {folder / other}: has no {MANIFEST_FILE}" for other in sorted(others)
            ]
    elif next(run_directories(folder), None) is not None:
        kind = "a results folder of own runs"
        own = read_runs(folder)
        races = tuple(races_of(folder, own.runs))
        stated = tuple(own_disclosures(folder, own.runs))
        sources = [ResultsSource("", tuple(own.runs), races=races, disclosures=stated)]
        notes += own.left_out
    else:
        raise InputError(
            f"--results {folder}: holds neither published results ({MANIFEST_FILE}), nor folders "
            "of these, nor runs; run `imitbench run` or `imitbench results export` first"
        )
    return LoadedResults(kind, tuple(sources), (), tuple(notes))


def submission_folders(folder: Path) -> list[Path]:
    """Returns the folders of published results that a folder is or has, in the order of names.

    Hidden folders are left out: exports are written in some, and a killed one stays.
    """
    if (folder / MANIFEST_FILE).exists():
        return [folder]
    found = (path.parent for path in folder.glob(f"*/{MANIFEST_FILE}"))
    return sorted(path for path in found if not path.name.startswith("."))


def read_source(folder: Path, *, with_alarms: bool = False) -> ResultsSource:
    """Reads and checks a folder of published results.

    Args:
        folder: It.
        with_alarms: Whether to look for signs of invented results, which takes a third of the time.

    Raises:
        InputError: The folder has no published results, or they contradict themselves.
    """
    submission = read_strictly(folder)
    findings = Findings()
    raced = check_runs(submission, findings)
    alarms = tuple(find_alarms(submission.published, raced)) if with_alarms else ()
    failed = tuple(failed_checks(findings.problems))
    return ResultsSource(
        folder.resolve().name,
        tuple(submission.published),
        submission.digest,
        failed,
        tuple(submission.races),
        alarms,
        supersedes=submission.manifest.supersedes if submission.manifest else None,
        disclosures=tuple(submission.disclosures),
    )


def compare_with(validation: Validation, folders: Sequence[Path]) -> Validation:
    """Looks for runs of a submission that other results have as well.

    Args:
        validation: Its validation.
        folders: Published results, or folders of them. The submission itself may be among them.

    Returns:
        The validation, with an alarm for each submission that shares runs.

    Raises:
        InputError: One of the folders has no results, or they contradict themselves.
    """
    if not folders:
        return validation
    own, manifest = validation.submission.folder.resolve().name, validation.submission.manifest
    runs = {own: validation.submission.published}
    for source in find_results(*folders, verifications=()).sources:
        if manifest is None or source.digest is None or source.digest != manifest.digest:
            # Two folders may have the same name.
            name = source.name if source.name != own else f"the other {own}"
            runs[name or "own runs"] = list(source.runs)
    copies = find_copies(runs, only=[own]).get(own, [])
    return replace(validation, alarms=(*validation.alarms, *copies))


def _different(sources: list[ResultsSource], notes: list[str]) -> list[ResultsSource]:
    """Returns the sources without duplicates, and notes the skipped ones.

    Raises:
        InputError: Two have the same name.
    """
    seen: dict[str, str] = {}
    kept: dict[str, ResultsSource] = {}
    for source in sources:
        if source.digest is not None and source.digest in seen:
            notes.append(f"skipped: {source.name}: the same results as {seen[source.digest]}")
            continue
        if source.digest is not None:
            seen[source.digest] = source.name
        if source.name in kept:
            name = source.name or "own runs"
            raise InputError(
                f"--results: two folders hold {name}; name one of them, or rename a folder"
            )
        kept[source.name] = source
    return list(kept.values())


def verification_folders(folders: Sequence[Path]) -> list[Path]:
    """Returns folders of records of verifications: inside or next to folders of submissions.

    A record inside a submission would be the submitter's own.
    """
    found: dict[Path, Path] = {}
    for folder in folders:
        parent = folder.resolve().parent
        alone = (folder / MANIFEST_FILE).exists()
        for location in (parent, *(() if alone else (folder,))):
            if (location / verification.FOLDER).is_dir():
                found.setdefault((location / verification.FOLDER).resolve(), location)
    return [location / verification.FOLDER for location in found.values()]


def verified_digests(locations: Sequence[Path]) -> frozenset[str]:
    """Returns the digests of the results that records of verifications are about.

    Raises:
        InputError: A record is malformed, or was changed.
    """
    read = (gate.checked(partial(read_verifications, location), location) for location in locations)
    return frozenset(record.submission for records in read for record in records)


def _verified(
    sources: Sequence[ResultsSource], locations: Sequence[Path], notes: list[str]
) -> list[ResultsSource]:
    """Returns the sources with the records that are about them; notes records of other results."""
    records: dict[str, Verification] = {}
    for location in locations:
        if not location.is_dir():
            raise InputError(f"--verifications {location}: no such folder; check the path")
        read = gate.checked(partial(read_verifications, location), location)
        records |= {record.digest: record for record in read}
    known = {source.digest: source for source in sources if source.digest is not None}
    by_source: dict[str, list[Verification]] = {}
    strange = 0
    for record in records.values():
        about = known.get(record.submission)
        if about is None:
            strange += 1
            continue
        check_verification(record, record.file_name, record.submission, about.runs)
        by_source.setdefault(record.submission, []).append(record)
    if strange:
        notes.append(
            f"{strange} record{'s' * (strange > 1)} of verifications left out: about results that "
            "are not shown, or that have changed since"
        )
    return [
        replace(source, verifications=tuple(by_source.get(source.digest or "", ())))
        for source in sources
    ]


def link_superseded(sources: Sequence[ResultsSource], notes: list[str]) -> list[ResultsSource]:
    """Returns sources with the names of those that supersede them, and notes refused claims.

    Anybody can claim to supersede the results of others, and what supersedes takes their rank. So
    the claim counts only for what `rescore` makes of them: the same outcomes on the scale of the
    cards of this package, which nobody can choose. Results that have this scale keep their rank.

    What was found of the earlier results when they were trained again holds for the later ones,
    too, because the runs are the same. So results that were refuted do not rank again.
    """
    by_digest = {source.digest: source for source in sources if source.digest is not None}
    later: dict[str | None, str] = {}
    inherited: dict[str | None, tuple[Verification, ...]] = {}
    refused: list[tuple[ResultsSource, str]] = []
    for source in sources:
        for number, earlier in enumerate(_claimed(source, by_digest)):
            why_not = _why_not(source, earlier)
            if why_not is None:
                later[earlier.digest] = source.name
                records = inherited.get(source.digest, source.verifications)
                inherited[source.digest] = (*records, *earlier.verifications)
            elif number == 0:
                refused.append((source, f"does not supersede {earlier.name}, because {why_not}"))
    # The cards no longer have the references of results that were superseded in turn.
    notes += [f"{one.name}: {note}" for one, note in refused if one.digest not in later]
    return [
        replace(
            source,
            superseded_by=later.get(source.digest, ""),
            verifications=inherited.get(source.digest, source.verifications),
        )
        for source in sources
    ]


def _claimed(
    source: ResultsSource, by_digest: Mapping[str, ResultsSource]
) -> Iterator[ResultsSource]:
    """Yields the results that a source claims to supersede, those that these claim, and so on."""
    seen = {source.digest}
    digest = source.supersedes
    while digest is not None and digest in by_digest and digest not in seen:
        seen.add(digest)
        yield by_digest[digest]
        digest = by_digest[digest].supersedes


def _why_not(source: ResultsSource, earlier: ResultsSource) -> str | None:
    """Returns why a source does not supersede another one; `None` if it does."""
    if source.failed:
        return f"it does not pass the checks {', '.join(source.failed)}"
    if source.refuted:
        return "a run of it differed when it was trained again"
    current = f"the references of {earlier.name} are not older than those of this package"
    try:
        due = rescore(earlier.runs, earlier.name)
    except InputError:
        return current
    for run, scored in zip(earlier.runs, due, strict=True):
        one, two = run.outcome.references, scored.outcome.references
        if one != two and not is_earlier(one.version, two.version):
            return current
    if _outcomes(due).items() <= _outcomes(source.runs).items():
        return None
    return "it lacks runs of it, or has other outcomes, or references that are not this package's"


def _outcomes(runs: Iterable[PublishedRun]) -> dict[str, tuple[object, ...]]:
    """Returns values by specification that are the same for the same outcome on the same scale."""
    found: dict[str, tuple[object, ...]] = {}
    for run in runs:
        scale = run.outcome.references
        found[run.spec.digest] = (
            (scale.version, scale.random, scale.expert, scale.score_one),
            run.outcome.model_dump_json(exclude={"references"}),
            episodes_text(run.episodes) if run.episodes is not None else "",
            curve_text(run.curve) if run.curve is not None else "",
        )
    return found


def read_imports(folder: Path) -> tuple[ExternalResults, ...]:
    """Returns the imports inside a folder; without any, those next to it.

    Raises:
        InputError: A file of imported results was altered or is malformed.
    """
    for location in (folder / EXTERNAL_FOLDER, folder.resolve().parent / EXTERNAL_FOLDER):
        found = sorted(p for p in location.glob(f"*{EXTERNAL_SUFFIX}") if p.name[0] != ".")
        if found:
            read = (read_external(path) for path in found)
            return tuple(ExternalResults(header, tuple(runs)) for header, runs in read)
    return ()
