"""Diffusion policy: plans by removing noise, step by step.

Source: Chi et al. 2023, "Diffusion Policy: Visuomotor Policy Learning via Action Diffusion"; Ho,
Jain and Abbeel 2020, "Denoising Diffusion Probabilistic Models"; Song, Meng and Ermon 2021,
"Denoising Diffusion Implicit Models"; Nichol and Dhariwal 2021, "Improved Denoising Diffusion
Probabilistic Models" (the schedule).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th

from imitbench.policies.densities import normal_like
from imitbench.policies.sequences.base import ChunkPolicy, WindowBatch
from imitbench.policies.sequences.unet import PlanUNet


class PlanGenerator(ChunkPolicy):
    """A policy whose U-Net turns noise into plans; a subclass says how.

    Random plans begin at noise of torch's generator. Fixed ones always begin at the same noise,
    which was drawn once and is stored: the mean of the noise, 0, is between the modes of an expert
    that does one thing or another, and would lead to neither.

    Args:
        observation_space: A box, choices, or an image of bytes.
        action_space: A box.
        history: See `ChunkPolicy`.
        horizon: See `ChunkPolicy`; a multiple of 2^(levels - 1).
        execute: See `ChunkPolicy`.
        channels: See `PlanUNet`.
        levels: See `PlanUNet`.
        image_features: Features of an image.

    Attributes:
        network: The U-Net.
        fixed_noise: Where fixed plans begin, shape (horizon, n_actions).

    Raises:
        ValueError: As `ChunkPolicy` and `PlanUNet`, or `horizon` is no such multiple.
    """

    own_arguments: tuple[str, ...] = ("history", "horizon", "execute", "channels", "levels")
    fixed_noise: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        history: int = 2,
        horizon: int = 16,
        execute: int = 8,
        channels: int = 64,
        levels: int = 2,
        image_features: int = 64,
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            "range",
            image_features,
            history=history,
            horizon=horizon,
            execute=execute,
        )
        if horizon % 2 ** (levels - 1):
            raise ValueError(
                f"horizon: must be a multiple of {2 ** (levels - 1)} with {levels} levels, "
                f"not {horizon}"
            )
        self.channels, self.levels = channels, levels
        observed = history * self.encoder.size
        self.network = PlanUNet(self.n_actions, observed, channels, levels)
        self.register_buffer("fixed_noise", th.randn(horizon, self.n_actions))

    def start(self, count: int, deterministic: bool) -> th.Tensor:
        """Noise at which plans begin, shape (count, horizon, n_actions)."""
        if deterministic:
            return self.fixed_noise.expand(count, -1, -1)
        return th.randn(count, *self.fixed_noise.shape, device=self.fixed_noise.device)


class DiffusionPolicy(PlanGenerator):
    """Predicts the noise in noisy plans, and removes it in a few steps.

    Args:
        *args: As for `PlanGenerator`.
        train_steps: Steps of the diffusion.
        sample_steps: Steps in which a plan is made.
        **kwargs: As for `PlanGenerator`.

    Raises:
        ValueError: As `PlanGenerator`, or there are more steps to sample than to train.
    """

    own_arguments = (*PlanGenerator.own_arguments, "train_steps", "sample_steps")
    kept: th.Tensor

    def __init__(
        self, *args: Any, train_steps: int = 100, sample_steps: int = 10, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        if not 1 <= sample_steps <= train_steps:
            raise ValueError(
                f"sample_steps: must be from 1 to train_steps, {train_steps}, not {sample_steps}"
            )
        self.train_steps, self.sample_steps = train_steps, sample_steps
        self.register_buffer("kept", kept_signal(train_steps), persistent=False)

    def loss(
        self, batch: WindowBatch, rng: np.random.Generator
    ) -> tuple[th.Tensor, dict[str, th.Tensor]]:
        """Squared error of the predicted noise at a random step of the diffusion.

        Actions beyond the end of a demonstration repeat its last one, and count.
        """
        plans = self.normalized(batch.acts)
        seen = self.encode_windows(batch.obs).flatten(1)
        noise = normal_like(plans, rng)
        steps = th.from_numpy(rng.integers(self.train_steps, size=len(plans))).to(plans.device)
        kept = self.kept[steps].reshape(-1, 1, 1)
        noisy = kept.sqrt() * plans + (1 - kept).sqrt() * noise
        return (self.network(noisy, seen, steps) - noise).square().mean(), {}

    def plan(self, seen: th.Tensor, deterministic: bool) -> th.Tensor:
        """Removes noise with DDIM, which adds none."""
        condition = seen.flatten(1)

        def noise_in(plans: th.Tensor, step: int) -> th.Tensor:
            steps = plans.new_full((len(plans),), step)
            noise: th.Tensor = self.network(plans, condition, steps)
            return noise

        return ddim(noise_in, self.start(len(seen), deterministic), self.kept, self.sample_steps)


def kept_signal(steps: int) -> th.Tensor:
    """The share of a plan's variance that is left at each step, alpha bar; squared cosine.

    Args:
        steps: Steps of the diffusion.

    Returns:
        Decreasing, shape (steps,), float32.

    Source: Nichol and Dhariwal 2021, equation 17, with the steps limited to beta = 0.999.
    """
    times = np.arange(steps + 1) / steps
    level = np.cos((times + 0.008) / 1.008 * math.pi / 2) ** 2
    betas = np.minimum(1 - level[1:] / level[:-1], 0.999)
    return th.from_numpy(np.cumprod(1 - betas)).float()


def ddim(
    noise_in: Callable[[th.Tensor, int], th.Tensor],
    start: th.Tensor,
    kept: th.Tensor,
    sample_steps: int,
) -> th.Tensor:
    """Removes noise in a few steps without adding any (eta = 0).

    Args:
        noise_in: Predicts the noise in points at a step of the diffusion.
        start: Noise, shape (batch, …).
        kept: See `kept_signal`.
        sample_steps: Number of steps, which are spread evenly over those of the diffusion.

    Returns:
        Points in [-1, 1], the same shape.

    Source: Song et al. 2021, equation 12. As in the diffusion policy's code, the predicted point is
    clipped to the range of the data.
    """
    point = start
    steps = [len(kept) * number // sample_steps for number in range(sample_steps)]
    for step, following in zip(steps[::-1], [*steps[-2::-1], None], strict=True):
        noise = noise_in(point, step)
        clean = (point - (1 - kept[step]).sqrt() * noise) / kept[step].sqrt()
        clean = clean.clamp(-1.0, 1.0)
        if following is None:
            return clean
        point = kept[following].sqrt() * clean + (1 - kept[following]).sqrt() * noise
    raise AssertionError("there is at least one step")
