"""Policies on the Hugging Face hub: how they are named, and which files they are."""

from __future__ import annotations

from pathlib import Path

from imitbench.errors import InputError
from imitbench.util import hub_client

STATISTICS_FILE = "vec_normalize.pkl"
_OWN_FILES = ("policy.json", "policy.safetensors")
_OWN_FOLDERS = ("", "policy/")


def repository_name(organization: str, algo: str, env_name: str) -> str:
    """Name of the repository that holds an agent.

    Args:
        organization: Owner on the hub.
        algo: Such as `ppo`.
        env_name: Gymnasium id; a module before a colon is left out.
    """
    return f"{organization}/{agent_name(algo, env_name)}"


def agent_name(algo: str, env_name: str) -> str:
    """`<algo>-<environment>`, with dashes for slashes."""
    return f"{algo}-{env_name.rpartition(':')[2].replace('/', '-')}"


def policy_file_names(repo: str) -> list[str]:
    """Names that the files of a policy may have in a repository of that name.

    Args:
        repo: Name of the repository, with or without its owner.
    """
    own = [f"{folder}{name}" for folder in _OWN_FOLDERS for name in _OWN_FILES]
    return [*own, archive_name(repo), STATISTICS_FILE]


def archive_name(repo: str) -> str:
    """Name of the zip of Stable-Baselines3 in a repository of that name."""
    return f"{repo.rpartition('/')[2]}.zip"


def find_policy(folder: Path, repo: str) -> Path | None:
    """The policy among the files of a repository.

    Args:
        folder: Folder with the files.
        repo: Name of the repository.

    Returns:
        Folder with a policy in this library's own form, or else path of a zip of
        Stable-Baselines3; `None` where there is neither.
    """
    for own in (folder / name for name in _OWN_FOLDERS):
        if (own / _OWN_FILES[0]).is_file():
            return own
    archive = folder / archive_name(repo)
    return archive if archive.is_file() else None


def fetch_policy(organization: str, algo: str, env_name: str, revision: str | None) -> Path:
    """Fetches a policy into the hub's cache; what is there already is not fetched again.

    Args:
        organization: Owner on the hub.
        algo: Such as `ppo`.
        env_name: Gymnasium id.
        revision: Branch, tag or commit; the newest commit when `None`.

    Returns:
        As `find_policy`.

    Raises:
        InputError: No such repository, revision or file, or the hub cannot be reached.
    """
    repo = repository_name(organization, algo, env_name)
    fetched = hub_client.fetch(repo, files=policy_file_names(repo), revision=revision)
    policy = find_policy(fetched.folder, repo)
    if policy is None:
        raise InputError(
            f"{repo}: the repository has neither policy.json nor {archive_name(repo)}; "
            "check organization= and env_name="
        )
    return policy
