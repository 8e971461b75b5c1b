"""Reports show registered races: verdicts, looks and seeds, in all formats."""

import json

import pytest
from support.races import carry_out, planned

from imitbench.published.results_folder import races_of, read_runs, write_results
from imitbench.report.build import build
from imitbench.report.formats import plot, render
from imitbench.report.race_tables import fixed_seeds
from imitbench.util.hub_client import silent


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raced")
    carry_out(planned(new=("gail", "sqil"), max_seeds=9), folder)
    return folder


@pytest.fixture(scope="module")
def report(out):
    return build([out], notify=silent, replicates=200)


@pytest.mark.parametrize("format", ["md", "html", "latex", "json"])
def test_text_formats_show_the_verdicts(report, out, format):
    text = render(report, [out], format)
    if format == "json":
        [race] = json.loads(text)["races"]
        verdicts = {each["method"]: each["verdict"] for each in race["verdicts"]}
        assert verdicts == {"gail": "worse", "sqil": "undecided"}
        return
    assert "Verdicts: gail, sqil against bc" in text
    assert "Looks: gail, sqil against bc" in text
    assert "Seeds used: gail, sqil against bc" in text
    assert "worse" in text


def test_html_draws_a_chart_per_pair(report, out):
    html = render(report, [out], "html")
    assert "gail against bc, overall: worse" in html
    assert html.count("Difference with its repeated interval.") == 2


def test_each_pair_has_a_figure(report, out, tmp_path):
    pytest.importorskip("matplotlib")
    paths = plot(report, [out], "svg", tmp_path, ["race-*"])
    assert [path.name for path in paths] == ["race-gail-bc-classic.svg", "race-sqil-bc-classic.svg"]
    assert "overall: worse" in paths[0].read_text()


def test_the_table_compares_with_a_fixed_design_of_the_same_power(report):
    [race] = report.races
    [seeds] = [table for table in report.extra if table.title.startswith("Seeds used")]
    fixed = fixed_seeds(race.design)
    assert 6 < fixed <= 9
    rows = {row[0].shown: [cell.key for cell in row[2:]] for row in seeds.rows}
    assert rows["gail"] == [6, fixed, 1 - 6 / fixed]
    assert rows["sqil"] == [9, fixed, 1 - 9 / fixed]


def test_published_races_are_reported_like_own_ones(report, out, tmp_path):
    runs = read_runs(out).runs
    folder = tmp_path / "published"
    write_results(runs, folder, version="0", command="-", races=races_of(out, runs))
    published = build([folder], notify=silent, replicates=200)
    assert [table for table in published.extra if "against" in table.title] == [
        table for table in report.extra if "against" in table.title
    ]
