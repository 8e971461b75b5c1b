"""Names and files of policies on the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from imitbench.cards.catalog import suite_directory, suite_names
from imitbench.errors import InputError
from imitbench.util import hub_client

STATISTICS_FILE = "vec_normalize.pkl"
_OWN_FILES = ("policy.json", "policy.safetensors")
_OWN_FOLDERS = ("", "policy/")
_LEROBOT_FOLDERS = ("", "pretrained_model/")
_LEROBOT_FILES = ("config.json", "model.safetensors", "policy_pre*", "policy_post*")


def policy_file_names(repo: str) -> list[str]:
    """Lists possible names of a policy's files in a repository.

    Args:
        repo: Name of the repository, with or without its owner.
    """
    own = [f"{folder}{name}" for folder in _OWN_FOLDERS for name in _OWN_FILES]
    return [*own, archive_name(repo), STATISTICS_FILE, *_LEROBOT_FILES]


def archive_name(repo: str) -> str:
    """Returns the name of the Stable-Baselines3 zip in a repository."""
    return f"{repo.rpartition('/')[2]}.zip"


def find_policy(folder: Path, repo: str) -> Path | None:
    """Finds the policy among the files of a repository.

    Args:
        folder: Folder with the files.
        repo: Name of the repository, with or without its owner.

    Returns:
        Folder with a policy in this library's format, or else path of a zip of
        Stable-Baselines3, or else folder with a policy of LeRobot; `None` if none exists.
    """
    archive = folder / archive_name(repo)
    found = archive if archive.is_file() else lerobot_policy_folder(folder)
    return own_policy_folder(folder) or found


def own_policy_folder(folder: Path) -> Path | None:
    """Returns the folder of a policy in this library's format: this one, or `policy` in it."""
    folders = (folder / name for name in _OWN_FOLDERS)
    return next((own for own in folders if (own / _OWN_FILES[0]).is_file()), None)


def lerobot_policy_folder(folder: Path) -> Path | None:
    """Returns the folder of a policy of LeRobot: this one, or that of a checkpoint of its training.

    Zips of Stable-Baselines3 may have a `config.json`, too, and come first.
    """
    folders = (folder / name for name in _LEROBOT_FOLDERS)
    return next((own for own in folders if (own / _LEROBOT_FILES[0]).is_file()), None)


def lerobot_policy_files(folder: Path) -> list[Path]:
    """Returns the files that a policy of LeRobot is read from, in order."""
    return sorted(path for name in _LEROBOT_FILES for path in folder.glob(name))


def fetch_policy(organization: str, algo: str, env_name: str, revision: str | None) -> Path:
    """Downloads a policy to the hub's cache, except for files that are cached already.

    Args:
        organization: Owner on the hub.
        algo: Name of the algorithm, such as `ppo`.
        env_name: Gymnasium id; a module before a colon is dropped.
        revision: Branch, tag or commit; `None` for the latest commit.

    Returns:
        Folder or zip, as from `find_policy`.

    Raises:
        InputError: Repository, revision or files are missing, or the hub cannot be reached.
    """
    repo = f"{organization}/{algo}-{env_name.rpartition(':')[2].replace('/', '-')}"
    try:
        fetched = hub_client.fetch(repo, files=policy_file_names(repo), revision=revision)
    except InputError as error:
        name = repo.partition("/")[2]
        if not any((suite_directory(suite) / "experts" / name).is_dir() for suite in suite_names()):
            raise
        raise type(error)(
            f"{error}; an expert of this environment is bundled: imitbench.load_policy('{name}')"
        ) from error
    policy = find_policy(fetched.folder, repo)
    if policy is None:
        raise InputError(
            f"{repo}: the repository has neither policy.json nor {archive_name(repo)}; "
            "check organization= and env_name="
        )
    return policy
