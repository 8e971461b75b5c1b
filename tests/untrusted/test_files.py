"""Only ordinary files are opened, and messages are one short line."""

import os
import re
import socket
from dataclasses import asdict
from pathlib import Path

import pytest
from support.command import call_imitbench, refusal

from imitbench.errors import InputError
from imitbench.untrusted.files import read_bounded, read_content, read_text, require_ordinary
from imitbench.untrusted.limits import Limits, limits
from imitbench.untrusted.messages import MESSAGE_LENGTH, error_line


def hostile(kind, path):
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(str(path))
        listening.close()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    elif kind == "folder":
        path.mkdir()
    return path


@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "folder"])
@pytest.mark.parametrize("read", [read_text, read_content, require_ordinary])
def test_only_ordinary_files_are_read(kind, read, tmp_path):
    with pytest.raises(InputError, match="no ordinary file"):
        read(hostile(kind, tmp_path / "x"))


def test_a_sparse_file_is_refused_by_its_size(tmp_path):
    path = tmp_path / "card.yaml"
    with path.open("wb") as stream:
        stream.truncate(2**40)
    with pytest.raises(InputError, match="IMITBENCH_LIMIT"):
        read_text(path)
    with pytest.raises(InputError, match="IMITBENCH_LIMIT"):
        read_content(path)
    assert len(read_bounded(hostile_free(tmp_path), 10)) == 3


def hostile_free(folder):
    path = folder / "plain"
    path.write_bytes(b"abc")
    return path


def test_links_may_lead_into_the_folder_and_the_cache_but_not_out(tmp_path):
    repo = tmp_path / "models--a--b"
    snapshot = repo / "snapshots" / "0"
    snapshot.mkdir(parents=True)
    (repo / "blobs").mkdir()
    (repo / "blobs" / "f").write_text("x")
    (tmp_path / "secret").write_text("x")
    (snapshot / "inner").write_text("x")
    for name, target in [("a", "inner"), ("b", "../../blobs/f")]:
        (snapshot / name).symlink_to(target)
        require_ordinary(snapshot / name, inside=snapshot)
    (snapshot / "c").symlink_to(tmp_path / "secret")
    with pytest.raises(InputError, match="leads out"):
        require_ordinary(snapshot / "c", inside=snapshot)


def test_limits_come_from_the_environment(monkeypatch):
    assert limits() == Limits()
    monkeypatch.setenv("IMITBENCH_LIMIT_TEXT_BYTES", "77")
    assert limits().text_bytes == 77
    for wrong in ("-1", "0", "1e9", "²", "9" * 400_000):
        monkeypatch.setenv("IMITBENCH_LIMIT_TEXT_BYTES", wrong)
        with pytest.raises(InputError, match="IMITBENCH_LIMIT_TEXT_BYTES: must be"):
            limits()


def test_an_error_line_is_short_and_shows_control_characters():
    shown = error_line("x.yaml: \x1b[31mred\x07\n" + "a" * 1_000_000 + "\r: fetch it again")
    assert len(shown) <= MESSAGE_LENGTH
    assert shown.isprintable()
    assert shown.startswith("x.yaml: \\x1b[31mred\\x07\\n")
    assert shown.endswith("\\r: fetch it again")
    assert error_line("Maß: 3 µs") == "Maß: 3 µs"
    assert error_line("\udcff") == "\\udcff"
    for length in (40, 120, 160, 500):
        assert len(error_line("a" * 1000, length)) == length


def test_a_hostile_name_gives_one_short_line(tmp_path):
    suite = tmp_path / "suite.yaml"
    suite.write_text('name: "' + "\\e[2J\\a" * 50_000 + '"\n')
    line = refusal(call_imitbench("suites", "show", tmp_path, cwd=tmp_path))
    assert len(line) < MESSAGE_LENGTH + 20
    assert "\x1b" not in line


def test_the_page_lists_every_limit():
    page = (Path(__file__).parents[2] / "docs/security.md").read_text()
    listed = dict(re.findall(r"\| `([A-Z_]+)` \| ([\d,]+) \|", page))
    stated = {name.upper(): f"{value:,}" for name, value in asdict(Limits()).items()}
    assert listed == stated
