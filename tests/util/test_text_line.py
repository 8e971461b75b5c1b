import pytest

from imitbench.util.text_line import one_line


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
