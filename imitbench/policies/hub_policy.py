"""Fetches the files of a policy from the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from imitbench.errors import InputError

STATISTICS_FILE = "vec_normalize.pkl"


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


def fetch_policy(organization: str, algo: str, env_name: str, revision: str | None) -> Path:
    """Fetches a policy into the hub's cache; what is there already is not fetched again.

    The address, the cache and offline mode are those of the hub's own client (`HF_ENDPOINT`,
    `HF_HOME`, `HF_HUB_OFFLINE`).

    Args:
        organization: Owner on the hub.
        algo: Such as `ppo`.
        env_name: Gymnasium id.
        revision: Branch, tag or commit; the newest commit when `None`.

    Returns:
        Folder with a policy in this library's own form, or else path of a zip of
        Stable-Baselines3.

    Raises:
        InputError: No such repository, revision or file, or the hub cannot be reached.
    """
    name = agent_name(algo, env_name)
    archive = f"{name}.zip"
    wanted = [
        f"{folder}policy.{suffix}"
        for folder in ("", "policy/")
        for suffix in ("json", "safetensors")
    ]
    folder = _download(
        repository_name(organization, algo, env_name), revision, [*wanted, archive, STATISTICS_FILE]
    )
    for own in (folder, folder / "policy"):
        if (own / "policy.json").is_file():
            return own
    if (folder / archive).is_file():
        return folder / archive
    raise InputError(
        f"{organization}/{name}: the repository has neither policy.json nor {archive}; "
        "check organization= and env_name="
    )


def _download(repository: str, revision: str | None, files: list[str]) -> Path:
    # Imported here: the client takes a while to load, and most policies are local files.
    import huggingface_hub
    from huggingface_hub import errors

    at = f" at revision '{revision}'" if revision else ""
    try:
        return Path(
            huggingface_hub.snapshot_download(repository, revision=revision, allow_patterns=files)
        )
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{repository}: no revision '{revision}' on the hub") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{repository}: no such repository on the hub, or it is private; check "
            "organization= and env_name="
        ) from error
    except errors.HFValidationError as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{repository}: no name of a repository ({problem})") from error
    except (OSError, errors.HfHubHTTPError) as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(
            f"{repository}{at}: not in the cache, and the hub cannot be reached ({problem})"
        ) from error
