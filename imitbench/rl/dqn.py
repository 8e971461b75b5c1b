"""Deep Q-learning with the interface of Stable-Baselines3 and less overhead.

Source: Mnih et al. 2015, "Human-level control through deep reinforcement learning".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import stable_baselines3
import torch as th
from stable_baselines3.common.torch_layers import FlattenExtractor
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

from imitbench.rl.lean_algorithm import LeanOffPolicyAlgorithm, discount_of, flat
from imitbench.rl.mlp import FlatParameters, Mlp, Stack, stack_of
from imitbench.util.adam import FlatAdam, why_not_plain
from imitbench.util.torch_startup import one_thread

__all__ = ["DQN"]

Array = npt.NDArray[Any]


class DQN(LeanOffPolicyAlgorithm, stable_baselines3.DQN):
    """Stable-Baselines3's DQN without autograd and without operations per parameter.

    For Q-networks of linear layers with ReLU or Tanh and vector observations, actions and updates
    use the same formulas and random numbers as Stable-Baselines3 and are equal up to rounding.
    For all others, the implementation of Stable-Baselines3 is used.

    Args:
        *args: See `stable_baselines3.DQN`.
        lean: Whether to use the lean path; `None` to use it if possible.
        **kwargs: See `stable_baselines3.DQN`.

    Raises:
        ValueError: `lean` is `True` but not possible.
    """

    def _why_no_updater(self) -> str | None:
        policy = self.policy
        if type(policy) is not DQNPolicy or type(policy.q_net) is not QNetwork:
            return f"{type(policy).__name__} is not a plain DQNPolicy"
        if _stack(policy.q_net) is None:
            return "the Q-network does not consist of linear layers with Tanh or ReLU"
        return why_not_plain(policy.optimizer, list(policy.q_net.parameters()))

    def _make_updater(self) -> _Updater:
        return _Updater(self.policy)

    def predict(
        self,
        observation: Array | dict[str, Array],
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Chooses actions as Stable-Baselines3 does, with the same random numbers."""
        updater = self._lean_updater()
        if (
            updater is None
            or not isinstance(observation, np.ndarray)
            or observation.shape[1:] != self.observation_space.shape
        ):
            return super().predict(observation, state, episode_start, deterministic)
        if not deterministic and np.random.rand() < self.exploration_rate:  # noqa: NPY002
            return np.array([self.action_space.sample() for _ in observation]), state
        with one_thread():
            return updater.act(observation), state

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Updates the Q-network from `gradient_steps` minibatches of the replay buffer."""
        updater = self._lean_updater()
        if updater is None:
            super().train(gradient_steps, batch_size)
            return
        assert self.replay_buffer is not None, "the constructor creates it"
        self._update_learning_rate(self.policy.optimizer)
        losses = []
        with one_thread(), th.no_grad():
            for _ in range(gradient_steps):
                batch = self.replay_buffer.sample(batch_size, env=self._vec_normalize_env)
                losses.append(updater.update(batch, self.gamma, self.max_grad_norm))
        self._record_update(gradient_steps, {"loss": float(np.mean(losses))})


class _Updater:
    """Networks of a policy with gradient and optimizer."""

    def __init__(self, policy: DQNPolicy) -> None:
        stack, target_stack = _stack(policy.q_net), _stack(policy.q_net_target)
        assert stack is not None and target_stack is not None, "checked before"
        self._policy = policy
        self._optimizer = policy.optimizer
        self._parameters = FlatParameters(list(policy.q_net.parameters()))
        self._target_parameters = FlatParameters(list(policy.q_net_target.parameters()))
        self._online = Mlp(stack, self._parameters)
        self._target = Mlp(target_stack, self._target_parameters)
        self._adam = FlatAdam(self._parameters)

    def fits(self, algorithm: DQN) -> bool:
        policy = algorithm.policy
        return (
            policy is self._policy
            and policy.optimizer is self._optimizer
            and self._parameters.are_views()
            and self._target_parameters.are_views()
        )

    def act(self, observations: Array) -> Array:
        """Returns greedy actions, shape (n,), int64."""
        values = self._online(flat(th.as_tensor(observations)))
        return np.asarray(values.argmax(dim=1).numpy())

    def update(self, batch: Any, gamma: float, max_grad_norm: float) -> float:
        """Takes a gradient step of Q-learning.

        Args:
            batch: Samples of a replay buffer.
            gamma: Discount factor.
            max_grad_norm: Largest norm of the gradient.

        Returns:
            Loss before the step.
        """
        best = self._target(flat(batch.next_observations)).amax(dim=1, keepdim=True)
        targets = batch.rewards + (1 - batch.dones) * discount_of(batch, gamma) * best
        actions = batch.actions.long()
        trace = self._online.trace(flat(batch.observations))
        values = trace[-1]
        error = values.gather(1, actions) - targets
        # The derivative of the Huber loss is the error, clipped to [-1, 1].
        bounded = error.clamp(-1.0, 1.0)
        loss = (bounded * (error - 0.5 * bounded)).mean()
        by_values = th.zeros_like(values).scatter_(1, actions, bounded / len(error))
        self._online.backward(trace, by_values)
        gradient = self._parameters.gradient
        gradient.mul_((max_grad_norm / (th.linalg.vector_norm(gradient) + 1e-6)).clamp(max=1.0))
        self._adam.step(self._optimizer)
        return float(loss)


def _stack(network: Any) -> Stack | None:
    """Returns the layers of a Q-network; `None` if it has other parts."""
    if type(network.features_extractor) is not FlattenExtractor:
        return None
    stack = stack_of(list(network.q_net))
    return None if stack is None or stack.activate_last else stack
