"""Prepares a repository of preferences that `imitbench label export` wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.data.dataset_card import dataset_info
from imitbench.data.preference_table import read_preferences
from imitbench.errors import InputError
from imitbench.hub.publication import TAG, Publication, add_licence, choose_files, left_out_note
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.untrusted import gate
from imitbench.version import __version__

_DATA = "data/train-*.parquet"
# Readers load the whole folder, so files of an earlier push must be removed.
_OWNED = ("data/*.parquet",)


@contextmanager
def staged_preferences(
    folder: Path, repo: str, *, licence: str | None = None
) -> Iterator[Publication]:
    """Prepares the content of a repository of preferences, without changing the folder.

    Validates every row first.

    Args:
        folder: Folder of an export, with its card.
        repo: Name of the repository, `owner/name`.
        licence: The hub's identifier of a licence; that on the card when `None`.

    Yields:
        The publication, whose files exist only within the context.

    Raises:
        InputError: There are no such files, a row is invalid, or a file is a link.
    """
    files, rest = choose_files(folder, [_DATA, "LICENSE", CARD_FILE])
    data = [path for name, path in files.items() if name.startswith("data/")]
    if not data or CARD_FILE not in files:
        raise InputError(
            f"{folder}: has no {_DATA} with {CARD_FILE}; write them with imitbench label export"
        )
    rows = gate.checked(lambda: [row for path in data for row in read_preferences(path)], folder)
    notes = left_out_note(rest)
    named = {answer.annotator for row in rows for answer in row.answers}
    if any(not name.startswith("annotator") for name in named):
        notes.append("has names of annotators: personal data; export without --names")
    card = RepoCard.read(files[CARD_FILE])
    card.metadata["dataset_info"] = dataset_info(data)
    card.add_tags("preferences", TAG)
    add_licence(card, licence, notes)
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        files[CARD_FILE] = Path(scratch) / CARD_FILE
        files[CARD_FILE].write_text(card.render(), encoding="utf-8")
        yield Publication(
            kind="dataset",
            repo=repo,
            message=f"{len(rows)} preferences, by imitbench {__version__}",
            files=files,
            owned=_OWNED,
            card=card,
            notes=notes,
        )
