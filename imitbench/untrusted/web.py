"""Reads small documents from the web, by HTTP or HTTPS only, with limits on size and time."""

from __future__ import annotations

import http.client
import time
import urllib.error
import urllib.request

from imitbench.errors import InputError
from imitbench.untrusted.limits import beyond, limits
from imitbench.untrusted.messages import error_line

_ANSWER_S = 5.0  # until each part of an answer arrives
_ALL_S = 9.0
_PIECE = 2**16
_HANDLERS = (
    urllib.request.ProxyHandler,
    urllib.request.HTTPHandler,
    urllib.request.HTTPSHandler,
    urllib.request.HTTPDefaultErrorHandler,
    urllib.request.HTTPErrorProcessor,
    urllib.request.HTTPRedirectHandler,
    urllib.request.UnknownHandler,  # refuses what no other opens, such as `ftp`
)


def is_url(text: str) -> bool:
    """Whether a text is an address of the web, and no path."""
    return text.lower().startswith(("http://", "https://"))


def read_url(url: str) -> bytes:
    """Returns the content at an address.

    Args:
        url: Address that starts with `http://` or `https://`; redirects stay with these.

    Raises:
        InputError: There is no such content, it is larger than the limit `text_bytes`, or the
            server does not answer in time.
    """
    opener = urllib.request.OpenerDirector()
    for handler in _HANDLERS:
        opener.add_handler(handler())
    most, end = limits().text_bytes, time.monotonic() + _ALL_S
    content = b""
    try:
        with opener.open(url, timeout=_ANSWER_S) as answer:
            while piece := answer.read1(_PIECE):
                content += piece
                if len(content) > most:
                    found = beyond("text_bytes", f"has more than {most:,} bytes")
                    raise InputError(f"{_shown(url)}: {found}")
                if time.monotonic() > end:
                    raise TimeoutError("timed out")
    except urllib.error.HTTPError as error:
        error.close()  # it holds the connection
        raise InputError(
            f"{_shown(url)}: the server answers {error.code} ({error_line(error.msg, 200)}); check "
            "the address"
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = error_line(str(getattr(error, "reason", error)) or repr(error), 100)
        raise InputError(f"{_shown(url)}: cannot be read ({reason}); check the address") from error
    return content


def _shown(url: str) -> str:
    return error_line(url, 200)
