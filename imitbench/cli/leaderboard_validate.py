"""`imitbench leaderboard validate`: whether published results are what they say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options

if TYPE_CHECKING:
    from imitbench.published.findings import Finding
    from imitbench.published.validation import Validation

Submission = Annotated[
    Path, typer.Argument(metavar="SUBMISSION", help="Folder of published results.")
]
_MAX_TOLD = 20


def validate_submission(
    submission: Submission, json: options.Json = False, quiet: options.Quiet = False
) -> None:
    """Check a submission: digests, specifications, scores, seeds.

    Makes all checks and tells all that they find. Exits with 1 if one fails, and with 2 if the
    folder holds no published results. What cannot be known from the files, `imitbench leaderboard
    verify` tries.

    Example: imitbench leaderboard validate results/theirs
    """
    from imitbench.cli.output import print_json
    from imitbench.published.validation import validate

    validation = validate(submission)
    if json:
        print_json(_document(submission, validation))
    else:
        _print(submission, validation, quiet=quiet)
    if not validation.valid:
        raise typer.Exit(1)


def _document(submission: Path, validation: Validation) -> dict[str, Any]:
    from imitbench.published.findings import CHECKS, MEANINGS

    manifest = validation.submission.manifest
    return {
        "submission": str(submission),
        "valid": validation.valid,
        "digest": manifest.own_digest if manifest else None,
        "runs": len(validation.submission.runs),
        "checks": [
            {"check": check, "ok": not validation.of_check(check), "meaning": MEANINGS[check]}
            for check in CHECKS
        ],
        "problems": [vars(each) for each in validation.problems],
        "told": [vars(each) for each in validation.told],
    }


def _print(submission: Path, validation: Validation, *, quiet: bool) -> None:
    from imitbench.cli.output import count, note, print_table
    from imitbench.published.findings import CHECKS, MEANINGS

    def verdict(problems: list[Finding]) -> str:
        return f"FAILED ({len(problems)})" if problems else "ok"

    print_table(
        ["check", "verdict", "makes sure that"],
        [[check, verdict(validation.of_check(check)), MEANINGS[check]] for check in CHECKS],
    )
    for check in validation.failed:
        typer.echo("")
        problems = validation.of_check(check)
        for each in problems[:_MAX_TOLD]:
            typer.echo(f"{check}: {each}")
        if len(problems) > _MAX_TOLD:
            typer.echo(f"{check}: … and {len(problems) - _MAX_TOLD} more; --json names all")
    told = () if quiet else validation.told
    for each in told[:_MAX_TOLD]:
        note(f"note: {each}")
    if len(told) > _MAX_TOLD:
        note(f"… and {len(told) - _MAX_TOLD} more notes; --json names all")
    runs = count(len(validation.submission.runs), "run")
    if validation.valid:
        typer.echo(f"\n{submission}: valid, {runs}")
    else:
        number = count(len(validation.problems), "problem")
        typer.echo(f"\n{submission}: NOT valid, {number} in {runs}")
