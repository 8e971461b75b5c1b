"""How the labelling page's server bears many annotators at once.

    python benchmarks/labelling.py --annotators 20 --answers 500

Each annotator is a thread of a second process with one connection, which answers as fast as the
server replies: a harder load than people make. The table has the time from sending an answer to the
acknowledgement that it is on disk, and that of asking for the next pairs. At the end, the answers
on disk are compared with the acknowledged ones.
"""

from __future__ import annotations

import argparse
import http.client
import json
import multiprocessing
import secrets
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from support.labelling import PageClient, write_small_set

from imitbench.labelling.answers import AnswerStore
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.server import LabellingServer


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--annotators", type=int, default=20)
    parser.add_argument("--answers", type=int, default=500)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each answer")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="labelling-", dir=Path.cwd()) as scratch:
        labels = LabelSet(write_small_set(Path(scratch) / "set", pairs=arguments.answers))
        with LabellingServer(labels, port=0) as server:
            people = [server.store.annotator(f"p{n}") for n in range(arguments.annotators)]
            links = [server.link(person) for person in people]
            context = multiprocessing.get_context("fork")
            receiver, sender = context.Pipe(duplex=False)
            start = time.perf_counter()
            crowd = context.Process(
                target=answer_all, args=(links, arguments.answers, arguments.pause, sender)
            )
            crowd.start()
            acknowledged, answer_s, state_s = receiver.recv()
            crowd.join()
            wall = time.perf_counter() - start
        store = AnswerStore(labels.answers_path, labels.set_id)
        stored = sorted(answer.key.partition(".")[2] for answer in store.answers())
        store.close()
    print("| | median ms | p99 ms | largest ms |\n|---|---:|---:|---:|")
    for name, times in (("answer", answer_s), ("next pairs", state_s)):
        median, p99 = (1000 * np.quantile(times, q) for q in (0.5, 0.99))
        print(f"| {name} | {median:.1f} | {p99:.1f} | {1000 * max(times):.1f} |")
    rate = len(acknowledged) / wall
    print(f"\n{len(acknowledged)} answers in {wall:.1f} s, {rate:.0f}/s; ", end="")
    print("none lost, none doubled" if stored == sorted(acknowledged) else "ANSWERS DIFFER")
    return int(stored != sorted(acknowledged))


def answer_all(links: list[str], answers: int, pause: float, sender) -> None:
    keys: list[str] = []
    answer_s: list[float] = []
    state_s: list[float] = []

    def work(link: str) -> None:
        client = PageClient(link)
        for position in range(answers):
            time.sleep(pause)
            key = secrets.token_hex(16)
            begin = time.perf_counter()
            status, document = client.answer(position, "left", key)
            answer_s.append(time.perf_counter() - begin)
            if status != 200:
                raise http.client.HTTPException(json.dumps(document))
            keys.append(key)
            if position % 10 == 0:
                begin = time.perf_counter()
                client.state()
                state_s.append(time.perf_counter() - begin)

    threads = [threading.Thread(target=work, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sender.send((keys, answer_s, state_s))


if __name__ == "__main__":
    sys.exit(main())
