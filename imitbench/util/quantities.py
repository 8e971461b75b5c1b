"""Parses and formats durations and sizes, and prepares values for JSON."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Any

from imitbench.errors import InputError
from imitbench.util.text_line import one_line

_SECONDS = {"s": 1, "": 60, "m": 60, "min": 60, "h": 3600, "d": 86400}
_BYTES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([a-z]*)", re.IGNORECASE)
# Between two numbers there is a unit, so that a text is split in one way only.
_DURATION = re.compile(rf"(?:\s*{_NUMBER}\s*[a-z]+)+|{_NUMBER}", re.IGNORECASE)
_MOST_SECONDS, _MOST_BYTES = 2**31, 2**60  # what clocks and systems accept


def parse_duration(text: str, *, option: str) -> float:
    """Parses a duration.

    Args:
        text: `45s`, `90m`, `2h`, `1d`, several of these in a row (`1h30m`), or a bare number of
            minutes.
        option: Name of the option for messages, such as `--timeout`.

    Returns:
        Seconds, greater than 0.

    Raises:
        InputError: Not a duration, or more than 60 years.
    """
    parts = _QUANTITY.findall(text)
    whole = _DURATION.fullmatch(text.strip())
    units = [unit.lower() for _, unit in parts]
    # A number without a unit is read as minutes only if it is the whole text.
    known = all(unit in _SECONDS for unit in units) and ("" not in units or len(units) == 1)
    seconds = math.fsum(float(n) * _SECONDS[u.lower()] for n, u in parts) if known else 0.0
    if whole is None or not 0 < seconds <= _MOST_SECONDS:
        raise InputError(
            f"{option} {one_line(text, 60)}: must be a duration such as 45s, 90m, 1h30m or 2h, of "
            "at most 60 years; a bare number is minutes"
        )
    return seconds


def parse_size(text: str, *, option: str) -> int:
    """Parses an amount of memory.

    Args:
        text: `800M`, `4G` or `1.5GiB`; all units are powers of 1024.
        option: Name of the option for messages, such as `--max-mem`.

    Returns:
        Bytes: at least one MiB, because a smaller number probably lacks its unit; at most one EiB.

    Raises:
        InputError: Not a size, or not between these.
    """
    match = _QUANTITY.fullmatch(text.strip())
    unit = re.sub(r"I?B?$", "", match[2].upper()) if match else "?"
    size = float(match[1]) * _BYTES[unit] if match and unit in _BYTES else 0.0
    if not 2**20 <= size <= _MOST_BYTES:
        raise InputError(
            f"{option} {one_line(text, 60)}: must be a size with its unit such as 800M or 4G, at "
            f"least 1M and at most {_MOST_BYTES // _BYTES['T']:,}T"
        )
    return int(size)


def show_size(size: int) -> str:
    """Formats bytes: `4.2 GiB`, `800 MiB`, `12 KiB`, `70 B`."""
    number = float(size)
    for unit in ("B", "KiB", "MiB"):
        if round(number) < 1024:
            return f"{number:.0f} {unit}"
        number /= 1024
    return f"{number:.1f} GiB"


def show_duration(seconds: float) -> str:
    """Formats seconds in the form of `parse_duration`: `45s`, `90m`, `2h`."""
    for unit in ("h", "m"):
        if seconds >= _SECONDS[unit] and seconds % _SECONDS[unit] == 0:
            return f"{seconds / _SECONDS[unit]:g}{unit}"
    return f"{seconds:g}s"


def rough_duration(seconds: float) -> str:
    """Formats seconds for readers: `under 1 s`, `8 s`, `3 min`, `2 h 05 min`."""
    if seconds < 1:
        return "under 1 s"
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def about(seconds: float) -> str:
    """Formats an estimate: `about 8 s`, or `under 1 s`."""
    text = rough_duration(seconds)
    return text if text.startswith("under") else f"about {text}"


def json_value(value: Any) -> Any:
    """Returns a value that JSON has; numbers that it lacks become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [json_value(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return value if value is None or isinstance(value, str | int | float) else str(value)
