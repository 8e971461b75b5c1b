"""Pairs that go out through a folder, and answers that come back."""

import json

import numpy as np
import pytest
from support.preference_pairs import pairs_of

from imitbench.algorithms.preference_comparisons import dataset_storage
from imitbench.algorithms.preference_comparisons.answer_queue import (
    QueueAnswer,
    QueueGatherer,
    RecordedGatherer,
    answered_pairs,
    append_answer,
    read_answers,
)
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.dataset_storage import pair_digest
from imitbench.errors import InputError


@pytest.fixture
def pairs():
    return pairs_of(np.random.default_rng(0), [3, 3, 4])


def answer(folder, pair, preference, **more):
    line = {"pair": pair_digest(*pair), "preference": preference, **more}
    with (folder / "answers.jsonl").open("a") as stream:
        stream.write(json.dumps(line) + "\n")


def queue(folder, **given):
    return QueueGatherer(folder, poll_s=0.01, timeout_s=0.05, **given)


def test_pairs_are_written_and_answers_awaited(tmp_path, pairs):
    folder = tmp_path / "queue"
    with pytest.raises(InputError, match=r"3 pairs had no answer for 0.05 s; answer them"):
        queue(folder).gather(pairs)
    (written,) = folder.iterdir()
    content = dataset_storage.unpack(dataset_storage.read_file(written))
    assert np.isnan(content.preferences).all()
    asked = list(zip(content.fragments1, content.fragments2, strict=True))
    assert [pair_digest(*each) for each in asked] == [pair_digest(*each) for each in pairs]
    answer(folder, pairs[1], 0.25, annotator="ada", weight=2.0)
    answer(folder, pairs[0], 1.0)
    answer(folder, pairs[2], None)
    answered = queue(folder).gather(pairs)
    assert answered.pairs == pairs
    np.testing.assert_equal(answered.preferences, np.array([1, 0.25, np.nan], np.float32))
    assert answered.weights.tolist() == [1, 2, 1]
    assert [path.name for path in folder.glob("pairs-*")] == [written.name]


def test_annotators_are_averaged_by_weight_and_the_last_answer_of_each_counts(tmp_path, pairs):
    answer(tmp_path, pairs[0], 0.0, annotator="ada", weight=3.0)
    answer(tmp_path, pairs[0], 1.0, annotator="ada", weight=3.0)
    answer(tmp_path, pairs[0], 0.0, annotator="bob")
    answer(tmp_path, pairs[0], None, annotator="cyn")
    answered = queue(tmp_path).gather(pairs[:1])
    assert answered.preferences.tolist() == [0.75]
    assert answered.weights.tolist() == [4.0]


def test_without_waiting_later_answers_come_with_later_pairs(tmp_path, pairs):
    gatherer = queue(tmp_path, wait=False)
    with pytest.raises(InputError, match="1 pairs had no answer"):
        gatherer.gather(pairs[:2])
    answer(tmp_path, pairs[1], 1.0)
    assert gatherer.gather(pairs[:2]).pairs == [pairs[1]]
    answer(tmp_path, pairs[0], 0.0)
    again = queue(tmp_path, wait=False)
    again.load_state_dict(gatherer.state_dict())
    later = again.gather(pairs[2:])
    assert [pair_digest(*each) for each in later.pairs] == [pair_digest(*pairs[0])]
    assert later.preferences.tolist() == [0.0]
    assert len(again.gather([]).pairs) == 0


def test_a_call_waits_for_all_answers(tmp_path, pairs):
    for each, preference in zip(pairs, (0.0, 1.0, 0.5), strict=True):
        answer(tmp_path, each, preference)
    assert queue(tmp_path)([*pairs, pairs[1]]).tolist() == [0.0, 1.0, 0.5, 1.0]


def test_a_line_that_is_being_written_is_not_read(tmp_path, pairs):
    answer(tmp_path, pairs[0], 1.0)
    with (tmp_path / "answers.jsonl").open("a") as stream:
        stream.write('{"pair": "ab')
    assert len(read_answers(tmp_path / "answers.jsonl")) == 1


@pytest.mark.parametrize(
    "wrong",
    ["[]", "nonsense", '{"pair": "ab", "preference": 1.0}', '{"pair": "%s", "preference": 1.1}',
     '{"pair": "%s"}', '{"pair": "%s", "preference": 1.0, "weight": 0}',
     '{"pair": "%s", "preference": 1.0, "extra": 1}'],
)  # fmt: skip
def test_a_wrong_line_is_named(tmp_path, wrong):
    path = tmp_path / "answers.jsonl"
    path.write_text(f"\n{wrong.replace('%s', 64 * 'a')}\n")
    with pytest.raises(InputError, match=r"answers.jsonl, line 2: not an answer .*; correct"):
        read_answers(path)


def test_answers_become_a_data_set_that_repeats_them(tmp_path, pairs):
    with pytest.raises(InputError, match="no pair has an answer yet"):
        answered_pairs(tmp_path)
    with pytest.raises(InputError, match="had no answer"):
        queue(tmp_path).gather(pairs)
    answer(tmp_path, pairs[2], 0.5, weight=3.0)
    answer(tmp_path, pairs[0], 1.0)
    answer(tmp_path, pairs[1], None)
    dataset = answered_pairs(tmp_path)
    assert dataset.preferences.tolist() == [1.0, 0.5]
    assert dataset.weights.tolist() == [1.0, 3.0]
    dataset.save(tmp_path / "set")
    loaded = PreferenceDataset.load(tmp_path / "set")
    assert loaded.weights.tolist() == [1.0, 3.0]
    np.testing.assert_equal(RecordedGatherer(loaded)(pairs), np.array([1, np.nan, 0.5], np.float32))


def test_recorded_comparisons_come_in_order_whatever_was_asked(pairs, dataset):
    gatherer = RecordedGatherer(dataset)
    first = gatherer.gather(pairs)
    assert first.preferences.tolist() == dataset.preferences[:3].tolist()
    assert first.pairs[2] == (dataset.fragments1[2], dataset.fragments2[2])
    again = RecordedGatherer(dataset)
    again.load_state_dict(gatherer.state_dict())
    rest = again.gather(pairs * 10)
    assert rest.preferences.tolist() == dataset.preferences[3:].tolist()
    assert len(again.gather(pairs).pairs) == 0


@pytest.mark.parametrize("wait", [True, False])
def test_equal_fragments_are_skipped_without_asking_anybody(tmp_path, pairs, wait):
    same = (pairs[0][0], pairs[0][0])
    answered = queue(tmp_path / "queue", wait=wait).gather([same])
    assert not (tmp_path / "queue").exists()
    assert np.isnan(answered.preferences).all()
    answer(tmp_path, pairs[1], 1.0)
    answered = queue(tmp_path, wait=wait).gather([same, pairs[1]])
    assert answered.preferences.tolist()[-1] == 1.0
    assert len(answered.pairs) == (2 if wait else 1)


def test_an_answer_can_be_withdrawn(tmp_path, pairs):
    answer(tmp_path, pairs[0], 1.0, annotator="ada")
    answer(tmp_path, pairs[0], None, annotator="ada", withdrawn=True)
    assert read_answers(tmp_path / "answers.jsonl") == {}
    answer(tmp_path, pairs[0], 0.0, annotator="ada")
    assert queue(tmp_path).gather(pairs[:1]).preferences.tolist() == [0.0]


def test_appending_removes_what_an_interrupted_write_left(tmp_path, pairs):
    path = tmp_path / "answers.jsonl"
    said = [QueueAnswer(pair=pair_digest(*pair), preference=0.5, annotator="ö") for pair in pairs]
    append_answer(path, said[0])
    with path.open("a") as stream:
        stream.write('{"pair": "12')
    append_answer(path, said[1])
    assert list(read_answers(path)) == [said[0].pair, said[1].pair]


def test_a_wait_can_be_ended(tmp_path, pairs):
    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        QueueGatherer(tmp_path, while_waiting=stop, poll_s=0.01).gather(pairs)
