"""Tunings from the first trial to the held-out comparison, in this process, one job at a time."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from support.evaluation import short_evaluation
from support.outcomes import finished_runs
from support.tuning import small_plan

from imitbench.bench.job import Job
from imitbench.bench.worker import main as plain_worker
from imitbench.errors import InputError
from imitbench.executors.inline import InlineExecutor
from imitbench.store import lease
from imitbench.store.collector import collect
from imitbench.store.run_dir import RunDirectory
from imitbench.tune.request import StudyScope, distributions
from imitbench.tune.runner import check_request, read_studies
from imitbench.tune.storage import StudyLocation, open_storage
from imitbench.tune.study import TrialStudy
from imitbench.tune.study_runner import StudyRunner
from imitbench.tune.trial_job import TRIAL_WORKER
from imitbench.tune.worker import main as tuning_worker

ENV = "Pendulum-v1"


@pytest.fixture(scope="module", autouse=True)
def _short_evaluation():
    with short_evaluation():
        yield


class StopsAfter(InlineExecutor):
    """An executor that is interrupted before a job, as by Ctrl-C."""

    def __init__(self, jobs):
        super().__init__(TRIAL_WORKER)
        self.left = 2 * jobs  # a poll that announces, and one that does

    def poll(self, timeout):
        if not self.left:
            raise KeyboardInterrupt
        self.left -= 1
        return super().poll(timeout)


def trials_of(root):
    [study] = read_studies(root)
    return [(each.number, each.state, each.value, each.values) for each in study.trials]


def test_a_search_ends_with_a_held_out_comparison(make_request, run_tuning, tmp_path):
    out = tmp_path / "runs"
    root = out / ".tuning" / "bc"
    outcome, notes = run_tuning(make_request(), root)
    [study] = read_studies(root)
    assert [each.state for each in study.trials] == ["complete", "complete"]
    assert study.trials[0].values == make_request().defaults
    assert outcome.comparisons == {ENV: study.comparison}
    assert [len(each.scores) for each in study.comparison.standings] == [2, 2]
    assert study.comparison.decision in ("undecided", "not better")  # of two seeds
    assert [done for _, done, _ in notes.of("held_out")] == [1, 2, 3, 4]
    assert not list(root.glob("**/.jobs/*.json"))

    assert collect(out).added == 0  # trials are not results
    runs = finished_runs(root / ENV / "held-out")
    again, notes = run_tuning(make_request(trials=1), root)
    assert again.comparisons == outcome.comparisons
    assert notes.of("trial") == notes.of("held_out") == []
    assert notes.of("resumed") == [[ENV, 2, 0, 1]]
    assert finished_runs(root / ENV / "held-out") == runs


def suite_request(make_request, algo="bc", **changes):
    plan = small_plan(algo, env=None)
    some = {env_id: plan.environments[env_id] for env_id in ("seals/MountainCar-v0", ENV)}
    plan = dataclasses.replace(plan, environments=some)
    return make_request(plan=plan, per="suite", **{"held_out_seeds": (200,), **changes})


def packed_request(make_request, **changes):
    seeds = {"search_seeds": (100, 101), "held_out_seeds": (200, 201)}
    return suite_request(make_request, "gail", pack_seeds=True, **seeds, **changes)


def test_a_whole_suite_gets_the_same_values(make_request, run_tuning, tmp_path):
    request = suite_request(make_request, objective="state-match")
    outcome, _ = run_tuning(request, tmp_path)
    [study] = read_studies(tmp_path)
    assert study.settings.environments == ["seals/MountainCar-v0", ENV]
    assert outcome.comparisons == {"classic": study.comparison}
    for trial in study.trials:
        place = tmp_path / "classic" / "search" / f"{trial.number:04d}"
        specs = [request.spec(env_id, trial.values, 100) for env_id in request.plan.environments]
        results = [RunDirectory.of(place, spec).read_result() for spec in specs]
        values = [result.measures["tuning/state-match"] for result in results]
        assert trial.value == pytest.approx(np.mean(values))
        assert all(0.0 < value < 1.0 for value in values)
    with open_storage(StudyLocation.within(tmp_path / "classic", "sqlite")) as storage:
        for trial in study.trials:  # half-way through each of two runs of two points
            assert [*storage.get_trial(trial.id).intermediate_values] == [1, 3]
    for standing in study.comparison.standings:
        assert standing.environments == ["seals/MountainCar-v0", ENV]
    with pytest.raises(InputError, match="started with seals/MountainCar-v0, Pendulum-v1; give"):
        check_request(dataclasses.replace(request, plan=small_plan(env=None)), tmp_path)


@pytest.mark.slow
def test_seeds_of_a_setting_are_trained_as_one_network(make_request, run_tuning, tmp_path):
    request = packed_request(make_request)
    outcome, notes = run_tuning(request, tmp_path)
    [study] = read_studies(tmp_path)
    for trial in study.trials:
        place = tmp_path / "classic" / "search" / f"{trial.number:04d}"
        results = [RunDirectory(path.parent).read_result() for path in place.rglob("result.json")]
        specs = [RunDirectory(path.parent).read_spec() for path in place.rglob("result.json")]
        assert sorted((each.environment.id, each.seed, each.pack) for each in specs) == [
            (ENV, 100, 2), (ENV, 101, 2),
            ("seals/MountainCar-v0", 100, 2), ("seals/MountainCar-v0", 101, 2),
        ]  # fmt: skip
        assert trial.value == pytest.approx(np.mean([request.goal.of(each) for each in results]))
    with open_storage(StudyLocation.within(tmp_path / "classic", "sqlite")) as storage:
        for trial in study.trials:  # at the end of the first environment, of two points a run
            assert [*storage.get_trial(trial.id).intermediate_values] == [4]
    assert outcome.comparisons == {"classic": study.comparison}
    assert [len(each.scores) for each in study.comparison.standings] == [4, 4]
    assert [done for _, done, _ in notes.of("held_out")] == list(range(1, 9))


@pytest.mark.slow
def test_a_bad_trial_is_pruned_between_packs(make_request, run_tuning, tmp_path):
    request, root = packed_request(make_request, trials=6), tmp_path / "tuning"
    [scope] = request.scopes
    StudyRunner(request, scope, root, None).begin()
    with open_storage(StudyLocation.within(root / "classic", "sqlite")) as storage:
        space = distributions(request.algorithm, request.space)
        study = TrialStudy(storage, space, request.defaults, request.seed)
        for _ in range(5):
            trial = study.propose()
            storage.set_trial_intermediate_value(trial.id, 4, 100.0)
            study.complete(trial, 100.0)
    _, notes = run_tuning(request, root)
    [[_, trial, _, _]] = notes.of("trial")
    assert (trial.number, trial.state, trial.pruned_at) == (5, "pruned", 4)
    done = {RunDirectory(path.parent).read_spec().environment.id
            for path in (root / "classic/search/0005").rglob("result.json")}  # fmt: skip
    assert done == {"seals/MountainCar-v0"}  # the second environment was not begun


@pytest.mark.slow
@pytest.mark.parametrize("made", [suite_request, packed_request])
def test_an_interrupted_suite_ends_with_the_same_numbers(make_request, run_tuning, tmp_path, made):
    request = made(make_request)
    whole, _ = run_tuning(request, tmp_path / "whole")
    for jobs in (1, 2, 2):
        stopped, _ = run_tuning(request, tmp_path / "parts", StopsAfter(jobs))
        assert stopped.stopped
    finished, _ = run_tuning(request, tmp_path / "parts")
    assert finished.comparisons == whole.comparisons
    assert trials_of(tmp_path / "parts") == trials_of(tmp_path / "whole")


@pytest.mark.slow
def test_a_bad_trial_is_pruned_without_a_result(make_request, run_tuning, tmp_path):
    request, root = make_request(trials=6, points=4), tmp_path / "tuning"
    StudyRunner(request, StudyScope(ENV, (ENV,)), root, None).begin()
    address = StudyLocation.within(root / ENV, "sqlite")
    with open_storage(address) as storage:
        space = distributions(request.algorithm, request.space)
        study = TrialStudy(storage, space, request.defaults, request.seed)
        for _ in range(5):
            trial = study.propose()
            storage.set_trial_intermediate_value(trial.id, 1, 100.0)
            study.complete(trial, 100.0)
    _, notes = run_tuning(request, root)
    [[_, trial, _, _]] = notes.of("trial")
    assert (trial.number, trial.state, trial.pruned_at) == (5, "pruned", 1)
    [error] = (root / ENV / "search").glob("0005/*/*/*/*/error.json")
    assert "TrialPrunedError" in error.read_text()


def test_an_unsuitable_objective_ends_the_search_in_one_line(make_request, run_tuning):
    with pytest.raises(InputError, match="no discriminator/accuracy") as caught:
        run_tuning(make_request(objective="discriminator"))
    assert "\n" not in str(caught.value)


def test_two_processes_cannot_tune_in_one_folder(make_request, run_tuning, tmp_path):
    held = lease.acquire(tmp_path, wait=False)
    try:
        with pytest.raises(InputError, match="another process is tuning there"):
            run_tuning(make_request(), tmp_path)
    finally:
        held.release()


@pytest.mark.slow
def test_settings_of_a_study_that_another_process_began_meanwhile_stay(make_request, tmp_path):
    request, root = make_request(), tmp_path / "tuning"
    check_request(request, root)
    other = dataclasses.replace(request, seed=1)
    check_request(other, root)
    [scope] = request.scopes
    StudyRunner(other, scope, root, None).begin()
    with pytest.raises(InputError, match=r"another sampler seed \(1, not 0\)"):
        StudyRunner(request, scope, root, None).begin()
    StudyRunner(other, scope, root, None).begin()


def test_the_same_values_are_not_trained_twice(make_request, run_tuning, tmp_path):
    card = make_request().algorithm
    fixed = {
        name: str(value).lower()
        for name, value in card.resolve({}).items()
        if name != "normalize_observations"
    }
    request = make_request(plan=small_plan(overrides=fixed), trials=6)
    run_tuning(request, tmp_path)
    [study] = read_studies(tmp_path)
    assert [each.state for each in study.trials] == ["complete"] * 6
    assert len({each.value for each in study.trials}) == 2
    assert len(list((tmp_path / ENV / "search").iterdir())) == 2


@pytest.mark.slow
def test_failing_trials_are_reported_and_do_not_end_the_search(make_request, run_tuning, tmp_path):
    # Rounds of more steps than the budget has cannot be trained; the default ones fit.
    plan = small_plan("density", "classic", ENV)
    request = make_request(plan=plan, trials=4)
    outcome, _ = run_tuning(request, tmp_path)
    [study] = read_studies(tmp_path)
    failed = [each for each in study.trials if each.state == "failed"]
    assert len(study.trials) == 4
    assert all("less than a single round" in each.failure for each in failed)
    assert outcome.comparisons[ENV].default.scores


@pytest.mark.slow
def test_an_interrupted_tuning_ends_with_the_same_numbers(make_request, run_tuning, tmp_path):
    request = make_request(trials=3, search_seeds=(100, 101), objective="demo-likelihood")
    whole, _ = run_tuning(request, tmp_path / "whole")
    for jobs in (0, 1, 3):
        stopped, _ = run_tuning(request, tmp_path / "parts", StopsAfter(jobs))
        assert stopped.stopped
    finished, _ = run_tuning(request, tmp_path / "parts")
    assert not finished.stopped
    assert finished.comparisons == whole.comparisons
    assert trials_of(tmp_path / "parts") == trials_of(tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "suite", "env"),
    [
        ("bc", "classic", ENV),
        ("dagger", "classic", ENV),
        ("gail", "classic", ENV),
        ("density", "classic", ENV),
        ("sqil", "classic", "seals/MountainCar-v0"),
        ("sqil", "classic", ENV),
        ("preference_comparisons", "classic", ENV),
        ("mce_irl", "tabular", "seals/CliffWorld7x4-v0"),
    ],
)
def test_measurements_do_not_change_the_training(make_request, tmp_path, algo, suite, env):
    overrides = {
        "preference_comparisons": {
            "total_comparisons": "10", "num_iterations": "2", "fragment_length": "5",
            "n_envs": "2", "transfer_steps": "0",
        },
        "gail": {"n_steps": "256"},  # two rounds: the study measures between rounds
    }  # fmt: skip
    plan = small_plan(algo, suite, env, overrides=overrides.get(algo, {}))
    cell = StudyRunner(make_request(plan=plan), StudyScope(env, (env,)), tmp_path / "tuning", None)
    cell.begin()
    with open_storage(StudyLocation.within(cell.folder, "sqlite")) as storage:
        cell.open(storage, [])
        job = cell.take()
        assert tuning_worker([str(job.write())]) == 0
        reported = storage.get_trial(job.watch.trial.id).intermediate_values
    kept = {name: getattr(job, name) for name in Job.model_fields}
    plain = Job(**{**kept, "out": str(tmp_path / "plain")})
    assert plain_worker([str(plain.write())]) == 0
    watched, usual = (RunDirectory.of(Path(each.out), job.runs[0]) for each in (job, plain))
    assert len(reported) == 1
    for name in ("raw_return", "deterministic_return", "mean_length", "env_steps"):
        assert getattr(watched.read_result(), name) == getattr(usual.read_result(), name)
    curves = [(each.path / "metrics.jsonl").read_text() for each in (watched, usual)]
    assert curves[0] == curves[1]
