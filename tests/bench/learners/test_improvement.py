"""Every method that trains gives a policy that is significantly better than random."""

import pytest
from support.mixtures import supplement_of

from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.experts.lookup import find_environment, find_expert
from imitbench.policies.base import RandomPolicy
from imitbench.policies.storage import load_policy
from imitbench.records.runs import Budget
from imitbench.testing.reward_improvement import (
    is_significant_reward_improvement,
    mean_reward_improved_by,
)

pytestmark = pytest.mark.slow

# Most need half of it for a clear difference on Pendulum: from about -1,200 of random actions to
# -150.
AMOUNTS = {"bc": 1000, "dagger": 6000, "gail": 400_000, "airl": 400_000, "density": 400_000}
AMOUNTS |= {"sqil": 32_000, "preference_comparisons": 120_000}
AMOUNTS |= dict.fromkeys(("trex", "drex"), 400_000)
AMOUNTS |= {"bc_mse": 1000, "bc_gmm": 1000, "bc_flow": 2000, "bc_ensemble": 1000}
AMOUNTS |= {"ensemble_dagger": 6000, "novelty_dagger": 6000}
AMOUNTS |= {"ls_iq": 10_000, "value_dice": 3000}
AMOUNTS |= {"hype": 15_000, "iq_learn": 10_000}
AMOUNTS |= {"cpl": 4000, "csil": 3000, "adril": 10_000, "dac": 10_000, "pwil": 12_000}
AMOUNTS |= dict.fromkeys(("f_irl", "ml_irl"), 20_000)
AMOUNTS |= {"gaifo": 400_000, "bco": 5000, "dac_obs": 10_000, "ls_iq_obs": 10_000}
AMOUNTS |= {"pwil_obs": 12_000, "opolo": 15_000}
AMOUNTS |= {"bc_all": 1500, "demodice": 1500}
AMOUNTS |= dict.fromkeys(("dwbc", "iswbc", "smodice"), 4000)
AMOUNTS |= {"bc_rnn": 1000, "act": 3000}
# Those of a card suit a training that is many times as long.
SOON = {"policy_tau": "0.01", "learning_starts": "500"}
FASTER = {
    **SOON, "gamma": "0.95", "actor_learning_rate": "0.001", "critic_learning_rate": "0.001",
}  # fmt: skip
SETTINGS = {
    "act": {"chunk": "2", "temporal_ensembling": "false", "learning_rate": "0.001"},
    "adril": FASTER,
    "bco": {"learning_starts": "1000"},
    "csil": {"bc_updates": "1000", "critic_updates": "500"},
    "dac": FASTER,
    "dac_obs": FASTER,
    "f_irl": SOON,
    "hype": SOON,
    "iq_learn": FASTER,
    "ml_irl": SOON,
    "opolo": FASTER,
    "pwil": {**FASTER, "prefill": "1000"},
    "pwil_obs": FASTER,
    "smodice": {"disc_batches": "300", "divergence": "kl"},
}
TRAINED = [
    name
    for name in algorithm_names()
    if load_algorithm(name).role == "method"
    and not load_algorithm(name).needs.tabular
    and name != "pebble"  # must reach more on Pendulum, see test_oracle_answers.py
    # They need many more batches there; test_sequence_cloning.py has what they learn in a second.
    and name not in ("diffusion_policy", "flow_policy")
]

FAILS = {"value_dice": "does not learn Pendulum, see docs/methods/value_dice.md"}


def returns_of(policy, evaluator):
    return evaluator.evaluate(policy, episodes=20, seed=0, deterministic=True).returns


class ReachedError(Exception):
    """Ends a training that has reached enough."""


def trains_until(reached, learner, budget):
    """Trains a learner, and looks ten times; returns whether it has reached enough.

    Budgets are generous, as processors round differently, and a training may be slow on one. Most
    trainings end long before, and the more looks, the sooner.
    """
    spent = looks = 0

    def record(step, _):
        nonlocal spent
        spent = step

    def look():
        nonlocal looks
        if spent >= (looks + 1) * budget.amount / 10:
            looks += 1
            if reached():
                raise ReachedError

    try:
        learner.train(budget, record, look)
    except ReachedError:
        return True
    return reached()


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.xfail(name in FAILS, reason=FAILS.get(name, ""), strict=True),
        )
        for name in TRAINED
    ],
)
def test_training_improves_on_random_actions(set_up, demos_of, name):
    card, pendulum = load_algorithm(name), find_environment("Pendulum-v1")
    expert = load_policy(find_expert("sac-Pendulum-v1"))
    # Cloning everything learns the mean of good and random actions.
    rates = (0.0, 0.25, 0.5) if name == "bc_all" else (0.25, 0.5, 0.75, 1.0)
    mixed = {"policy": expert, "rates": rates, "count": 10}
    learner = set_up(
        name,
        demos=demos_of["Pendulum-v1"][:20],
        expert=expert if card.needs.expert else None,
        supplement=supplement_of(pendulum, ranked=card.needs.ranking, **mixed)
        if card.needs.supplement
        else None,
        **SETTINGS.get(name, {}),
    )
    budget = Budget(name="quick", unit=card.budget_unit, amount=AMOUNTS[name])
    with Evaluator(pendulum, 20) as evaluator:
        chance = RandomPolicy(evaluator.observation_space, evaluator.action_space)
        before = returns_of(chance, evaluator)

        def has_improved():
            after = returns_of(learner.policy(), evaluator)
            significant = is_significant_reward_improvement(before, after, 0.001)
            return significant and mean_reward_improved_by(before, after, 200.0)

        assert trains_until(has_improved, learner, budget)
