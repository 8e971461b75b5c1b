"""The network of diffusion and flow policies: a U-Net over the time of a plan.

Source: Chi et al. 2023, "Diffusion Policy: Visuomotor Policy Learning via Action Diffusion",
section IV and its appendix; Janner et al. 2022, "Planning with Diffusion for Flexible Behavior
Synthesis"; Perez et al. 2018, "FiLM: Visual Reasoning with a General Conditioning Layer".
"""

from __future__ import annotations

import math

import torch as th
from torch import nn
from torch.nn import functional

_KERNEL = 5
_GROUPS = 8
"""Groups of channels that are normalized together."""


class PlanUNet(nn.Module):
    """Maps noisy plans to plans of the same shape, given what was observed and a time.

    Args:
        n_actions: Entries of an action.
        observed: Length of the vector of observations.
        channels: Channels of the first level; each further level has twice as many, and half as
            many steps.
        levels: Number of levels.
        time_features: Features of the time.

    Raises:
        ValueError: `channels` is not a multiple of 8.
    """

    def __init__(
        self, n_actions: int, observed: int, channels: int, levels: int, time_features: int = 64
    ) -> None:
        super().__init__()
        if channels % _GROUPS:
            raise ValueError(f"channels: must be a multiple of {_GROUPS}, not {channels}")
        widths = [channels * 2**level for level in range(levels)]
        self.time_features = time_features
        self.time = nn.Sequential(
            nn.Linear(time_features, 4 * time_features),
            nn.Mish(),
            nn.Linear(4 * time_features, time_features),
        )
        condition = observed + time_features
        self.down = nn.ModuleList()
        for before, after in zip([n_actions, *widths], widths, strict=False):
            self.down.append(_Level(before, after, condition))
        last = widths[-1]
        self.shrink = nn.ModuleList(nn.Conv1d(w, w, 3, 2, 1) for w in widths[:-1])
        self.middle = _Level(last, last, condition)
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for narrow, wide in zip(widths[-2::-1], widths[:0:-1], strict=True):
            self.up.append(_Level(2 * wide, narrow, condition))
            self.grow.append(nn.ConvTranspose1d(narrow, narrow, 4, 2, 1))
        self.output = nn.Sequential(
            _convolution(channels, channels), nn.Conv1d(channels, n_actions, 1)
        )

    def forward(self, plans: th.Tensor, observed: th.Tensor, times: th.Tensor) -> th.Tensor:
        """Computes plans.

        Args:
            plans: Shape (batch, steps, actions); the steps are a multiple of 2^(levels - 1).
            observed: Vectors of the observations, shape (batch, observed).
            times: Time of the diffusion or the flow, in steps of about 1 to 100, shape (batch,).

        Returns:
            The same shape as `plans`.
        """
        time = self.time(sinusoids(times, self.time_features))
        condition = functional.mish(th.cat([time, observed], dim=1))
        x = plans.transpose(1, 2)
        passed = []
        for number, level in enumerate(self.down):
            x = level(x, condition)
            passed.append(x)
            if number < len(self.shrink):
                x = self.shrink[number](x)
        x = self.middle(x, condition)
        # As in the paper's code, the first level is not joined again.
        for level, grow in zip(self.up, self.grow, strict=True):
            x = grow(level(th.cat([x, passed.pop()], dim=1), condition))
        result: th.Tensor = self.output(x)
        return result.transpose(1, 2)


def sinusoids(times: th.Tensor, features: int) -> th.Tensor:
    """Sines and cosines of a time, at wavelengths from 2 pi to 10,000 times that.

    Args:
        times: Shape (batch,).
        features: An even number.

    Returns:
        Shape (batch, features), float32.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5.
    """
    half = features // 2
    exponents = th.arange(half, device=times.device, dtype=th.float32) / max(half - 1, 1)
    angles = times.float().unsqueeze(1) * th.exp(-math.log(10_000) * exponents)
    return th.cat([angles.sin(), angles.cos()], dim=1)


def _convolution(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv1d(before, after, _KERNEL, padding=_KERNEL // 2),
        nn.GroupNorm(_GROUPS, after),
        nn.Mish(),
    )


class _Level(nn.Module):
    """Two residual blocks."""

    def __init__(self, before: int, after: int, condition: int) -> None:
        super().__init__()
        self.first = _Residual(before, after, condition)
        self.second = _Residual(after, after, condition)

    def forward(self, x: th.Tensor, condition: th.Tensor) -> th.Tensor:
        result: th.Tensor = self.second(self.first(x, condition), condition)
        return result


class _Residual(nn.Module):
    """Two convolutions; the condition scales and shifts the channels between them (FiLM)."""

    def __init__(self, before: int, after: int, condition: int) -> None:
        super().__init__()
        self.first, self.second = _convolution(before, after), _convolution(after, after)
        self.film = nn.Linear(condition, 2 * after)
        self.shortcut = nn.Conv1d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x: th.Tensor, condition: th.Tensor) -> th.Tensor:
        scale, shift = self.film(condition).unsqueeze(2).chunk(2, dim=1)
        # Around 1, so that the first signal passes whatever the condition is.
        result: th.Tensor = self.second(self.first(x) * (1 + scale) + shift) + self.shortcut(x)
        return result
