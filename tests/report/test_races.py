"""Reports show registered races: verdicts, looks and seeds, in all formats."""

import csv
import io
import json
import os
import re
from pathlib import Path

import pytest
from support.command import call_imitbench
from support.races import Training, carry_out, draw, planned

from imitbench.published.results_folder import export_results, races_of, read_runs
from imitbench.report.build import build
from imitbench.report.formats import plot, render
from imitbench.report.paper_table import render_paper_table
from imitbench.report.plots import check_figures
from imitbench.report.race_tables import fixed_seeds
from imitbench.util.hub_client import silent

GOLDEN = Path(__file__).parent / "golden" / "races.txt"


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raced")
    carry_out(planned(new=("gail", "sqil"), max_seeds=9), folder)
    return folder


@pytest.fixture(scope="module")
def report(out):
    return build([out], notify=silent, replicates=200)


def test_races_read_as_the_golden_file(report, out):
    texts = {name: render(report, [out], name) for name in ("md", "latex", "csv", "html", "json")}
    [race] = json.loads(texts["json"])["races"]
    del race["design"]  # it has digests of cards
    parts = [
        texts["md"][texts["md"].index("## Verdicts") :],
        texts["latex"].partition("Verdicts")[2],
        *(line for line in texts["csv"].splitlines() if ",race," in line),
        *re.findall(r'<section id="[rx]\d+".*?</section>', texts["html"], re.DOTALL),
        json.dumps(race, indent=1),
    ]
    found = "\n".join(parts) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")


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
    check_figures(["race-*"])
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
    export_results(runs, folder, version="0", command="-", races=races_of(out, runs))
    published = build([folder], notify=silent, replicates=200)
    assert [table for table in published.extra if "against" in table.title] == [
        table for table in report.extra if "against" in table.title
    ]


def test_csv_has_a_row_per_verdict(report, out):
    rows = list(csv.DictReader(io.StringIO(render(report, [out], "csv"))))
    races = {row["algorithm"]: row for row in rows if row["row"] == "race"}
    assert set(races) == {"gail", "sqil"}
    gail = races["gail"]
    assert (gail["baseline"], gail["verdict"], gail["seeds_max"]) == ("bc", "worse", "6")
    assert gail["environment"] == ""
    ends = [float(gail[name]) for name in ("difference_low", "difference", "difference_high")]
    assert ends == sorted(ends)
    assert ends[2] < 0


@pytest.mark.parametrize("captions", [True, False])
def test_paper_tables_have_the_verdicts(report, out, captions):
    text = render_paper_table(report, captions=captions)
    assert r"gail & bc & overall & worse & 6 & $-$0." in text
    assert (r"\label{tab:imitbench-race-1}" in text) == captions


def test_status_says_where_races_stand(out, tmp_path):
    answer = call_imitbench("status", "--out", out, cwd=tmp_path)
    assert "race of gail, sqil against bc on classic, over: gail is worse than bc; " in answer.err
    begun = tmp_path / "begun"
    carry_out(planned(), begun, Training(begun, stop_after=4))
    assert (
        "racing: nothing is decided yet"
        in call_imitbench("status", "--out", begun, cwd=tmp_path).err
    )


def test_the_board_marks_rows_of_a_registered_race(out, tmp_path):
    published = tmp_path / "submissions" / "lab"
    runs = read_runs(out).runs
    export_results(runs, published, version="0", command="c", races=races_of(out, runs))
    site = tmp_path / "site"
    answer = call_imitbench(
        "leaderboard", "build", "--results", published.parent, "--out", site, cwd=tmp_path
    )
    assert answer.code == 0, answer.err
    tables = json.loads((site / "leaderboard.json").read_text())["tables"]
    raced = {row["algorithm"]: row["registered_race"] for table in tables for row in table["rows"]}
    assert raced["gail"] and raced["bc"]
    assert not raced["random"]
    assert "registered race" in (site / "index.html").read_text()
    assert "gail (registered race)" in (site / "leaderboard.md").read_text()


def differs_by_acting(spec):
    """`gail` is worse than `bc` by sampled actions, and better by the most likely ones."""
    return draw(spec), draw(spec, {"gail": 1.2, "sqil": 0.9, "bc": 0.9})


@pytest.fixture(scope="module")
def out_of_both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("both")
    race = planned(new=("gail", "sqil"), max_seeds=9, acting="both")
    carry_out(race, folder, Training(folder, differs_by_acting))
    return folder


def test_a_race_of_both_ways_says_in_which_a_method_is_better(out_of_both, tmp_path):
    report = build([out_of_both], notify=silent, replicates=200)
    shown = render(report, [out_of_both], "md")
    rows = [line for line in shown.splitlines() if line.startswith("| gail | bc | overall |")]
    assert "| undecided: worse if sampled, better if likely | 6 | -0." in rows[0]
    assert "| sampled | worse | 2 | 6 |" in " ".join(rows)
    assert "| likely | better | 2 | 6 |" in " ".join(rows)
    assert "A verdict holds for sampled and for most likely actions" in shown
    [race] = json.loads(render(report, [out_of_both], "json"))["races"]
    verdicts = {each["method"]: (each["verdict"], each["by_acting"]) for each in race["verdicts"]}
    assert verdicts == {
        "gail": ("undecided", {"sampled": "worse", "likely": "better"}),
        "sqil": ("undecided", {"sampled": "undecided", "likely": "undecided"}),
    }
    assert race["design"]["acting"] == "both"
    html = render(report, [out_of_both], "html")
    assert "gail against bc, overall, sampled actions: worse" in html
    assert "gail against bc, overall, most likely actions: better" in html
    answer = call_imitbench("status", "--out", out_of_both, cwd=tmp_path)
    assert "gail is undecided against bc (worse if sampled, better if likely); sqil" in answer.err


def test_each_way_of_acting_has_a_panel(out_of_both, tmp_path):
    pytest.importorskip("matplotlib")
    report = build([out_of_both], notify=silent, replicates=200)
    [path] = plot(report, [out_of_both], "svg", tmp_path, ["race-gail*"])
    assert "overall, sampled actions: worse" in path.read_text()
    assert "overall, most likely actions: better" in path.read_text()
