"""Text for the terminal, whose width and color follow the terminal and what users set."""

import io
import os
import pty

import pytest

from imitbench.util.text_line import one_line, uses_color, width_of


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("as it is", "as it is"),
        ("two\nlines\tand  spaces ", "two lines and spaces"),
        ("\x1b[2Jgone", "[2Jgone"),
        (ValueError("why"), "why"),
        ("", ""),
    ],
)
def test_text_becomes_one_printable_line(text, line):
    assert one_line(text) == line


def test_long_text_is_cut():
    assert one_line("x" * 500, 10) == "x" * 9 + "…"
    assert one_line("x" * 10, 10) == "x" * 10


@pytest.fixture
def terminal(monkeypatch):
    """A stream on a real terminal."""
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    ours, its = pty.openpty()
    with os.fdopen(its, "w") as stream:
        yield stream
    os.close(ours)


def test_a_terminal_says_its_width(terminal):
    import fcntl
    import struct
    import termios

    assert width_of(terminal) == 80  # as it does not know it
    fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
    assert width_of(terminal) == 123
    fcntl.ioctl(terminal.fileno(), termios.TIOCSWINSZ, struct.pack("HHHH", 40, 5, 0, 0))
    assert width_of(terminal) == 20


def test_a_pipe_has_any_width_unless_columns_states_one(terminal, monkeypatch):
    assert width_of(io.StringIO()) is None
    monkeypatch.setenv("COLUMNS", "66")
    assert (width_of(io.StringIO()), width_of(terminal)) == (66, 66)
    for wrong in ("", "0", "wide", "-3"):
        monkeypatch.setenv("COLUMNS", wrong)
        assert (width_of(io.StringIO()), width_of(terminal)) == (None, 80)


@pytest.mark.parametrize(
    ("variables", "on_terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": ""}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
    ],
)
def test_color_is_for_terminals_unless_a_variable_says_otherwise(
    terminal, monkeypatch, variables, on_terminal, elsewhere
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (uses_color(terminal), uses_color(io.StringIO())) == (on_terminal, elsewhere)
