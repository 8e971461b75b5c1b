"""Pulls experts and demonstrations from a hub into its cache, and copies them from there."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from imitbench.cards.demonstrations import Conversion
from imitbench.errors import InputError
from imitbench.hub.lock_file import HubLock, LockedItem
from imitbench.hub.repo_card import CARD_FILE
from imitbench.hub.reported_results import RESULTS_FILE
from imitbench.policies.hub_policy import policy_file_names
from imitbench.store.artifact_files import SETTINGS_FILE, content_bytes, content_files
from imitbench.util import hub_client
from imitbench.util.files import digest_files
from imitbench.util.hub_client import RepoKind
from imitbench.util.hub_errors import Notify

_FURTHER_FILES = ("args.yml", "env_kwargs.yml", RESULTS_FILE, CARD_FILE)

LEROBOT_FILE = "meta/info.json"
"""File by which data sets of LeRobot are told from ours."""

_LEROBOT_FILES = ("data/*.parquet", CARD_FILE, LEROBOT_FILE)  # in subfolders, too


def files_to_fetch(kind: RepoKind, repo: str, conversion: Conversion | None = None) -> list[str]:
    """Returns patterns of the files to fetch, without videos and training logs.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        repo: Name of the repository, `owner/name`.
        conversion: How a set of LeRobot will be converted.
    """
    if conversion is not None:
        return list(_LEROBOT_FILES)
    if kind == "dataset":
        return ["data/train-*.parquet", CARD_FILE, LEROBOT_FILE]
    return [*policy_file_names(repo), SETTINGS_FILE, *_FURTHER_FILES]


class PulledArtifact(LockedItem):
    """An expert or demonstrations in the cache.

    Attributes:
        folder: Folder of its files in the cache, or of the converted copy; must not be changed.
    """

    folder: Path

    @property
    def name(self) -> str:
        """Name of the repository without its owner."""
        return self.repo.rpartition("/")[2]

    def as_locked(self) -> LockedItem:
        """Returns the entry of a lock file."""
        return LockedItem(**self.model_dump(exclude={"folder"}))


def pull(
    kind: RepoKind,
    repo: str,
    *,
    revision: str | None = None,
    conversion: Conversion | None = None,
    lock: HubLock | None = None,
    notify: Notify = hub_client.silent,
) -> PulledArtifact:
    """Fetches an expert or demonstrations into the cache, unless cached.

    Args:
        kind: `model` for an expert, `dataset` for demonstrations.
        repo: Name of the repository, `owner/name`.
        revision: Branch, tag or commit; when `None`, that of the lock or the latest.
        conversion: How demonstrations of LeRobot become those of an environment; `None` for a
            repository in the layout of this package.
        lock: Earlier fetches, whose content must not have changed.
        notify: Called with messages about downloads and pauses.

    Raises:
        InputError: The repository cannot be fetched, has no files of the kind, or differs from the
            lock.
    """
    locked = lock.find(kind, repo) if lock else None
    if locked is not None and revision is None:
        revision = locked.revision
    fetched = hub_client.fetch(
        repo,
        files=files_to_fetch(kind, repo, conversion),
        kind=kind,
        revision=revision,
        notify=notify,
    )
    try:
        files, digest = _content(kind, fetched.folder, repo, conversion)
    except InputError as error:
        where = f"{hub_client.repo_path(kind, repo)} at {fetched.commit[:12]}"
        if kind == "dataset" and conversion is None and (fetched.folder / LEROBOT_FILE).is_file():
            raise InputError(
                f"{where}: a set of LeRobot, whose recordings may not be what the environment "
                f"shows; fetch it by `hf download {repo} --repo-type dataset --local-dir FOLDER`, "
                "and convert it by `imitbench demos convert FOLDER OUT --obs NAME --env ID`"
            ) from error
        what = "an expert" if kind == "model" else "demonstrations"
        raise InputError(f"{where}: not a repository of {what} ({error})") from error
    pulled = PulledArtifact(
        kind=kind,
        repo=repo,
        revision=fetched.commit,
        folder=fetched.folder,
        digest=digest,
        size=content_bytes(files),
    )
    if locked is not None and locked.revision == pulled.revision:
        _check_against(locked, pulled)
    if conversion is None:
        return pulled
    from imitbench.data.lerobot_conversions import converted_copy

    return pulled.model_copy(update={"folder": converted_copy(fetched.folder, conversion)})


def _content(
    kind: RepoKind, folder: Path, repo: str, conversion: Conversion | None
) -> tuple[list[Path], str]:
    """Returns the files of a repository that are read, and their digest in records of runs."""
    if conversion is None:
        files = content_files(kind, folder, repo)
        return files, digest_files(folder, files)
    from imitbench.data.lerobot_conversions import digest_of_conversion
    from imitbench.data.lerobot_source import lerobot_files

    return lerobot_files(folder), digest_of_conversion(folder, conversion)


def copy_out(pulled: PulledArtifact, parent: Path) -> Path:
    """Copies the files to `parent/<name of the repository>`, replacing existing content.

    An interrupted copy leaves the old content.

    Args:
        pulled: Result of `pull`.
        parent: Folder of the copy, created if missing.

    Returns:
        Folder of the copy.

    Raises:
        InputError: The copy cannot be written.
    """
    target = parent / pulled.name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{pulled.name}.", dir=parent) as scratch:
            fresh, old = Path(scratch) / "fresh", Path(scratch) / "old"
            shutil.copytree(pulled.folder, fresh)
            try:
                with suppress(FileNotFoundError):
                    target.rename(old)
                fresh.rename(target)
            except BaseException:
                if old.exists() and not target.exists():
                    old.rename(target)
                raise
    except (OSError, shutil.Error) as error:
        raise InputError(f"{target}: cannot be written ({error})") from error
    return target


def _check_against(locked: LockedItem, pulled: PulledArtifact) -> None:
    if locked.digest != pulled.digest:
        raise InputError(
            f"{pulled.folder}: content differs from the lock (digest {pulled.digest[:12]}, "
            f"expected {locked.digest[:12]}); remove the folder, then run `imitbench prefetch`"
        )
