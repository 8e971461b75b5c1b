"""Evaluations of a few episodes and small budgets, where their size is not the point."""

import contextlib
import functools

import pytest

from imitbench.bench import spec
from imitbench.bench.learners import reward_agreement
from imitbench.records.runs import Protocol


@contextlib.contextmanager
def short_evaluation():
    """Plans of this process ask for 4 episodes, not 50, and measures of rewards for 2, not 8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spec, "Protocol", functools.partial(Protocol, episodes=4, environments=4))
        patch.setattr(reward_agreement, "EPISODES", 2)
        yield


@contextlib.contextmanager
def short_training(**amounts):
    """Runs that are planned in this process have budgets of at most these amounts, by unit."""
    budget_of = spec._budget

    def shorter(*arguments):
        budget = budget_of(*arguments)
        amount = min(budget.amount, amounts.get(budget.unit, budget.amount))
        return budget.model_copy(update={"amount": amount})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spec, "_budget", shorter)
        yield
