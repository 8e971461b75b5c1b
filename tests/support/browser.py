"""Chromium, if it is installed."""

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

CANDIDATES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PICTURE_TRIES = 5


def chromium():
    """Returns the path of Chromium; without it, tests are skipped unless it is required."""
    for name in CANDIDATES:
        if path := shutil.which(name):
            return path
    reason = f"no Chromium: none of {', '.join(CANDIDATES)} on the path"
    if os.environ.get("IMITBENCH_REQUIRE_BROWSER"):
        pytest.fail(reason)
    pytest.skip(reason)


def keep_picture(page, name, **options):
    """Keeps a picture in the folder that IMITBENCH_SCREENSHOTS names; without it, none is taken."""
    if folder := os.environ.get("IMITBENCH_SCREENSHOTS"):
        take_picture(page, Path(folder) / f"{name}.png", **options)


def take_picture(page, path, **options):
    """Writes a picture of a page; on a busy machine, Chromium may need several tries."""
    from playwright.sync_api import Error

    for tries_left in reversed(range(PICTURE_TRIES)):
        try:
            page.screenshot(path=path, **options)  # makes the folder
            return
        except Error as error:
            if not tries_left or "Unable to capture screenshot" not in error.message:
                raise


@contextmanager
def browser():
    """Yields an open browser."""
    path = chromium()
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # Containers rarely support the sandbox, and the pages are trusted.
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


class Watched:
    """A page that records its console messages and network requests.

    Args:
        opened: The browser.
        place: Path of a file, or an address.
        width: Width of the window in pixels.
        height: Height of the window in pixels.
        **options: Further options of the window.

    Attributes:
        page: The page.
        complaints: Errors, warnings and messages on the console.
        requests: Requested URLs, except for that of the page.
    """

    def __init__(self, opened, place, width=1280, height=900, **options):
        address = place if isinstance(place, str) else place.as_uri()
        self.page = opened.new_page(viewport={"width": width, "height": height}, **options)
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)
        self.requests.remove(address.partition("#")[0])

    def drawn(self):
        """Waits until charts have their width, which they learn within the next frame."""
        self.page.evaluate(
            "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def overflow(self):
        """Returns by how many pixels the page is wider than its window."""
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")

    def column(self, selector, place):
        """Returns the texts of one column of a table, without hidden rows."""
        return self.page.evaluate(
            "([selector, place]) => [...document.querySelector(selector).tBodies[0].rows]"
            ".filter((row) => !row.hidden).map((row) => row.cells[place].textContent.trim())",
            [selector, place],
        )


def audit(page):
    """Returns what axe-core calls serious or critical on a page, with an example of each."""
    if not os.environ.get("IMITBENCH_REQUIRE_BROWSER"):
        pytest.importorskip("axe_playwright_python")
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [
        (each["id"], each["nodes"][0]["html"], each["nodes"][0]["failureSummary"])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
