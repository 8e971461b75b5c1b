"""Which files of a repository matter, and the digest that pins them.

Bundled folders have the very layout of repositories, so that all of this holds for them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from imitbench.errors import InputError
from imitbench.hub.card import CARD_FILE
from imitbench.hub.published_results import RESULTS_FILE
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.policies.hub_policy import archive_name, find_policy, policy_file_names
from imitbench.util.files import digest_files
from imitbench.util.hub_client import RepoKind

_SETTINGS_FILE = "config.yml"  # tells of wrappers that a policy needs
_FURTHER_FILES = ("args.yml", "env_kwargs.yml", RESULTS_FILE, CARD_FILE)


def wanted_files(kind: RepoKind, repo: str) -> list[str]:
    """Patterns of the files worth fetching; videos and training logs are not.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        repo: Name of the repository.
    """
    if kind == "dataset":
        return ["data/train-*.parquet", CARD_FILE]
    return [*policy_file_names(repo), _SETTINGS_FILE, *_FURTHER_FILES]


def content_files(kind: RepoKind, folder: Path, repo: str) -> list[Path]:
    """The files that an expert or demonstrations are read from.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        folder: Folder with the files of the repository.
        repo: Name of the repository.

    Raises:
        InputError: A file is missing.
    """
    return _demo_files(folder) if kind == "dataset" else _expert_files(folder, repo)


def content_digest(folder: Path, files: Sequence[Path]) -> str:
    """SHA-256 over files and their names, as 64 hexadecimal digits."""
    return digest_files(folder, files)


def content_bytes(files: Sequence[Path]) -> int:
    """Size of the files together."""
    return sum(path.stat().st_size for path in files)


def _expert_files(folder: Path, repo: str) -> list[Path]:
    policy = find_policy(folder, repo)
    if policy is None:
        raise InputError(f"{folder}: no policy there, neither policy.json nor {archive_name(repo)}")
    if policy.is_dir():  # complete in itself
        files = [policy / name for name in ("policy.json", "policy.safetensors")]
    else:
        statistics, settings = open_expert_folder(policy).statistics, folder / _SETTINGS_FILE
        files = [policy, *([statistics] if statistics else [])]
        files += [settings] if settings.is_file() else []
    for path in files:
        if not path.is_file():
            raise InputError(f"{path}: no such file")
    return files


def _demo_files(folder: Path) -> list[Path]:
    files = sorted((folder / "data").glob("*.parquet"))
    if not files:
        raise InputError(f"{folder / 'data'}: no parquet file there")
    return files
