"""Serves the page on which a person demonstrates, to browsers on this machine only.

Every address begins with a secret of this start, and changes need a token that only the page
knows. See `imitbench.util.local_server` for what else is refused.
"""

from __future__ import annotations

import hmac
import re
from contextlib import closing
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, Field

from imitbench.errors import InputError
from imitbench.recording.controls import PAGE_KEYS, Controls, Inputs, describe_controls
from imitbench.recording.session import Command, NotNowError
from imitbench.recording.simulation import NotYoursError, Simulation
from imitbench.util.local_page import COMMON_ASSETS, PageHandler
from imitbench.util.local_server import LocalServer, RefusedError, new_secret, split_secret

ADDRESS = "127.0.0.1"
DEFAULT_PORT = 8898

GOODBYE_S = 2.0
_PACKAGE = "imitbench.recording"
_ROUTE = re.compile(r"|about|input|command|frames/([\w-]{8,40})")
_Page = Annotated[str, Field(pattern=r"^[\w-]{8,40}$")]


class _InputRequest(BaseModel, extra="forbid"):
    """What the person does now, on the page of that name."""

    page: _Page
    inputs: Inputs


class _CommandRequest(BaseModel, extra="forbid", strict=True):
    """What the person asks for, on the page of that name."""

    page: _Page
    command: Command | Literal["take over"]


class _Handler(PageHandler):
    simulation: ClassVar[Simulation]
    about: ClassVar[dict[str, Any]]
    secret: ClassVar[str]
    csrf: ClassVar[str]
    assets: ClassVar = {**COMMON_ASSETS, "record.js": _PACKAGE, "record.css": _PACKAGE}

    def get(self) -> None:
        if self.sends_asset():
            return
        rest, page = self._route()
        if rest == "":
            self.send_page(_PACKAGE, "record.html", self.csrf)
        elif rest == "about":
            self.send_json(self.about)
        elif page is not None:
            with closing(self.simulation.messages(page)) as messages:
                self.send_stream(messages, "application/octet-stream")
        else:
            raise RefusedError(405, "This address takes inputs only.")

    def post(self) -> None:
        rest, _ = self._route()
        if rest not in ("input", "command"):
            raise RefusedError(405, "This address takes no inputs.")
        self.check_change(self.csrf)
        try:
            if rest == "input":
                given = self.read_document(_InputRequest)
                self.simulation.inputs(given.page, given.inputs)
                self.send_json({})
            else:
                self.send_json({"said": self._perform(self.read_document(_CommandRequest))})
        except (NotYoursError, NotNowError) as error:
            raise RefusedError(409, str(error)) from error

    def _perform(self, asked: _CommandRequest) -> str:
        if asked.command == "take over":
            self.simulation.take_over(asked.page)
            return "This page has the controls now."
        return self.simulation.perform(asked.page, asked.command)

    def _route(self) -> tuple[str, str | None]:
        secret, rest = split_secret(self.path) or ("", "-")
        match = _ROUTE.fullmatch(rest)
        if match is None or not hmac.compare_digest(secret, self.secret):
            raise RefusedError(404, "Open the link that the command printed last.")
        return rest, match[1]


class RecordingServer:
    """The page of a simulation; a context in which it is served.

    Args:
        simulation: What it shows.
        env_id: Name of the environment, for the title.
        controls: Its controls, to be listed.
        port: Port; 0 for any free one.

    Attributes:
        url: Address of the page.

    Raises:
        InputError: The port is in use.
    """

    def __init__(
        self, simulation: Simulation, env_id: str, controls: Controls, port: int = DEFAULT_PORT
    ) -> None:
        secret = new_secret()
        about = {
            "env": env_id,
            "controls": describe_controls(controls),
            "mouse": getattr(controls, "mouse", None)
            if any(axis.mouse for axis in getattr(controls, "axes", ()))
            else None,
            "page_keys": PAGE_KEYS,
        }
        values = {
            "simulation": simulation, "about": about, "secret": secret, "csrf": new_secret()
        }  # fmt: skip
        self._server = LocalServer(ADDRESS, port, type("Handler", (_Handler,), values))
        self._simulation = simulation
        self._env_id = env_id
        self.url = self._server.link(secret)

    def __enter__(self) -> RecordingServer:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()

    def wait(self) -> None:
        """Serves until interrupted, or until all episodes are kept and the pages know it.

        Raises:
            InputError: The environment failed.
        """
        while not self._simulation.complete.wait(1.0):
            pass
        self._simulation.await_pages(GOODBYE_S)
        if self._simulation.problem is not None:
            raise InputError(
                f"{self._env_id}: failed while recording ({self._simulation.problem}); what was "
                "kept is stored"
            )
