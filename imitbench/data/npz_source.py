"""Reads `.npz` archives of older versions of the reference library without unpickling.

There are two layouts. Several trajectories: `obs`, `acts` and optionally `rews` concatenated,
`terminal` of each, and `indices`, the first steps of all but the first trajectory. One
trajectory: no `indices`, and `terminal` is a single flag. Infos are pickled in both.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from imitbench.data.arrow_table import TableRow
from imitbench.data.trajectories import Trajectory
from imitbench.data.trajectory_source import EpisodeSource
from imitbench.data.trusted import unpickle_infos
from imitbench.errors import InputError
from imitbench.untrusted.archives import check_archive
from imitbench.untrusted.arrays import check_shape
from imitbench.untrusted.files import require_ordinary
from imitbench.util.parse_errors import DAMAGED_NPZ
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

_NAMES = ("obs", "acts", "rews", "terminal", "indices")


class NpzSource(EpisodeSource):
    """An `.npz` archive.

    Args:
        path: An `.npz` file.
        trust: Whether to unpickle infos, which can execute any code. Otherwise they are
            skipped, with a warning.

    Raises:
        InputError: The file is damaged or does not contain trajectories.
    """

    form = "npz"

    def __init__(self, path: Path, *, trust: bool = False) -> None:
        self.where = str(path)
        self._path = path
        with opened_npz(path) as archive:
            names = {name.removesuffix(".npy") for name in archive.namelist()}
            self._has_rewards = "rews" in names
            members = {name: NpzMember(archive, name) for name in _NAMES if name in names}
            several = "terminal" not in members or members["terminal"].shape != ()
            missing = [
                name
                for name in ("obs", "acts", "terminal", *["indices"] * several)
                if name not in names
            ]
            if missing:
                raise KeyError(", ".join(missing))
            steps = members["acts"].shape[0]
            cuts = members["indices"].take_all() if several else np.empty(0, int)
            self._terminal = members["terminal"].take_all().reshape(-1)
        sizes: dict[str, int] = {
            name: members[name].shape[0] for name in ("obs", "rews") if name in members
        }
        self._lengths = self._check_cuts(cuts, steps, sizes)
        self._infos = self._open_infos(trust) if "infos" in names else None
        self.has_infos = self._infos is not None

    def __len__(self) -> int:
        """Number of trajectories."""
        return len(self._lengths)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`."""
        start = 0
        for number, row in enumerate(self._rows()):
            infos = None
            if with_infos and self._infos is not None:
                infos = self._infos[start : start + len(row.acts)]
            yield row.trajectory(infos=infos, where=self.where, number=number)
            start += len(row.acts)

    def _rows(self) -> Iterator[TableRow]:
        """Reads one trajectory at a time from all arrays."""
        with opened_npz(self._path) as archive:
            obs, acts = NpzMember(archive, "obs"), NpzMember(archive, "acts")
            rews = NpzMember(archive, "rews") if self._has_rewards else None
            for length, terminal in zip(self._lengths, self._terminal, strict=True):
                yield TableRow(
                    obs.take(length + 1),
                    acts.take(length),
                    bool(terminal),
                    rews.take(length) if rews else None,
                )

    def _check_cuts(self, cuts: Array, steps: int, sizes: dict[str, int]) -> list[int]:
        """Checks the cuts and returns the lengths of the trajectories."""
        if cuts.ndim != 1 or (len(cuts) and cuts.dtype.kind not in "iu"):
            raise InputError(
                f"{self.where}: 'indices' is not a list of steps: write or fetch it again"
            )
        lengths = np.diff(cuts.astype(np.int64), prepend=0, append=steps)
        wrong = np.flatnonzero(lengths <= 0)
        if len(wrong):
            raise InputError(
                f"{self.where}, episode {wrong[0]}: length {lengths[wrong[0]]} by 'indices', but a "
                "trajectory needs at least one action: write or fetch it again"
            )
        if len(lengths) != len(self._terminal):
            raise InputError(
                f"{self.where}: damaged .npz file ({len(lengths)} trajectories by 'indices', "
                f"{len(self._terminal)} by 'terminal'): write or fetch it again"
            )
        expected = {"obs": steps + len(lengths), "rews": steps}
        for name, size in sizes.items():
            if size != expected[name]:
                raise InputError(
                    f"{self.where}: damaged .npz file ('{name}' has {size} entries for "
                    f"{steps} actions in {len(lengths)} trajectories, not {expected[name]}): "
                    "write or fetch it again"
                )
        return [int(length) for length in lengths]

    def _open_infos(self, trust: bool) -> Array | None:
        if not trust:
            warnings.warn(
                f"{self.where}: infos are pickled in this old format and are skipped",
                stacklevel=4,
            )
            return None
        infos = unpickle_infos(self._path)
        if len(infos) != sum(self._lengths):
            raise InputError(
                f"{self.where}: {len(infos)} infos for {sum(self._lengths)} actions: write "
                "or fetch it again"
            )
        return infos


@contextmanager
def opened_npz(path: Path) -> Iterator[zipfile.ZipFile]:
    """Opens an archive, and converts errors of a damaged one to `InputError`."""
    require_ordinary(path)
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path.stat().st_size)
            yield archive
    except InputError:
        raise
    except DAMAGED_NPZ as error:
        reason = f"no array {error}" if isinstance(error, KeyError) else one_line(error)
        raise InputError(
            f"{path}: damaged .npz file ({reason}): write or fetch it again"
        ) from error


class NpzMember:
    """An array in an archive, read sequentially; one that is laid out by columns at once.

    Args:
        archive: An open archive.
        name: Name of the array.

    Raises:
        KeyError: There is no such array.
        ValueError: It does not hold numbers, or declares more than it has.
    """

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self._name = name
        info = archive.getinfo(f"{name}.npy")
        self._stream: IO[bytes] = archive.open(info)
        version = np.lib.format.read_magic(self._stream)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }
        if version not in read:
            raise ValueError(f"array '{name}' has an unknown format version")
        self.shape, fortran, self.dtype = read[version](self._stream)
        if self.dtype.kind not in "fiub":
            raise ValueError(f"array '{name}' holds {one_line(self.dtype)}, not numbers")
        if name not in ("terminal", "indices") and not self.shape:
            raise ValueError(f"array '{name}' is a single number")
        self._by_columns = fortran and len(self.shape) > 1
        self._whole: Array | None = None
        self._position = 0
        check_shape(self.shape, rows=True)
        declared = self.dtype.itemsize * math.prod(self.shape)
        if declared > info.file_size:
            raise ValueError(
                f"array '{name}' declares {declared} bytes but has at most {info.file_size}"
            )

    def take(self, count: int) -> Array:
        """Returns the next `count` entries as a writable array."""
        if not self._by_columns:
            return self._read((count, *self.shape[1:]))
        if self._whole is None:
            self._whole = self._read(self.shape[::-1]).T
        self._position += count
        return np.array(self._whole[self._position - count : self._position], order="C")

    def take_all(self) -> Array:
        """Returns the whole array, of which nothing may have been read yet."""
        return self.take(self.shape[0]) if self.shape else self._read(())

    def _read(self, shape: tuple[int, ...]) -> Array:
        size = self.dtype.itemsize * math.prod(shape)
        content = bytearray(self._stream.read(size))
        if len(content) != size:
            raise EOFError(f"array '{self._name}' ends early")
        return np.frombuffer(content, self.dtype).reshape(shape)
