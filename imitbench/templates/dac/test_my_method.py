"""MyMethod learns, and an interruption does not change its result."""

from pathlib import Path

import numpy as np
import pytest

from imitbench.cards.algorithm import ActionSpace
from imitbench.conformance.test_bed import MethodTester

PRACTICE = MethodTester(
    Path(__file__).parent, amount=160, learning_starts="64", batch_size="16", hidden_size="8"
)


@pytest.mark.parametrize("space", PRACTICE.card.needs.action_spaces)
def test_it_acts_in_every_space_that_its_card_names(space: ActionSpace) -> None:
    learner = PRACTICE.trained(space)
    observations = PRACTICE.observations(space)
    actions, _ = learner.policy().predict(observations)
    assert len(actions) == len(observations)
    assert all(PRACTICE.action_space(space).contains(action) for action in actions)


def test_resumed_training_ends_with_the_same_actions() -> None:
    whole, resumed = PRACTICE.trained("box"), PRACTICE.trained("box", interrupted=True)
    observations = PRACTICE.observations("box")
    one, other = (
        learner.policy().predict(observations, deterministic=True)[0]
        for learner in (whole, resumed)
    )
    np.testing.assert_array_equal(one, other)
