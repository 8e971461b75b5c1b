"""GAIfO: what the discriminator sees, its optimum, and what it refuses."""

import numpy as np
import pytest
import torch as th

from imitbench.algorithms.adversarial.expert_initialization import ExpertInitialization
from imitbench.algorithms.adversarial.gaifo import GAIfO
from imitbench.rewards.reward_nets import BasicRewardNet

from .conftest import NETS, make_trainer, make_venv, random_transitions
from .tabular import chain_venv


def test_the_discriminator_reaches_the_log_odds_of_pairs_of_states_whatever_the_actions():
    """Weights of both states add up, and so do the log-odds of these counts of four pairs."""
    counts = np.array([[2, 4], [6, 12]])
    venv = chain_venv()
    net = NETS[GAIfO](venv.observation_space, venv.action_space, hid_sizes=[])
    trainer = make_trainer(
        GAIfO, venv, demonstrations=None, demo_batch_size=24,
        reward_net=net, disc_opt_kwargs={"lr": 0.1},
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def samples(counts):
        first, after = (
            np.repeat(numbers.ravel(), counts.ravel()) for numbers in np.indices((2, 2))
        )
        acts = rng.integers(3, size=24)
        return {"obs": first, "acts": acts, "next_obs": after, "dones": np.zeros(24, bool)}

    for _ in range(400):
        trainer.train_disc(expert_samples=samples(counts), gen_samples=samples(np.full((2, 2), 6)))
    obs, after = (numbers.ravel() for numbers in np.indices((2, 2)))
    batch = {"obs": obs, "next_obs": after, "dones": np.zeros(4, bool)}
    found = [
        trainer._logits_of({**batch, "acts": np.full(4, act)}).detach().numpy() for act in range(3)
    ]
    np.testing.assert_allclose(found[0], np.log(counts.ravel() / 6), atol=0.02)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def as_batches(transitions):
    return [
        {
            name: getattr(transitions, name)[start : start + 32]
            for name in ("obs", "next_obs", "dones")
        }
        | {"acts": np.full((32, 2), np.nan)}
        for start in (0, 32, 64)
    ]


def test_batches_of_any_actions_are_those_without_actions():
    venv = make_venv()
    given = as_batches(random_transitions(venv))
    trainer = make_trainer(GAIfO, venv, demonstrations=given)
    batch = next(trainer._expert)
    np.testing.assert_array_equal(batch["acts"], np.zeros(32, int))
    np.testing.assert_array_equal(batch["next_obs"], given[0]["next_obs"])
    trainer.train_gen()
    assert np.isfinite(trainer.train_disc()["disc_loss"])


@pytest.mark.parametrize("given", [{"log_std": True}, {"batches": 5}])
def test_a_start_that_needs_actions_is_refused(given):
    with pytest.raises(ValueError, match="start: GAIfO learns without actions"):
        make_trainer(GAIfO, start=ExpertInitialization(**given))


def test_a_reward_of_actions_is_refused():
    venv = make_venv()
    net = BasicRewardNet(venv.observation_space, venv.action_space)
    with pytest.raises(ValueError, match="reward_net: GAIfO learns without actions"):
        make_trainer(GAIfO, venv, reward_net=net)


def test_the_reward_is_that_of_gail():
    venv = make_venv()
    trainer = make_trainer(GAIfO, venv)
    drawn = random_transitions(venv, 10)
    ends = np.zeros(10, bool)
    logits = trainer._logits_of(
        {"obs": drawn.obs, "acts": drawn.acts, "next_obs": drawn.next_obs, "dones": ends}
    )
    found = trainer.reward_test.predict(drawn.obs, drawn.acts, drawn.next_obs, ends)
    due = th.nn.functional.softplus(logits).detach().numpy()
    np.testing.assert_allclose(found, due, rtol=1e-5)
