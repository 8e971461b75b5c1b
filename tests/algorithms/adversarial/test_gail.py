"""GAIL: the reward's formula and sign, and the discriminator's optimum."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.algorithms.adversarial.gail import GAIL, RewardNetFromDiscriminatorLogit
from imitbench.algorithms.demonstration_fit import FIELDS
from imitbench.rewards.reward_nets import BasicRewardNet
from imitbench.util.networks import RunningNorm

from .conftest import make_trainer
from .tabular import Chain, chain_venv


class Logits(BasicRewardNet):
    """The first number of the observation is the logit."""

    def forward(self, state, action, next_state, done):
        return state[:, 0]


def test_the_reward_is_minus_the_log_of_one_minus_the_discriminator():
    net = Logits(spaces.Box(-50, 50, (1,)), spaces.Discrete(2))
    logits = np.array([[-40.0], [-1.0], [0.0], [2.0], [40.0]], np.float32)
    zeros = np.zeros(5, int)
    got = RewardNetFromDiscriminatorLogit(net).predict_processed(logits, zeros, logits, zeros > 0)
    d = 1 / (1 + np.exp(-logits[:4, 0].astype(float)))
    np.testing.assert_allclose(got[:4], -np.log1p(-d), rtol=1e-5, atol=1e-12)
    assert got[4] == pytest.approx(40.0)  # where 1 - D rounds to 0

    forms = {form: RewardNetFromDiscriminatorLogit(net, form) for form in ("logit", "log_d")}
    own, log_d = (each.predict(logits, zeros, logits, zeros > 0) for each in forms.values())
    np.testing.assert_array_equal(own, logits[:, 0])
    np.testing.assert_allclose(log_d[1:4], np.log(d[1:]), rtol=1e-5)
    np.testing.assert_allclose(own[1:4], np.log(d[1:]) - np.log1p(-d[1:]), rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="form must be one of softplus, logit, log_d, not 'odds'"):
        RewardNetFromDiscriminatorLogit(net, "odds")


def test_train_and_test_reward_are_the_same():
    trainer = make_trainer(GAIL)
    assert trainer.reward_test is trainer.reward_train


def test_the_generator_s_rewards_can_be_normalized():
    trainer = make_trainer(GAIL, normalize_reward=RunningNorm, reward_form="logit")
    for _ in range(20):
        trainer.train_gen()
        trainer.train_disc()
    rewards = trainer.gen_algo.last_rollout.rews
    assert abs(rewards.mean()) < 1
    assert 0.3 < rewards.std() < 3
    state = trainer.state_dict()
    other = make_trainer(GAIL, normalize_reward=RunningNorm, reward_form="logit")
    other.load_state_dict(state)
    drawn = trainer._gen_replay_buffer.sample(5, np.random.default_rng(0))
    batch = [drawn[name] for name in FIELDS]
    found, due = (each.reward_train.predict_processed(*batch) for each in (other, trainer))
    np.testing.assert_array_equal(found, due)


def test_the_discriminator_reaches_the_log_odds_of_expert_and_generator():
    """For given samples the best discriminator's logit is log(p_expert / p_generator)."""
    venv = chain_venv()
    expert_counts, gen_counts = np.array([36, 12, 6, 4, 2]), np.array([4, 8, 12, 16, 20])
    # States only, one weight each: the optimum is within reach, and convex.
    net = BasicRewardNet(venv.observation_space, venv.action_space, use_action=False, hid_sizes=[])
    trainer = make_trainer(
        GAIL, venv, demonstrations=None, demo_batch_size=60, reward_net=net,
        disc_opt_kwargs={"lr": 0.1},
    )  # fmt: skip

    def samples(counts):
        states = np.repeat(np.arange(Chain.n_states), counts)
        zeros = np.zeros(60, int)
        return {"obs": states, "acts": zeros, "next_obs": states, "dones": zeros > 0}

    for _ in range(400):
        trainer.train_disc(expert_samples=samples(expert_counts), gen_samples=samples(gen_counts))
    states, zeros = np.arange(5), np.zeros(5, int)
    with th.no_grad():
        logits = net(*net.preprocess(states, zeros, states, zeros > 0)).numpy()
    np.testing.assert_allclose(logits, np.log(expert_counts / gen_counts), atol=1e-2)
