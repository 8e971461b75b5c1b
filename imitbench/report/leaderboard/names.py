"""Names of the site's files, made from names that may be any text."""

from __future__ import annotations

import hashlib
import re

_PLAIN = re.compile(r"(?!.*-[0-9a-f]{8}$)[a-z0-9_][a-z0-9_-]{0,59}")


def slug(text: str) -> str:
    """A name for a file that leads nowhere else; other texts have others."""
    if _PLAIN.fullmatch(text):
        return text
    plain = re.sub(r"[^a-z0-9_]+", "-", text.lower()).strip("-")[:40]
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{plain}-{digest}" if plain else f"x-{digest}"


def page_of(suite: str, algorithm: str) -> str:
    """Page of an algorithm on a suite, below the site."""
    return f"algorithms/{slug(suite)}/{slug(algorithm)}.html"


def external_page(label: str, suite: str, algorithm: str) -> str:
    """Page of an imported algorithm on a suite, below the site."""
    return f"external/{slug(label)}/{slug(suite)}/{slug(algorithm)}.html"


def episodes_folder(submitter: str, suite: str) -> str:
    """Folder of a submitter's evaluation episodes, below the site."""
    return f"episodes/{slug(submitter) if submitter else 'own'}/{slug(suite)}"
