"""A publication: an explicit list of checked files, and a card."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from imitbench.errors import InputError
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.util import hub_upload
from imitbench.util.hub_client import RepoKind, silent
from imitbench.util.hub_errors import Notify
from imitbench.util.hub_upload import UploadResult
from imitbench.version import __version__

TAG = "imitbench"
"""Tag on the card of every pushed repository."""

_MAX_TEXT_BYTES = 32 * 2**20
_TEXTS = {".json", ".jsonl", ".csv", ".yml", ".yaml", ".md", ".txt", ""}
# Access tokens of the hub and of code hosts.
_TOKEN = re.compile(rb"\b(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16})\b")


@dataclass(frozen=True)
class Publication:
    """The intended content of a repository.

    Attributes:
        kind: `model` or `dataset`.
        repo: Name of the repository, `owner/name`.
        message: Default message of the commit.
        files: All files: local paths by path in the repository.
        owned: Patterns of files that earlier pushes may have left.
        card: Card of the repository.
        notes: Messages for the user.
    """

    kind: RepoKind
    repo: str
    message: str
    files: dict[str, Path]
    owned: tuple[str, ...]
    card: RepoCard
    notes: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Address of the repository's page."""
        return hub_upload.repository_url(self.kind, self.repo)


@contextmanager
def staged(
    kind: RepoKind,
    repo: str,
    content: str,
    files: dict[str, Path],
    card: RepoCard,
    notes: list[str],
    owned: tuple[str, ...],
) -> Iterator[Publication]:
    """Yields a publication of files with a card, which exists only within the context."""
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        written = Path(scratch) / CARD_FILE
        written.write_text(card.render(), encoding="utf-8")
        message = f"{content}, by imitbench {__version__}"
        yield Publication(kind, repo, message, {**files, CARD_FILE: written}, owned, card, notes)


def push(
    publication: Publication,
    *,
    message: str | None = None,
    private: bool = False,
    notify: Notify = silent,
) -> UploadResult:
    """Uploads a publication, see `imitbench.util.hub_upload.upload_files`.

    Raises:
        InputError: The upload fails, or a file seems to contain an access token.
    """
    check_for_tokens(publication.files.values())
    return hub_upload.upload_files(
        publication.repo,
        publication.files,
        kind=publication.kind,
        message=message or publication.message,
        private=private,
        owned=publication.owned,
        tag=TAG,
        notify=notify,
    )


def choose_files(folder: Path, patterns: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    """Selects files of a folder by shell-style patterns of their paths.

    Args:
        folder: May be reached through links, but must not contain any.
        patterns: Patterns of relative paths. Hidden files and folders never match.

    Returns:
        Files by relative path, and the relative paths of the rest, with skipped folders as one
        entry.

    Raises:
        InputError: The folder is missing, or a selected file is a link or not a regular file.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; check the path")
    wanted = tuple(patterns)
    folders = {part for pattern in wanted for part in _folders_of(pattern)}
    chosen: dict[str, Path] = {}
    rest: list[str] = []

    def visit(inside: Path) -> None:
        for path in sorted(inside.iterdir()):
            name = path.relative_to(folder).as_posix()
            is_folder = path.is_dir()
            if path.name.startswith(".") or (
                not any(
                    fnmatchcase(name, pattern) for pattern in (folders if is_folder else wanted)
                )
            ):
                rest.append(f"{name}/" if is_folder else name)
                continue
            if path.is_symlink():
                raise InputError(
                    f"{path}: a link, which may lead anywhere; replace it by the file itself "
                    "(`pull --to DIR` copies files from the hub's cache)"
                )
            if is_folder:
                visit(path)
            elif not path.is_file():
                raise InputError(f"{path}: not a regular file; remove it")
            else:
                chosen[name] = path

    visit(folder)
    return chosen, rest


def check_for_tokens(files: Iterable[Path]) -> None:
    """Checks small text files for access tokens.

    Raises:
        InputError: A file seems to contain an access token.
    """
    for path in files:
        if path.suffix not in _TEXTS or path.stat().st_size > _MAX_TEXT_BYTES:
            continue
        if found := _TOKEN.search(path.read_bytes()):
            start = found[0][:6].decode("ascii")
            raise InputError(
                f"{path}: seems to contain an access token ({start}…); remove it, and revoke it "
                "if others have seen it"
            )


def left_out_note(rest: Iterable[str]) -> list[str]:
    """Returns a note on files that are not published, if there are any."""
    names = list(rest)
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"left out: {', '.join(names[:5])}{more}"]


def add_license(card: RepoCard, license: str | None, notes: list[str]) -> None:
    """Writes a license to a card, or notes that it is missing.

    Args:
        card: Changed in place.
        license: The hub's identifier of a license, such as `mit`; that on the card when `None`.
        notes: Receives the note.
    """
    if license is not None:
        card.metadata["license"] = license
    elif "license" not in card.metadata:
        notes.append("no license: others may not use it; give --license, such as mit")


def _folders_of(pattern: str) -> list[str]:
    parts = pattern.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
