"""Compares the outputs of two runs exactly, number by number."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.store.run_dir import RunDirectory

_KINDS = {False: "stochastic", True: "deterministic"}
_DIGESTS = ("sha256",)  # digests of files, which are compared directly


@dataclass(frozen=True)
class Difference:
    """A difference between two nested values.

    Attributes:
        name: Path of keys to the value, joined by dots.
        what: How the values differ, as the end of a sentence: `differs by up to 0.001`.
        in_array: Whether they are arrays, such as weights.
    """

    name: str
    what: str
    in_array: bool = False

    def __str__(self) -> str:
        return f"`{self.name}` {self.what}" if self.name else self.what


@dataclass(frozen=True)
class PartDifferences:
    """Differences in one part of the outputs of two runs.

    Attributes:
        part: Name of the part.
        count: Number of episodes, points or arrays, or the names of measures, as text.
        differences: All differences; empty if the parts are equal.
    """

    part: str
    count: str
    differences: list[Difference]


def find_differences(expected: Any, found: Any, name: str = "") -> list[Difference]:
    """Compares two nested values recursively.

    Args:
        expected: Tensors, arrays, numbers, strings and `None`, in nested dictionaries, lists and
            tuples.
        found: Value to compare with it.
        name: Name of the values in the differences.

    Returns:
        Differences in the order of `expected`. Arrays must have equal types, shapes and numbers;
        NaN equals NaN.
    """
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        return _mapping_differences(expected, found, name)
    if _is_array(expected) and _is_array(found):
        what = _array_difference(_array(expected), _array(found))
        return [Difference(name, what, in_array=True)] if what else []
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        if len(expected) != len(found):
            return [Difference(name, f"has {len(found)} entries instead of {len(expected)}")]
        return [
            difference
            for index, (one, other) in enumerate(zip(expected, found, strict=True))
            for difference in find_differences(one, other, _below(name, index))
        ]
    if type(expected) is not type(found):
        kinds = type(found).__name__, type(expected).__name__
        return [Difference(name, "is a {} instead of a {}".format(*kinds))]
    same = expected == found or (expected != expected and found != found)
    return [] if same else [Difference(name, f"is {_short(found)} instead of {_short(expected)}")]


def compare_runs(expected: RunDirectory, found: RunDirectory) -> list[PartDifferences]:
    """Compares two completed runs in all numbers except times.

    Raises:
        InputError: A run is not complete, or its files cannot be read.
    """
    return [
        _compare_episodes(expected, found),
        _compare_curves(expected, found),
        _compare_folders("policy", expected.policy, found.policy),
        _compare_folders("reward", expected.reward, found.reward),
        _compare_results(expected, found),
    ]


def _mapping_differences(
    expected: Mapping[Any, Any], found: Mapping[Any, Any], name: str
) -> list[Difference]:
    result = []
    for key in [*expected, *(key for key in found if key not in expected)]:
        where = _below(name, key)
        if key not in found:
            result.append(Difference(where, "is missing"))
        elif key not in expected:
            result.append(Difference(where, "should not be there"))
        else:
            result += find_differences(expected[key], found[key], where)
    return result


def _array_difference(
    expected: npt.NDArray[np.generic], found: npt.NDArray[np.generic]
) -> str | None:
    if (expected.dtype, expected.shape) != (found.dtype, found.shape):
        one, other = (f"{array.dtype}{list(array.shape)}" for array in (found, expected))
        return f"is {one} instead of {other}"
    if expected.tobytes() == found.tobytes():
        return None
    if expected.dtype.kind not in "fiub":
        return "differs"
    with np.errstate(invalid="ignore", over="ignore"):
        gaps = np.abs(expected.astype(np.float64) - found.astype(np.float64))
    both_nan = np.isnan(expected) & np.isnan(found) if expected.dtype.kind == "f" else False
    unequal = (expected != found) & ~np.asarray(both_nan)
    if not unequal.any():  # zeros of either sign, or NaN written differently
        return None
    largest = float(np.nanmax(gaps, initial=0.0, where=unequal))
    return f"differs by up to {largest:.2g} in {int(unequal.sum())} of {unequal.size} numbers"


def _compare_episodes(expected: RunDirectory, found: RunDirectory) -> PartDifferences:
    import pyarrow.parquet as pq

    tables = [pq.read_table(run.path / "episodes.parquet") for run in (expected, found)]
    one, other = ({name: table[name].to_numpy() for name in table.column_names} for table in tables)
    found_differences = []
    if len(one["raw_return"]) != len(other["raw_return"]):
        found_differences = find_differences(one["raw_return"], other["raw_return"], "raw_return")
    else:
        unequal = np.zeros(len(one["raw_return"]), dtype=bool)
        for column, values in one.items():
            unequal |= values != other[column]
        for index in np.flatnonzero(unequal).tolist():
            kind = _KINDS[bool(one["deterministic"][index])]
            returns = other["raw_return"][index], one["raw_return"][index]
            what = "returned {:.6g} instead of {:.6g}".format(*returns)
            found_differences.append(Difference(f"{kind} episode {index}", what))
    return PartDifferences(
        "evaluation episodes", f"{len(one['raw_return'])} episodes", found_differences
    )


def _compare_curves(expected: RunDirectory, found: RunDirectory) -> PartDifferences:
    one, other = (
        [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
        for run in (expected, found)
    )
    if len(one) != len(other):
        unequal = [Difference("", f"has {len(other)} points instead of {len(one)}")]
    else:
        unequal = [
            Difference(f"step {point['step']}: {difference.name}", difference.what)
            for point, twin in zip(one, other, strict=True)
            for difference in find_differences(point, twin)
        ]
    return PartDifferences("learning curve", f"{len(one)} points", unequal)


def _compare_folders(part: str, expected: Path, found: Path) -> PartDifferences:
    one, other = _contents(expected), _contents(found)
    arrays = sum(_is_array(value) for content in one.values() for value in content.values())
    listed = [
        difference
        for file in sorted({*one, *other}, key=lambda name: (name.endswith(".json"), name))
        for difference in find_differences(one.get(file, {}), other.get(file, {}))
    ]
    return PartDifferences(part, f"{arrays} arrays" if one else "none", listed)


def _contents(folder: Path) -> dict[str, dict[str, Any]]:
    """Reads the files of a policy or reward, by path below the folder."""
    from safetensors.torch import load_file

    contents: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".safetensors":
            contents[name] = dict(load_file(path))
        elif path.suffix == ".json":
            contents[name] = {name: _without_digests(json.loads(path.read_text()))}
        elif path.is_file():
            contents[name] = {name: path.read_bytes()}
    return contents


def _without_digests(document: Any) -> Any:
    if isinstance(document, dict):
        return {k: _without_digests(v) for k, v in document.items() if k not in _DIGESTS}
    if isinstance(document, list):
        return [_without_digests(item) for item in document]
    return document


def _compare_results(expected: RunDirectory, found: RunDirectory) -> PartDifferences:
    results = (run.read_result() for run in (expected, found))
    one, other = ({"env_steps": result.env_steps, **result.measures} for result in results)
    # Later versions measure more, which contradicts nothing.
    other = {name: value for name, value in other.items() if name in one}
    return PartDifferences("measures", ", ".join(one), find_differences(one, other))


def _is_array(value: Any) -> bool:
    return isinstance(value, th.Tensor | np.ndarray | np.generic)


def _array(value: Any) -> npt.NDArray[np.generic]:
    if isinstance(value, th.Tensor):
        value = value.detach().cpu()
        value = (value.float() if value.dtype == th.bfloat16 else value).numpy()
    array: npt.NDArray[np.generic] = np.asarray(value)
    return array


def _below(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)


def _short(value: object) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
