"""What pages on which people act have in common: assets, a token for changes, a locked folder.

The page of a person gets its files from packages, its data from addresses below its secret, and
sends changes as JSON with a token that only the page knows. `imitbench.util.local_server` has the
rest of its safety.
"""

from __future__ import annotations

import fcntl
import hmac
import os
import re
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import ClassVar, TypeVar

from pydantic import BaseModel, ValidationError

from imitbench.errors import InputError
from imitbench.util.local_server import LocalHandler, RefusedError

COMMON_ASSETS: Mapping[str, str] = {"page.js": "imitbench.util", "page.css": "imitbench.util"}
"""Files of all such pages, by name, with the package whose folder `assets` has them."""

_TYPES = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_ASSET = re.compile(r"/assets/([a-z_]{1,40}\.(?:js|css))")
_MOST_BODY_BYTES = 4096
LOCK_FILE = ".server.lock"
_Model = TypeVar("_Model", bound=BaseModel)


def read_asset(package: str, name: str) -> bytes:
    """Returns a file of a page.

    Args:
        package: Package whose folder `assets` has it.
        name: Name of the file.
    """
    return (files(package) / "assets" / name).read_bytes()


class PageHandler(LocalHandler):
    """Base of the handlers of pages on which people act.

    Attributes:
        assets: Packages of the files that the page loads, by their names.
    """

    policy = (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; media-src blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    assets: ClassVar[Mapping[str, str]]

    def do_POST(self) -> None:  # noqa: N802 (the base class asks for this name)
        """Answers a request that changes something."""
        self.answer(self.post)

    def post(self) -> None:
        """Answers a request that changes something.

        Raises:
            RefusedError: The request is not served.
        """
        raise NotImplementedError

    def sends_asset(self) -> bool:
        """Sends a file of the page, if the request asks for one."""
        asked = _ASSET.fullmatch(self.path)
        if asked is None or asked[1] not in self.assets:
            return False
        content = read_asset(self.assets[asked[1]], asked[1])
        self.send_content(content, _TYPES[Path(asked[1]).suffix], cache="no-cache")
        return True

    def send_page(self, package: str, name: str, csrf: str) -> None:
        """Sends the page itself, with its token in place of `{csrf}`."""
        page = read_asset(package, name).decode().replace("{csrf}", csrf)
        self.send_content(page.encode(), "text/html; charset=utf-8")

    def check_change(self, csrf: str) -> None:
        """Checks that a change comes from the page.

        Args:
            csrf: The token that was sent with the page.

        Raises:
            RefusedError: The token is missing or another one, or the change is not JSON.
        """
        sent = self.headers.get("X-CSRF-Token", "")
        if not hmac.compare_digest(sent.encode(), csrf.encode()):
            raise RefusedError(403, "The page is outdated. Load it again.")
        if self.headers.get_content_type() != "application/json":
            raise RefusedError(415, "Answers are JSON.")

    def read_document(self, model: type[_Model]) -> _Model:
        """Reads the content of a change.

        Raises:
            RefusedError: It does not have the form of the model.
        """
        try:
            return model.model_validate_json(self.read_body(_MOST_BODY_BYTES))
        except ValidationError as error:
            raise RefusedError(400, "The answer is malformed. Load the page again.") from error


def lock_folder(folder: Path, busy: str) -> int:
    """Locks a folder, which no other server may then serve.

    Args:
        folder: An existing folder.
        busy: What to say if it is locked, without the folder.

    Returns:
        A file descriptor, whose closing unlocks the folder.

    Raises:
        InputError: It is locked, or cannot be written.
    """
    try:
        descriptor = os.open(folder / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise InputError(f"{folder}: {busy}") from None
    return descriptor
