"""A small HTTP server for local pages; the home of all that such a page must be safe from.

Each connection has a thread. Reading a request and sending a response each have a deadline, so that
a client that sends a byte at a time is cut off. If there are too many connections, the one that has
waited longest for its client is closed.

Every address begins with a secret. Requests that a page of another origin may have sent are
refused: `Host` must be an address of this server, and `Origin` must be the same.
"""

from __future__ import annotations

import errno
import io
import ipaddress
import re
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, TypeVar

from pydantic_core import to_json

from imitbench.errors import InputError
from imitbench.util.text_line import note, one_line

REQUEST_S = 10.0
"""Longest time from the first byte of a request to its last."""

IDLE_S = 60.0
"""Longest time between two requests of a connection, or two parts of a file that is sent."""

MOST_CONNECTIONS = 256

_SECURITY = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_ANY = ("0.0.0.0", "::")
_SECRET = re.compile(r"/a/([\w-]{16,64})/(.*)", re.ASCII | re.DOTALL)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)
_CHUNK = 1 << 16


class RefusedError(Exception):
    """A request that is not served.

    Args:
        status: HTTP status.
        message: One sentence for the person.
        **headers: More headers of the response, with `_` for `-`.
    """

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def new_secret() -> str:
    """Returns a secret that nobody can guess, for `split_secret`."""
    return secrets.token_urlsafe(18)


def split_secret(address: str) -> tuple[str, str] | None:
    """Splits the address of a request into its secret and the rest.

    Args:
        address: Such as `/a/SECRET/state`; its rest is `state`.

    Returns:
        `None` if the address has no secret.
    """
    match = _SECRET.fullmatch(address)
    return (match[1], match[2]) if match else None


class DeadlineReader(io.RawIOBase):
    """Reads a socket until a deadline.

    Args:
        connection: The socket.

    Attributes:
        deadline: Time of `time.monotonic` after which reading fails with `TimeoutError`.
        begun: Whether bytes of the current request were read.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.begun = False
        self.deadline = time.monotonic() + REQUEST_S

    def await_request(self) -> None:
        """Allows the client to be idle before the next request."""
        self.begun = False
        self.deadline = time.monotonic() + IDLE_S

    def readable(self) -> bool:
        """Returns true."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads what is there, or waits for it.

        Raises:
            TimeoutError: The deadline is over.
        """
        remaining = self.deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        self._connection.settimeout(remaining)
        count = self._connection.recv_into(buffer)
        if not self.begun:
            self.begun = True
            self.deadline = min(self.deadline, time.monotonic() + REQUEST_S)
        return count


class LocalHandler(BaseHTTPRequestHandler):
    """Base of the handler of one connection: deadlines, checks of requests, and responses.

    Attributes:
        policy: Content security policy of all responses.
    """

    protocol_version = "HTTP/1.1"
    server: LocalServer
    policy: ClassVar[str]

    def get(self) -> None:
        """Answers a request that reads.

        Raises:
            RefusedError: The request is not served.
        """
        raise NotImplementedError

    def do_GET(self) -> None:
        """Answers a request that reads."""
        self.answer(self.get)

    def do_HEAD(self) -> None:
        """Answers a request that reads, without the content."""
        self.answer(self.get)

    def setup(self) -> None:
        """Replaces the reader by one with a deadline."""
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, True)
        self._raw = DeadlineReader(self.connection)
        self.rfile.close()
        self.rfile = io.BufferedReader(self._raw)

    def handle_one_request(self) -> None:
        """Handles a request; the connection is closed if it takes too long."""
        self.server.waiting(self.connection, True)
        try:
            super().handle_one_request()
        except (TimeoutError, ConnectionError, OSError):
            self.close_connection = True
        self._raw.await_request()

    def parse_request(self) -> bool:
        """Parses the head; from then on the connection is not closed for others."""
        self.server.waiting(self.connection, False)
        return super().parse_request()

    def answer(self, respond: Callable[[], None]) -> None:
        """Answers a request, if it comes from a page of this server or from no page."""
        try:
            self._check_head()
            respond()
        except RefusedError as error:
            if self.command == "POST":  # the body may be unread
                self.close_connection = True
            self.send_json({"error": error.message}, error.status, error.headers)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers malformed requests as all others, and ends the connection."""
        self.close_connection = True
        self.command = getattr(self, "command", None) or "GET"
        self.send_json({"error": one_line(message or "The request is malformed.")}, code)

    def read_body(self, most: int) -> bytes:
        """Reads the content of a request.

        Raises:
            RefusedError: Its length is missing, or above `most`.
        """
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not re.fullmatch(r"[0-9]{1,9}", length):
            raise RefusedError(411, "The length of the answer is missing.")
        if int(length) > most:
            raise RefusedError(413, "The answer is too large.")
        return self.rfile.read(int(length))

    def send_json(
        self, document: Any, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Sends a document; what JSON lacks is null."""
        content = to_json(document, inf_nan_mode="null")
        self.send_content(content, "application/json", status=status, headers=headers)

    def send_content(
        self,
        content: bytes,
        kind: str,
        *,
        status: int = 200,
        cache: str = "no-store",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Sends a whole response."""
        fields = {"Content-Type": kind, "Cache-Control": cache, **(headers or {})}
        self._begin(status, len(content), fields)
        if self.command != "HEAD":
            self.wfile.write(content)

    def send_file(self, read: Callable[[int, int], bytes], size: int, kind: str) -> None:
        """Sends a file, or the part that the client asks for.

        Args:
            read: Returns bytes of the file from a position, at most a number of them.
            size: Size of the file.
            kind: Its type.

        Raises:
            RefusedError: It has no such part.
        """
        start, end = 0, size
        fields = {"Content-Type": kind, "Cache-Control": "no-store", "Accept-Ranges": "bytes"}
        asked = self._asked_range()
        if asked is not None:
            span = _span(asked, size)
            if span is None:
                raise RefusedError(
                    416, "The file has no such part.", Content_Range=f"bytes */{size}"
                )
            start, end = span
            fields["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
        self._begin(200 if asked is None else 206, end - start, fields)
        self.connection.settimeout(IDLE_S)  # for each part: a player that has enough reads no more
        while start < end and self.command != "HEAD":
            part = read(start, min(_CHUNK, end - start))
            if not part:  # the file has become shorter: the client must not wait for the rest
                self.close_connection = True
                return
            self.server.waiting(self.connection, True)
            self.wfile.write(part)
            start += len(part)

    def send_stream(self, parts: Iterable[bytes], kind: str) -> None:
        """Sends a response without an end that is known: parts as they come, then a closed link.

        Args:
            parts: What to send; each must be taken within `REQUEST_S`.
            kind: Type of the whole.
        """
        self.close_connection = True
        self._begin(200, None, {"Content-Type": kind, "Cache-Control": "no-store"})
        if self.command == "HEAD":
            return
        for part in parts:
            self.server.waiting(self.connection, True)
            self.wfile.write(part)

    def version_string(self) -> str:
        """Name of the server in responses, without version numbers."""
        return "imitbench"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing: paths have the secret parts of links."""

    def _begin(self, status: int, length: int | None, fields: dict[str, str]) -> None:
        self.send_response(status)
        fields = {**fields, **_SECURITY, "Content-Security-Policy": self.policy}
        if length is not None:
            fields["Content-Length"] = str(length)
        for name, value in fields.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.connection.settimeout(REQUEST_S)  # for each of the two writes as a whole
        self.end_headers()

    def _check_head(self) -> None:
        """Checks the head of a request; the first of several equal headers is not taken for all."""
        hosts = self.headers.get_all("Host") or [""]
        for name in ("Host", "Content-Length"):
            if len(self.headers.get_all(name) or []) > 1:
                self.close_connection = True
                raise RefusedError(400, f"The request has several headers {name}.")
        if self.command != "POST" and (
            "Content-Length" in self.headers or "Transfer-Encoding" in self.headers
        ):
            self.close_connection = True  # its content is not read, and is no next request
        if not self.server.is_own(hosts[0]):
            named = "127.0.0.1 or localhost" if is_loopback(self.server.host) else "its own address"
            raise RefusedError(
                403, f"This address is not served: only requests to {named} are answered."
            )
        origins = self.headers.get_all("Origin") or []
        sites = self.headers.get_all("Sec-Fetch-Site") or []
        foreign = set(sites) - {"none", "same-origin"} and not self._opens_page()
        if foreign or set(origins) - {f"http://{hosts[0]}"}:
            raise RefusedError(403, "Requests of other pages are not served.")

    def _opens_page(self) -> bool:
        """Whether a person follows a link; the page that has the link learns nothing from it."""
        kind = (self.headers.get("Sec-Fetch-Mode"), self.headers.get("Sec-Fetch-Dest"))
        return self.command == "GET" and kind == ("navigate", "document")

    def _asked_range(self) -> str | None:
        """Returns the part of a file that is asked for; `None` for the whole.

        A server may send the whole file to who asks for several parts, and must if the client names
        a version of the file, since no response names one.
        """
        asked = self.headers.get_all("Range") or []
        several = len(asked) > 1 or any("," in value for value in asked)
        return asked[0] if asked and not several and "If-Range" not in self.headers else None


_Self = TypeVar("_Self", bound="LocalServer")


class LocalServer(ThreadingHTTPServer):
    """Serves pages with at most `MOST_CONNECTIONS` connections; a context that ends it.

    Args:
        host: Address to listen on.
        port: Port; 0 for any free one.
        handler: Answers the requests of a connection.
        forwarded: Whether requests may name another port, which leads to this one.

    Attributes:
        host: Address on which it listens.
        port: Port on which it listens.

    Raises:
        InputError: The port is in use or may not be used.
    """

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, handler: type[LocalHandler], *, forwarded: bool = False
    ) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.host, self._forwarded = host, forwarded
        self._open: dict[socket.socket, float | None] = {}
        self._open_lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.2,), daemon=True)
        try:
            super().__init__((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            used = getattr(error, "errno", None) == errno.EADDRINUSE
            raise InputError(
                f"--port {port} on {host}: cannot be used: "
                f"{'in use by another program' if used else one_line(reason, 80)}; choose "
                "another, or --port 0 for any free one"
            ) from error
        self.port: int = self.server_address[1]

    def __enter__(self: _Self) -> _Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    def wait(self) -> None:
        """Serves until interrupted."""
        while self._thread.is_alive():
            self._thread.join(1.0)

    def link(self, secret: str) -> str:
        """The address of a page.

        Args:
            secret: Its secret part, see `split_secret`.
        """
        host = socket.gethostname() if self.host in _ANY else self.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}/a/{secret}/"

    def is_own(self, host: str) -> bool:
        """Whether a `Host` header names this server, and not a name that someone else controls."""
        match = re.fullmatch(r"([^:]+|\[[^\]]+\])(?::([0-9]{1,5}))?", host)
        if match is None:
            return False
        name, port = match[1].lower(), match[2] or "80"
        if port != str(self.port) and not self._forwarded:
            return False
        if self.host in _ANY:
            own = socket.gethostname().lower()
            return name in (*_LOOPBACK, own, f"{own}.local") or (
                _address(name.strip("[]")) is not None
            )
        own = f"[{self.host}]" if ":" in self.host else self.host
        return name == own.lower() or (is_loopback(self.host) and name in _LOOPBACK)

    def waiting(self, connection: socket.socket, waits: bool) -> None:
        """Records whether a connection waits for its client."""
        with self._open_lock:
            if connection in self._open:
                self._open[connection] = time.monotonic() if waits else None

    def process_request(self, request: Any, client_address: Any) -> None:
        """Makes room if needed, and starts the thread of a connection."""
        with self._open_lock:
            waiting = {c: since for c, since in self._open.items() if since is not None}
            oldest = min(waiting, key=lambda c: waiting[c], default=None)
            full = len(self._open) >= MOST_CONNECTIONS
            if full and oldest is not None:
                del self._open[oldest]
                _shut(oldest)
            admitted = not full or oldest is not None
            if admitted:
                self._open[request] = time.monotonic()
        if admitted:
            super().process_request(request, client_address)
        else:  # all others are being answered
            self.shutdown_request(request)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Stops listening, and closes the connections that wait for their clients."""
        super().server_close()
        with self._open_lock:
            for connection, since in self._open.items():
                if since is not None:
                    _shut(connection)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Names an error; a client that closes a connection is none."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError | TimeoutError):
            note(one_line(f"a request failed: {type(error).__name__}: {error}"))


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return


def _span(asked: str, size: int) -> tuple[int, int] | None:
    """Returns first byte and end of a range; `None` if there is no such range."""
    found = _RANGE.fullmatch(asked.strip())
    if found is None or not (found[1] or found[2]):
        return None
    start, end = max(0, size - int(found[2] or 0)), size
    if found[1]:
        start = int(found[1])
        end = min(size, int(found[2]) + 1) if found[2] else size
    return (start, end) if start < end else None
