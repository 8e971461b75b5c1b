"""Neural-network layers and builders."""

from __future__ import annotations

import torch as th
from torch import nn


class BaseNorm(nn.Module):
    """Placeholder until the full module lands."""

    running_mean: th.Tensor
    running_var: th.Tensor
    count: th.Tensor

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.register_buffer("running_mean", th.zeros(num_features))
        self.register_buffer("running_var", th.ones(num_features))
        self.register_buffer("count", th.zeros((), dtype=th.int))

    def forward(self, x: th.Tensor) -> th.Tensor:
        if self.training:
            with th.no_grad():
                self.update_stats(x)
        return (x - self.running_mean) / th.sqrt(self.running_var + self.eps)

    def update_stats(self, batch: th.Tensor) -> None:
        m, v, n = batch.mean(0), batch.var(0, unbiased=False), batch.shape[0]
        total = self.count + n
        d = m - self.running_mean
        self.running_mean += d * n / total
        self.running_var.copy_(
            (self.running_var * self.count + v * n + d * d * self.count * n / total) / total
        )
        self.count += n


class RunningNorm(BaseNorm):
    """Running."""


class EMANorm(BaseNorm):
    """EMA."""
