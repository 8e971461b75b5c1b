"""Atomic writes: the old content or the new, never a part."""

import os
import subprocess
from pathlib import Path

import pytest

from imitbench.util import files


def test_content_is_replaced_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "deep" / "file.json"
    files.atomic_write_text(target, "old")
    files.atomic_write_text(target, "new")
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_failed_write_keeps_the_old_content(tmp_path, monkeypatch):
    target = tmp_path / "file"
    files.atomic_write_text(target, "old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space"):
        files.atomic_write_text(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_content_is_on_the_disk_before_its_name_and_the_name_at_the_end(tmp_path, flushed):
    files.atomic_write_text(tmp_path / "file", "new")
    [(content, names), (folder, names_then)] = flushed
    assert names == {content.name} != {"file"}
    assert (folder, names_then) == (tmp_path, {"file"})


def test_a_digest_depends_on_names_and_content_only(tmp_path):
    first, second = tmp_path / "a", tmp_path / "b"
    for root in (first, second):
        files.atomic_write_text(root / "x", "1")
        files.atomic_write_text(root / "y", "2")
    digest = files.digest_files(first, [first / "x", first / "y"])
    assert digest == files.digest_files(second, [second / "y", second / "x"])
    (second / "y").rename(second / "z")
    assert digest != files.digest_files(second, [second / "x", second / "z"])
    files.atomic_write_text(second / "y", "3")
    assert digest != files.digest_files(second, [second / "x", second / "y"])


def test_output_goes_where_a_link_points_and_into_pipes(tmp_path):
    target, link, pipe = (tmp_path / name for name in ("target", "link", "pipe"))
    link.symlink_to(target)
    files.write_output(link, "text")
    assert (link.is_symlink(), target.read_text()) == (True, "text")
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        files.write_output(pipe, "text")
        assert reader.communicate()[0] == "text"
    assert pipe.is_fifo()
    files.write_output(Path(os.devnull), "text")
    assert Path(os.devnull).is_char_device()
