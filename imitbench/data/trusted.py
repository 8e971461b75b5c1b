"""Infos as the objects they were, from files whose makers the user trusts.

This is the one module that builds objects from what a file says. Nothing calls it unless the user
passes `trust=True`.
"""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.infos import OPAQUE
from imitbench.data.trajectories import Trajectory
from imitbench.errors import InputError


def decode_objects(trajectory: Trajectory) -> Trajectory:
    """Turns infos that were carried as opaque text into the objects that jsonpickle wrote.

    Raises:
        InputError: The package jsonpickle is not installed.
    """
    infos = trajectory.infos
    if infos is None or not any(OPAQUE in info for info in infos):
        return trajectory
    try:
        import jsonpickle
    except ModuleNotFoundError as error:
        raise InputError(
            "trust=True: infos were written by jsonpickle, which is not installed; "
            "pip install jsonpickle"
        ) from error
    decoded = np.empty(len(infos), dtype=object)
    for step, info in enumerate(infos):
        decoded[step] = jsonpickle.decode(info[OPAQUE], safe=True) if OPAQUE in info else info
    return dataclasses.replace(trajectory, infos=decoded)


def unpickle_infos(path: Path) -> npt.NDArray[Any]:
    """The pickled infos of an old `.npz` file, one mapping for each step of all trajectories.

    Raises:
        InputError: They cannot be unpickled here.
    """
    try:
        with np.load(path, allow_pickle=True) as archive:
            infos: npt.NDArray[Any] = archive["infos"]
    except (ImportError, AttributeError, ValueError, OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: infos cannot be unpickled here ({error})") from error
    if infos.ndim != 1 or not all(isinstance(info, Mapping) for info in infos):
        raise InputError(f"{path}: infos is no list of dictionaries")
    return infos
