"""How well a run's method was kept from true rewards, as its provenance states it.

For methods from outside this package, `check-algo` leaves its verdict in the user's cache, under
the digest of the source and the version of this package. A run that finds none states `unchecked`.
"""

from __future__ import annotations

import json
from pathlib import Path

from imitbench.records.runs import Isolation, RunSpec
from imitbench.util.files import atomic_write_text, user_cache
from imitbench.version import __version__

PROGRAMS = "imitbench.bench.learners.command:CommandLearner"
"""Implementation of methods that are programs in any language."""


def isolation_of(spec: RunSpec) -> Isolation:
    """Returns how well the method of a run that is done here is kept from true rewards."""
    if spec.uses_reward:
        return "reward"
    if spec.implementation_digest is None:
        return "tested"
    if spec.implementation == PROGRAMS:
        return "program"
    try:
        verdict = json.loads(_verdict_file(spec.implementation_digest).read_text())
    except (OSError, ValueError):
        return "unchecked"
    return "checked" if verdict is True else "peeks" if verdict is False else "unchecked"


def remember_verdict(digest: str, *, isolated: bool | None) -> None:
    """Keeps what `check-algo` found; without a cache nothing is kept.

    Args:
        digest: Digest of the method's source.
        isolated: Whether training depends on no true reward; `None` if that was not checked.
    """
    path = _verdict_file(digest)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write_text(path, json.dumps(isolated) + "\n")
    except OSError:
        return


def _verdict_file(digest: str) -> Path:
    return user_cache() / "isolation" / f"{digest}-{__version__}.json"
