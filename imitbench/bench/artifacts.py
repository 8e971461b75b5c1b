"""Experts and demonstrations: where they lie, what pins them, and reading them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError
from imitbench.store.records import ArtifactSpec, DemoSpec
from imitbench.util.files import digest_files

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

_POLICY_FILES = ("policy.json", "policy.safetensors")


def source_root(source: str, suite: str) -> Path:
    """Folder that holds `experts/` and `demos/` of a suite.

    Args:
        source: `bundled`, or `path:DIR`.
        suite: Name of the suite.

    Raises:
        InputError: Neither form, or no such folder.
    """
    if source == "bundled":
        return suite_directory(suite)
    kind, _, where = source.partition(":")
    if kind != "path" or not where:
        raise InputError(f"--source {source}: must be 'bundled' or 'path:DIR'")
    root = Path(where)
    if not root.is_dir():
        raise InputError(
            f"--source {source}: {root} is no folder; it must hold experts/ and demos/"
        )
    return root


def pin_expert(root: Path, source: str, repo: str) -> ArtifactSpec:
    """Pins an expert by the content of its policy files.

    Raises:
        InputError: It is not there.
    """
    directory = root / "experts" / repo
    files = [directory / name for name in _POLICY_FILES]
    for path in files:
        if not path.is_file():
            raise InputError(
                f"{path}: no such file; the expert of this environment is missing from "
                f"source '{source}'"
            )
    return ArtifactSpec(source=source, repo=repo, digest=digest_files(directory, files))


def pin_demos(root: Path, source: str, repo: str, available: int, count: int | None) -> DemoSpec:
    """Pins a set of demonstrations by content, and how many of them to use.

    Args:
        root: Folder of the source.
        source: Name of the source.
        repo: Folder under `demos/`.
        available: How many trajectories the set has.
        count: How many to use; `None` for all.

    Raises:
        InputError: The set is not there or too small.
    """
    if count is not None and not 1 <= count <= available:
        raise InputError(
            f"--n-demos {count}: {repo} of source '{source}' has {available} trajectories; "
            f"ask for 1 to {available}"
        )
    directory = root / "demos" / repo
    return DemoSpec(
        source=source,
        repo=repo,
        digest=digest_files(directory, _demo_files(directory, source)),
        available=available,
        count=count or available,
    )


def count_trajectories(root: Path, source: str, repo: str) -> int:
    """Number of trajectories in a set of demonstrations.

    Raises:
        InputError: It is missing or no parquet.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    directory = root / "demos" / repo
    for path in _demo_files(directory, source):
        try:
            total += pq.ParquetFile(path).metadata.num_rows
        except (OSError, pa.ArrowException) as error:
            problem = str(error).splitlines()[0]
            raise InputError(f"{path}: not a readable parquet file ({problem})") from error
    return total


def load_expert(root: Path, spec: ArtifactSpec, device: str) -> BasePolicy:
    """Loads the expert that `spec` pins.

    Raises:
        InputError: Its content is not what was pinned.
    """
    from imitbench.policies.storage import load_policy

    found = pin_expert(root, spec.source, spec.repo)
    directory = root / "experts" / spec.repo
    _check_digest(directory, expected=spec.digest, found=found.digest)
    return load_policy(directory, device=device)


def load_demos(root: Path, spec: DemoSpec) -> Sequence[TrajectoryWithRew]:
    """Loads the trajectories that `spec` pins, in their order in the set.

    Raises:
        InputError: Their content is not what was pinned, or cannot be read.
    """
    from imitbench.data.demonstrations import read_demonstrations

    directory = root / "demos" / spec.repo
    found = digest_files(directory, _demo_files(directory, spec.source))
    _check_digest(directory, expected=spec.digest, found=found)
    trajectories = read_demonstrations(directory)
    if spec.count == len(trajectories):
        return trajectories
    rng = np.random.default_rng(spec.subsample_seed)
    chosen = np.sort(rng.choice(len(trajectories), size=spec.count, replace=False))
    return [trajectories[index] for index in chosen]


def published_return(root: Path, repo: str) -> float | None:
    """Mean return on an expert's `results.json`; `None` where it has none."""
    path = root / "experts" / repo / "results.json"
    if not path.exists():
        return None
    try:
        return float(json.loads(path.read_text())["mean_reward"])
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: mean_reward cannot be read ({error!r})") from error


def _demo_files(directory: Path, source: str) -> list[Path]:
    files = sorted((directory / "data").glob("*.parquet"))
    if not files:
        raise InputError(
            f"{directory / 'data'}: no parquet file there; the demonstrations of this "
            f"environment are missing from source '{source}'"
        )
    return files


def _check_digest(directory: Path, *, expected: str, found: str) -> None:
    if found != expected:
        raise InputError(
            f"{directory}: content changed since the run was planned (digest {found[:12]}, "
            f"expected {expected[:12]}); run the command again to plan with the new content"
        )
