"""Requests of sweeps can be planned again, and missing runs be done."""

import json
import shutil

import pytest
from support.synthetic_runs import write_failed, write_finished

from imitbench.bench import request as module
from imitbench.bench.plan import DemoChoice, plan_request
from imitbench.bench.request import plan_missing, plan_requests
from imitbench.cards.catalog import suite_directory
from imitbench.errors import InputError
from imitbench.store.sweep_file import SWEEPS_FOLDER, SweepFile, SweepRequest

COMMAND = "imitbench run --algo bc"


@pytest.fixture
def out(tmp_path):
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


def requested(tmp_path, **changes):
    fields = {
        "algorithms": ["bc"],
        "suite": "classic",
        "environment": "Pendulum-v1",
        "seeds": [0, 1, 2],
        "budget": "quick",
        "folder": str(tmp_path),
    }
    return SweepRequest(**fields | changes)


def ask_for(out, request):
    """Writes the file that a sweep writes; returns its runs."""
    plan = plan_request(request)
    runs = list(plan)
    SweepFile.of(out, runs, COMMAND, plan.request).write(out)
    return runs


def ids(plan):
    return [run.run_id for run in plan]


def test_planning_a_request_again_gives_the_same_plan(tmp_path, out):
    request = requested(tmp_path, n_demos=5, overrides={"bc.hidden_size": "8"})
    runs = ask_for(out, request)
    missing = plan_missing(out)
    assert (missing.runs, missing.left_out) == (3, [])
    assert [list(plan) for plan in missing.plans] == [runs]


def test_all_means_the_algorithms_at_the_time_of_the_request(tmp_path):
    plan = plan_request(requested(tmp_path, algorithms=["all"]))
    assert {"bc", "gail", "random"} <= set(plan.request.algorithms)


def test_failed_and_interrupted_runs_are_missing_and_finished_ones_are_not(tmp_path, out):
    runs = ask_for(out, requested(tmp_path))
    write_finished(out, runs[0])
    write_failed(out, runs[1])
    missing = plan_missing(out)
    assert missing.runs == 2
    for run in runs[1:]:
        write_finished(out, run)
    missing = plan_missing(out)
    assert (missing.plans, missing.runs) == ([], 0)


def test_a_run_that_two_sweeps_requested_is_resumed_once(tmp_path, out):
    first = ask_for(out, requested(tmp_path, seeds=[0, 1]))
    ask_for(out, requested(tmp_path, seeds=[1, 2]))
    missing = plan_missing(out)
    planned = [run_id for plan in missing.plans for run_id in ids(plan)]
    assert (len(planned), missing.runs) == (3, 3)
    assert {run.run_id for run in first} < set(planned)


def test_runs_of_changed_cards_are_reported_and_skipped(tmp_path, out, monkeypatch):
    runs = ask_for(out, requested(tmp_path))
    real = module.plan_request

    def with_other_card(*arguments, **cards):
        plan = real(*arguments, **cards)
        [(card, hyperparameters)] = plan.algorithms
        changed = [(card, {**hyperparameters, "batch_size": "7"})]
        return module.replace(plan, algorithms=changed)

    monkeypatch.setattr(module, "plan_request", with_other_card)
    missing = plan_missing(out)
    assert missing.plans == []
    [left] = missing.left_out
    assert (left.command, left.runs) == (COMMAND, len(runs))
    assert "changed since" in left.why
    assert f"{SWEEPS_FOLDER}/" in left.why


def test_a_sweep_that_cannot_be_planned_any_more_does_not_stop_the_others(tmp_path, out):
    ask_for(out, requested(tmp_path))
    path = next((out / SWEEPS_FOLDER).glob("*.json"))
    broken = json.loads(path.read_text())
    broken["request"]["algorithms"] = ["bd"]
    broken["cells"][0]["run_ids"] = ["0" * 12]
    (path.parent / "broken.json").write_text(json.dumps(broken))
    missing = plan_missing(out)
    assert missing.runs == 3
    assert ["did you mean 'bc'" in left.why for left in missing.left_out] == [True]


def test_the_file_of_an_older_version_names_the_command(tmp_path, out):
    ask_for(out, requested(tmp_path))
    path = next((out / SWEEPS_FOLDER).glob("*.json"))
    old = json.loads(path.read_text()) | {"schema_version": 1}
    del old["request"]
    path.write_text(json.dumps(old))
    [left] = plan_missing(out).left_out
    assert (left.command, left.runs) == (COMMAND, 3)
    assert "type that command again" in left.why
    # That is enough: the same runs write the same file, with the request.
    ask_for(out, requested(tmp_path))
    assert plan_missing(out).left_out == []


def test_paths_start_where_the_command_was_typed(tmp_path, out, monkeypatch):
    project = tmp_path / "project"
    for part in ("experts", "demos"):
        shutil.copytree(
            suite_directory("classic") / part / "sac-Pendulum-v1",
            project / "mine" / part / "sac-Pendulum-v1",
        )
    request = requested(project, source="path:mine")
    monkeypatch.chdir(project)
    runs = ask_for(out, request)
    assert runs[0].demos.source == "path:mine"
    monkeypatch.chdir(tmp_path)
    missing = plan_missing(out)
    assert [list(plan) for plan in missing.plans] == [runs]
    shutil.rmtree(project)
    [left] = plan_missing(out).left_out
    assert "path:mine" in left.why


def test_a_named_lock_file_must_exist(tmp_path):
    with pytest.raises(InputError, match=r"absent\.lock: no such file; run `imitbench prefetch"):
        plan_request(requested(tmp_path, source="hub", lock="absent.lock"))


def test_a_missing_folder_is_reported(tmp_path):
    with pytest.raises(InputError, match="imitbench run"):
        plan_missing(tmp_path / "absent")


def test_a_plan_can_be_limited_to_some_runs(tmp_path):
    plan = plan_request(requested(tmp_path))
    wanted = ids(plan)[1]
    assert ids(module.replace(plan, only=frozenset([wanted]))) == [wanted]


def test_planning_does_not_change_the_results_folder(tmp_path, out):
    ask_for(out, requested(tmp_path))
    before = sorted(out.rglob("*"))
    assert plan_missing(out).runs == 3
    assert sorted(out.rglob("*")) == before


def test_several_numbers_of_demonstrations_are_a_plan_each(tmp_path):
    request = requested(tmp_path, algorithms=["random", "bc"], overrides={"bc.hidden_size": "8"})
    plans = plan_requests([request], DemoChoice((1, 3, None)))
    runs = [run for plan in plans for run in plan]
    assert len({run.run_id for run in runs}) == len(runs) == 3 * 4
    counts = [run.demos.count for run in runs if run.demos is not None]
    assert counts == [1] * 3 + [3] * 3 + [runs[-1].demos.available] * 3
    assert [plan.request.n_demos for plan in plans] == [1, 3, None]


def test_an_override_of_a_method_without_demonstrations_goes_to_the_first_plan(tmp_path):
    overrides = {"dagger.max_rounds": "2", "hidden_size": "8"}
    request = requested(tmp_path, algorithms=["dagger", "bc"], overrides=overrides)
    first, second = plan_requests([request], DemoChoice((1, 3)))
    assert first.request.overrides == overrides
    assert second.request.overrides == {"hidden_size": "8"}
    assert second.request.algorithms == ["bc"]


def test_several_numbers_need_a_method_that_takes_demonstrations(tmp_path):
    with pytest.raises(InputError, match="random use no demonstrations"):
        plan_requests([requested(tmp_path, algorithms=["random"])], DemoChoice((1, 3)))


def test_a_request_without_a_pair_that_fits_is_refused(tmp_path):
    request = requested(tmp_path, algorithms=["csil"], environment="seals/CartPole-v0")
    words = "no method fits any environment .csil on seals/CartPole-v0: acts in box spaces only"
    with pytest.raises(InputError, match=words):
        plan_requests([request], DemoChoice())
    both = request.model_copy(update={"algorithms": ["csil", "bc"]})
    [plan] = plan_requests([both], DemoChoice())
    assert {run.algo for run in plan} == {"bc"}


def test_methods_that_gain_nothing_from_a_gpu_are_a_plan_that_needs_none(tmp_path, out):
    request = requested(
        tmp_path,
        algorithms=["gail", "dac", "random"],
        device="auto",
        overrides={"gail.n_steps": "128", "hidden_size": "32", "dac.batch_size": "64"},
    )
    told = []
    cpu, gpu = plan_requests([request], DemoChoice(), told.append)
    assert told == ["on the CPU, because they train slower on a GPU: gail (8 times slower)"]
    assert (cpu.processor, cpu.request.algorithms) == ("cpu", ["gail", "random"])
    assert (gpu.processor, gpu.request.algorithms) == ("hybrid", ["dac"])
    assert cpu.request.overrides == {"gail.n_steps": "128", "hidden_size": "32"}
    assert gpu.request.overrides == {"dac.batch_size": "64", "hidden_size": "32"}
    both = [*cpu, *gpu]
    assert sorted(run.run_id for run in both) == sorted(ids(plan_request(request)))
    for plan in (cpu, gpu):
        SweepFile.of(out, list(plan), COMMAND, plan.request).write(out)
    missing = plan_missing(out)
    assert missing.left_out == []
    assert {run.run_id for plan in missing.plans for run in plan} == {run.run_id for run in both}


def test_a_requested_gpu_that_makes_methods_slower_is_told(tmp_path):
    told = []
    plan_requests(
        [requested(tmp_path, algorithms=["gail"], device="cuda")], DemoChoice(), told.append
    )
    assert told == [
        "train slower on a GPU than on one core: gail (8 times slower); omit --device cuda"
    ]
