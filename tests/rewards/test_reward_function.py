"""The validator checks that a reward function returns one reward per transition."""

import numpy as np
import pytest

from imitbench.rewards.reward_function import ValidateRewardFn


def test_valid_rewards_pass_unchanged(batch):
    rewards = np.arange(9.0)
    assert ValidateRewardFn(lambda *_: rewards)(*batch) is rewards


@pytest.mark.parametrize("shape", [(8,), (9, 1), ()])
def test_rewards_of_another_shape_are_refused(batch, shape):
    validated = ValidateRewardFn(lambda *_: np.zeros(shape))
    with pytest.raises(ValueError, match=r"they need \(9,\)"):
        validated(*batch)
