"""`imitbench experts push`, and `push` of `demos`, `label` and `results`: upload to the hub."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import (
    make_notifier,
    note,
    print_json,
    print_table,
    print_text,
    size_text,
    typed_command,
)
from imitbench.errors import InputError
from imitbench.records.selection import Selection
from imitbench.util.hub_errors import UnreachableError
from imitbench.util.hub_upload import UploadResult, check_repository_name
from imitbench.util.torch_startup import start_torch

if TYPE_CHECKING:
    from imitbench.hub.publication import Publication

_SHOWN = 40

Repo = Annotated[str, argument("REPO", "Repository, owner/name; created if missing.")]
Yes = Annotated[bool, option("--yes", "Upload; without --yes, only show the files.")]
Private = Annotated[bool, option("--private", "Make a new repository private.")]
Message = Annotated[str | None, option("--message", "Message of the commit.", "TEXT")]
License = Annotated[
    str | None, option("--license", "License id of the hub, e.g. mit [from the card].", "ID")
]
EnvId = Annotated[str | None, option("--env", "Environment id, if the files do not name it.", "ID")]


@dataclass(frozen=True)
class _PushRequest:
    """Options that all push commands share.

    Raises:
        InputError: The name of the repository is malformed, or the message is empty.
    """

    repo: str
    yes: bool
    private: bool
    message: str | None
    json: bool
    quiet: bool

    def __post_init__(self) -> None:
        check_repository_name(self.repo)
        if self.message is not None and not self.message.strip():
            raise InputError("--message: is empty")


def push_experts(
    folder: Annotated[Path, argument("DIR", "Folder with the expert.")],
    repo: Repo,
    yes: Yes = False,
    private: Private = False,
    message: Message = None,
    license: License = None,
    env: EnvId = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Publish an expert: its pickle-free files, and a zip that Stable-Baselines3 loads.

    Shows the files to upload, and with --yes uploads them in one commit. The folder itself is
    not changed. Needs HF_TOKEN, or `hf auth login`.

    Example: imitbench experts push experts/ppo-Pendulum-v1 me/ppo-Pendulum-v1 --yes
    """
    request = _PushRequest(repo, yes, private, message, json, quiet)

    from imitbench.hub.expert_publication import staged_expert

    start_torch()
    _push(staged_expert(folder, repo, env_id=env, license=license), request)


def push_demos(
    folder: Annotated[Path, argument("DIR", "Folder with the set.")],
    repo: Repo,
    yes: Yes = False,
    private: Private = False,
    message: Message = None,
    license: License = None,
    env: EnvId = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Publish demonstrations: parquet files and a card with their schema.

    Checks every row first. Shows the files to upload, and with --yes uploads them in one commit.
    Needs HF_TOKEN, or `hf auth login`.

    Example: imitbench demos push demos/ppo-Pendulum-v1 me/ppo-Pendulum-v1 --license mit --yes
    """
    request = _PushRequest(repo, yes, private, message, json, quiet)

    from imitbench.hub.dataset_publication import staged_demos

    _push(staged_demos(folder, repo, env_id=env, license=license), request)


def push_preferences(
    folder: Annotated[Path, argument("DIR", "Folder that label export wrote.")],
    repo: Repo,
    yes: Yes = False,
    private: Private = False,
    message: Message = None,
    license: License = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Publish preferences: the exported data set with its card.

    Checks every row first. Shows the files to upload, and with --yes uploads them in one commit.
    Needs HF_TOKEN, or `hf auth login`.

    Example: imitbench label push preferences me/pendulum-preferences --license cc-by-4.0 --yes
    """
    request = _PushRequest(repo, yes, private, message, json, quiet)

    from imitbench.hub.dataset_publication import staged_preferences

    _push(staged_preferences(folder, repo, license=license), request)


def push_results(
    repo: Repo,
    out: options.Out = options.DEFAULT_OUT,
    suite: options.Suites = [],  # noqa: B006 (typer copies it)
    with_policies: Annotated[
        bool, option("--with-policies", "Also publish the trained policies.")
    ] = False,
    without_curves: options.WithoutCurves = False,
    yes: Yes = False,
    private: Private = False,
    message: Message = None,
    license: License = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Publish results: runs with their specifications, episodes and learning curves, and a report.

    Replaces the files of an earlier push of results. Excludes names of machines and tracebacks.
    Shows the files to upload, and with --yes uploads them in one commit. Needs HF_TOKEN, or `hf
    auth login`.

    Example: imitbench results push --out runs me/my-results --license cc-by-4.0 --yes
    """
    request = _PushRequest(repo, yes, private, message, json, quiet)

    from imitbench.hub.dataset_publication import staged_results
    from imitbench.published.results_folder import read_runs
    from imitbench.report.build import build
    from imitbench.report.markdown import render_markdown

    runs = read_runs(out, suite=suite)
    report = render_markdown(build([out], notify=note, selection=Selection.of(suite)))
    staged = staged_results(
        out,
        runs,
        repo,
        report=report,
        command=typed_command(),
        license=license,
        with_policies=with_policies,
        with_curves=not without_curves,
    )
    _push(staged, request)


def _push(staged: AbstractContextManager[Publication], request: _PushRequest) -> None:
    from imitbench.hub.publication import check_for_tokens, push

    notify = make_notifier(quiet=request.quiet)
    with staged as publication:
        check_for_tokens(publication.files.values())
        if not request.json:
            _show(publication)
        for text in publication.notes:
            note(f"note: {text}")
        uploaded = None
        if request.yes:
            try:
                uploaded = push(
                    publication, message=request.message, private=request.private, notify=notify
                )
            except UnreachableError as error:
                raise InputError(
                    f"{error}; no local file has changed: the same command continues, and does not "
                    "upload complete files again"
                ) from error
        _print_outcome(publication, uploaded, request)


def _show(publication: Publication) -> None:
    rows = [[path, size_text(file.stat().st_size)] for path, file in _listed(publication)]
    print_table(["file", "size"], rows[:_SHOWN])
    if len(rows) > _SHOWN:
        print_text(f"and {len(rows) - _SHOWN} more files; --json lists all")
    total = sum(file.stat().st_size for file in publication.files.values())
    print_text(f"\n{publication.kind} {publication.url}: {len(rows)} files, {size_text(total)}")
    typer.echo("\nThe card says:\n" + publication.card.metadata_text().rstrip())


def _print_outcome(
    publication: Publication, uploaded: UploadResult | None, request: _PushRequest
) -> None:
    if request.json:
        print_json(_as_json(publication, uploaded, request))
    elif uploaded is not None:
        typer.echo(f"\n{uploaded.url}")
    if uploaded is None:
        note("nothing was uploaded; add --yes to upload")
    elif not uploaded.changed:
        note("all files were there already")
    elif uploaded.removed:
        note(f"removed {len(uploaded.removed)} files of an earlier push")


def _as_json(
    publication: Publication, uploaded: UploadResult | None, request: _PushRequest
) -> dict[str, Any]:
    done = uploaded is not None
    return {
        "repo": publication.repo,
        "kind": publication.kind,
        "url": publication.url,
        "uploaded": done,
        "commit": uploaded.commit if uploaded else None,
        "commit_url": uploaded.url if uploaded else None,
        "created": uploaded.created if uploaded else None,
        "changed": uploaded.changed if uploaded else None,
        "removed": list(uploaded.removed) if uploaded else None,
        "private": request.private,
        "message": request.message or publication.message,
        "files": [
            {"path": path, "bytes": file.stat().st_size} for path, file in _listed(publication)
        ],
        "card": publication.card.metadata,
        "notes": publication.notes,
    }


def _listed(publication: Publication) -> list[tuple[str, Path]]:
    return sorted(publication.files.items())
