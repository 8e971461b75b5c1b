"""Selects the files of a hub repository to fetch."""

from __future__ import annotations

from imitbench.hub.repo_card import CARD_FILE
from imitbench.hub.reported_results import RESULTS_FILE
from imitbench.policies.hub_policy import policy_file_names
from imitbench.store.artifact_files import SETTINGS_FILE
from imitbench.util.hub_client import RepoKind

_FURTHER_FILES = ("args.yml", "env_kwargs.yml", RESULTS_FILE, CARD_FILE)


def files_to_fetch(kind: RepoKind, repo: str) -> list[str]:
    """Patterns of the files to fetch, without videos and training logs.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        repo: Name of the repository, `owner/name`.
    """
    if kind == "dataset":
        return ["data/train-*.parquet", CARD_FILE]
    return [*policy_file_names(repo), SETTINGS_FILE, *_FURTHER_FILES]
