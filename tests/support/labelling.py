"""Small sets to label, and a client of the page's server."""

import http.client
import itertools
import json
import secrets

import numpy as np

from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.data.types import TrajectoryWithRew
from imitbench.labelling.clips import TraceScale, draw_trace, write_clip
from imitbench.labelling.label_set import CLIPS_FOLDER, Pair, SetHeader, write_set

FAKE_CLIP = b"\x00\x00\x00\x10ftypisom\x00\x00\x00\x00" + b"\x00\x00\x00\x08moov"
QUESTION = "Which <b>pendulum</b> is better?"


def make_fragments(count, *, steps=8, seed=0):
    """Fragments whose return increases with their number."""
    rng = np.random.default_rng(seed)
    return [
        TrajectoryWithRew(
            rng.normal(size=(steps + 1, 3)), rng.normal(size=(steps, 1)), None, False,
            np.full(steps, float(number)),
        )
        for number in range(count)
    ]  # fmt: skip


def write_small_set(folder, *, pairs=12, obvious=1, films=False, seed=0, question=QUESTION):
    """Writes a set of few fragments, each in many pairs; `films` makes real clips."""
    count = 2
    while count * (count - 1) // 2 < pairs + obvious:
        count += 1
    fragments = make_fragments(count, seed=seed)
    combinations = [
        both[:: 1 if number % 2 else -1]
        for number, both in enumerate(list(itertools.combinations(range(count), 2))[::-1])
    ]
    listed = [
        Pair(
            digest=pair_digest(fragments[first], fragments[second]),
            first=first,
            second=second,
            expected=("second" if first < second else "first") if number >= pairs else None,
        )
        for number, (first, second) in enumerate(combinations[: pairs + obvious])
    ]
    header = SetHeader(
        version=1, env="Pendulum-v1", source="a test", question=question, seed=seed, fps=20.0,
        rendered=False, goal=5, fragments=count, pairs=listed,
    )  # fmt: skip
    (folder / CLIPS_FOLDER).mkdir(parents=True)
    scale = TraceScale(fragments)
    for number, fragment in enumerate(fragments):
        clip = folder / CLIPS_FOLDER / f"{number}.mp4"
        if films:
            write_clip(draw_trace(fragment, scale), clip, header.fps)
        else:
            clip.write_bytes(FAKE_CLIP)
    write_set(folder, header, fragments)
    return folder


class PageClient:
    """Does what the page of one annotator does, over one connection."""

    def __init__(self, link):
        self.address, _, rest = link.removeprefix("http://").partition("/")
        self.base = f"/{rest}"
        self.connection = http.client.HTTPConnection(self.address, timeout=60)
        status, body, _ = self.request("GET", "")
        assert status == 200, body
        self.csrf = body.decode().partition('name="csrf" content="')[2].partition('"')[0]

    def request(self, method, path, body=None, headers=None):
        """Returns status, body and headers of a response."""
        place = path if path.startswith("/") else self.base + path
        self.connection.request(method, place, body, headers or {})
        response = self.connection.getresponse()
        return response.status, response.read(), response.headers

    def post(self, path, document, **headers):
        """Returns status and document of the response to a change."""
        status, body, _ = self.request(
            "POST",
            path,
            json.dumps(document),
            {"Content-Type": "application/json", "X-CSRF-Token": self.csrf, **headers},
        )
        return status, json.loads(body)

    def state(self):
        status, body, _ = self.request("GET", "state")
        assert status == 200, body
        return json.loads(body)

    def answer(self, position, choice="left", key=None):
        return self.post(
            "answer",
            {
                "key": key or secrets.token_hex(16),
                "position": position,
                "choice": choice,
                "response_ms": 1200,
            },
        )
