import os
import pickle
import sys
import types as python_types
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import numpy as safetensors_numpy
from safetensors import safe_open
from torch.utils.data import DataLoader, Dataset, Subset

from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.data.types import DictObs, Trajectory, TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.util.state_file import load_state, save_state

FROM_REFERENCE = Path(__file__).with_name("reference_dataset.pkl")


def fragment(number, steps=3, obs_dtype=np.float32, infos=None):
    """A fragment that differs from those of other numbers; a new object each time."""
    obs = (np.arange(2 * (steps + 1)) + number).reshape(-1, 2).astype(obs_dtype)
    rews = np.full(steps, number, dtype=np.float32)
    return TrajectoryWithRew(obs, np.arange(steps), infos, number % 2 == 0, rews)


def keyed(number):
    obs = DictObs({"b/c": np.full((4, 2), number, np.uint8), "a": np.arange(4.0) * number})
    return TrajectoryWithRew(obs, np.ones((3, 1)), None, True, np.zeros(3))


def floats(*values):
    return np.array(values, dtype=np.float32)


def filled(*numbers, max_size=None, make=fragment):
    """Comparisons of fragments n and n + 1, with preferences 0, 0.25, 0.5, …"""
    dataset = PreferenceDataset(max_size)
    pairs = [(make(n), make(n + 1)) for n in numbers]
    dataset.push(pairs, np.linspace(0, 1, len(pairs), dtype=np.float32))
    return dataset


def assert_same(a, b):
    assert a.fragments1 == b.fragments1
    assert a.fragments2 == b.fragments2
    assert a.preferences.tolist() == b.preferences.tolist()
    assert a.preferences.dtype == b.preferences.dtype == np.float32
    assert a.max_size == b.max_size


class TestContent:
    def test_it_starts_empty(self):
        dataset = PreferenceDataset()
        assert len(dataset) == 0
        assert (dataset.fragments1, dataset.fragments2) == ([], [])
        assert dataset.preferences.shape == (0,)
        assert dataset.preferences.dtype == np.float32
        assert isinstance(dataset, Dataset)

    def test_entries_come_back(self):
        dataset = filled(0, 10, 20)
        assert len(dataset) == 3
        assert dataset[1] == ((fragment(10), fragment(11)), 0.5)
        assert dataset[-1] == ((fragment(20), fragment(21)), 1)
        (first, second), preferences = dataset[1:]
        assert first == [fragment(10), fragment(20)]
        assert second == [fragment(11), fragment(21)]
        assert preferences.tolist() == [0.5, 1]
        assert preferences.dtype == np.float32

    def test_it_can_be_iterated(self):
        assert [preference for _, preference in filled(0, 1, 2)] == [0, 0.5, 1]

    def test_torch_loads_batches_of_it(self):
        loader = DataLoader(Subset(filled(0, 10, 20), [2, 0]), batch_size=2, collate_fn=list)
        (batch,) = loader
        assert batch == [((fragment(20), fragment(21)), 1), ((fragment(0), fragment(1)), 0)]

    def test_pushing_nothing_changes_nothing(self):
        dataset = filled(0)
        dataset.push([], floats())
        assert len(dataset) == 1

    def test_infos_are_dropped(self):
        dataset = PreferenceDataset()
        infos = np.array([{"a": 1}] * 3)
        dataset.push([(fragment(0, infos=infos), fragment(1))], floats(1))
        assert dataset.fragments1[0].infos is None

    def test_later_changes_to_pushed_arrays_have_no_effect(self):
        mine = fragment(0)
        dataset = PreferenceDataset()
        dataset.push([(mine, fragment(1))], floats(1))
        mine.obs[:] = 99
        assert dataset.fragments1[0] == fragment(0)

    def test_a_fragment_does_not_keep_its_trajectory_in_memory(self):
        long = fragment(0, steps=1000)
        view = TrajectoryWithRew(long.obs[:4], long.acts[:3], None, False, long.rews[:3])
        dataset = PreferenceDataset()
        dataset.push([(view, view)], floats(1))
        held = dataset.fragments1[0]
        assert held.obs.base is held.acts.base is held.rews.base is None

    def test_pairs_without_an_answer_are_skipped(self):
        dataset = PreferenceDataset(max_size=2)
        pairs = [(fragment(n), fragment(n + 1)) for n in range(5)]
        dataset.push(pairs, floats(0, np.nan, 0.5, np.nan, np.nan))
        assert dataset.fragments1 == [fragment(0), fragment(2)]
        assert dataset.preferences.tolist() == [0, 0.5]


class TestDeduplication:
    def test_fragments_of_the_same_content_are_one_object(self):
        dataset = filled(0, 1)
        dataset.push([(fragment(1), fragment(0))], floats(1))
        assert dataset.fragments2[0] is dataset.fragments1[1] is dataset.fragments1[2]
        assert dataset.fragments1[0] is dataset.fragments2[2]

    @pytest.mark.parametrize(
        "change",
        [
            {"terminal": False},
            {"rews": np.zeros(3, dtype=np.float64)},
            {"acts": np.arange(3, dtype=np.int32)},
            {"obs": np.zeros((4, 1, 2), dtype=np.float32)},
            {"obs": -np.zeros((4, 2), dtype=np.float32)},
        ],
        ids=lambda change: next(iter(change)),
    )
    def test_any_difference_makes_another_fragment(self, change):
        fields = {
            "obs": np.zeros((4, 2), dtype=np.float32),
            "acts": np.arange(3),
            "infos": None,
            "terminal": True,
            "rews": np.zeros(3, dtype=np.float32),
        }
        dataset = PreferenceDataset()
        one, other = TrajectoryWithRew(**fields), TrajectoryWithRew(**{**fields, **change})
        dataset.push([(one, other)], floats(1))
        assert dataset.fragments1[0] is not dataset.fragments2[0]

    def test_the_memory_layout_makes_no_difference(self):
        usual = fragment(0)
        turned = TrajectoryWithRew(
            np.asfortranarray(usual.obs), usual.acts[::-1][::-1], None, True, usual.rews
        )
        dataset = PreferenceDataset()
        dataset.push([(usual, turned)], floats(1))
        assert dataset.fragments1[0] is dataset.fragments2[0]

    def test_each_fragment_is_written_once(self, tmp_path):
        dataset = PreferenceDataset()
        pairs = [(fragment(a), fragment(b)) for a in range(4) for b in range(4)]
        dataset.push(pairs, np.zeros(16, dtype=np.float32))
        dataset.save(tmp_path / "file")
        with safe_open(tmp_path / "file", framework="numpy") as file:
            assert file.get_tensor("0/acts").shape == (4 * 3,)
            assert file.get_tensor("pairs").shape == (16, 2)

    def test_a_loaded_dataset_still_deduplicates(self, tmp_path):
        filled(0).save(tmp_path / "file")
        dataset = PreferenceDataset.load(tmp_path / "file")
        dataset.push([(fragment(1), fragment(0))], floats(1))
        assert dataset.fragments1[1] is dataset.fragments2[0]

    def test_a_copy_in_another_process_still_deduplicates(self):
        dataset = pickle.loads(pickle.dumps(filled(0, 5, max_size=2)))
        dataset.push([(fragment(6), fragment(0))], floats(1))
        assert dataset.fragments1[1] is dataset.fragments2[0]
        assert dataset.fragments2[1] == fragment(0)


class TestEviction:
    def test_the_oldest_are_dropped_first(self):
        dataset = filled(0, 10, 20, max_size=4)
        dataset.push([(fragment(30), fragment(31)), (fragment(40), fragment(41))], floats(0.1, 0.2))
        assert dataset.fragments1 == [fragment(n) for n in (10, 20, 30, 40)]
        assert dataset.fragments2 == [fragment(n) for n in (11, 21, 31, 41)]
        assert dataset.preferences.tolist() == floats(0.5, 1, 0.1, 0.2).tolist()

    def test_of_more_than_max_size_the_last_are_kept(self):
        assert filled(*range(10), max_size=3).fragments1 == [fragment(n) for n in (7, 8, 9)]

    def test_dropped_fragments_are_freed(self):
        """Otherwise a bounded queue would grow without bound."""
        dataset = filled(0, 10, max_size=2)
        dataset.push([(fragment(10), fragment(20))], floats(1))
        held = {digest for pair in dataset._digests for digest in pair}
        assert set(dataset._interned) == held
        assert len(held) == 3

    @given(
        batches=st.lists(st.lists(st.integers(0, 5), max_size=4), max_size=6),
        max_size=st.one_of(st.none(), st.integers(1, 5)),
    )
    def test_it_behaves_as_a_queue(self, batches, max_size):
        dataset, expected = PreferenceDataset(max_size), []
        for batch in batches:
            pairs = [(fragment(n), fragment(n + 1)) for n in batch]
            dataset.push(pairs, np.full(len(batch), 0.5, dtype=np.float32))
            expected = [*expected, *batch][-max_size if max_size else 0 :]
        assert dataset.fragments1 == [fragment(n) for n in expected]
        assert dataset.fragments2 == [fragment(n + 1) for n in expected]
        assert len(dataset) == len(dataset.preferences) == len(expected)


class TestValidation:
    @pytest.mark.parametrize(
        ("preferences", "message"),
        [
            (np.zeros(3, dtype=np.float32), r"shape \(2,\), one for each pair, not \(3,\)"),
            (np.zeros((2, 1), dtype=np.float32), r"not \(2, 1\)"),
            ([0.0, 1.0], "not list"),
            (np.zeros(2), "float32, not float64"),
            (floats(0, 1.5), r"\[0, 1\], but that of pair 1 is 1.5"),
            (floats(-0.1, 1), "pair 0 is -0.1"),
            (floats(0, np.inf), "pair 1 is inf"),
        ],
    )
    def test_bad_preferences_are_reported(self, preferences, message):
        pairs = [(fragment(0), fragment(1)), (fragment(1), fragment(2))]
        with pytest.raises(ValueError, match=message):
            PreferenceDataset().push(pairs, preferences)

    @pytest.mark.parametrize(
        ("pair", "message"),
        [
            ((fragment(0), fragment(1, steps=4)), "pair 1 has fragments of 3 and 4 steps"),
            (
                (fragment(0), Trajectory(np.zeros(4), np.zeros(3), None, True)),
                "pair 1 is not a pair of TrajectoryWithRew",
            ),
            (
                (
                    fragment(0),
                    TrajectoryWithRew(
                        np.array(list("abcd")), *[np.zeros(3)] * 1, None, True, np.zeros(3)
                    ),
                ),
                "obs of a fragment has data type .*, not numbers",
            ),
        ],
        ids=["unequal lengths", "no rewards", "not numbers"],
    )
    def test_bad_fragments_are_reported_and_nothing_is_added(self, pair, message):
        dataset = filled(0, 10, max_size=2)
        with pytest.raises(ValueError, match=message):
            dataset.push([(fragment(20), fragment(21)), pair], floats(0, 1))
        assert_same(dataset, filled(0, 10, max_size=2))

    @pytest.mark.parametrize("max_size", [0, -1])
    def test_max_size_is_at_least_one(self, max_size):
        with pytest.raises(ValueError, match="max_size must be positive"):
            PreferenceDataset(max_size)


class TestFiles:
    @pytest.mark.parametrize("max_size", [None, 7])
    def test_loading_returns_what_was_saved(self, tmp_path, max_size):
        dataset = filled(0, 1, 10, 2, max_size=max_size)
        dataset.save(tmp_path / "file.any")
        assert_same(PreferenceDataset.load(tmp_path / "file.any"), dataset)

    def test_fragments_of_all_kinds_can_be_loaded(self, tmp_path):
        dataset = filled(1, 2, make=keyed)
        dataset.push([(fragment(0, 5), fragment(1, 5))], floats(1))
        dataset.push([(fragment(0, obs_dtype=np.uint8), fragment(1))], floats(0))
        dataset.save(str(tmp_path / "file"))
        loaded = PreferenceDataset.load(os.fsencode(tmp_path / "file"))
        assert_same(loaded, dataset)
        assert loaded.fragments1[0].obs.dtype == {"b/c": np.uint8, "a": np.float64}
        assert loaded.fragments1[3].obs.dtype == np.uint8

    def test_an_empty_dataset_can_be_loaded(self, tmp_path):
        PreferenceDataset(3).save(tmp_path / "file")
        assert_same(PreferenceDataset.load(tmp_path / "file"), PreferenceDataset(3))

    def test_saving_replaces_the_file(self, tmp_path):
        filled(0, 1, 2).save(tmp_path / "file")
        filled(5).save(tmp_path / "file")
        assert_same(PreferenceDataset.load(tmp_path / "file"), filled(5))
        assert [path.name for path in tmp_path.iterdir()] == ["file"]

    def test_a_missing_file_is_reported(self, tmp_path):
        with pytest.raises(InputError, match="missing: no such file"):
            PreferenceDataset.load(tmp_path / "missing")

    def test_every_truncated_file_is_refused(self, tmp_path):
        filled(0, 1).save(tmp_path / "whole")
        content = (tmp_path / "whole").read_bytes()
        for size in range(0, len(content), 7):
            (tmp_path / "part").write_bytes(content[:size])
            with pytest.raises(InputError, match="part: damaged") as caught:
                PreferenceDataset.load(tmp_path / "part")
            assert "\n" not in str(caught.value)

    @pytest.mark.parametrize(
        "content", [b"", b"hello", b"PK\x03\x04" + bytes(40), b"{}" * 20, bytes(100)]
    )
    def test_files_of_other_formats_are_refused(self, tmp_path, content):
        (tmp_path / "file").write_bytes(content)
        with pytest.raises(InputError, match="file: damaged, or not a preference dataset"):
            PreferenceDataset.load(tmp_path / "file")

    def test_other_safetensors_files_are_refused(self, tmp_path):
        (tmp_path / "file").write_bytes(safetensors_numpy.save({"weight": np.zeros(2)}))
        with pytest.raises(InputError, match="without a preference dataset"):
            PreferenceDataset.load(tmp_path / "file")

    @pytest.mark.parametrize(
        ("name", "value", "message"),
        [
            ("pairs", np.array([[0, 9], [1, 2]]), "beyond the 3 that are stored"),
            ("pairs", np.array([[0, -1], [1, 2]]), "beyond the 3 that are stored"),
            ("pairs", np.array([[0, 1]]), r"pairs have shape \(1, 2\) for 2 preferences"),
            ("pairs", np.zeros((2, 2)), "'pairs' has unexpected data type float64"),
            ("preferences", floats(0, 2), r"must lie in \[0, 1\]"),
            ("preferences", np.zeros(2), "float64, not float32"),
            ("0/lengths", np.array([3, 3, 4]), r"0/acts has shape \(9,\); .* need 10 rows"),
            ("0/lengths", np.array([3, 6, 0]), "not valid for fragments"),
            ("0/lengths", np.array([2**62, 2**62, 9]), "need 9223372036854775817 rows"),
            ("0/lengths", np.array([2, 4, 3]), "fragments of 2 and 4 steps"),
            ("0/terminal", np.ones(4, dtype=bool), "not valid for fragments"),
            ("0/terminal", np.ones(3), "'0/terminal' has unexpected data type float64"),
            ("0/obs", np.zeros((9, 2)), "0/obs has shape"),
            ("0/rews", np.zeros(9, dtype=int), "rewards have data type int64"),
            ("0/rews", None, "array '0/rews' is missing"),
            ("preferences", None, "array 'preferences' is missing"),
        ],
    )
    def test_arrays_that_do_not_fit_are_reported(self, tmp_path, name, value, message):
        filled(0, 1).save(tmp_path / "file")
        with safe_open(tmp_path / "file", framework="numpy") as file:
            metadata = file.metadata()
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        arrays[name] = value
        arrays = {key: array for key, array in arrays.items() if array is not None}
        (tmp_path / "file").write_bytes(safetensors_numpy.save(arrays, metadata))
        with pytest.raises(InputError, match=message):
            PreferenceDataset.load(tmp_path / "file")

    @pytest.mark.parametrize(
        ("header", "message"),
        [
            ("not json", "header: invalid JSON"),
            ('{"version": 2, "max_size": null, "groups": []}', "version: input should be 1"),
            ('{"version": 1, "max_size": 0, "groups": []}', "max_size"),
            ('{"version": 1, "max_size": 1, "groups": [{"obs_keys": null}]}', "more than max_size"),
            ('{"version": 1, "max_size": null}', "groups: field required"),
            ('{"version": 1, "max_size": null, "groups": [{"obs_keys": []}]}', "obs_keys"),
            ('{"version": 1, "max_size": null, "groups": [], "x": 1}', "x: extra inputs"),
        ],
    )
    def test_bad_headers_are_reported(self, tmp_path, header, message):
        filled(0, 1).save(tmp_path / "file")
        arrays = safetensors_numpy.load((tmp_path / "file").read_bytes())
        metadata = {"preference_dataset": header}
        (tmp_path / "file").write_bytes(safetensors_numpy.save(arrays, metadata))
        with pytest.raises(InputError, match=message):
            PreferenceDataset.load(tmp_path / "file")


def test_the_state_restores_everything(tmp_path):
    dataset = filled(0, 1, 2, max_size=3)
    save_state(tmp_path / "state", dataset.state_dict())
    restored = filled(7)
    restored.load_state_dict(load_state(tmp_path / "state"))
    assert_same(restored, dataset)
    for each in (dataset, restored):
        each.push([(fragment(5), fragment(1))], floats(0.5))
    assert_same(restored, dataset)


def test_later_pushes_do_not_change_a_state():
    dataset = filled(0, 1, 2, max_size=3)
    state = dataset.state_dict()
    dataset.push([(fragment(5), fragment(1))], floats(0.5))
    restored = PreferenceDataset()
    restored.load_state_dict(state)
    assert_same(restored, filled(0, 1, 2, max_size=3))


class Canary:
    """Leaves a file behind when a pickle of it is opened."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.fixture
def reference_pickle(monkeypatch, tmp_path):
    """Writes a pickle as the reference library does, by classes of the same names."""
    modules = {
        "imitation.algorithms.preference_comparisons": ["PreferenceDataset"],
        "imitation.data.types": ["TrajectoryWithRew", "DictObs"],
    }
    classes = {}
    for module, names in modules.items():
        made = python_types.ModuleType(module)
        for name in names:
            classes[name] = type(name, (), {"__module__": module})
            setattr(made, name, classes[name])
        parts = module.split(".")
        for end in range(1, len(parts)):
            parent = ".".join(parts[:end])
            monkeypatch.setitem(sys.modules, parent, python_types.ModuleType(parent))
        monkeypatch.setitem(sys.modules, module, made)

    def as_reference(each):
        copy = classes["TrajectoryWithRew"]()
        copy.__dict__.update(vars(each))
        if isinstance(each.obs, DictObs):
            copy.obs = classes["DictObs"]()
            copy.obs._d = each.obs.unwrap()
        return copy

    def write(dataset, protocol=4, **changes):
        copy = classes["PreferenceDataset"]()
        copy.fragments1 = [as_reference(each) for each in dataset.fragments1]
        copy.fragments2 = [as_reference(each) for each in dataset.fragments2]
        copy.preferences = dataset.preferences.astype(np.float64)
        copy.max_size = dataset.max_size
        copy.__dict__.update(changes)
        path = tmp_path / "reference.pkl"
        path.write_bytes(pickle.dumps(copy, protocol=protocol))
        return path

    return write


class TestPickles:
    @pytest.mark.parametrize("make", [fragment, keyed])
    @pytest.mark.parametrize("protocol", [4, 5])
    def test_a_pickle_in_the_reference_format_is_read_with_trust(
        self, reference_pickle, make, protocol
    ):
        dataset = filled(0, 1, 4, max_size=9, make=make)
        loaded = PreferenceDataset.load(reference_pickle(dataset, protocol), trust=True)
        assert_same(loaded, dataset)
        assert loaded.fragments2[0] is loaded.fragments1[1]

    def test_a_pickle_written_by_the_reference_is_read_with_trust(self, tmp_path):
        dataset = PreferenceDataset.load(FROM_REFERENCE, trust=True)
        assert dataset.max_size == 5
        assert dataset.preferences.tolist() == [0, 1, 0.5]
        assert dataset.fragments2[0] is dataset.fragments1[1]
        second = dataset.fragments1[1]
        assert second.obs.tolist() == [[1, 2], [3, 4], [5, 6], [7, 8]]
        assert second.acts.tolist() == [0, 1, 1]
        assert second.rews.tolist() == [1, 1, 0.5]
        assert second.terminal is True
        assert dataset.fragments2[2].obs.get("y").tolist() == [0, 1, 2, 3]
        dataset.save(tmp_path / "safe")
        assert_same(PreferenceDataset.load(tmp_path / "safe"), dataset)

    @pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
    def test_without_trust_no_pickle_is_opened(self, reference_pickle, tmp_path, protocol):
        canary = tmp_path / "canary"
        path = reference_pickle(filled(0), protocol, max_size=Canary(canary))
        with pytest.raises(InputError, match="pass trust=True"):
            PreferenceDataset.load(path)
        assert not canary.exists()
        pickle.loads(path.read_bytes())
        assert canary.exists(), "the canary would have sung"

    def test_with_trust_no_function_is_called(self, reference_pickle, tmp_path):
        canary = tmp_path / "canary"
        path = reference_pickle(filled(0), extra=[Canary(canary), {1: Canary(canary)}])
        assert_same(PreferenceDataset.load(path, trust=True), filled(0))
        assert not canary.exists()

    def test_with_trust_safetensors_files_are_read_too(self, tmp_path):
        filled(0, 1).save(tmp_path / "file")
        assert_same(PreferenceDataset.load(tmp_path / "file", trust=True), filled(0, 1))

    def test_a_safetensors_file_that_starts_like_a_pickle_is_read(self, tmp_path):
        """The first byte is the low one of the header's length: 0x80 is possible there."""
        filled(0).save(tmp_path / "file")
        arrays = safetensors_numpy.load((tmp_path / "file").read_bytes())
        header = '{"version": 1, "max_size": null, "groups": [{"obs_keys": null}]}'
        for padding in range(256):
            metadata = {"preference_dataset": header, "x": "x" * padding}
            content = safetensors_numpy.save(arrays, metadata)
            if content[0] == 0x80:
                break
        assert content[0] == 0x80
        (tmp_path / "file").write_bytes(content)
        assert_same(PreferenceDataset.load(tmp_path / "file"), filled(0))

    def test_every_truncated_pickle_is_refused(self, tmp_path):
        content = FROM_REFERENCE.read_bytes()
        for size in range(10, len(content), 29):
            (tmp_path / "part").write_bytes(content[:size])
            with pytest.raises(InputError, match="part: not a pickled PreferenceDataset"):
                PreferenceDataset.load(tmp_path / "part", trust=True)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"preferences": np.zeros(5)}, r"shape \(2,\), one for each pair, not \(5,\)"),
            ({"preferences": np.array([0.0, 7.0])}, r"must lie in \[0, 1\]"),
            ({"max_size": 1}, "more than max_size 1"),
            ({"max_size": "many"}, "invalid literal"),
            ({"fragments2": [1, 2]}, "'int' object has no attribute"),
            ({"fragments2": []}, "argument 2 is shorter"),
        ],
    )
    def test_a_pickle_with_invalid_content_is_refused(self, reference_pickle, changes, message):
        with pytest.raises(InputError, match=message):
            PreferenceDataset.load(reference_pickle(filled(0, 1), **changes), trust=True)

    def test_a_pickle_of_something_else_is_refused(self, tmp_path):
        (tmp_path / "file").write_bytes(pickle.dumps([1, 2]))
        with pytest.raises(InputError, match="not a pickled PreferenceDataset"):
            PreferenceDataset.load(tmp_path / "file", trust=True)
