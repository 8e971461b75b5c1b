"""ACT: action chunking with a transformer, trained as a variational autoencoder.

Source: Zhao, Kumar, Levine and Finn 2023, "Learning Fine-Grained Bimanual Manipulation with
Low-Cost Hardware".
"""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from torch import nn

from imitbench.policies.densities import normal_like
from imitbench.policies.sequences.base import ChunkPolicy, WindowBatch
from imitbench.policies.sequences.unet import sinusoids
from imitbench.policies.stateful import State


class ACTPolicy(ChunkPolicy):
    """Plans a chunk of actions from the present observation.

    In training, an encoder sees the expert's chunk and puts what distinguishes it from others into
    a latent vector. To act, the vector is 0, the mean of its prior. Actions are never random.

    Args:
        observation_space: A box, choices, or an image of bytes.
        action_space: A box.
        chunk: Actions in a chunk.
        hidden_size: Units of each token.
        heads: Heads of attention; a divisor of `hidden_size`.
        encoder_layers: Layers of both encoders.
        decoder_layers: Layers of the decoder.
        feedforward: Units of the hidden layer in each layer.
        latent: Entries of the latent vector.
        kl_weight: Weight of the latent vector's divergence from its prior.
        dropout: Probability of dropout.
        temporal_ensembling: Whether to plan at each step, and to take the weighted mean of all
            plans for it; else each chunk is taken to its end.
        ensemble_decay: m of the weights exp(-m i), where i = 0 is the oldest plan.
        image_features: Features of an image.

    Raises:
        ValueError: As `ChunkPolicy`, or `heads` is not a divisor of `hidden_size`.
    """

    length_argument = "chunk"
    own_arguments = (
        "chunk",
        "hidden_size",
        "heads",
        "encoder_layers",
        "decoder_layers",
        "feedforward",
        "latent",
        "kl_weight",
        "dropout",
        "temporal_ensembling",
        "ensemble_decay",
    )

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        chunk: int = 16,
        hidden_size: int = 64,
        heads: int = 4,
        encoder_layers: int = 2,
        decoder_layers: int = 1,
        feedforward: int = 256,
        latent: int = 32,
        kl_weight: float = 10.0,
        dropout: float = 0.1,
        temporal_ensembling: bool = True,
        ensemble_decay: float = 0.01,
        image_features: int = 64,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            "moments",
            image_features,
            history=1,
            horizon=chunk,
            execute=chunk,
        )
        if hidden_size % (2 * heads):
            raise ValueError(
                f"hidden_size: must be a multiple of twice the {heads} heads, not {hidden_size}"
            )
        self.chunk, self.hidden_size, self.heads = chunk, hidden_size, heads
        self.encoder_layers, self.decoder_layers = encoder_layers, decoder_layers
        self.feedforward, self.latent, self.kl_weight = feedforward, latent, kl_weight
        self.dropout = dropout
        self.temporal_ensembling, self.ensemble_decay = temporal_ensembling, ensemble_decay
        self.see = nn.Linear(self.encoder.size, hidden_size)
        # The encoder of the expert's chunk: a token of its own, the observation, the actions.
        self.summary = nn.Parameter(0.02 * th.randn(hidden_size))
        self.posterior_see = nn.Linear(self.encoder.size, hidden_size)
        self.posterior_act = nn.Linear(self.n_actions, hidden_size)
        self.posterior = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(hidden_size, **self._layer), encoder_layers,
            enable_nested_tensor=False,
        )  # fmt: skip
        self.posterior_head = nn.Linear(hidden_size, 2 * latent)
        # The policy: a latent vector and an observation give a chunk.
        self.from_latent = nn.Linear(latent, hidden_size)
        self.kinds = nn.Parameter(0.02 * th.randn(2, hidden_size))
        self.context = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(hidden_size, **self._layer), encoder_layers,
            enable_nested_tensor=False,
        )  # fmt: skip
        self.queries = nn.Parameter(th.randn(chunk, hidden_size))
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(hidden_size, **self._layer), decoder_layers
        )
        self.head = nn.Linear(hidden_size, self.n_actions)

    @property
    def _layer(self) -> dict[str, Any]:
        return {
            "nhead": self.heads,
            "dim_feedforward": self.feedforward,
            "dropout": self.dropout,
            "batch_first": True,
        }

    def loss(
        self, batch: WindowBatch, rng: np.random.Generator
    ) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Mean absolute error of real actions, plus the weighted divergence of the latent."""
        seen = self.encode_windows(batch.obs)[:, 0]
        target = self.normalized(batch.acts)
        mean, log_variance = self._infer(seen, target, batch.real)
        latent = mean + (0.5 * log_variance).exp() * normal_like(mean, rng)
        errors = (self._decode(seen, latent) - target).abs().mean(dim=2)
        real = batch.real.float()
        l1 = (errors * real).sum() / real.sum()
        divergence = 0.5 * (mean.square() + log_variance.exp() - log_variance - 1)
        kl = divergence.sum(dim=1).mean()
        return l1 + self.kl_weight * kl, {"l1": l1.detach(), "kl": kl.detach()}

    def _infer(
        self, seen: th.Tensor, chunk: th.Tensor, real: th.Tensor
    ) -> tuple[th.Tensor, th.Tensor]:
        """The posterior of the latent vector: mean and log-variance, shape (batch, latent)."""
        first = self.summary.expand(len(seen), 1, -1)
        tokens = [first, self.posterior_see(seen).unsqueeze(1), self.posterior_act(chunk)]
        x = th.cat(tokens, dim=1)
        positions = th.arange(x.shape[1], device=x.device)
        x = x + sinusoids(positions, self.hidden_size)
        padded = th.cat([th.zeros_like(real[:, :1]).expand(-1, 2), ~real], dim=1)
        summary = self.posterior(x, src_key_padding_mask=padded)[:, 0]
        mean, log_variance = self.posterior_head(summary).chunk(2, dim=1)
        return mean, log_variance

    def _decode(self, seen: th.Tensor, latent: th.Tensor) -> th.Tensor:
        """A chunk for each observation and latent vector, shape (batch, chunk, n_actions)."""
        tokens = th.stack([self.from_latent(latent), self.see(seen)], dim=1) + self.kinds
        decoded = self.decoder(self.queries.expand(len(seen), -1, -1), self.context(tokens))
        actions: th.Tensor = self.head(decoded)
        return actions

    def plan(self, seen: th.Tensor, deterministic: bool) -> th.Tensor:
        """The chunk of the latent vector 0, whether or not actions may be random."""
        del deterministic
        return self._decode(seen[:, -1], seen.new_zeros(len(seen), self.latent))

    def initial_state(self, n_envs: int) -> State:
        """No plans."""
        if not self.temporal_ensembling:
            return super().initial_state(n_envs)
        shape = n_envs, self.chunk, self.chunk, self.n_actions
        steps = th.zeros(n_envs, dtype=th.int64, device=self.device)
        return th.zeros(shape, device=self.device), steps

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Takes the weighted mean of what all plans of the last steps have for this one."""
        if not self.temporal_ensembling:
            return super().act(observation, state, deterministic)
        plans, steps = state
        fresh = self.plan(self.encoder(observation).unsqueeze(1), deterministic)
        plans = th.cat([fresh.unsqueeze(1), plans[:, :-1]], dim=1)
        steps = steps + 1
        return self.in_units(ensembled(plans, steps, self.ensemble_decay)), (plans, steps)


def ensembled(plans: th.Tensor, steps: th.Tensor, decay: float) -> th.Tensor:
    """The action of the present step from all plans that include it.

    The plan of i steps ago has its action i for it. Weights are exp(-decay * j), where j counts
    from the oldest plan, so that the oldest has the largest (Zhao et al. 2023, section IV-B).

    Args:
        plans: The latest first, shape (n, chunk, chunk, actions).
        steps: Plans made since the start of the episode, shape (n,).
        decay: See above.

    Returns:
        Shape (n, actions).
    """
    size = plans.shape[1]
    age = th.arange(size, device=plans.device)
    made = steps.clamp(max=size).unsqueeze(1)
    weights = th.where(age < made, th.exp(-decay * (made - 1 - age)), 0.0)
    weights = weights / weights.sum(dim=1, keepdim=True)
    return (weights.unsqueeze(2) * plans[:, age, age]).sum(dim=1)
