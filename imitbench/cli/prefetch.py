"""`imitbench prefetch`: fills the hub's cache where there is a network."""

from __future__ import annotations

from imitbench.cli import options


def prefetch(
    suite: options.Suite,
    env: options.Env = None,
    lock: options.Lock = options.DEFAULT_LOCK,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fetch a suite's experts and demonstrations, for runs without a network.

    Writes commits and digests to a lock file, by which `run --source hub` finds and checks them.

    Example: imitbench prefetch --suite classic
    """
    from imitbench.cards.catalog import select_environments
    from imitbench.cards.plugins import find_suite
    from imitbench.cli.hub_progress import make_notifier, size_text
    from imitbench.cli.output import note, print_json, print_table
    from imitbench.errors import InputError
    from imitbench.hub.lock_file import read_lock, write_lock
    from imitbench.hub.suite_sources import pull_sources, suite_sources

    sources = suite_sources(select_environments(find_suite(suite), env))
    if not sources:
        raise InputError(f"suite {suite}: its card names no hub repository; nothing to fetch")
    before = read_lock(lock)
    pulled = pull_sources(suite, sources, tell=make_notifier(quiet=quiet))
    items = [found.as_locked() for _, found in pulled]
    write_lock(lock, before.with_items(items))
    if json:
        print_json([item.model_dump(mode="json") for item in items])
        return
    print_table(
        ["kind", "repository", "commit", "size"],
        [[item.kind, item.repo, item.revision[:12], size_text(item.size)] for item in items],
    )
    if not quiet:
        note(f"wrote {lock}")
