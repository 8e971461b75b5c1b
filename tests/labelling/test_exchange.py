"""Answers leave a set and come back; preferences are read as they were written."""

import json
import shutil

import numpy as np
import pytest
from support.labelling import write_small_set

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.human_gatherer import Answer, AnswerFile
from imitbench.data.preference_table import read_preferences
from imitbench.errors import InputError
from imitbench.labelling.agreement import agreement
from imitbench.labelling.answers import AnswerStore, GivenAnswer
from imitbench.labelling.exchange import (
    CARD_FILE,
    DATA_FILE,
    export,
    import_answers,
    merge,
    preference_rows,
    summaries,
)
from imitbench.labelling.label_set import LabelSet
from imitbench.labelling.schedule import schedule


@pytest.fixture
def labels(tmp_path):
    return LabelSet(write_small_set(tmp_path / "set", pairs=20, obvious=1))


@pytest.fixture
def store(labels):
    opened = AnswerStore(labels.answers_path, labels.set_id)
    yield opened
    opened.close()


def prefer_later(task):
    """Prefers the fragment with the larger number, which has the larger return."""
    return "left" if task.sides[0] > task.sides[1] else "right"


def give(labels, store, name, count, choose=prefer_later):
    person = store.annotator(name)
    for task in schedule(labels.header, person.stream)[:count]:
        store.record(
            GivenAnswer(
                f"{person.token[:8]}-{task.position}", person.number, task.position,
                task.pair.digest, task.purpose, task.swapped, choose(task), 1500, 1.0,
            )
        )  # fmt: skip
    return person


def test_the_sequence_has_every_pair_repeats_and_obvious_ones(labels):
    for stream in range(1, 6):
        tasks = schedule(labels.header, stream)
        purposes = [task.purpose for task in tasks]
        assert {purpose: purposes.count(purpose) for purpose in set(purposes)} == {
            "new": 20, "repeat": 2, "obvious": 1,
        }  # fmt: skip
        places = {task.pair.digest: task for task in tasks if task.purpose == "new"}
        for task in tasks:
            if task.purpose == "repeat":
                earlier = places[task.pair.digest]
                assert task.position >= earlier.position + 5
                assert task.swapped != earlier.swapped
        assert tasks == schedule(labels.header, stream)
    assert schedule(labels.header, 1) != schedule(labels.header, 2)


def test_rows_combine_annotators_and_leave_skips_out(labels, store):
    give(labels, store, "Ada", 23)
    give(labels, store, "Bob", 23, lambda _: "tie")
    give(labels, store, "Cy", 23, lambda _: "skip")
    rows = preference_rows(labels, store)
    assert len(rows) == 21
    assert {row.preference for row in rows} == {0.25, 0.75}
    assert {row.weight for row in rows} == {2.0}
    assert {answer.annotator for answer in rows[0].answers} == {
        "annotator-1", "annotator-2", "annotator-3",
    }  # fmt: skip


def test_weights_by_obvious_pairs_count_a_careless_annotator_less(labels, store):
    give(labels, store, "Ada", 23)
    give(labels, store, "Bob", 23, lambda task: "right" if prefer_later(task)
         == "left" else "left")  # fmt: skip
    rows = preference_rows(labels, store, weights="obvious")
    right = [row.preference if row.pair and row.first.rews[0] > row.second.rews[0]
             else 1 - row.preference for row in rows]  # fmt: skip
    assert min(right) > 0.5
    (_, ada), (_, bob) = summaries(labels, store)
    assert (ada.sane, bob.sane, ada.repeats, ada.consistent) == (1, 0, 2, 2)


def test_an_exported_folder_is_read_again_without_names(labels, store, tmp_path):
    give(labels, store, "Ada Lovelace", 23)
    export(labels, store, tmp_path / "out")
    rows = read_preferences(tmp_path / "out" / DATA_FILE)
    written = preference_rows(labels, store)
    for row, own in zip(rows, written, strict=True):
        np.testing.assert_array_equal(row.first.obs, own.first.obs)
        np.testing.assert_array_equal(row.second.acts, own.second.acts)
        np.testing.assert_array_equal(row.first.rews, own.first.rews)
        assert (row.pair, row.preference, row.answers) == (own.pair, own.preference, own.answers)
    card = (tmp_path / "out" / CARD_FILE).read_text()
    assert "Lovelace" not in card + repr(rows)
    assert labels.set_id in card
    export(labels, store, tmp_path / "named", names=True)
    named = read_preferences(tmp_path / "named" / DATA_FILE)
    assert {answer.annotator for row in named for answer in row.answers} == {"Ada Lovelace"}


def test_the_same_answers_give_the_same_bytes(labels, store, tmp_path):
    give(labels, store, "Ada", 10)
    for name in ("one", "two"):
        export(labels, store, tmp_path / name)
    assert (tmp_path / "one" / DATA_FILE).read_bytes() == (
        tmp_path / "two" / DATA_FILE
    ).read_bytes()


def test_an_exported_training_set_is_a_preference_dataset(labels, store, tmp_path):
    give(labels, store, "Ada", 23, lambda task: "skip" if task.position % 2 else "tie")
    export(labels, store, tmp_path / "training.safetensors")
    dataset = PreferenceDataset.load(tmp_path / "training.safetensors")
    known = [row for row in preference_rows(labels, store) if row.preference is not None]
    assert 0 < len(dataset) == len(known) < 21
    assert set(dataset.preferences.tolist()) == {0.5}


def test_exports_are_imported_once(labels, store, tmp_path):
    give(labels, store, "Ada", 23)
    export(labels, store, tmp_path / "out")
    export(labels, store, tmp_path / "out.jsonl")
    again = LabelSet(shutil.copytree(labels.folder, tmp_path / "again"))
    for path in again.folder.glob("answers.sqlite*"):
        path.unlink()
    fresh = AnswerStore(again.answers_path, again.set_id)
    assert import_answers(again, fresh, tmp_path / "out", "x") == 23
    assert import_answers(again, fresh, tmp_path / "out", "x") == 0
    expected = [(row.pair, row.preference) for row in preference_rows(labels, store)]
    assert [(row.pair, row.preference) for row in preference_rows(again, fresh)] == expected
    assert fresh.answered(fresh.annotator("annotator-1").number) == 0  # places stay free
    fresh.close()


@pytest.mark.parametrize("name", ["out", "out.jsonl"])
def test_an_export_adds_nothing_to_its_own_set(labels, store, tmp_path, name):
    give(labels, store, "Ada", 23)
    give(labels, store, "Bob", 9, lambda _: "skip")
    export(labels, store, tmp_path / name, names=True)
    before = summaries(labels, store)
    assert import_answers(labels, store, tmp_path / name, "x") == 0
    assert summaries(labels, store) == before


def test_lines_about_obvious_pairs_measure_attention(labels, store, tmp_path):
    give(labels, store, "Ada", 23)
    give(labels, store, "Bob", 23)
    export(labels, store, tmp_path / "out.jsonl")
    again = LabelSet(write_small_set(tmp_path / "again", pairs=20, obvious=1))
    fresh = AnswerStore(again.answers_path, again.set_id)
    assert import_answers(again, fresh, tmp_path / "out.jsonl", "x") == 42
    assert [(found.answers, found.obvious, found.sane) for _, found in summaries(again, fresh)] == [
        (21, 1, 1), (21, 1, 1),
    ]  # fmt: skip
    assert agreement(fresh.answers()).units == 20
    assert import_answers(again, fresh, tmp_path / "out.jsonl", "x") == 0
    fresh.close()


def test_answers_at_the_terminal_are_imported(labels, store, tmp_path):
    lines = AnswerFile(tmp_path / "answers.jsonl")
    first, second = labels.header.pairs[:2]
    lines.record(first.digest, Answer(choice="left", swapped=True))
    lines.record(second.digest, Answer(choice="skip", swapped=False))
    assert import_answers(labels, store, tmp_path / "answers.jsonl", "Ada") == 2
    rows = {row.pair: row.preference for row in preference_rows(labels, store)}
    assert rows == {first.digest: 0.0, second.digest: None}


def test_answers_of_another_set_are_refused(labels, store, tmp_path):
    other = LabelSet(write_small_set(tmp_path / "other", pairs=20, seed=9))
    theirs = AnswerStore(other.answers_path, other.set_id)
    give(other, theirs, "Bob", 5)
    export(other, theirs, tmp_path / "out")
    theirs.close()
    for source in (tmp_path / "out", other.answers_path):
        with pytest.raises(InputError, match=r"answers to (another|this) set"):
            import_answers(labels, store, source, "x")
    assert store.answers() == []


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", json.dumps({"pair": "ab"}), '{"pair": "a", "preference": 0.3}']
)
def test_a_line_that_is_no_answer_is_told(labels, store, tmp_path, line):
    (tmp_path / "bad.jsonl").write_text(f"{line}\n")
    with pytest.raises(InputError, match=r"bad.jsonl, line 1: not an answer"):
        import_answers(labels, store, tmp_path / "bad.jsonl", "x")


def test_copies_are_merged_once_and_people_of_one_name_stay_apart(labels, store, tmp_path):
    ada = give(labels, store, "Ada", 5)
    copy = LabelSet(shutil.copytree(labels.folder, tmp_path / "copy"))
    elsewhere = AnswerStore(copy.answers_path, copy.set_id)
    assert elsewhere.annotator("Ada").token == ada.token
    for task in schedule(copy.header, ada.stream)[5:8]:
        elsewhere.record(
            GivenAnswer(f"later-{task.position}", ada.number, task.position, task.pair.digest,
                        task.purpose, task.swapped, "tie", 1, 2.0)
        )  # fmt: skip
    give(copy, elsewhere, "Bob", 4)
    elsewhere.close()
    give(labels, store, "bob", 2)
    assert merge(labels, store, copy.folder) == 3 + 4
    assert merge(labels, store, copy.folder) == 0
    assert [person.name for person in store.annotators()] == ["Ada", "bob", "Bob (2)"]
    assert store.answered(ada.number) == 8
    with pytest.raises(InputError, match="answers of this set already"):
        merge(labels, store, labels.folder)


def test_merged_people_of_one_long_name_can_be_read_again(labels, store, tmp_path):
    name = "Ada " * 19 + "Adam"  # as long as names may be
    give(labels, store, name, 2)
    copy = LabelSet(write_small_set(tmp_path / "copy", pairs=20, obvious=1))
    for count in range(2):
        copy.answers_path.unlink(missing_ok=True)
        elsewhere = AnswerStore(copy.answers_path, copy.set_id)
        give(copy, elsewhere, name, 3)
        elsewhere.close()
        assert merge(labels, store, copy.folder) == 3, count
    again = AnswerStore(labels.answers_path, labels.set_id)
    names = [person.name for person in again.annotators()]
    assert names == [name, "Ada " * 19 + "(2)", "Ada " * 19 + "(3)"]
    again.close()


def test_a_set_without_answers_has_nothing_to_export(labels, store, tmp_path):
    with pytest.raises(InputError, match="has no answers yet"):
        export(labels, store, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda d: d.update(pairs=[]), "a set without pairs"),
        (lambda d: d["pairs"][0].update(first=99), "no two fragments"),
        (lambda d: d.update(surprise=1), "not a set to label"),
        (lambda d: d["pairs"].append(d["pairs"][0]), "there twice"),
    ],
)
def test_a_damaged_set_is_told_in_one_line(labels, change, told):
    path = labels.folder / "set.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=told) as error:
        LabelSet(labels.folder)
    assert "\n" not in str(error.value)


def test_clips_and_fragments_of_another_set_are_told(labels, tmp_path):
    labels.clip_path(0).write_bytes(b"no film")
    with pytest.raises(InputError, match="not a clip that browsers can show"):
        labels.check_clips()
    other = write_small_set(tmp_path / "other", pairs=20, obvious=1, seed=3)
    shutil.copy(other / "fragments.parquet", labels.folder)
    with pytest.raises(InputError, match="are not those of"):
        _ = LabelSet(labels.folder).fragments


def test_weights_and_skips_reach_the_training_of_a_reward(labels, store, tmp_path):
    careful, careless = store.annotator("Ada"), store.annotator("Bob")
    for person, wrong in ((careful, False), (careless, True)):
        for task in schedule(labels.header, person.stream):
            pair = task.pair
            better = (
                labels.fragments[pair.first].rews.sum() > labels.fragments[pair.second].rews.sum()
            )
            left = (better != task.swapped) != wrong
            skip = task.pair is labels.header.pairs[0]
            choice = "skip" if skip else "left" if left else "right"
            given = GivenAnswer(
                f"key-{person.number}-{task.position:04d}", person.number, task.position,
                pair.digest, task.purpose, task.swapped, choice, 1000, 0.0,
            )  # fmt: skip
            store.record(given)
    export(labels, store, tmp_path / "out.safetensors", weights="obvious")
    dataset = PreferenceDataset.load(tmp_path / "out.safetensors")
    people = dict(summaries(labels, store))
    own = [people[person].weight() for person in (careful, careless)]
    assert own[0] > own[1]
    assert len(dataset) == len(labels.header.pairs) - 1
    np.testing.assert_allclose(dataset.weights, sum(own), rtol=1e-6)
    right = [
        first.rews.sum() > second.rews.sum()
        for first, second in zip(dataset.fragments1, dataset.fragments2, strict=True)
    ]
    expected = np.where(right, own[0], own[1]) / sum(own)
    np.testing.assert_allclose(dataset.preferences, expected, rtol=1e-6)
