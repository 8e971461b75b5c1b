"""Rewards of off-policy methods are stored as functions that give what the methods compute."""

import numpy as np
import pytest
import torch as th
from support.off_policy import ShortCSIL

from imitbench.algorithms.off_policy.adril import AdRIL
from imitbench.algorithms.off_policy.dac import DAC, DACfO
from imitbench.algorithms.off_policy.hype import HyPE
from imitbench.algorithms.off_policy.iq_learn import IQLearn
from imitbench.algorithms.off_policy.ls_iq import LSIQ
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.rewards.storage import load_reward_net, save_reward
from imitbench.util.actions import scale_actions

PENDULUM, CARTPOLE, ENDING = "Pendulum-v1", "seals/CartPole-v0", "CartPole-v1"
COUNT = 12


def of_discriminator(trainer, batch, ahead):
    return trainer.discriminator.logits(batch)


def of_network(trainer, batch, ahead):
    return trainer.rewards(batch)


def of_iq_learn(trainer, batch, ahead):
    values = trainer.agent.values(batch.obs, batch.acts)
    return (values - 0.99 * ahead(trainer.value_critics)).mean(dim=0)


def of_ls_iq(trainer, batch, ahead):
    limit = trainer.value_limit or np.inf
    following = ahead("target", lambda values: values.amin(dim=0).clamp(-limit, limit))
    return trainer.agent.values(batch.obs, batch.acts).mean(dim=0) - 0.99 * following


CASES = {
    "dac": (DAC, {}, of_discriminator),
    "hype": (HyPE, {"hidden_entries": (1,)}, of_discriminator),
    "dac_obs": (DACfO, {"hidden_entries": (1,)}, of_discriminator),
    "csil": (ShortCSIL, {}, of_network),
    "iq_learn": (IQLearn, {}, of_iq_learn),
    "iq_learn of critics": (IQLearn, {"use_targets": False}, of_iq_learn),
    "ls_iq": (LSIQ, {}, of_ls_iq),
    # Values of a few updates are within this bound only in part.
    "ls_iq at its bound": (LSIQ, {"regularization": 2000.0}, of_ls_iq),
    "ls_iq without": (LSIQ, {"clip_targets": False}, of_ls_iq),
}
RUNS = [
    (name, env)
    for name, (method, _, _) in CASES.items()
    for env in (PENDULUM, CARTPOLE, ENDING)
    if env == PENDULUM or (method.discrete_actions and name != "iq_learn of critics")
]


@pytest.fixture
def trained(make, pendulum_demos, cartpole_demos):
    def trained(name, env, steps=40):
        method, given, _ = CASES[name]
        demos = pendulum_demos if env == PENDULUM else cartpole_demos
        made = make(method, env, demos, seeds=(0, 1), allow_variable_horizon=env == ENDING, **given)
        made.train(steps)
        return made

    return trained


def transitions(trainer):
    """Raw transitions within the bounds of actions, and the same as each seed's agent sees them."""
    rng = np.random.default_rng(0)
    space = trainer.venv.observation_space
    obs, after = rng.normal(size=(2, COUNT, *space.shape)).astype(space.dtype)
    trainer.venv.action_space.seed(0)
    acts = np.stack([trainer.venv.action_space.sample() for _ in range(COUNT)])
    scaled = scale_actions(acts, trainer.venv.action_space)
    encoded = [np.stack([one(each) for one in trainer._encoders]) for each in (obs, after)]
    nothing = th.zeros(2, COUNT)
    batch = Batch(
        obs=th.from_numpy(encoded[0]),
        acts=th.from_numpy(np.stack([scaled, scaled])),
        next_obs=th.from_numpy(encoded[1]),
        terminal=nothing,
        rewards=nothing,
    )
    return (obs, acts, after), batch


def expected_values(trainer, batch, noise, monkeypatch):
    """V(s') as the method computes it, with the stored noise in place of new samples."""

    def ahead(critics, limit=lambda values: values):
        found = []
        for drawn in noise if len(noise) else [None]:
            if drawn is not None:
                expanded = drawn.expand(2, COUNT, -1)
                monkeypatch.setattr(trainer.streams, "normal", lambda *_, x=expanded: x)
            found.append(limit(trainer.agent.soft_values(batch.next_obs, critics)))
        return th.stack(found).mean(dim=0)

    return ahead


def at_end(trainer, own, name):
    """Rewards inside the absorbing state, of which others are counted."""
    if not trainer._encoders[0].absorbing or name not in ("dac", "hype", "dac_obs"):
        return th.zeros(2, 1)
    state = th.from_numpy(trainer._encoders[0].absorbing_states(1)).expand(2, 1, -1)
    nothing = th.zeros(2, 1)
    acts = th.zeros(2, 1, *own.acts.shape[2:], dtype=own.acts.dtype)
    return CASES[name][2](trainer, Batch(state, acts, state, nothing, nothing), None)


@pytest.mark.parametrize(("name", "env"), RUNS)
def test_stored_rewards_are_those_of_the_method(name, env, trained, tmp_path, monkeypatch):
    trainer = trained(name, env)
    raw, batch = transitions(trainer)
    nets = trainer.reward_nets
    noise = getattr(nets[0], "noise", ())
    ahead = expected_values(trainer, batch, noise, monkeypatch)
    with th.no_grad():
        expected = CASES[name][2](trainer, batch, ahead) - at_end(trainer, batch, name)
    assert not th.allclose(expected[0], expected[1])
    for seed, net in enumerate(nets):
        save_reward(net, tmp_path / str(seed))
        stored = load_reward_net(tmp_path / str(seed))
        found = stored.predict(*raw, np.zeros(COUNT))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected[seed], rtol=1e-5, atol=1e-5)
        assert found.std() > 1e-4


def test_what_follows_the_end_counts_only_where_episodes_end(trained):
    for env, same in ((ENDING, False), (CARTPOLE, True)):
        trainer = trained("iq_learn", env)
        (obs, acts, after), batch = transitions(trainer)
        net = trainer.reward_nets[0]
        last = net.predict(obs, acts, after, np.ones(COUNT))
        assert np.array_equal(last, net.predict(obs, acts, after, np.zeros(COUNT))) == same
        if not same:
            values = trainer.agent.values(batch.obs, batch.acts).detach()[0, 0]
            np.testing.assert_allclose(last, values, rtol=1e-5, atol=1e-5)


def test_the_stored_noise_stands_for_the_expectation(trained):
    """With 16 actions the error is small beside the differences between rewards."""
    trainer = trained("iq_learn", PENDULUM, steps=80)
    (obs, acts, after), _ = transitions(trainer)
    net = trainer.reward_nets[0]
    few = net.predict(obs, acts, after, np.zeros(COUNT))
    net.noise = th.randn(1024, 1, generator=th.Generator().manual_seed(1))
    many = net.predict(obs, acts, after, np.zeros(COUNT))
    assert np.abs(few - many).max() < 0.1 * many.std()


def test_rewards_draw_no_random_numbers_and_do_not_follow_training(trained):
    trainer = trained("iq_learn", PENDULUM)
    th.manual_seed(0)
    (obs, acts, after), _ = transitions(trainer)
    net = trainer.reward_nets[0]
    before = net.predict(obs, acts, after, np.zeros(COUNT))
    drawn = th.rand(1)
    th.manual_seed(0)
    assert th.equal(th.rand(1), drawn)
    trainer.train(20)
    np.testing.assert_array_equal(net.predict(obs, acts, after, np.zeros(COUNT)), before)


def test_actions_beyond_their_bounds_count_as_at_the_bounds(trained):
    trainer = trained("csil", PENDULUM)
    (obs, _, after), _ = transitions(trainer)
    net = trainer.reward_nets[0]
    far, high = (np.full((COUNT, 1), act, np.float32) for act in (7.0, 2.0))
    rewards = [net.predict(obs, acts, after, np.zeros(COUNT)) for acts in (far, high)]
    np.testing.assert_array_equal(*rewards)


def test_a_reward_of_rounds_is_no_function_of_a_transition(make, pendulum_demos):
    assert make(AdRIL, PENDULUM, pendulum_demos).reward_nets == []
