"""Downloads from a Hugging Face hub with `huggingface_hub`, into the cache of that package.

It reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` as usual.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from imitbench.errors import InputError
from imitbench.untrusted.limits import beyond, limits
from imitbench.util.hub_errors import (
    DamagedDownloadError,
    Notify,
    UnreachableError,
    as_input_error,
    at_revision,
    is_transient,
    reason_of,
    with_retries,
)
from imitbench.util.text_line import one_line

RepoKind = Literal["model", "dataset"]
_ANSWER_S = 15.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Snapshot:
    """Files of a repository at one commit, in the cache.

    Attributes:
        folder: Their folder in the cache; must not be modified.
        commit: 40 hexadecimal digits.
    """

    folder: Path
    commit: str


def silent(_message: str) -> None:
    """Ignores a message."""


def repo_path(kind: RepoKind, repo: str) -> str:
    """Returns the name of a repository for messages; data sets have the prefix of their URL."""
    return repo if kind == "model" else f"{kind}s/{repo}"


def is_commit(revision: str | None) -> bool:
    """Whether a revision is a full commit hash, which never changes its content."""
    return revision is not None and _COMMIT.fullmatch(revision) is not None


def is_offline() -> bool:
    """Whether requests to the hub are forbidden (`HF_HUB_OFFLINE`)."""
    from huggingface_hub import constants

    asked_for = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    return asked_for or bool(constants.HF_HUB_OFFLINE)


def cache_directory() -> Path:
    """Returns the folder of the cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE).expanduser()


def cached_folder(cache: Path, kind: RepoKind, repo: str, commit: str) -> Path:
    """Returns the folder of a commit in the cache; it may not exist.

    Args:
        cache: Folder of the cache.
        kind: Kind of the repository.
        repo: Name of the repository, `owner/name`.
        commit: 40 hexadecimal digits.
    """
    return cache / f"{kind}s--{repo.replace('/', '--')}" / "snapshots" / commit


def resolve_commit(
    repo: str, *, kind: RepoKind = "model", revision: str | None = None, notify: Notify = silent
) -> str:
    """Asks the hub for the commit of a revision.

    Args:
        repo: Name of the repository, `owner/name`.
        kind: Kind of the repository.
        revision: Branch, tag or commit; `None` for the default branch.
        notify: Called with messages about pauses.

    Raises:
        InputError: The repository or revision does not exist, or access is denied.
        UnreachableError: The hub did not answer.
    """
    name = repo_path(kind, repo)
    with as_input_error(name, revision):
        if is_offline():
            raise UnreachableError(
                f"{name}: offline mode (HF_HUB_OFFLINE) forbids contacting the hub"
            )
        return with_retries(lambda: _ask_for_commit(repo, kind, revision), name, notify)


def fetch(
    repo: str,
    *,
    files: Sequence[str],
    kind: RepoKind = "model",
    revision: str | None = None,
    notify: Notify = silent,
) -> Snapshot:
    """Downloads files of a repository that are not in the cache.

    For a commit in the cache, the hub is not contacted. A branch or tag is looked up on the hub;
    if the hub is unreachable, its last known commit is taken from the cache, with a message.
    Processes that fetch the same files wait for the first one.

    Args:
        repo: Name of the repository, `owner/name`.
        files: Shell-style patterns of the requested files; patterns without a match are ignored.
        kind: Kind of the repository.
        revision: Branch, tag or commit; `None` for the default branch.
        notify: Called with messages about downloads, pauses, and a hub that cannot be reached.

    Raises:
        InputError: The repository or revision does not exist, access is denied, or the content is
            damaged in every attempt.
        UnreachableError: The hub did not answer, and the files are not in the cache.
    """
    name = repo_path(kind, repo)
    with as_input_error(name, revision):
        cached = _find_cached(repo, kind, revision, files)
        if cached is not None and (
            is_offline() or (is_commit(revision) and _is_whole(repo, kind, cached.commit))
        ):
            return cached
        if is_offline():
            raise UnreachableError(
                f"{name}{at_revision(revision)}: not in the cache, and offline mode "
                "(HF_HUB_OFFLINE) forbids fetching it"
            )
        try:
            return with_retries(
                lambda: _download(repo, kind, revision, files, notify),
                name,
                notify,
                give_up=cached is not None,
            )
        except Exception as error:
            if cached is None or not is_transient(error):
                raise
            notify(
                f"{name}: the hub cannot be reached ({reason_of(error)}); using commit "
                f"{cached.commit[:12]} from the cache"
            )
            return cached


def _find_cached(
    repo: str, kind: RepoKind, revision: str | None, files: Sequence[str]
) -> Snapshot | None:
    import huggingface_hub
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        folder = huggingface_hub.snapshot_download(
            repo,
            repo_type=kind,
            revision=revision,
            allow_patterns=list(files),
            local_files_only=True,
        )
    except LocalEntryNotFoundError:
        return None
    return Snapshot(Path(folder), Path(folder).name)


def _is_whole(repo: str, kind: RepoKind, commit: str) -> bool:
    """Whether the cache has the list of a commit's files, which a complete search needs.

    An interrupted download leaves files without that list.
    """
    import huggingface_hub
    from huggingface_hub.errors import CachedRepoTreeNotFoundError

    try:
        huggingface_hub.get_cached_repo_tree(repo, repo_type=kind, revision=commit)
    except CachedRepoTreeNotFoundError:
        return False
    return True


def _ask_for_commit(repo: str, kind: RepoKind, revision: str | None) -> str:
    import huggingface_hub

    info = huggingface_hub.HfApi().repo_info(
        repo, repo_type=kind, revision=revision, timeout=_ANSWER_S
    )
    if info.sha is None:
        raise DamagedDownloadError("the hub names no commit")
    if not is_commit(info.sha):  # it becomes the name of a folder
        raise InputError(
            f"{repo_path(kind, repo)}: the hub names the commit {one_line(info.sha, 60)!r}, which "
            "is not 40 hexadecimal digits; check HF_ENDPOINT"
        )
    return info.sha


def _download(
    repo: str, kind: RepoKind, revision: str | None, files: Sequence[str], notify: Notify
) -> Snapshot:
    import huggingface_hub

    commit = _ask_for_commit(repo, kind, revision)
    cached = _find_cached(repo, kind, commit, files)
    fresh = cached is None or not _is_whole(repo, kind, commit)
    if fresh:
        notify(f"{repo_path(kind, repo)}: fetching commit {commit[:12]}")
        files = _download_files(repo, kind, commit, files)
    # Downloads nothing more, but records in the cache that the commit is complete, and which
    # commit the revision is. A file that the hub lists only now would be without limits.
    folder = Path(
        huggingface_hub.snapshot_download(
            repo,
            repo_type=kind,
            revision=revision,
            allow_patterns=list(files),
            tqdm_class=hidden_bar(),
        )
    )
    if folder.name != commit:
        raise DamagedDownloadError("the revision changed during the download")
    if fresh:
        _check_content(folder)
    return Snapshot(folder, commit)


def _download_files(
    repo: str, kind: RepoKind, commit: str, patterns: Sequence[str]
) -> Sequence[str]:
    """Downloads files sequentially in this thread, so that Ctrl-C stops it immediately.

    Returns:
        A pattern for each of the files, which fits nothing else.
    """
    import huggingface_hub

    name = repo_path(kind, repo)
    tree = huggingface_hub.HfApi().list_repo_tree(
        repo, repo_type=kind, revision=commit, recursive=True
    )
    sizes = {
        file: size
        for file, size in stated_sizes(name, tree).items()
        if any(fnmatchcase(file, pattern) for pattern in patterns)
    }
    check_sizes(name, sizes)
    for file, size in sizes.items():
        huggingface_hub.hf_hub_download(
            repo,
            file,
            repo_type=kind,
            revision=commit,
            tqdm_class=counting_bar(name, file, size),
        )
    return [glob.escape(file) for file in sizes]


def _check_content(folder: Path) -> None:
    """Checks the SHA-256 of large files, which is their name in the cache.

    Names of small files are not checked: on some mirrors they are not hashes of the content.
    """
    for path in sorted(folder.rglob("*")):
        blob = path.resolve()
        if not path.is_symlink() or not _SHA256.fullmatch(blob.name):
            continue
        found = hashlib.sha256()
        with blob.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                found.update(chunk)
        if found.hexdigest() != blob.name:
            path.unlink(missing_ok=True)
            blob.unlink(missing_ok=True)
            raise DamagedDownloadError(
                f"{path.relative_to(folder)} arrived with SHA-256 {found.hexdigest()[:12]}, not "
                f"{blob.name[:12]} as the hub says"
            )


def stated_sizes(name: str, entries: Iterable[Any]) -> dict[str, int]:
    """Returns the size of each file in the hub's list of a repository.

    Args:
        name: Name of the repository, for messages.
        entries: Files and folders, of which a hub may send any number.

    Raises:
        InputError: There are too many, or a size is not a whole number from 0.
    """
    most = limits().entries
    listed = list(islice(entries, most + 1))
    if len(listed) > most:
        raise InputError(f"{name}: {beyond('entries', f'the hub lists more than {most:,} files')}")
    sizes = {}
    for entry in listed:
        size = getattr(entry, "size", None)
        if not hasattr(entry, "blob_id"):  # a folder
            continue
        if type(size) is not int or size < 0:
            raise InputError(
                f"{name}: the hub states the size {one_line(repr(size), 40)} of "
                f"{one_line(entry.path, 100)}; check HF_ENDPOINT"
            )
        sizes[entry.path] = size
    return sizes


def check_sizes(name: str, sizes: Mapping[str, int]) -> None:
    """Checks the sizes of files before the first of them is fetched.

    Args:
        name: Name of the repository, for messages.
        sizes: Stated size in bytes of each file.

    Raises:
        InputError: A file, or all together, are larger than the limit.
    """
    largest = max(sizes, key=lambda file: sizes[file], default=None)
    if largest is None:
        return
    if sizes[largest] > limits().hub_file_bytes:
        found = f"{one_line(largest, 100)} has {sizes[largest]:,} bytes"
        raise InputError(f"{name}: {beyond('hub_file_bytes', found)}")
    total = sum(sizes.values())
    if total > limits().hub_pull_bytes:
        found = f"{len(sizes)} files have {total:,} bytes together"
        raise InputError(f"{name}: {beyond('hub_pull_bytes', found)}")


def hidden_bar() -> type:
    """Returns a class of progress bars that are never shown."""
    from huggingface_hub.utils.tqdm import tqdm

    class HiddenBar(tqdm):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})  # type: ignore[no-untyped-call]

    return HiddenBar


def counting_bar(name: str, file: str, size: int) -> type:
    """Returns a class of progress bars that ends a download with more bytes than stated.

    The client tells its bar of each piece before it writes the piece.

    Args:
        name: Name of the repository, for messages.
        file: Name of the file.
        size: Its stated size in bytes.
    """
    from huggingface_hub.utils.tqdm import tqdm

    class CountingBar(tqdm):
        arrived: float = 0

        def update(self, n: float | None = 1) -> Any:
            self.arrived += n or 0  # negative where the client begins anew
            if self.arrived > size:
                raise InputError(
                    f"{name}: the hub sends more of {one_line(file, 100)} than the {size:,} bytes "
                    "that it states; try again later, or check HF_ENDPOINT"
                )
            return super().update(n)

    return CountingBar
