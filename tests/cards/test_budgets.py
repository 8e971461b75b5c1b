"""Budgets and parts of them: names, amounts, order, and what runs record."""

import pytest
from pydantic import TypeAdapter, ValidationError
from support.command import call_imitbench, refusal
from support.plans import make_plan

from imitbench.cards.budgets import BudgetAmounts, BudgetName, budget_order, split_budget
from imitbench.cards.catalog import load_suite
from imitbench.errors import InputError

AMOUNTS = BudgetAmounts(env_steps=1000, replay_steps=150, batches=7)


def test_a_part_is_rounded_and_never_nothing():
    found = [AMOUNTS.in_unit(unit, 4) for unit in ("env_steps", "replay_steps", "batches", "none")]
    assert found == [250, 38, 2, 0]
    assert AMOUNTS.in_unit("batches", 100) == 1
    assert AMOUNTS.in_unit("batches") == 7


@pytest.mark.parametrize(
    ("name", "expected"), [("quick", ("quick", 1)), ("default/10", ("default", 10))]
)
def test_names_are_split(name, expected):
    assert split_budget(name) == expected
    assert TypeAdapter(BudgetName).validate_python(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "tenth", "default/0", "default/", "default/1.5", "default/-1", "default/10 ", "full/²"],
)
def test_other_names_are_refused(name):
    with pytest.raises(InputError, match="a part such as default/10"):
        split_budget(name)
    with pytest.raises(ValidationError, match="a part such as default/10"):
        TypeAdapter(BudgetName).validate_python(name)


def test_parts_stand_before_the_whole():
    names = ["default", "mine", "full", "default/4", None, "quick", "default/10"]
    assert sorted(names, key=budget_order)[:5] == [
        "quick", "default/10", "default/4", "default", "full",
    ]  # fmt: skip


def test_a_run_records_its_part():
    [whole], [part] = (
        make_plan(
            algorithms=["dac"], suite="seals", environment="Hopper*", seeds=[0], budget=budget
        )
        for budget in ("default", "default/4")
    )
    assert (part.budget.name, part.budget.unit) == ("default/4", "replay_steps")
    assert part.budget.amount * 4 == whole.budget.amount
    assert part.run_id != whole.run_id


def test_earlier_amounts_have_parts():
    card = load_suite("classic").environments["Pendulum-v1"]
    old = BudgetAmounts(env_steps=80, batches=40)
    card = card.model_copy(update={"earlier_budgets": {"quick": [old]}})
    assert card.was_amount("quick/4", "env_steps", 20)
    assert not card.was_amount("quick/4", "env_steps", 80)
    assert card.with_amount("quick/4", "env_steps", 20).amount("quick/2", "batches") == 20


def test_the_command_line_and_the_report_name_it(tmp_path):
    line = refusal(call_imitbench("run", "--algo", "bc", "--budget", "default/x", cwd=tmp_path))
    assert "'--budget': default/x: must be one of quick, default, full, or a part" in line
    words = ("--algo", "bc", "--suite", "diagnostics", "--env", "*NoisyObs*", "--seeds", "1")
    done = call_imitbench("run", *words, "--budget", "default/100", "--quiet", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "budget default/100" in call_imitbench("report", cwd=tmp_path).out
    assert call_imitbench("results", "export", "sent", cwd=tmp_path).code == 0
    checked = call_imitbench("leaderboard", "validate", "sent", cwd=tmp_path)
    [row] = [each for each in checked.out.splitlines() if each.startswith("budget")]
    assert row.split()[1] == "ok"
