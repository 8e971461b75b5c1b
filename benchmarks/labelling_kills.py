"""Whether the labelling page's server keeps every acknowledged answer when it is killed.

    python benchmarks/labelling_kills.py --kills 50

A process serves a set, annotators answer without a pause, and SIGKILL ends the process at a random
moment; then it is started again, and each annotator first sends the answer again that was not
acknowledged, as the page does. At the end, the answers on disk are compared with the acknowledged
ones. A kill of the process is not a loss of power: what the disk does then is not tested.
"""

from __future__ import annotations

import argparse
import http.client
import multiprocessing
import os
import random
import secrets
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.labelling import PageClient, write_small_set

from imitbench.labelling.answers import AnswerStore
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.server import LabellingServer

LONGEST_S = 0.5
"""Kills come at random between the first answer and this time after it."""


class Annotator:
    """Answers as fast as the server replies, until it dies."""

    def __init__(self) -> None:
        self.acknowledged: list[str] = []
        self.pending: tuple[int, str] | None = None
        self.resent = 0

    def answer(self, link: str, total: int, begun: threading.Event) -> None:
        """Answers until the server is gone or all pairs have an answer."""
        try:
            client = PageClient(link)
            if self.pending is not None:
                self.resent += 1
                self._send(client, *self.pending)
            position = client.state()["done"]
            while position < total:
                self._send(client, position, secrets.token_hex(16))
                begun.set()
                position += 1
        except (OSError, http.client.HTTPException):
            return  # killed
        finally:
            begun.set()

    def _send(self, client: PageClient, position: int, key: str) -> None:
        self.pending = position, key
        status, document = client.answer(position, "left", key)
        if status != 200:
            raise RuntimeError(f"position {position}: {status} {document}")
        self.acknowledged.append(key)
        self.pending = None


def serve(folder: Path, names: list[str], sender: Connection) -> None:
    """Serves a set until killed."""
    with LabellingServer(LabelSet(folder), port=0) as server:
        sender.send([server.link(server.store.annotator(name)) for name in names])
        server.wait()


def main() -> int:
    """Kills the server repeatedly, and compares; returns 1 if an answer was lost or doubled."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--annotators", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    moments = random.Random(options.seed)
    people = [Annotator() for _ in range(options.annotators)]
    names = [f"p{number}" for number in range(len(people))]
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="kills-", dir=Path.cwd()) as scratch:
        folder = write_small_set(Path(scratch) / "set", pairs=options.pairs)
        busy = 0
        for _ in range(options.kills):
            receiver, sender = context.Pipe(duplex=False)
            server = context.Process(target=serve, args=(folder, names, sender))
            server.start()
            links, begun = receiver.recv(), threading.Event()
            threads = [
                threading.Thread(target=person.answer, args=(link, options.pairs, begun))
                for person, link in zip(people, links, strict=True)
            ]
            for thread in threads:
                thread.start()
            begun.wait()
            time.sleep(moments.uniform(0, LONGEST_S))
            os.kill(server.pid, signal.SIGKILL)
            server.join()
            for thread in threads:
                thread.join()
            busy += any(person.pending is not None for person in people)
        labels = LabelSet(folder)
        store = AnswerStore(labels.answers_path, labels.set_id)
        answers = store.answers()
        store.close()
    stored = Counter(answer.key.partition(".")[2] for answer in answers)
    places = Counter((answer.annotator, answer.position) for answer in answers)
    acknowledged = {key for person in people for key in person.acknowledged}
    unknown = {person.pending[1] for person in people if person.pending is not None}
    lost = len(acknowledged - stored.keys())
    doubled = sum(count > 1 for counts in (stored, places) for count in counts.values())
    invented = len(stored.keys() - acknowledged - unknown)
    print(
        f"{options.kills} kills, {busy} while an answer was on its way; "
        f"{len(acknowledged)} acknowledged answers, {sum(p.resent for p in people)} sent again: "
        f"{lost} lost, {doubled} doubled, {invented} that nobody gave"
    )
    return int(lost + doubled + invented > 0)


if __name__ == "__main__":
    sys.exit(main())
