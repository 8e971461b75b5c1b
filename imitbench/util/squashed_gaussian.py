"""The distribution of a soft actor-critic's actions: tanh of a normal distribution.

Source: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C.
"""

from __future__ import annotations

import math
from typing import Any

import torch as th
from stable_baselines3.sac.policies import LOG_STD_MAX, LOG_STD_MIN
from torch.nn import functional

TAIL_WIDTH = 0.05
"""Width that the probability of a tail is spread over, where the bounds are -1 and 1."""

# Where the tails of `squashed_log_prob` begin. With 0.999, as in Acme's distributions, a tail is so
# far out before squashing that likelihood rises faster by the deviation than by the mean.
_TAIL = 1 - TAIL_WIDTH
_LOG_ROOT_2_PI = 0.5 * math.log(2 * math.pi)
# Actions at their bounds have an infinite preimage.
_EDGE = 1 - 1e-6


def parameters_of(outputs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Mean and log standard deviation before squashing.

    Args:
        outputs: Outputs of an actor, shape (…, 2 * actions).

    Returns:
        Two tensors of shape (…, actions); the second within Stable-Baselines3's limits.
    """
    mean, log_std = outputs.chunk(2, dim=-1)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


def with_least_std(outputs: th.Tensor, least_log_std: float) -> th.Tensor:
    """Outputs of an actor whose standard deviation has a lower bound; of the same shape."""
    mean, log_std = parameters_of(outputs)
    return th.cat([mean, log_std.clamp_min(least_log_std)], dim=-1)


def sample(outputs: th.Tensor, noise: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
    """Actions with their log-probabilities, both with first derivatives.

    Args:
        outputs: Outputs of an actor, shape (…, 2 * actions).
        noise: Standard normal numbers, shape (…, actions).

    Returns:
        Actions in (-1, 1), shape (…, actions), and log-probabilities, shape (…).
    """
    result: tuple[th.Tensor, th.Tensor] = _Sample.apply(outputs, noise)  # type: ignore[no-untyped-call]
    return result


def actions(outputs: th.Tensor, noise: th.Tensor) -> th.Tensor:
    """The actions of `sample` alone."""
    mean, log_std = parameters_of(outputs)
    return th.tanh(mean + log_std.exp() * noise)


class _Sample(th.autograd.Function):
    """One node of torch's graph, because the graph of its parts takes longer than they do.

    With u = mean + std * noise and a = tanh(u), log pi = -noise² / 2 - log std - log(1 - a²) and
    constants. So a has the derivative 1 - a² by u, and log pi has 2 a by u and -1 by log std.
    """

    @staticmethod
    def forward(ctx: Any, outputs: th.Tensor, noise: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        mean, log_std = parameters_of(outputs)
        spread = log_std.exp() * noise
        raw = mean + spread
        acts = th.tanh(raw)
        normal = -0.5 * noise.square() - log_std - _LOG_ROOT_2_PI
        ctx.save_for_backward(acts, spread, log_std, outputs)
        return acts, (normal - log_tanh_slope(raw)).sum(dim=-1)

    @staticmethod
    @th.autograd.function.once_differentiable
    def backward(ctx: Any, by_acts: th.Tensor, by_log_prob: th.Tensor) -> tuple[th.Tensor, None]:
        acts, spread, log_std, outputs = ctx.saved_tensors
        by_log_prob = by_log_prob.unsqueeze(-1)
        by_mean = by_acts * (1 - acts.square()) + 2 * by_log_prob * acts
        by_log_std = by_mean * spread - by_log_prob
        within = log_std == outputs.chunk(2, dim=-1)[1]  # not at a limit
        return th.cat([by_mean, by_log_std * within], dim=-1), None


def log_prob(outputs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Log-probability of given actions.

    Args:
        outputs: Outputs of an actor, shape (…, 2 * actions).
        actions: In [-1, 1], shape (…, actions).

    Returns:
        Shape (…).
    """
    mean, log_std = parameters_of(outputs)
    raw = th.atanh(actions.clamp(-_EDGE, _EDGE))
    normal = -0.5 * ((raw - mean) * (-log_std).exp()).square() - log_std - _LOG_ROOT_2_PI
    return (normal - log_tanh_slope(raw)).sum(dim=-1)


def tailed_log_prob(outputs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """`squashed_log_prob` of an actor's outputs."""
    return squashed_log_prob(*parameters_of(outputs), actions)


def mode_error(outputs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Mean squared distance of the mode from actions; arguments and result as of `cloning_loss`."""
    mode = th.tanh(outputs[..., : actions.shape[-1]])
    return (mode - actions).square().mean(dim=-1)


def cloning_loss(outputs: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Squared error of the mode, and minus the log-likelihood.

    By likelihood alone, actions at their bounds may leave the mean far from the tail before
    squashing, which only a large deviation explains.

    Args:
        outputs: Outputs of an actor, shape (…, 2 * actions).
        actions: In [-1, 1], shape (…, actions).

    Returns:
        Shape (…).
    """
    return mode_error(outputs, actions) - tailed_log_prob(outputs, actions)


def squashed_log_prob(mean: th.Tensor, log_std: th.Tensor, actions: th.Tensor) -> th.Tensor:
    """Log-density of actions that are tanh of samples of a normal distribution.

    Source: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", appendix C. A
    tail is all actions beyond ±(1 - `TAIL_WIDTH`); its probability is spread evenly over it, so
    that actions at their bounds, whose density would be infinite or 0, have at most log 20 for
    each entry.

    Args:
        mean: Means before squashing, shape (…, actions).
        log_std: Log standard deviations before squashing, shape (…, actions).
        actions: In [-1, 1], shape (…, actions).

    Returns:
        With respect to length, shape (…).
    """
    edge, shrink = math.atanh(_TAIL), (-log_std).exp()
    raw = th.atanh(actions.clamp(-_TAIL, _TAIL))
    normal = -0.5 * ((raw - mean) * shrink).square() - log_std - _LOG_ROOT_2_PI
    beyond = th.special.log_ndtr((actions.sign() * mean - edge) * shrink) - math.log(1 - _TAIL)
    return th.where(actions.abs() > _TAIL, beyond, normal - log_tanh_slope(raw)).sum(dim=-1)


def divergence(outputs: th.Tensor, others: th.Tensor) -> th.Tensor:
    """Kullback-Leibler divergence of one actor's actions from another's.

    It is that of the normal distributions, because both are squashed alike.

    Args:
        outputs: Outputs of the actor that acts, shape (…, 2 * actions).
        others: Outputs of the other, of the same shape.

    Returns:
        In nats, shape (…).
    """
    (mean, log_std), (other, other_log_std) = parameters_of(outputs), parameters_of(others)
    ratio = log_std - other_log_std
    distance = ((mean - other) * (-other_log_std).exp()).square()
    return (0.5 * ((2 * ratio).exp() + distance - 1) - ratio).sum(dim=-1)


def log_tanh_slope(raw: th.Tensor) -> th.Tensor:
    """log(1 - tanh² x), without loss of precision where x is large."""
    return 2 * (math.log(2) - raw - functional.softplus(-2 * raw))
