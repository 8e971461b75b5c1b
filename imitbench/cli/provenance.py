"""What the user typed."""

from __future__ import annotations

import shlex
import sys


def typed_command() -> str:
    """The command line as it can be typed again."""
    return shlex.join(["imitbench", *sys.argv[1:]])
