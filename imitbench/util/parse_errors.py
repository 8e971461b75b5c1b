"""Exceptions that libraries raise for damaged or malformed files."""

from __future__ import annotations

import tokenize
import zipfile
import zlib

import yaml

DAMAGED_NPZ = (
    OSError,
    EOFError,
    ValueError,
    LookupError,
    TypeError,
    NotImplementedError,
    RuntimeError,  # an encrypted member
    SyntaxError,  # a garbled header
    tokenize.TokenError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
)
"""For `.npz` files, by NumPy and the standard library; found by damaging files."""

BAD_YAML_VALUES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""For YAML values that do not have the type of their form or tag, such as the date 2024-02-30."""

UNREADABLE_YAML = (yaml.YAMLError, RecursionError, *BAD_YAML_VALUES)
"""For text that is not YAML, is nested too deeply, or has such a value."""
