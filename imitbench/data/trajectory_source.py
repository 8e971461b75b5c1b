"""Streams trajectories from files of any format, a few megabytes at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from imitbench.data.arrow_table import TableRow, infos_texts, table_rows
from imitbench.data.infos import decode_infos, encode_infos
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, infos_of
from imitbench.data.trusted import decode_objects
from imitbench.errors import InputError, did_you_mean
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

CHUNK_BYTES = 16 * 2**20
"""Approximate bytes of numbers in memory at a time while a data set is streamed."""

LAST_REPEATED = "the last observation of each episode is repeated as the one after its last action"
"""Note on a data set that does not say what followed the last action of an episode."""


class TrajectoryChunk(NamedTuple):
    """Consecutive rows of a data set.

    Attributes:
        first_row: Number of the first row in the whole data set.
        rows: The rows, not yet validated.
        infos: Their infos as texts, type `list<string>`; None if there are none.
    """

    first_row: int
    rows: list[TableRow]
    infos: pa.Array | None


class TrajectorySource(ABC):
    """A data set of trajectories that is read in pieces.

    Iteration yields the trajectories with their infos, decoded as by
    `imitbench.data.serialize.load`.

    Attributes:
        where: Name of the data set in messages, such as its path.
        form: Name of the format.
        trust: Whether to decode infos into objects, which can execute any code.
        untyped: Whether its numbers have no data type of their own, so that that of an
            environment's space applies.
        notes: Remarks for the user on how it was read.
    """

    where: str
    form: str
    trust: bool = False
    untyped: bool = False
    notes: tuple[str, ...] = ()

    @abstractmethod
    def __len__(self) -> int:
        """Number of trajectories."""

    @abstractmethod
    def chunks(self, *, with_infos: bool, limit: int | None = None) -> Iterator[TrajectoryChunk]:
        """Reads the data set from its start.

        Args:
            with_infos: Whether to read the infos.
            limit: Maximum number of rows; None for all.

        Raises:
            InputError: The data set is damaged, or does not contain trajectories.
        """

    def read(self, *, with_infos: bool = False, limit: int | None = None) -> list[Trajectory]:
        """Reads trajectories into memory.

        Args:
            with_infos: Whether to read and decode the infos; otherwise they are None.
            limit: Maximum number of rows; None for all.

        Raises:
            InputError: See `chunks`; or a row is not a valid trajectory.
        """
        return list(self._trajectories(with_infos, limit))

    def __iter__(self) -> Iterator[Trajectory]:
        return self._trajectories(True, None)

    def _trajectories(self, with_infos: bool, limit: int | None) -> Iterator[Trajectory]:
        for first_row, rows, infos in self.chunks(with_infos=with_infos, limit=limit):
            for index, row in enumerate(rows):
                decoded = None if infos is None else decode_infos(infos[index].as_py())
                trajectory = row.trajectory(
                    infos=decoded, where=self.where, number=first_row + index
                )
                yield decode_objects(trajectory, self.where) if self.trust else trajectory


class TableSource(TrajectorySource):
    """A data set whose format gives Arrow tables."""

    @abstractmethod
    def tables(self, columns: Sequence[str], limit: int | None) -> Iterator[pa.Table]:
        """Reads the data set from its start.

        Args:
            columns: Columns to read, where they exist.
            limit: Number of rows that are needed; `None` for all.
        """

    def chunks(self, *, with_infos: bool, limit: int | None = None) -> Iterator[TrajectoryChunk]:
        """See `TrajectorySource.chunks`."""
        columns = ["obs", "acts", "terminal", "rews"] + ["infos"] * with_infos
        first_row = 0
        for table in self.tables(columns, limit):
            part = table if limit is None else table[: limit - first_row]
            rows = table_rows(part, where=self.where, first_row=first_row)
            infos = infos_texts(part, where=self.where, first_row=first_row)
            yield TrajectoryChunk(first_row, rows, infos)
            first_row += len(part)
            if limit is not None and first_row >= limit:
                return


class EpisodeSource(TrajectorySource):
    """A data set whose format gives one trajectory after the other.

    Attributes:
        has_infos: Whether `chunks` can give infos; those of trajectories without are empty.
    """

    has_infos: bool = False

    @abstractmethod
    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """Reads the data set from its start.

        Args:
            with_infos: Whether to read infos, where there are any.
        """

    def chunks(self, *, with_infos: bool, limit: int | None = None) -> Iterator[TrajectoryChunk]:
        """See `TrajectorySource.chunks`."""
        wanted = with_infos and self.has_infos
        return _chunks_of(self._trajectories(wanted, limit), with_infos=wanted, where=self.where)

    def _trajectories(self, with_infos: bool, limit: int | None) -> Iterator[Trajectory]:
        return islice(self.episodes(with_infos=with_infos), limit)


def _chunks_of(
    trajectories: Iterable[Trajectory], *, with_infos: bool, where: str
) -> Iterator[TrajectoryChunk]:
    """Groups trajectories of a sequential format into chunks, with their infos as texts."""
    first_row, rows, texts, size = 0, list[TableRow](), list[list[str]](), 0
    for number, trajectory in enumerate(trajectories):
        row = _row(trajectory, f"{where}, episode {number}")
        rows.append(row)
        if with_infos:
            try:
                texts.append(encode_infos(infos_of(trajectory)))
            except ValueError as error:
                raise InputError(
                    f"{where}, episode {number}: {error}, or omit the infos"
                ) from error
        size += row.obs.nbytes + row.acts.nbytes
        if size >= CHUNK_BYTES:
            yield TrajectoryChunk(first_row, rows, _infos(texts))
            first_row, rows, texts, size = number + 1, [], [], 0
    if rows:
        yield TrajectoryChunk(first_row, rows, _infos(texts))


class MemorySource(EpisodeSource):
    """Trajectories that are already in memory.

    Args:
        trajectories: At least one.
        where: Name of the data set in messages.
        form: Name of their original format.
    """

    has_infos = True

    def __init__(self, trajectories: Sequence[Trajectory], *, where: str, form: str) -> None:
        self._all = trajectories
        self.where, self.form = where, form

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._all)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        return iter(self._all)


def _row(trajectory: Trajectory, where: str) -> TableRow:
    if isinstance(trajectory.obs, DictObs):
        raise InputError(
            f"{where}: observations are dictionaries, which a table cannot hold: flatten them"
        )
    rews = trajectory.rews if isinstance(trajectory, TrajectoryWithRew) else None
    return TableRow(np.asarray(trajectory.obs), trajectory.acts, bool(trajectory.terminal), rews)


def _infos(texts: list[list[str]]) -> pa.Array | None:
    return pa.array(texts, pa.list_(pa.string())) if texts else None


def choose_features(
    asked: Sequence[str], sizes: Mapping[str, int | None], *, where: str
) -> list[str]:
    """Chooses recordings of flat numbers, to be concatenated.

    Args:
        asked: Names in the order of concatenation; empty for all of flat numbers, sorted by name.
        sizes: Numbers per step of each recording; `None` if it is not flat, such as an image.
        where: Name of the data set in errors.

    Raises:
        InputError: A name does not exist or is not flat, or nothing is flat.
    """
    for name in asked:
        if name not in sizes:
            raise InputError(f"--obs {one_line(name, 60)}: {where}: {did_you_mean(name, sizes)}")
        if sizes[name] is None:
            raise InputError(
                f"--obs {one_line(name, 60)}: {where}: is not flat numbers; name others, such as "
                f"{', '.join(flat_names(sizes)) or 'none here'}"
            )
    chosen = list(dict.fromkeys(asked)) or flat_names(sizes)
    if not chosen:
        raise InputError(
            f"{where}: no observation of flat numbers among {one_line(', '.join(sizes), 120)}; "
            "images are not supported"
        )
    return chosen


def flat_names(sizes: Mapping[str, int | None]) -> list[str]:
    """Returns the names of recordings of flat numbers, sorted."""
    return sorted(name for name, size in sizes.items() if size is not None)


def choice_note(chosen: Sequence[str], sizes: Mapping[str, int | None]) -> str:
    """Returns a note on what the observation consists of, and what is left out."""
    parts = ", ".join(f"{name} ({sizes[name]})" for name in chosen)
    left = sorted(set(sizes) - set(chosen))
    rest = f"; not used: {one_line(', '.join(left), 120)}" if left else ""
    return f"observation: {one_line(parts, 160)}{rest}"
