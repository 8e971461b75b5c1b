"""A browser that answers on the labelling page, as a scripted teacher would in front of it."""

import json
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.queue import QueueSet, is_queue

IMITBENCH = (sys.executable, "-m", "imitbench")
KEYS = {1.0: "ArrowLeft", 0.0: "ArrowRight", 0.5: "ArrowDown"}
SKIP = "s"


@contextmanager
def labelling_page(*options, cwd=None):
    """Runs `imitbench label` with a page for one annotator, and yields the link.

    Args:
        *options: What to show, as on the command line.
        cwd: Working directory.
    """
    command = [*IMITBENCH, "label", *options, "--port", "0", "--no-browser", "--json", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
        try:
            text = ""
            while True:
                line = process.stdout.readline()
                assert line, f"{command} ended after {text!r}"
                text += line
                if line.rstrip() == "}":
                    [link] = json.loads(text)["links"].values()
                    break
            yield link
        finally:
            process.terminate()


class ScriptedBrowser:
    """Opens the page of an annotator, and presses the keys that a teacher would.

    The teacher sees the true rewards of the fragments on the screen, which people do not.

    Args:
        browser: A browser of Playwright.
        link: The annotator's link.
        folder: The set, or the queue of a training.
        teacher: Gives the preference of pairs of fragments, NaN to skip one.

    Attributes:
        page: The page.
        complaints: What the page wrote to the console.
    """

    def __init__(self, browser, link, folder, teacher):
        self._folder, self._teacher = Path(folder), teacher
        self._fragments = []
        self.page = browser.new_context().new_page()
        self.complaints = []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(link)

    def answer_all(self, ended=lambda: False):
        """Answers until the last pair of the set, or until the training ended.

        Args:
            ended: Whether the training ended.

        Returns:
            Number of answers.
        """
        given = 0
        while True:
            if self.page.evaluate("shown !== null && shown.loaded && !busy"):
                self.page.keyboard.press(self._key())
                given += 1
            elif self.page.locator("#end").is_visible() and (
                ended() or not self.page.evaluate("state.grows")
            ):
                return given
            else:
                self.page.wait_for_timeout(20)

    def close(self):
        """Closes the page."""
        self.page.context.close()

    def _key(self):
        sides = self.page.evaluate("[shown.task.left, shown.task.right]")
        if max(sides) >= len(self._fragments):
            opened = QueueSet if is_queue(self._folder) else LabelSet
            self._fragments = opened(self._folder).fragments
        left, right = (self._fragments[number] for number in sides)
        [preference] = self._teacher([(left, right)])
        return KEYS.get(float(preference), SKIP)
