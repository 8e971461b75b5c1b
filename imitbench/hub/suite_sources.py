"""Pulls the repositories that a suite's card names, and pins their commits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imitbench.cards.catalog import rewrite_suite_card
from imitbench.cards.demonstrations import Conversion, HubDemos, HubSource
from imitbench.cards.suite import EnvironmentCard
from imitbench.errors import InputError
from imitbench.hub.lock_file import HubLock
from imitbench.hub.pull import PulledArtifact, pull
from imitbench.util import hub_client
from imitbench.util.hub_client import RepoKind
from imitbench.util.hub_errors import Notify, UnreachableError

KINDS: tuple[RepoKind, ...] = ("model", "dataset")
_PARTS: dict[RepoKind, str] = {"model": "expert", "dataset": "demos"}


@dataclass(frozen=True)
class SuiteSource:
    """A repository that an environment's card names.

    Attributes:
        env_id: Gymnasium id.
        kind: `model` for its expert, `dataset` for its demonstrations.
        hub: Name and commit of the repository.
    """

    env_id: str
    kind: RepoKind
    hub: HubSource

    @property
    def conversion(self) -> Conversion | None:
        """How its demonstrations are converted; `None` if they are not."""
        return self.hub.conversion if isinstance(self.hub, HubDemos) else None


def suite_sources(
    environments: Mapping[str, EnvironmentCard], kinds: Iterable[RepoKind] = KINDS
) -> list[SuiteSource]:
    """Lists the repositories on the cards of environments."""
    wanted = tuple(kinds)
    return [
        SuiteSource(env_id, kind, hub)
        for env_id, card in environments.items()
        for kind in wanted
        if (part := getattr(card, _PARTS[kind])) is not None and (hub := part.hub) is not None
    ]


def pull_sources(
    suite: str,
    sources: Iterable[SuiteSource],
    *,
    lock: HubLock | None = None,
    notify: Notify = hub_client.silent,
) -> list[tuple[SuiteSource, PulledArtifact]]:
    """Pulls repositories on a suite's card, at the commits that card or lock pin.

    Without a pin, pulls the latest commit.

    Args:
        suite: Name of the suite.
        sources: Repositories from `suite_sources`.
        lock: Commits for repositories that the card does not pin.
        notify: Called with messages about downloads and pauses.

    Raises:
        InputError: A repository cannot be fetched.
    """
    pulled = []
    for source in sources:
        try:
            found = pull(
                source.kind,
                source.hub.repo,
                revision=source.hub.revision,
                conversion=source.conversion,
                lock=lock,
                notify=notify,
            )
        except UnreachableError as error:
            raise InputError(
                f"{error}; run `imitbench prefetch --suite {suite}` on a machine with a network"
            ) from error
        pulled.append((source, found))
    return pulled


def warn_of_pins(
    suite: str,
    pulled: Iterable[tuple[SuiteSource, PulledArtifact]],
    lock: HubLock | None,
    notify: Notify,
) -> None:
    """Warns of commits without a pin, and of those that card and lock pin differently."""
    for source, found in pulled:
        name = hub_client.repo_path(found.kind, found.repo)
        locked = lock.find(found.kind, found.repo) if lock else None
        if source.hub.revision is None and locked is None:
            notify(
                f"warning: {name}: the suite card pins no commit; using {found.revision[:12]} "
                f"(`imitbench suites pin {suite}` pins it)"
            )
        elif locked is not None and locked.revision != found.revision:
            notify(
                f"warning: {name}: the lock file has commit {locked.revision[:12]}, the suite "
                f"card {found.revision[:12]}; using the card's"
            )


def with_commits(
    environments: Mapping[str, EnvironmentCard],
    pulled: Iterable[tuple[SuiteSource, PulledArtifact]],
) -> dict[str, EnvironmentCard]:
    """Returns the cards with the commits that were pulled."""
    cards = dict(environments)
    for source, found in pulled:
        card, part = cards[source.env_id], _PARTS[source.kind]
        hub = source.hub.model_copy(update={"revision": found.revision})
        recipe = getattr(card, part).model_copy(update={"hub": hub})
        cards[source.env_id] = card.model_copy(update={part: recipe})
    return cards


def resolve_commits(
    sources: Iterable[SuiteSource], *, notify: Notify = hub_client.silent
) -> list[tuple[SuiteSource, str]]:
    """Queries the hub for the latest commit of each repository.

    Raises:
        InputError: A repository cannot be read.
    """
    return [
        (source, hub_client.resolve_commit(source.hub.repo, kind=source.kind, notify=notify))
        for source in sources
    ]


def write_commits(path: Path, commits: Iterable[tuple[SuiteSource, str]]) -> None:
    """Writes commits into a suite card.

    Raises:
        InputError: The card is malformed, or cannot be written.
    """

    def change(document: dict[str, Any]) -> None:
        for source, commit in commits:
            part = document["environments"][source.env_id].get(_PARTS[source.kind])
            if part is not None:  # a variant takes over that of its environment
                part["hub"]["revision"] = commit

    rewrite_suite_card(path, change)
