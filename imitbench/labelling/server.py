"""Serves the page on which annotators compare clips.

Every address begins with the secret token of an annotator's link, and serves only the set of this
server and the answers of this annotator. Changes need a token that only the page knows. See
`imitbench.util.local_server` for what else is refused.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, Field

from imitbench.algorithms.preference_comparisons.human_gatherer import Choice
from imitbench.errors import InputError
from imitbench.labelling.answers import (
    Annotator,
    AnswerStore,
    GivenAnswer,
    NotSavedError,
    OutOfTurnError,
)
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.queue import LabelQueue, QueueAnswers
from imitbench.labelling.schedule import PresentedPair, schedule
from imitbench.util.local_page import COMMON_ASSETS, PageHandler, lock_folder
from imitbench.util.local_server import LocalServer, RefusedError, split_secret
from imitbench.util.text_line import one_line

DEFAULT_PORT = 8899
AHEAD = 4
"""Number of pairs that the page knows in advance, so that it can fetch their clips."""

_PACKAGE = "imitbench.labelling"
_ROUTE = re.compile(r"|state|answer|undo|clips/(\d{1,6})\.mp4")


class _AnswerRequest(BaseModel, extra="forbid", strict=True):
    """Body of a request that gives an answer."""

    key: Annotated[str, Field(pattern=r"^[\w-]{8,80}$")]
    position: int = Field(ge=0, lt=10**6)
    choice: Choice
    response_ms: int = Field(ge=0, lt=10**9)


class _UndoRequest(BaseModel, extra="forbid", strict=True):
    """Body of a request that takes an answer back."""

    position: int = Field(ge=0, lt=10**6)


class LabellingApp:
    """What the page can ask for, without HTTP; may be used by several threads.

    Args:
        labels: The set, or the queue of a training, which grows.
        store: Its answers.

    Raises:
        OSError: Earlier answers cannot be passed on to the training.
    """

    def __init__(self, labels: LabelSet | LabelQueue, store: AnswerStore) -> None:
        self.labels, self.store = labels, store
        self._queue = QueueAnswers(labels, store) if isinstance(labels, LabelQueue) else None
        self._secret = store.secret()
        self._known: dict[str, Annotator] = {}
        self._schedules: dict[int, list[PresentedPair]] = {}
        self._lock = threading.Lock()
        if self._queue is not None:
            self._queue.pass_on()

    def annotator(self, token: str) -> Annotator:
        """Returns the annotator of a link.

        Raises:
            RefusedError: There is no such annotator.
        """
        if token not in self._known:
            self._known = {found.token: found for found in self.store.annotators()}
        if token in self._known:
            return self._known[token]
        raise RefusedError(404, "This link is not known here. Ask for a new one.")

    def csrf(self, annotator: Annotator) -> str:
        """The token that requests of the annotator's page have."""
        return hmac.new(self._secret, annotator.token.encode(), hashlib.sha256).hexdigest()

    def presented(self, annotator: Annotator) -> list[PresentedPair]:
        """The sequence of an annotator."""
        if isinstance(self.labels, LabelQueue):
            return self.labels.presented(annotator.stream)
        with self._lock:
            if annotator.stream not in self._schedules:
                self._schedules[annotator.stream] = schedule(self.labels.header, annotator.stream)
            return self._schedules[annotator.stream]

    def state(self, annotator: Annotator) -> dict[str, Any]:
        """What the page shows: progress, and the next pairs."""
        pairs, done = self.presented(annotator), self.store.answered(annotator.number)
        header = self.labels.header
        return {
            "name": annotator.name,
            "question": header.question,
            # A set has no more questions than these; the queue of a training grows.
            "goal": header.goal if self._queue is not None else min(header.goal, len(pairs)),
            "rendered": header.rendered,
            "done": done,
            "total": len(pairs),
            "grows": self._queue is not None,
            "next": [
                {"position": pair.position, "left": pair.sides[0], "right": pair.sides[1]}
                for pair in pairs[done : done + AHEAD]
            ],
        }

    def answer(self, annotator: Annotator, given: _AnswerRequest) -> dict[str, Any]:
        """Stores an answer; returns the new state when it is on disk.

        Raises:
            RefusedError: It is not the next pair, or cannot be stored.
        """
        pairs = self.presented(annotator)
        if given.position >= len(pairs):
            raise RefusedError(409, "There is no such pair.")
        shown = pairs[given.position]
        self._save(
            lambda: self.store.record(
                GivenAnswer(
                    # Keys of different people never meet, whatever their pages send.
                    key=f"{annotator.token[:8]}.{given.key}",
                    annotator=annotator.number,
                    position=given.position,
                    pair=shown.pair.digest,
                    purpose=shown.purpose,
                    swapped=shown.swapped,
                    choice=given.choice,
                    response_ms=given.response_ms,
                    answered_at=time.time(),
                )
            )
        )
        return self.state(annotator)

    def undo(self, annotator: Annotator, given: _UndoRequest) -> dict[str, Any]:
        """Takes the last answer back; errors as in `answer`."""
        self._save(lambda: self.store.undo(annotator.number, given.position))
        return self.state(annotator)

    def clip(self, annotator: Annotator, number: int) -> bytes:
        """Returns a clip of the annotator's set.

        Raises:
            RefusedError: The set has no such clip, or it cannot be read.
        """
        shown = {side for pair in self.presented(annotator) for side in pair.sides}
        if number not in shown:
            raise RefusedError(404, "There is no such clip.")
        try:
            return self.labels.clip_path(number).read_bytes()
        except OSError as error:
            raise RefusedError(500, f"Clip {number} cannot be read.") from error

    def _save(self, change: Callable[[], None]) -> None:
        try:
            change()
            if self._queue is not None:
                self._queue.pass_on()
        except OutOfTurnError as error:
            raise RefusedError(409, f"Not stored: {error}.") from error
        except NotSavedError as error:
            raise RefusedError(507, f"The answer could not be stored: {error}.") from error
        except OSError as error:
            message = f"The answer could not be passed on to the training: {error.strerror}."
            raise RefusedError(507, message) from error


class _Handler(PageHandler):
    app: ClassVar[LabellingApp]
    assets: ClassVar = {**COMMON_ASSETS, "label.js": _PACKAGE, "label.css": _PACKAGE}

    def get(self) -> None:
        self._failing(self._get)

    def post(self) -> None:
        self._failing(self._post)

    def _failing(self, respond: Callable[[], None]) -> None:
        try:
            respond()
        except (sqlite3.Error, InputError) as error:  # the disk, or the file, fails
            self.close_connection = True
            message = f"The answers cannot be read: {one_line(error, 120)}"
            raise RefusedError(500, message) from error

    def _get(self) -> None:
        if self.sends_asset():
            return
        annotator, rest, number = self._route()
        if rest == "":
            self.send_page(_PACKAGE, "label.html", self.app.csrf(annotator))
        elif rest == "state":
            self.send_json(self.app.state(annotator))
        elif number is not None:
            clip = self.app.clip(annotator, int(number))
            self.send_content(clip, "video/mp4", cache="private, max-age=86400")
        else:
            raise RefusedError(405, "This address takes answers only.")

    def _post(self) -> None:
        annotator, rest, _ = self._route()
        if rest not in ("answer", "undo"):
            raise RefusedError(405, "This address takes no answers.")
        self.check_change(self.app.csrf(annotator))
        if rest == "answer":
            state = self.app.answer(annotator, self.read_document(_AnswerRequest))
        else:
            state = self.app.undo(annotator, self.read_document(_UndoRequest))
        self.send_json(state)

    def _route(self) -> tuple[Annotator, str, str | None]:
        secret, rest = split_secret(self.path) or ("", "-")
        match = _ROUTE.fullmatch(rest)
        if match is None:
            raise RefusedError(404, "Open the link that you were given.")
        return self.app.annotator(secret), rest, match[1]


class LabellingServer:
    """A server for one set; nothing else may serve the set at the same time.

    Use it as a context manager.

    Args:
        labels: The set, or the queue of a training.
        host: Address to listen on.
        port: Port; 0 for any free one.

    Raises:
        InputError: The port is in use, or another process serves the set.
    """

    def __init__(
        self, labels: LabelSet | LabelQueue, *, host: str = "127.0.0.1", port: int = DEFAULT_PORT
    ) -> None:
        self._lock = lock_folder(
            labels.folder, "another server shows this set; use its links, or stop it"
        )
        try:
            self.store = AnswerStore(labels.answers_path, labels.set_id)
            self.app = LabellingApp(labels, self.store)
            handler = type("Handler", (_Handler,), {"app": self.app})
            self._server = LocalServer(host, port, handler)
        except BaseException:
            os.close(self._lock)
            raise
        self.port = self._server.port

    def __enter__(self) -> LabellingServer:
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__()
        self.store.close()
        os.close(self._lock)

    def link(self, annotator: Annotator) -> str:
        """The address of an annotator's page."""
        return self._server.link(annotator.token)

    def wait(self) -> None:
        """Serves until interrupted."""
        self._server.wait()
