"""Budgets: amounts of training that a suite card names, and parts of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from imitbench.cards.algorithm import BudgetUnit, Card
from imitbench.errors import InputError

WholeBudget = Literal["quick", "default", "full"]
BUDGET_NAMES: tuple[WholeBudget, ...] = ("quick", "default", "full")
"""Names of the budgets of every card, the smallest first."""

_PATTERN = rf"({'|'.join(BUDGET_NAMES)})(?:/([1-9][0-9]{{0,3}}))?"
_KNOWN = f"must be one of {', '.join(BUDGET_NAMES)}, or a part such as default/10"


def _check_name(name: str) -> str:
    if not is_budget(name):
        raise ValueError(_KNOWN)
    return name


BudgetName = Annotated[str, AfterValidator(_check_name)]
"""Name of a budget, or of a part of one, such as `default/10`."""


def parse_budget(name: str) -> str:
    """Returns the name of a budget, or of a part of one.

    Raises:
        InputError: It is neither.
    """
    split_budget(name)
    return name


def split_budget(name: str) -> tuple[WholeBudget, int]:
    """Returns the budget that a name is a part of, and which part: 10 for a tenth, 1 for all.

    Raises:
        InputError: It is not the name of a budget.
    """
    found = re.fullmatch(_PATTERN, name, re.ASCII)
    if found is None:
        raise InputError(f"{name}: {_KNOWN}")
    [whole] = (known for known in BUDGET_NAMES if known == found[1])
    return whole, int(found[2] or 1)


def is_budget(name: str) -> bool:
    """Whether a name is that of a budget, or of a part of one."""
    return re.fullmatch(_PATTERN, name, re.ASCII) is not None


def budget_order(name: str | None) -> tuple[int, int]:
    """Returns a key that sorts budgets: parts before the whole, unknown names last."""
    if name is None or not is_budget(name):
        return len(BUDGET_NAMES), 0
    whole, part = split_budget(name)
    return BUDGET_NAMES.index(whole), -part


class BudgetAmounts(Card):
    """Training amount in each unit.

    Attributes:
        replay_steps: `None` if methods with a replay buffer have as many steps as others.
    """

    env_steps: int = Field(ge=1)
    replay_steps: int | None = Field(default=None, ge=1)
    batches: int = Field(ge=1)

    def in_unit(self, unit: BudgetUnit, part: int = 1) -> int:
        """Returns the amount of a part in a unit; 0 for methods that do not train."""
        if unit == "none":
            return 0
        amount = self.batches if unit == "batches" else self.env_steps
        if unit == "replay_steps" and self.replay_steps is not None:
            amount = self.replay_steps
        return max(1, round(amount / part))

    def recorded_unit(self, unit: BudgetUnit) -> BudgetUnit:
        """Returns the unit that a method with this unit is recorded with."""
        if unit == "replay_steps" and self.replay_steps is None:
            return "env_steps"
        return unit


Budgets = Mapping[WholeBudget, BudgetAmounts]


def recorded_budget(budgets: Budgets, name: str, unit: BudgetUnit) -> tuple[BudgetUnit, int]:
    """Returns the unit that a budget is recorded with for a method, and its amount.

    Args:
        budgets: Budgets of a card.
        name: A budget, or a part of one.
        unit: Unit of the method.
    """
    whole, part = split_budget(name)
    return budgets[whole].recorded_unit(unit), budgets[whole].in_unit(unit, part)
