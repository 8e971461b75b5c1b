"""The database agrees with the run directories, however often it is collected."""

import json
import math
import os
import shutil
import socket
import subprocess
import sys

import duckdb
import pytest
from support.results import write_finished_run
from support.runs import make_spec

from imitbench.errors import InputError
from imitbench.published.results_folder import read_runs
from imitbench.published.results_sources import ResultsSource
from imitbench.records.reward_scores import RewardProtocol, RewardScore, RewardScores
from imitbench.records.runs import EnvironmentSpec, ReferenceScores
from imitbench.report.curve_exports import read_curves
from imitbench.report.leaderboard.board import make_rows
from imitbench.store import collector, database
from imitbench.store.collector import CollectionSummary, collect
from imitbench.store.run_dir import RunDirectory

TABLES = (
    "runs", "curves", "measures", "episodes", "failures", "quarantine", '"references"', "scores",
    "latest", "latest_failures", "external", "external_scores", "reward_scores", "reward_board",
)  # fmt: skip


def dump(out):
    with database.reader(out) as connection:
        return {
            table: connection.execute(f"SELECT * FROM {table} ORDER BY ALL").fetchall()
            for table in TABLES
        }


def scores(out):
    with database.reader(out) as connection:
        return database.read_scores(connection)


def test_finished_runs_become_rows(tmp_path, finished):
    spec = make_spec(seed=4)
    finished(spec, raw_return=50.0)
    assert collect(tmp_path) == CollectionSummary(1, 0)
    [row] = scores(tmp_path)
    assert (row.run_id, row.algo, row.env, row.seed) == (spec.run_id, "bc", "Pendulum-v1", 4)
    assert row.score == pytest.approx((50 + 100) / 200)
    assert row.score_deterministic == pytest.approx((25 + 100) / 200)
    assert (row.mean_length, row.termination_rate) == (200.0, 0.0)
    content = dump(tmp_path)
    assert content["curves"] == [(spec.run_id, 1, "loss", 2.0), (spec.run_id, 2, "loss", 1.0)]
    assert [episode[1:] for episode in content["episodes"]] == [
        (0, False, 50.0, 200, False, True, None),
        (1, True, 50.0, 200, True, False, None),
    ]


@pytest.mark.parametrize("expert", [-100.0, -200.0])
def test_without_an_expert_above_random_no_score_is_defined_anywhere(tmp_path, finished, expert):
    references = ReferenceScores(random=-100.0, expert=expert, version="1")
    finished(make_spec(), raw_return=50.0, references=references)
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        query = "SELECT score, score_deterministic FROM scores"
        assert connection.execute(query).fetchall() == [(None, None)]
    [row] = scores(tmp_path)
    [shown] = make_rows([ResultsSource("", tuple(read_runs(tmp_path).runs))]).scores
    for each in (row, shown):
        assert math.isnan(each.score)
        assert math.isnan(each.score_deterministic)
    [curve] = read_curves(tmp_path, notify=print)
    assert "result/score" not in curve.outcome
    assert curve.outcome["result/raw_return"] == 50.0


def test_the_name_of_a_new_database_is_on_the_disk_at_the_end(tmp_path, finished, flushed):
    finished(make_spec())
    flushed.clear()
    collect(tmp_path)
    folder, names = flushed[-1]
    assert folder == tmp_path
    assert [name for name in names if database.DATABASE_FILE in name] == [database.DATABASE_FILE]


def test_further_measurements_become_rows_of_the_newest_run(tmp_path, finished):
    spec = make_spec()
    finished(spec, measures={"reward_correlation": 0.5, "transfer_score": 0.25})
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        rows = database.read_measures(connection)
    assert [(row.run_id, row.measure, row.value) for row in rows] == [
        (spec.run_id, "reward_correlation", 0.5),
        (spec.run_id, "transfer_score", 0.25),
    ]
    finished(spec, measures={})
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        assert database.read_measures(connection) == []


def test_scores_of_rewards_become_rows_of_their_run(tmp_path, finished):
    spec = make_spec(seed=3)
    finished(spec)
    collect(tmp_path)
    directory = RunDirectory.of(tmp_path, spec)
    score = RewardScore(measure="epic", behavior="all", value=0.25, low=0.125, high=0.5)
    made = RewardScores(
        run_id=spec.run_id, protocol=RewardProtocol(), scores=(score,), imitbench="1"
    )
    directory.write_reward_scores(made)
    assert directory.read_reward_scores() == made
    assert collect(tmp_path) == CollectionSummary(1, 0)
    content = dump(tmp_path)
    assert content["reward_scores"] == [(spec.run_id, "epic", "all", None, 0.25, 0.125, 0.5)]
    [row] = content["reward_board"]
    assert (row[0], row[-6:]) == (spec.run_id, ("epic", "all", None, 0.25, 0.125, 0.5))
    with database.reader(tmp_path) as connection:
        [measure] = database.read_measures(connection)
    assert (measure.measure, measure.value) == ("agreement_epic", 0.25)
    directory.write_reward_scores(made.model_copy(update={"run_id": "other"}))
    [quarantined] = collect(tmp_path).quarantined
    assert "reward_scores.json" in quarantined.reason


def test_failures_become_rows_until_the_run_succeeds(tmp_path, finished, failed):
    spec = make_spec()
    failed(spec, "it broke")
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        [row] = database.read_failures(connection)
        assert database.read_references(connection)[0].expert == 100.0
    assert (row.phase, row.error_type, row.message) == ("train", "RuntimeError", "it broke")
    finished(spec)
    assert collect(tmp_path) == CollectionSummary(1, 0)
    content = dump(tmp_path)
    assert content["failures"] == []
    assert len(content["runs"]) == 1


def test_collecting_again_changes_nothing(tmp_path, finished, failed):
    finished(make_spec(seed=0))
    failed(make_spec(seed=1))
    collect(tmp_path)
    before = dump(tmp_path)
    modified = (tmp_path / database.DATABASE_FILE).stat().st_mtime_ns
    assert collect(tmp_path) == CollectionSummary(0, 0)
    assert dump(tmp_path) == before
    assert (tmp_path / database.DATABASE_FILE).stat().st_mtime_ns == modified


def test_the_database_is_rebuilt_to_the_identical_content(tmp_path, finished, failed):
    for seed in range(2):
        finished(make_spec(seed=seed), raw_return=float(seed))
        collect(tmp_path)
    failed(make_spec(seed=9))
    collect(tmp_path)
    before = dump(tmp_path)
    (tmp_path / database.DATABASE_FILE).unlink()
    collect(tmp_path)
    assert dump(tmp_path) == before


@pytest.mark.parametrize("damage", ["truncated", "other version", "no database at all"])
def test_a_damaged_database_is_rebuilt(tmp_path, finished, damage):
    finished(make_spec())
    collect(tmp_path)
    path = tmp_path / database.DATABASE_FILE
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:5000])
    elif damage == "other version":
        with duckdb.connect(str(path)) as connection:
            connection.execute("UPDATE schema_version SET version = 0")
    else:
        path.write_text("not a database")
    assert collect(tmp_path).added == 1
    assert len(scores(tmp_path)) == 1


def test_damage_is_not_taken_for_a_lock_of_another_program(tmp_path, finished):
    """Of damage, DuckDB tells the block, and the path."""
    home = tmp_path / "clock"
    finished(make_spec())
    collect(tmp_path, home=home)
    path = home / database.DATABASE_FILE
    whole = path.read_bytes()
    path.write_text("not a database")
    assert collect(tmp_path, home=home).added == 1
    for start in range(3 * 4096, len(whole), 2**18):  # its blocks
        path.write_bytes(whole[:start] + bytes(2000) + whole[start + 2000 :])
        try:
            duckdb.connect(str(path), read_only=True).close()
        except duckdb.Error as error:
            assert "in block" in str(error)
            assert collect(tmp_path, home=home).added == 1
            return
    pytest.fail("no damage was noticed")


@pytest.mark.parametrize("left", [b"", b"not a database", "database"])
def test_without_locks_the_draft_of_a_killed_collector_does_no_harm(
    tmp_path, finished, monkeypatch, left
):
    """In a container, a later process often has the number of the killed one."""
    monkeypatch.setattr(database, "_lock", lambda _descriptor, _out: False)
    draft = tmp_path / f".{database.DATABASE_FILE}.{socket.gethostname()}-{os.getpid()}"
    for seed in range(2):  # a new database, then one that is revised
        if left == "database":
            with duckdb.connect(str(draft)) as connection:
                connection.execute("CREATE TABLE runs (number INTEGER)")
        else:
            draft.write_bytes(left)
            draft.with_name(f"{draft.name}.wal").write_bytes(left)
        finished(make_spec(seed=seed))
        assert collect(tmp_path) == CollectionSummary(1, 0)
    assert len(scores(tmp_path)) == 2
    assert not list(tmp_path.glob(f".{database.DATABASE_FILE}.*"))


def test_a_run_done_again_replaces_its_rows(tmp_path, finished):
    spec = make_spec()
    finished(spec, raw_return=1.0)
    collect(tmp_path)
    finished(spec, raw_return=2.0)
    assert collect(tmp_path).added == 1
    assert [row.raw_return for row in scores(tmp_path)] == [2.0]
    assert len(dump(tmp_path)["episodes"]) == 2


def test_rows_of_a_removed_directory_are_removed(tmp_path, finished):
    finished(make_spec(seed=0))
    gone = finished(make_spec(seed=1))
    collect(tmp_path)
    shutil.rmtree(gone.path)
    assert collect(tmp_path) == CollectionSummary(0, 1)
    assert [row.seed for row in scores(tmp_path)] == [0]


def test_damaged_directories_are_named_and_excluded(tmp_path, finished):
    files = ["spec.json", "result.json", "episodes.parquet", "metrics.jsonl"]
    finished(make_spec(seed=0))
    damaged = [finished(make_spec(seed=seed)).path / file for seed, file in enumerate(files, 1)]
    for path in damaged:
        path.write_bytes(path.read_bytes()[:10])
    done = collect(tmp_path)
    assert done.added == 1
    named = {each.path: each.reason for each in done.quarantined}
    assert len(named) == len(done.quarantined) == 4
    for path in damaged:
        reason = named[str(path.parent.relative_to(tmp_path))]
        assert reason.startswith(f"{path.name}: ")
        assert "\n" not in reason
    assert [row.seed for row in scores(tmp_path)] == [0]


def test_a_directory_with_the_name_of_another_run_is_excluded(tmp_path, finished):
    directory = finished(make_spec()).path
    directory.rename(directory.with_name("0123456789ab"))
    [left_out] = collect(tmp_path).quarantined
    assert "not to this folder" in left_out.reason


def test_the_newest_of_equal_cells_counts_and_variants_stay_apart(tmp_path, finished):
    finished(make_spec(), raw_return=1.0, at="2026-01-01T00:00:00.000+00:00")
    # The same cell with other resolved hyper-parameters: the card's default has changed since.
    finished(
        make_spec(hyperparameters={"variant": "", "new": 1}),
        raw_return=2.0,
        at="2026-01-02T00:00:00.000+00:00",
    )
    finished(make_spec(variant="x=1"), raw_return=3.0)
    collect(tmp_path)
    assert {(row.algo, row.raw_return) for row in scores(tmp_path)} == {
        ("bc", 2.0),
        ("bc[x=1]", 3.0),
    }
    assert len(dump(tmp_path)["scores"]) == 3


def test_concurrent_collectors_do_not_disturb_each_other(tmp_path, finished):
    for seed in range(5):
        finished(make_spec(seed=seed))
    code = "import sys; from pathlib import Path; from imitbench.store.collector import collect; collect(Path(sys.argv[1]))"  # noqa: E501
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    assert [(p.wait(), p.stderr.read()) for p in processes] == [(0, b"")] * 2
    assert len(scores(tmp_path)) == 5


def test_a_folder_without_results_is_reported(tmp_path):
    with pytest.raises(InputError, match="imitbench run"):
        collect(tmp_path / "absent")
    with pytest.raises(InputError, match="imitbench run"), database.reader(tmp_path):
        pass


def test_readers_cannot_reach_other_files(tmp_path, finished):
    finished(make_spec())
    collect(tmp_path)
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with database.reader(tmp_path) as connection:
        with pytest.raises(duckdb.Error):
            connection.execute(f"SELECT * FROM read_csv('{tmp_path / 'secret.csv'}')")
        with pytest.raises(duckdb.Error):
            connection.execute("DELETE FROM runs")


def test_links_in_an_untrusted_folder_are_not_followed(tmp_path, finished):
    finished(make_spec(seed=0))
    precious = tmp_path / "precious.txt"
    precious.write_text("precious")
    (tmp_path / database.LOCK_FILE).symlink_to(precious)
    with pytest.raises(InputError, match=r"symbolic links.*database\.lock"):
        collect(tmp_path)
    assert precious.read_text() == "precious"


def test_an_excluded_directory_stays_named_and_is_read_again_only_when_it_changes(
    tmp_path, finished, monkeypatch
):
    finished(make_spec(seed=0))
    damaged = finished(make_spec(seed=1)).path / "episodes.parquet"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:10])
    first = collect(tmp_path)
    read = []
    monkeypatch.setattr(collector, "read_rows", lambda _, path: read.append(path))
    again = collect(tmp_path)
    assert (again.added, again.quarantined, read) == (0, first.quarantined, [])
    monkeypatch.undo()
    damaged.write_bytes(whole)
    assert collect(tmp_path) == CollectionSummary(1, 0)
    assert len(scores(tmp_path)) == 2


def test_rows_of_a_result_that_becomes_unreadable_are_removed(tmp_path, finished):
    directory = finished(make_spec())
    collect(tmp_path)
    (directory.path / "result.json").write_text("{")
    done = collect(tmp_path)
    assert (done.added, len(done.quarantined)) == (0, 1)
    before = dump(tmp_path)
    assert before["runs"] == before["curves"] == before["episodes"] == []
    (tmp_path / database.DATABASE_FILE).unlink()
    collect(tmp_path)
    assert dump(tmp_path) == before


def test_a_result_replaced_within_a_tick_of_the_clock_is_noticed(tmp_path, finished):
    result = finished(make_spec(), raw_return=1.0).path / "result.json"
    collect(tmp_path)
    stat = result.stat()
    replacement = result.with_name("new")
    replacement.write_text(result.read_text().replace('"raw_return": 1.0', '"raw_return": 2.0'))
    os.utime(replacement, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert replacement.stat().st_size == stat.st_size
    replacement.replace(result)
    assert collect(tmp_path).added == 1
    assert [row.raw_return for row in scores(tmp_path)] == [2.0]


def test_incomplete_and_unrelated_folders_are_not_results(tmp_path, finished):
    finished(make_spec(seed=0))
    half = finished(make_spec(seed=1)).path
    (half / "result.json").rename(half / ".result.json.abc.tmp")
    (tmp_path / "classic" / "bc" / "Pendulum-v1" / "notes").mkdir()
    (tmp_path / "some" / "other" / "deep" / "tree" / "of files").mkdir(parents=True)
    (tmp_path / "README").touch()
    (tmp_path / "loop").symlink_to(tmp_path)
    foreign = tmp_path / "some" / "other" / "deep" / "tree" / "result.json"
    foreign.write_text('{"accuracy": 1}')
    done = collect(tmp_path)
    assert done.added == 1
    assert [(each.path, each.reason) for each in done.quarantined] == [
        ("some/other/deep/tree", "spec.json: cannot be read (No such file or directory)")
    ]


HARMFUL = [
    ("metrics.jsonl", '{"step": 1, "loss": "low"}\n'),
    ("metrics.jsonl", '{"step": 99999999999999999999, "loss": 1}\n'),
    ("metrics.jsonl", "[" * 100_000),
    ("metrics.jsonl", '{"loss": 1}\n'),
    ("metrics.jsonl", '{"step": 1, "\\ud800": 1}\n'),
    ("result.json", "[]"),
    ("spec.json", b"\xff\xfe"),
]
NUMBERS = [
    ("result.json", ("env_steps",)),
    ("spec.json", ("seed",)),
    ("spec.json", ("budget", "amount")),
    ("spec.json", ("protocol", "episodes")),
    ("spec.json", ("hyperparameters", "batch_size")),
]


def check_that_files_are_left_out(out, paths):
    """Checks that one run is collected, and that each of the files is named."""
    done = collect(out)
    assert done.added == 1
    found = {(each.path, each.reason.partition(":")[0]) for each in done.quarantined}
    assert found == {(str(path.parent.relative_to(out)), path.name) for path in paths}
    assert len(done.quarantined) == len(paths)
    assert [row.seed for row in scores(out)] == [0]


def test_malicious_files_are_reported_and_do_no_harm(tmp_path, finished):
    finished(make_spec(seed=0))
    paths = []
    for seed, (file, content) in enumerate(HARMFUL, start=1):
        paths.append(finished(make_spec(seed=seed)).path / file)
        paths[-1].write_bytes(content if isinstance(content, bytes) else content.encode())
    check_that_files_are_left_out(tmp_path, paths)


@pytest.mark.parametrize("number", [2**63, 10**400], ids=["64 bits", "400 digits"])
def test_numbers_out_of_the_databases_range_are_reported(tmp_path, finished, number):
    finished(make_spec(seed=0))
    paths = []
    for seed, (file, place) in enumerate(NUMBERS, start=1):
        path = finished(make_spec(seed=seed)).path / file
        document = json.loads(path.read_text())
        part = document
        for name in place[:-1]:
            part = part[name]
        part[place[-1]] = number
        path.write_text(json.dumps(document))
        paths.append(path)
    check_that_files_are_left_out(tmp_path, paths)


def test_a_copy_of_a_run_in_another_folder_is_excluded(tmp_path, finished):
    original = finished(make_spec()).path
    shutil.copytree(original, tmp_path / "other" / "bc" / "Pendulum-v1" / original.name)
    done = collect(tmp_path)
    assert (done.added, len(done.quarantined)) == (1, 1)
    assert f"belongs to run classic/bc/Pendulum-v1/{original.name}" in done.quarantined[0].reason


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_cannot_be_listed_is_named_and_keeps_its_rows(tmp_path, finished):
    directory = finished(make_spec()).path
    collect(tmp_path)
    directory.parent.chmod(0)
    try:
        done = collect(tmp_path)
    finally:
        directory.parent.chmod(0o755)
    assert (done.removed, len(done.quarantined), len(scores(tmp_path))) == (0, 1, 1)


def test_results_of_two_versions_of_a_plug_in_are_never_shown_together(tmp_path, finished):
    old, new = ({"implementation_digest": digit * 64} for digit in "ab")
    for seed in range(3):
        spec = make_spec(seed=seed, algo="mine", **old)
        finished(spec, raw_return=1.0, at="2026-01-01T00:00:00.000+00:00")
    edited = make_spec(seed=0, algo="mine", **new)
    finished(edited, raw_return=2.0, at="2026-01-02T00:00:00.000+00:00")
    bundled = make_spec(seed=7)
    finished(bundled, raw_return=3.0, at="2026-01-01T00:00:00.000+00:00")
    collect(tmp_path)
    assert {row.run_id for row in scores(tmp_path)} == {edited.run_id, bundled.run_id}
    with database.reader(tmp_path) as connection:
        assert connection.execute("SELECT count(*) FROM scores").fetchone() == (5,)


def test_references_are_those_of_runs_that_are_not_superseded(tmp_path, finished, failed):
    """Of an older setting, there may be others, which no score of a table has."""
    older, newer = (
        ReferenceScores(random=-100.0, expert=expert, version="1") for expert in (50.0, 100.0)
    )
    before = make_spec(hyperparameters={"learning_rate": 0.1})
    finished(before, at="2026-01-01T00:00:00.000+00:00", references=older)
    finished(make_spec(), at="2026-01-02T00:00:00.000+00:00", references=newer)
    failed(make_spec(algo="gail"))
    collect(tmp_path)
    with database.reader(tmp_path) as connection:
        assert [row.expert for row in database.read_references(connection)] == [100.0]


def test_an_edited_environment_supersedes_older_runs_on_it(tmp_path, finished):
    old, new = (
        {"environment": EnvironmentSpec(id="mine/Env-v0", module_digest=digit * 64)}
        for digit in "ab"
    )
    finished(make_spec(seed=0, **old), raw_return=1.0, at="2026-01-01T00:00:00.000+00:00")
    again = make_spec(seed=1, algo="dagger", **new)
    finished(again, raw_return=2.0, at="2026-01-02T00:00:00.000+00:00")
    collect(tmp_path)
    assert [row.run_id for row in scores(tmp_path)] == [again.run_id]


def test_a_full_disk_is_one_line_that_says_where_the_results_are(tmp_path, monkeypatch):
    write_finished_run(tmp_path)

    def fill(*arguments, **options):
        raise duckdb.FatalException(
            "FATAL Error: Failed: database has been invalidated because of a previous fatal "
            'error\nCould not write file "results.duckdb": No space left on device'
        )

    monkeypatch.setattr(database, "revision", fill)
    with pytest.raises(InputError) as told:
        collect(tmp_path)
    assert "FATAL" not in str(told.value)
    assert str(told.value).endswith(
        "No space left on device; all results are in the folders of their runs; free some space, "
        f"then: imitbench collect --out {tmp_path}"
    )
    monkeypatch.undo()
    assert collect(tmp_path).added == 1
