"""Off-policy methods in the harness: what their cards allow."""

from dataclasses import replace

import numpy as np
import pytest

from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.records.runs import Budget
from imitbench.rewards.storage import load_reward_net, save_reward

METHODS = [
    name
    for name in algorithm_names()
    if load_algorithm(name).implementation.startswith("imitbench.bench.learners.off_policy:")
]


@pytest.mark.parametrize("end", ["min", "max"])
@pytest.mark.parametrize("name", METHODS)
def test_the_limits_on_the_card_are_those_of_the_method(name, end, set_up):
    limits = {
        key: str(int(limit) if each.type == "int" else limit)
        for key, each in load_algorithm(name).hyperparameters.items()
        if (limit := getattr(each, end)) is not None
    }
    assert limits
    set_up(name, **limits)


@pytest.mark.parametrize("name", ["f_irl", "ml_irl"])
def test_an_explicit_reward_is_stored_without_hidden_entries_and_measured(
    name, set_up, demos_of, tmp_path
):
    learner = set_up(
        name, hidden=[0], steps=20, learning_starts="20", reward_interval="5", trajectories="2",
        hidden_size="8", reward_hidden_size="8", reward_use_action="true",
    )  # fmt: skip
    learner.train(Budget(name="quick", unit="replay_steps", amount=80), lambda *_: None)
    save_reward(learner.reward(), tmp_path)
    net = load_reward_net(tmp_path)
    demo = demos_of["Pendulum-v1"][0]
    ends = np.zeros(200, bool)
    seen = net.predict(demo.obs[:-1], demo.acts, demo.obs[1:], ends)
    for entry, same in ((0, True), (1, False)):
        obs = demo.obs.copy()
        obs[:, entry] += 1.0
        found = net.predict(obs[:-1], demo.acts, obs[1:], ends)
        assert np.array_equal(found, seen) is same
    assert not np.array_equal(net.predict(demo.obs[:-1], -demo.acts, demo.obs[1:], ends), seen)
    found = learner.measures()
    assert found.keys() == {f"reward_correlation{end}" for end in ("", "_low", "_high")}
    assert -1 <= found["reward_correlation"] <= 1


def test_each_seed_of_a_pack_has_its_own_reward(set_up, demos_of):
    learner = set_up("ml_irl", learning_starts="20", hidden_size="8", reward_hidden_size="8")
    tasks = [replace(learner.tasks[0], seed=seed) for seed in (3, 4)]
    rngs = [np.random.default_rng(seed) for seed in (3, 4)]
    learner.setup_pack(tasks, [demos_of["Pendulum-v1"][:2]] * 2, rngs, "cpu")
    first, second = (own.reward() for own in learner.of_seeds())
    demo = demos_of["Pendulum-v1"][0]
    steps = demo.obs[:-1], demo.acts, demo.obs[1:], np.zeros(200, bool)
    assert not np.allclose(first.predict(*steps), second.predict(*steps))
    assert len({id(own.policy()) for own in learner.of_seeds()}) == 2
