"""The page of a running training: pairs come while it is open, and answers reach the training."""

import json
import threading

import gymnasium as gym
import numpy as np
import pytest
from support.labelling import PageClient, make_fragments

from imitbench.algorithms.preference_comparisons.answer_queue import QueueGatherer, read_answers
from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_environment_if_named
from imitbench.labelling import clips, queue
from imitbench.labelling.answers import AnswerStore
from imitbench.labelling.clips import FragmentPainter
from imitbench.labelling.exchange import preference_rows
from imitbench.labelling.queue import LabelQueue, QueueSet, queue_growing
from imitbench.labelling.server import LabellingServer


@pytest.fixture(autouse=True)
def quick_clips(monkeypatch):
    monkeypatch.setattr(queue, "write_clip", lambda _frames, path, _fps: path.write_bytes(b"x"))


def pairs_of_training(count, seed=0):
    fragments = make_fragments(2 * count, seed=seed)
    return list(zip(fragments[::2], fragments[1::2], strict=True))


def opened(folder, spec=None):
    return LabelQueue(folder, FragmentPainter(spec), question="Which?", goal=5)


class Training:
    """Asks about pairs in a thread, as a training does."""

    def __init__(self, folder, pairs, **options):
        self.gatherer = QueueGatherer(folder, poll_s=0.01, timeout_s=100, **options)
        self.answered = None
        self._thread = threading.Thread(target=self._ask, args=(pairs,))
        self._thread.start()

    def _ask(self, pairs):
        self.answered = self.gatherer.gather(pairs)

    def result(self):
        self._thread.join(120)
        return self.answered


def answer_next(page, choice="left"):
    """Waits for a pair and answers it; returns the state before."""
    pause = threading.Event()
    for _ in range(6000):
        state = page.state()
        if state["next"]:
            assert page.answer(state["done"], choice)[0] == 200
            return state
        pause.wait(0.01)
    raise AssertionError("no pair")


def test_a_training_waits_for_the_answers_on_the_page(tmp_path):
    pairs = pairs_of_training(3)
    labels = opened(tmp_path)
    with LabellingServer(labels, port=0) as server, queue_growing(labels, print, every_s=0.01):
        page = PageClient(server.link(server.store.annotator("Ada")))
        assert page.state()["grows"]
        training = Training(tmp_path, pairs)
        for choice in ("left", "tie", "skip"):
            answer_next(page, choice)
        answered = training.result()
        tasks = labels.presented(1)
    by_digest = {pair_digest(*pair): place for place, pair in enumerate(pairs)}
    places = [by_digest[task.pair.digest] for task in tasks]
    expected = np.full(3, np.nan)
    expected[places] = [0.0 if tasks[0].swapped else 1.0, 0.5, np.nan]
    np.testing.assert_array_equal(answered.preferences, expected.astype(np.float32))


def test_without_waiting_the_training_goes_on_with_what_is_answered(tmp_path):
    labels = opened(tmp_path)
    with LabellingServer(labels, port=0) as server, queue_growing(labels, print, every_s=0.01):
        page = PageClient(server.link(server.store.annotator("Ada")))
        training = Training(tmp_path, pairs_of_training(4), wait=False)
        answer_next(page)
        assert len(training.result().pairs) == 1
        for _ in range(3):
            answer_next(page)
        later = training.gatherer.gather(pairs_of_training(2, seed=1))
    assert len(later.pairs) == 3


def test_undo_reaches_the_training(tmp_path):
    labels = opened(tmp_path)
    training = Training(tmp_path, pairs_of_training(2))
    with LabellingServer(labels, port=0) as server, queue_growing(labels, print, every_s=0.01):
        page = PageClient(server.link(server.store.annotator("Ada")))
        answer_next(page, "skip")
        assert page.post("undo", {"position": 0})[0] == 200
        assert read_answers(tmp_path / "answers.jsonl") == {}
        answer_next(page, "tie")
        answer_next(page, "tie")
    assert training.result().preferences.tolist() == [0.5, 0.5]


def test_a_page_that_was_closed_goes_on_and_passes_on_what_the_training_missed(tmp_path):
    QueueGatherer(tmp_path, wait=False)._ask(pairs_of_training(25))
    labels = opened(tmp_path)
    while labels.grow():
        pass
    assert [len(chunk) for chunk in labels.header.chunks] == [10, 10, 5]
    before = labels.presented(1)
    assert [task.purpose for task in before].count("repeat") == 2
    with LabellingServer(labels, port=0) as server:
        page = PageClient(server.link(server.store.annotator("Ada")))
        for position in range(3):
            assert page.answer(position)[0] == 200
    (tmp_path / "answers.jsonl").unlink()
    again = opened(tmp_path)
    assert not again.grow()
    assert again.presented(1) == before
    with LabellingServer(again, port=0) as server:
        page = PageClient(server.link(server.store.annotator("Ada")))
        assert page.state()["done"] == 3
    new = [task.pair.digest for task in before[:3] if task.purpose == "new"]
    assert set(read_answers(tmp_path / "answers.jsonl")) == set(new)


def test_pairs_that_cannot_be_shown_do_not_block_the_training(tmp_path, monkeypatch):
    pairs = pairs_of_training(2)

    def write(frames, path, fps):
        if path.stem == "0":
            raise InputError("the frames need more bytes")
        path.write_bytes(b"x")

    monkeypatch.setattr(queue, "write_clip", write)
    training = Training(tmp_path, [*pairs, (pairs[0][0], pairs[0][0])])
    labels = opened(tmp_path)
    for _ in range(500):
        if labels.grow():
            break
        threading.Event().wait(0.01)
    assert labels.presented(1) == []  # both pairs would begin with the clip that does not fit
    assert np.isnan(training.result().preferences).all()


def test_pictures_that_do_not_fit_become_traces(tmp_path, monkeypatch):
    monkeypatch.setattr(queue, "write_clip", clips.write_clip)
    monkeypatch.setattr(clips, "MOST_BYTES", 6000)
    rng = np.random.default_rng(0)
    noise = [
        TrajectoryWithRew(
            rng.integers(0, 256, (6, 64, 64, 3), dtype=np.uint8), np.zeros((5, 1)), None, False,
            np.zeros(5),
        )
        for _ in range(2)
    ]  # fmt: skip
    QueueGatherer(tmp_path, wait=False)._ask([tuple(noise)])
    labels = opened(tmp_path)
    assert labels.grow()
    assert len(labels.presented(1)) == 1


def test_both_traces_of_a_pair_have_the_same_axes(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(queue, "write_clip", lambda frames, *_: drawn.append(np.stack(frames)))
    small = np.linspace(-1, 1, 9)[:, None] * [1.0, 0.5, 2.0]
    pair = [
        TrajectoryWithRew(factor * small, np.zeros((8, 1)), None, False, np.zeros(8))
        for factor in (1.0, 10.0)
    ]
    QueueGatherer(tmp_path, wait=False)._ask([tuple(pair)])
    assert opened(tmp_path).grow()
    scale = clips.TraceScale(pair)
    for frames, fragment in zip(drawn, pair, strict=True):
        np.testing.assert_array_equal(frames, clips.draw_trace(fragment, scale))
    assert (drawn[0] != drawn[1]).any()


def test_pairs_of_another_environment_than_the_named_one_are_traces(tmp_path):
    steps = np.linspace(-1, 1, 9)[:, None] * [1.0, 0.5]
    pair = [
        TrajectoryWithRew(factor * steps, np.zeros((8, 1)), None, False, np.zeros(8))
        for factor in (1.0, 2.0)
    ]
    QueueGatherer(tmp_path, wait=False)._ask([tuple(pair)])
    spec = find_environment_if_named("Pendulum-v1", None)
    with pytest.raises(InputError, match=r"--env Pendulum-v1: .* shape \(3,\), .* draw \(2,\)"):
        FragmentPainter(spec).frames(pair[0])
    labels = opened(tmp_path, spec)
    assert labels.grow()
    assert len(labels.presented(1)) == 1


def test_a_damaged_state_is_told(tmp_path):
    opened(tmp_path)
    (tmp_path / "label.json").write_text(json.dumps({"version": 2}))
    with pytest.raises(InputError, match="not the state of a queue"):
        opened(tmp_path)


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [("Pendulum-v1", 3.0), ("seals/CartPole-v0", 0.0), ("MountainCarContinuous-v0", 0.0)],
)
def test_a_stored_observation_is_drawn_as_the_environment_draws_it(name, tolerance):
    spec = find_environment_if_named(name, None)
    painter = FragmentPainter(spec)
    assert painter.rendered
    env = gym.make(name, render_mode="rgb_array")
    observations, frames = [env.reset(seed=3)[0]], [clips.shrink(env.render())]
    env.action_space.seed(0)
    for _ in range(4):
        observations.append(env.step(env.action_space.sample())[0])
        frames.append(clips.shrink(env.render()))
    fragment = TrajectoryWithRew(np.stack(observations), np.zeros((4, 1)), None, False, np.zeros(4))
    for drawn, true in zip(painter.frames(fragment), frames, strict=True):
        # Pendulum's own pictures also have an arrow for the torque.
        assert np.abs(drawn.astype(float) - true).mean() <= tolerance
    painter.close()
    env.close()


def test_a_queue_can_be_exported_as_a_set(tmp_path):
    pairs, folder = pairs_of_training(3), tmp_path / "queue"
    folder.mkdir()
    with pytest.raises(InputError, match="nobody has opened this queue yet; imitbench label"):
        QueueSet(folder)
    labels = opened(folder, find_environment_if_named("Pendulum-v1", None))
    with pytest.raises(InputError, match="has not asked about any pair yet"):
        QueueSet(folder)
    with LabellingServer(labels, port=0) as server:
        QueueGatherer(folder, wait=False, timeout_s=20)._ask(pairs)
        assert labels.grow()
        page = PageClient(server.link(server.store.annotator("Ada")))
        for position, choice in enumerate(("left", "tie", "skip")):
            assert page.answer(position, choice)[0] == 200
        tasks = labels.presented(1)
    queue = QueueSet(folder)
    assert (queue.shown_to_each, queue.header.env) == (3, "Pendulum-v1")
    store = AnswerStore(queue.answers_path, queue.set_id)
    rows = {row.pair: row for row in preference_rows(queue, store)}
    store.close()
    by_digest = {pair_digest(*pair): pair for pair in pairs}
    for task, said in zip(tasks, (0.0 if tasks[0].swapped else 1.0, 0.5, None), strict=True):
        row = rows[task.pair.digest]
        assert row.preference == said
        for found, asked in zip((row.first, row.second), by_digest[row.pair], strict=True):
            np.testing.assert_array_equal(found.obs, asked.obs)
    next(folder.glob("pairs-*.safetensors")).unlink()
    with pytest.raises(InputError, match=r"a file of pairs of the training is missing"):
        _ = QueueSet(folder).fragments
