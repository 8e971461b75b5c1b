"""MyMethod: DAC with a reward of its own. Start at `critic_loss`."""

import torch as th

from imitbench.algorithms.off_policy.dac import DAC
from imitbench.algorithms.off_policy.transitions import Batch
from imitbench.bench.learners.off_policy import DACLearner


class MyMethodTrainer(DAC):
    """Changes the reward of the critic; tensors have one row for each seed of a pack."""

    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """Keeps the reward within 5: your idea goes here."""
        return self.td_loss(own, self.discriminator.logits(own).clamp(-5.0, 5.0))


class MyMethod(DACLearner):
    """DAC with `MyMethodTrainer`."""

    method = MyMethodTrainer
