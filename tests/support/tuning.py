"""Tunings that take only seconds: short trainings on two demonstrations."""

import dataclasses

from imitbench.cards.budgets import BudgetAmounts
from support.plans import make_plan

AMOUNTS = BudgetAmounts(env_steps=4096, batches=40)


def small_plan(algo="bc", suite="classic", env="Pendulum-v1", **settings):
    """Returns a plan with very small budgets."""
    plan = make_plan([algo], suite, env, **{"budget": "quick", "n_demos": 2, **settings})
    small = {
        env_id: card.model_copy(update={"budgets": dict.fromkeys(card.budgets, AMOUNTS)})
        for env_id, card in plan.environments.items()
    }
    card = plan.suite.model_copy(update={"environments": {**plan.suite.environments, **small}})
    return dataclasses.replace(plan, suite=card, environments=small)
