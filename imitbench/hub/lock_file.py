"""The lock file: what `imitbench prefetch` has cached, for machines without a network."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from imitbench.errors import InputError
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.hub_client import RepoKind


class LockedItem(BaseModel, frozen=True, extra="forbid", strict=True):
    """A repository at the commit that was fetched.

    Attributes:
        kind: `model` for an expert, `dataset` for demonstrations.
        repo: Name of the repository, `owner/name`.
        revision: Commit, 40 hexadecimal digits.
        digest: SHA-256 over the files in use, as in run records.
        size: Total size of these files, in bytes.
    """

    kind: Literal["model", "dataset"]
    repo: str
    revision: str = Field(pattern=r"^[0-9a-f]{40}$")
    digest: str = Field(pattern=r"^[0-9a-f]{64}$")
    size: int = Field(ge=0)


class HubLock(BaseModel, frozen=True, extra="forbid", strict=True):
    """The content of a lock file."""

    schema_version: Literal[1] = 1
    items: list[LockedItem] = Field(default_factory=list)

    def find(self, kind: RepoKind, repo: str) -> LockedItem | None:
        """Returns the entry of a repository, if any."""
        return next((item for item in self.items if (item.kind, item.repo) == (kind, repo)), None)

    def with_items(self, items: Iterable[LockedItem]) -> HubLock:
        """Returns a copy of the lock with items added or replaced."""
        merged = {(item.kind, item.repo): item for item in [*self.items, *items]}
        return HubLock(items=[merged[key] for key in sorted(merged)])


def read_lock(path: Path, *, missing_ok: bool = True) -> HubLock:
    """Reads a lock file.

    Args:
        path: File of `write_lock`.
        missing_ok: Whether a missing file counts as an empty lock.

    Raises:
        InputError: The file cannot be read, or is not a lock file.
    """
    try:
        return HubLock.model_validate_json(read_content(path))
    except FileNotFoundError:
        if not missing_ok:
            raise InputError(
                f"--lock {path}: no such file; run `imitbench prefetch --lock {path}` first"
            ) from None
        return HubLock()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        problem = " ".join(str(error).split())[:200]
        raise InputError(
            f"{path}: not a lock file ({problem}); remove it, then run `imitbench prefetch`"
        ) from error


def write_lock(path: Path, lock: HubLock) -> None:
    """Writes a lock file, atomically.

    Raises:
        InputError: The file cannot be written.
    """
    try:
        atomic_write_text(path, lock.model_dump_json(indent=1) + "\n")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
