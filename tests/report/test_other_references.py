"""Comparisons of runs whose scores have different references."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support import shown_results
from support.shown_results import write_results
from typer.testing import CliRunner

from imitbench.cli.main import app
from imitbench.errors import InputError
from imitbench.report.comparison_runs import ComparableRun, Scale, table_entries
from imitbench.report.pairwise import PairwiseOptions, compare_pairwise
from imitbench.report.pairwise_text import pairwise_document, summary
from imitbench.store.comparability import Conditions
from imitbench.store.external_results import ExternalRun

CONDITIONS = Conditions.recorded("classic", "quick", 10, "bundled")
ENVIRONMENTS = ("Pendulum-v1", "seals/CartPole-v0")
SCALE = Scale("1", -1000.0, -100.0, -90.0, "expert")
OLDER = replace(SCALE, version="0", one=-500.0, one_likely=-490.0)


def runs_of(algo, level, scale=SCALE, environments=ENVIRONMENTS, **changes):
    noises = np.random.default_rng(0).normal(0, 0.02, 8)
    return [
        ComparableRun(
            CONDITIONS, env, algo, level + noise, score_likely=level + noise, scale=scale, **changes
        )
        for env in environments
        for noise in noises
    ]


def compared(runs, baselines=("bc",), **options):
    found = PairwiseOptions(replicates=200, **options)
    [comparison] = compare_pairwise("dac", runs, runs, baselines, found)
    return comparison


def over(verdict):
    return [found.environment for found in verdict.environments]


def test_an_environment_with_other_references_is_left_out_and_named():
    """A test of scores on two scales would call one of two equal methods better."""
    runs = [
        *runs_of("dac", 0.9),
        *runs_of("bc", 0.9, environments=ENVIRONMENTS[1:]),
        *runs_of("bc", 0.5, OLDER, ENVIRONMENTS[:1]),
        *runs_of("gail", 0.5),
    ]
    found = compared(runs, ("bc", "gail"))
    bc, gail = found.verdicts
    assert (over(bc), over(gail)) == ([ENVIRONMENTS[1]], [*ENVIRONMENTS])
    assert (bc.decision, gail.decision) == ("undecided", "better")
    [line] = [line for line in summary(found, bc) if "left out" in line]
    assert line == (
        "  left out: Pendulum-v1, where the references differ: dac has version 1, bc version 0; "
        "`imitbench leaderboard rescore` scores published results with those of the suite's card"
    )
    assert not any("left out" in line for line in summary(found, gail))
    [contest] = pairwise_document([found], PairwiseOptions())["contests"]
    first, second = contest["verdicts"]
    assert first["missing"] == second["missing"] == second["other_references"] == []
    assert first["other_references"] == [
        {"environment": "Pendulum-v1", "versions": (("1",), ("0",)), "rescored": True}
    ]


def test_a_baseline_with_other_references_everywhere_has_no_verdict():
    runs = [*runs_of("dac", 0.9), *runs_of("bc", 0.5, OLDER), *runs_of("gail", 0.5)]
    bc, gail = compared(runs, ("bc", "gail")).verdicts
    assert (bc.reason, over(bc), over(gail)) == ("nothing in common", [], [*ENVIRONMENTS])
    found = compared(runs, ("bc", "gail"))
    assert summary(found, bc)[0] == (
        "dac against bc: undecided (no environment has runs of both with the same references)"
    )
    with pytest.raises(InputError) as told:
        compared(runs)
    assert str(told.value).startswith(
        "dac and bc: their scores have different references on every environment that both have; "
        "on Pendulum-v1, dac has version 1, bc version 0; `imitbench leaderboard rescore`"
    )


def test_the_runs_of_one_side_may_not_have_several_references():
    mixed = runs_of("dac", 0.9, OLDER, ENVIRONMENTS[:1])
    found = compared([*runs_of("dac", 0.9), *mixed, *runs_of("bc", 0.5)])
    assert over(found.verdicts[0]) == [ENVIRONMENTS[1]]
    [left_out] = found.other_references["bc"]
    assert left_out.versions == (("0", "1"), ("1",))


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2"},  # of a suite in which another environment was measured again
        {"one": SCALE.one + 1e-9},
        {"one_likely": None},
        {"score_one": None},
    ],
)
def test_what_has_the_same_returns_is_compared(changes):
    bc = runs_of("bc", 0.5, replace(SCALE, **changes))
    assert over(compared([*runs_of("dac", 0.9), *bc]).verdicts[0]) == [*ENVIRONMENTS]


@pytest.mark.parametrize(
    ("changes", "sampled"),
    [
        ({"random": -900.0}, False),
        ({"one": -50.0}, False),
        ({"score_one": "demonstrations"}, False),
        ({"one_likely": -50.0}, True),
    ],
)
def test_the_way_of_acting_decides_which_references_count(changes, sampled):
    other = {**changes, "version": "1+hub"}
    runs = [
        *runs_of("dac", 0.9),
        *runs_of("bc", 0.5, environments=ENVIRONMENTS[1:]),
        *runs_of("bc", 0.5, replace(SCALE, **other), ENVIRONMENTS[:1]),
    ]
    count = len(over(compared(runs, acting="sampled").verdicts[0]))
    assert count == (2 if sampled else 1)
    found = compared(runs)
    assert over(found.verdicts[0]) == [ENVIRONMENTS[1]]
    assert not found.other_references["bc"][0].rescored  # it has the expert of another source


def test_failed_runs_have_no_references():
    failed = [replace(run, score=None, scale=None) for run in runs_of("bc", 0.5)[:2]]
    runs = [*runs_of("dac", 0.9), *runs_of("bc", 0.5), *failed]
    assert over(compared(runs).verdicts[0]) == [*ENVIRONMENTS]


def test_the_references_of_a_table_are_those_of_its_runs():
    run = ExternalRun(
        place="1", status="completed", algo="bc", env="Pendulum-v1", suite="classic",
        raw_return=-200.0, reference_random=-1000.0, reference_expert=-100.0,
        reference_version="classic 0",
    )  # fmt: skip
    [entry] = table_entries([run])
    assert entry.scale == Scale("classic 0", -1000.0, -100.0)
    [entry] = table_entries([run.model_copy(update={"score": 0.5, "reference_random": None})])
    assert entry.scale is None


def test_results_with_other_references_are_not_better_than_themselves(tmp_path, monkeypatch):
    """From the files: the same runs, scored by an earlier expert of half the return."""
    skills = {"bc": ((0.9, 0.02), (0.9, 0.02), (0.9, 0.02))}
    write_results(tmp_path / "new", skills=skills, failing=())
    monkeypatch.setitem(shown_results.REFERENCES, "Pendulum-v1", (-1224.5, -700.0))
    write_results(tmp_path / "old", skills=skills, failing=(), version="0")
    words = ["compare", "bc", "--replicates", "200", "--out", str(tmp_path / "new")]
    words += ["--against", str(tmp_path / "old")]
    answer = CliRunner().invoke(app, words, catch_exceptions=False)
    assert "over 2 environments" in answer.stdout
    said = " ".join(answer.stdout.split())
    assert "left out: Pendulum-v1, where the references differ: bc has version 1.0, bc" in said
    alone = CliRunner().invoke(app, [*words, "--env", "Pendulum-v1"])
    assert alone.exit_code != 0
    assert "different references on every environment" in str(alone.exception or alone.output)
