"""Public names of all reward networks."""

from imitbench.rewards.base import RewardNet, RewardNetWithVariance
from imitbench.rewards.networks import (
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicRewardNet,
    BasicShapedRewardNet,
    CnnRewardNet,
    ShapedRewardNet,
    cnn_transpose,
)
from imitbench.rewards.wrappers import (
    AddSTDRewardWrapper,
    ForwardWrapper,
    NormalizedRewardNet,
    PredictProcessedWrapper,
    RewardEnsemble,
    RewardNetWrapper,
)

__all__ = [
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
    "cnn_transpose",
]
