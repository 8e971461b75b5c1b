"""Reads numbers from HDF5 files of other people, without following links out of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.errors import InputError
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]

# As for .npz: compressed zeros unpack to terabytes; real recordings pack at most a few times.
_SUSPICIOUS_BYTES = 2**30
_SUSPICIOUS_PACKING = 200


def import_h5py() -> Any:
    """Imports h5py, an optional extra."""
    return import_extra("h5py", "hdf5", "an HDF5 file")


def entry_of(group: Any, name: str, where: str) -> Any:
    """Returns an entry of a group, unless it is missing or a link, perhaps to another file."""
    link = group.get(name, getlink=True)
    if link is None:
        raise InputError(f"{where}: no '{one_line(name, 40)}' in it: write or fetch it again")
    if not isinstance(link, import_h5py().HardLink):
        raise InputError(f"{where}: '{one_line(name, 40)}' is a link, which is not followed")
    return group[name]


def group_of(parent: Any, name: str, where: str) -> Any:
    """Returns a group; errors as in `entry_of`."""
    found = entry_of(parent, name, where)
    if not isinstance(found, import_h5py().Group):
        raise InputError(f"{where}: '{one_line(name, 40)}' is not a group: write or fetch it again")
    return found


def array_of(group: Any, name: str, where: str) -> Any:
    """Returns an array of numbers that is stored in the file itself, without reading it."""
    found = entry_of(group, name, where)
    if (
        not isinstance(found, import_h5py().Dataset)
        or found.dtype.kind not in "fiub"
        or not found.ndim
    ):
        raise InputError(f"{where}: '{one_line(name, 40)}' is not an array of numbers")
    if found.is_virtual or found.external:
        raise InputError(f"{where}: '{one_line(name, 40)}' is stored in other files")
    stored = max(found.id.get_storage_size(), 1)
    if found.nbytes > _SUSPICIOUS_BYTES and found.nbytes / stored > _SUSPICIOUS_PACKING:
        raise InputError(
            f"{where}: '{one_line(name, 40)}' declares {found.nbytes} bytes in {stored}: the file "
            "is damaged or malicious"
        )
    return found


def numbers_of(group: Any, name: str, where: str) -> Array:
    """Reads an array of numbers that is stored in the file itself."""
    return np.asarray(array_of(group, name, where)[()])


@contextmanager
def opened_hdf5(path: Path) -> Iterator[Any]:
    """Opens a file, and converts errors of a damaged one to `InputError`."""
    try:
        with import_h5py().File(path, "r") as file:
            yield file
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError, LookupError, TypeError, MemoryError) as error:
        raise InputError(
            f"{path}: not readable as HDF5 ({one_line(error, 120)}): write or fetch it again"
        ) from error
