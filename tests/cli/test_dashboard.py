"""`imitbench dashboard`: how it starts, refuses and ends."""

import json
import signal
import socket
import subprocess
import sys

import pytest
from support.runs import make_spec
from support.synthetic_runs import write_finished

from imitbench.cli.main import main


@pytest.fixture
def out(tmp_path):
    write_finished(tmp_path / "runs", make_spec())
    return tmp_path / "runs"


COMMAND = [sys.executable, "-m", "imitbench", "dashboard", "--port", "0", "--no-browser", "--json"]


def test_the_command_prints_its_address_and_ends_at_ctrl_c(out):
    command = subprocess.Popen(
        [*COMMAND, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with command:
        lines = [command.stdout.readline() for _ in range(4)]
        assert json.loads("".join(lines))["folder"] == str(out)
        assert command.stderr.readline() == "Ctrl-C ends the dashboard\n"
        command.send_signal(signal.SIGINT)
        rest, errors = command.communicate(timeout=60)
    assert (command.returncode, rest, errors) == (0, "", "stopped\n")


@pytest.fixture
def refused(tmp_path, monkeypatch, capsys):
    """Calls the command in this process; returns its line on stderr."""

    def call(*arguments):
        words = [str(argument) for argument in arguments]
        monkeypatch.setattr("sys.argv", ["imitbench", *words, "--no-browser"])
        monkeypatch.chdir(tmp_path)
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        assert (ended.value.code, said.out) == (2, "")
        [line] = said.err.splitlines()
        return line

    return call


def test_bad_input_is_one_line(out, tmp_path, refused):
    (tmp_path / "empty").mkdir()
    assert "no such folder; run `imitbench run --out absent`" in refused(
        "dashboard", "--out", "absent"
    )
    assert "no results found" in refused("dashboard", "--out", "empty")
    assert list((tmp_path / "empty").iterdir()) == []
    (tmp_path / "file").write_text("")
    assert "is not a folder" in refused("dashboard", "--out", "file")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        line = refused("dashboard", "--out", out, "--port", port)
    assert line.endswith("in use by another program; choose another, or --port 0 for any free one")
    assert "--port" in refused("dashboard", "--out", out, "--port", 99999)
