"""The files of experts and demonstrations, over which their digests are computed.

Bundled folders have the same layout as hub repositories, so this module works for both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imitbench.cards.demonstrations import PolicySet
from imitbench.errors import InputError
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.hub_policy import (
    archive_name,
    find_policy,
    lerobot_policy_files,
    own_policy_folder,
)
from imitbench.records.runs import EnvironmentSpec, canonical_digest
from imitbench.util.files import digest_files
from imitbench.util.hub_client import RepoKind

SETTINGS_FILE = "config.yml"
"""Names wrappers that a policy of another tool needs."""


def content_files(kind: RepoKind, folder: Path, repo: str) -> list[Path]:
    """Returns the files of an expert or of demonstrations.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        folder: Folder with the files of the repository.
        repo: Name of the repository.

    Raises:
        InputError: A file is missing.
    """
    return _demo_files(folder) if kind == "dataset" else _expert_files(folder, repo)


def recipe_digest(policy: Path, environment: EnvironmentSpec, recipe: PolicySet) -> str:
    """Returns a digest of what a set that is not bundled is collected from.

    Args:
        policy: Folder of the stored policy, if that of a checkpoint acts.
        environment: Environment of the suite's card.
        recipe: The set on the card.

    Raises:
        InputError: The policy is missing.
    """
    actor = "seeded random"  # "random" names sets whose actions no seed had determined
    if recipe.policy != "random":
        actor = digest_files(policy, content_files("model", policy, recipe.repo))
    return canonical_digest(
        {
            "environment": environment.model_dump(mode="json"),
            "policy": actor,
            "seed": recipe.seed,
            "trajectories": recipe.trajectories,
        }
    )


def content_bytes(files: Sequence[Path]) -> int:
    """Returns the total size of the files in bytes."""
    return sum(path.stat().st_size for path in files)


def _expert_files(folder: Path, repo: str) -> list[Path]:
    policy = find_policy(folder, repo)
    if policy is None:
        raise InputError(f"{folder}: found neither policy.json nor {archive_name(repo)}")
    if policy.is_dir() and own_policy_folder(policy) is None:
        files = lerobot_policy_files(policy)
    elif policy.is_dir():  # a policy of this library needs no other files
        files = [policy / name for name in ("policy.json", "policy.safetensors")]
    else:
        statistics, settings = open_expert_folder(policy).statistics, folder / SETTINGS_FILE
        files = [policy, *([statistics] if statistics else [])]
        files += [settings] if settings.is_file() else []
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    return files


def _demo_files(folder: Path) -> list[Path]:
    files = sorted((folder / "data").glob("*.parquet"))
    if not files:
        raise InputError(f"{folder / 'data'}: found no parquet file")
    return files
