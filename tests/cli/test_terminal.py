"""What commands print on a real terminal, and elsewhere."""

import re

import pytest
from rich.cells import cell_len
from support.command import on_terminal
from support.shown_results import write_results

REPORT = ("report", "--replicates", "100")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("place")
    write_results(folder / "runs", seeds=2, skills={"bc": ((0.9, 0.1),) * 3}, failing=())
    return folder


def shown_on_terminal(*words, cwd, width, env):
    """Returns what `imitbench WORDS…` prints on a terminal of this width."""
    shown, code = on_terminal(*words, cwd=cwd, width=width, env=env)
    assert code == 0
    return shown.replace("\r\n", "\n")


def test_a_terminal_gets_a_report_of_tables_in_color_that_fit_it(place):
    shown = shown_on_terminal(*REPORT, cwd=place, width=72, env={"TERM": "xterm"})
    assert ESCAPE.search(shown)
    plain = ESCAPE.sub("", shown)
    assert max(map(cell_len, plain.splitlines())) <= 72
    assert "\\" not in plain
    assert "| --- |" not in plain
    assert re.search(r"^bc +1|^bc +0", plain, re.MULTILINE)
    assert shown != plain
    calm = shown_on_terminal(*REPORT, cwd=place, width=72, env={"TERM": "xterm", "NO_COLOR": "1"})
    assert calm == plain


def test_a_pipe_and_a_file_get_markdown_and_so_does_who_asks_for_it(imitbench, place, tmp_path):
    piped = imitbench(*REPORT, cwd=place).out
    assert piped.startswith("# imitbench report\n")
    assert "| --- |" in piped
    imitbench(*REPORT, "--to", tmp_path / "report.md", cwd=place)
    assert (tmp_path / "report.md").read_text() == piped
    for name in ("md", "markdown"):
        assert imitbench(*REPORT, "--format", name, cwd=place).out == piped
    markdown = (*REPORT, "--format", "markdown")
    assert shown_on_terminal(*markdown, cwd=place, width=60, env={}) == piped


def test_text_in_a_pipe_has_all_columns_and_no_color(imitbench, place):
    shown = imitbench(*REPORT, "--format", "text", cwd=place).out
    assert "Score, deterministic" in shown
    assert "not shown" not in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("words", "env", "colored"),
    [
        ((), {}, False),
        ((), {"FORCE_COLOR": "1"}, True),
        ((), {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (("--color", "always"), {}, True),
        (("--color", "always"), {"NO_COLOR": "1"}, True),
        (("--color", "never"), {"FORCE_COLOR": "1"}, False),
        (("--color", "auto"), {"FORCE_COLOR": "1"}, True),
    ],
)
def test_color_in_a_pipe_is_for_those_who_demand_it(imitbench, place, words, env, colored):
    answer = imitbench(*words, *REPORT, "--format", "text", cwd=place, env=env)
    assert answer.code == 0
    assert bool(ESCAPE.search(answer.out)) is colored


def test_json_and_files_never_have_color(imitbench, place, tmp_path):
    env = {"FORCE_COLOR": "1"}
    assert "\x1b" not in imitbench("suites", "--json", cwd=place, env=env).out
    target = tmp_path / "report.txt"
    imitbench(*REPORT, "--format", "text", "--to", target, cwd=place, env=env)
    assert "\x1b" not in target.read_text()


def test_a_wrong_color_is_one_line(imitbench):
    answer = imitbench("--color", "sometimes", "suites")
    assert (answer.code, answer.out) == (2, "")
    [line] = answer.err.splitlines()
    assert "'sometimes' is not one of 'auto', 'always', 'never'" in line


@pytest.mark.parametrize(
    ("command", "width"), [([], "60"), ([], "80"), (["suites"], "80"), (["train"], "60")]
)
def test_help_lists_commands_with_whole_sentences(imitbench, command, width):
    shown = imitbench(*command, "--help", env={"COLUMNS": width}).out
    commands = shown.partition("\nCommands:\n")[2]
    assert "..." not in commands
    entries = re.split(r"\n  (?=\S)", commands.rstrip())
    assert len(entries) > 1
    assert all(entry.rstrip().endswith(".") for entry in entries)
    assert all(len(line) <= int(width) for line in shown.splitlines())
