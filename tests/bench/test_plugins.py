"""Plug-ins in sweeps: what identifies their runs, and that only the user can cause them to run."""

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError
from support.plans import make_plan
from support.plugins import write_plugin
from support.synthetic_runs import write_finished

from imitbench.bench.implementation import make_learner
from imitbench.bench.job import Job
from imitbench.bench.plan import plan_request
from imitbench.bench.plugin_check import check_plugins
from imitbench.bench.request import PluginSelection, plan_missing
from imitbench.cards.catalog import load_algorithm
from imitbench.conformance.reproduction import sample_runs
from imitbench.errors import InputError
from imitbench.published.results_folder import export_results, read_runs
from imitbench.published.results_sources import ResultsSource
from imitbench.published.submission import read_strictly
from imitbench.records.bundled_cards import role_of
from imitbench.records.runs import RunSpec
from imitbench.report.leaderboard.board import make_rows
from imitbench.store import database
from imitbench.store.collector import collect
from imitbench.store.sweep_file import SweepFile, SweepRequest
from imitbench.util import source_import

BOMB = "raise SystemExit('imported')\nclass Mine: pass\n"
# Ids from before plug-ins existed; all published results have them.
PINNED = {
    ("classic", "bc", "Pendulum-v1"): "65dc4042564c",
    ("classic", "expert", "Pendulum-v1"): "a058aebb7e0f",
    ("classic", "gail", "Pendulum-v1"): "a335785ddc3d",
    ("classic", "sqil", "Pendulum-v1"): "b0ffa2db9edf",
    ("diagnostics", "bc", "seals/InitShiftTrain-v0"): "f046cddf4491",
    ("diagnostics", "bc", "seals/NoisyObs-v0"): "a2033a9a736a",
    ("tabular", "mce_irl", "imitbench/RandomMDP-0-v0"): "a181aca3725c",
}


def plan_of(*algorithms, suite="classic", environment="Pendulum-v1", **settings):
    return make_plan(
        algorithms=algorithms,
        suite=suite,
        environment=environment,
        seeds=[0],
        **settings,
    )


@pytest.mark.parametrize(("suite", "algo", "env"), PINNED)
def test_runs_of_bundled_methods_keep_their_identity(suite, algo, env):
    first_defaults = next(iter(load_algorithm(algo).earlier_defaults), {})
    overrides = {
        name: "null" if value is None else str(value) for name, value in first_defaults.items()
    }
    [spec] = plan_of(algo, suite=suite, environment=env, overrides=overrides)
    assert spec.run_id == PINNED[suite, algo, env]


def test_source_is_part_of_a_runs_identity_and_its_location_is_not(tmp_path):
    one, two = (write_plugin(tmp_path / name / "mine") for name in ("a", "b"))
    [first], [same] = plan_of(str(one)), plan_of(str(two))
    assert first.run_id == same.run_id
    (two / "helper.py").write_text("X = 1")
    [other] = plan_of(str(two))
    assert other.run_id != first.run_id
    assert str(tmp_path) not in first.model_dump_json()


@pytest.mark.parametrize("role", ["method", "reference", "control"])
def test_the_role_on_a_card_is_in_the_record_and_not_part_of_the_identity(tmp_path, role):
    usual = plan_of(str(write_plugin(tmp_path / "usual")))
    [spec] = plan_of(str(write_plugin(tmp_path / "mine", role=role)))
    [same] = usual
    assert (spec.run_id, spec.setting) == (same.run_id, same.setting)
    document = spec.model_dump(mode="json")
    assert document.get("role", "method") == role
    assert RunSpec.model_validate_json(spec.model_dump_json()) == spec
    write_finished(tmp_path / "out", spec, episodes=spec.protocol.episodes)
    [bundled] = plan_of("zero_reward")
    assert "role" not in bundled.model_dump(mode="json")
    write_finished(tmp_path / "out", bundled, episodes=spec.protocol.episodes)
    collect(tmp_path / "out")
    with database.reader(tmp_path / "out") as connection:
        found = {row.algo: row.role for row in database.read_scores(connection)}
    assert found == {"mine": role, "zero_reward": "control"}
    export_results(read_runs(tmp_path / "out").runs, tmp_path / "export", version="", command="")
    rows = make_rows([ResultsSource("a", tuple(read_strictly(tmp_path / "export").published))])
    assert {row.algo: row.role for row in rows.scores} == found


@pytest.mark.parametrize(
    "change",
    [{"implementation": "other:Random"}, {"implementation_digest": "a" * 64}, {"role": "anchor"}],
)
def test_a_plugin_with_the_name_of_an_anchor_is_not_an_anchor(change):
    [spec] = plan_of("random")
    assert role_of(spec) == "anchor"
    document = spec.model_dump() | change
    if "role" in change:
        with pytest.raises(ValidationError, match="role"):
            RunSpec.model_validate(document)
    else:
        assert role_of(RunSpec.model_validate(document)) == "method"


def test_planning_imports_nothing_but_the_check_before_running_imports_plugins(tmp_path):
    plan = plan_of(str(write_plugin(tmp_path / "mine", BOMB)))
    assert len(list(plan)) == 1
    with pytest.raises(InputError, match=r"learner\.py:1: importing it raises SystemExit") as told:
        check_plugins(plan)
    assert "\n" not in str(told.value)


def test_a_class_that_is_not_a_learner_is_reported_before_anything_runs(tmp_path):
    plan = plan_of(str(write_plugin(tmp_path / "mine", "class Mine: pass")))
    with pytest.raises(InputError, match="is not a Learner; make it a subclass"):
        check_plugins(plan)


def test_a_worker_gets_the_location_of_source_from_its_job(tmp_path):
    """The job is its only source: a worker is another process, possibly on another machine."""
    write_plugin(tmp_path / "mine")
    plan = plan_of("./mine", "bc", folder=tmp_path)
    [spec] = [run for run in plan if run.algo == "mine"]
    job = Job(
        out=str(tmp_path),
        source_root=str(tmp_path),
        sources=plan.sources,
        runs=[spec],
        references={"random": 0.0, "expert": 1.0, "version": "1"},
        command="x",
    )
    program = (
        "import sys, pathlib\n"
        "from imitbench.bench.job import Job\n"
        "from imitbench.bench.implementation import make_learner\n"
        "from imitbench.util.source_import import register\n"
        "job = Job.read(pathlib.Path(sys.argv[1]))\n"
        "for digest, source in job.sources.items():\n"
        "    register(digest, source)\n"
        "print(type(make_learner(job.runs[0])).__name__)\n"
    )
    words = [sys.executable, "-c", program, str(job.write())]
    done = subprocess.run(words, capture_output=True, text=True, cwd="/", check=False)
    assert done.stdout.strip() == "Mine", done.stderr


def test_source_that_changes_during_a_sweep_is_refused(tmp_path):
    folder = write_plugin(tmp_path / "mine")
    [spec] = plan_of(str(folder))
    assert type(make_learner(spec)).__name__ == "Mine"
    (folder / "learner.py").write_text(BOMB)
    with pytest.raises(InputError, match="has changed since the run was planned"):
        make_learner(spec)


def test_a_specification_alone_runs_nothing(tmp_path, monkeypatch):
    folder = write_plugin(tmp_path / "mine", BOMB)
    [spec] = plan_of(str(folder))
    monkeypatch.setattr(source_import, "_locations", {})
    with pytest.raises(InputError, match="was not named on the command line"):
        make_learner(spec)


class TestResuming:
    @pytest.fixture
    def out(self, tmp_path):
        folder = write_plugin(tmp_path / "mine")
        out = tmp_path / "runs"
        out.mkdir()
        request = SweepRequest(
            algorithms=["./mine", "bc"],
            suite="classic",
            environment="Pendulum-v1",
            seeds=[0],
            folder=str(tmp_path),
        )
        plan = plan_request(request)
        SweepFile.of(out, list(plan), "imitbench run", plan.request).write(out)
        assert folder.is_dir()
        return out

    def test_a_plugin_must_be_named_again(self, out, tmp_path):
        missing = plan_missing(out)
        assert missing.plans == []
        [left] = missing.left_out
        assert f"resume --out {out} --algo {tmp_path / 'mine'}" in left.why
        named = plan_missing(out, plugins=PluginSelection.named([str(tmp_path / "mine")]))
        assert (named.runs, named.left_out) == (2, [])

    def test_a_results_folder_cannot_cause_a_plugin_to_run(self, out, tmp_path):
        """The file is untrusted; its names are found only among bundled and named plug-ins."""
        path = next((out / ".sweeps").glob("*.json"))
        for name in (str(tmp_path / "mine"), "./mine", "mine", "mine.learner"):
            document = json.loads(path.read_text())
            document["request"] |= {"algorithms": [name], "plugins": {}}
            path.write_text(json.dumps(document))
            [left] = plan_missing(out).left_out
            assert "no such algorithm" in left.why


class TestVerifying:
    @pytest.fixture
    def submitted(self, tmp_path):
        [spec] = plan_of(str(write_plugin(tmp_path / "mine")))
        write_finished(tmp_path / "runs", spec)
        [run] = read_runs(tmp_path / "runs").runs
        return run

    def test_runs_of_plugins_are_verified_only_with_the_plugin(self, submitted, tmp_path):
        [refused] = sample_runs([submitted], 1, seed=0).refused
        assert "cannot be verified here unless you have it" in refused.why
        plugins = PluginSelection.named([str(tmp_path / "mine")])
        [drawn] = sample_runs([submitted], 1, seed=0, plugins=plugins).runs
        assert drawn.spec == submitted.spec

    def test_a_plugin_of_the_same_name_with_other_source_is_refused(self, submitted, tmp_path):
        other = write_plugin(tmp_path / "other", "class Mine: x = 1")
        plugins = PluginSelection.named([str(other)])
        [refused] = sample_runs([submitted], 1, seed=0, plugins=plugins).refused
        assert "differs from that of the run" in refused.why
