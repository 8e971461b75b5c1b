"""A folder of recorded episodes, which is a valid data set after each of them.

Layout, that of the hub:

    data/train-00000.parquet   one kept episode, with an `EpisodeRecord` in the file's metadata
    README.md                  the card of all, written anew after each episode

An episode is kept when its file is on disk under its name. What has another name is the rest of a
process that was killed, and no part of the data set.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import BaseModel, ValidationError

from imitbench.data.arrow_table import trajectories_to_table
from imitbench.data.conversion import ConversionSummary
from imitbench.data.dataset_card import dataset_card
from imitbench.data.demonstrations import PARQUET_OPTIONS
from imitbench.data.infos import encode_infos
from imitbench.data.parquet_source import ParquetSource, opened_parquet
from imitbench.data.serialize import load_with_rewards
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.files import atomic_write_bytes, atomic_write_text, digest_files
from imitbench.util.local_page import LOCK_FILE, lock_folder
from imitbench.util.text_line import one_line

_METADATA = b"imitbench.recording"
_FILE = re.compile(r"train-(\d{5})\.parquet")
_LEFT_BEHIND = re.compile(r"\.train-\d{5}\.parquet\..*\.tmp|\.README\.md\..*\.tmp")
_MOST_EPISODES = 100_000


class EpisodeRecord(BaseModel, extra="forbid", frozen=True):
    """How an episode was recorded.

    Attributes:
        version: Version of this record.
        env: Gymnasium id of the environment.
        kwargs: Its arguments.
        attempt: Number of the start, from 0; starts that were discarded have numbers, too.
        seed: Seed of the environment's reset.
        rate_hz: Steps per second that were asked for.
        real_hz: Steps per second that were reached, without pauses; `None` for fewer than two
            steps without a pause between them.
        success: Whether the person succeeded; `None` if nothing says so.
        success_rule: What says so.
        undone_steps: Steps that the person took back.
        controls: The controls, see `imitbench.recording.controls`.
        round: Number of DAgger's round; `None` outside DAgger.
    """

    version: Literal[1] = 1
    env: str
    kwargs: dict[str, Any]
    attempt: int
    seed: int
    rate_hz: float
    real_hz: float | None
    success: bool | None
    success_rule: str | None
    undone_steps: int
    controls: dict[str, Any]
    round: int | None = None


class EpisodeStore:
    """The folder; only one process may have it open.

    Args:
        folder: Folder to create or to continue.
        env: Gymnasium id of the environment.
        kwargs: Its arguments; those of the renderer are left out.

    Attributes:
        folder: The folder.
        records: How its episodes were recorded, in order.

    Raises:
        InputError: Another process has the folder open, it holds something else, or data of another
            environment.
    """

    def __init__(self, folder: Path, env: str, kwargs: Mapping[str, Any]) -> None:
        self.folder = folder
        self._summary = ConversionSummary("imitbench record", "acted by a person", env)
        self.records: list[EpisodeRecord] = []
        self._files: list[Path] = []
        try:
            (folder / "data").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--to {folder}: cannot be written ({error.strerror})") from error
        self._lock = lock_folder(folder, "another recording has this folder open; stop it first")
        try:
            self._read(env, dict(kwargs))
        except BaseException:
            self.close()
            raise

    def __len__(self) -> int:
        """Number of kept episodes."""
        return len(self._files)

    def close(self) -> None:
        """Lets other processes open the folder; a folder without episodes is removed."""
        if not self._files:
            (self.folder / LOCK_FILE).unlink(missing_ok=True)
            for empty in (self.folder / "data", self.folder):
                if empty.is_dir() and not any(empty.iterdir()):
                    empty.rmdir()
        os.close(self._lock)

    @property
    def next_attempt(self) -> int:
        """Number of the first start after those of kept episodes."""
        return max((record.attempt for record in self.records), default=-1) + 1

    def read_round(self, number: int) -> list[TrajectoryWithRew]:
        """Reads the episodes of a round of DAgger, with infos."""
        return [
            episode
            for path, record in zip(self._files, self.records, strict=True)
            if record.round == number
            for episode in load_with_rewards(path)
        ]

    def add(self, episode: TrajectoryWithRew, record: EpisodeRecord) -> None:
        """Stores an episode; when this returns, it is on disk.

        Raises:
            InputError: It does not fit to the earlier ones; the folder is as before.
            OSError: It cannot be written; the folder is as before.
        """
        table = _table(episode, record)
        if len(self._files) >= _MOST_EPISODES:
            raise InputError(f"{self.folder}: holds {_MOST_EPISODES} episodes; begin a new folder")
        number = int(self._files[-1].stem.removeprefix("train-")) + 1 if self._files else 0
        path = self.folder / "data" / f"train-{number:05d}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, **PARQUET_OPTIONS)
        try:
            atomic_write_bytes(path, sink.getvalue().to_pybytes())
            self._remember(path, record)
        except BaseException:  # the person is told that nothing was stored
            path.unlink(missing_ok=True)
            raise
        with suppress(OSError):  # the episode is kept; the next one or the next start writes it
            self._write_card()

    def _read(self, env: str, kwargs: dict[str, Any]) -> None:
        """Reads what is there, and removes what a killed process left."""
        known = {"data", "README.md", ".gitattributes", LOCK_FILE}
        for folder in (self.folder, self.folder / "data"):
            for path in sorted(folder.iterdir()):
                if _LEFT_BEHIND.fullmatch(path.name):
                    path.unlink()
                elif folder == self.folder and path.name not in known:
                    raise InputError(self._foreign(path.name))
                elif folder != self.folder and _FILE.fullmatch(path.name) is None:
                    raise InputError(self._foreign(f"data/{path.name}"))
        for path in sorted((self.folder / "data").iterdir()):
            record = _read_record(path)
            if record is None:
                raise InputError(self._foreign(f"data/{path.name}"))
            if (record.env, record.kwargs) != (env, kwargs):
                raise InputError(
                    f"--to {self.folder}: holds episodes of {_named(record.env, record.kwargs)}, "
                    f"not of {_named(env, kwargs)}; name another folder"
                )
            self._remember(path, record)
        if self._files:
            self._write_card()  # it lacks an episode if the process was killed after writing it

    def _foreign(self, name: str) -> str:
        return (
            f"--to {self.folder}: holds '{one_line(name, 60)}', which is no part of a recording; "
            "name another folder"
        )

    def _remember(self, path: Path, record: EpisodeRecord) -> None:
        for chunk in ParquetSource(path).chunks(with_infos=False):
            for row in chunk.rows:
                self._summary.add(row, str(path))
        self._files.append(path)
        self.records.append(record)

    def _write_card(self) -> None:
        summary = self._summary
        summary.files = len(self._files)
        summary.bytes = sum(file.stat().st_size for file in self._files)
        summary.digest = digest_files(self.folder, self._files)
        card = dataset_card(summary.to_json(), _remarks(self.records), made="recorded by")
        atomic_write_text(self.folder / "README.md", card)


def _table(episode: TrajectoryWithRew, record: EpisodeRecord) -> pa.Table:
    texts = pa.array([_info_texts(episode.infos)], pa.list_(pa.string()))
    table = trajectories_to_table([episode], infos=texts)
    metadata = {**(table.schema.metadata or {}), _METADATA: record.model_dump_json().encode()}
    return table.replace_schema_metadata(metadata)


def _info_texts(infos: Any) -> list[str]:
    """Returns infos as JSON, without entries that have no such form."""
    try:
        return encode_infos(infos)
    except ValueError:
        return [_plain_part(info) for info in infos]


def _plain_part(info: Mapping[str, Any]) -> str:
    kept = {}
    for name, value in info.items():
        try:
            encode_infos([{name: value}])
        except ValueError:
            continue
        kept[name] = value
    return encode_infos([kept])[0]


def _read_record(path: Path) -> EpisodeRecord | None:
    with opened_parquet(path, whole=False) as parquet:
        text = (parquet.schema_arrow.metadata or {}).get(_METADATA)
    try:
        return None if text is None else EpisodeRecord.model_validate_json(text)
    except ValidationError:
        return None


def _named(env: str, kwargs: Mapping[str, Any]) -> str:
    given = ", ".join(f"{name}={value}" for name, value in kwargs.items())
    return one_line(f"{env} with {given}" if given else env, 120)


def _remarks(records: Sequence[EpisodeRecord]) -> list[str]:
    asked = sorted({record.rate_hz for record in records})
    real = [record.real_hz for record in records if record.real_hz is not None]
    remarks = ["asked for " + " and ".join(f"{rate:g}" for rate in asked) + " steps per second"]
    if real:
        remarks.append(f"reached {min(real):.2f} to {max(real):.2f} per episode")
    judged = [record for record in records if record.success is not None]
    if judged:
        wins = sum(bool(record.success) for record in judged)
        rules = sorted({str(record.success_rule) for record in judged})
        remarks.append(f"success ({', '.join(rules)}): {wins} of {len(judged)}")
    rounds = {record.round for record in records if record.round is not None}
    if rounds:
        remarks.append(
            f"a person and a policy in turns, in {len(rounds)} rounds of DAgger; `intervention` in "
            "infos says where the person acted"
        )
    if undone := sum(record.undone_steps for record in records):
        remarks.append(f"{undone} steps were taken back while recording")
    return remarks
