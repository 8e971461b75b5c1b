"""Users import every reward network from one place."""

import pytest
from torch import nn

from imitbench.rewards import reward_nets

NAMES = [
    "AddSTDRewardWrapper",
    "BasicPotentialCNN",
    "BasicPotentialMLP",
    "BasicRewardNet",
    "BasicShapedRewardNet",
    "CnnRewardNet",
    "ForwardWrapper",
    "NormalizedRewardNet",
    "PredictProcessedWrapper",
    "RewardEnsemble",
    "RewardNet",
    "RewardNetWithVariance",
    "RewardNetWrapper",
    "ShapedRewardNet",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_is_found_by_its_name(name):
    assert issubclass(getattr(reward_nets, name), nn.Module)


def test_nothing_else_is_exported():
    assert sorted(reward_nets.__all__) == sorted([*NAMES, "cnn_transpose"])
