"""The repositories on a suite's card."""

import shutil

import pytest

from imitbench.cards.catalog import load_suite, suite_directory
from imitbench.cards.suite import SuiteCard
from imitbench.cards.yaml_file import read_yaml_model
from imitbench.errors import InputError
from imitbench.hub.lock_file import HubLock
from imitbench.hub.suite_sources import (
    pull_sources,
    resolve_commits,
    suite_sources,
    warn_of_pins,
    with_commits,
    write_commits,
)

pytestmark = pytest.mark.usefixtures("client")
ENVIRONMENTS = load_suite("classic").environments


def test_every_repository_of_the_card_is_found():
    found = {(source.env_id, source.kind) for source in suite_sources(ENVIRONMENTS)}
    expected = {"seals/CartPole-v0", "Pendulum-v1"}
    assert found == {(env, kind) for env in expected for kind in ("model", "dataset")}
    assert {source.kind for source in suite_sources(ENVIRONMENTS, ["model"])} == {"model"}


def test_commits_are_filled_in(classic):
    pulled = pull_sources("classic", suite_sources(ENVIRONMENTS))
    cards = with_commits(ENVIRONMENTS, pulled)
    for card in cards.values():
        if card.expert.hub is not None:
            commit = classic.resolve("model", card.expert.hub.repo, "main")
            assert card.expert.hub.revision == commit
            assert card.demos.hub.revision == classic.resolve(
                "dataset", card.demos.hub.repo, "main"
            )
    assert ENVIRONMENTS["Pendulum-v1"].expert.hub.revision is None


def test_a_pinned_card_is_pulled_at_its_commit(classic):
    [source, *_] = suite_sources(ENVIRONMENTS, ["model"])
    [(_, old)] = pull_sources("classic", [source])
    classic.add_model(old.repo, {**classic.files("model", old.repo), "README.md": b"new"})
    pinned = suite_sources(with_commits(ENVIRONMENTS, [(source, old)]), ["model"])[0]
    assert pull_sources("classic", [pinned])[0][1] == old


def test_a_commit_without_a_pin_gives_a_warning(classic):
    [source, *_] = suite_sources(ENVIRONMENTS)
    pulled = pull_sources("classic", [source])
    commit = pulled[0][1].revision
    warnings = []
    warn_of_pins("classic", pulled, None, warnings.append)
    assert len(warnings) == 1
    assert commit[:12] in warnings[0]
    assert "imitbench suites pin classic" in warnings[0]
    lock = HubLock().with_items([pulled[0][1].as_locked()])
    warn_of_pins("classic", pulled, lock, warnings.append)
    assert len(warnings) == 1


def test_a_lock_that_differs_from_the_card_gives_a_warning(classic):
    [source, *_] = suite_sources(ENVIRONMENTS)
    pulled = pull_sources("classic", [source])
    [pinned, *_] = suite_sources(with_commits(ENVIRONMENTS, pulled))
    other = pulled[0][1].as_locked().model_copy(update={"revision": "0" * 40})
    lock = HubLock().with_items([other])
    again = pull_sources("classic", [pinned], lock=lock)
    assert again[0][1] == pulled[0][1]
    warnings = []
    warn_of_pins("classic", again, lock, warnings.append)
    assert "using the card's" in warnings[0]


def test_without_network_the_error_suggests_prefetch(hub):
    hub.stop()
    with pytest.raises(InputError, match="run `imitbench prefetch --suite classic`"):
        pull_sources("classic", suite_sources(ENVIRONMENTS))


def test_only_commits_are_changed_in_the_card(classic, tmp_path):
    path = tmp_path / "suite.yaml"
    shutil.copy(suite_directory("classic") / "suite.yaml", path)
    before = read_yaml_model(path, SuiteCard)
    found = resolve_commits(suite_sources(before.environments))
    write_commits(path, found)
    after = read_yaml_model(path, SuiteCard)
    assert all(source.hub.revision for source in suite_sources(after.environments))
    cleared = {
        env_id: card.model_copy(
            update={
                "expert": card.expert.model_copy(update={"hub": None}),
                "demos": card.demos.model_copy(update={"hub": None}),
            }
        )
        for env_id, card in after.environments.items()
    }
    assert cleared["Pendulum-v1"].references == before.environments["Pendulum-v1"].references
    write_commits(path, [])
    assert read_yaml_model(path, SuiteCard) == after
