"""Arrays of runs by tasks become external runs."""

import io
import json
import zipfile

import numpy as np
import pytest

from imitbench.errors import InputError
from imitbench.store.importers import rliable_scores
from imitbench.store.importers.rliable_scores import import_rliable


@pytest.fixture
def archive(tmp_path):
    def write(**arrays):
        path = tmp_path / "scores.npz"
        np.savez_compressed(path, **arrays)
        return path

    return write


@pytest.fixture
def document(tmp_path):
    def write(content):
        path = tmp_path / "scores.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


def scores_of(results):
    return {
        (algo, env): [run.score for run in results.runs if (run.algo, run.env) == (algo, env)]
        for algo, env in {(run.algo, run.env): None for run in results.runs}
    }


EXPECTED = {
    ("bc", "Ant"): [0.5, 0.75],
    ("bc", "Hopper"): [1.0, 1.25],
    ("gail", "Ant"): [0.1],
    ("gail", "Hopper"): [0.2],
}
ARRAYS = {"bc": [[0.5, 1.0], [0.75, 1.25]], "gail": [[0.1, 0.2]]}


def test_runs_are_rows_and_tasks_are_columns(archive):
    path = archive(**{name: np.array(value) for name, value in ARRAYS.items()})
    results = import_rliable(path, tasks=["Ant", "Hopper"])
    assert scores_of(results) == EXPECTED
    assert {(run.seed, run.raw_return, run.status) for run in results.runs} == {
        (None, None, "completed")
    }
    assert results.runs[1].place == "bc, Ant, run 2"
    assert results.notes == []


def test_json_and_archives_give_the_same_runs(document):
    assert scores_of(import_rliable(document(ARRAYS), tasks=["Ant", "Hopper"])) == EXPECTED


def test_json_may_name_its_tasks(document):
    tasks = {"bc": {"Ant": [0.5, 0.75], "Hopper": [1, 1.25]}, "gail": {"Ant": [0.1]}}
    results = import_rliable(document(tasks))
    assert scores_of(results) == {k: v for k, v in EXPECTED.items() if k != ("gail", "Hopper")}
    assert results.notes == []
    with pytest.raises(InputError, match="names its tasks itself"):
        import_rliable(document(tasks), tasks=["Ant"])


def test_tasks_without_names_are_numbered_and_noted(archive):
    results = import_rliable(archive(bc=np.zeros((1, 3), np.float32)))
    assert [run.env for run in results.runs] == ["task-1", "task-2", "task-3"]
    assert results.notes == ["tasks have no names; give them with --env, in order"]


@pytest.mark.parametrize("kind", ["float16", "float32", "int64", "uint8", ">f8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_kind_of_number_is_read(archive, kind, order):
    array = np.array([[1, 2, 3], [4, 5, 6]], dtype=kind, order=order)
    results = import_rliable(archive(bc=array), tasks="xyz")
    assert scores_of(results) == {("bc", "x"): [1, 4], ("bc", "y"): [2, 5], ("bc", "z"): [3, 6]}


def test_missing_scores_are_failures(archive, document):
    array = np.array([[0.5], [np.nan]])
    for path in (archive(bc=array), document({"bc": [[0.5], [None]]})):
        results = import_rliable(path, tasks=["A"])
        assert results.counts == {"completed": 1, "failed": 1}
        assert results.runs[1].reason == "its score is missing"


@pytest.mark.parametrize("name", ["<script>", "../../evil", "a|b", "nested/name"])
def test_odd_names_stay_text(archive, document, name):
    for path in (archive(**{name: np.ones((1, 1))}), document({name: {name: [1.0]}})):
        assert import_rliable(path).runs[0].algo == name


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("{", "no JSON"),
        ("[" * 5000, "recursion"),
        ("[]", "must be an object"),
        ("{}", "no algorithm"),
        ({"a": []}, "no score"),
        ({"a": {}}, "no score"),
        ({"a": [1.0, 2.0]}, "list of runs"),
        ({"a": "bc"}, "list of runs"),
        ({"a": [[1.0], [1.0, 2.0]]}, "run 2: 2 tasks, and run 1 has 1"),
        ({"a": [[[1.0]]]}, "third axis"),
        ({"a": [["1"]]}, "not numbers"),
        ({"a": [[True]]}, "not numbers"),
        ({"a": {"A": ["x"]}}, "must be a list of numbers"),
        ({"a": {"A": 1.0}}, "must be a list of numbers"),
        ({"a": [[1.0]], "b": {"A": [1.0]}}, "all arrays, or all objects"),
        ({"a": [[1.0]], "b": [[1.0, 2.0]]}, "different numbers of tasks (a: 1, b: 2)"),
        ({"a": [[float("inf")]]}, "finite"),
        ({"a": [[10**400]]}, "cannot be an array"),
        ({"a": {"A": [10**400]}}, "cannot be an array"),
        ({"a\nb": [[1.0]]}, "control characters"),
        ({"a": {"A\x1b": [1.0]}}, "control characters"),
        ({"": [[1.0]]}, "at least 1 character"),
    ],
)
def test_invalid_json_is_refused_in_one_line(document, content, told):
    with pytest.raises(InputError) as caught:
        import_rliable(document(content))
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("array", "told"),
    [
        (np.zeros((2, 3, 4)), "third axis"),
        (np.zeros(3), "must be an array of runs by tasks, and has 1 axes"),
        (np.array([["x"]]), "not numbers"),
        (np.array([[{}]], dtype=object), "not numbers"),
        (np.zeros((0, 3)), "no score"),
        (np.array([[True]]), "not numbers"),
    ],
)
def test_invalid_arrays_are_refused_in_one_line(archive, array, told):
    with pytest.raises(InputError) as caught:
        import_rliable(archive(bc=array))
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


def test_names_of_tasks_must_fit(archive):
    path = archive(bc=np.zeros((2, 3)))
    with pytest.raises(InputError, match=r"2 names, and 'bc' of .* has 3 tasks"):
        import_rliable(path, tasks=["A", "B"])
    with pytest.raises(InputError, match="twice"):
        import_rliable(path, tasks=["A", "B", "A"])


def header_of(shape):
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        stream, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    return stream.getvalue()


@pytest.mark.parametrize("shape", [(10**9, 10**6), (-1, -1), (2, 3)])
def test_an_archive_that_declares_more_than_it_has_is_refused(tmp_path, shape):
    path = tmp_path / "scores.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("bc.npy", header_of(shape) + b"\0" * 8)
    with pytest.raises(InputError, match=r"damaged \.npz"):
        import_rliable(path)


def test_zip_bombs_are_not_unpacked(archive, monkeypatch):
    monkeypatch.setattr(rliable_scores, "_MAX_BYTES", 10_000)
    with pytest.raises(InputError, match="unpacks to more than 10000 bytes"):
        import_rliable(archive(bc=np.zeros((100, 100))))


@pytest.mark.parametrize("content", [b"PK\x03\x04 and so on", b"PK", b"", b"\x80\x04N."])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "scores.npz"
    path.write_bytes(content)
    with pytest.raises(InputError):
        import_rliable(path)


def test_the_error_for_a_single_array_names_the_fix(tmp_path):
    np.save(tmp_path / "scores.npy", np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"np\.savez"):
        import_rliable(tmp_path / "scores.npy")


def test_too_many_scores_are_refused(archive, monkeypatch):
    monkeypatch.setattr(rliable_scores, "MAX_RUNS", 5)
    with pytest.raises(InputError, match="more than 5 scores"):
        import_rliable(archive(bc=np.zeros((3, 2))))
