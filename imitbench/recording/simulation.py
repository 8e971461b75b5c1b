"""Runs a session at a steady rate in a thread of its own, for the pages that show it.

One page has the controls. Others watch, and may take over. If the page that has the controls goes
away, the task pauses.
"""

from __future__ import annotations

import io
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic_core import to_json

from imitbench.recording.controls import Inputs
from imitbench.recording.session import Command, NotNowError, Session
from imitbench.util.extras import import_extra
from imitbench.util.text_line import one_line

HEARTBEAT_S = 1.0
"""Longest time between two messages to a page; sending shows whether the page is still there."""

_BUFFERED = 30  # pictures that a slow page may be behind before it loses some
_QUALITY = 90
_HEAD = struct.Struct(">II")


class NotYoursError(Exception):
    """An input of a page that does not have the controls."""


@dataclass(eq=False)
class Viewer:
    """A page that shows the task.

    Attributes:
        page: The page's own name.
        waiting: Messages that it has not got yet.
        replaced: Whether the same page has connected again.
    """

    page: str
    waiting: deque[bytes] = field(default_factory=deque)
    replaced: bool = False


@dataclass
class _Order:
    """Something to do that waits for the thread of the simulation."""

    act: Callable[[Session], str]
    done: threading.Event = field(default_factory=threading.Event)
    said: str = ""
    refused: str | None = None


class Simulation:
    """Paces a session; its methods may be called by several threads.

    Use it as a context manager.

    Args:
        make: Makes the session, in the thread that then uses it, as renderers require.
        rate_hz: Steps per second.

    Attributes:
        complete: Set when all episodes are kept, or when the environment failed.
    """

    def __init__(self, make: Callable[[], Session], rate_hz: float) -> None:
        import_extra("PIL.Image", "video", "recording")
        self._make, self._interval = make, 1 / rate_hz
        self._changed = threading.Condition()
        self._orders: deque[_Order] = deque()
        self._viewers: list[Viewer] = []
        self._owner: str | None = None
        self._now, self._pending = Inputs(), Inputs()
        self._pause_asked = self._stopped = False
        self._problem: BaseException | None = None
        self._picture = b""
        self._number = 0
        self._state: dict[str, Any] = {}
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.complete = threading.Event()

    def __enter__(self) -> Simulation:
        self._thread.start()
        self._ready.wait()
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        self._thread.join()

    @property
    def problem(self) -> str | None:
        """Why the recording ended early, in one line."""
        error = self._problem
        return None if error is None else one_line(f"{type(error).__name__}: {error}", 200)

    def await_pages(self, seconds: float) -> None:
        """Waits until the pages know that the recording has ended."""
        with self._changed:
            self._changed.wait_for(lambda: not self._viewers, seconds)

    # What pages do.

    def messages(self, page: str) -> Generator[bytes, None, None]:
        """Yields messages for a page, until the recording ends or the page connects again.

        Each has a head of two lengths (4 bytes each, the highest first), a state as JSON, and a
        picture as JPEG, which is empty if it has not changed.

        Args:
            page: The page's own name. If no page has the controls, it gets them.
        """
        viewer = self._join(page)
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(
                        lambda: viewer.waiting or viewer.replaced or self._stopped, HEARTBEAT_S
                    )
                    if viewer.replaced:
                        return
                    parts = list(viewer.waiting) or [self._message(viewer, b"")]
                    viewer.waiting.clear()
                    last = self._stopped
                yield b"".join(parts)
                if last:
                    return
        finally:
            self._leave(viewer)

    def take_over(self, page: str) -> None:
        """Gives the controls to a page; the task pauses."""
        with self._changed:
            self._give(page)

    def inputs(self, page: str, inputs: Inputs) -> None:
        """Tells what the person does now.

        Raises:
            NotYoursError: Another page has the controls.
        """
        with self._changed:
            if self._stopped:  # a last move on the page after the last episode was kept
                return
            self._check_owner(page)
            self._pending = inputs.after(self._pending)
            self._now = inputs

    def perform(self, page: str, command: Command) -> str:
        """Has a command performed; returns what to tell the person.

        Raises:
            NotYoursError: Another page has the controls.
            NotNowError: It is not possible now.
        """
        with self._changed:
            self._check_owner(page)
            order = self._order(lambda session: session.perform(command))
        return self._done(order)

    # What a training does.

    def call(self, act: Callable[[], str]) -> str:
        """Has the thread do something with the session; returns what it says.

        Raises:
            NotNowError: The recording has ended.
        """
        with self._changed:
            order = self._order(lambda _: act())
        return self._done(order)

    def await_state(self, condition: Callable[[dict[str, Any]], bool], seconds: float) -> bool:
        """Waits for a state, or until the recording has ended; returns whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: condition(self._state) or self._stopped, seconds)

    def _order(self, act: Callable[[Session], str]) -> _Order:
        if self._stopped:
            raise NotNowError("The recording has ended.")
        order = _Order(act)
        self._orders.append(order)
        self._changed.notify_all()
        return order

    @staticmethod
    def _done(order: _Order) -> str:
        order.done.wait()
        if order.refused is not None:
            raise NotNowError(order.refused)
        return order.said

    def _join(self, page: str) -> Viewer:
        viewer = Viewer(page)
        with self._changed:
            for other in self._viewers:
                other.replaced = other.replaced or other.page == page
            if self._owner is None:
                self._give(page)
            self._viewers.append(viewer)
            viewer.waiting.append(self._message(viewer, self._picture))
            self._changed.notify_all()
        return viewer

    def _leave(self, viewer: Viewer) -> None:
        with self._changed:
            self._viewers.remove(viewer)
            self._changed.notify_all()
            if self._owner == viewer.page and not viewer.replaced:
                # The next page may have opened before the end of this one was noticed.
                self._give(self._viewers[0].page if self._viewers else None)

    def _give(self, page: str | None) -> None:
        self._owner = page
        self._now = self._pending = Inputs()
        self._pause_asked = True
        self._tell(b"")

    def _check_owner(self, page: str) -> None:
        if page != self._owner:
            raise NotYoursError("Another page has the controls.")

    # The thread.

    def _run(self) -> None:
        try:
            session = self._make()
        except BaseException as error:  # told by `__enter__`
            self._problem = error
            self._ready.set()
            return
        try:
            self._show(session)
            self._ready.set()
            self._pace(session)
        except BaseException as error:  # of the environment, which may raise any
            self._problem = error
        finally:
            session.close()
            with self._changed:
                self._stopped = True
                for order in self._orders:
                    order.refused = "The recording has ended."
                    order.done.set()
                self._tell(b"")
            if self._problem is not None or session.phase == "complete":
                self.complete.set()

    def _pace(self, session: Session) -> None:
        due = time.monotonic()
        while session.phase != "complete":
            with self._changed:
                while not self._orders and not self._stopped:
                    remaining = due - time.monotonic()
                    if remaining <= 0:
                        break
                    self._changed.wait(remaining)
                if self._stopped:
                    return
                waiting = len(self._orders)
                if self._pause_asked:
                    self._pause_asked = False
                    session.pause()
                    self._state = session.state()
                    self._tell(b"")
            for _ in range(waiting):  # those after one that fails are refused at the end
                self._obey(session, self._orders.popleft())
            now = time.monotonic()
            if now < due:
                continue
            # A late step moves all later ones: two steps at once would surprise the person.
            due = due + self._interval if now - due < self._interval else now + self._interval
            with self._changed:
                inputs, self._pending = self._pending, self._now
            if session.tick(inputs, now):
                self._show(session)

    def _obey(self, session: Session, order: _Order) -> None:
        try:
            order.said = order.act(session)
            with self._changed:  # what is still pressed does not go on from there by itself
                self._now = self._pending = Inputs()
            self._show(session)
        except NotNowError as error:
            order.refused = str(error)
        finally:
            order.done.set()

    def _show(self, session: Session) -> None:
        picture = encode(session.frame)
        with self._changed:
            self._picture = picture
            self._number += 1
            self._state = session.state()
            self._tell(picture)

    def _tell(self, picture: bytes) -> None:
        for viewer in self._viewers:
            if len(viewer.waiting) >= _BUFFERED:
                viewer.waiting.popleft()  # its page counts the pictures that it did not get
            viewer.waiting.append(self._message(viewer, picture))
        self._changed.notify_all()

    def _message(self, viewer: Viewer, picture: bytes) -> bytes:
        document = to_json(
            {
                **self._state,
                "picture": self._number,
                "yours": viewer.page == self._owner,
                "problem": self.problem,
            },
            inf_nan_mode="null",
        )
        return _HEAD.pack(len(document), len(picture)) + document + picture


def encode(frame: npt.NDArray[np.uint8]) -> bytes:
    """Returns a picture as JPEG.

    Args:
        frame: Shape (height, width, 3).
    """
    from PIL import Image

    sink = io.BytesIO()
    Image.fromarray(frame).save(sink, "JPEG", quality=_QUALITY)
    return sink.getvalue()
