"""Published results: the same runs give the same texts, which are read back and checked."""

import errno
import json
import os
import shutil

import pytest
from support.published import change, publish
from support.results import EPISODES, write_failed_run, write_finished_run
from support.runs import make_spec

from imitbench.errors import InputError
from imitbench.published.results_folder import export_results, read_runs
from imitbench.published.submission import read_strictly, restore_runs
from imitbench.records.published import PublishedRun
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.run_dir import RunDirectory


@pytest.fixture
def out(tmp_path):
    """Two completed runs, one that failed and one without an outcome."""
    out = tmp_path / "runs"
    write_finished_run(out, seed=0, algo="gail")
    write_finished_run(out, seed=1, env="seals/CartPole-v0")
    write_failed_run(out, seed=2)
    unfinished = write_finished_run(out, seed=3)
    (unfinished.path / "result.json").unlink()
    return out


def content(folder):
    return {p.relative_to(folder).as_posix(): p.read_text() for p in folder.rglob("*.*")}


def test_the_folder_holds_a_line_per_run_and_a_file_of_episodes(tmp_path, out):
    runs = read_runs(out)
    assert (len(runs.runs), runs.unfinished, runs.unreadable) == (3, 1, [])
    found = content(publish(out, tmp_path / "published"))
    gail, cartpole = [run.spec for run in runs.runs if run.result]
    assert (cartpole.environment.id, gail.algo) == ("seals/CartPole-v0", "gail")
    assert set(found) == {
        "manifest.json",
        "runs/classic.jsonl",
        "failures/classic.jsonl",
        f"episodes/classic/{cartpole.run_id}.csv",
        f"episodes/classic/{gail.run_id}.csv",
    }
    lines = [json.loads(line) for line in found["runs/classic.jsonl"].splitlines()]
    assert {line["run_id"] for line in lines} == {cartpole.run_id, gail.run_id}
    assert all(line["spec_digest"].startswith(line["run_id"]) for line in lines)
    header, *rows = found[f"episodes/classic/{gail.run_id}.csv"].splitlines()
    assert header == "episode,deterministic,raw_return,length,terminated"
    assert len(rows) == 2 * EPISODES
    [suite] = json.loads(found["manifest.json"])["suites"].values()
    assert (suite["runs"], suite["failures"], suite["algorithms"]) == (2, 1, ["bc", "gail"])


def test_machines_and_accounts_are_not_named(tmp_path, out):
    everything = "".join(content(publish(out, tmp_path / "published")).values())
    assert "it broke" in everything
    assert "secret-host" not in everything
    assert "/home/somebody" not in everything


def test_the_same_runs_give_the_same_bytes_wherever_they_are(tmp_path, out):
    first = content(publish(out, tmp_path / "published"))
    shutil.copytree(out, tmp_path / "moved")
    assert content(publish(tmp_path / "moved", tmp_path / "again")) == first


def test_reading_returns_what_was_published(tmp_path, out):
    published = read_strictly(publish(out, tmp_path / "published")).published
    for before, after in zip(
        sorted(read_runs(out).runs, key=lambda run: run.result is None), published, strict=True
    ):
        assert after.spec == before.spec
        if before.result is None:
            assert (after.failure.message, after.failure.traceback) == ("it broke", "")
            continue
        unnamed = before.result.provenance.model_copy(update={"host": ""})
        assert after.result == before.result.model_copy(update={"provenance": unnamed})
        for name in ("returns", "lengths", "terminated", "deterministic"):
            assert (getattr(after.episodes, name) == getattr(before.episodes, name)).all()


def test_restored_runs_give_the_same_scores_and_leave_own_ones_alone(tmp_path, out):
    def rows(folder):
        collect(folder)
        with database.reader(folder) as connection:
            return (
                database.read_scores(connection),
                database.read_failures(connection),
                database.read_measures(connection),
            )

    published = read_strictly(publish(out, tmp_path / "published")).published
    assert restore_runs(published, tmp_path / "theirs") == (3, 0)
    assert rows(tmp_path / "theirs") == rows(out)
    assert restore_runs(published, tmp_path / "theirs") == (0, 3)


def test_a_run_that_another_process_completes_meanwhile_is_left_alone(tmp_path, out, monkeypatch):
    published = read_strictly(publish(out, tmp_path / "published")).published
    [run] = [run for run in published if run.spec.algo == "gail"]
    theirs = tmp_path / "theirs"
    claim = RunDirectory.claim

    def after_the_other_process(directory, **options):
        monkeypatch.setattr(RunDirectory, "claim", claim)
        write_finished_run(theirs, seed=0, algo="gail")
        (directory.path / "log.txt").write_text("trained here")
        return directory.claim(**options)

    monkeypatch.setattr(RunDirectory, "claim", after_the_other_process)
    assert restore_runs([run], theirs) == (0, 1)
    assert RunDirectory.of(theirs, run.spec).log.read_text() == "trained here"


CURVE = [{"step": 4, "bc/loss": 0.5, "rollout/return_mean": 1.25},
         {"step": 6, "bc/loss": float("nan"), "noise": 3.0},
         {"step": 10, "bc/loss": 0.25, "rollout/return_mean": -2.0}]  # fmt: skip


def test_the_main_metric_of_a_learning_curve_is_published_and_restored(tmp_path, out):
    directory = write_finished_run(out, seed=5)
    directory.write_curve(CURVE)
    folder = publish(out, tmp_path / "published")
    name = f"curves/classic/{directory.path.name}.csv"
    assert (folder / name).read_text() == "step,rollout/return_mean\n4,1.25\n10,-2.0\n"
    assert [each for each in content(folder) if each.startswith("curves")] == [name]
    assert name in json.loads((folder / "manifest.json").read_text())["files"]
    published = read_strictly(folder).published
    restore_runs(published, tmp_path / "theirs")
    collect(tmp_path / "theirs")
    with database.reader(tmp_path / "theirs") as connection:
        rows = connection.execute("SELECT step, metric, value FROM curves ORDER BY step").fetchall()
    assert rows == [(4, "rollout/return_mean", 1.25), (10, "rollout/return_mean", -2.0)]
    again = content(publish(tmp_path / "theirs", tmp_path / "again"))
    assert again == content(folder)


def test_curves_can_be_left_out(tmp_path, out):
    without = content(publish(out, tmp_path / "before"))
    for path in out.glob("*/*/*/*/spec.json"):
        RunDirectory(path.parent).write_curve(CURVE)
    export_results(read_runs(out).runs, tmp_path / "published", version="0.1.0",
                   command="imitbench results push", curves=False)  # fmt: skip
    assert content(tmp_path / "published") == without


@pytest.mark.parametrize(
    "metric", ["noise", "a b/loss", "loss\nx", "=cmd/loss", "x" * 80 + "/loss"]
)
def test_metrics_that_nobody_knows_are_not_published(tmp_path, out, metric):
    write_finished_run(out, seed=5).write_curve([{"step": 1, metric: 1.0}])
    assert not any(name.startswith("curves") for name in content(publish(out, tmp_path / "to")))


def test_a_run_whose_learning_curve_is_damaged_is_named(out):
    directory = write_finished_run(out, seed=5)
    directory.curve.write_text("{}\n")
    [message] = read_runs(out).unreadable
    assert "metrics.jsonl: not a learning curve" in message


def test_one_suite_can_be_chosen(out):
    write_finished_run(out, suite="tabular")
    assert {run.spec.suite for run in read_runs(out, suite="tabular").runs} == {"tabular"}
    assert len(read_runs(out).runs) == 4


@pytest.mark.parametrize("name", [".snapshot", "classic-old"])
def test_runs_of_a_copied_folder_are_not_published_twice(tmp_path, out, name):
    ids = [run.spec.run_id for run in read_runs(out).runs]
    shutil.copytree(out / "classic" / "gail", out / "classic" / name)
    shutil.copytree(out / "classic", out / name)
    found = read_runs(out)
    assert [run.spec.run_id for run in found.runs] == ids
    assert bool(found.unreadable) == (name[0] != ".")
    assert all(" belongs to run classic/" in message for message in found.unreadable)
    assert len(read_strictly(publish(out, tmp_path / "published")).runs) == len(ids)


def test_folders_that_cannot_be_listed_are_named(out, monkeypatch):
    scan = os.scandir

    def refuse(path):
        if str(path).endswith("/gail"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = read_runs(out)
    assert found.unreadable == [f"{out}/classic/gail: cannot be listed (Permission denied)"]
    assert len(found.runs) == 2


def test_a_damaged_run_is_named_and_skipped(out):
    broken = write_finished_run(out, seed=9)
    (broken.path / "episodes.parquet").write_bytes(b"PAR1")
    runs = read_runs(out)
    assert len(runs.runs) == 3
    [message] = runs.unreadable
    assert "episodes.parquet: cannot be read" in message


RUNS = "runs/classic.jsonl"
BAD = {
    "a changed file": (RUNS, '"env_steps":10', '"env_steps":11', False, "does not have the digest"),
    "another specification": (RUNS, '"seed":0', '"seed":7', True, "line 1: run_id or spec_digest"),
    "a better return": (RUNS, '"raw_return":', '"raw_return":9', True, "not the mean of its"),
    "an unknown field": (RUNS, '"provenance":', '"extra":1,"provenance":', True, "line 1: extra"),
    "no provenance": (RUNS, '"provenance":"', '"provenance":"x', True, "has no provenance"),
    "a foreign path": (
        "manifest.json",
        "runs/classic",
        "../classic",
        True,
        "not a valid file name",
    ),
    "another format": ("manifest.json", "imitbench-results", "else", False, "format"),
    "no manifest": ("manifest.json", "{", "", False, "manifest.json"),
    "an altered manifest": ("manifest.json", "results push", "results", False, "was changed"),
    "a run twice": (RUNS, '{"run_id"', '{twice}{"run_id"', True, "occurs twice"),
    "another count": ("manifest.json", '"runs": 2', '"runs": 3', True, "does not match"),
    "other lengths": (RUNS, '"mean_length":', '"mean_length":1', True, "not the mean length of"),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD)
def test_results_that_contradict_themselves_are_refused(tmp_path, out, case):
    name, old, new, signed, message = case
    folder = publish(out, tmp_path / "published")
    first, *_ = (folder / RUNS).read_text().splitlines()
    change(folder, name, old, new.replace("{twice}", f"{first}\n"), signed=signed)
    with pytest.raises(InputError, match=message) as caught:
        read_strictly(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [("false", "maybe", "not a table of episodes"), ("length", "size", "columns must be"),
     ("\n0,false", "\n0,true", "3 episodes, and the specification says 4")],
)  # fmt: skip
def test_bad_episodes_are_refused(tmp_path, out, old, new, message):
    folder = publish(out, tmp_path / "published")
    name = next(name for name in content(folder) if name.endswith(".csv"))
    change(folder, name, old, new)
    with pytest.raises(InputError, match=message):
        read_strictly(folder)


@pytest.mark.parametrize("changes", [{"env": ".."}, {"suite": "a/b"}, {"algo": ".hidden"}])
def test_no_run_is_restored_outside_the_results_folder(tmp_path, changes):
    spec = make_spec(**changes)
    with pytest.raises(InputError, match="is not a valid folder name"):
        restore_runs([PublishedRun(spec)], tmp_path / "theirs")
    assert not list(tmp_path.iterdir())


def test_a_manifest_without_its_own_digest_is_refused(tmp_path, out):
    folder = publish(out, tmp_path / "published")
    manifest = json.loads((folder / "manifest.json").read_text())
    del manifest["digest"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"manifest\.json: has no digest of its own"):
        read_strictly(folder)
