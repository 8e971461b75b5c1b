"""DAgger in the harness: its budget, its curve, and that it can be resumed."""

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.bench.learner import Task
from imitbench.bench.learners.dagger import DAggerLearner
from imitbench.bench.learners.gated_dagger import EnsembleDAggerLearner
from imitbench.bench.protocol import Evaluator
from imitbench.cards.catalog import load_algorithm
from imitbench.experts.lookup import find_environment, find_expert
from imitbench.policies.base import RandomPolicy, ZeroPolicy
from imitbench.policies.storage import load_policy
from imitbench.records.runs import Budget
from imitbench.util.state_file import load_state, save_state

PENDULUM = ("Pendulum-v1", "sac-Pendulum-v1")
EPISODE = 40  # steps
SMALL = {"n_envs": "2", "rollout_round_min_timesteps": "80", "hidden_size": "8", "bc_epochs": "1"}


def env_steps(amount):
    return Budget(name="quick", unit="env_steps", amount=amount)


def set_up(
    cell=PENDULUM, expert=None, seed=0, cls=DAggerLearner, name="dagger", steps=EPISODE, **overrides
):
    environment = find_environment(cell[0])
    environment = environment.model_copy(
        update={"kwargs": {**environment.kwargs, "max_episode_steps": steps}}
    )
    th.manual_seed(seed)
    with Evaluator(environment, 1) as evaluator:
        task = Task(
            environment=environment,
            observation_space=evaluator.observation_space,
            action_space=evaluator.action_space,
            hyperparameters=load_algorithm(name).resolve({**SMALL, **overrides}),
            seed=seed,
            expert=expert or load_policy(find_expert(cell[1])),
        )
    learner = cls()
    learner.setup(task, [], np.random.default_rng(seed), "cpu")
    return learner


def train(learner, amount):
    points, offers = [], []
    spent = learner.train(env_steps(amount), lambda *p: points.append(p), lambda: offers.append(0))
    assert len(offers) == len(points)
    return spent, points


def test_it_reaches_the_expert():
    """With the card's own hyper-parameters and 4,800 steps."""
    defaults = {
        name: str(p.default) for name, p in load_algorithm("dagger").hyperparameters.items()
    }
    learner = set_up(steps=200, **defaults)
    spent, _ = train(learner, 4800)
    assert spent == 4800
    with Evaluator(find_environment(PENDULUM[0]), 10) as evaluator:
        episodes = evaluator.evaluate(learner.policy(), episodes=10, seed=0, deterministic=True)
    # The card: the expert -146, random actions -1200.
    assert episodes.returns.mean() > -300


@pytest.mark.parametrize(
    ("amount", "spent"), [(240, 240), (239, 160), (160, 160), (159, 80), (1, 80)]
)
def test_rounds_that_would_exceed_the_budget_are_not_started_except_the_first(amount, spent):
    """A round takes 80 steps: an episode of 40 in each of two environments."""
    learner = set_up(rollout_round_min_episodes="2", max_rounds="50")
    assert train(learner, amount)[0] == spent


def test_a_large_budget_has_few_rounds():
    options = {"rollout_round_min_timesteps": "1", "rollout_round_min_episodes": "1"}
    spent, points = train(set_up(max_rounds="2", **options), 320)
    assert (spent, len(points)) == (320, 2)  # without the limit, they would be rounds of 80


def test_every_step_is_a_question_to_the_expert():
    learner = set_up()
    spent, _ = train(learner, 160)
    assert learner.measures() == {"expert_queries": spent}


@pytest.mark.parametrize(("threshold", "asked"), [("1000.0", 80), ("0.0", 160)])
def test_lazy_variants_report_how_often_they_asked(threshold, asked):
    # The expert acts alone in the first round of 80 steps, and then only where there is doubt.
    options = {"doubt_threshold": threshold, "rollout_round_min_episodes": "2"}
    learner = set_up(cls=EnsembleDAggerLearner, name="ensemble_dagger", **options)
    spent, points = train(learner, 160)
    assert spent == 160
    assert points[-1][1]["dagger/expert_queries"] == asked
    measures = learner.measures()
    assert (measures["expert_queries"], measures["expert_share"]) == (asked, asked / 160)
    assert measures["expert_takeovers"] >= 2


def test_the_curve_has_returns_losses_and_beta():
    learner = set_up(beta_rampdown_rounds="2", rollout_round_min_episodes="2")
    _, points = train(learner, 240)
    assert [step for step, _ in points] == [80, 160, 240]
    assert [metrics["dagger/beta"] for _, metrics in points] == [1.0, 0.5, 0.0]
    for _, metrics in points:
        assert metrics["rollout/length_mean"] == EPISODE
        assert metrics["rollout/termination_rate"] == 0
        assert -600 < metrics["rollout/return_mean"] < 0
        assert np.isfinite(metrics["bc/loss"]) and np.isfinite(metrics["bc/neglogp"])


def test_steps_of_environments_that_finish_later_are_counted():
    """Episodes of CartPole-v1 end when the pole falls, here soon."""
    env = gym.make("CartPole-v1")
    expert = ZeroPolicy(env.observation_space, env.action_space)
    learner = set_up(("CartPole-v1", None), expert, rollout_round_min_timesteps="64", steps=500)
    seen = []
    step = type(learner._dagger.venv).step_wait
    learner._dagger.venv.step_wait = lambda: (seen.append(2), step(learner._dagger.venv))[1]
    spent, points = train(learner, 300)
    assert spent == sum(seen)
    assert points[-1][1]["rollout/termination_rate"] == 1.0


def test_a_resumed_learner_equals_an_uninterrupted_one(tmp_path):
    whole = set_up(rollout_round_min_episodes="2")
    spent, points = train(whole, 240)
    first = set_up(rollout_round_min_episodes="2")
    _, begun = train(first, 160)
    save_state(tmp_path / "state", first.state_dict())
    del first  # and with it its working folder
    second = set_up(rollout_round_min_episodes="2")
    second.load_state_dict(load_state(tmp_path / "state"))
    assert train(second, 240)[0] == spent
    for key, value in whole.policy().state_dict().items():
        assert th.equal(second.policy().state_dict()[key], value), key
    again = set_up(rollout_round_min_episodes="2")
    again.load_state_dict(load_state(tmp_path / "state"))
    _, rest = train(again, 240)
    np.testing.assert_equal(begun + rest, points)


def test_experts_with_other_bounds_of_spaces_are_accepted():
    env = gym.make("Pendulum-v1")
    wider = spaces.Box(-10, 10, env.observation_space.shape, np.float32)
    expert = RandomPolicy(wider, env.action_space)
    expert.action_space.seed(0)
    learner = set_up(expert=expert, rollout_round_min_episodes="2")
    assert expert.observation_space != learner._dagger.venv.observation_space
    assert train(learner, 80)[0] == 80


def test_it_needs_an_expert():
    policy = set_up().policy()
    task = Task(
        environment=find_environment(PENDULUM[0]),
        observation_space=policy.observation_space,
        action_space=policy.action_space,
        hyperparameters=load_algorithm("dagger").resolve(SMALL),
        seed=0,
    )
    with pytest.raises(ValueError, match="expert"):
        DAggerLearner().setup(task, [], np.random.default_rng(0), "cpu")
