"""With 500 answers of the oracle, agents come close to the one trained on the true reward.

CPL on Pendulum is left out: it misses 0.8 with single seeds, see `docs/preferences.md`.
"""

import pytest

from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import load_algorithm
from imitbench.experts.lookup import find_environment, find_expert
from imitbench.policies.base import RandomPolicy
from imitbench.policies.storage import load_policy
from imitbench.records.runs import Budget

EXPERTS = {"Pendulum-v1": "sac-Pendulum-v1", "seals/CartPole-v0": "ppo-seals-CartPole-v0"}


def mean_return(policy, evaluator):
    return evaluator.evaluate(policy, episodes=20, seed=0, deterministic=True).returns.mean()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "env", "amount", "settings"),
    [
        ("pebble", "Pendulum-v1", 6000, {"exploration_steps": "500"}),
        ("cpl", "seals/CartPole-v0", 1000, {}),
    ],
)
def test_four_fifths_of_the_agent_with_the_true_reward(set_up, name, env, amount, settings):
    card = load_algorithm(name)
    expert = load_policy(find_expert(EXPERTS[env]))
    learner = set_up(
        name, env=env, demos=[], expert=expert if card.needs.expert else None,
        teacher="oracle", total_comparisons="500", **settings,
    )  # fmt: skip
    learner.train(Budget(name="quick", unit=card.budget_unit, amount=amount), lambda *_: None)
    with Evaluator(find_environment(env), 20) as evaluator:
        chance = RandomPolicy(evaluator.observation_space, evaluator.action_space)
        own, best, worst = (
            mean_return(policy, evaluator) for policy in (learner.policy(), expert, chance)
        )
    assert (own - worst) / (best - worst) >= 0.8
