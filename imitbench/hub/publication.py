"""What is about to be published: an explicit list of files, each checked, and a card."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from imitbench.errors import InputError
from imitbench.hub.card import Card
from imitbench.util import hub_upload
from imitbench.util.hub_client import RepoKind, silent
from imitbench.util.hub_errors import Tell
from imitbench.util.hub_upload import Uploaded

TAG = "imitbench"
"""On the card of everything that is pushed."""

_MAX_TEXT_BYTES = 32 * 2**20
_TEXTS = {".json", ".jsonl", ".csv", ".yml", ".yaml", ".md", ".txt", ""}
# As the hub and code hosts make them; whoever has one acts in its owner's name.
_TOKEN = re.compile(rb"\b(?:hf_[A-Za-z0-9]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|AKIA[0-9A-Z]{16})\b")


@dataclass(frozen=True)
class Publication:
    """A repository as it is to be.

    Attributes:
        kind: Kind of the repository.
        repo: Its name, `owner/name`.
        message: Message of the commit, unless another is given.
        files: Files on this machine by path in the repository, all of them.
        owned: Patterns of files that earlier pushes of the kind may have put there.
        card: Its card.
        notes: What the person should know.
    """

    kind: RepoKind
    repo: str
    message: str
    files: dict[str, Path]
    owned: tuple[str, ...]
    card: Card
    notes: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Address of the repository's page."""
        return hub_upload.repository_url(self.kind, self.repo)


def push(
    publication: Publication,
    *,
    message: str | None = None,
    private: bool = False,
    tell: Tell = silent,
) -> Uploaded:
    """Uploads it, see `imitbench.util.hub_upload.upload`.

    Raises:
        InputError: It cannot be uploaded; a file holds what looks like an access token.
    """
    check_for_tokens(publication.files.values())
    return hub_upload.upload(
        publication.repo,
        publication.files,
        kind=publication.kind,
        message=message or publication.message,
        private=private,
        owned=publication.owned,
        tag=TAG,
        tell=tell,
    )


def choose_files(folder: Path, patterns: Iterable[str]) -> tuple[dict[str, Path], list[str]]:
    """Picks files out of a folder by shell-style patterns of their paths.

    Args:
        folder: Folder; may be reached through links, but nothing in it may be one.
        patterns: What to take. Dotfiles and what is in dot folders never match.

    Returns:
        Files by path, and the paths of the rest, of a folder only the folder's.

    Raises:
        InputError: No folder, or a link among the files to take.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    wanted = tuple(patterns)
    folders = {part for pattern in wanted for part in _folders_of(pattern)}
    chosen: dict[str, Path] = {}
    rest: list[str] = []

    def visit(inside: Path) -> None:
        for path in sorted(inside.iterdir()):
            name = path.relative_to(folder).as_posix()
            is_folder = path.is_dir()
            if path.name.startswith(".") or (
                not any(fnmatchcase(name, each) for each in (folders if is_folder else wanted))
            ):
                rest.append(f"{name}/" if is_folder else name)
                continue
            if path.is_symlink():
                raise InputError(
                    f"{path}: a link, which may lead anywhere; put the file itself there "
                    "(`pull --to DIR` copies out of the hub's cache)"
                )
            if is_folder:
                visit(path)
            elif not path.is_file():
                raise InputError(f"{path}: no ordinary file; remove it")
            else:
                chosen[name] = path

    visit(folder)
    return chosen, rest


def check_for_tokens(files: Iterable[Path]) -> None:
    """Looks for access tokens in small files of text.

    Raises:
        InputError: A file holds what looks like one.
    """
    for path in files:
        if path.suffix not in _TEXTS or path.stat().st_size > _MAX_TEXT_BYTES:
            continue
        if found := _TOKEN.search(path.read_bytes()):
            start = found[0][:6].decode("ascii")
            raise InputError(
                f"{path}: holds what looks like an access token ({start}…); remove it, and "
                "revoke it if others have seen it"
            )


def left_out_note(rest: Iterable[str]) -> list[str]:
    """A note on files that are not published, if there are any."""
    names = list(rest)
    if not names:
        return []
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return [f"left out: {', '.join(names[:5])}{more}"]


def state_licence(card: Card, licence: str | None, notes: list[str]) -> None:
    """Writes a licence onto a card, or notes that there is none.

    Args:
        card: The card.
        licence: The hub's name of a licence, such as `mit`; as on the card when `None`.
        notes: Where to note it.
    """
    if licence is not None:
        card.metadata["license"] = licence
    elif "license" not in card.metadata:
        notes.append("no licence: others may not use it; give --license, such as mit")


def _folders_of(pattern: str) -> list[str]:
    parts = pattern.split("/")[:-1]
    return ["/".join(parts[: depth + 1]) for depth in range(len(parts))]
