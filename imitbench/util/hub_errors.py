"""Errors of hub requests: which are retried, and their messages."""

from __future__ import annotations

import errno
import json
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

Notify = Callable[[str], None]
"""Shows a message to the user."""

WAITS_S = (1.0, 2.0, 4.0, 8.0)
"""Pauses before the next attempts, unless the hub requests a longer one."""

_MAX_WAIT_S = 300.0
_TRANSIENT = (408, 429, 500, 502, 503, 504)
# By name: versions of the client use different HTTP libraries with equally named errors.
_UNREACHABLE = {"ConnectError", "ConnectTimeout", "ProxyError", "NewConnectionError"}
# What the server answered is wrong, and will be the next time.
_MISLED = {"UnsupportedProtocol", "TooManyRedirects", "FileMetadataError"}
_BAD_LOCATION = "Invalid URL in location header"  # has the class of a cut connection
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)

_Result = TypeVar("_Result")


class UnreachableError(InputError):
    """The hub did not answer: no network, offline mode, or a server that is down."""


class DamagedDownloadError(OSError):
    """A downloaded file is not what the hub announced."""


def with_retries(
    operation: Callable[[], _Result], name: str, notify: Notify, *, give_up: bool = False
) -> _Result:
    """Calls a function and retries after transient errors, with growing pauses.

    Args:
        operation: The function.
        name: Name of the repository for messages.
        notify: Called with messages about pauses.
        give_up: Whether to try only once, for example because there is a fallback.
    """
    for wait in () if give_up else WAITS_S:
        try:
            return operation()
        except Exception as error:
            if not is_transient(error) or _is_unreachable(error):
                raise
            pause = min(max(wait, _requested_pause(error)), _MAX_WAIT_S)
            notify(f"{name}: {reason_of(error)}; trying again in {pause:g} s")
        time.sleep(pause)
    return operation()


def is_transient(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    from huggingface_hub.errors import HfHubHTTPError

    status = _status(error)
    if status is not None:
        return status in _TRANSIENT
    if _is_disk_error(error) or isinstance(error, json.JSONDecodeError) or _misled(error):
        return False
    # The base class of the client's error is that of its HTTP library.
    return isinstance(error, OSError | HfHubHTTPError.__bases__[0])


def _is_disk_error(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in _DISK


def _is_unreachable(error: BaseException) -> bool:
    """Whether no server can be reached, so that a short pause does not help."""
    return any(
        kind.__name__ in _UNREACHABLE for cause in _chain(error) for kind in type(cause).__mro__
    )


def _misled(error: BaseException) -> BaseException | None:
    """Returns the error of an answer that cannot be followed, if it is one."""
    for cause in _chain(error):
        if type(cause).__name__ in _MISLED or str(cause).startswith(_BAD_LOCATION):
            return cause
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def _response(error: BaseException) -> Any:
    """Returns the hub's response, if there is one."""
    answers = (getattr(cause, "response", None) for cause in _chain(error))
    return next((answer for answer in answers if answer is not None), None)


def _status(error: BaseException) -> int | None:
    response = _response(error)
    return None if response is None else int(response.status_code)


def _requested_pause(error: BaseException) -> float:
    """Returns the seconds in `Retry-After`; 0 without it."""
    response = _response(error)
    text = "" if response is None else response.headers.get("Retry-After", "")
    return float(text) if text.strip().isdecimal() else 0.0


def reason_of(error: BaseException) -> str:
    """Describes an error in a few words, as part of a message."""
    status = _status(error)
    if status is not None:
        return f"the hub answered {status}"
    first = list(_chain(error))[-1] if _is_unreachable(error) else error
    return " ".join(str(first).split())[:200] or type(first).__name__


def at_revision(revision: str | None) -> str:
    """Returns the part of a message that names a revision; empty for `None`."""
    return f" at revision '{revision}'" if revision else ""


@contextmanager
def as_input_error(name: str, revision: str | None) -> Iterator[None]:
    """Turns errors of the client into one-line messages, and suppresses its warnings."""
    # Imported here because the client loads slowly, and most files are local.
    from huggingface_hub import errors
    from huggingface_hub.utils import logging as client_logging

    remarks = client_logging.get_logger("huggingface_hub")
    level = remarks.level
    remarks.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            yield
    except errors.GatedRepoError as error:
        raise InputError(
            f"{name}: gated; accept its terms on the hub, then set HF_TOKEN to your token"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{name}: no revision '{revision}' on the hub") from error
    except errors.RepositoryNotFoundError as error:
        raise InputError(
            f"{name}: no such repository on the hub, or it is private; check the name, and set "
            "HF_TOKEN if it is private"
        ) from error
    except errors.HFValidationError as error:
        problem = " ".join(str(error).split())
        raise InputError(f"{name}: not a valid repository name ({problem})") from error
    except DamagedDownloadError as error:
        raise InputError(f"{name}{at_revision(revision)}: {error}; try again later") from error
    except InputError:
        raise
    except Exception as error:
        raise _explain(name, revision, error) from error
    finally:
        remarks.setLevel(level)


@contextmanager
def as_upload_error(name: str) -> Iterator[None]:
    """Does what `as_input_error` does, with messages for uploads."""
    with as_input_error(name, None):
        from huggingface_hub.errors import HFValidationError

        try:
            yield
        except (InputError, HFValidationError):
            raise
        except Exception as error:
            raise _explain_upload(name, error) from error


def _explain_upload(name: str, error: Exception) -> Exception:
    status = _status(error)
    if status == 401:
        return InputError(f"{name}: the hub rejects the token (401); set HF_TOKEN to a valid one")
    if status == 403:
        return InputError(
            f"{name}: the token may not write there (403); set HF_TOKEN to one with write "
            "permission for the repository's owner"
        )
    if isinstance(error, json.JSONDecodeError):
        return InputError(f"{name}: the server is not a hub; check HF_ENDPOINT")
    misled = _misled(error)
    if misled is not None:
        return InputError(f"{name}: {_wrong_turn(misled)}; check HF_ENDPOINT")
    if is_transient(error):
        return UnreachableError(f"{name}: the upload was interrupted ({reason_of(error)})")
    if status is not None or isinstance(error, RuntimeError | ValueError | OSError):
        reason = getattr(error, "server_message", None) or str(error)
        return InputError(f"{name}: the upload was refused ({one_line(reason, 200)})")
    return error


def _wrong_turn(error: BaseException) -> str:
    """Says what the hub answered."""
    kind, url = type(error).__name__, getattr(getattr(error, "request", None), "url", "")
    if kind == "TooManyRedirects":
        return f"the hub answers with redirects in a circle ({one_line(str(url), 200)})"
    if kind == "FileMetadataError":
        return f"the hub's answer does not describe a file ({one_line(error, 100)})"
    told = one_line(f"{error} {url}", 300)
    return f"the hub answers with a redirect that leads nowhere ({told})"


def _explain(name: str, revision: str | None, error: Exception) -> Exception:
    where, status = f"{name}{at_revision(revision)}", _status(error)
    if status in (401, 403):
        return InputError(f"{name}: no access ({status}); set HF_TOKEN to a token that may read it")
    if "Consistency check failed" in str(error):
        return InputError(f"{where}: a download is truncated; check the network, then try again")
    if _is_disk_error(error):
        return InputError(
            f"{where}: the hub's cache cannot be written ({reason_of(error)}); free disk space, or "
            "set HF_HOME to another folder"
        )
    if isinstance(error, json.JSONDecodeError):
        return InputError(f"{name}: the server is not a hub; check HF_ENDPOINT")
    misled = _misled(error)
    if misled is not None:
        return InputError(f"{where}: {_wrong_turn(misled)}; check HF_ENDPOINT")
    if is_transient(error):
        return UnreachableError(
            f"{where}: the hub cannot be reached ({reason_of(error)}), and it is not in the cache"
        )
    if status is not None:
        return InputError(f"{where}: the hub refuses the request (status {status})")
    if isinstance(error, ValueError | LookupError | TypeError | AttributeError):
        told = one_line(repr(error), 100)
        return InputError(f"{where}: the hub's answer cannot be read ({told}); check HF_ENDPOINT")
    return error
