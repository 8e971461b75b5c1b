"""Public names of all reward networks."""

from imitbench.rewards.base import RewardNet, RewardNetWithVariance
from imitbench.rewards.ensemble import RewardEnsemble
from imitbench.rewards.networks import BasicRewardNet, CnnRewardNet, cnn_transpose
from imitbench.rewards.shaping import (
    BasicPotentialCNN,
    BasicPotentialMLP,
    BasicShapedRewardNet,
    ShapedRewardNet,
)
from imitbench.rewards.wrappers import (
    AddSTDRewardWrapper,
    ForwardWrapper,
    NormalizedRewardNet,
    PredictProcessedWrapper,
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
