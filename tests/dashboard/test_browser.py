"""The dashboard in a real Chromium, while a real sweep writes into its folder."""

import re
import shutil
import subprocess
import sys

import imageio.v2 as imageio
import numpy as np
import pytest
from support.browser import Watched, audit
from support.plugins import write_plugin
from support.runs import make_spec
from support.shown_results import write_results
from support.synthetic_runs import write_failed, write_finished

from imitbench.records.runs import Budget
from imitbench.store.run_dir import RunDirectory

pytestmark = pytest.mark.browser
ODD = "<img src=x onerror=boom()>|$_{}\\&amp;"
PATIENCE_MS = 300_000  # on a busy machine, a sweep takes long to start
SLOW = """
import time

from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def train(self, budget, callback, checkpoint):
        def slow(step, metrics):
            callback(step, metrics)
            time.sleep(0.3)

        return super().train(budget, slow, checkpoint)
"""


@pytest.fixture
def opened(chromium):
    """Opens a dashboard; it must log nothing and request nothing from elsewhere."""
    pages = []

    def open_page(client, view="", **options):
        watched = Watched(chromium, f"{client.url}#{view}", **options)
        pages.append((watched, client))
        return watched

    yield open_page
    for watched, client in pages:
        assert watched.complaints == []
        assert {each for each in watched.requests if not each.startswith(client.url)} <= {"data:,"}
        watched.page.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "runs"
    skills = dict.fromkeys(("bc", "gail", ODD), ((0.9, 0.1),) * 3)
    failing = (("gail", "Pendulum-v1", 1), (ODD, "Pendulum-v1", 0))
    write_results(folder, seeds=2, skills=skills, failing=failing, message=ODD)
    return folder


@pytest.fixture
def out(written, tmp_path):
    """A small benchmark in which an algorithm, and a message, look like markup."""
    return shutil.copytree(written, tmp_path / "runs")


def rows(watched, view):
    return watched.page.locator(f"#view-{view} tbody tr")


def drawn_points(watched):
    """Returns the number of points of all curves that are drawn."""
    return watched.page.evaluate(
        "[...document.querySelectorAll('#view-curves path.curve')]"
        ".map((path) => path.getAttribute('d').split(/[ML]/).length - 1)"
        ".reduce((sum, points) => sum + points, 0)"
    )


def test_curves_grow_while_a_sweep_runs(tmp_path, serve, opened):
    out = tmp_path / "runs"
    (out / ".sweeps").mkdir(parents=True)
    watched = opened(serve(out), "curves")
    assert watched.page.locator("#view-curves").inner_text().endswith("No run has begun.")
    write_plugin(tmp_path / "slow", SLOW, name="slow")
    words = "run --algo ./slow --env Pendulum-v1 --seeds 2 --budget quick --executor inline --quiet"
    sweep = subprocess.Popen(
        [sys.executable, "-m", "imitbench", *words.split(), "--checkpoint-minutes", "0.005"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    seen = []
    try:
        watched.page.locator("#facts li", has_text="running").wait_for(timeout=PATIENCE_MS)
        watched.page.locator("#view-curves svg.chart").wait_for(timeout=PATIENCE_MS)
        while sweep.poll() is None:
            seen.append(drawn_points(watched))
            watched.page.wait_for_timeout(200)
    finally:
        sweep.kill()
        sweep.wait()
    assert sweep.returncode == 0
    watched.page.locator("#facts li", has_text="2 done").wait_for()
    assert len({count for count in seen if count}) > 1
    assert seen == sorted(seen)
    asked = [each for each in watched.requests if "/api/curves?metric=" in each]
    assert any(re.search(r"&token=[^&]", each) for each in asked)  # for new points only
    watched.page.goto(f"{watched.page.url.partition('#')[0]}#overview")
    assert rows(watched, "overview").filter(has_text="2 done").count() == 1


def test_every_view_opens_in_the_dark_on_a_phone(out, serve, opened):
    watched = opened(serve(out), "runs", width=390, height=844, color_scheme="dark")
    rows(watched, "runs").first.wait_for()
    color = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(15, 19, 24)"
    for view in ("overview", "runs", "curves", "failures", "videos", "compare"):
        watched.page.get_by_role("navigation").get_by_role("link", name=view).click()
        section = watched.page.locator(f"#view-{view}")
        section.wait_for()
        assert watched.page.locator("main > section:visible").count() == 1
        assert watched.overflow() == 0
    watched.page.get_by_label("Theme").select_option("light")
    color = watched.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert color == "rgb(246, 247, 249)"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", ["overview", "runs", "failures"])
def test_views_fit_every_width_and_an_audit_finds_nothing_serious(out, serve, opened, view, theme):
    watched = opened(serve(out), view, width=390, color_scheme=theme)
    rows(watched, view).first.wait_for()
    for width in (390, 1024, 1400, 2560):
        watched.page.set_viewport_size({"width": width, "height": 900})
        assert watched.overflow() <= 0, width
        hidden = watched.page.evaluate(
            "[...document.querySelectorAll('.scroll:has(table)')]"
            ".filter((box) => box.offsetParent).map((box) => box.scrollWidth - box.clientWidth)"
        )
        assert max(hidden) <= 1, width
        assert audit(watched.page) == [], width


def test_names_and_messages_stay_text(out, serve, opened):
    watched = opened(serve(out), "failures")
    group = watched.page.locator("#view-failures details")
    group.wait_for()
    assert group.locator("summary").inner_text().endswith(f" FloatingPointError: {ODD} (train)")
    assert group.locator("tbody tr", has_text=f"FloatingPointError: {ODD}").count() == 2
    group.locator("tbody tr", has=watched.page.locator("th", has_text=ODD)).locator(
        "button.open"
    ).click()
    dialog = watched.page.locator("dialog[open]")
    assert ODD in dialog.locator("h2").inner_text()
    assert ODD in dialog.locator("pre").first.inner_text()
    watched.page.keyboard.press("Escape")
    for view in ("overview", "runs", "curves"):
        watched.page.goto(f"{watched.page.url.partition('#')[0]}#{view}")
        watched.page.locator(f"#view-{view}", has_text=ODD).wait_for()
    assert watched.page.locator("img").count() == 0


def test_the_list_is_filtered_sorted_and_follows_the_folder(out, serve, opened):
    watched = opened(serve(out), "runs")
    rows(watched, "runs").nth(17).wait_for()
    field = watched.page.get_by_label("Filter")
    field.fill("pendulum GAIL")
    assert rows(watched, "runs").count() == 2
    watched.page.get_by_role("button", name="failed").click()
    assert rows(watched, "runs").count() == 1
    field.fill("")
    heading = watched.page.locator("#view-runs th", has_text="Raw return")
    heading.get_by_role("button").click()
    assert heading.get_attribute("aria-sort") == "descending"
    shown = [float(text) for text in watched.column("#view-runs table", 5)]
    assert shown == sorted(shown, reverse=True)
    spec = make_spec(seed=7, algo="dagger")
    with RunDirectory.of(out, spec).claim(wait=False):
        RunDirectory.of(out, spec).begin(spec)
        rows(watched, "runs").filter(has_text="dagger").filter(has_text="running").wait_for()
    shutil.rmtree(RunDirectory.of(out, spec).path)
    write_failed(out, spec, "on fire")
    watched.page.get_by_role("button", name="failed").click()
    rows(watched, "runs").filter(has_text="dagger").filter(has_text="failed").wait_for()
    shutil.rmtree(RunDirectory.of(out, spec).path)
    rows(watched, "runs").filter(has_text="dagger").wait_for(state="detached")


def test_scores_of_two_budgets_have_a_row_each(tmp_path, serve, opened):
    out = tmp_path / "runs"
    for name, raw_return in (("quick", 1.0), ("full", 5.0)):
        budget = Budget(name=name, unit="batches", amount=10)
        write_finished(out, make_spec(budget=budget), raw_return)
    watched = opened(serve(out), "overview")
    found = rows(watched, "overview").filter(has_text="1 done")
    found.nth(1).wait_for()
    told = sorted(found.all_inner_texts())
    assert ["budget full" in told[0], "budget quick" in told[1]] == [True, True]


def test_two_runs_are_compared(out, serve, opened):
    watched = opened(serve(out), "runs")
    field = watched.page.get_by_label("Filter")
    for name in ("bc cartpole", "gail cartpole"):
        field.fill(name)
        watched.page.get_by_role("checkbox").first.check()
    watched.page.get_by_role("button", name="Compare the two marked runs").click()
    view = watched.page.locator("#view-compare")
    view.locator("svg.chart path.curve").nth(1).wait_for()
    assert view.locator("svg.chart path.curve").count() == 2
    differences = view.locator("table", has_text="Field")
    assert differences.locator("tbody th").all_inner_texts() == ["algo", "seed", "budget.unit"]
    scores = view.locator("table", has_text="Outcome").locator("tr", has_text="Raw return ").first
    assert "±" in scores.inner_text()
    watched.page.reload()  # the address names the two runs
    view.locator("svg.chart path.curve").nth(1).wait_for()


# Not `wait_for_function`: it polls with eval(), which the page's content security policy refuses.
WIDTH_ONCE_LOADED = """(video, patience) => new Promise((resolve, reject) => {
  if (video.readyState >= 1) return resolve(video.videoWidth);
  video.addEventListener("loadedmetadata", () => resolve(video.videoWidth));
  video.addEventListener("error", () => reject(new Error("the video cannot be loaded")), true);
  setTimeout(() => reject(new Error(`no video after ${patience} ms`)), patience);
})"""


def test_videos_play(out, serve, opened):
    spec = make_spec()
    write_finished(out, spec, 1.0)
    (out / "videos").mkdir()
    file = out / "videos" / f"{spec.run_id}.mp4"
    frames = np.zeros((8, 64, 64, 3), np.uint8)
    imageio.mimwrite(file, frames, fps=8, macro_block_size=1)
    watched = opened(serve(out), "videos")
    video = watched.page.locator("#view-videos video")
    video.wait_for()
    assert video.evaluate(WIDTH_ONCE_LOADED, PATIENCE_MS) == 64
    caption = watched.page.locator("#view-videos figcaption")
    assert "bc on Pendulum-v1, seed 0" in caption.inner_text()


def test_it_goes_on_when_the_server_comes_back(out, serve, opened):
    watched = opened(serve(out), "overview")
    rows(watched, "overview").first.wait_for()
    watched.page.route("**/api/runs*", lambda route: route.abort())
    line = watched.page.locator("#connection")
    line.filter(has_text="the dashboard has ended").wait_for()
    watched.page.unroute("**/api/runs*")
    line.wait_for(state="hidden")
    watched.complaints.clear()  # Chromium logs requests without an answer
