"""The HTML report as a file; `test_html_browser` opens it."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path

import pytest

from imitbench.dashboard import server as dashboard
from imitbench.report import reward_figure
from imitbench.report.html_markup import Markup, escape, tag
from imitbench.report.html_page import SCRIPTS, STYLES, render_html
from imitbench.report.leaderboard import head_to_head
from imitbench.report.leaderboard import page as leaderboard
from imitbench.report.model import PALETTE
from imitbench.report.tables import build_report
from imitbench.stats.bootstrap import Interval
from imitbench.store.run_details import MetricCurve, ReportDetails

ASSETS = files("imitbench.report") / "assets"
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\(|Function\(|\bfetch\b|\bimport\b"
)
EVIL = "</script><script>boom()</script>\"'|$_{}\\<!--&amp;\u202e"


class Page(HTMLParser):
    """Elements with their attributes and texts, and whether all are closed in order."""

    VOID = frozenset({"meta", "link", "input", "br", "wbr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in self.VOID:
            self.open.append(name)

    def handle_endtag(self, name):
        assert self.open.pop() == name

    def handle_data(self, text):
        self.texts.append((self.open[-1] if self.open else "", text))

    def all(self, name):
        return [attributes for found, attributes in self.elements if found == name]

    def content(self, name, number=0):
        return [text for found, text in self.texts if found == name][number]


def data_of(page):
    return json.loads(page.content("script", 0))


def test_everything_is_inside_and_the_policy_admits_nothing_else(report):
    text = render_html(report)
    page = Page(text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not [a for _, a in page.elements if "src" in a or "style" in a]
    assert [a["href"] for a in page.all("link")] == ["data:,"]
    (policy,) = (a["content"] for a in page.all("meta") if "http-equiv" in a)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for directive, content in (
        ("style-src", page.content("style")),
        ("script-src", page.content("script", 1)),
    ):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy


def test_scripts_build_pages_from_text_alone():
    names = {path.name for path in ASSETS.iterdir()}
    pages = {*SCRIPTS, *STYLES}
    for page in (leaderboard, head_to_head, reward_figure):
        pages |= {*page.SCRIPTS, *page.STYLES}
    served = {*dashboard.SCRIPTS, *dashboard.STYLES}
    assert names == pages | served
    for name in (name for name in names if name.endswith(".js")):
        script = (ASSETS / name).read_text(encoding="utf-8")
        if name not in pages:  # only the dashboard has a server, which it asks for data
            script = script.replace("await fetch(", "")
        assert not FORBIDDEN.search(script)


def test_wheels_have_what_pages_are_made_of():
    tomllib = pytest.importorskip("tomllib")
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    globs = project["tool"]["setuptools"]["package-data"]["imitbench.report"]
    shipped = {path.name for glob in globs for path in (root / "imitbench/report").glob(glob)}
    assert shipped == {path.name for path in ASSETS.iterdir()}


def test_the_style_sheet_has_the_palette():
    style = (ASSETS / "report.css").read_text(encoding="utf-8")
    found = re.findall(r"\.c(\d+) \{ --c: light-dark\((#\w{6}),", style)
    assert found == [(str(place), color) for place, color in enumerate(PALETTE)]


def test_the_same_results_give_the_same_page(rows, failures, references):
    pages = {
        render_html(build_report(order, failures, references, replicates=200))
        for order in (rows, rows[::-1])
    }
    assert len(pages) == 1


def test_tables_can_be_read_without_seeing_them(report):
    page = Page(render_html(report))
    tables = len(page.all("table"))
    named = sum("aria-label" in attributes for attributes in page.all("table"))
    assert tables == named + len(page.all("caption"))
    assert all("scope" in heading for heading in page.all("th"))
    regions = [a for a in page.all("div") if a.get("role") == "region"]
    assert len(regions) >= tables
    assert all(a["aria-label"] and a["tabindex"] == "0" for a in regions)
    images = re.findall(r'<svg [^>]*role="img"[^>]*>(<title>[^<]|.)', render_html(report))
    assert images
    assert all(image.startswith("<title>") for image in images)


def test_every_section_says_once_how_it_was_made_and_the_page_how_to_read_it(report):
    page = render_html(report)
    made = re.findall(r'<p class="lead">(.*?)</p>', page)
    sections = [text for text in made if "50 episodes, stochastic policy" in text]
    assert len(sections) == len(report.sections) == 1
    assert "2000 replicates, seed 0; references version 1.0" in sections[0]
    for said in ("Dot and bar: IQM", "Bands are pointwise", "bold where 0.5 is outside"):
        assert page.count(said) == 1


def test_failures_notes_and_references_are_shown(report):
    page = render_html(report)
    assert "loss is nan" in page
    assert "its aggregate is partial" in page
    assert "Random (score 0)" in page


def test_single_runs_and_curves_are_data(report, rows):
    run = rows[0].run_id
    details = ReportDetails(curves={run: {"loss": MetricCurve((1, 2), (0.25, float("nan")), 9)}})
    data = data_of(Page(render_html(report, details)))
    (found,) = (each for each in data["runs"] if each["id"] == run)
    assert found["raw"] == rows[0].raw_return
    assert found["curves"] == [{"metric": 0, "steps": [1, 2], "values": [0.25, None], "points": 9}]
    assert len(data["runs"]) == len(rows)
    places = [env["runs"] for env in data["sections"][0]["environments"]]
    assert sorted(place for runs in places for place in runs) == list(range(len(rows)))


def test_untrusted_text_stays_text(make_failure, make_score, references):
    rows = [make_score(EVIL, "CartPole", seed, 100.0, suite=EVIL) for seed in range(2)]
    rows.append(make_score("__proto__", "CartPole", 0, 50.0, suite=EVIL))
    failure = make_failure(EVIL, EVIL, 0, message=EVIL, error_type=EVIL, run_id=EVIL, suite=EVIL)
    details = ReportDetails(curves={rows[0].run_id: {EVIL: MetricCurve((1,), (1.0,), 1)}})
    text = render_html(build_report(rows, [failure], references, replicates=200), details)
    page = Page(text)
    assert len(page.all("script")) == text.count("<script") == text.count("</script") == 2
    assert "\u202e" not in text
    shown = EVIL.replace("\u202e", "")
    assert shown in [text.strip() for name, text in page.texts if name == "td"]
    data = data_of(page)
    assert {entry["name"] for entry in data["algorithms"]} == {shown, "__proto__"}
    assert data["metrics"] == [shown]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("a < b & c > d", "a &lt; b &amp; c &gt; d"),
        ("\"'", "&quot;&#x27;"),
        ("a\nb\x00\u202ec", "a b  c"),
        (Markup("<b>"), "<b>"),
    ],
)
def test_escaping(text, escaped):
    assert escape(text) == escaped


def test_elements_escape_attributes_and_text():
    built = tag("a", "<x>", Markup("<b></b>"), class_='"', data_x=0.5, hidden=True, title=None)
    assert built == '<a class="&quot;" data-x="0.5" hidden>&lt;x&gt;<b></b></a>'


def test_no_results_are_a_sentence(empty_report):
    page = render_html(empty_report)
    assert "No results" in page
    assert not Page(page).all("table")


def test_the_axis_of_intervals_is_stretched_where_methods_are_close(report):
    (section,) = report.sections
    assert 'class="break"' not in render_html(report)
    close = [Interval(at, at - 0.01, at + 0.01, 0.95) for at in (0.91, 0.93, 0.95, 0.97, 0.99)]
    algorithms = tuple(
        replace(result, iqm=interval, mean=interval)
        for result, interval in zip(section.algorithms, close, strict=False)
    )
    drawn = render_html(replace(report, sections=(replace(section, algorithms=algorithms),)))
    # The one method has 0.91, so that 0 and 1 are beyond the stretched part.
    assert drawn.count('class="break"') == 2 * len(algorithms) == 8
