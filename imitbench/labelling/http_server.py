"""A small HTTP server that slow or idle clients cannot stall.

Each connection has a thread. Reading a request and sending a response each have a deadline, so that
a client that sends a byte at a time is cut off. If there are too many connections, the one that has
waited longest for its client is closed.
"""

from __future__ import annotations

import io
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REQUEST_S = 10.0
"""Longest time from the first byte of a request to its last."""

IDLE_S = 60.0
"""Longest time between two requests of a connection."""

MOST_CONNECTIONS = 256


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


class PatientHandler(BaseHTTPRequestHandler):
    """Base of the handler of one connection, with deadlines."""

    protocol_version = "HTTP/1.1"
    server: LimitedServer

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

    def send_body(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        """Sends a whole response."""
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.connection.settimeout(REQUEST_S)  # for each of the two writes as a whole
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        """Name of the server in responses, without version numbers."""
        return "imitbench"

    def log_message(self, format: str, *arguments: Any) -> None:
        """Logs nothing: paths have the secret parts of links."""


class LimitedServer(ThreadingHTTPServer):
    """Serves with at most `MOST_CONNECTIONS` connections."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[PatientHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._open: dict[socket.socket, float | None] = {}
        self._open_lock = threading.Lock()
        super().__init__(address, handler)

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
            if len(self._open) >= MOST_CONNECTIONS and oldest is not None:
                del self._open[oldest]
                _shut(oldest)
            self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection."""
        with self._open_lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores a client that left; other errors are printed."""
        if not isinstance(sys.exc_info()[1], ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


def _shut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
