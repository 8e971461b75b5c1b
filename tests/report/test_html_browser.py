"""The HTML report in a real Chromium."""

import pytest
from support.browser import Watched, take_picture
from support.pages import ODD, write_report
from support.shown_results import SKILLS

from imitbench.report.html_page import render_html
from imitbench.report.tables import build_report
from imitbench.store.run_details import MetricCurve, ReportDetails

pytestmark = pytest.mark.browser
OVERVIEW, CELLS = "table.overview", "table.cells"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_report(tmp_path_factory.mktemp("report"))


@pytest.fixture
def opened(chromium, file):
    """Opens the report; it must log nothing and request nothing."""
    pages = []

    def open_page(path=file, **options):
        pages.append(Watched(chromium, path, **options))
        return pages[-1]

    yield open_page
    for watched in pages:
        assert watched.complaints == []
        assert watched.requests == []
        watched.page.close()


def drill_into(watched, environment):
    details = watched.page.locator("details.environment", has_text=environment)
    details.locator("summary").click()
    details.locator("table.runs").wait_for()
    watched.drawn()
    return details


def test_it_opens_whole_and_is_kept_as_a_picture(opened, tmp_path):
    watched = opened()
    assert watched.page.title() == "imitbench report · classic"
    assert watched.page.locator("h1").inner_text() == "Report"
    drill_into(watched, "Pendulum-v1")
    picture = tmp_path / "report.png"
    take_picture(watched.page, picture, full_page=True)
    assert picture.stat().st_size > 50_000


def test_headings_sort_by_mouse_and_by_keyboard(opened):
    watched = opened()
    before = watched.column(OVERVIEW, 0)
    heading = watched.page.locator(f"{OVERVIEW} th", has_text="Algorithm")
    assert heading.get_attribute("aria-sort") == "none"
    heading.locator("button").click()
    assert heading.get_attribute("aria-sort") == "ascending"
    names = watched.column(OVERVIEW, 0)
    assert sorted(names) == sorted(before)
    assert names != before
    known = [name for name in names if name in SKILLS]
    assert known == ["bc", "dagger", "gail"]
    heading.locator("button").focus()
    watched.page.keyboard.press("Enter")
    assert heading.get_attribute("aria-sort") == "descending"
    assert watched.column(OVERVIEW, 0) == names[::-1]


def test_numbers_sort_as_numbers_and_missing_ones_are_last(opened):
    watched = opened()
    heading = watched.page.locator(f"{CELLS} th", has_text="Raw return")
    for direction in ("descending", "ascending"):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == direction
        shown = watched.column(CELLS, 3)
        values = [float(text.split()[0]) for text in shown]
        assert values == sorted(values, reverse=direction == "descending")
    deterministic = watched.page.locator(f"{CELLS} th", has_text="Score, deterministic")
    for _ in range(2):
        deterministic.locator("button").click()
        assert watched.column(CELLS, 5)[-6:] == ["n/a"] * 6


def test_the_filter_leaves_matching_rows(opened):
    watched = opened()
    field = watched.page.get_by_label("Filter")
    field.fill("pole BC")
    assert watched.column(CELLS, 0) == ["seals/CartPole-v0"]
    assert watched.column(CELLS, 1) == ["bc"]
    assert watched.page.locator(".filter output").first.inner_text() == "1 of 21 rows"
    field.fill("")
    assert len(watched.column(CELLS, 0)) == 21


def test_an_environment_opens_into_runs_and_curves(opened):
    watched = opened()
    watched.page.locator(".matrix a", has_text="seals/CartPole-v0").click()
    details = watched.page.locator("details.environment[open]")
    assert "seals/CartPole-v0" in details.locator("summary").inner_text()
    details.locator("table.runs").wait_for()
    watched.drawn()
    assert details.locator("table.runs tbody tr").count() == 25
    assert details.locator("svg .run").count() == 25
    runs, curves = details.locator("svg[role=img] > title").all_text_contents()[:2]
    assert runs == "Scores of single runs on seals/CartPole-v0"
    assert curves == "rollout/return_mean on seals/CartPole-v0"
    assert details.locator("path.curve.thin").count() == 25
    details.get_by_label("Metric").select_option(label="loss")
    assert "loss on seals/CartPole-v0" in details.locator("svg > title").all_text_contents()
    button = details.get_by_role("group").get_by_role("button", name="gail")
    button.click()
    assert button.get_attribute("aria-pressed") == "false"
    assert details.locator("path.curve.thin").count() == 20


def test_a_run_shows_all_that_is_known_about_it(opened):
    watched = opened()
    details = drill_into(watched, "Pendulum-v1")
    button = details.locator("button.open").first
    name = button.inner_text()
    button.focus()
    watched.page.keyboard.press("Enter")
    dialog = watched.page.locator("dialog")
    said = dialog.inner_text()
    for statement in (name, "learning_rate", "48219f69", "A processor with 8 cores", "3.11.7"):
        assert statement in said
    assert "secret-host" not in watched.page.content()
    watched.page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert button.evaluate("(button) => button === document.activeElement")


def background(watched):
    return watched.page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_colors_follow_the_system_until_someone_chooses(opened):
    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    assert background(light) != background(dark)
    dark.page.get_by_label("Theme").select_option("light")
    assert background(dark) == background(light)
    light.page.get_by_label("Theme").select_option("dark")
    assert background(light) != background(dark)
    light.page.reload()
    light.requests.clear()  # the page itself, once more
    assert background(light) != background(dark)


@pytest.mark.parametrize("width", [320, 390, 768])
def test_narrow_screens_scroll_tables_and_not_the_page(opened, width):
    watched = opened(width=width)
    drill_into(watched, "Pendulum-v1")
    assert watched.overflow() == 0
    box = watched.page.locator(".scroll", has=watched.page.locator("table.runs"))
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    assert box.locator("caption > span").evaluate("(said) => said.offsetWidth") <= width


def test_names_like_markup_stay_text(opened):
    watched = opened()
    drill_into(watched, "Pendulum-v1")
    assert ODD in watched.column(OVERVIEW, 0)
    assert ODD in watched.column("table.failures", 6)
    assert ODD in watched.column("table.runs", 0)
    watched.page.locator("table.runs tr", has_text=ODD).locator("button.open").first.click()
    assert ODD in watched.page.locator("dialog h2").inner_text()
    assert watched.page.locator("img").count() == 0


def test_scripts_from_elsewhere_would_not_run(opened):
    watched = opened()
    ran = watched.page.evaluate(
        "() => { const script = document.createElement('script');"
        "script.textContent = 'window.ran = true'; document.body.append(script);"
        "return window.ran === true; }"
    )
    assert not ran
    (complaint,) = watched.complaints
    assert "Content Security Policy" in complaint
    watched.complaints.clear()


def test_a_report_without_details_opens_too(opened, report, rows, tmp_path):
    path = tmp_path / "report.html"
    curves = {rows[0].run_id: {"loss": MetricCurve((5,), (0.5,), 1)}}
    for details in (None, ReportDetails(curves=curves)):
        path.write_text(render_html(report, details), encoding="utf-8")
        watched = opened(path)
        environment = drill_into(watched, "CartPole")
        environment.locator("button.open").first.click()
        assert watched.page.locator("dialog dl").count() == 1
        shown = environment.locator("figure").count()
        assert shown == (0 if details is None else 1)


def test_shares_of_successes_are_no_lines_among_returns(opened, rows, references, tmp_path):
    path = tmp_path / "report.html"
    scored = [row.model_copy(update={"score_one": "success"}) for row in references]
    curves = {rows[0].run_id: {"rollout/return_mean": MetricCurve((5, 9), (20.0, 90.0), 2)}}
    report = build_report(rows, [], scored, replicates=200)
    path.write_text(render_html(report, ReportDetails(curves=curves)), encoding="utf-8")
    environment = drill_into(opened(path), "CartPole")
    assert environment.locator("svg[role=img] > title", has_text="return_mean").count() == 1
    said = environment.text_content()
    assert "scores are shares of successful episodes" in said
    assert "score 1 (success)" not in said


def test_the_reward_board_has_its_own_link_and_figure(opened):
    watched = opened()
    watched.page.locator("nav a", has_text="Reward board").first.click()
    figure = watched.page.locator("figure:has(table.series)").first
    assert figure.is_visible()
    for name in ("came along", "re-optimized", "transferred"):
        assert figure.locator(".legend li", has_text=name).is_visible()
    assert figure.locator("tbody tr").count() == 6  # two algorithms in three environments
    assert figure.locator("tbody tr").first.locator(".dot").count() == 3
