"""Copies the template of a method or a suite under a new name."""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Literal

from imitbench.cards.catalog import algorithm_names, suite_names
from imitbench.errors import InputError

Template = Literal[
    "algorithm", "bc", "chunking", "command", "dac", "demonstrations", "gail", "reward", "suite"
]
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_LEFT_OUT = ("__init__.py", "__pycache__")


def write_template(
    template: Template, name: str, to: Path, fill: Callable[[Path], object] = lambda _: None
) -> Path:
    """Writes the folder of a new method or suite, completely or not at all.

    Args:
        template: `algorithm` for supervised learning, `reward` for a learned reward, `chunking` for
            a policy class of the method's own, `command` for an external program; `gail`, `dac` or
            `bc` for a variant of that method; `suite`, or `demonstrations` for a suite without an
            expert.
        name: Name of the method or suite, and of its folder.
        to: Parent of the new folder, created if missing.
        fill: Adds files to the folder before readers see it.

    Returns:
        The new folder.

    Raises:
        InputError: The name is invalid or taken; or the folder exists, or cannot be written.
    """
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise InputError(
            f"{name}: not a valid name; use lower-case letters, digits and _, such as my_method"
        )
    is_suite = template in ("suite", "demonstrations")
    taken = suite_names() if is_suite else ["all", "demonstrations", *algorithm_names()]
    if name in taken:
        raise InputError(f"{name}: is the name of a bundled one; choose another")
    folder = resources.files(f"imitbench.templates.{template}")
    target = to / name
    if target.exists():
        raise InputError(f"{target}: already exists; choose another name, or another --to")
    try:
        to.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=to, prefix=f".{name}-") as scratch:
            made = Path(scratch, name)
            made.mkdir()
            for source in sorted(Path(str(folder)).iterdir()):
                if source.name not in _LEFT_OUT:
                    text = source.read_text(encoding="utf-8")
                    (made / _named(source.name, name)).write_text(
                        _named(text, name), encoding="utf-8"
                    )
            fill(made)
            shutil.move(made, target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror})") from error
    return target


def _named(text: str, name: str) -> str:
    title = "".join(part.capitalize() for part in name.split("_"))
    for word in ("my_method", "my_suite"):
        text = text.replace(word, name)
    for word in ("MyMethod", "MySuite"):
        text = text.replace(word, title)
    return text
