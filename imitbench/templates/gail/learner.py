"""MyMethod: GAIL with a discriminator of its own. Start at `forward`."""

import torch as th

from imitbench.bench.learner import Task
from imitbench.bench.learners.adversarial import GAILLearner
from imitbench.rewards.wrappers import ForwardWrapper


class MyMethodReward(ForwardWrapper):
    """Changes the logit of the discriminator. It is stored with the run: see the README."""

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Keeps the logit within 5: your idea goes here."""
        return 5 * th.tanh(self.base(state, action, next_state, done) / 5)


class MyMethod(GAILLearner):
    """GAIL with `MyMethodReward` around the network that the card's values describe."""

    def make_reward_net(self, task: Task) -> MyMethodReward:
        """Creates the network, which the discriminator and the reward share."""
        return MyMethodReward(super().make_reward_net(task))
