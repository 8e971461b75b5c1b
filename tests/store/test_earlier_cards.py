"""Results with earlier defaults or budgets of a card are valid and distinguishable."""

import json
from pathlib import Path

import pytest

from imitbench.bench.request import PluginSelection
from imitbench.cards.budgets import BudgetAmounts
from imitbench.cards.catalog import load_algorithm, load_suite
from imitbench.conformance import reproduction
from imitbench.published.card_checks import check_against_cards
from imitbench.published.findings import Findings
from imitbench.published.submission import LocatedRun
from imitbench.records import bundled_cards
from imitbench.records.published import PublishedRun
from imitbench.records.runs import ReferenceScores, RunFailure, RunSpec
from imitbench.store.comparability import run_row

RUNS = Path(__file__).resolve().parents[2] / "results/imitbench-seals-adversarial/runs/seals.jsonl"
OLD, NEW = 500_000, 7_654_321


@pytest.fixture
def spec():
    """A published run of GAIL."""
    specs = (json.loads(line)["spec"] for line in RUNS.read_text().splitlines())
    return RunSpec.model_validate(next(each for each in specs if each["algo"] == "gail"))


@pytest.fixture
def changed_suite(monkeypatch):
    """Suite seals, whose default budget was OLD and is now NEW."""
    suite = load_suite("seals")
    old = BudgetAmounts(env_steps=OLD, batches=20000)
    environments = {
        env_id: card.model_copy(
            update={
                "budgets": {**card.budgets, "default": old.model_copy(update={"env_steps": NEW})},
                "earlier_budgets": {"default": [old]},
            }
        )
        for env_id, card in suite.environments.items()
    }
    suite = suite.model_copy(update={"environments": environments})
    monkeypatch.setattr(bundled_cards, "_suite", lambda _: suite)
    return suite


@pytest.fixture
def changed_card(monkeypatch):
    """GAIL with changed defaults, once more since the published run."""
    card = load_algorithm("gail")
    parameters = dict(card.hyperparameters)
    changes = {"log_std_init": -1.0, "learning_rate": 0.123}
    before = {name: parameters[name].default for name in changes}
    for name, value in changes.items():
        parameters[name] = parameters[name].model_copy(update={"default": value})
    earlier = [{**before, **each} for each in card.earlier_defaults] + [before]
    card = card.model_copy(update={"hyperparameters": parameters, "earlier_defaults": earlier})
    monkeypatch.setattr(bundled_cards, "_algorithm", lambda _: card)
    return card


def findings(spec):
    references = ReferenceScores(random=0.0, expert=1.0, version="1")
    run = PublishedRun(spec, None, RunFailure.model_construct(references=references), None)
    found = Findings()
    check_against_cards([LocatedRun("here", run)], found)
    return [e for e in found.problems if e.check in ("budget", "algorithm")], found.notes


def test_a_result_keeps_the_budget_that_it_had(spec, changed_suite):
    problems, told = findings(spec)
    assert not problems
    assert f"budget default was {OLD} env_steps then; now it is {NEW}" in {e.what for e in told}
    assert run_row(spec).budget == f"default-{OLD}"


def test_the_current_budget_has_its_plain_name(spec, changed_suite):
    new = spec.model_copy(update={"budget": spec.budget.model_copy(update={"amount": NEW})})
    assert not findings(new)[0]
    assert run_row(new).budget == "default"
    other = spec.model_copy(update={"budget": spec.budget.model_copy(update={"amount": OLD - 1})})
    assert [each.check for each in findings(other)[0]] == ["budget"]
    assert run_row(other).budget == "default"


def test_it_can_be_trained_again_with_that_budget(spec, changed_suite, monkeypatch):
    monkeypatch.setattr(PluginSelection, "suite", lambda *_: changed_suite)
    draw = reproduction.sample_runs([PublishedRun(spec, object(), None, None)], 1, seed=0)
    assert [each.run_id for each in draw.plans[0]] == [spec.run_id]


def test_a_result_keeps_the_label_that_it_had(spec, changed_card):
    assert spec.variant == ""
    assert not findings(spec)[0]
    bent = {**spec.hyperparameters, "learning_rate": 0.5}
    problems, _ = findings(spec.model_copy(update={"hyperparameters": bent}))
    assert [each.check for each in problems] == ["algorithm"]
