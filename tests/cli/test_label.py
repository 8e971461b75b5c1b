"""`imitbench label` and `imitbench import human-preferences`."""

import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from support.labelling import PageClient, make_fragments, write_small_set

from imitbench.algorithms.preference_comparisons.answer_queue import QueueGatherer
from imitbench.labelling.answers import AnswerStore
from imitbench.labelling.clips import FragmentPainter
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.queue import LabelQueue


@pytest.fixture
def folder(tmp_path):
    return write_small_set(tmp_path / "set", pairs=6)


def test_a_set_is_made_answered_and_exported(imitbench, tmp_path):
    made = imitbench(
        "label", "--env", "Pendulum-v1", "--pairs", "2", "--length", "5", "--make-only"
    )
    assert made.code == 0, made.err
    assert "labels/Pendulum-v1: 2 pairs and 1 obvious pair; each annotator gets " in made.err
    assert "3 questions: 2 pairs, 1 obvious" in made.err
    folder = tmp_path / "labels" / "Pendulum-v1"
    labels = LabelSet(folder)
    store = AnswerStore(labels.answers_path, labels.set_id)
    store.annotator("Ada")
    store.close()
    lines = [
        json.dumps({"pair": pair.digest, "preference": 1.0, "annotator": "Ada"})
        for pair in labels.header.pairs
    ]
    (tmp_path / "given.jsonl").write_text("\n".join(lines))
    added = imitbench("label", "import", str(folder), "given.jsonl")
    assert added.err == f"{folder}: 3 answers added\n"
    told = json.loads(imitbench("label", "status", str(folder), "--json").out)
    assert [(each["name"], each["answers"]) for each in told["annotators"]] == [("Ada", 3)]
    shown = imitbench("label", "status", str(folder))
    assert "annotator" in shown.out
    assert "each annotator gets 3 questions: 2 pairs, 1 obvious" in shown.err
    exported = imitbench("label", "export", str(folder), "out", "--json")
    assert json.loads(exported.out) == {"to": "out", "pairs": 3, "answers": 3}
    for env, trace in ((), True), (("--env", "Pendulum-v1"), False):
        again = imitbench(
            "label", "--pairs-from", "out", *env, "--to", f"again{trace}", "--make-only"
        )
        assert again.code == 0, again.err
        assert ("clips are traces of the observations" in again.err) == trace
        copy = LabelSet(tmp_path / f"again{trace}")
        copy.check_clips()
        assert set(labels.pairs) <= set(copy.pairs)
    shown = imitbench("label", "push", "out", "me/preferences", "--license", "mit")
    assert "data/train-00000-of-00001.parquet" in shown.out
    assert "nothing was uploaded; add --yes to upload" in shown.err
    merged = imitbench("label", "merge", str(folder), str(folder))
    assert merged.code == 2
    assert "the answers of this set already" in merged.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("nothing.parquet",), "nothing.parquet: no such file; name preferences in Parquet"),
        (("text.parquet",), "text.parquet: "),
        (("nothing.parquet", "--pairs", "3"), "all its pairs are taken as they are"),
        (("nothing.parquet", "--demos", "x"), "--demos and --pairs-from: name one of them"),
    ],
)
def test_wrong_files_of_pairs_are_refused_and_nothing_is_made(
    imitbench, tmp_path, options, message
):
    (tmp_path / "text.parquet").write_text("no table")
    answer = imitbench("label", "--pairs-from", *options, "--make-only", "--to", "new")
    assert answer.code == 2
    assert message in answer.err
    assert answer.err.count("\n") == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_page_is_served_until_interrupted(folder, tmp_path):
    command = [sys.executable, "-m", "imitbench", "label", str(folder), "--port", "0",
               "--no-browser", "--annotator", "Ada", "--annotator", "Bob"]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        links = dict(process.stdout.readline().strip().split(": ", 1) for _ in range(2))
        for name, link in links.items():
            page = PageClient(link)
            assert page.state()["name"] == name
            assert page.answer(0)[0] == 200
        process.send_signal(signal.SIGINT)
        _, messages = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "2 answers stored" in messages


@pytest.mark.slow
def test_the_pairs_of_a_training_are_shown_and_answered(tmp_path):
    fragments = make_fragments(4)
    pairs = [(fragments[0], fragments[1]), (fragments[2], fragments[3])]
    command = [sys.executable, "-m", "imitbench", "label", str(tmp_path / "queue"), "--queue",
               "--env", "Pendulum-v1", "--port", "0", "--no-browser"]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        page = PageClient(process.stdout.readline().strip())
        assert page.state()["next"] == []
        with ThreadPoolExecutor() as pool:  # the training
            gatherer = QueueGatherer(tmp_path / "queue", poll_s=0.05, timeout_s=60)
            asked = pool.submit(gatherer.gather, pairs)
            while not page.state()["next"]:
                time.sleep(0.05)
            assert page.answer(0, "tie")[0] == page.answer(1, "tie")[0] == 200
            assert asked.result().preferences.tolist() == [0.5, 0.5]
        process.send_signal(signal.SIGTERM)
        _, messages = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0
    assert "2 answers stored" in messages


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["label", "status", "."], "nobody has opened this queue yet; imitbench label . --queue"),
        (["label", "export", ".", "out"], "nobody has opened this queue yet"),
        (["label", "import", ".", "answers.jsonl"], "is the queue of a training, which gets its"),
        (["label", "merge", ".", "copy"], "is the queue of a training, which gets its answers"),
    ],
)
def test_a_queue_that_nobody_opened_is_told(refused, tmp_path, arguments, told):
    QueueGatherer(tmp_path, wait=False, timeout_s=1)._ask([tuple(make_fragments(2))])
    assert told in refused(*arguments)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["--question", "Why?"], "first opened with --question Which?, which stays; leave out"),
        (["--goal", "20"], "first opened with --goal 5, which stays; leave out --goal"),
        (["--question", "Which?", "--goal", "6"], "first opened with --goal 5, which stays"),
    ],
    ids=["question", "goal", "both"],
)
def test_other_texts_for_an_opened_queue_are_refused(refused, tmp_path, texts, told):
    LabelQueue(tmp_path / "queue", FragmentPainter(None), question="Which?", goal=5)
    assert told in refused("label", "queue", *texts, "--no-browser", "--port", "0")


@pytest.mark.parametrize("source", [("--env", "Pendulum-v1"), ("queue", "--queue")], ids=" ".join)
@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["--question", "?" * 401], "--question: has 401 characters; shorten it to 400 at most"),
        (["--question", " "], "--question: is blank"),
        (["--question", b"\xff".decode(errors="surrogateescape")], "--question: is not UTF-8 text"),
        (["--goal", "9999999999"], "--goal 9999999999: must be from 1 to 20000"),
    ],
    ids=["long", "blank", "bytes", "goal"],
)
def test_wrong_texts_of_a_page_are_refused_and_nothing_is_made(
    refused, tmp_path, source, texts, told
):
    assert told in refused("label", *source, *texts, "--no-browser")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["label", "nowhere"], "nowhere: not a set to label"),
        (["label", "queue", "--queue", "--policy", "x"], "is the queue of a training"),
        (
            ["label", "queue", "--queue", "--pairs", "3", "--seed", "0", "--make-only"],
            "whose pairs are shown; leave out --pairs and --seed and --make-only",
        ),
        (
            ["label", "--queue", "--env", "Pendulum-v1", "--make-only"],
            "--queue: needs the folder that a run names by --set answers=FOLDER",
        ),
        (["label", "--pairs", "3"], "name a set, or what to make one from"),
        (["label", "--demos", "a", "--policy", "b"], "--demos and --policy: name one"),
        (["label", "--policy", "random"], "the environment is not known; name it by --env"),
        (["label", "set", "--env", "Pendulum-v1"], "is opened as it is"),
        (
            ["label", "set", "--pairs", "3", "--length", "9", "--seed", "0", "--make-only"],
            "opened as it is; leave out --pairs and --length and --seed, or leave out the folder",
        ),
        (
            ["label", "set", "--question", "Why?", "--make-only"],
            "is opened as it is; leave out --question",
        ),
        (
            ["label", "--env", "Pendulum-v1", "--make-only", "--annotator", "a", "--port", "0"],
            "opens no page; leave out --annotator and --port",
        ),
        (["label", "set", "--goal", "20", "--make-only"], "is opened as it is; leave out --goal"),
        (
            ["label", "set", "--suite", "classic", "--make-only"],
            "is opened as it is; leave out --suite",
        ),
        (["label", "set", "--annotator", ""], "choose a name"),
        (["label", "--env", "Pendulum-v1", "--to", "set"], "is a set already"),
        (["label", "export", "set", "out"], "has no answers yet"),
        (["label", "import", "set", "set/set.jsonl"], "cannot be read"),
        (["label", "merge", "set", "nowhere"], "there are no answers"),
        (["import", "human-preferences", "set"], "has no human_label_domain_"),
        (["import", "human-preferences", "set", "--to", "x"], "--data and --to: give both"),
    ],
)
def test_bad_input_is_one_line(refused, folder, arguments, told):
    assert told in refused(*arguments)
