"""Results show themselves in notebooks."""

from html.parser import HTMLParser

import pytest
from support.shown_results import write_results

import imitbench
from imitbench.bench.summary import SweepSummary
from imitbench.report.notebook import NotebookSummary, ShownReport
from imitbench.report.tables import build_report


class Tables(HTMLParser):
    """Collects the cells of tables; fails if an element is not closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.rows, self.tags = [], [], set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1].append(data)


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("notebook") / "runs"
    write_results(folder, seeds=2, failing=())
    return folder


def test_a_report_is_a_table_of_scores(out):
    report = imitbench.report(out, format=None, replicates=100)
    header, *rows = Tables(report._repr_html_()).rows
    assert header[:4] == ["Algorithm", "Seeds", "IQM score", "Mean score"]
    assert header[4:-1] == list(report.sections[0].environments)
    assert {row[0] for row in rows} >= {"bc", "dagger", "gail", "expert", "random"}
    [bc] = [row for row in rows if row[0] == "bc"]
    [result] = [each for each in report.sections[0].algorithms if each.algorithm == "bc"]
    assert bc[3] == f"{result.mean.point:.3f}"


def test_a_comparison_is_verdicts_and_environments(out):
    found = imitbench.compare("bc", "gail", out=out, replicates=100)
    text = found._repr_html_()
    [verdict] = found.verdicts
    assert f"bc against gail: {verdict.decision}" in text
    assert len(Tables(text).rows) == 1 + len(verdict.environments)


def test_a_sweep_is_its_counts_and_scores(tmp_path):
    done = imitbench.run(
        "random", env="Pendulum-v1", seeds=1, budget="quick", out=tmp_path / "runs",
        progress=False, executor="inline",
    )  # fmt: skip
    text = done._repr_html_()
    assert f"1 done; results in {tmp_path / 'runs'}" in text
    assert "random" in {row[0] for row in Tables(text).rows}
    assert "no runs" in NotebookSummary.of(SweepSummary(tmp_path))._repr_html_()


def test_names_from_runs_are_no_markup(make_score):
    evil = "<script>alert(1)</script>"
    rows = [
        make_score(evil, "Pendulum", seed, 1.0).model_copy(update={"env": "<b>"})
        for seed in range(2)
    ]
    text = ShownReport.of(build_report(rows, [], [], replicates=100))._repr_html_()
    assert not {"script", "b"} & Tables(text).tags
