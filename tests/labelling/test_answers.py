"""Answers are on disk when they are acknowledged, once, whatever happens afterwards."""

import http.client
import os
import random
import signal
import sqlite3
import threading

import pytest
from support.labelling import PageClient, write_small_set
from support.small_disk import room, small_disk

from imitbench.errors import InputError
from imitbench.labelling.answers import AnswerStore, GivenAnswer, NotSavedError, OutOfTurnError
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.server import LabellingServer

SET = "5e7" * 20


@pytest.fixture
def store(tmp_path):
    opened = AnswerStore(tmp_path / "answers.sqlite", SET)
    yield opened
    opened.close()


def given(annotator, position, choice="left", key=None, swapped=False):
    return GivenAnswer(
        key or f"key-{annotator}-{position}-{choice}", annotator, position, "ab" * 32, "new",
        swapped, choice, 900, 1.0,
    )  # fmt: skip


def test_an_answer_is_read_again_from_the_file(store, tmp_path):
    ada = store.annotator("Ada")
    store.record(given(ada.number, 0, "right", swapped=True))
    again = AnswerStore(tmp_path / "answers.sqlite", SET)
    [answer] = again.answers()
    assert (answer.position, answer.choice, answer.swapped) == (0, "right", True)
    assert answer.preference == 1.0
    assert again.annotator(" ada ") == ada
    assert again.secret() == store.secret()
    again.close()


@pytest.mark.parametrize(
    ("choice", "swapped", "preference"),
    [("left", False, 1.0), ("left", True, 0.0), ("right", False, 0.0), ("tie", True, 0.5)],
)
def test_a_choice_is_a_preference_for_the_first_fragment(choice, swapped, preference):
    assert given(1, 0, choice, swapped=swapped).preference == preference


def test_the_same_answer_twice_is_stored_once(store):
    ada = store.annotator("Ada")
    for _ in range(2):
        store.record(given(ada.number, 0, key="the-same-key"))
    assert len(store.answers()) == 1


def test_two_answers_to_one_pair_are_refused(store):
    ada = store.annotator("Ada")
    store.record(given(ada.number, 0, "left"))
    with pytest.raises(OutOfTurnError):
        store.record(given(ada.number, 0, "right"))
    with pytest.raises(OutOfTurnError):
        store.record(given(ada.number, 2))
    assert [answer.choice for answer in store.answers()] == ["left"]


def test_undo_frees_the_last_place_only(store):
    ada = store.annotator("Ada")
    for position in range(2):
        store.record(given(ada.number, position))
    with pytest.raises(OutOfTurnError):
        store.undo(ada.number, 0)
    store.undo(ada.number, 1)
    store.undo(ada.number, 1)  # sent twice
    store.record(given(ada.number, 1, "tie"))
    assert [answer.choice for answer in store.answers()] == ["left", "tie"]
    assert len(store.keys()) == 3  # what was taken back is kept


def test_answers_of_many_threads_are_neither_lost_nor_doubled(store):
    people = [store.annotator(f"person {number}") for number in range(8)]

    def work(person):
        for position in range(25):
            store.record(given(person.number, position))

    threads = [threading.Thread(target=work, args=(person,)) for person in people]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    places = [(answer.annotator, answer.position) for answer in store.answers()]
    assert sorted(places) == [(p.number, position) for p in people for position in range(25)]


def test_answers_to_another_set_are_refused(store, tmp_path):
    with pytest.raises(InputError, match="answers to another set; name the answers file"):
        AnswerStore(tmp_path / "answers.sqlite", "0" * 64)


def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path):
    path = tmp_path / "answers.sqlite"
    path.write_bytes(b"no database" * 100)
    with pytest.raises(InputError, match="not usable as a file of answers"):
        AnswerStore(path, SET)
    assert path.read_bytes() == b"no database" * 100


def test_answers_that_the_page_cannot_give_are_refused(store, tmp_path):
    store.record(given(store.annotator("Ada").number, 0))
    with sqlite3.connect(tmp_path / "answers.sqlite") as connection:
        connection.execute("UPDATE answers SET choice = 'both'")
    with pytest.raises(InputError, match="answers that the page cannot give"):
        AnswerStore(tmp_path / "answers.sqlite", SET)


@pytest.mark.parametrize("name", ["", "  ", "a" * 100, "tab\x00"])
def test_unusable_names_are_refused(store, name):
    with pytest.raises(InputError, match="choose a name of 1 to 80"):
        store.annotator(name)


def test_a_full_disk_is_told_and_the_answer_can_be_sent_again(tmp_path):
    folder = tmp_path / "disk"
    with small_disk(folder, "4M"):
        store = AnswerStore(folder / "answers.sqlite", SET)
        ada = store.annotator("Ada")
        position = 0
        with room(folder, 64 * 1024), pytest.raises(NotSavedError, match="full"):
            for position in range(1000):
                store.record(given(ada.number, position))
        assert len(store.answers()) == position
        store.record(given(ada.number, position))
        assert len(store.answers()) == position + 1
        store.close()


def serve(folder, pipe):
    """Serves a set in a forked process, which is to be killed; writes the link to a pipe."""
    with LabellingServer(LabelSet(folder), port=0) as server:
        os.write(pipe, server.link(server.store.annotator("Ada")).encode() + b"\n")
        server.wait()


def answer_until_killed(folder):
    """Answers over HTTP until the server is killed; returns acknowledged places and choices.

    The kill comes a random moment after a random answer. With a random moment alone, a fast
    machine would answer all pairs of the set.
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            serve(folder, writer)
        finally:
            os._exit(1)
    os.close(writer)
    acknowledged = []
    last_before_the_timer = random.randrange(30)
    try:
        with os.fdopen(reader) as stream:
            client = PageClient(stream.readline().strip())
        position = client.state()["done"]
        while True:
            choice = random.choice(["left", "right", "tie", "skip"])
            status, _ = client.answer(position, choice)
            assert status == 200
            if len(acknowledged) == last_before_the_timer:
                delay = random.uniform(0.0, 0.004)
                threading.Timer(delay, os.kill, (child, signal.SIGKILL)).start()
            acknowledged.append((position, choice))
            position += 1
    except (OSError, http.client.HTTPException):
        return acknowledged
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("kills", [4, pytest.param(50, marks=pytest.mark.slow)])
def test_no_acknowledged_answer_is_lost_when_the_server_is_killed(tmp_path, kills):
    labels = LabelSet(write_small_set(tmp_path / "set", pairs=3000))
    known = {}
    for _ in range(kills):
        acknowledged = answer_until_killed(labels.folder)
        assert acknowledged
        assert not set(known) & {position for position, _ in acknowledged}
        known.update(acknowledged)
        store = AnswerStore(labels.answers_path, labels.set_id)
        answers = store.answers()
        store.close()
        stored = {answer.position: answer.choice for answer in answers}
        assert len(stored) == len(answers)
        assert stored.items() >= known.items()
        # The last request may have been stored without an acknowledgement.
        assert len(stored) - len(known) <= 1
        known = stored
