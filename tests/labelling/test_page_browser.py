"""The labelling page in a real Chromium."""

import shutil

import pytest
from support.browser import keep_picture
from support.labelling import FAKE_CLIP, QUESTION, make_fragments, write_small_set

from imitbench.algorithms.preference_comparisons.answer_queue import QueueGatherer, read_answers
from imitbench.labelling.answers import NotSavedError
from imitbench.labelling.clips import FragmentPainter
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.queue import LabelQueue
from imitbench.labelling.server import LabellingServer

pytestmark = pytest.mark.browser
ODD_NAME = "<img src=x onerror=boom()>"


@pytest.fixture(scope="module")
def films(tmp_path_factory):
    return write_small_set(tmp_path_factory.mktemp("films") / "set", films=True)


@pytest.fixture
def folder(films, tmp_path):
    return shutil.copytree(films, tmp_path / "set")


@pytest.fixture
def server(folder):
    with LabellingServer(LabelSet(folder), port=0) as running:
        yield running


class Page:
    """An annotator's page, with what it logged and requested."""

    def __init__(self, chromium, server, name, *, width=1280, height=900, playable=True, **options):
        self.context = chromium.new_context(viewport={"width": width, "height": height}, **options)
        self.page = self.context.new_page()
        self.complaints, self.requests = [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.annotator = server.store.annotator(name)
        self.page.goto(server.link(self.annotator))
        if playable:
            self.await_pair()

    def await_pair(self):
        self.page.wait_for_selector("#choose-left:enabled")

    def await_done(self, count):
        self.until(f"document.getElementById('bar').value === {count}")

    def until(self, expression):
        """Waits for an expression; the page's policy forbids what Playwright itself would do."""
        for _ in range(3000):  # a minute: busy machines are slow
            if self.page.evaluate(expression):
                return
            self.page.wait_for_timeout(20)
        raise AssertionError(expression)

    def press(self, key, done):
        self.await_pair()
        self.page.keyboard.press(key)
        self.await_done(done)

    def own_answers(self, server):
        return [a for a in server.store.answers() if a.annotator == self.annotator.number]


@pytest.fixture
def opened(chromium, server):
    """Opens pages; they must log nothing, and request nothing elsewhere."""
    pages = []

    def open_page(name="Ada", **options):
        pages.append(Page(chromium, server, name, **options))
        return pages[-1]

    yield open_page
    own = f"http://127.0.0.1:{server.port}/"
    for page in pages:
        assert page.complaints == []
        assert [url for url in page.requests if not url.startswith((own, "blob:", "data:"))] == []
        page.context.close()


def test_everything_can_be_answered_by_keyboard(opened, server):
    page = opened()
    for done, key in enumerate(("ArrowLeft", "ArrowRight", "ArrowDown", "s"), start=1):
        page.press(key, done)
    answers = page.own_answers(server)
    assert [answer.choice for answer in answers] == ["left", "right", "tie", "skip"]
    assert [answer.position for answer in answers] == [0, 1, 2, 3]
    assert all(0 <= answer.response_ms < 60_000 for answer in answers)


def test_undo_takes_the_last_answer_back_and_shows_its_pair_again(opened, server):
    page = opened()
    page.press("ArrowLeft", 1)
    page.press("ArrowRight", 2)
    page.press("u", 1)
    page.press("ArrowDown", 2)
    assert [answer.choice for answer in page.own_answers(server)] == ["left", "tie"]


def test_the_clips_play_in_step_and_pause(opened):
    page = opened()
    page.until("document.querySelector('#left video').currentTime > 0.1")
    times = "[...document.querySelectorAll('.clip video')].map((video) => video.currentTime)"
    left, right = page.page.evaluate(times)
    assert abs(left - right) < 0.15
    page.page.keyboard.press(" ")
    page.until("document.querySelector('#left video').paused")
    assert page.page.locator("#pause").inner_text().endswith("Play")
    frozen = page.page.evaluate(times)
    page.page.wait_for_timeout(200)
    assert page.page.evaluate(times) == frozen
    page.page.keyboard.press("+")
    assert page.page.locator("#speed").inner_text() == "2\N{MULTIPLICATION SIGN}"


def test_the_next_pair_is_there_before_it_is_asked_for(opened):
    page = opened()
    page.until("prepared.size >= 3 && [...prepared.values()].every((e) => e.loaded)")
    shown = page.page.evaluate(
        "() => { choose('left'); return shown.task.position === 1 && shown.left.readyState >= 2; }"
    )
    assert shown
    page.await_done(1)


def test_two_annotators_have_their_own_pairs_and_answers(opened, server):
    ada, bob = opened("Ada"), opened("Bob")
    ada.press("ArrowLeft", 1)
    bob.press("ArrowRight", 1)
    bob.press("ArrowRight", 2)
    assert [answer.choice for answer in ada.own_answers(server)] == ["left"]
    assert [answer.choice for answer in bob.own_answers(server)] == ["right", "right"]
    assert "Bob" not in ada.page.content()


def test_names_and_questions_are_text(opened):
    page = opened(ODD_NAME)
    assert page.page.locator("#name").inner_text() == ODD_NAME
    assert page.page.locator("h1").inner_text() == QUESTION
    assert page.page.locator("h1 b, #name img").count() == 0


def test_the_help_opens_and_closes_by_key(opened):
    page = opened()
    page.page.keyboard.press("?")
    assert page.page.locator("#help").is_visible()
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#help").is_visible()


def test_the_last_pair_ends_the_page_and_undo_still_works(opened, server):
    page = opened()
    total = page.page.evaluate("state.total")
    for done in range(1, total + 1):
        page.press("ArrowDown", done)
    assert page.page.locator("#end").is_visible()
    page.page.keyboard.press("u")
    page.await_done(total - 1)
    assert len(page.own_answers(server)) == total - 1


def test_it_fits_a_phone_in_the_dark_and_answers_to_touch(opened, server):
    page = opened(width=360, height=740, color_scheme="dark", has_touch=True, is_mobile=True)
    assert page.page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    background = page.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(15, 19, 24)"
    keep_picture(page.page, "label-phone-dark")
    page.page.locator("#choose-right").tap()
    page.await_done(1)
    assert [answer.choice for answer in page.own_answers(server)] == ["right"]


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (360, 640)])
def test_all_buttons_are_in_the_window(opened, width, height):
    page = opened(width=width, height=height, color_scheme="light")
    keep_picture(page.page, f"label-{width}")
    lowest = "Math.max(...[...document.querySelectorAll('button')].map((button) =>"
    assert page.page.evaluate(f"{lowest} button.getBoundingClientRect().bottom))") <= height
    shown = page.page.locator("#left video").bounding_box()
    assert shown["width"] >= 140


def test_controls_have_names_for_screen_readers(opened):
    page = opened()
    for role, name in (
        ("button", "Left is better"), ("button", "Right is better"), ("button", "Equally good"),
        ("button", "Undo"), ("button", "Slower"), ("progressbar", "Answered pairs"),
    ):  # fmt: skip
        assert page.page.get_by_role(role, name=name).count() == 1, name
    assert page.page.locator("video[aria-label='Left clip']").count() == 1


def test_an_answer_that_cannot_be_stored_is_kept_and_sent_again(opened, server, monkeypatch):
    page = opened()

    def full(_batch):
        raise NotSavedError("database or disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(server.store, "record", full)
        page.page.keyboard.press("ArrowLeft")
        page.page.wait_for_selector("#alert:visible")
        told = page.page.locator("#alert").inner_text()
        assert "disk is full" in told
        assert "kept in this browser" in told
        assert page.own_answers(server) == []
        page.page.reload()
        page.page.wait_for_selector("#alert:visible")
    page.page.locator("#retry").click()
    page.await_done(1)
    assert not page.page.locator("#alert").is_visible()
    assert [(a.position, a.choice) for a in page.own_answers(server)] == [(0, "left")]
    assert all("507" in complaint for complaint in page.complaints)
    page.complaints.clear()


def test_a_clip_that_cannot_be_decoded_is_told_and_skipped(chromium, folder):
    for clip in (folder / "clips").iterdir():
        clip.write_bytes(FAKE_CLIP)
    with LabellingServer(LabelSet(folder), port=0) as server:
        page = Page(chromium, server, "Ada", playable=False)
        page.page.wait_for_selector("#choose-skip:enabled")
        assert "cannot be shown" in page.page.locator("#alert").inner_text()
        assert page.page.locator("#choose-left").is_disabled()
        page.page.keyboard.press("s")
        page.await_done(1)
        assert [answer.choice for answer in page.own_answers(server)] == ["skip"]
        page.context.close()


def test_the_pairs_of_a_training_appear_while_the_page_is_open(chromium, tmp_path):
    labels = LabelQueue(tmp_path, FragmentPainter(None), question="Which?", goal=5)
    fragments = make_fragments(4)
    with LabellingServer(labels, port=0) as server:
        page = Page(chromium, server, "Ada", playable=False)
        page.page.wait_for_selector("#end-title:visible")
        assert page.page.inner_text("#end-title") == "No pair waits for you now."
        gatherer = QueueGatherer(tmp_path, wait=False, timeout_s=20)
        gatherer._ask([(fragments[0], fragments[1]), (fragments[2], fragments[3])])
        assert labels.grow()
        page.press("ArrowDown", 1)
        page.press("ArrowDown", 2)
        page.page.wait_for_selector("#end-title:visible")
        assert page.complaints == []
        page.context.close()
    said = read_answers(tmp_path / "answers.jsonl")
    assert [each.preference for given in said.values() for each in given.values()] == [0.5, 0.5]
