"""What PyYAML raises over a file that is malformed."""

from __future__ import annotations

import yaml

BAD_VALUES = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError)
"""Over a value that is not what it looks like or is tagged as, such as the date 2024-02-30."""

UNREADABLE = (yaml.YAMLError, RecursionError, *BAD_VALUES)
"""Over anything: what is no YAML, is nested too deeply, or has such a value."""
