"""What libraries raise over files that are damaged or malformed."""

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
"""Over an `.npz` file, by NumPy and the standard library; found by damaging files."""

BAD_YAML_VALUES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""Over a YAML value that is not what it looks like or is tagged as, such as the date 2024-02-30."""

UNREADABLE_YAML = (yaml.YAMLError, RecursionError, *BAD_YAML_VALUES)
"""Over text that is not YAML, is nested too deeply, or has such a value."""
