"""AIRL: its discriminator's formula, and the recovery of a reward."""

import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, TD3
from support.drift import drift_venv

from imitbench.algorithms.adversarial.airl import AIRL, _log_uniform
from imitbench.rewards.reward_nets import BasicShapedRewardNet, NormalizedRewardNet
from imitbench.rl.ppo import PPO
from imitbench.util.networks import RunningNorm

from .conftest import make_trainer, make_venv, random_transitions
from .tabular import GAMMA, chain_venv, set_policy, soft_optimal_policy, transitions


def test_the_logit_is_reward_minus_log_probability():
    trainer = make_trainer(AIRL)
    data = random_transitions(trainer.venv, 10)
    inputs = trainer.reward_train.preprocess(data.obs, data.acts, data.next_obs, data.dones)
    log_p = th.linspace(-3, 0, 10)
    logits = trainer.logits_expert_is_high(*inputs, log_p)
    rewards = trainer.reward_train(*inputs)
    th.testing.assert_close(logits, rewards - log_p)
    # The paper's discriminator: exp(r) / (exp(r) + pi).
    th.testing.assert_close(th.sigmoid(logits), rewards.exp() / (rewards.exp() + log_p.exp()))


@pytest.mark.parametrize(
    ("space", "volume"),
    [
        (spaces.Box(np.float32([-1, -2]), np.float32([1, 3])), 10.0),
        (spaces.Discrete(4), 4.0),
        (spaces.MultiDiscrete([2, 3]), 6.0),
        (spaces.MultiBinary(3), 8.0),
    ],
)
def test_a_uniform_share_bounds_the_density_from_below(space, volume):
    trainer = make_trainer(AIRL, uniform_share=0.25)
    trainer._log_uniform = _log_uniform(space)
    log_p = th.tensor([-1e9, 0.0, 5.0])
    found = trainer._log_mixture(log_p).exp()
    th.testing.assert_close(found, 0.75 * log_p.exp() + 0.25 / volume)


def test_the_logit_has_the_mixture_in_place_of_the_generators_density():
    trainer = make_trainer(AIRL, uniform_share=1.0)  # two actions
    data = random_transitions(trainer.venv, 10)
    inputs = trainer.reward_train.preprocess(data.obs, data.acts, data.next_obs, data.dones)
    logits = trainer.logits_expert_is_high(*inputs, th.zeros(10))
    th.testing.assert_close(logits, trainer.reward_train(*inputs) + math.log(2))


def test_a_uniform_share_must_be_possible():
    with pytest.raises(ValueError, match=r"uniform_share must lie in \[0, 1\], not 1.5"):
        make_trainer(AIRL, uniform_share=1.5)
    with pytest.raises(ValueError, match="needs actions with bounds"):
        _log_uniform(spaces.Box(-np.inf, np.inf, (2,)))


def test_the_density_of_clipped_actions_is_the_default_where_there_are_bounds():
    trainer = make_trainer(AIRL, make_venv("Pendulum-v1"), uniform_share=0.25)
    obs = random_transitions(trainer.venv, 4).obs.copy()  # theirs is read-only
    acts = np.array([[2.0], [-2.0], [0.5], [0.5]], np.float32)
    given = {"obs": obs, "acts": acts}
    with th.no_grad():
        normal = trainer.policy.get_distribution(th.as_tensor(obs)).distribution
    tails = normal.cdf(th.tensor([[-2.0]])), 1 - normal.cdf(th.tensor([[2.0]]))
    found = trainer._log_action_probability(given)
    expected = [
        float(th.log(tails[1][0] / 0.1)),
        float(th.log(tails[0][1] / 0.1)),
        *normal.log_prob(th.as_tensor(acts))[2:, 0].tolist(),
    ]
    assert found.tolist() == pytest.approx(expected, abs=1e-4)
    # Four of length and two bounds of weight 0.1.
    assert trainer._log_uniform == pytest.approx(-math.log(4.2), abs=1e-6)
    before = make_trainer(AIRL, make_venv("Pendulum-v1"), uniform_share=0.25, bounded_density=False)
    assert before._log_uniform == pytest.approx(-math.log(4))
    assert not np.allclose(before._log_action_probability(given)[:2], found[:2])


def test_the_density_of_clipped_actions_needs_bounds():
    with pytest.raises(ValueError, match="action space: must be a Box"):
        make_trainer(AIRL, drift_venv(spaces.Discrete(2)), bounded_density=True)


def test_the_generators_reward_has_its_entropy():
    """On Pendulum, whose actions are clipped; through the rollouts of PPO and through a wrapper."""
    trainer = make_trainer(AIRL, make_venv("Pendulum-v1"), reward_entropy=0.5)
    data = random_transitions(trainer.venv, 10)
    batch = (data.obs, data.acts, data.next_obs, data.dones)
    log_p = trainer._log_action_probability({"obs": data.obs, "acts": data.acts}).numpy()
    expected = trainer.reward_train.predict(*batch) - 0.5 * log_p
    np.testing.assert_allclose(trainer.gen_algo.reward_fn(*batch), expected, rtol=1e-5)
    np.testing.assert_allclose(trainer.venv_wrapped.reward_fn(*batch), expected, rtol=1e-5)
    trainer.train_gen(120)
    assert trainer._global_step == 1
    with pytest.raises(ValueError, match="reward_entropy must be at least 0, not -1"):
        make_trainer(AIRL, reward_entropy=-1)


def test_the_log_probability_is_required():
    trainer = make_trainer(AIRL)
    data = random_transitions(trainer.venv, 10)
    inputs = trainer.reward_train.preprocess(data.obs, data.acts, data.next_obs, data.dones)
    with pytest.raises(TypeError, match="log_policy_act_prob"):
        trainer.logits_expert_is_high(*inputs)


@pytest.mark.parametrize(("off_policy", "name"), [(DQN, "seals/CartPole-v0"), (TD3, "Pendulum-v1")])
def test_deterministic_generators_are_refused(off_policy, name):
    venv = make_venv(name)
    algo = off_policy("MlpPolicy", venv, buffer_size=10, device="cpu")
    with pytest.raises(TypeError, match="gen_algo: AIRL needs a policy"):
        make_trainer(AIRL, venv, gen_algo=algo)


def test_the_test_reward_is_without_shaping():
    trainer = make_trainer(AIRL)
    assert trainer.reward_test is trainer.reward_train.base
    venv = make_venv()
    shaped = BasicShapedRewardNet(venv.observation_space, venv.action_space)
    wrapped = NormalizedRewardNet(shaped, RunningNorm)
    trainer = make_trainer(AIRL, venv, reward_net=wrapped)
    assert trainer.reward_train is wrapped
    assert trainer.reward_test is shaped.base


def test_a_state_only_reward_is_recovered_up_to_a_constant():
    """On a ring of five states, with generators that are optimal for the reward so far.

    The paper's theorem 5.1: with deterministic dynamics, a state-only reward and a potential,
    the learnt reward equals the true one up to a constant.
    """
    rng = np.random.default_rng(0)
    truth = np.array([1.0, 0.0, -0.5, 0.3, 0.8])
    expert = soft_optimal_policy(np.tile(truth[:, None], 3))
    venv = chain_venv()
    net = BasicShapedRewardNet(
        venv.observation_space, venv.action_space, use_action=False, discount_factor=GAMMA,
        reward_hid_sizes=[], potential_hid_sizes=[],
    )  # fmt: skip
    algo = PPO(
        "MlpPolicy", venv, n_steps=20, batch_size=40, device="cpu",
        policy_kwargs={"net_arch": []},
    )  # fmt: skip
    trainer = make_trainer(
        AIRL, venv, demonstrations=None, demo_batch_size=3000, gen_algo=algo, reward_net=net,
        disc_opt_kwargs={"lr": 0.03},
    )  # fmt: skip
    states = np.repeat(np.arange(5), 3)
    actions = np.tile(np.arange(3), 5)
    not_done = np.zeros(15, dtype=bool)

    def learnt(reward):
        after = transitions_of(states, actions)
        return reward.predict(states, actions, after, not_done).reshape(5, 3)

    for _ in range(60):
        policy = soft_optimal_policy(learnt(trainer.reward_train))
        set_policy(trainer.policy, policy)
        for _ in range(8):
            trainer.train_disc(
                expert_samples=transitions(expert, 3000, rng),
                gen_samples=transitions(policy, 3000, rng),
            )
    np.testing.assert_allclose(np.exp(policy), np.exp(expert), atol=0.03)
    difference = learnt(trainer.reward_test)[:, 0] - truth
    np.testing.assert_allclose(difference, difference.mean(), atol=0.1)


def transitions_of(states, actions):
    return (states + np.array([-1, 0, 1])[actions]) % 5
