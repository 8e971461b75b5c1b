"""Tables for papers: algorithms by environments, with the best in bold."""

import re

import numpy as np
import pytest

from imitbench.errors import InputError
from imitbench.report.formats import render
from imitbench.report.paper_table import render_paper_table
from imitbench.report.tables import build_report
from imitbench.stats.aggregates import mean
from imitbench.stats.bootstrap import stratified_bootstraps
from imitbench.stats.coverage import FailurePolicy

REPLICATES = 500


def columns_of(latex):
    """Returns cells by name of the algorithm, of a file with one table."""
    rows = [line.strip().removesuffix(r" \\") for line in latex.splitlines() if " & " in line]
    header, *rest = (row.split(" & ") for row in rows)
    return {name: dict(zip(header[1:], cells, strict=True)) for name, *cells in rest}


def is_bold(cell):
    return cell.startswith(r"\textbf")


def elsewhere(row, env, score):
    run_id = f"{row.algo}-{env}-{row.seed}"
    return row.model_copy(update={"run_id": run_id, "env": env, "score": score})


@pytest.fixture
def two_environments(make_score):
    """`bc` is best on A, with `gail` within its interval; `gail` is best on B, without `dagger`."""
    level = {
        ("bc", "Env-A"): 90.0, ("gail", "Env-A"): 89.0, ("dagger", "Env-A"): 20.0,
        ("bc", "Env-B"): 30.0, ("gail", "Env-B"): 90.0,
    }  # fmt: skip
    return [
        elsewhere(make_score(algo, "Pendulum", seed, 0.0), env, (value + 4 * (seed - 1)) / 100)
        for (algo, env), value in level.items()
        for seed in range(3)
    ]


def test_the_best_and_what_is_within_its_interval_are_bold(two_environments):
    report = build_report(two_environments, [], [], replicates=REPLICATES)
    cells = columns_of(render_paper_table(report))
    assert list(next(iter(cells.values()))) == ["Env-A", "Env-B", "IQM"]
    bold = {
        name: [env for env, cell in row.items() if is_bold(cell)] for name, row in cells.items()
    }
    assert bold["bc"] == ["Env-A"]
    assert bold["gail"] == ["Env-A", "Env-B", "IQM"]
    assert bold["dagger"] == []
    assert cells["dagger"]["Env-B"] == "--"


def test_intervals_are_those_of_the_bootstrap(two_environments):
    report = build_report(two_environments, [], [], replicates=REPLICATES)
    scores = [row.score for row in two_environments if (row.algo, row.env) == ("bc", "Env-A")]
    due = stratified_bootstraps(
        {"Env-A": scores}, {"mean": mean}, replicates=REPLICATES, rng=np.random.default_rng(0)
    )["mean"]
    cell = columns_of(render_paper_table(report))["bc"]["Env-A"]
    found = [float(number) for number in re.findall(r"\d\.\d+", cell)]
    assert found == [round(value, 3) for value in (due.point, due.low, due.high)]


def test_failed_runs_count_as_the_report_says(two_environments, make_failure):
    failed = [make_failure("bc", "Env-A", 3)]
    means = []
    for policy in (FailurePolicy.EXCLUDE, FailurePolicy.COUNT_AS_RANDOM):
        report = build_report(
            two_environments, failed, [], replicates=REPLICATES, failed_runs=policy
        )
        cell = columns_of(render_paper_table(report))["bc"]["Env-A"]
        means.append(float(re.search(r"\d\.\d+", cell)[0]))
    assert means == [0.9, 0.675]


def test_anchors_are_never_bold(report):
    latex = render_paper_table(report)
    for line in latex.splitlines():
        if line.strip().startswith(("expert", "random")):
            assert r"\textbf" not in line


def test_captions_are_optional(report):
    floating, bare = render_paper_table(report), render_paper_table(report, captions=False)
    tables = len(report.sections)
    assert floating.count(r"\caption{") == floating.count(r"\begin{table}") == tables
    assert "within its interval" in floating
    assert bare.count(r"\begin{tabular}") == tables
    assert r"\caption" not in bare
    assert r"\begin{table}" not in bare
    assert render(report, [], "paper") == floating
    assert render(report, [], "paper", captions=False) == bare
    with pytest.raises(InputError, match="--no-captions: is for --format paper, not for md"):
        render(report, [], "md", captions=False)


def test_names_are_escaped(make_score):
    name = r"a_b\input{x}"
    rows = [
        elsewhere(make_score(name, "Pendulum", seed, 1.0), "Env_1 & 2", 1.0) for seed in range(2)
    ]
    latex = render_paper_table(build_report(rows, [], [], replicates=REPLICATES))
    assert r"a\_b\textbackslash{}input\{x\}" in latex
    assert r"Env\_1 \& 2" in latex


def test_no_results_are_a_sentence(empty_report):
    assert "No results" in render_paper_table(empty_report)
