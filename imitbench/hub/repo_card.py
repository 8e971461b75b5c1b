"""The card of a repository, `README.md`: metadata for the hub, then Markdown for readers."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from imitbench.errors import InputError
from imitbench.untrusted.files import read_content
from imitbench.untrusted.yaml_text import load_yaml
from imitbench.util.parse_errors import UNREADABLE_YAML

CARD_FILE = "README.md"
_FENCE = "---\n"


@dataclass
class RepoCard:
    """A mutable card.

    Attributes:
        metadata: The YAML block that the hub reads.
        text: Markdown after the metadata.
    """

    metadata: dict[str, Any] = field(default_factory=dict)
    text: str = ""

    @classmethod
    def read(cls, path: Path) -> RepoCard:
        """Reads a card; the metadata may be absent.

        Raises:
            InputError: The file cannot be read, or its metadata is malformed.
        """
        try:
            whole = read_content(path).decode("utf-8").replace("\r\n", "\n")
        except (OSError, UnicodeDecodeError) as error:
            problem = getattr(error, "strerror", None) or "not UTF-8"
            raise InputError(f"{path}: cannot be read ({problem})") from error
        return cls.parse(whole, str(path))

    @classmethod
    def parse(cls, whole: str, where: str = CARD_FILE) -> RepoCard:
        """Parses the text of a file, called `where` in error messages."""
        if not whole.startswith(_FENCE):
            return cls(text=whole)
        # The file may end with the second fence, and there may be nothing between both.
        head, end, text = f"{whole}\n".removeprefix("---").partition(f"\n{_FENCE}")
        try:
            _, metadata = load_yaml(head)
        except UNREADABLE_YAML as error:
            problem = " ".join(str(error).split())[:120]
            raise InputError(
                f"{where}: metadata between --- is not valid YAML ({problem})"
            ) from error
        if metadata is None and end:
            metadata = {}
        if not isinstance(metadata, dict):
            raise InputError(f"{where}: metadata between --- must be `key: value` lines")
        return cls(metadata, text.removesuffix("\n"))

    def render(self) -> str:
        """Returns the content of the whole file."""
        return f"{_FENCE}{self.metadata_text()}{_FENCE}{self.text}"

    def metadata_text(self) -> str:
        """Returns the metadata as YAML."""
        return str(yaml.safe_dump(self.metadata, sort_keys=False, allow_unicode=True))

    def add_tags(self, *tags: str) -> None:
        """Adds tags that are missing."""
        present = self.metadata.get("tags")
        known = present if isinstance(present, list) else [present] if present else []
        self.metadata["tags"] = [*known, *(tag for tag in tags if tag not in known)]

    def set_section(self, title: str, text: str | None) -> None:
        """Replaces a second-level section, or appends it at the end; `None` removes it."""
        old = re.compile(rf"^## {re.escape(title)}\n.*?(?=^##? |\Z)", re.MULTILINE | re.DOTALL)
        rest = old.sub("", self.text).rstrip("\n")
        section = "" if text is None else f"\n\n## {title}\n\n{text.strip()}"
        self.text = f"{rest}{section}\n"
