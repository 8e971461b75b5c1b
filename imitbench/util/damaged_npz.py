"""What reading a damaged `.npz` file may raise."""

from __future__ import annotations

import tokenize
import zipfile
import zlib

DAMAGE = (
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
"""Exceptions of NumPy and of the standard library, found by damaging files."""
