"""Prepares a repository of demonstrations: validated files, and a card with their schema."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from imitbench.data.conversion import ConversionSummary
from imitbench.data.dataset_card import dataset_card, dataset_info
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.parquet_source import ParquetSource
from imitbench.errors import InputError
from imitbench.hub.publication import TAG, Publication, add_licence, choose_files, left_out_note
from imitbench.hub.repo_card import CARD_FILE, RepoCard
from imitbench.untrusted import gate
from imitbench.util.files import digest_files
from imitbench.version import __version__

_DATA = "data/train-*.parquet"
# Readers load the whole folder, so files of an earlier push must be removed.
_OWNED = ("data/*.parquet",)


@contextmanager
def staged_demos(
    folder: Path, repo: str, *, env_id: str | None = None, licence: str | None = None
) -> Iterator[Publication]:
    """Prepares the content of a repository of demonstrations, without changing the folder.

    Validates every row first. Infos are copied as JSON text.

    Args:
        folder: Folder with `data/train-*.parquet`.
        repo: Name of the repository, `owner/name`.
        env_id: Gymnasium id for the card, if there is no card yet.
        licence: The hub's identifier of a licence; that on the card when `None`.

    Yields:
        The publication, whose files exist only within the context.

    Raises:
        InputError: There are no such files, a row is invalid, or a file is a link.
    """
    files, rest = choose_files(folder, [_DATA, "LICENSE", CARD_FILE])
    data = [path for name, path in files.items() if name.startswith("data/")]
    if not data:
        raise InputError(
            f"{folder}: has no files {_DATA}; convert the demonstrations with `imitbench demos "
            f"convert {folder} OUT`"
        )
    gate.try_reading(lambda: inspect_demonstrations(ParquetSource(folder)), folder)
    source = ParquetSource(folder)
    found = inspect_demonstrations(source)
    if found.problems:
        more = f" (and {len(found.problems) - 1} more problems)" if found.problems[1:] else ""
        raise InputError(
            f"{folder}: {found.problems[0]}{more}; `imitbench demos validate {folder}` shows all"
        )
    notes = [*left_out_note(rest), *found.notes]
    written = files.get(CARD_FILE)
    card = RepoCard.read(written) if written else _new_card(folder, source, data, env_id)
    card.metadata["dataset_info"] = dataset_info(data)
    card.metadata.setdefault("configs", [{"config_name": "default", "data_files": _DATA}])
    card.metadata.setdefault("task_categories", ["reinforcement-learning"])
    card.add_tags("imitation-learning", TAG)
    add_licence(card, licence, notes)
    with tempfile.TemporaryDirectory(prefix="imitbench-push-") as scratch:
        files[CARD_FILE] = Path(scratch) / CARD_FILE
        files[CARD_FILE].write_text(card.render(), encoding="utf-8")
        yield Publication(
            kind="dataset",
            repo=repo,
            message=f"{found.rows} demonstrations, by imitbench {__version__}",
            files=files,
            owned=_OWNED,
            card=card,
            notes=notes,
        )


def _new_card(
    folder: Path, source: ParquetSource, data: list[Path], env_id: str | None
) -> RepoCard:
    summary = ConversionSummary(folder.resolve().name, source.form, env_id)
    for chunk in source.chunks(with_infos=False):
        for row in chunk.rows:
            if not summary.rows:
                summary.observation, summary.action = (
                    f"{values.dtype}{list(values.shape[1:])}" for values in (row.obs, row.acts)
                )
            summary.add(row)
    summary.digest = digest_files(folder, data)
    return RepoCard.parse(dataset_card(summary.to_json()))
