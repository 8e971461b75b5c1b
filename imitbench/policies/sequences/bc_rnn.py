"""BC-RNN: a recurrent network with a mixture of Gaussians.

Source: Mandlekar et al. 2021, "What Matters in Learning from Offline Human Demonstrations for Robot
Manipulation" (BC-RNN-GMM).
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from imitbench.policies.densities import Mixture, spread_components
from imitbench.policies.sequences.base import SequencePolicy, WindowBatch
from imitbench.policies.stateful import State


class RecurrentPolicy(SequencePolicy):
    """A GRU over the observations of an episode; its output is a distribution of the action.

    The hidden state starts empty in each window of the training, and is emptied again after as many
    steps of an episode, as in the paper's code: the network never sees a state that is older than
    those it was trained on.

    Args:
        observation_space: A box, choices, or an image of bytes.
        action_space: A box, for a mixture of Gaussians; or choices, for their probabilities.
        horizon: Steps in a window.
        hidden_size: Units of each layer of the GRU.
        layers: Layers of the GRU.
        n_components: Number of Gaussians.
        min_std: Least standard deviation, of normalized actions.
        low_noise: Whether a sampled action is the mean of a randomly drawn component; otherwise
            the component's own noise is added.
        image_features: Features of an image.

    Raises:
        ValueError: As `SequencePolicy`.
    """

    acts_in = (spaces.Box, spaces.Discrete)
    own_arguments = (
        "horizon",
        "hidden_size",
        "layers",
        "n_components",
        "min_std",
        "low_noise",
    )

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        horizon: int = 10,
        hidden_size: int = 128,
        layers: int = 1,
        n_components: int = 5,
        min_std: float = 0.1,
        low_noise: bool = True,
        image_features: int = 64,
    ) -> None:
        super().__init__(observation_space, action_space, "range", image_features)
        self.horizon, self.hidden_size, self.layers = horizon, hidden_size, layers
        self.n_components, self.min_std, self.low_noise = n_components, min_std, low_noise
        self.observed = self.acted = range(horizon)
        self.recurrent = nn.GRU(self.encoder.size, hidden_size, layers, batch_first=True)
        self.discrete = isinstance(action_space, spaces.Discrete)
        outputs = self.n_actions if self.discrete else n_components * (1 + 2 * self.n_actions)
        self.head = nn.Linear(hidden_size, outputs)
        if not self.discrete:
            spread_components(self.head, n_components, self.n_actions)

    def loss(
        self, batch: WindowBatch, rng: np.random.Generator
    ) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Negative log-likelihood of an action, in nats, averaged over the real ones."""
        del rng
        hidden, _ = self.recurrent(self.encode_windows(batch.obs))
        outputs = self.head(hidden).flatten(0, 1)
        if self.discrete:
            losses = functional.cross_entropy(outputs, batch.acts.flatten(), reduction="none")
        else:
            losses = self._mixture(outputs).loss(self.normalized(batch.acts).flatten(0, 1))
        real = batch.real.flatten().float()
        return (losses * real).sum() / real.sum(), {}

    def _mixture(self, outputs: th.Tensor) -> Mixture:
        return Mixture.of(outputs, self.n_components, self.min_std)

    def initial_state(self, n_envs: int) -> State:
        """An empty hidden state, and no steps."""
        return (
            th.zeros(n_envs, self.layers, self.hidden_size, device=self.device),
            th.zeros(n_envs, dtype=th.int64, device=self.device),
        )

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Acts for one step.

        Fixed actions are the mean of the heaviest component, or the most probable choice.
        """
        hidden, steps = state
        restarts = (steps % self.horizon == 0).reshape(-1, 1, 1)
        before = hidden.masked_fill(restarts, 0.0).transpose(0, 1).contiguous()
        output, after = self.recurrent(self.encoder(observation).unsqueeze(1), before)
        now = after.transpose(0, 1).contiguous(), steps + 1
        outputs = self.head(output[:, 0])
        if not self.discrete:
            return self.in_units(self._mixture(outputs).choose(deterministic, self.low_noise)), now
        if deterministic:
            return outputs.argmax(dim=1), now
        return outputs.softmax(dim=1).multinomial(1)[:, 0], now
