"""The comparison of methods in a real Chromium, from files, without a server."""

import shlex
from urllib.parse import parse_qs, urlsplit

import pytest
from support.browser import Watched, take_picture
from support.command import call_imitbench
from support.published import publish
from support.shown_results import SKILLS, write_results
from support.submissions import write_submitted_runs

from imitbench.published.results_sources import find_results
from imitbench.report.leaderboard.board import build_board
from imitbench.report.leaderboard.site import write_site

pytestmark = pytest.mark.browser
ODD = "<!--<script><img src=x onerror=boom()>|$_{}\\&amp;'"
PAGE = "head-to-head/classic.html"
VIEWS = ("verdicts", "improvement", "profile", "curves", "environments", "regimes", "cost")
CHARTS = VIEWS[2:]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A submission with learning curves and a name like markup, and one with other budgets."""
    folder = tmp_path_factory.mktemp("board")
    skills = {**SKILLS, ODD: ((0.5, 0.1), (0.5, 0.1), (0.5, 0.1))}
    write_results(folder / "a", seeds=5, skills=skills, version="1")
    # Their two methods have other names than usual, because the first submission has them as well.
    write_submitted_runs(folder / "b", algorithms=("bc", "gail", "zero_reward", "random"),
                         env=None, budget="default")  # fmt: skip
    for name in "ab":
        publish(folder / name, folder / "results" / f"team-{name}")
    board = build_board(find_results(folder / "results"), title="Board", replicates=300)
    write_site(board, folder / "site", results=[folder / "results"])
    return folder / "site"


@pytest.fixture
def opened(chromium, site):
    """Opens the page with a view; it must log nothing and request nothing."""
    pages = []

    def open_page(view="", **options):
        address = (site / PAGE).as_uri() + (f"#{view}" if view else "")
        pages.append(Watched(chromium, address, **options))
        return pages[-1]

    yield open_page
    for watched in pages:
        assert watched.complaints == []
        assert watched.requests == []
        watched.page.close()


FIRST = "runs=budget+quick%2C+10+demonstrations%2C+source+bundled"


def chosen(page):
    return page.locator(".picks label:has(:checked) .name").all_inner_texts()


def chart_of(page, name):
    """The chart of a view, which is drawn as soon as its width is known."""
    chart = page.locator(f"[data-view={name}] svg.chart")
    chart.wait_for()
    return chart


def state(page):
    return parse_qs(urlsplit(page.url).fragment)


def pick(page, name):
    return page.get_by_role("checkbox", name=name)


def shown_views(page):
    return [name for name in VIEWS if page.locator(f"[data-view={name}]").is_visible()]


def test_an_address_without_a_choice_shows_the_best_of_the_largest_table(opened):
    page = opened().page
    assert len(chosen(page)) >= 2
    assert shown_views(page) == list(VIEWS)


def test_choosing_shows_all_views_and_is_in_the_address(opened):
    watched = opened(f"{FIRST}&m=gail+(team-a)&m=dagger")
    page = watched.page
    watched.drawn()
    assert sorted(chosen(page)) == ["dagger", "gail"]
    assert shown_views(page) == list(VIEWS)
    said = page.locator("[data-view=verdicts] .lead").inner_text()
    assert said.startswith("gail is worse than dagger: interquartile mean -0.")
    for name in CHARTS:
        assert chart_of(page, name).count() == 1
    pick(page, "bc").check()
    assert state(page)["m"] == ["gail (team-a)", "dagger", "bc (team-a)"]
    assert page.locator("[data-view=verdicts] tbody tr").count() == 3
    assert page.locator("[data-view=improvement] td.self").count() == 3
    for name in ("gail", "dagger"):
        pick(page, name).uncheck()
    assert page.locator("#choice output").inner_text() == "1 chosen; choose two or more"
    assert shown_views(page) == []
    page.get_by_role("button", name="Best three").click()
    assert len(chosen(page)) == 3


def test_a_cited_view_is_shown_again(opened):
    page = opened(f"{FIRST}&m=gail+(team-a)&m=dagger").page
    page.get_by_label("Against").select_option("dagger")
    page.locator("[data-view=curves] select").select_option(label="seals/CartPole-v0")
    page.get_by_role("radio", name="environment steps").check()
    again = opened(urlsplit(page.url).fragment).page
    assert state(again) == state(page)
    assert state(again)["base"] == ["dagger"]
    assert state(again)["env"] == ["seals/CartPole-v0"]
    assert again.get_by_role("radio", name="environment steps").is_checked()
    assert (
        again.locator("[data-view=curves]").inner_text()
        == page.locator("[data-view=curves]").inner_text()
    )
    labels = chart_of(again, "cost").locator("text").all_text_contents()
    assert "environment steps per run" in labels


def test_other_runs_keep_the_methods_that_they_have(opened):
    page = opened(f"{FIRST}&m=gail+(team-a)&m=bc+(team-a)&m=dagger").page
    page.get_by_label("Runs").select_option(
        label="budget default, all demonstrations, source bundled"
    )
    assert sorted(chosen(page)) == ["bc", "gail"]
    assert state(page)["m"] == ["gail (team-b)", "bc (team-b)"]
    assert state(page)["runs"] == ["budget default, all demonstrations, source bundled"]
    note = page.locator("[data-view=curves]").inner_text()
    assert "No learning curves of returns are published for these methods." in note


def test_the_keyboard_is_enough(opened):
    page = opened(f"{FIRST}&m=gail+(team-a)&m=dagger").page
    page.locator("[data-choice=filter]").focus()
    page.keyboard.type("pref")
    assert page.locator(".picks label").filter(visible=True).count() == 1
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert "preference_comparisons" in chosen(page)
    radio = page.get_by_role("radio", name="core-hours")
    radio.focus()
    page.keyboard.press("ArrowRight")
    assert state(page)["cost"] == ["steps"]
    assert page.evaluate("document.activeElement.value") == "steps"


def test_curves_have_lines_of_expert_and_random(opened):
    watched = opened(f"{FIRST}&m=gail+(team-a)&m=dagger")
    watched.drawn()
    chart = chart_of(watched.page, "curves")
    assert chart.locator("line.anchor").count() == 2
    assert {"expert", "random"} <= set(chart.locator("text").all_text_contents())
    assert chart.locator("path.curve").count() == 2
    assert chart.locator("path.band").count() == 2


def test_names_like_markup_stay_text(opened):
    page = opened(f"{FIRST}&m=gail+(team-a)").page
    pick(page, ODD).check()
    assert ODD in page.locator("[data-view=verdicts] .lead").inner_text()
    assert page.locator("img").count() == 0
    assert ODD in state(page)["m"]


def test_an_address_of_nothing_known_is_no_error(opened):
    page = opened("runs=none&m=%3Cb%3E&m=nobody&base=x&env=y&cost=z").page
    assert chosen(page) == []
    assert page.locator("#choice output").inner_text().startswith("0 chosen")


@pytest.mark.parametrize("width", [320, 390, 1024, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_and_is_kept_as_a_picture(opened, tmp_path, width, scheme):
    view = f"{FIRST}&m=gail+(team-a)&m=dagger&m=bc+(team-a)&m=preference_comparisons"
    watched = opened(view, width=width, color_scheme=scheme)
    for name in CHARTS:
        chart_of(watched.page, name)
    watched.page.get_by_text("The same as a table").click()
    assert watched.overflow() == 0
    picture = tmp_path / "head-to-head.png"
    take_picture(watched.page, picture, full_page=True)
    assert picture.stat().st_size > 50_000


@pytest.mark.parametrize("width", [390, 1024, 1400, 2560])
def test_no_column_of_three_methods_is_cut(opened, width):
    page = opened(f"{FIRST}&m=gail+(team-a)&m=dagger&m=preference_comparisons", width=width).page
    for name in ("verdicts", "improvement"):
        box = page.locator(f"[data-view={name}] .scroll")
        assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 1, name
        cell = page.locator(f"[data-view={name}] tbody td:not(.self)").first
        assert cell.get_attribute("data-label") == "dagger"
        named = cell.evaluate("(cell) => getComputedStyle(cell, '::before').content")
        assert ("against" in named) == (width == 390)
    page.get_by_text("The same as a table").click()
    box = page.locator("[data-view=environments] .scroll")
    assert box.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 1


def test_the_command_on_the_page_works(opened, site):
    page = opened(f"{FIRST}&m=gail+(team-a)&m=dagger").page
    line = page.locator("[data-view=verdicts] .said code").inner_text()
    program, *words = shlex.split(line)
    answer = call_imitbench(*words, cwd=site)
    assert (program, answer.code) == ("imitbench", 0), answer.err
    assert "gail against dagger: worse" in answer.out
