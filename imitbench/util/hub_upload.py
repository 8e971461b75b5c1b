"""Uploads files to a Hugging Face hub in one commit, with `huggingface_hub`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from imitbench.errors import InputError
from imitbench.util.hub_client import RepoKind, is_offline, repo_path, silent
from imitbench.util.hub_errors import Notify, UnreachableError, as_upload_error, with_retries

_ANSWER_S = 15.0
# Files that the hub creates in any repository.
_OF_ANYBODY = {".gitattributes", "README.md", "LICENSE"}


@dataclass(frozen=True)
class UploadResult:
    """Result of an upload.

    Attributes:
        commit: Latest commit, 40 hexadecimal digits.
        url: URL of that commit.
        created: Whether the repository is new.
        changed: Whether the commit is new; `False` if the hub had the same files already.
        removed: Files of an earlier upload that were deleted.
    """

    commit: str
    url: str
    created: bool
    changed: bool
    removed: tuple[str, ...]


@dataclass(frozen=True)
class _RemoteState:
    """State of a repository before the upload."""

    commit: str | None
    files: tuple[str, ...]
    tags: tuple[str, ...]
    private: bool


def repository_url(kind: RepoKind, repo: str) -> str:
    """Returns the URL of a repository, without a request."""
    from huggingface_hub import constants

    return f"{constants.ENDPOINT}/{repo_path(kind, repo)}"


def check_repository_name(repo: str) -> None:
    """Checks that a name has the form `owner/name`, without a request.

    Raises:
        InputError: It does not.
    """
    if repo.count("/") != 1:
        raise InputError(f"{repo}: not owner/name; owner is your name on the hub, or a group's")
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    with as_upload_error(repo):
        validate_repo_id(repo)


def upload_files(
    repo: str,
    files: Mapping[str, Path],
    *,
    kind: RepoKind,
    message: str,
    private: bool = False,
    owned: Sequence[str],
    tag: str,
    notify: Notify = silent,
) -> UploadResult:
    """Creates a repository unless it exists, and adds files to it in one commit.

    Large files that the hub has already are not uploaded, and no empty commit is made, so that a
    failed upload can be repeated by the same call.

    Args:
        repo: Name of the repository, `owner/name`.
        files: Local files by path in the repository.
        kind: Kind of the repository.
        message: Message of the commit.
        private: Whether a new repository is private.
        owned: Shell-style patterns of files from earlier uploads of this kind. Those that are not
            among `files` are deleted in the same commit.
        tag: Tag on the card of such uploads. A repository without it, or with files but none of
            those owned, has other content and is not changed.
        notify: Called with messages about progress and pauses.

    Raises:
        InputError: There is no token, it has no write permission, the repository has other
            content, or is public although `private` is requested; or the hub refuses the files.
        UnreachableError: The hub did not answer, or the connection was interrupted.
    """
    import huggingface_hub

    name = repo_path(kind, repo)
    with as_upload_error(name):
        if is_offline():
            raise UnreachableError(f"{name}: offline mode (HF_HUB_OFFLINE) forbids uploading")
        if huggingface_hub.get_token() is None:
            raise InputError(
                f"{name}: no token; set HF_TOKEN to a token that may write, or log in by "
                "`hf auth login`"
            )
        before = with_retries(lambda: _look_up(repo, kind), name, notify)
        if before is None:
            notify(f"{name}: creating the repository{', private' if private else ''}")
            with_retries(lambda: _create(repo, kind, private), name, notify)
            found = _RemoteState(None, (), (), private)
        else:
            found = before
            _check_found(name, found, private, owned, tag)
        stale = tuple(
            path
            for path in found.files
            if path not in files and any(fnmatchcase(path, pattern) for pattern in owned)
        )
        notify(f"{name}: uploading {len(files)} files")
        done = with_retries(
            lambda: _commit(repo, kind, files, stale, message, notify), name, notify
        )
    return UploadResult(
        commit=done.oid,
        url=done.commit_url,
        created=before is None,
        changed=done.oid != found.commit,
        removed=stale,
    )


def _look_up(repo: str, kind: RepoKind) -> _RemoteState | None:
    import huggingface_hub
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        info: Any = huggingface_hub.HfApi().repo_info(repo, repo_type=kind, timeout=_ANSWER_S)
    except RepositoryNotFoundError:  # or the token may not read it; then creating it fails
        return None
    files = tuple(file.rfilename for file in info.siblings or ())
    return _RemoteState(info.sha, files, tuple(info.tags or ()), bool(info.private))


def _create(repo: str, kind: RepoKind, private: bool) -> None:
    import huggingface_hub

    # `None` leaves the choice to the owner's settings.
    huggingface_hub.HfApi().create_repo(
        repo, repo_type=kind, private=private or None, exist_ok=True
    )


def _check_found(
    name: str, found: _RemoteState, private: bool, owned: Sequence[str], tag: str
) -> None:
    if private and not found.private:
        raise InputError(
            f"{name}: exists already and is public; make it private on the hub, or choose "
            "another name"
        )
    foreign = [path for path in found.files if path not in _OF_ANYBODY]
    ours = any(fnmatchcase(path, pattern) for path in foreign for pattern in owned)
    if foreign and not (ours and tag in found.tags):
        raise InputError(
            f"{name}: exists already, with files that are not from such a push ({foreign[0]}); "
            "choose another name"
        )


def _commit(
    repo: str,
    kind: RepoKind,
    files: Mapping[str, Path],
    stale: Sequence[str],
    message: str,
    notify: Notify,
) -> Any:
    import huggingface_hub
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    # The client modifies operations, so that each attempt needs new ones.
    operations: list[CommitOperationAdd | CommitOperationDelete] = [
        CommitOperationAdd(path_in_repo=path, path_or_fileobj=str(file))
        for path, file in sorted(files.items())
    ]
    operations += [CommitOperationDelete(path_in_repo=path) for path in stale]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            done = huggingface_hub.HfApi().create_commit(
                repo, operations, commit_message=message, repo_type=kind
            )
        except RuntimeError as error:
            if isinstance(error.__cause__, Exception):  # the error of a single file
                raise error.__cause__ from None
            raise
    for warning in caught:
        if issubclass(warning.category, UserWarning):
            notify(" ".join(str(warning.message).split()))
    return done
