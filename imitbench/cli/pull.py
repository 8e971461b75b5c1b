"""`imitbench experts pull`, `imitbench demos pull`, `imitbench prefetch`: download from the hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from imitbench.cli import options
from imitbench.cli.options import argument, option
from imitbench.cli.output import TextColumn, make_notifier, note, print_json, print_table, size_text
from imitbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from imitbench.hub.pull import PulledArtifact
    from imitbench.util.hub_client import RepoKind
    from imitbench.util.hub_errors import Notify


Repo = Annotated[
    str | None, argument("[REPO]", "Repository owner/name, or a name on a suite card.")
]
SuiteToPull = Annotated[
    str | None, option("--suite", "Fetch all that the card of this suite names.", "NAME")
]
Revision = Annotated[
    str | None,
    option("--revision", "Commit, branch or tag [the pinned one, or the latest].", "REV"),
]
To = Annotated[
    Path | None, option("--to", "Copy to DIR/<name>, which is replaced [only the cache].", "DIR")
]


def pull_experts(
    repo: Repo = None,
    suite: SuiteToPull = None,
    env: options.Env = [],  # noqa: B006 (typer copies it)
    revision: Revision = None,
    to: To = None,
    json: options.Json = False,
) -> None:
    """Fetch experts from the hub.

    `run --source path:DIR` reads copies in the folder `experts` of DIR.

    Example: imitbench experts pull --suite classic --to pulled/experts
    """
    _pull("model", repo, suite, env, revision, to, json)


def pull_demos(
    repo: Repo = None,
    suite: SuiteToPull = None,
    env: options.Env = [],  # noqa: B006
    revision: Revision = None,
    to: To = None,
    json: options.Json = False,
) -> None:
    """Fetch demonstrations from the hub.

    `run --source path:DIR` reads copies in the folder `demos` of DIR.

    Example: imitbench demos pull HumanCompatibleAI/ppo-seals-CartPole-v0
    """
    _pull("dataset", repo, suite, env, revision, to, json)


def _pull(
    kind: RepoKind,
    repo: str | None,
    suite: str | None,
    env: list[str],
    revision: str | None,
    to: Path | None,
    json: bool,
) -> None:
    from imitbench.hub.pull import copy_out

    if (repo is None) == (suite is None):
        raise InputError("name one repository, or a suite by --suite")
    if suite is not None and revision is not None:
        raise InputError("--revision: applies to one repository; name it instead of --suite")
    if repo is not None and env:
        raise InputError("--env: needs --suite")
    notify = make_notifier()
    pulled = (
        [_pull_one(kind, repo, revision, notify)]
        if repo is not None
        else _pull_suite(kind, str(suite), env, notify)
    )
    rows = [
        {
            "repo": artifact.repo,
            "revision": artifact.revision,
            "digest": artifact.digest,
            "bytes": artifact.size,
            "folder": str(artifact.folder if to is None else copy_out(artifact, to)),
        }
        for artifact in pulled
    ]
    if json:
        print_json(rows)
    else:
        print_table(
            [
                "repository",
                TextColumn("commit", rank=1),
                TextColumn("size", rank=2),
                TextColumn("folder", below=True),
            ],
            [
                [row["repo"], artifact.revision[:12], size_text(artifact.size), row["folder"]]
                for row, artifact in zip(rows, pulled, strict=True)
            ],
        )


def _pull_suite(kind: RepoKind, suite: str, env: list[str], notify: Notify) -> list[PulledArtifact]:
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.hub.suite_sources import pull_sources, suite_sources

    sources = suite_sources(select_environments(find_suite(suite), env), [kind])
    if not sources:
        raise InputError(
            f"suite {suite}: its card names no such repository; use `run --source bundled`"
        )
    found = {artifact.repo: artifact for _, artifact in pull_sources(suite, sources, notify=notify)}
    return list(found.values())


def _pull_one(kind: RepoKind, repo: str, revision: str | None, notify: Notify) -> PulledArtifact:
    from imitbench.cards.catalog import load_suite, suite_names
    from imitbench.hub.pull import pull
    from imitbench.hub.suite_sources import suite_sources

    known = {
        source.hub.repo: source
        for name in suite_names()
        for source in suite_sources(load_suite(name).environments, [kind])
    }
    if "/" not in repo:
        full = [name for name in known if name.rpartition("/")[2] == repo]
        if not full:
            raise InputError(f"{repo}: not owner/name; {did_you_mean(repo, known)}")
        [repo] = full[:1]
    listed = known.get(repo)
    conversion = None
    if listed is not None:
        revision, conversion = revision or listed.hub.revision, listed.conversion
    return pull(kind, repo, revision=revision, conversion=conversion, notify=notify)


def prefetch(
    suite: options.Suite,
    env: options.Env = [],  # noqa: B006
    source: Annotated[
        Literal["hub", "minari"],
        option("--source", "Fetch repositories of the hub, or sets of Minari, on the card."),
    ] = "hub",
    lock: options.Lock = options.DEFAULT_LOCK,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch a suite's experts and demonstrations, for runs without a network.

    Writes commits and digests to a lock file. `run --source hub` uses it to find and check files.
    With `--source minari`, fetches the sets of Minari that the card names to Minari's own folder,
    checks that they fit, and converts them for `run --source minari`; there is no lock file, as
    runs record the digests.

    Example: imitbench prefetch --suite classic
    """
    if source == "minari":
        _prefetch_minari(suite, env, json=json)
        return
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.hub.lock_file import read_lock, write_lock
    from imitbench.hub.suite_sources import pull_sources, suite_sources

    sources = suite_sources(select_environments(find_suite(suite), env))
    if not sources:
        raise InputError(f"suite {suite}: its card names no hub repository; nothing to fetch")
    before = read_lock(lock)
    pulled = pull_sources(suite, sources, notify=make_notifier(quiet=quiet))
    items = [found.as_locked() for _, found in pulled]
    write_lock(lock, before.with_items(items))
    if json:
        print_json([item.model_dump(mode="json") for item in items])
        return
    print_table(
        [TextColumn("kind", rank=2), "repository", "commit", TextColumn("size", rank=1)],
        [[item.kind, item.repo, item.revision[:12], size_text(item.size)] for item in items],
    )
    if not quiet:
        note(f"wrote {lock}")


def _prefetch_minari(suite: str, env: list[str], *, json: bool) -> None:
    from imitbench.bench.minari_sets import fetch_sets
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite

    card = find_suite(suite)
    found = fetch_sets(card, select_environments(card, env))
    if json:
        print_json([vars(fetched) for fetched in found])
        return
    print_table(
        ["environment", "set", "episodes", "mean return", TextColumn("digest", rank=1)],
        [
            [
                fetched.env_id,
                fetched.name,
                fetched.episodes,
                fetched.mean_return,
                fetched.digest[:12],
            ]
            for fetched in found
        ],
    )
