"""A race trains what its looks need, stops what is decided, and goes on after an interruption."""

import json
import multiprocessing

import pytest
from support.races import Training, Watching, carry_out, draw, planned

from imitbench.errors import InputError
from imitbench.records.race_design import RaceDesign
from imitbench.store.races import read_races

BOTH = "Pendulum-v1,seals/MountainCar-v0"


def verdicts(result):
    return dict(result.standing.found.outcomes)


def looks(result):
    """All looks in a form in which unknown numbers are equal."""
    return [repr(look) for look in result.standing.found.looks]


def test_a_race_stops_with_the_batch_that_decides(tmp_path):
    train = Training(tmp_path)
    result = carry_out(planned(), tmp_path, train)
    assert verdicts(result) == {(("gail", "bc"), None): "worse"}
    assert result.standing.over
    seeds = {seed for _, _, seed in train.trained}
    assert seeds == set(range(6))
    assert len(train.trained) == 12


def test_the_design_is_registered_before_the_first_run(tmp_path):
    def look_first(plan):
        [race] = read_races(tmp_path)
        assert race.design.max_seeds == 12
        assert not list(tmp_path.glob("classic/*"))
        return Training(tmp_path, stop_after=0)(plan)

    result = carry_out(planned(), tmp_path, look_first)
    assert result.trained.left == 6


def test_a_race_stopped_after_any_run_goes_on_to_the_same_looks(tmp_path):
    whole = carry_out(planned(), tmp_path / "whole")
    runs = len(whole.standing.runs)
    for stop in (1, 5, 6, 8, runs - 1):
        out = tmp_path / f"stopped-{stop}"
        first = Training(out, stop_after=stop)
        carry_out(planned(), out, first)
        again = Training(out)
        result = carry_out(planned(), out, again)
        assert looks(result) == looks(whole)
        assert len(first.trained) + len(again.trained) == runs
        assert not set(first.trained) & set(again.trained)


def test_a_race_that_is_over_trains_nothing_more(tmp_path):
    carry_out(planned(), tmp_path)
    again = Training(tmp_path)
    assert carry_out(planned(), tmp_path, again).standing.over
    assert again.trained == []


def test_a_decided_pair_trains_no_further_and_the_baseline_only_for_others(tmp_path):
    train = Training(tmp_path)
    race = planned(new=("gail", "sqil"), margin=0.001)
    result = carry_out(race, tmp_path, train)
    assert verdicts(result)[("gail", "bc"), None] == "worse"
    assert verdicts(result)[("sqil", "bc"), None] == "undecided"
    used = result.standing.design.used(result.standing.found)
    assert used["gail", "Pendulum-v1"] < used["bc", "Pendulum-v1"] == 12
    counts = {algo: sum(each[0] == algo for each in train.trained) for algo in ("gail", "bc")}
    assert counts == {algo: used[algo, "Pendulum-v1"] for algo in counts}


def test_a_decided_environment_trains_no_further(tmp_path):
    def score(spec):
        levels = {"gail": 0.1 if spec.environment.id == "Pendulum-v1" else 0.9, "bc": 0.9}
        spread = 0.02 if spec.environment.id == "Pendulum-v1" else 1.5
        return draw(spec, levels, spread)

    race = planned(env=BOTH, max_seeds=15)
    result = carry_out(race, tmp_path, Training(tmp_path, score))
    used = result.standing.design.used(result.standing.found)
    assert verdicts(result)[("gail", "bc"), "Pendulum-v1"] == "worse"
    assert used["gail", "Pendulum-v1"] < used["gail", "seals/MountainCar-v0"]
    runs = [run.spec for run in result.standing.runs]
    for cell, seeds in used.items():
        assert {s.seed for s in runs if (s.algo, s.environment.id) == cell} == set(range(seeds))


def test_methods_that_are_equal_within_the_margin_end_equivalent(tmp_path):
    result = carry_out(planned(new=("sqil",), batch=5, max_seeds=15), tmp_path)
    assert verdicts(result) == {(("sqil", "bc"), None): "equivalent"}


@pytest.mark.parametrize(("failed", "stop_after"), [(1, 7), (0, 1), (0, 4)])
def test_failed_runs_count_and_are_not_trained_again(tmp_path, failed, stop_after):
    def score(spec):
        return None if (spec.algo, spec.seed) == ("gail", failed) else draw(spec)

    carry_out(planned(), tmp_path, Training(tmp_path, score, stop_after=stop_after))
    again = Training(tmp_path, score)
    result = carry_out(planned(), tmp_path, again)
    assert ("gail", "Pendulum-v1", failed) not in again.trained
    assert len(result.standing.failures) == 1
    assert result.standing.over


def test_a_method_that_fails_every_run_stops_the_race_until_it_works(tmp_path):
    def broken(spec):
        return None if spec.algo == "gail" else draw(spec)

    result = carry_out(planned(), tmp_path, Training(tmp_path, broken))
    [(spec, failure)] = result.standing.hopeless
    assert (spec.algo, failure.message) == ("gail", "it broke")
    assert len(result.standing.runs) == 6
    mended = Training(tmp_path)
    result = carry_out(planned(), tmp_path, mended)
    assert verdicts(result) == {(("gail", "bc"), None): "worse"}
    assert mended.trained[:3] == [("gail", "Pendulum-v1", seed) for seed in range(3)]
    assert ("bc", "Pendulum-v1", 0) not in mended.trained


def test_results_from_before_the_registration_are_refused(tmp_path):
    Training(tmp_path)(planned(max_seeds=3).plan)
    with pytest.raises(InputError, match=r"has results already \(seeds 0, 1, 2\).*another --out"):
        carry_out(planned(), tmp_path)
    assert read_races(tmp_path) == []


def test_runs_of_other_seeds_are_refused(tmp_path):
    carry_out(planned(), tmp_path, Training(tmp_path, stop_after=3))
    plan = planned(max_seeds=20).plan
    write = Training(tmp_path)
    for spec in plan:
        if spec.seed == 15 and spec.algo == "bc":
            write.write(plan, spec)
    with pytest.raises(InputError, match=r"bc on Pendulum-v1 has results of seeds that.*seed 15"):
        carry_out(planned(), tmp_path)


def test_results_made_under_another_card_are_refused(tmp_path):
    carry_out(planned(), tmp_path, Training(tmp_path, stop_after=3))
    plan = planned().plan
    other = next(iter(plan))
    other = other.model_copy(
        update={"hyperparameters": {**other.hyperparameters, "extra": 1.0}, "seed": 2}
    )
    Training(tmp_path).write(plan, other)
    with pytest.raises(InputError, match="under another version of its card"):
        carry_out(planned(), tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"max_seeds": 20}, r"another limit of seeds \(12, not 20\)"),
        ({"batch": 4}, r"another batch \(3, not 4\)"),
        ({"margin": 0.1}, r"another margin \(0.05, not 0.1\)"),
        ({"new": ("gail", "airl")}, "another choice of methods"),
        ({"env": BOTH}, "another choice of environments"),
    ],
)
def test_a_changed_design_is_a_new_race_in_another_folder(tmp_path, change, said):
    carry_out(planned(), tmp_path, Training(tmp_path, stop_after=3))
    with pytest.raises(InputError, match=said):
        carry_out(planned(**change), tmp_path)
    assert [race.design.max_seeds for race in read_races(tmp_path)] == [12]


def test_races_of_other_methods_or_environments_share_a_folder(tmp_path):
    carry_out(planned(), tmp_path)
    carry_out(planned(new=("sqil",), baselines=("airl",)), tmp_path)
    carry_out(planned(env="seals/MountainCar-v0"), tmp_path)
    assert len(read_races(tmp_path)) == 3


def test_a_design_edited_by_hand_is_refused(tmp_path):
    carry_out(planned(), tmp_path, Training(tmp_path, stop_after=3))
    [path] = tmp_path.glob(".races/*/design.json")
    text = path.read_text()
    path.write_text(text.replace('"alpha": 0.05', '"alpha": 0.2'))
    with pytest.raises(InputError, match=r"design\.json: was changed after it was registered"):
        carry_out(planned(), tmp_path)
    path.write_text(text[:100])
    with pytest.raises(InputError, match=r"design\.json: not the design of a race"):
        carry_out(planned(), tmp_path)
    path.write_text(text)
    assert carry_out(planned(), tmp_path).standing.over


def _race_slowly(out, ready):
    def train(plan):
        ready.wait()
        with (out / "trained.txt").open("a") as log:
            for spec in plan:
                log.write(f"{spec.run_id}\n")
        return Training(out)(plan)

    carry_out(planned(), out, train)


def test_two_processes_on_one_race_never_train_a_seed_twice(tmp_path):
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    processes = [context.Process(target=_race_slowly, args=(tmp_path, ready)) for _ in range(2)]
    for process in processes:
        process.start()
    ready.set()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    trained = (tmp_path / "trained.txt").read_text().split()
    assert len(trained) == len(set(trained)) == 12
    assert carry_out(planned(), tmp_path, Training(tmp_path, stop_after=0)).standing.over


def test_progress_is_told_after_each_look(tmp_path):
    seen = Watching()
    carry_out(planned(), tmp_path, observer=seen)
    assert [len(standing.found.looks) for standing in seen.standings] == [0, 1, 2]
    assert [standing.over for standing in seen.standings] == [False, False, True]


def sampled_alone(spec):
    """Scores that differ by sampled actions, and not by the most likely ones."""
    return draw(spec), draw(spec, dict.fromkeys(("gail", "bc"), 0.9), 0.2)


def test_a_race_goes_on_while_most_likely_actions_have_not_decided(tmp_path):
    sampled = carry_out(
        planned(), tmp_path / "sampled", Training(tmp_path / "sampled", sampled_alone)
    )
    assert len(sampled.standing.runs) == 12
    assert verdicts(sampled) == {(("gail", "bc"), None): "worse"}
    out = tmp_path / "both"
    found = carry_out(planned(acting="both"), out, Training(out, sampled_alone)).standing
    assert len(found.runs) == 24
    assert found.over
    assert {way: [*said.values()] for way, said in found.found.by_acting.items()} == {
        "sampled": ["worse"],
        "likely": ["undecided"],
    }
    assert found.found.outcomes == {(("gail", "bc"), None): "undecided"}
    out = tmp_path / "likely"
    found = carry_out(planned(acting="likely"), out, Training(out, sampled_alone)).standing
    assert {look.acting for look in found.found.looks} == {"likely"}
    assert found.found.outcomes == {(("gail", "bc"), None): "undecided"}


def test_both_ways_of_acting_are_the_default_where_both_references_are_known():
    race = planned(acting=None)
    assert race.race.design.acting == "both"
    assert race.race.design.references["Pendulum-v1"].expert_likely is not None
    assert race.notes == []
    assert planned().race.design.references["Pendulum-v1"].expert_likely is None


def test_a_race_stored_before_there_was_a_choice_goes_on_by_sampled_actions(tmp_path):
    whole = carry_out(planned(), tmp_path / "whole", Training(tmp_path / "whole", sampled_alone))
    out = tmp_path / "stored"
    carry_out(planned(), out, Training(out, sampled_alone, stop_after=7))
    [path] = out.glob(".races/*/design.json")
    assert "acting" not in path.read_text()
    assert "expert_likely" not in path.read_text()
    again = planned(acting=None, out=out)
    assert again.notes == ["sampled actions only: the race is registered so"]
    result = carry_out(again, out, Training(out, sampled_alone))
    assert looks(result) == looks(whole)
    with pytest.raises(InputError, match=r"another way of acting \(sampled, not both\)"):
        carry_out(planned(acting="both"), out)


def test_the_id_of_a_stored_design_stays():
    cell = {"label": "bc", "setting": "0" * 64, "budget": "quick", "n_demos": "all",
            "source": "bundled"}  # fmt: skip
    stored = {
        "suite": "classic", "pairs": [["gail", "bc"]], "environments": ["Pendulum-v1"],
        "cells": {"gail": {"Pendulum-v1": cell}, "bc": {"Pendulum-v1": cell}},
        "references": {"Pendulum-v1": {"random": -1200.0, "expert": -150.0, "version": "1"}},
        "batch": 3, "max_seeds": 12, "alpha": 0.05, "margin": 0.05,
    }  # fmt: skip
    design = RaceDesign.model_validate_json(json.dumps(stored))
    assert design.ways == ("sampled",)
    assert design.digest.startswith("c10c2aaf91be1f2b1c14aa982b5833c5")
    for acting in ("likely", "both"):
        with pytest.raises(ValueError, match=r"references.Pendulum-v1 lacks expert_likely"):
            RaceDesign.model_validate_json(json.dumps(stored | {"acting": acting}))
    with pytest.raises(ValueError, match="alpha 1e-300 is too small for 1 tests"):
        RaceDesign.model_validate_json(json.dumps(stored | {"alpha": 1e-300}))


def test_decisions_of_both_ways_are_told(tmp_path, capsys):
    from imitbench.race.reporting import RaceNotes

    carry_out(
        planned(acting="both"), tmp_path, Training(tmp_path, sampled_alone), observer=RaceNotes()
    )
    assert "decided with 6 seeds by sampled actions: gail is worse than bc: " in (
        capsys.readouterr().err
    )
