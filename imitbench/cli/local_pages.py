"""What commands that serve a page have in common: they open it, and end by Ctrl-C or SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Callable


def open_browser(url: str) -> bool:
    """Opens a page in a browser with windows.

    Returns:
        Whether one was found. Browsers for terminals are not used: they would take over the one
        that the command runs in.
    """
    screens = (os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if sys.platform.startswith("linux") and not any(screens):
        return False
    return webbrowser.open(url)


def serve_until_stopped(serve: Callable[[], None]) -> bool:
    """Serves until Ctrl-C or SIGTERM, which ends it in the same way.

    Args:
        serve: Tells the link, and serves; may return by itself.

    Returns:
        Whether it was stopped.
    """
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        serve()
    except KeyboardInterrupt:
        return True
    return False
