"""Tables and paragraphs fit any width, and no cell is broken."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from imitbench.util.text_table import TextColumn, by_word, format_table, format_text, nonzero

WORDS = st.text("ab é漢-", max_size=30)
COLUMNS = st.lists(
    st.builds(
        TextColumn,
        name=WORDS.map(lambda word: f"n{word.strip()}"),
        rank=st.integers(0, 3),
        below=st.booleans(),
        above=st.booleans(),
        right=st.sampled_from([None, False, True]),
    ),
    min_size=1,
    max_size=6,
)


@st.composite
def tables(draw):
    columns = draw(COLUMNS)
    value = st.one_of(st.none(), st.integers(-999, 999), st.floats(), WORDS)
    row = st.tuples(*[value] * len(columns))
    return columns, draw(st.lists(row, max_size=5))


@settings(max_examples=60, deadline=None)
@given(table=tables(), width=st.integers(20, 120))
def test_no_line_is_wider_than_the_terminal(table, width):
    columns, rows = table
    for line in format_table(columns, rows, width=width).splitlines():
        assert cell_len(line) <= width


@settings(max_examples=40, deadline=None)
@given(table=tables(), width=st.integers(20, 120))
def test_every_column_is_shown_or_named_as_left_out(table, width):
    columns, rows = table
    shown = " ".join(format_table(columns, [*rows, ["x"] * len(columns)], width=width).split())
    for column in columns:
        for word in column.name.split():
            assert word[: 20 // 2 - 3] in shown


@settings(max_examples=40, deadline=None)
@given(table=tables())
def test_without_a_width_a_row_is_a_line(table):
    columns, rows = table
    assert len(format_table(columns, rows).splitlines()) == 2 + len(rows)


ROWS = [
    ["classic", "bc", "Pendulum-v1", 12, "supervised learning of actions"],
    ["classic", "gail", "Pendulum-v1", 3, "a discriminator"],
    ["seals", "bc", "seals/Ant-v1", 10, ""],
]
MIXED = [
    TextColumn("suite", rank=1, above=True),
    "algorithm",
    TextColumn("environment", rank=2),
    TextColumn("runs", rank=1),
    TextColumn("summary", below=True),
]


def lines(width, columns=MIXED, rows=ROWS):
    return format_table(columns, rows, width=width).splitlines()


def test_a_table_with_room_has_a_line_per_row_and_right_aligned_numbers():
    assert lines(80) == [
        "suite    algorithm  environment   runs  summary",
        "-------  ---------  ------------  ----  ------------------------------",
        "classic  bc         Pendulum-v1     12  supervised learning of actions",
        "classic  gail       Pendulum-v1      3  a discriminator",
        "seals    bc         seals/Ant-v1    10",
    ]


def test_long_texts_move_below_first_and_their_heading_with_them():
    assert lines(60)[:5] == [
        "suite    algorithm  environment   runs",
        "  summary",
        "-------  ---------  ------------  ----",
        "classic  bc         Pendulum-v1     12",
        "  supervised learning of actions",
    ]


def test_repeated_values_move_above_next():
    found = lines(32)
    assert found[0] == "algorithm  environment   runs"
    assert [line for line in found if line.startswith("suite: ")] == [
        "suite: classic",
        "suite: seals",
    ]


def test_ranked_columns_are_left_out_last_and_named():
    found = lines(20)
    assert found[0] == "algorithm  runs"
    assert found[-2:] == ["not shown in 20", "columns: environment"]


def test_a_column_of_lower_rank_stays_before_one_of_higher_rank():
    columns = ["key", TextColumn("first", rank=1), TextColumn("other", rank=2)]
    assert lines(25, columns, [["k" * 10, "f" * 10, "o" * 10]])[0] == "key         first"


def test_what_still_has_room_is_shown_though_a_wider_column_is_not():
    columns = ["key", TextColumn("wide", rank=1), TextColumn("n", rank=2)]
    assert lines(20, columns, [["k" * 10, "w" * 10, 1]])[0] == "key         n"


def test_columns_that_must_be_shown_become_blocks_if_they_do_not_fit():
    columns = ["query", "answer", TextColumn("note", rank=1)]
    rows = [["q" * 12, "a" * 25, "n"], ["p", "b c", None]]
    assert lines(30, columns, rows) == [
        "query   qqqqqqqqqqqq",
        "answer  aaaaaaaaaaaaaaaaaaaaaa",
        "        aaa",
        "note    n",
        "",
        "query   p",
        "answer  b c",
        "note",
    ]


def test_repeated_values_that_must_be_shown_move_above_before_there_are_blocks():
    columns = [TextColumn("algorithm", above=True), "environment"]
    rows = [["preference_comparisons", "Pendulum-v1"], ["preference_comparisons", "seals/Ant-v1"]]
    assert lines(34, columns, rows) == [
        "environment",
        "------------",
        "algorithm: preference_comparisons",
        "Pendulum-v1",
        "seals/Ant-v1",
    ]


def test_values_cannot_break_lines_or_steer_the_terminal():
    text = format_table(["a\x1b[2J", "b"], [["x\ny\t", "\x1b[31mz"]])
    assert text.count("\n") == 3
    assert "\x1b" not in text


def test_wide_characters_are_aligned_by_the_columns_that_they_take():
    assert lines(80, ["name", "n"], [["漢字", 1], ["ab", 2]])[2:] == ["漢字  1", "ab    2"]


def test_colors_are_escape_sequences_around_aligned_texts():
    columns = [
        TextColumn("verdict", color=by_word(better="green")),
        TextColumn("failed", color=nonzero("red")),
    ]
    rows = [["better: yes", 0], ["worse", 2]]
    colored = format_table(columns, rows, color=True)
    assert "\x1b[32mbetter: yes\x1b[0m" in colored
    assert "\x1b[31m2\x1b[0m" in colored
    assert re.sub(r"\x1b\[\d+m", "", colored) == format_table(columns, rows)


def test_text_is_broken_at_spaces_and_a_head_stands_alone():
    assert format_text("- one two three", width=9, indent=2) == "- one two\n  three"
    assert format_text("four against five", width=14, indent=4) == "four against\n     five"
    assert format_text("one two\nthree", width=7) == "one two\nthree"
    assert format_text("one two three") == "one two three"
    assert format_text("abcdefghijklmno", width=10) == "abcdefghij\nklmno"
