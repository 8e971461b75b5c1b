"""The lock file."""

import pytest

from imitbench.errors import InputError
from imitbench.hub.lock_file import HubLock, LockedItem, read_lock, write_lock


def item(repo="org/a", kind="model", revision="1" * 40, **changes):
    fields = {"kind": kind, "repo": repo, "revision": revision, "digest": "a" * 64, "size": 5}
    return LockedItem(**fields | changes)


def test_reading_returns_what_was_written(tmp_path):
    lock = HubLock().with_items([item(), item(kind="dataset")])
    write_lock(tmp_path / "lock", lock)
    assert read_lock(tmp_path / "lock") == lock
    assert lock.find("dataset", "org/a") == item(kind="dataset")
    assert lock.find("model", "org/b") is None


def test_new_items_replace_those_of_the_same_repository():
    lock = HubLock().with_items([item(), item("org/b")]).with_items([item(revision="2" * 40)])
    assert [each.revision[0] for each in lock.items] == ["2", "1"]


def test_a_missing_file_locks_nothing(tmp_path):
    assert read_lock(tmp_path / "absent").items == []


@pytest.mark.parametrize(
    "text",
    ["", "[]", '{"items": [{"repo": "a/b"}]}', '{"schema_version": 2}', '{"unknown": 1}'],
)
def test_another_file_is_reported_in_one_line(tmp_path, text):
    path = tmp_path / "lock"
    path.write_text(text)
    with pytest.raises(InputError, match="not a lock file") as caught:
        read_lock(path)
    assert "\n" not in str(caught.value)


def test_a_folder_of_that_name_is_reported(tmp_path):
    with pytest.raises(InputError, match="is no ordinary file"):
        read_lock(tmp_path)
    with pytest.raises(InputError, match="cannot be written"):
        write_lock(tmp_path, HubLock())
