"""Folders appear whole, or what was there stays."""

import pytest

from imitbench.errors import InputError
from imitbench.util.files import is_empty, new_folder


def listed(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize("there", [False, True])
def test_a_folder_appears_when_it_is_whole(tmp_path, there):
    place = tmp_path / "a" / "b"
    if there:
        place.mkdir(parents=True)
    with new_folder(place) as draft:
        (draft / "x").write_text("1")
        assert is_empty(place)
    assert listed(tmp_path) == ["a", "a/b", "a/b/x"]
    assert place.stat().st_mode & 0o777 == 0o755


@pytest.mark.parametrize("there", [False, True])
def test_the_name_of_a_folder_is_on_the_disk_at_the_end(tmp_path, flushed, there):
    if there:
        (tmp_path / "a" / "old").mkdir(parents=True)
    with new_folder(tmp_path / "a", lambda _: None) as draft:
        (draft / "x").write_text("1")
    [(inner, names), (folder, names_then)] = flushed
    assert (inner, names) == (draft, {"x"})
    assert (folder, names_then) == (tmp_path, {"a"})


def test_what_is_there_is_refused_unless_it_may_be_replaced(tmp_path):
    place = tmp_path / "a"
    place.mkdir()
    (place / "old").write_text("1")
    with pytest.raises(InputError, match="is not empty"), new_folder(place):
        pytest.fail("must not get so far")
    asked = []
    with new_folder(place, asked.append) as draft:
        (draft / "new").write_text("2")
    assert (asked, listed(tmp_path)) == ([place], ["a", "a/new"])


@pytest.mark.parametrize("error", [RuntimeError("no"), KeyboardInterrupt()])
def test_an_error_leaves_what_was_there(tmp_path, error):
    place = tmp_path / "a"
    place.mkdir()
    (place / "old").write_text("1")
    with pytest.raises(type(error)), new_folder(place, lambda _: None) as draft:
        (draft / "new").write_text("2")
        raise error
    assert listed(tmp_path) == ["a", "a/old"]


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"), new_folder(tmp_path / "file" / "a"):
        pytest.fail("must not get so far")


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with new_folder(tmp_path / "link") as draft:
        (draft / "x").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "x").read_text() == "1"
