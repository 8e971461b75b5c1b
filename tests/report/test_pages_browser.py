"""All kinds of pages in Chromium: widths, themes, paper, keyboard, and an audit with axe-core."""

import pytest
from support.browser import Watched, audit, keep_picture
from support.pages import SUITE, TABLES, write_board, write_report

pytestmark = pytest.mark.browser
WIDTHS = (390, 1024, 1400, 2560)
THEMES = ("light", "dark")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """A page of each kind, by name."""
    folder = tmp_path_factory.mktemp("pages")
    site = write_board(folder)
    (folder / "own").mkdir()
    return {
        "landing": site / "index.html",
        "suite": site / SUITE,
        "method": site / "methods/gail.html",
        "runs": next(site.glob("algorithms/classic/gail*.html")),
        "report": write_report(folder / "own"),
    }


@pytest.fixture
def opened(chromium, pages):
    """Opens a page; it must log nothing and request nothing."""
    shown = []

    def open_page(kind, fragment="", **options):
        place = pages[kind].as_uri() + fragment
        shown.append(Watched(chromium, place, **options))
        return shown[-1]

    yield open_page
    for watched in shown:
        assert watched.complaints == []
        assert watched.requests == []
        watched.page.close()


def cut_off(watched):
    """Returns what sticks out of the window, other than inside an area that scrolls."""
    return watched.page.evaluate(
        """() => [...document.body.querySelectorAll("*")].filter((element) => {
          if (element.closest(".scroll") && !element.matches(".scroll")) return false;
          if (element.closest(".skip, .hidden, svg, [hidden]")) return false;
          const box = element.getBoundingClientRect();
          return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1);
        }).map((element) => element.outerHTML.slice(0, 120))"""
    )


@pytest.mark.parametrize("kind", ["landing", "suite", "method", "runs", "report"])
def test_nothing_is_cut_at_any_width_in_either_theme(opened, kind):
    for theme in THEMES:
        watched = opened(kind, width=WIDTHS[0], color_scheme=theme)
        for width in WIDTHS:
            watched.page.set_viewport_size({"width": width, "height": 900})
            assert watched.overflow() <= 0, (width, theme)
            assert cut_off(watched) == [], (width, theme)
            keep_picture(watched.page, f"{kind}-{width}-{theme}", full_page=True)


@pytest.mark.parametrize("kind", ["landing", "suite"])
def test_tables_of_a_board_need_no_scrolling_from_1024_pixels_on(opened, kind):
    watched = opened(kind, width=1024)
    for width in WIDTHS[1:]:
        watched.page.set_viewport_size({"width": width, "height": 900})
        hidden = watched.page.evaluate(
            "[...document.querySelectorAll('.scroll:has(.board, .landing)')]"
            ".map((box) => box.scrollWidth - box.clientWidth)"
        )
        assert max(hidden) <= 1, width


def test_tables_of_a_report_need_no_scrolling_from_1024_pixels_on(opened):
    watched = opened("report", width=1024)
    watched.page.locator("details.environment summary").first.click()
    watched.page.locator("table.runs").first.wait_for()
    for width in WIDTHS[1:]:
        watched.page.set_viewport_size({"width": width, "height": 900})
        assert hidden_parts(watched) == [], width


def hidden_parts(watched):
    """Returns the tables that are wider than the boxes that they scroll in."""
    return watched.page.evaluate(
        "[...document.querySelectorAll('.scroll:has(table)')].filter((box) => box.offsetParent)"
        ".filter((box) => box.scrollWidth > box.clientWidth + 1)"
        ".map((box) => box.getAttribute('aria-label'))"
    )


def test_rows_of_a_report_are_cards_on_a_phone_that_begin_with_name_and_score(opened):
    watched = opened("report", width=390)
    assert set(hidden_parts(watched)) == {"Scores at a glance", "Probability of improvement"}
    for table, score in (("overview", "IQM score"), ("cells", "Score")):
        row = watched.page.locator(f"table.{table} tbody tr").first
        tops = {
            each.get_attribute("data-label"): each.bounding_box()["y"]
            for each in row.locator("td").all()
        }
        assert min(tops, key=tops.get) == score
        names = [each.bounding_box()["y"] for each in row.locator("th").all()]
        assert max(names) < tops[score]


def test_the_first_column_stays_where_a_table_scrolls(opened):
    watched = opened("report", width=390)
    box = watched.page.locator(".scroll:has(table.matrix)").first
    cells = box.locator("tbody tr").first.locator("th, td")
    before = [cells.nth(at).bounding_box()["x"] for at in (0, 1)]
    box.evaluate("(box) => { box.scrollLeft = 60; }")
    after = [cells.nth(at).bounding_box()["x"] for at in (0, 1)]
    assert after[0] == before[0]
    assert after[1] == before[1] - 60


@pytest.mark.parametrize("kind", ["landing", "suite", "method", "runs", "report"])
def test_an_audit_finds_nothing_serious(opened, kind):
    for theme in THEMES:
        watched = opened(kind, color_scheme=theme)
        if kind == "report":
            for details in watched.page.locator("details.environment").all():
                details.locator("summary").click()
            watched.page.locator("table.runs").last.wait_for()
        for width in WIDTHS:
            watched.page.set_viewport_size({"width": width, "height": 900})
            assert audit(watched.page) == [], (width, theme)


@pytest.mark.parametrize("kind", ["landing", "suite", "method", "runs"])
def test_nothing_is_white_where_the_page_is_dark(opened, kind):
    watched = opened(kind, color_scheme="dark")
    white = watched.page.evaluate(
        """() => [...document.body.querySelectorAll("*")].filter((element) => {
          const color = getComputedStyle(element).backgroundColor;
          const [red, green, blue, alpha = 1] = color.match(/[\\d.]+/g).map(Number);
          return alpha > 0 && Math.min(red, green, blue) > 160;
        }).map((element) => element.outerHTML.slice(0, 120))"""
    )
    assert white == []


def test_the_first_column_of_a_board_stays_and_its_edge_is_shaded(opened):
    watched = opened("runs", width=1024)
    box = watched.page.locator(".scroll:has(table.runs)").first
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    box.evaluate("(box) => { box.scrollLeft = 200; }")
    left = "(box) => box.querySelector('tbody tr > :first-child').getBoundingClientRect().left"
    assert box.evaluate(left) == pytest.approx(box.bounding_box()["x"], abs=1)
    assert "gradient" in box.evaluate("(box) => getComputedStyle(box).backgroundImage")


def test_filters_and_sorting_work_by_keyboard_alone(opened):
    watched = opened("landing")
    page = watched.page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = []
    while len(reached) < 60:
        page.keyboard.press("Tab")
        name = page.evaluate("document.activeElement.dataset.view || ''")
        reached.append(name)
        if name == "q":
            page.keyboard.type("gail")
            break
    assert [name for name in reached if name] == ["q"]
    switches = []
    while len(switches) < 12:  # over both buttons and the switches to the first heading
        page.keyboard.press("Tab")
        switches.append(page.evaluate("document.activeElement.dataset.view || ''"))
        if switches[-1] == "condition":
            page.keyboard.press("ArrowRight")
        if page.evaluate("document.activeElement.closest('th') !== null"):
            break
    assert [name for name in switches if name] == ["acting", "suite", "condition"]
    shown = page.locator("table.landing tbody tr:not(.group)").filter(visible=True)
    assert shown.count() == 1
    focused = page.evaluate("document.activeElement.closest('th').textContent")
    assert focused.startswith("Method")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**#*sort=t-classic--{TABLES[1]}.*")


def test_rows_and_sections_have_addresses_that_other_results_do_not_change(opened):
    watched = opened("suite", f"#{TABLES[0]}")
    page = watched.page
    links = page.locator("table.board tbody a.link")
    assert links.count() == page.locator("table.board tbody tr").count()
    target = links.first.get_attribute("href")
    assert target.startswith(f"#{TABLES[0]}--")
    assert page.locator(f"[id='{target[1:]}']").count() == 1
    assert page.locator("section > h2 > a.link").count() == page.locator("section > h2").count()


def test_code_is_copied_with_its_lines(opened, chromium):
    watched = opened("method")
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button = page.get_by_role("button", name="Copy: BibTeX of the paper")
    button.click()
    page.get_by_text("Copied").wait_for()
    text = page.evaluate("navigator.clipboard.readText()")
    assert text.startswith("@misc{ho2016generative,\n  title = ")
    assert "\n" not in page.locator("section#commands code").inner_text().strip().split(" ")[0]


def test_paper_has_whole_tables_and_no_controls(opened):
    watched = opened("suite")
    page = watched.page
    page.emulate_media(media="print")
    for hidden in (".theme", "nav", ".filters", "a.link"):
        assert page.locator(hidden).first.is_hidden(), hidden
    assert page.locator("table.board").first.is_visible()
    keep_picture(watched.page, "suite-print", full_page=True)


def test_curves_open_with_the_returns_of_the_references(opened):
    watched = opened("report")
    details = watched.page.locator("details.environment", has_text="Pendulum-v1")
    details.locator("summary").click()
    chart = details.locator("figure svg.chart")
    chart.wait_for()
    assert chart.locator("line.anchor").count() == 2
    assert {"expert", "random"} <= set(chart.locator("text").all_text_contents())


def test_every_method_has_one_color_and_shape_on_all_pages(opened):
    found = {}
    for kind in ("landing", "suite", "method", "report"):
        watched = opened(kind)
        for name, look in watched.page.evaluate(
            """() => [...document.querySelectorAll(".spotted[class*=' c']")]
              .filter((spot) => !spot.closest(".policies")).map((spot) =>
              [spot.textContent, spot.className.match(/ c(\\d+)/)[1]])"""
        ):
            found.setdefault(name, set()).add(look)
    assert {"bc", "gail"} <= set(found)
    assert all(len(looks) == 1 for looks in found.values()), found
    assert len({tuple(looks) for looks in found.values()}) == len(found)
