"""Designs of comparisons that are written before their first result, and never change.

    <folder>/<id>/design.json     the design, when it was registered, and their digest

The id is the start of the design's digest, so that an edited design is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from pydantic import ValidationError

from imitbench.errors import InputError
from imitbench.records.runs import SealedRecord
from imitbench.store import lease
from imitbench.untrusted.files import read_content
from imitbench.util.files import atomic_write_text
from imitbench.util.validation_errors import first_problem

DESIGN_FILE = "design.json"
_ID_LENGTH = 16


class _Design(Protocol):
    @property
    def digest(self) -> str:
        """Content hash: 64 hexadecimal digits."""


class RegisteredDesign(SealedRecord):
    """A registered design; subclasses have its fields, in the order of their files.

    Attributes:
        FOLDER: Folder of such designs in a results folder.
        WHAT: What the design is, for messages.
        DID: What happened to it before a change, for messages.
    """

    FOLDER: ClassVar[str]
    WHAT: ClassVar[str] = "the design of a race"
    DID: ClassVar[str] = "registered"
    if TYPE_CHECKING:

        @property
        def design(self) -> _Design:
            """The design."""

        registered_at: str

    @property
    def id(self) -> str:
        """Start of the design's digest, which names the comparison."""
        return self.design.digest[:_ID_LENGTH]


_R = TypeVar("_R", bound=RegisteredDesign)
_S = TypeVar("_S", bound=SealedRecord)


def design_folder(out: Path, registered: RegisteredDesign) -> Path:
    """Returns the folder of a registered design in a results folder."""
    return out / registered.FOLDER / registered.id


def parse_design(kind: type[_R], text: str | bytes, name: str | None, where: str) -> _R:
    """Reads a registered design.

    Args:
        kind: Its class.
        text: Content of its file.
        name: Its id according to the name of its file or folder; `None` if it has none.
        where: Path of the file, for messages.

    Raises:
        InputError: The text is no such record, or was changed after the registration.
    """
    found = read_sealed(kind, text, where, kind.WHAT, kind.DID)
    if name not in (None, found.id):
        raise was_edited(where, kind.DID)
    return found


def read_designs(out: Path, kind: type[_R]) -> list[_R]:
    """Reads the registered designs of a kind in a results folder, oldest first.

    Raises:
        InputError: A design cannot be read, or was changed after its registration.
    """
    paths = sorted((out / kind.FOLDER).glob(f"*/{DESIGN_FILE}"))
    found = [parse_design(kind, content_of(path), path.parent.name, str(path)) for path in paths]
    return sorted(found, key=lambda design: (design.registered_at, design.id))


def write_design(out: Path, registered: RegisteredDesign) -> None:
    """Writes a sealed design."""
    atomic_write_text(design_folder(out, registered) / DESIGN_FILE, registered.text())


def read_sealed(
    kind: type[_S], text: str | bytes, where: str | Path, what: str, did: str = "written"
) -> _S:
    """Reads a record with a digest, and checks the digest.

    Args:
        kind: Its class.
        text: Content of its file.
        where: Path of the file, for messages.
        what: What it is, for messages.
        did: What happened to it before a change, for messages.

    Raises:
        InputError: The text is no such record, or was changed.
    """
    try:
        record = kind.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"{where}: not {what} ({first_problem(error)})") from error
    if record.digest != record.own_digest:
        raise was_edited(where, did)
    return record


def was_edited(where: str | Path, did: str = "written") -> InputError:
    """Returns the error about a record that was changed."""
    return InputError(
        f"{where}: was changed after it was {did}; restore it, or start again in another --out"
    )


def content_of(path: Path) -> bytes:
    """Returns the content of a file of a results folder.

    Raises:
        InputError: It cannot be read.
    """
    try:
        return read_content(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error


@contextmanager
def registration(out: Path, folder: Path) -> Iterator[None]:
    """Context in which no other process registers a design in a folder of a results folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        held = lease.acquire(folder, wait=True)
        assert held is not None
        try:
            yield
        finally:
            held.release()
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written ({error.strerror})") from error
