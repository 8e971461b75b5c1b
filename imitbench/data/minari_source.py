"""Reads data sets of Minari, the Farama Foundation's offline data, as demonstrations.

Minari is an optional extra. Nothing is downloaded unless requested. The metadata may name a
Python function that creates the environment, which Minari would import and call if the metadata
lack the spaces; such data sets are refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from imitbench.data.trajectories import Trajectory, TrajectoryWithRew
from imitbench.data.trajectory_source import EpisodeSource
from imitbench.errors import InputError, did_you_mean
from imitbench.untrusted.files import read_content
from imitbench.util.extras import import_extra
from imitbench.util.files import make_once, user_cache
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    pass


PREFIX = "minari:"
"""Prefix of the name of a Minari data set where other sources are possible."""

_PART = r"[A-Za-z0-9][A-Za-z0-9_.\-]*"
_NAME = re.compile(rf"{_PART}(/{_PART})*")


class MinariSource(EpisodeSource):
    """A Minari data set on this machine.

    Args:
        name: Such as `mujoco/hopper/expert-v0`.
        download: Whether to download the data set if it is missing.

    Raises:
        InputError: Minari or the data set is missing, or the data set is damaged or has
            unsupported spaces.
    """

    form = "Minari"
    has_infos = True

    def __init__(self, name: str, *, download: bool = False) -> None:
        self.where = f"{PREFIX}{name}"
        self.folder = find_minari(name, download=download)
        with _damage_of(self.where):
            _check_episodes(self.folder / "data", name)
            self._dataset = _import_minari().load_dataset(name, download=False)
            self.environment_id: str | None = getattr(self._dataset.env_spec, "id", None)
        for what, space in (
            ("observations", self._dataset.observation_space),
            ("actions", self._dataset.action_space),
        ):
            if space.shape is None or space.dtype is None:
                raise InputError(
                    f"{self.where}: {what} are of a {type(space).__name__} space, which "
                    "demonstrations cannot hold: use a data set with array spaces"
                )

    def __len__(self) -> int:
        """Number of trajectories."""
        return int(self._dataset.total_episodes)

    def episodes(self, *, with_infos: bool) -> Iterator[Trajectory]:
        """See `EpisodeSource.episodes`; infos are empty, as Minari stores none per step."""
        for number in self._dataset.episode_indices:
            with _damage_of(f"{self.where}, episode {number}"):
                (episode,) = self._dataset.iterate_episodes([number])
                ended = bool(episode.terminations[-1] or episode.truncations[-1])
                trajectory = TrajectoryWithRew(
                    np.asarray(episode.observations),
                    np.asarray(episode.actions),
                    None,
                    ended,
                    np.asarray(episode.rewards, dtype=np.float64),
                )
            yield trajectory


class MinariCopy(NamedTuple):
    """A converted data set in the cache.

    Attributes:
        folder: Folder in the hub layout.
        environment_id: Gymnasium id of the recorded environment, if stated.
    """

    folder: Path
    environment_id: str | None


def find_minari(name: str, *, download: bool = False) -> Path:
    """Finds the folder of a data set in `MINARI_DATASETS_PATH` or `~/.minari/datasets`.

    Args:
        name: Such as `mujoco/hopper/expert-v0`.
        download: Whether to download the data set if it is missing.

    Raises:
        InputError: Minari or the data set is missing, or the name is invalid.
    """
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{PREFIX}{one_line(name, 60)}: not the name of a Minari data set, such as "
            "minari:D4RL/door/human-v2"
        )
    root = Path(os.environ.get("MINARI_DATASETS_PATH", Path.home() / ".minari" / "datasets"))
    folder = root / name
    if not (folder / "data" / "metadata.json").is_file():
        if not download:
            raise InputError(_missing(name, root))
        with _damage_of(
            f"{PREFIX}{name}", "downloaded", "check the name and the connection, and try again"
        ):
            _import_minari().download_dataset(name)
    _check_metadata(folder / "data" / "metadata.json", name)
    return folder


def copy_minari(name: str, cache: Path | None = None) -> MinariCopy:
    """Converts a Minari data set into the cache, unless its content is there already.

    Several processes may do so at the same time. Nothing is downloaded.

    Args:
        name: Such as `mujoco/hopper/expert-v0`.
        cache: Folder of the cache; by default `imitbench` in `XDG_CACHE_HOME` or `~/.cache`.

    Returns:
        The copy, in a folder named after the digest of the content, so that it never changes.

    Raises:
        InputError: Minari or the data set is missing, or the data set is damaged or has
            unsupported spaces.
    """
    from imitbench.data.conversion import convert_demonstrations

    folder = find_minari(name)
    digest = _digest(folder)
    copy = (cache or user_cache()) / "minari" / name.replace("/", "-") / digest[:32]
    environment_id = _environment_id(folder)
    make_once(
        copy,
        lambda: convert_demonstrations(MinariSource(name), copy, environment_id=environment_id),
    )
    return MinariCopy(copy, environment_id)


def _import_minari() -> Any:
    return import_extra("minari", "minari", "a Minari data set")


def _missing(name: str, root: Path) -> str:
    _import_minari()
    there = [str(path.parents[1].relative_to(root)) for path in root.glob("**/data/metadata.json")]
    return (
        f"{PREFIX}{name}: not in {root}; {one_line(did_you_mean(name, there))}; "
        "to fetch it: imitbench demos convert --download --source minari:… OUT, or for a suite "
        "imitbench prefetch --source minari"
    )


def _metadata(file: Path, name: str) -> dict[str, Any]:
    try:
        document = json.loads(read_content(file))
        if isinstance(document, dict):
            return document
        reason = "not an object"
    except (OSError, ValueError, RecursionError) as error:
        reason = one_line(error, 80)
    raise InputError(f"{PREFIX}{name}: {file} is damaged ({reason}): write or fetch it again")


def _check_metadata(file: Path, name: str) -> None:
    """Refuses a set that would run code, or whose counts cannot be."""
    document = _metadata(file, name)
    for count in ("total_episodes", "total_steps"):
        stated = document.get(count)
        if type(stated) is not int or stated < 0:
            raise InputError(
                f"{PREFIX}{name}: {file} states {count}: {one_line(repr(stated), 40)}, which is no "
                "count: write or fetch it again"
            )
    for space in ("observation_space", "action_space"):
        if not isinstance(document.get(space), str):
            raise InputError(
                f"{PREFIX}{name}: its metadata lack the {space.replace('_', ' ')}, and creating "
                "its environment could run any code: write it again with a current Minari"
            )


def _check_episodes(data: Path, name: str) -> None:
    """Compares the stated number of episodes with those that are there, before Minari uses it."""
    file = data / "main_data.hdf5"
    if file.is_file():
        with import_extra("h5py", "minari", "a Minari data set").File(file) as stored:
            found = len(stored)
    else:
        found = sum(path.name.isdecimal() and path.is_dir() for path in data.iterdir())
    stated = _metadata(data / "metadata.json", name)["total_episodes"]
    if stated != found:
        raise InputError(
            f"{PREFIX}{name}: its metadata state {stated:,} episodes, and {found:,} are there: "
            "write or fetch it again"
        )


def _environment_id(folder: Path) -> str | None:
    text = _metadata(folder / "data" / "metadata.json", folder.name).get("env_spec")
    try:
        found = json.loads(text)["id"] if isinstance(text, str) else None
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return found if isinstance(found, str) else None


def _digest(folder: Path) -> str:
    """Returns the SHA-256 over the files of a data set, read in pieces as they may be large."""
    total = hashlib.sha256()
    for path in sorted(path for path in (folder / "data").rglob("*") if path.is_file()):
        total.update(path.relative_to(folder).as_posix().encode() + b"\0")
        with path.open("rb") as stream:
            while piece := stream.read(2**20):
                total.update(piece)
        total.update(path.stat().st_size.to_bytes(8, "little"))
    return total.hexdigest()


@contextmanager
def _damage_of(
    where: str, done: str = "read", fix: str = "write or fetch it again"
) -> Iterator[None]:
    """Turns any exception of Minari into an `InputError` of one line.

    Args:
        where: Name of the data set.
        done: What is done with it.
        fix: What helps if that fails, unless a package is missing.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        missing = isinstance(error, ImportError)
        fix = "pip install 'minari[hdf5]'" if missing else fix
        raise InputError(
            f"{where}: cannot be {done} ({type(error).__name__}: {one_line(error)}): {fix}"
        ) from error
