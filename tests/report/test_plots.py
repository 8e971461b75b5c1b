"""Figures as files."""

import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from support.shown_results import write_results

from imitbench.errors import InputError
from imitbench.report.plots import write_plots
from imitbench.report.tables import build_report
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.run_details import MetricCurve, ReportDetails, read_details

pytest.importorskip("matplotlib")
PNG = b"\x89PNG\r\n\x1a\n"


def texts(path):
    """Returns every text in an SVG file; parsing it shows that the file is complete."""
    root = ElementTree.fromstring(path.read_text(encoding="utf-8"))
    return ["".join(node.itertext()).strip() for node in root.iter() if node.tag.endswith("}text")]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """A report with learning curves, and their details."""
    out = tmp_path_factory.mktemp("results")
    write_results(out, seeds=3)
    collect(out)
    with database.reader(out) as connection:
        report = build_report(
            database.read_scores(connection), database.read_failures(connection),
            database.read_references(connection), replicates=200,
        )  # fmt: skip
        return report, read_details(connection)


@pytest.fixture(scope="module")
def drawn(shown, tmp_path_factory):
    """All figures, which tests only read."""
    return write_plots(*shown, tmp_path_factory.mktemp("drawn") / "new" / "plots", "svg")


def test_there_is_a_figure_for_each_comparison_and_each_metric(drawn):
    assert [path.name for path in drawn] == [
        "classic-intervals.svg",
        "classic-profiles.svg",
        "classic-improvement.svg",
        "classic-curve-loss.svg",
        "classic-curve-rollout-return-mean.svg",
    ]


def test_only_chosen_figures_are_drawn(shown, tmp_path):
    paths = write_plots(*shown, tmp_path, "png", ["intervals", "curve-*"])
    names = ["intervals", "curve-loss", "curve-rollout-return-mean"]
    assert [path.name for path in paths] == [f"classic-{name}.png" for name in names]
    for path in paths:
        assert path.read_bytes().startswith(PNG)


def test_a_figure_that_does_not_exist_is_refused(shown, tmp_path):
    with pytest.raises(
        InputError, match=r"--figure intervalls: no such .* did you mean 'intervals'"
    ):
        write_plots(*shown, tmp_path, "svg", ["profiles", "intervalls"])
    assert list(tmp_path.iterdir()) == []


def test_figures_name_what_they_show_and_how_it_was_made(drawn):
    intervals, profiles, improvement, _, curves = drawn
    assert {"bc", "dagger", "gail", "expert", "random"} <= set(texts(intervals))
    said = " ".join(texts(intervals))
    for statement in ("50 episodes", "200 replicates, seed 0", "references version 1.0", "Seeds"):
        assert statement in said
    assert "share of runs above τ" in texts(profiles)
    assert "dagger > gail" in texts(improvement)
    assert {"Pendulum-v1", "seals/CartPole-v0", "rollout/return_mean"} <= set(texts(curves))


def test_lines_for_scores_are_drawn_among_returns_unless_success_is_the_score(
    shown, drawn, tmp_path
):
    report, details = shown
    assert {"random", "expert"} <= set(texts(drawn[-1]))
    scored = [
        replace(
            section,
            references=tuple(
                row.model_copy(update={"score_one": "success"}) for row in section.references
            ),
        )
        for section in report.sections
    ]
    other = replace(report, sections=tuple(scored))
    [curves] = write_plots(other, details, tmp_path, "svg", ["curve-rollout*"])
    assert not {"random", "success in every episode"} & set(texts(curves))


def test_the_same_results_give_the_same_files(shown, drawn, tmp_path):
    chosen = ["profiles", "curve-loss"]
    before = [path for path in drawn if path.stem.removeprefix("classic-") in chosen]
    again = write_plots(*shown, tmp_path, "svg", chosen)
    assert [path.name for path in before] == [path.name for path in again]
    assert [path.read_bytes() for path in before] == [path.read_bytes() for path in again]


def test_pdf_files_are_reproducible_and_have_fonts_that_publishers_take(shown, tmp_path):
    [first], [again] = (
        write_plots(*shown, tmp_path / each, "pdf", ["improvement"]) for each in "ab"
    )
    content = first.read_bytes()
    assert content == again.read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/Type3" not in content
    assert b"CreationDate" not in content


def test_untrusted_text_stays_text(make_score, make_failure, references, tmp_path):
    evil = "_$\\frac{1}{0}$<script>|&"
    rows = [make_score(evil, "CartPole", seed, 100.0 + seed, suite=evil) for seed in range(3)]
    curve = MetricCurve((1, 2, 3), (1.0, float("nan"), 2.0), 3)
    details = ReportDetails(curves={row.run_id: {evil: curve} for row in rows})
    paths = write_plots(build_report(rows, [], [], replicates=200), details, tmp_path, "svg")
    assert [path.name for path in paths] == [
        "frac-1-0-script-intervals.svg",
        "frac-1-0-script-profiles.svg",
        "frac-1-0-script-curve-frac-1-0-script.svg",
    ]
    for path in paths:
        assert any(evil in text for text in texts(path))
        assert "<script" not in path.read_text(encoding="utf-8")


def test_sections_of_one_suite_have_files_of_their_own(make_score, tmp_path):
    rows = [make_score("bc", "CartPole", 0, 100.0, budget=name) for name in ("quick", "full")]
    paths = write_plots(
        build_report(rows, [], [], replicates=200), ReportDetails(), tmp_path, "png"
    )
    assert len({path.name for path in paths}) == len(paths) == 4
    assert all("budget-" in path.name for path in paths)


def test_nothing_to_draw_and_no_matplotlib_are_said(empty_report, report, tmp_path, monkeypatch):
    with pytest.raises(InputError, match="nothing to draw"):
        write_plots(empty_report, ReportDetails(), tmp_path, "png")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'imitbench\[plots\]'"):
        write_plots(report, ReportDetails(), tmp_path, "png")
