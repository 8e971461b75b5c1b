"""A page of the recording server, without a browser; and a training that waits for a person."""

import http.client
import json
import struct
import threading
import time

from imitbench.recording.coaching import PersonAtPage
from support.labelling import PageClient

FIRST, SECOND = "page-one-1", "page-two-2"
RIGHT = {"keys": ["ArrowRight"], "pointer": None, "axes": [], "buttons": []}
NOTHING = {**RIGHT, "keys": []}
PATIENCE_S = 400.0


class Tab(PageClient):
    """A page that follows the stream."""

    def __init__(self, url, name):
        super().__init__(url)
        self.name = name
        self.deadline = time.monotonic() + PATIENCE_S
        self.follower = http.client.HTTPConnection(self.address, timeout=60)
        self.follower.request("GET", f"{self.base}frames/{name}")
        self.stream = self.follower.getresponse()
        assert self.stream.status == 200
        self.received = [self._read()]  # the server sends it once it knows the page

    def next(self):
        """Returns the next state and picture."""
        assert time.monotonic() < self.deadline, f"a page was open for {PATIENCE_S:.0f} s"
        return self.received.pop() if self.received else self._read()

    def _read(self):
        head, picture = struct.unpack(">II", self.stream.read(8))
        return json.loads(self.stream.read(head)), self.stream.read(picture)

    def until(self, condition):
        """Returns the first state for which a condition holds."""
        while True:
            state, _ = self.next()
            if condition(state):
                return state

    def leave(self):
        self.stream.close()
        self.follower.close()

    def does(self, inputs):
        return self.post("input", {"page": self.name, "inputs": inputs})

    def asks(self, command):
        return self.post("command", {"page": self.name, "command": command})


class Training(threading.Thread):
    """Asks for rounds of DAgger by hand, as a training does; opens its page."""

    def __init__(self, folder, task, rounds, check_stop=lambda: None):
        super().__init__(daemon=True)
        self.told, self.rounds, self.check_stop = threading.Event(), rounds, check_stop
        self.found, self.error = [], None
        self.person = PersonAtPage(task, folder, 0, self.tell)
        self.start()

    def tell(self, url):
        self.url = url
        self.told.set()

    def run(self):
        try:
            with self.person:
                for request in self.rounds:
                    self.found.append(self.person.take_turns(request, self.check_stop))
                    if self.person.finished:
                        break
        except BaseException as error:
            self.error = error
        finally:
            self.told.set()

    def tab(self):
        assert self.told.wait(60)
        return Tab(self.url, FIRST)
