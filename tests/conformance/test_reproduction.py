"""Selects runs of a submission to train again, and compares the results."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from support.plans import make_plan
from support.submissions import write_submitted_runs

from imitbench.bench.sweep import _grouped
from imitbench.conformance.reproduction import (
    Reproduction,
    ReproductionSample,
    compare_run,
    record_verification,
    sample_runs,
)
from imitbench.published.results_folder import read_runs
from imitbench.published.run_checks import recompute
from imitbench.published.verification import ReturnComparison, check_verification
from imitbench.records.published import PublishedRun
from imitbench.records.runs import RunSpec
from imitbench.store.run_dir import RunDirectory


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    out = tmp_path_factory.mktemp("submitted") / "runs"
    write_submitted_runs(out, algorithms=("bc", "random"), env=None, failing=())
    write_submitted_runs(out, algorithms=("gail",), failing=(("gail", "Pendulum-v1", 1),))
    return out


@pytest.fixture(scope="module")
def submitted(out):
    return read_runs(out).runs


def ids(drawn):
    return [run.spec.run_id for run in drawn.runs]


def test_the_draw_follows_its_seed(submitted):
    first = sample_runs(submitted, 4, seed=0)
    assert ids(first) == ids(sample_runs(submitted[::-1], 4, seed=0))
    others = {tuple(ids(sample_runs(submitted, 4, seed=seed))) for seed in range(5)}
    assert len(others) == 5
    assert all(run.result is not None for run in first.runs)


def test_anchors_are_drawn_last_and_failures_never(submitted):
    everything = sample_runs(submitted, 100, seed=0)
    assert len(everything.runs) == len(submitted) - 1
    algorithms = [run.spec.algo for run in everything.runs]
    assert set(algorithms[-9:]) == {"random"}
    assert "random" not in algorithms[:-9]


def test_plans_train_the_drawn_runs_and_no_others(submitted):
    drawn = sample_runs(submitted, 5, seed=3)
    planned = [spec for plan in drawn.plans for spec in plan]
    assert sorted(spec.run_id for spec in planned) == sorted(ids(drawn))
    assert {spec.digest for spec in planned} == {run.spec.digest for run in drawn.runs}
    [plan] = drawn.plans  # in parallel
    assert plan.only is not None


def published(plan):
    return [PublishedRun(spec, object(), None, None) for spec in plan]


def test_a_run_of_a_pack_is_trained_with_the_other_seeds_of_its_pack():
    runs = published(make_plan(["dac"], "classic", "Pendulum-v1", seeds=range(3, 9), pack=3))
    drawn = sample_runs(runs, 2, seed=1)
    groups = [
        ([run.seed for run in own], [run.seed for run in others])
        for plan in drawn.plans
        for own, others in _grouped(plan, list(plan), 1)
    ]
    seeds = [run.spec.seed for run in drawn.runs]
    assert sorted(seed for own, _ in groups for seed in own) == sorted(seeds)
    assert {tuple(sorted(own + others)) for own, others in groups} == {
        (3, 4, 5) if seed < 6 else (6, 7, 8) for seed in seeds
    }


def test_a_run_of_an_incomplete_pack_is_refused():
    runs = published(make_plan(["dac"], "classic", "Pendulum-v1", seeds=range(4), pack=2))[:3]
    drawn = sample_runs(runs, 3, seed=0)
    assert sorted(run.spec.seed for run in drawn.runs) == [0, 1]
    [refused] = drawn.refused
    assert "a pack of 2 seeds, of which the submission has only 2" in refused.why


def changed(run, **changes):
    return PublishedRun(run.spec.model_copy(update=changes), run.result, None, run.episodes)


def other_demos(spec: RunSpec):
    return {"demos": spec.demos.model_copy(update={"digest": "0" * 64})}


REFUSED = {
    "another implementation": (lambda _: {"implementation": "os:system"}, "os:system, is not"),
    "an algorithm of one's own": (lambda _: {"algo": "mine"}, "no such algorithm"),
    "a suite of one's own": (lambda _: {"suite": "mine"}, "no such suite"),
    "a budget of one's own": (
        lambda spec: {"budget": spec.budget.model_copy(update={"name": "tiny"})}, "no budget"),
    "other demonstrations": (other_demos, "has another demos.digest here"),
    "demonstrations of one's own": (
        lambda spec: {"demos": spec.demos.model_copy(update={"source": "path:/etc"})},
        "path:/etc, not from this package"),
    "another amount": (
        lambda spec: {"budget": spec.budget.model_copy(update={"amount": 1})},
        "has another budget.amount here"),
    "a trick": (
        lambda spec: {"hyperparameters": {**spec.hyperparameters, "trick": 1}},
        "no such hyper-parameter"),
    "another environment": (
        lambda spec: {"environment": spec.environment.model_copy(update={"id": "*"})},
        "matches no environment"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_run_that_cannot_be_trained_here_is_replaced_by_another(submitted, case):
    change, why = case
    good, bad = [run for run in submitted if run.spec.algo == "bc"][:2]
    bad = changed(bad, **change(bad.spec))
    drawn = sample_runs([bad, good], 2, seed=0)
    assert ids(drawn) == [good.spec.run_id]
    [refused] = drawn.refused
    assert why in refused.why


def moved(run, out, returns):
    """The run as another machine may reproduce it."""
    episodes = run.episodes
    new = type(episodes)(returns, episodes.lengths, episodes.terminated, episodes.deterministic)
    directory = RunDirectory.of(out, run.spec)
    directory.write_episodes(new)
    directory.finish(run.result.model_copy(update=recompute(new)))


@pytest.mark.parametrize(
    ("verdict", "distance"),
    [("identical", 0.0), ("within noise", 0.5), ("within seeds", 29.0), ("different", 31.0)],
)
def test_verdicts_are_by_the_noise_of_evaluation_and_the_spread_of_seeds(
    tmp_path, out, verdict, distance
):
    """Episodes spread by 1 around a run's mean, and runs of three seeds are 10 apart."""
    shutil.copytree(out, tmp_path / "runs")
    runs = [run for run in read_runs(out).runs
            if (run.spec.algo, run.spec.environment.id) == ("bc", "Pendulum-v1")]  # fmt: skip
    rng = np.random.default_rng(0)
    noise = rng.normal(size=100)
    for half in (slice(50), slice(50, 100)):
        noise[half] = (noise[half] - noise[half].mean()) / noise[half].std()
    for seed, run in enumerate(runs):
        moved(run, tmp_path / "runs", 10.0 * seed + noise)
    submitted = [run for run in read_runs(tmp_path / "runs").runs if run.spec in
                 [each.spec for each in runs]]  # fmt: skip
    shutil.copytree(tmp_path / "runs", tmp_path / "here")
    moved(submitted[0], tmp_path / "here", submitted[0].episodes.returns + distance)
    found = compare_run(submitted[0], tmp_path / "here", submitted)
    assert found.verdict == verdict
    assert found.agrees == (verdict != "different")
    assert found.stochastic.difference == pytest.approx(distance)
    assert found.stochastic.noise_band == pytest.approx(3 * np.sqrt(2 / 49))
    assert found.stochastic.seed_band == pytest.approx(30.0)  # 3 √2 by the spread of 10 and 20
    assert found.same_setting


def test_a_run_is_excluded_from_its_own_seed_band(out, submitted):
    first, second, *_ = [run for run in submitted if run.spec.algo == "bc"]
    for peers in ([first], [first, second]):
        found = compare_run(first, out, peers)
        assert (found.verdict, found.stochastic.seed_band) == ("identical", None)


def test_a_run_that_fails_here_does_not_agree(out, submitted):
    failed = next(run for run in submitted if run.failure is not None)
    twin = next(run for run in submitted if run.result is not None)
    claimed = PublishedRun(failed.spec, twin.result, None, twin.episodes)
    found = compare_run(claimed, out, submitted)
    assert (found.verdict, found.agrees) == ("failed", False)
    assert found.problem == "train: FloatingPointError: the loss is nan"


def test_forged_episodes_do_not_widen_their_own_band(out, submitted):
    """Half of them at +1900, half at -2100: their mean is near any other's, by their spread."""
    run = next(run for run in submitted if run.spec.algo == "bc")
    returns = np.where(np.arange(100) % 2, 1900.0, -2100.0)
    episodes = replace(run.episodes, returns=returns)
    result = run.result.model_copy(update=recompute(episodes))
    found = compare_run(PublishedRun(run.spec, result, None, episodes), out, [])
    assert (found.verdict, found.agrees) == ("different", False)


def test_a_record_has_no_difference_without_numbers(submitted):
    """Readers would refuse it: anybody can write that a run differs."""
    run = next(run for run in submitted if run.result is not None)
    found = ReturnComparison(
        stated=run.result.raw_return, found=np.nan, noise_band=1.0, seed_band=None
    )
    record = record_verification(
        "theirs", "digest", [run], ReproductionSample(),
        [Reproduction(run.spec, "different", found, found)],
        by="x", seed=0, public_seed=None, command="x",
    )  # fmt: skip
    [verified] = record.runs
    assert (verified.verdict, verified.problem) == ("failed", "returns are not finite")
    assert not record.refutes and not record.agrees
    check_verification(record, "record", "digest", [run])
