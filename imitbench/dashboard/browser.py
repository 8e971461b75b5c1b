"""Opens a page in the user's browser."""

from __future__ import annotations

import os
import sys
import webbrowser

_SCREENS = ("DISPLAY", "WAYLAND_DISPLAY")


def open_browser(url: str) -> bool:
    """Opens a page in a browser with windows.

    Returns:
        Whether one was found. Browsers for terminals are not used: they would take over the one
        that the command runs in.
    """
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in _SCREENS):
        return False
    return webbrowser.open(url)
