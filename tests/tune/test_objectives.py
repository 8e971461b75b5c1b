"""Objectives: what they refuse and measure, and that some need no true reward."""

import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.dqn.policies import DQNPolicy
from support.tuning import small_plan

from imitbench.bench.spec import make_spec
from imitbench.cards.catalog import load_algorithm, load_suite
from imitbench.data.types import TrajectoryWithRew
from imitbench.policies.tabular import TabularPolicy
from imitbench.records.runs import ReferenceScores
from imitbench.tune.objectives import (
    OBJECTIVES,
    EvaluationPoint,
    UnsuitableObjectiveError,
    mean_log_likelihood,
    state_match,
)

OBSERVATIONS, ACTIONS = spaces.Box(-1, 1, (2,)), spaces.Discrete(3)


def spec_of(plan, seed=100):
    card = plan.algorithms[0][0]
    [env_id] = plan.environments
    return make_spec(plan.suite, env_id, card, card.resolve({}), seed, plan.request)


def episode(length, first=0):
    observations = np.full((length + 1, 2), first / 100, dtype=np.float32)
    actions = np.arange(length) % 3
    return TrajectoryWithRew(observations, actions, None, True, np.zeros(length))


def moment(curve=(), demos=(), held_out=(), policy=None):
    return EvaluationPoint(
        spec=spec_of(small_plan()),
        references=ReferenceScores(random=0.0, expert=10.0, version="1"),
        policy=policy,
        demos=demos,
        held_out=held_out,
        curve=curve,
        episodes=1,
    )


def refusal(name, algo, suite="classic", env="Pendulum-v1", **settings):
    plan = small_plan(algo, suite, env, **settings)
    [environment] = plan.environments.values()
    return OBJECTIVES[name].refusal(load_algorithm(algo), environment, spec_of(plan))


def test_only_the_return_uses_the_reward():
    assert [name for name, each in OBJECTIVES.items() if each.uses_reward] == ["return"]


def test_holding_out_needs_demonstrations():
    assert "uses no demonstrations" in refusal("demo-likelihood", "dagger")
    assert "at least two" in refusal("demo-likelihood", "bc", n_demos=1)
    assert refusal("demo-likelihood", "bc", n_demos=2) is None


def test_states_are_compared_with_all_demonstrations_where_none_can_be_held_out():
    thinned, single = {"n_demos": 1, "demo_every": 20}, {"n_demos": 1}
    demos = [episode(1, first) for first in range(50)]
    objective = OBJECTIVES["state-match"]
    for settings, given in ((thinned, demos), (single, demos[:1])):
        assert refusal("state-match", "bc", **settings) is None
        assert refusal("demo-likelihood", "bc", **settings) is not None
        assert objective.hold_out(given, spec_of(small_plan(**settings))) == (given, given)
    assert "uses no demonstrations" in refusal("state-match", "dagger")
    assert len(objective.hold_out(demos, spec_of(small_plan()))[1]) == 10


def test_a_score_needs_an_expert_above_random():
    suite = load_suite("classic")
    assert refusal("return", "bc") is None
    card = suite.environments["Pendulum-v1"]
    same = card.references.model_copy(update={"expert": card.references.random})
    without = card.model_copy(update={"references": same})
    why = OBJECTIVES["return"].refusal(load_algorithm("bc"), without, spec_of(small_plan()))
    assert "no score is defined" in why


def test_episode_length_needs_a_variable_horizon():
    assert "same length" in refusal("episode-length", "bc")
    variable = [
        (suite, env)
        for suite in ("diagnostics", "seals")
        for env, card in load_suite(suite).environments.items()
        if card.horizon == "variable"
    ]
    suite, env = variable[0]
    assert refusal("episode-length", "bc", suite, env) is None
    assert "no demonstrations" in refusal("episode-length", "zero_reward", suite, env)


def test_a_fifth_of_the_demonstrations_is_held_out_by_the_seed_alone():
    demos = [episode(3, first) for first in range(20)]
    objective, spec = OBJECTIVES["demo-likelihood"], spec_of(small_plan())
    kept, held_out = objective.hold_out(demos, spec)
    assert (len(kept), len(held_out)) == (16, 4)
    assert {id(demo) for demo in (*kept, *held_out)} == {id(demo) for demo in demos}
    other = spec.model_copy(update={"hyperparameters": {"batch_size": 8}})
    assert objective.hold_out(demos, other)[1] == held_out
    assert objective.hold_out(demos, spec_of(small_plan(), seed=101))[1] != held_out
    assert [len(part) for part in objective.hold_out(demos[:2], spec)] == [1, 1]
    assert OBJECTIVES["return"].hold_out(demos, spec) == (demos, [])


def test_the_likelihood_is_the_mean_log_probability():
    th.manual_seed(0)
    policy = ActorCriticPolicy(OBSERVATIONS, ACTIONS, lambda _: 1e-3)
    demos = [episode(5, 1), episode(2, 2)]
    expected = []
    for demo in demos:
        observations = th.as_tensor(demo.obs[:-1])
        chances = policy.get_distribution(observations).distribution.probs
        expected += [math.log(chances[step, act].item()) for step, act in enumerate(demo.acts)]
    assert mean_log_likelihood(policy, demos) == pytest.approx(np.mean(expected), rel=1e-5)


def test_a_table_has_a_likelihood_at_each_step():
    table = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.2, 0.8], [1.0, 0.0]]])
    policy = TabularPolicy(spaces.Discrete(2), spaces.Discrete(2), table)
    demo = TrajectoryWithRew(np.array([1, 0, 0]), np.array([1, 1]), None, True, np.zeros(2))
    assert mean_log_likelihood(policy, [demo]) == pytest.approx(np.log([0.1, 0.8]).mean())


def test_a_greedy_policy_has_no_likelihood():
    policy = DQNPolicy(OBSERVATIONS, ACTIONS, lambda _: 1e-3)
    with pytest.raises(UnsuitableObjectiveError, match="DQNPolicy has no action probabilities"):
        mean_log_likelihood(policy, [episode(3)])


@pytest.mark.parametrize(("accuracy", "value"), [(0.5, 1.0), (1.0, 0.0), (0.25, 0.5)])
def test_confusion_is_closeness_to_chance(accuracy, value):
    curve = [{"discriminator/accuracy": 1.0}] * 3 + [{"discriminator/accuracy": accuracy}]
    assert OBJECTIVES["discriminator"].at(moment(curve)) == pytest.approx(value)


def test_confusion_needs_a_discriminator():
    with pytest.raises(UnsuitableObjectiveError, match="no discriminator/accuracy"):
        OBJECTIVES["discriminator"].at(moment([{"bc/loss": 1.0}]))


def test_hyperparameters_of_the_discriminator_are_fixed(make_request):
    usual = set(make_request("gail").space)
    judged = set(make_request("gail", objective="discriminator").space)
    assert usual - judged == {
        "demo_batch_size", "n_disc_updates_per_round", "disc_learning_rate", "replay_rounds",
        "reward_hidden_size", "disc_absolute_positions", "disc_label_smoothing", "disc_lipschitz",
        "gradient_penalty",
    }  # fmt: skip
    assert "ent_coef" in judged


def test_the_length_is_compared_with_the_experts():
    objective = OBJECTIVES["episode-length"]
    kept = objective.measures(moment(demos=[episode(10), episode(30)]))

    class Result:
        measures = kept
        mean_length = 15.0

    assert objective.of(Result) == pytest.approx(-0.25)
    Result.mean_length = 20.0
    assert objective.of(Result) == 0.0


def test_a_result_without_the_measure_has_no_value():
    class Result:
        measures = {}  # noqa: RUF012

    assert math.isnan(OBJECTIVES["demo-likelihood"].of(Result))


def states(seed, shift=0.0, scale=1.0, entries=4):
    return np.random.default_rng(seed).normal(shift, scale, (20_000, entries))


def test_equal_states_match_in_any_units():
    assert state_match(states(0), states(1)) > 0.97
    units = np.array([1e-3, 1.0, 1e4, 7.0])
    other = states(1, 0.3)
    assert state_match(states(0) * units + 5, other * units + 5) == pytest.approx(
        state_match(states(0), other)
    )


@pytest.mark.parametrize(
    ("shift", "scale", "squared"),
    [(0.5, 1.0, 0.25), (0.0, 2.0, 1.0), (1.0, 0.5, 1.25), (99.0, 1.0, 99.0**2)],
)
def test_the_match_decreases_with_the_distance_of_gaussians(shift, scale, squared):
    found = state_match(states(0), states(1, shift, scale))
    assert found == pytest.approx(1 / (1 + np.sqrt(squared)), abs=0.02)


def test_correlations_count():
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 20_000))
    together = np.stack([one, one], axis=1)
    apart = np.stack([one, other], axis=1)
    # tr(1 + 1 - 2 sqrt(s1 s2)) with eigenvalues 2 and 0 against 1 and 1: 4 - 2 sqrt(2)
    expected = 1 / (1 + np.sqrt((4 - 2 * np.sqrt(2)) / 2))
    assert state_match(together, apart) == pytest.approx(expected, abs=0.02)


def test_a_constant_entry_is_not_a_division_by_zero():
    constant = np.concatenate([states(0), np.ones((20_000, 1))], axis=1)
    assert state_match(constant, constant) == pytest.approx(1.0)
