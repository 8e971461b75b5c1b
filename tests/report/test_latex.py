import os
import re
from pathlib import Path

import pytest

from imitbench.report.latex import escape, number, render_latex
from imitbench.report.tables import build_report

GOLDEN = Path(__file__).parent / "golden" / "report.tex"
COMMANDS = {
    "textbackslash", "textasciitilde", "textasciicircum", "textless", "textgreater", "textbar",
    "textquotedbl", "ldots", "pm", "tau", "begin", "end", "centering", "caption", "label",
    "toprule", "midrule", "bottomrule", "endhead", "endfoot", "item", "linewidth", "input",
    "usepackage", "begingroup", "endgroup", "setlength", "LTcapwidth",
}  # fmt: skip


def body(latex):
    """The file without its comments."""
    return "\n".join(line for line in latex.splitlines() if not line.startswith("%"))


def test_the_report_reads_as_the_golden_file(report):
    found = render_latex(report)
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


def test_rules_are_those_of_booktabs_and_every_table_is_closed(report):
    latex = render_latex(report)
    begun = re.findall(r"\\begin\{(\w+)\}", latex)
    assert begun
    assert sorted(begun) == sorted(re.findall(r"\\end\{(\w+)\}", latex))
    assert "\\hline" not in latex
    tables = begun.count("tabular") + begun.count("longtable")
    assert latex.count("\\toprule") == latex.count("\\bottomrule") == tables


def test_every_score_table_says_how_it_was_made(report):
    captions = re.findall(r"\\caption\{(.*)\}", render_latex(report))
    scores = [caption for caption in captions if "50 episodes" in caption]
    assert len(scores) == 2
    for caption in scores:
        assert "2000 replicates, seed 0; references version 1.0" in caption


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("seals/CartPole-v0", "seals/CartPole-v0"),
        ("preference_comparisons", r"preference\_comparisons"),
        ("50% & #1 $x$", r"50\% \& \#1 \$x\$"),
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("a^b~c", r"a\textasciicircum{}b\textasciitilde{}c"),
        ("<script>|", r"\textless{}script\textgreater{}\textbar{}"),
        ("a--b ,, '' ``", r"a-{-}b ,{,} '{'} {`}{`}"),
        ("[x]*", "{[}x]*"),
        ("*", "{*}"),
        ("a\nb\u2028c\td", "a b c d"),
        ("Größe ± 1…", r"Größe $\pm$ 1\ldots{}"),
    ],
)
def test_escaping(text, escaped):
    assert escape(text) == escaped


def test_negative_numbers_have_minus_signs():
    assert number("-1.50 ± 0.20") == r"$-$1.50 $\pm$ 0.20"
    assert number("0.1 [-0.2, 0.3]") == r"0.1 [$-$0.2, 0.3]"
    assert number("2-3") == "2-3"


def test_untrusted_text_stays_text_and_keeps_tables_intact(make_failure, make_score, references):
    evil = "\\input{/etc/passwd}%{}&$_^~#\\\\|<script>\n\\end{table}"
    failure = make_failure(evil, evil, 0, message=evil, error_type=evil, run_id=evil, suite=evil)
    rows = [make_score(evil, "CartPole", seed, 100.0) for seed in range(3)]
    latex = render_latex(build_report(rows, [failure], references, replicates=200))
    text = body(latex)
    assert set(re.findall(r"\\([A-Za-z]+)", text)) <= COMMANDS
    plain = re.sub(r"\\[\\{}&%$#_]", "", text)
    assert plain.count("{") == plain.count("}")
    assert "%" not in plain
    assert plain.count("$") % 2 == 0
    for block in re.findall(
        r"\\begin\{(?:tabular|longtable)\}\{(\w+)[^\n]*\n(.*?)\\end", plain, re.S
    ):
        layout, lines = block
        columns = len(layout.replace("p", ""))
        counts = {line.count("&") + 1 for line in lines.splitlines() if "&" in line}
        assert len(counts) == 1, (columns, counts)


def test_no_results_are_a_sentence(empty_report):
    assert "No results" in render_latex(empty_report)
    assert "tabular" not in body(render_latex(empty_report))
