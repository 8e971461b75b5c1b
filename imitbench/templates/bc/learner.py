"""MyMethod: behavioral cloning with a loss of its own. Start at `loss`."""

from typing import Any

import torch as th

from imitbench.algorithms.bc_loss import BehaviorCloningLossCalculator, log_prob_and_entropy
from imitbench.bench.learners.bc import BCLearner


class MyMethodLoss(BehaviorCloningLossCalculator):
    """Changes what is minimized."""

    def loss(self, policy: Any, obs: Any, acts: th.Tensor) -> th.Tensor:
        """Lets very unlikely actions, perhaps mistakes, pull less: your idea goes here."""
        log_prob, _ = log_prob_and_entropy(policy, obs, acts)
        return th.nn.functional.softplus(-log_prob).log1p().mean()


class MyMethod(BCLearner):
    """Behavioral cloning with `MyMethodLoss`."""

    loss_class = MyMethodLoss
