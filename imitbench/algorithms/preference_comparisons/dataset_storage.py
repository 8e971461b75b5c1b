"""A preference dataset as arrays, in memory and in a safetensors file.

Each fragment is stored once, even if several comparisons use it. Fragments with the same data types
and shapes form a group, whose arrays are concatenated:

    preferences        (comparisons,)       float32, probabilities that the first is preferred
    weights            (comparisons,)       float32, what each counts; missing if all count 1
    pairs              (comparisons, 2)     int64, indices of fragments, counted over all groups
    <g>/lengths        (fragments,)         int64, steps of each fragment of group g
    <g>/terminal       (fragments,)         bool
    <g>/acts           (steps, ...)
    <g>/rews           (steps,)
    <g>/obs            (steps + fragments, ...), or <g>/obs/<key> for dictionary observations

The header of a file is JSON under `preference_dataset` in the metadata of safetensors.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors import numpy as safetensors_numpy

from imitbench.data.types import DictObs, Observation, TrajectoryWithRew
from imitbench.errors import InputError, MissingPathError
from imitbench.records.runs import Record
from imitbench.untrusted.files import require_size
from imitbench.util.files import atomic_write_bytes
from imitbench.util.text_line import one_line

_NUMBERS = "biuf"


def arrays_of(fragment: TrajectoryWithRew) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a fragment, without infos.

    Returns:
        `acts`, `rews`, and `obs`; for dictionary observations `obs/<key>` of each key, sorted.
    """
    arrays = {"acts": fragment.acts, "rews": fragment.rews}
    if isinstance(fragment.obs, DictObs):
        return arrays | {f"obs/{key}": fragment.obs.get(key) for key in sorted(fragment.obs.keys())}
    return arrays | {"obs": fragment.obs}


def fragment_digest(fragment: TrajectoryWithRew) -> bytes:
    """Hashes observations, actions, rewards and the terminal flag, but not the infos.

    Returns:
        SHA-256, 32 bytes. Two fragments have the same digest if and only if their arrays agree in
        data type, shape and every bit.

    Raises:
        ValueError: An array is not numeric.
    """
    total = hashlib.sha256(b"terminal" if fragment.terminal else b"running")
    for name, array in arrays_of(fragment).items():
        if array.dtype.kind not in _NUMBERS:
            raise ValueError(f"{name} of a fragment has data type {array.dtype}, not numbers")
        total.update(f"\n{name!r} {array.dtype.str} {array.shape}\n".encode())
        total.update(np.ascontiguousarray(array).data.cast("B") if array.size else b"")
    return total.digest()


def pair_digest(first: TrajectoryWithRew, second: TrajectoryWithRew) -> str:
    """Digest of an ordered pair: SHA-256 of both digests, as 64 hexadecimal digits.

    Raises:
        ValueError: An array is not numeric.
    """
    return hashlib.sha256(fragment_digest(first) + fragment_digest(second)).hexdigest()


Array = npt.NDArray[Any]

_HEADER = "preference_dataset"
_PICKLE = b"\x80"
_HEADER_SIZE_BYTES = 8


class _Group(Record):
    obs_keys: Annotated[list[str], Field(min_length=1)] | None
    """Keys of dictionary observations, `None` for plain arrays."""


class _Header(Record):
    version: Literal[1]
    max_size: int | None = Field(ge=1)
    groups: list[_Group]


class PreferenceArrays(NamedTuple):
    """The content of a preference dataset."""

    fragments1: list[TrajectoryWithRew]
    fragments2: list[TrajectoryWithRew]
    preferences: npt.NDArray[np.float32]
    max_size: int | None
    weights: npt.NDArray[np.float32] | None = None


def pack(comparisons: PreferenceArrays) -> dict[str, Any]:
    """Converts a dataset to arrays.

    Args:
        comparisons: The dataset. A fragment that is the same object in several comparisons is
            stored once.

    Returns:
        `header`, a JSON object, and `arrays`, by the names in the module's docstring.
    """
    numbers: dict[int, tuple[tuple[Any, ...], int]] = {}
    groups: dict[tuple[Any, ...], list[TrajectoryWithRew]] = {}
    positions = []
    for fragment in (*comparisons.fragments1, *comparisons.fragments2):
        key = id(fragment)
        if key not in numbers:
            layout = _layout(fragment)
            members = groups.setdefault(layout, [])
            numbers[key] = (layout, len(members))
            members.append(fragment)
        positions.append(numbers[key])
    offsets, count = {}, 0
    for layout, members in groups.items():
        offsets[layout] = count
        count += len(members)
    flat = np.array([offsets[layout] + index for layout, index in positions], dtype=np.int64)
    arrays: dict[str, Array] = {
        "preferences": comparisons.preferences.copy(),
        "pairs": np.ascontiguousarray(flat.reshape(2, -1).T),
    }
    if comparisons.weights is not None and (comparisons.weights != 1).any():
        arrays["weights"] = comparisons.weights.copy()
    descriptions = []
    for number, members in enumerate(groups.values()):
        obs = members[0].obs
        keys = sorted(obs.keys()) if isinstance(obs, DictObs) else None
        descriptions.append(_Group(obs_keys=keys))
        arrays |= {f"{number}/{name}": array for name, array in _join(members).items()}
    header = _Header(version=1, max_size=comparisons.max_size, groups=descriptions)
    return {"header": header.model_dump(), "arrays": arrays}


def unpack(packed: Mapping[str, Any]) -> PreferenceArrays:
    """Inverse of `pack`.

    Args:
        packed: What `pack` returned, or the content of an untrusted file.

    Returns:
        The dataset. Fragments are views of the given arrays.

    Raises:
        ValueError: The layout is invalid; the message says where.
    """
    try:
        header = _Header.model_validate(packed["header"])
    except ValidationError as error:
        raise ValueError(_first_error(error)) from None
    arrays = packed["arrays"]
    fragments: list[TrajectoryWithRew] = []
    for number, group in enumerate(header.groups):
        fragments += _cut(arrays, number, group)
    preferences = _get(arrays, "preferences", "f", 1)
    pairs = _get(arrays, "pairs", "i", 2)
    if preferences.dtype != np.float32:
        raise ValueError(f"preferences have data type {preferences.dtype}, not float32")
    if pairs.shape != (len(preferences), 2):
        raise ValueError(f"pairs have shape {pairs.shape} for {len(preferences)} preferences")
    if pairs.size and not (pairs.min() >= 0 and pairs.max() < len(fragments)):
        raise ValueError(f"pairs name fragments beyond the {len(fragments)} that are stored")
    first, second = ([fragments[index] for index in side] for side in pairs.T.tolist())
    weights = _get(arrays, "weights", "f", 1) if "weights" in arrays else None
    return PreferenceArrays(first, second, preferences, header.max_size, weights)


def write_file(path: Path, packed: Mapping[str, Any]) -> None:
    """Writes what `pack` returned, atomically.

    Raises:
        OSError: The file cannot be written.
    """
    header = _Header.model_validate(packed["header"]).model_dump_json()
    atomic_write_bytes(path, safetensors_numpy.save(dict(packed["arrays"]), {_HEADER: header}))


def read_file(path: Path) -> dict[str, Any]:
    """Reads what `write_file` wrote.

    Returns:
        The argument of `unpack`.

    Raises:
        InputError: The file is missing or damaged, or has another format.
    """
    if not path.exists():
        raise MissingPathError(f"{path}: no such file; check the path")
    require_size(path)
    try:
        with safe_open(path, framework="numpy") as file:
            header = (file.metadata() or {}).get(_HEADER)
            if header is None:
                raise InputError(f"{path}: a safetensors file without a preference dataset")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, LookupError, OSError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"{path}: damaged, or not a preference dataset ({one_line(error)}); save it again"
        ) from error
    try:
        return {"header": _Header.model_validate_json(header).model_dump(), "arrays": arrays}
    except ValidationError as error:
        raise InputError(f"{path}: {_first_error(error)}; save it again") from None


def is_pickle(path: Path) -> bool:
    """Whether a file looks like a pickle, without unpickling it.

    A safetensors file may start with the same byte, but has a brace after the first eight.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(_HEADER_SIZE_BYTES + 1)
    except OSError:
        return False
    return start.startswith(_PICKLE) and start[_HEADER_SIZE_BYTES:] != b"{"


def _layout(fragment: TrajectoryWithRew) -> tuple[Any, ...]:
    """Equal for fragments whose arrays can be concatenated."""
    return tuple((name, a.dtype.str, a.shape[1:]) for name, a in arrays_of(fragment).items())


def _join(members: Sequence[TrajectoryWithRew]) -> dict[str, Array]:
    parts = [arrays_of(member) for member in members]
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    lengths = np.array([len(member) for member in members], dtype=np.int64)
    terminal = np.array([bool(member.terminal) for member in members])
    return {"lengths": lengths, "terminal": terminal, **joined}


def _cut(arrays: Mapping[str, Any], number: int, group: _Group) -> list[TrajectoryWithRew]:
    lengths = _get(arrays, f"{number}/lengths", "i", 1)
    terminal = _get(arrays, f"{number}/terminal", "b", 1)
    if not len(lengths) or lengths.min() < 1 or len(terminal) != len(lengths):
        raise ValueError(f"{number}/lengths and {number}/terminal are not valid for fragments")
    # Python integers: sums of invalid lengths cannot overflow to valid ones.
    steps = sum(lengths.tolist())
    acts, rews = (_split(arrays, f"{number}/{name}", steps, lengths) for name in ("acts", "rews"))
    names = ["obs"] if group.obs_keys is None else [f"obs/{key}" for key in group.obs_keys]
    columns = [
        _split(arrays, f"{number}/{name}", steps + len(lengths), lengths + 1) for name in names
    ]
    fragments = []
    for index, end in enumerate(terminal.tolist()):
        obs: Observation = (
            columns[0][index]
            if group.obs_keys is None
            else DictObs({k: c[index] for k, c in zip(group.obs_keys, columns, strict=True)})
        )
        fragments.append(TrajectoryWithRew(obs, acts[index], None, end, rews[index]))
    return fragments


def _split(arrays: Mapping[str, Any], name: str, rows: int, lengths: Array) -> list[Array]:
    array = _get(arrays, name, _NUMBERS, None)
    if array.ndim == 0 or len(array) != rows:
        raise ValueError(f"{name} has shape {array.shape}; its fragments need {rows} rows")
    return np.split(array, np.cumsum(lengths)[:-1])


def _get(arrays: Mapping[str, Any], name: str, kinds: str, ndim: int | None) -> Array:
    if name not in arrays:
        raise ValueError(f"array '{name}' is missing")
    array: Array = arrays[name]
    if array.dtype.kind not in kinds or (ndim is not None and array.ndim != ndim):
        raise ValueError(f"'{name}' has unexpected data type {array.dtype} or shape {array.shape}")
    return array


def _first_error(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"])) or "header"
    return one_line(f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}")
