"""A published race follows its registered design, or the deviation is named."""

import json
import shutil
from pathlib import Path

import pytest
from support.published import change, sign
from support.races import Training, carry_out, draw, planned, write_scored

from imitbench.errors import InputError
from imitbench.published.findings import StrictFindings
from imitbench.published.results_folder import races_of, read_runs, write_results
from imitbench.published.submission import read_submission, restore_runs
from imitbench.published.validation import validate
from imitbench.store.races import RegisteredRace, read_races


def publish(out, folder, races=None):
    runs = read_runs(out).runs
    races = races_of(out, runs) if races is None else races
    write_results(runs, folder, version="0", command="imitbench results export", races=races)
    return folder


@pytest.fixture(scope="module")
def raced(tmp_path_factory):
    """A results folder with a race that ended after the second look, by two pairs."""
    out = tmp_path_factory.mktemp("raced")
    carry_out(planned(new=("gail", "sqil"), max_seeds=9), out)
    return out


@pytest.fixture
def out(raced, tmp_path):
    return Path(shutil.copytree(raced, tmp_path / "runs"))


def problems(folder):
    return [str(each) for each in validate(folder).of_check("races")]


def test_a_race_with_unequal_seeds_is_valid(out, tmp_path):
    found = validate(publish(out, tmp_path / "published"))
    assert {len(list((out / "classic" / algo).glob("*/*"))) for algo in ("gail", "bc")} == {6, 9}
    assert not [each for each in found.problems if each.check in ("races", "seeds", "files")]
    assert [race.design for race in found.submission.races] == [
        race.design for race in read_races(out)
    ]


def test_without_its_design_unequal_seeds_are_a_problem(out, tmp_path):
    found = validate(publish(out, tmp_path / "published", races=[]))
    assert found.of_check("seeds")


def test_a_race_that_went_on_after_its_decision_is_refused(out, tmp_path):
    plan = planned(new=("gail", "sqil"), max_seeds=9).plan
    train = Training(out)
    for spec in plan:
        if (spec.algo, spec.seed) in (("gail", 6), ("gail", 7)):
            train.write(plan, spec)
    [problem] = problems(publish(out, tmp_path / "published"))
    assert "gail on Pendulum-v1 went on after the decision with 6 seeds" in problem
    assert "seeds 6, 7" in problem


def test_a_race_that_stopped_before_a_decision_is_refused(out, tmp_path):
    for path in out.glob("classic/sqil/*/*/spec.json"):
        if json.loads(path.read_text())["seed"] == 8:
            shutil.rmtree(path.parent)
    [problem] = problems(publish(out, tmp_path / "published"))
    assert "sqil on Pendulum-v1 stopped before a decision: no run of seeds 8" in problem


def test_decisions_follow_from_the_episodes(tmp_path):
    """Episodes of a collapse of `gail` turned into successes: then nothing was decided."""
    out = tmp_path / "runs"
    carry_out(planned(), out)
    plan = planned().plan
    references = read_races(out)[0].design.references["Pendulum-v1"]
    for spec in plan:
        if spec.algo == "gail" and spec.seed < 6:
            at = read_races(out)[0].registered_at
            write_scored(out, spec, draw(spec, {"gail": 0.9}), references, at)
    found = problems(publish(out, tmp_path / "published"))
    assert any("gail on Pendulum-v1 stopped before a decision" in each for each in found)


def test_a_design_registered_after_its_runs_is_refused(out, tmp_path):
    [race] = read_races(out)
    later = race.model_copy(update={"registered_at": "2999-01-01T00:00:00.000+00:00"}).sealed()
    [problem] = problems(publish(out, tmp_path / "published", races=[later]))
    assert "ended before the design was registered" in problem


def test_a_design_changed_by_hand_is_refused(out, tmp_path):
    folder = publish(out, tmp_path / "published")
    [path] = folder.glob("races/*.json")
    change(folder, f"races/{path.name}", '"alpha": 0.05', '"alpha": 0.2')
    [problem] = problems(folder)
    assert "was changed after it was registered" in problem
    path.write_text("{}")
    sign(folder)
    [problem] = problems(folder)
    assert "not the design of a race" in problem


def test_another_design_for_the_same_runs_is_refused(out, tmp_path):
    [race] = read_races(out)
    design = race.design.model_copy(update={"batch": 4})
    other = RegisteredRace.model_validate({**race.model_dump(), "design": design}).sealed()
    assert problems(publish(out, tmp_path / "published", races=[other]))


def test_restored_results_have_the_design(out, tmp_path):
    submission = read_submission(publish(out, tmp_path / "published"), StrictFindings("x"))
    runs = [each.run for each in submission.runs]
    restored = tmp_path / "restored"
    made, present = restore_runs(runs, restored, submission.races)
    assert (made, present) == (len(runs), 0)
    assert read_races(restored) == read_races(out)
    assert restore_runs(runs, restored, submission.races) == (0, len(runs))


def test_another_design_of_the_same_methods_is_not_restored(out, tmp_path):
    submission = read_submission(publish(out, tmp_path / "published"), StrictFindings("x"))
    other = tmp_path / "other"
    carry_out(planned(new=("gail",), max_seeds=6), other)
    before = sorted(other.rglob("*"))
    with pytest.raises(InputError, match="has a race of gail against bc with another"):
        restore_runs([each.run for each in submission.runs], other, submission.races)
    assert sorted(other.rglob("*")) == before
