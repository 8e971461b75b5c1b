"""DWBC's discriminator and weights on cases worked out by hand."""

import dataclasses
import math

import numpy as np
import pytest
import torch as th

from imitbench.algorithms.offline.demodice import DemoDICE
from imitbench.algorithms.offline.dwbc import DWBC, cloning_weights, discriminator_loss
from imitbench.algorithms.offline.iswbc import ISWBC
from imitbench.algorithms.offline.weighted_cloning import CloningOptions

from .conftest import episode, settled


def test_the_loss_counts_the_experts_part_of_the_supplement_as_expert():
    loss = discriminator_loss(th.tensor([0.8, 0.5]), th.tensor([0.3]), eta=0.5)
    theirs = -0.5 * (math.log(0.8) + math.log(0.5)) / 2
    others = -math.log(0.7) + 0.5 * (math.log(0.2) + math.log(0.5)) / 2
    assert float(loss) == pytest.approx(theirs + others)


def test_weights_are_those_of_the_corrected_cloning():
    weights = cloning_weights(th.tensor([0.5, 0.9]), th.tensor([0.4, 0.8]), alpha=7.5, eta=0.5)
    expected = [7.5 - 2 - 1, 7.5 - 0.5 / 0.09 - 1, 0.0, 4.0]
    assert weights.tolist() == pytest.approx(expected, abs=1e-4)
    # Of the expert less where d is sure, of others more.
    surer = th.tensor([0.5, 0.7, 0.9])
    theirs, others = cloning_weights(surer, surer, alpha=7.5, eta=0.5).chunk(2)
    assert (theirs.diff() < 0).all()
    assert (others.diff() > 0).all()
    extreme = th.tensor([0.1, 0.9])
    assert cloning_weights(extreme, extreme, alpha=6.6, eta=0.5).min() >= 0


# In both states, the expert takes action 1. The supplement takes action 1 in state 1 as often as
# the expert, and action 0 in state 0.
EXPERT = episode(*[(0, 1)] * 3, (1, 1))
OTHERS = episode(*[(0, 0)] * 6, *[(1, 1)] * 3, *[(1, 0)] * 3)
FAST = {"disc_interval": 1, "disc_learning_rate": 0.03, "disc_hidden_sizes": (8,)}


def outputs(trainer):
    """What the discriminator says of each transition."""
    data = trainer.data
    with th.no_grad():
        log_probs = trainer.policy.get_distribution(data.obs).log_prob(data.acts)
        return trainer.outputs(data.union.take(np.arange(data.size)[None]), log_probs)


def test_what_the_expert_never_does_has_weight_zero(make, probabilities):
    trainer = make(DWBC, [EXPERT], [OTHERS], **FAST)
    trainer.train(300)
    theirs, others = outputs(trainer).tensor_split([4])
    weights = cloning_weights(theirs[:1].expand(12), others, 7.5, 0.5)[12:]
    assert weights[:6].tolist() == [0.0] * 6
    assert weights[9:].tolist() == [0.0] * 3
    assert probabilities(trainer).min() > 0.95


def test_episodes_that_end_early_add_nothing_to_what_is_compared(make):
    """What follows the end would be a supplement of its own that no expert is ever in."""
    ended = [dataclasses.replace(episode((1, 1)), terminal=True)] * 20
    options = CloningOptions(batch_size=512, time_limit=10)
    trainer = make(DWBC, [episode(*[(0, 1)] * 10)], ended, options=options)
    assert trainer.data.union.sizes[0] > trainer.data.size
    assert np.unique(trainer.draw()).tolist() == list(range(trainer.data.size))


@pytest.mark.parametrize("method", [ISWBC, DemoDICE])
def test_the_policy_never_sees_the_absorbing_state(make, method):
    """Nobody chooses an action there, and there is no observation."""
    short = episode((1, 1))
    ended = [dataclasses.replace(short, terminal=True)] * 20
    options = CloningOptions(batch_size=64, time_limit=10)
    trainer = make(method, [episode(*[(0, 1)] * 10)], ended, options=options)
    assert trainer.data.union.sizes[0] > trainer.data.size
    seen = []
    trainer.policy.features_extractor.register_forward_hook(
        lambda _module, _given, found: seen.append(found.detach().argmax(dim=1))
    )
    drawn, draw = [], trainer.draw

    def noted():
        drawn.append(draw())
        return drawn[-1]

    trainer.draw = noted
    trainer.train(3)
    states = trainer.data.obs.numpy()
    for index, own in zip(drawn, seen, strict=True):
        assert len(own) < 64
        assert own.tolist() == states[index[index < trainer.data.size]].ravel().tolist()


def test_a_batch_inside_the_absorbing_state_leaves_the_policy_as_it_is(make):
    ended = [dataclasses.replace(episode((1, 1)), terminal=True)] * 20
    options = CloningOptions(batch_size=4, time_limit=10)
    trainer = make(DemoDICE, [episode(*[(0, 1)] * 10)], ended, options=options)
    before = {name: value.clone() for name, value in trainer.policy.state_dict().items()}
    trainer.draw = lambda: np.full(4, trainer.data.size)
    assert all(np.isfinite(value) for value in trainer.train(1).values())
    for name, value in trainer.policy.state_dict().items():
        assert th.equal(value, before[name]), name


def test_a_batch_is_half_the_experts(make):
    trainer = make(DWBC, [EXPERT], [OTHERS])
    index = trainer.draw()
    assert len(index) == 512
    assert index[:256].max() < 4 <= index[256:].min()
    assert index.max() < 16


@pytest.mark.parametrize("eta", [0.25, 0.5])
def test_with_the_experts_own_data_as_supplement_all_outputs_are_the_assumed_share(make, eta):
    # -eta log d - (1 - eta) log(1 - d) is least at d = eta.
    trainer = make(DWBC, [EXPERT], [EXPERT], eta=eta, **FAST)
    assert th.allclose(settled(trainer, outputs, 200), th.tensor(eta), atol=0.05)
