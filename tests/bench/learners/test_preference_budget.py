"""Sampling and training share the environment steps and never exceed them."""

from hypothesis import given
from hypothesis import strategies as st

from imitbench.bench.learners.preference_comparisons import SamplingCost, agent_steps


def test_sampling_takes_whole_episodes_in_every_environment():
    sampling = SamplingCost(n_envs=8, episode_length=100, exploration_frac=0.0)
    assert sampling.most_steps(0, 0) == 0
    assert sampling.most_steps(1, 0) == 800
    assert sampling.most_steps(801, 0) == 1600


def test_finished_episodes_of_training_are_used_first():
    sampling = SamplingCost(n_envs=2, episode_length=100, exploration_frac=0.0)
    assert sampling.most_steps(400, 600) == 0
    assert sampling.most_steps(401, 600) == 200


def test_exploration_is_always_sampled():
    sampling = SamplingCost(n_envs=2, episode_length=100, exploration_frac=0.25)
    assert sampling.most_steps(400, 10_000) == 200
    assert sampling.most_steps(400, 0) == 200 + 400


def test_a_share_is_the_largest_that_fits():
    sampling = SamplingCost(n_envs=2, episode_length=100, exploration_frac=0.0)
    # 400 for the first sample; the others come from training.
    assert agent_steps(2200, [400, 200, 200], 100, sampling) == 600
    assert agent_steps(2199, [400, 200, 200], 100, sampling) == 500


def test_a_budget_that_is_too_small_has_no_plan():
    sampling = SamplingCost(n_envs=2, episode_length=100, exploration_frac=0.0)
    assert agent_steps(599, [400], 200, sampling) is None
    assert agent_steps(600, [400], 200, sampling) == 200


@given(
    total=st.integers(100, 20_000),
    transitions=st.lists(st.integers(1, 3000), min_size=1, max_size=8),
    rollout=st.integers(1, 500),
    exploration=st.floats(0, 1),
)
def test_no_plan_exceeds_the_budget(total, transitions, rollout, exploration):
    sampling = SamplingCost(n_envs=2, episode_length=50, exploration_frac=exploration)
    share = agent_steps(total, transitions, rollout, sampling)
    if share is None:
        return
    spent, trained = 0, 0
    for number in transitions:
        spent += share + sampling.most_steps(number, trained)
        trained = share
    assert share % rollout == 0
    assert rollout <= share
    assert spent <= total
