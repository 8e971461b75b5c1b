"""Imported results: a text file that is written atomically, and tables separate from own runs."""

import json

import pytest
from pydantic import ValidationError
from support.runs import make_spec

from imitbench.cards.catalog import load_suite
from imitbench.cards.success import CardSuccess
from imitbench.errors import InputError
from imitbench.store import database, external_results
from imitbench.store.collector import CollectionSummary, collect
from imitbench.store.external_results import (
    ExternalRun,
    ImportedResults,
    check_name,
    default_name,
    external_path,
    read_external,
    with_references,
    write_external,
)


def run(place="line 2", **values):
    usual = {"status": "completed", "algo": "bc", "env": "Pendulum-v1", "seed": 0}
    if values.get("status", "completed") == "completed":
        usual["raw_return"] = -200.0
    return ExternalRun(place=place, **(usual | values))


KILLED = run("line 3", status="killed", reason="ended without a word", seed=1)


def results(*runs, **values):
    usual = {"tool": "csv", "source": "table.csv", "files": {"table.csv": "0" * 64}}
    return ImportedResults(runs=list(runs or (run(), KILLED)), **(usual | values))


def query(out, *questions):
    """Collects, and answers one question, or several."""
    collect(out)
    with database.reader(out) as connection:
        answers = [connection.execute(question).fetchall() for question in questions]
    return answers if len(questions) > 1 else answers[0]


def test_written_results_are_read_back(tmp_path):
    odd = run("a, line 9", algo="<script>", provenance={"packages": "torch==2"}, score=0.1 + 0.2)
    assert write_external(results(run(), odd), tmp_path, "lab", version="1")
    header, runs = read_external(external_path(tmp_path, "lab"))
    assert runs == [run(), odd]
    assert (header.name, header.tool, header.source) == ("lab", "csv", "table.csv")


def test_writing_the_same_results_again_changes_nothing_in_any_version(tmp_path):
    write_external(results(), tmp_path, "lab", version="1")
    path = external_path(tmp_path, "lab")
    before = (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino)
    assert not write_external(results(), tmp_path, "lab", version="2")
    assert not write_external(results(), tmp_path, "lab", version="2", force=True)
    assert (path.read_bytes(), path.stat().st_mtime_ns, path.stat().st_ino) == before


def test_other_results_of_a_name_are_replaced_only_by_force(tmp_path):
    write_external(results(), tmp_path, "lab", version="1")
    other = results(run(raw_return=1.0))
    with pytest.raises(InputError, match="--force"):
        write_external(other, tmp_path, "lab", version="1")
    assert len(read_external(external_path(tmp_path, "lab"))[1]) == 2
    assert write_external(other, tmp_path, "lab", version="1", force=True)
    assert read_external(external_path(tmp_path, "lab"))[1] == other.runs
    assert [path.name for path in (tmp_path / "external").iterdir()] == ["lab.jsonl"]


def test_imports_of_different_names_coexist(tmp_path):
    for name in ("lab", "paper"):
        write_external(results(), tmp_path, name, version="1")
    names = query(tmp_path, "SELECT name, count(*) FROM external GROUP BY ALL ORDER BY ALL")
    assert names == [("lab", 2), ("paper", 2)]


def test_imported_runs_are_never_among_own_ones(tmp_path, finished, failed):
    finished(make_spec(seed=0))
    failed(make_spec(seed=1))
    own = [f"FROM {table}" for table in ("scores", "latest", "failures", '"references"')]
    before = query(tmp_path, *own)
    assert [len(rows) for rows in before] == [1, 1, 1, 1]
    write_external(results(), tmp_path, "lab", version="1")
    assert collect(tmp_path) == CollectionSummary(0, 0)
    assert query(tmp_path, *own) == before
    [row] = query(tmp_path, "SELECT name, algo, seed, raw_return, score FROM external_scores")
    assert row == ("lab", "bc", 0, -200.0, None)


def test_incomplete_runs_are_in_the_table_and_not_in_the_view(tmp_path):
    write_external(results(), tmp_path, "lab", version="1")
    rows = query(tmp_path, "SELECT place, status, reason FROM external ORDER BY place")
    assert rows == [("line 2", "completed", ""), ("line 3", "killed", "ended without a word")]
    with database.reader(tmp_path) as connection:
        [row] = database.read_external_scores(connection)
    assert (row.name, row.tool, row.algo, row.raw_return) == ("lab", "csv", "bc", -200.0)


def test_rows_follow_the_file(tmp_path, finished):
    finished(make_spec(seed=0))
    write_external(results(), tmp_path, "lab", version="1")
    everything = "SELECT * FROM external ORDER BY ALL"
    before = query(tmp_path, everything)
    (tmp_path / database.DATABASE_FILE).unlink()
    assert query(tmp_path, everything) == before
    write_external(results(run(raw_return=7.0)), tmp_path, "lab", version="1", force=True)
    assert query(tmp_path, "SELECT raw_return FROM external") == [(7.0,)]
    external_path(tmp_path, "lab").unlink()
    external, own = query(tmp_path, everything, "FROM scores")
    assert (external, len(own)) == ([], 1)


def test_collecting_again_writes_nothing(tmp_path):
    write_external(results(), tmp_path, "lab", version="1")
    collect(tmp_path)
    modified = (tmp_path / database.DATABASE_FILE).stat().st_mtime_ns
    collect(tmp_path)
    assert (tmp_path / database.DATABASE_FILE).stat().st_mtime_ns == modified


def damaged(text, change):
    first, second, *rest = text.splitlines(keepends=True)
    header = json.loads(first)
    if change == "an edited number":
        return first + second.replace("-200.0", "-100.0") + "".join(rest)
    if change == "an edited number and digest":
        body = second.replace("-200.0", '"much"') + "".join(rest)
        return (
            json.dumps(header | {"digest": external_results.content_digest(body.encode())})
            + "\n"
            + body
        )
    if change == "a place twice":
        body = second + second
        return (
            json.dumps(header | {"digest": external_results.content_digest(body.encode())})
            + "\n"
            + body
        )
    if change == "another name":
        return json.dumps(header | {"name": "other"}) + "\n" + second + "".join(rest)
    if change == "cut short":
        return text[: len(text) // 2]
    return {
        "no JSON": "nonsense\n",
        "empty": "",
        "newer": first.replace('"version":1', '"version":2'),
    }[change]


DAMAGES = [
    "an edited number", "an edited number and digest", "a place twice", "another name",
    "cut short", "no JSON", "empty", "newer",
]  # fmt: skip


def test_damaged_files_are_named_excluded_and_replaced_by_force(tmp_path, finished):
    finished(make_spec(seed=0))
    names = [change.replace(" ", "-") for change in DAMAGES]
    for change, name in zip(DAMAGES, names, strict=True):
        write_external(results(), tmp_path, name, version="1")
        path = external_path(tmp_path, name)
        path.write_text(damaged(path.read_text(), change))
    left_out = collect(tmp_path).quarantined
    assert {each.path for each in left_out} == {f"external/{name}.jsonl" for name in names}
    assert len(left_out) == len(names)
    for each in left_out:
        assert str(tmp_path) not in each.reason
        assert each.reason.isprintable()
    external, own = query(tmp_path, "FROM external", "FROM scores")
    assert (external, len(own)) == ([], 1)
    for name in names:
        with pytest.raises(InputError, match="--force"):
            write_external(results(), tmp_path, name, version="1")
        assert write_external(results(), tmp_path, name, version="1", force=True)
    assert collect(tmp_path).quarantined == []
    assert len(query(tmp_path, "FROM external")) == 2 * len(names)


def test_links_and_other_files_are_not_imports(tmp_path):
    write_external(results(), tmp_path / "elsewhere", "lab", version="1")
    folder = tmp_path / "runs" / "external"
    folder.mkdir(parents=True)
    (folder / "lab.jsonl").symlink_to(external_path(tmp_path / "elsewhere", "lab"))
    (folder / "folder.jsonl").mkdir()
    (folder / "notes.txt").write_text("of a person")
    assert query(tmp_path / "runs", "FROM external") == []


@pytest.mark.parametrize(
    "name", ["", "../x", "a/b", ".hidden", "a\nb", "ä", "x" * 101, "-x", "a b"]
)
def test_labels_are_plain_names(tmp_path, name):
    with pytest.raises(InputError, match="--name"):
        check_name(name)
    with pytest.raises(InputError, match="--name"):
        write_external(results(), tmp_path, name, version="1")
    assert not (tmp_path / "external").exists()


def test_labels_come_from_the_source(tmp_path):
    folder = tmp_path / "my runs.v1"
    folder.mkdir()
    assert default_name(folder) == "my-runs.v1"
    assert default_name(tmp_path / "<script>.csv") == "script"
    assert default_name(folder / ".." / "table.v2.csv") == "table.v2"
    with pytest.raises(InputError, match="--name"):
        default_name(tmp_path / "雪.csv")


@pytest.mark.parametrize(
    "values",
    [
        {"raw_return": None},
        {"algo": None},
        {"env": None},
        {"algo": ""},
        {"algo": "a\nb"},
        {"raw_return": float("nan")},
        {"score": float("inf")},
        {"seed": 2**63},
        {"n_demos": -1},
        {"status": "killed"},  # without a reason
        {"status": "done"},
        {"unknown": 1},
    ],
)
def test_incomplete_or_invalid_runs_are_refused(values):
    with pytest.raises(ValidationError):
        run(**values)


def test_scores_are_stated_or_follow_from_references():
    references = {"reference_random": -1000.0, "reference_expert": 0.0}
    assert run().any_score is None
    assert run(**references).any_score == pytest.approx(0.8)
    assert run(**references, score=0.5).any_score == 0.5
    assert run(reference_expert=0.0).any_score is None
    assert run(reference_random=0.0, reference_expert=-1.0).any_score is None
    assert run(raw_return=None, score=0.5).any_score == 0.5


def test_a_suite_gives_returns_the_scale_of_own_scores(tmp_path):
    card = load_suite("classic")
    references = card.environments["Pendulum-v1"].references
    middle = (references.random.mean + references.expert.mean) / 2
    scaled = with_references(
        results(
            run("1", raw_return=middle),
            run("2", score=0.9),
            run("3", raw_return=5.0, reference_random=0.0, reference_expert=10.0),
            run("4", env="Unknown-v0"),
            KILLED,
        ),
        card,
    )
    assert [each.any_score for each in scaled.runs] == [pytest.approx(0.5), 0.9, 0.5, None, None]
    assert [each.reference_version for each in scaled.runs] == ["classic 1", None, None, None, None]
    assert scaled.notes == ["suite classic has no references of Unknown-v0"]
    write_external(scaled, tmp_path, "lab", version="1")
    rows = query(tmp_path, "SELECT score FROM external_scores ORDER BY ALL")
    assert rows == [(0.5,), (pytest.approx(0.5),), (0.9,), (None,)]


def test_returns_get_no_score_where_scores_are_shares_of_successes():
    card = load_suite("classic")
    env = "Pendulum-v1"
    environment = card.environments[env]
    rule = CardSuccess(key="is_success", when="ever")
    by_success = environment.model_copy(update={"success": rule})
    assert by_success.scale.score_one == "success"
    changed = card.model_copy(update={"environments": {env: by_success}})
    found = with_references(results(run("1", raw_return=87.0), run("2", score=0.9)), changed)
    assert [each.any_score for each in found.runs] == [None, 0.9]
    assert found.notes == [f"suite classic has no references of {env}"]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path):
    (tmp_path / "external").write_text("a file")
    with pytest.raises(InputError, match="cannot be written"):
        write_external(results(), tmp_path, "lab", version="1")
