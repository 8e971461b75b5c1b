"""ISW-BC's weights and policy where both can be computed by hand."""

import numpy as np
import pytest
import torch as th

from imitbench.algorithms.offline.iswbc import ISWBC
from imitbench.algorithms.offline.weighted_cloning import CloningOptions, DiscriminatorOptions

from .conftest import episode, settled

FREE = DiscriminatorOptions(hidden_sizes=(8,), learning_rate=0.03, gradient_penalty=0.0)


def weights(trainer):
    """The weight of each transition of the union."""
    return trainer.importance_weights(trainer.data.union.take(np.arange(trainer.data.size)[None]))


# The expert: action 1 in state 0 three times, and once action 0 in state 1.
EXPERT = episode((0, 1), (0, 1), (0, 1), (1, 0))
# As often as the expert, action 1 in state 0; twice action 0 there; action 1 in state 1 six times.
OTHERS = episode((0, 1), (0, 1), (0, 1), (0, 0), (0, 0), *[(1, 1)] * 6)


def test_weights_are_the_ratios_of_densities(make, probabilities):
    trainer = make(ISWBC, [EXPERT], [OTHERS], discriminator=FREE)
    found = settled(trainer, weights)
    # (3/4) / (6/15) for (0, 1), and (1/4) / (1/15) for (1, 0).
    assert th.allclose(found[:3], th.tensor(1.875), rtol=0.1)
    assert float(found[3]) == pytest.approx(3.75, rel=0.1)  # the largest possible ratio
    assert th.equal(found[4:7], found[:1].expand(3))
    # What the expert never does.
    assert float(found[7:].max()) < 0.02
    assert float(found.mean()) == pytest.approx(1.0, abs=0.05)
    # The policy is the expert's, and not that of the union.
    first, second = probabilities(trainer)
    assert first > 0.95  # 6 in 8 of the union
    assert second < 0.05  # 6 in 7


def test_with_the_experts_own_data_as_supplement_weights_are_equal(make):
    trainer = make(ISWBC, [EXPERT], [EXPERT], discriminator=FREE)
    assert th.allclose(settled(trainer, weights, 200), th.ones(8), atol=0.1)


def test_small_weights_are_left_out(make):
    trainer = make(ISWBC, [EXPERT], [OTHERS], discriminator=FREE, threshold=0.1)
    trainer.train(300)
    assert weights(trainer)[7:].tolist() == [0.0] * 8
    with pytest.raises(ValueError, match="threshold must be at least 0"):
        make(ISWBC, [EXPERT], [OTHERS], threshold=-0.1)


def test_the_entropy_bonus_keeps_the_policy_from_certainty(make, probabilities):
    """With equal weights log p + H(p) is greatest where the log-odds of p are 1 / p."""
    always = episode((0, 1), (1, 1))
    options = CloningOptions(batch_size=512, learning_rate=0.03, ent_weight=1.0)
    trainer = make(ISWBC, [always], [always], discriminator=FREE, options=options)
    found = settled(trainer, probabilities)
    assert found.tolist() == pytest.approx([0.782] * 2, abs=0.03)
