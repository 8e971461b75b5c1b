"""`imitbench leaderboard intake` and `init`: takes in submissions without people."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from imitbench.cli import completion, options
from imitbench.cli.leaderboard_verify import (
    By,
    Jobs,
    PublicSeed,
    Runs,
    SubmissionFolder,
    check_name,
    make_record,
    train_again,
)
from imitbench.cli.options import argument, option
from imitbench.cli.output import count, note, print_json, print_text, typed_command
from imitbench.errors import InputError
from imitbench.util import files
from imitbench.version import __version__

if TYPE_CHECKING:
    from imitbench.published.validation import Validation
    from imitbench.report.leaderboard.intake import Intake

_SITE, _COMMENT, _OUTCOME = "site", "comment.md", "outcome.json"
FORMAT = "imitbench-intake"


def take_in(
    folder: Annotated[
        Path,
        argument(
            "FOLDER",
            "A submission; or a folder of submissions, of which those without a record of a "
            "verification are taken in.",
        ),
    ],
    out: Annotated[
        Path, option("--out", "Folder for the outcome, replaced.", "DIR", file_okay=False)
    ] = Path("intake"),
    runs: Runs = 2,
    public_seed: PublicSeed = None,
    by: By = None,
    results: Annotated[
        list[str],
        option(
            "--results",
            "Results of the site [the folder that holds the submission]; repeatable.",
            "DIR",
            completion.results_locations,
        ),
    ] = [],  # noqa: B006 (typer copies it)
    jobs: Jobs = 1,
    title: Annotated[str, option("--title", "Title of the site.", "TEXT")] = "Leaderboard",
    replicates: options.Replicates = options.DEFAULT_REPLICATES,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Take in a submission: validate it, train some of its runs again, build the site.

    Writes to --out: `comment.md`, the outcome in Markdown; `outcome.json`, the same for programs;
    `verifications/`, the record that boards read; `site/`, the leaderboard with the submission.
    Without --public-seed, runs are drawn by random numbers of this machine, which nobody else can
    check. Nothing in a submission is imported or executed. Exits with 1 if the submission is not
    valid, if a run differs, or if no run can be trained here; with 2 if it holds no results.

    Example: imitbench leaderboard intake submissions/theirs --public-seed "beacon round 4711"
    """
    check_name(by)
    if public_seed is not None and not public_seed.strip():
        raise InputError("--public-seed: is empty")
    waiting, paths = _submissions(folder, results)
    for path in paths:
        if out.resolve() in (path.resolve(), *path.resolve().parents):
            raise InputError(f"--out {out}: contains the results; name another folder")
    files.check_new_folder(out, _check_old)
    found = [
        _examine(path, known, paths, runs, public_seed, by or "not stated", jobs, quiet=quiet)
        for path, known in waiting.items()
    ]
    notes = _write(out, found, paths, title=title.strip() or "Leaderboard", replicates=replicates)
    if json:
        print_json(
            {"out": str(out), "submissions": [submission.document() for submission in found]}
        )
    else:
        for submission in found:
            print_text(f"{submission.folder}: {submission.verdict}")
        if not found:
            print_text(f"{folder}: every submission has a record of a verification")
    if not quiet:
        for text in notes:
            note(text)
        note(f"{out / _COMMENT}: the outcome in words")
    if not all(submission.accepted for submission in found):
        raise typer.Exit(1)


def _submissions(
    folder: Path, results: Sequence[str]
) -> tuple[dict[Path, Validation | None], list[Path]]:
    """Returns the submissions to take in, validated if several are here, and the site's results."""
    from imitbench.published.opening import results_location
    from imitbench.published.results_folder import MANIFEST_FILE
    from imitbench.published.results_sources import (
        submission_folders,
        verification_folders,
        verified_digests,
    )
    from imitbench.published.submission import is_submission
    from imitbench.published.validation import validate

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; check the path")
    named = [results_location(name) for name in dict.fromkeys(results)]
    if (folder / MANIFEST_FILE).exists() or not submission_folders(folder):
        return {folder: None}, named or [folder.resolve().parent]
    done = verified_digests(verification_folders([folder]))
    waiting: dict[Path, Validation | None] = {}
    for path in submission_folders(folder):
        if not is_submission(path):
            raise InputError(f"{path}: has a {MANIFEST_FILE} that is not of published results")
        validation = validate(path)
        if validation.submission.digest not in done:
            waiting[path] = validation
    return waiting, named or [folder]


def _examine(
    folder: Path,
    validation: Validation | None,
    paths: Sequence[Path],
    runs: int,
    public_seed: str | None,
    by: str,
    jobs: int,
    *,
    quiet: bool,
) -> Intake:
    from imitbench.bench.provenance import now
    from imitbench.published.results_sources import compare_with, submission_folders
    from imitbench.published.validation import validate
    from imitbench.published.verification import public_draw
    from imitbench.report.leaderboard.intake import Intake

    validation = validation or validate(folder)
    if not validation.valid:
        return Intake(folder, validation, None)
    validation = compare_with(validation, [p for p in paths if len(submission_folders(p)) > 1])
    content = validation.submission
    if public_seed is None:
        public_seed = f"random numbers of {now()[:10]}: {secrets.token_hex(16)}"
    seed = public_draw(content.digest, public_seed)
    drawn, found = train_again(
        content.published, runs, seed=seed, jobs=jobs, keep=None, quiet=quiet
    )
    record = make_record(content, drawn, found, by=by, seed=seed, public_seed=public_seed)
    return Intake(folder, validation, record)


def _write(
    out: Path, found: Sequence[Intake], paths: Sequence[Path], *, title: str, replicates: int
) -> list[str]:
    """Writes the outcome, completely or not at all; returns notes on the site."""
    import json

    from imitbench.published.results_sources import find_results, verification_folders
    from imitbench.published.verification import FOLDER, write_verification
    from imitbench.report.leaderboard.board import build_board
    from imitbench.report.leaderboard.intake import render_comment
    from imitbench.report.leaderboard.site import write_site

    comment = render_comment(found) if found else "Nothing was submitted.\n"
    notes: list[str] = []
    with files.new_folder(out, _check_old) as draft:
        for submission in found:
            if submission.verification is not None:
                write_verification(submission.verification, draft / FOLDER)
        if all(submission.validation.valid for submission in found):
            new = [draft / FOLDER] if (draft / FOLDER).is_dir() else []
            results = find_results(*paths, verifications=[*verification_folders(paths), *new])
            notes += results.notes
            board = build_board(results, title=title, replicates=replicates)
            write_site(board, draft / _SITE, results=[])
        else:
            notes.append("no site was built, because a submission is not valid")
        (draft / _COMMENT).write_text(comment, encoding="utf-8")
        document = {
            "format": FORMAT,
            "submissions": [submission.document() for submission in found],
        }
        text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
        (draft / _OUTCOME).write_text(text, encoding="utf-8")
    return notes


def _check_old(out: Path) -> None:
    """Checks that only an earlier outcome would be replaced."""
    import json

    try:
        known = json.loads((out / _OUTCOME).read_bytes())["format"] == FORMAT
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        known = False
    if not known:
        raise InputError(
            f"--out {out}: is not empty, and not the outcome of an intake; name a new folder"
        )


def init_board(
    folder: Annotated[Path, argument("DIR", "Folder to create.", file_okay=False)],
) -> None:
    """Create a repository of submissions: README, folders, and workflows for GitHub.

    The workflows validate a pull request, train some of its runs again, post the outcome, and
    publish the site after the merge. Untrusted files never meet secrets or a writing token.

    Example: imitbench leaderboard init board
    """
    from imitbench.templates.board_repository import write_board_repository

    write_board_repository(folder)
    typer.echo(str(folder))
    note(f"next: read {folder / 'README.md'}, and push the folder as a new repository")


def rescore_submission(
    submission: SubmissionFolder,
    to: Annotated[Path, argument("NEW", "Folder to create.", file_okay=False)],
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Score published runs with the newest references, as a new version that names the old one.

    For suites whose references were measured again. Runs, episodes and specifications stay as they
    are. The old folder stays, too: boards show both, and link them.

    Example: imitbench leaderboard rescore submissions/mine submissions/mine-2
    """
    from imitbench.published.results_folder import export_results, rescore
    from imitbench.published.submission import read_strictly

    files.check_new_folder(to)
    found = read_strictly(submission)
    runs = rescore(found.published, str(submission))
    export_results(
        runs,
        to,
        version=__version__,
        command=typed_command(),
        supersedes=found.digest,
        disclosures=found.disclosures,
    )
    if json:
        print_json({"folder": str(to), "runs": len(runs), "supersedes": found.digest})
    elif not quiet:
        note(f"{to}: {count(len(runs), 'run')}, supersedes {submission}")
