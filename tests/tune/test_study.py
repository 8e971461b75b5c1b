"""A study proposes the same trials despite interruptions, and each of them once."""

from pathlib import Path

import optuna
import pytest

from imitbench.errors import InputError
from imitbench.tune.request import distributions
from imitbench.tune.storage import StudyLocation, open_storage
from imitbench.tune.study import TrialStudy, read_trials
from imitbench.tune.trial_job import (
    TrialLocation,
    TrialPrunedError,
    TrialReporter,
    trial_reporter,
)


@pytest.fixture(autouse=True)
def quiet():
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture
def study_in(make_request):
    request = make_request()
    space = distributions(request.algorithm, request.space)
    return lambda storage, seed=0: TrialStudy(storage, space, request.defaults, seed)


def go_on(study, until):
    while len(study.trials) < until:
        trial = study.propose()
        study.complete(trial, -abs(trial.values["learning_rate"] - 0.003))


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
def test_a_resumed_search_equals_an_uninterrupted_one(tmp_path, study_in, kind):
    found = []
    for name, pauses in (("whole", (13,)), ("interrupted", (1, 4, 11, 13))):
        (tmp_path / name).mkdir()
        address = StudyLocation.within(tmp_path / name, kind)
        for until in pauses:
            with open_storage(address) as storage:
                go_on(study_in(storage), until)
        found.append([each.values for each in read_trials(address)])
    assert found[0] == found[1]
    assert len(found[0]) == 13


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("name", ["what?timeout=1", "100%25", "{SCHEMA_VERSION}", "{}", "a b#c"])
def test_the_folder_of_a_study_may_have_any_name(tmp_path, study_in, kind, name):
    (tmp_path / name).mkdir()
    with open_storage(StudyLocation.within(tmp_path / name, kind)) as storage:
        go_on(study_in(storage), 1)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert any((tmp_path / name).iterdir())
    assert len(read_trials(StudyLocation.within(tmp_path / name, kind))) == 1


def test_the_first_trial_is_the_default_and_seeds_matter(tmp_path, study_in, make_request):
    proposed = []
    for seed in (0, 1):
        (tmp_path / str(seed)).mkdir()
        with open_storage(StudyLocation.within(tmp_path / str(seed), "journal")) as storage:
            study = study_in(storage, seed)
            go_on(study, 3)
            proposed.append([each.values for each in study.trials])
    assert proposed[0][0] == proposed[1][0] == make_request().defaults
    assert proposed[0][1] != proposed[1][1]


def test_every_trial_is_completed_once(tmp_path, study_in):
    address = StudyLocation.within(tmp_path, "journal")
    with open_storage(address) as storage:
        study = study_in(storage)
        complete, failed, pruned, running = (study.propose() for _ in range(4))
        study.complete(complete, 0.5)
        study.fail(failed, "ValueError: no")
        TrialReporter(storage, TrialLocation(study=address, id=pruned.id)).report(1, 0.25)
        storage.set_trial_user_attr(pruned.id, "pruned", 1)
        study.prune(pruned)
    told = read_trials(address)
    assert [each.state for each in told] == ["complete", "failed", "pruned", "running"]
    assert [each.value for each in told] == [0.5, None, 0.25, None]
    assert told[1].failure == "ValueError: no"
    assert told[2].pruned_at == 1
    assert told[3].values == running.values


def test_a_value_that_is_not_finite_is_a_failure(tmp_path, study_in):
    with open_storage(StudyLocation.within(tmp_path, "journal")) as storage:
        study = study_in(storage)
        study.complete(study.propose(), float("nan"))
        [trial] = study.trials
    assert (trial.state, trial.failure) == ("failed", "the objective is not finite")


def test_a_trial_whose_mean_falls_below_the_median_is_pruned(tmp_path, study_in):
    """The first environment is easy: every mean begins high, and falls with the next ones."""
    address = StudyLocation.within(tmp_path, "sqlite")
    with open_storage(address) as storage:
        study = study_in(storage)
        for _ in range(5):
            trial = study.propose()
            with trial_reporter(TrialLocation(study=address, id=trial.id)) as reporter:
                reporter.report(1, 0.9)
                reporter.report(2, 0.6)
            study.complete(trial, 0.6)
        bad = study.propose()
    with trial_reporter(TrialLocation(study=address, id=bad.id)) as reporter:
        reporter.report(1, 0.9)
        with pytest.raises(TrialPrunedError, match="at step 2"):
            reporter.report(2, 0.3)


def test_a_trial_below_the_median_is_pruned_after_enough_trials(tmp_path, study_in):
    address = StudyLocation.within(tmp_path, "journal")
    with open_storage(address) as storage:
        study = study_in(storage)
        for number in range(5):
            trial = study.propose()
            with trial_reporter(TrialLocation(study=address, id=trial.id)) as reporter:
                reporter.report(1, float(number))  # too few to compare with
            study.complete(trial, float(number))
        good, bad, spared = (study.propose() for _ in range(3))
    with trial_reporter(TrialLocation(study=address, id=good.id)) as reporter:
        reporter.report(1, 3.0)
        reporter.report(1, -1.0)  # reported before: another attempt changes nothing
    with trial_reporter(TrialLocation(study=address, id=bad.id)) as reporter:
        assert not reporter.is_pruned
        with pytest.raises(TrialPrunedError, match="step 1"):
            reporter.report(1, 1.0)
        assert reporter.is_pruned
    with trial_reporter(TrialLocation(study=address, id=spared.id, prune=False)) as reporter:
        reporter.report(1, 1.0)
    with trial_reporter(None) as reporter:
        assert reporter is None


@pytest.mark.parametrize("kind", ["sqlite", "journal"])
@pytest.mark.parametrize("text", ["garbage\n", '{"op_code": 99}\n', "[1]\n"])
def test_a_damaged_study_is_reported_in_one_line(tmp_path, kind, text):
    address = StudyLocation.within(tmp_path, kind)
    Path(address.path).write_text(text)
    with pytest.raises(InputError, match=r"study\..*: damaged \(.*\); restore a copy") as told:
        read_trials(address)
    assert "\n" not in str(told.value)
