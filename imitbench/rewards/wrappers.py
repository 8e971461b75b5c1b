"""Wrappers of reward networks, some of which change only what policies receive; ensembles."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Literal, cast, get_args

import gymnasium as gym
import numpy as np
import torch as th
from torch import nn
from torch.nn import functional

from imitbench.data.types import AnyTensor
from imitbench.rewards.base import Array, RewardNet, RewardNetWithVariance, frozen
from imitbench.rewards.reward_function import check_reward_shape
from imitbench.util.networks import BaseNorm


class RewardNetWrapper(RewardNet):
    """A reward network that wraps another one.

    Subclass `ForwardWrapper` to change the rewards themselves, or `PredictProcessedWrapper` to
    change only those that policies are trained with.

    Args:
        base: Network to wrap.
    """

    def __init__(self, base: RewardNet) -> None:
        super().__init__(base.observation_space, base.action_space, base.normalize_images)
        self._base = base

    @property
    def base(self) -> RewardNet:
        """The wrapped network."""
        return self._base

    @property
    def device(self) -> th.device:
        """Device of the wrapped network."""
        return self.base.device

    @property
    def dtype(self) -> th.dtype:
        """Data type of the wrapped network."""
        return self.base.dtype

    def preprocess(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> tuple[th.Tensor, th.Tensor, th.Tensor, th.Tensor]:
        """Delegates to the wrapped network."""
        return self.base.preprocess(state, action, next_state, done)


class ForwardWrapper(RewardNetWrapper):
    """A wrapper that changes `forward`, and so all predictions.

    Put it inside of all `PredictProcessedWrapper`s, whose changes do not affect the training of
    the network.

    Args:
        base: Network to wrap.

    Raises:
        ValueError: `base` contains a `PredictProcessedWrapper`.
    """

    def __init__(self, base: RewardNet) -> None:
        inner: RewardNet | None = base
        while inner is not None:
            if isinstance(inner, PredictProcessedWrapper):
                raise ValueError(
                    f"base: {type(self).__name__} changes forward and cannot go around "
                    f"{type(inner).__name__}, which changes predict_processed; swap them"
                )
            inner = inner.base if isinstance(inner, RewardNetWrapper) else None
        super().__init__(base)


class PredictProcessedWrapper(RewardNetWrapper):
    """A wrapper that changes only `predict_processed`.

    Subclasses pass unknown keyword arguments of `predict_processed` to the wrapped network.

    Args:
        base: Network to wrap.
    """

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Delegates to the wrapped network."""
        rewards: th.Tensor = self.base(state, action, next_state, done)
        return rewards

    def predict_th(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> th.Tensor:
        """Delegates to the wrapped network."""
        return self.base.predict_th(state, action, next_state, done)

    def predict(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> Array:
        """Delegates to the wrapped network."""
        return self.base.predict(state, action, next_state, done)

    @abstractmethod
    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Computes rewards to train a policy, shape `(n,)`."""


class NormalizedRewardNet(PredictProcessedWrapper):
    """Normalizes the rewards that policies receive.

    Unlike Stable-Baselines3's `VecNormalize`, it uses mean and variance of the rewards, not
    the variance of returns.

    Args:
        base: Network to wrap.
        normalize_output_layer: Called with 1 to make a layer that keeps the shape `(n, 1)`, such
            as `RunningNorm`.
    """

    def __init__(self, base: RewardNet, normalize_output_layer: Callable[[int], nn.Module]) -> None:
        super().__init__(base)
        self._make_layer = normalize_output_layer
        self.normalize_output_layer = normalize_output_layer(1)

    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        update_stats: bool = True,
        **kwargs: Any,
    ) -> Array:
        """Computes rewards normalized with the statistics of all earlier calls, shape `(n,)`.

        With `update_stats`, these rewards are then added to the statistics, if the layer keeps
        any; without it, inner normalizers are not updated either. Other arguments as in
        `preprocess`; keyword arguments are passed to the wrapped network.
        """
        if not update_stats:
            kwargs["update_stats"] = False
        rewards = self.base.predict_processed(state, action, next_state, done, **kwargs)
        layer = self.normalize_output_layer
        column = th.as_tensor(rewards, device=self.device).unsqueeze(1)
        with frozen(layer):
            normalized: th.Tensor = layer(column)
            # An empty batch has neither mean nor variance.
            if update_stats and len(column) and isinstance(layer, BaseNorm):
                layer.update_stats(column)
        check_reward_shape(tuple(normalized.shape[:-1]), len(state))
        result: Array = normalized.squeeze(1).cpu().numpy()
        return result

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {"base": self.base, "normalize_output_layer": self._make_layer}


class AddSTDRewardWrapper(PredictProcessedWrapper):
    """Adds a multiple of the rewards' standard deviation, to seek or avoid uncertainty.

    Args:
        base: A network that estimates its uncertainty.
        default_alpha: Multiple of the standard deviation; may be negative.

    Raises:
        TypeError: `base` is not a `RewardNetWithVariance`.
    """

    def __init__(self, base: RewardNetWithVariance, default_alpha: float = 0.0) -> None:
        if not isinstance(base, RewardNetWithVariance):
            raise TypeError(
                "base: needs a RewardNetWithVariance such as RewardEnsemble, which has a "
                f"standard deviation, not {type(base).__name__}"
            )
        super().__init__(base)
        self.default_alpha = default_alpha

    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        alpha: float | None = None,
        **kwargs: Any,
    ) -> Array:
        """Computes the mean reward plus `alpha` standard deviations, shape `(n,)`.

        `alpha` of `None` stands for `default_alpha`. Other arguments as in `preprocess`; keyword
        arguments are passed to the wrapped network.
        """
        base = self.base
        assert isinstance(base, RewardNetWithVariance), "the constructor made sure"
        mean, variance = base.predict_reward_moments(state, action, next_state, done, **kwargs)
        scale = self.default_alpha if alpha is None else alpha
        bound: Array = mean + scale * variance**0.5
        return bound

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {"base": self.base, "default_alpha": self.default_alpha}


RewardForm = Literal["softplus", "logit", "log_d"]
"""How a discriminator's logits become rewards, see `RewardNetFromDiscriminatorLogit`."""


class RewardNetFromDiscriminatorLogit(RewardNetWrapper):
    """The generator's reward, computed from the logits of a discriminator.

    With D the discriminator's probability that a transition is the expert's and L its logit, the
    reward is, by form:

    - `softplus`: -log(1 - D) = softplus(L), the negated cost of the paper, whose D is the
      probability of the generator. It is always positive, which favors long episodes, and its
      gradient vanishes where the discriminator is sure that it sees the generator.
    - `logit`: log D - log(1 - D) = L, of either sign (Fu, Luo and Levine 2018, §5; for GAIL, Orsini
      et al. 2021, "What Matters for Adversarial Imitation Learning?").
    - `log_d`: log D = -softplus(-L), always negative, which favors short episodes.

    Args:
        base: Network whose output is the logit.
        form: One of the above.

    Raises:
        ValueError: `form` is unknown.
    """

    def __init__(self, base: RewardNet, form: RewardForm = "softplus") -> None:
        super().__init__(base)
        if form not in get_args(RewardForm):
            raise ValueError(f"form must be one of {', '.join(get_args(RewardForm))}, not {form!r}")
        self.form: RewardForm = form

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Rewards of preprocessed transitions, shape (batch,), with gradients."""
        logits: th.Tensor = self.base(state, action, next_state, done)
        if self.form == "softplus":
            return functional.softplus(logits)
        return logits if self.form == "logit" else functional.logsigmoid(logits)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        form = {} if self.form == "softplus" else {"form": self.form}
        return {"base": self.base, **form}


class RewardEnsemble(RewardNetWithVariance):
    """The mean of several reward networks.

    Each member contributes its `predict_processed`, so members may be normalized separately.

    Args:
        observation_space: That of all members.
        action_space: That of all members.
        members: At least two networks.

    Raises:
        ValueError: There are fewer than two members.

    Attributes:
        members: The networks as submodules.
    """

    members: nn.ModuleList

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        members: Iterable[RewardNet],
    ) -> None:
        super().__init__(observation_space, action_space)
        self.members = nn.ModuleList(members)
        if len(self.members) < 2:
            raise ValueError(
                f"members: an ensemble needs at least 2, not {len(self.members)}: one alone has "
                "no variance"
            )

    @property
    def num_members(self) -> int:
        """Number of networks."""
        return len(self.members)

    def forward(self, *args: Any) -> th.Tensor:
        """Not available: members are trained individually.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("an ensemble has no forward pass: call and train its members")

    def predict_th(
        self, state: AnyTensor, action: AnyTensor, next_state: AnyTensor, done: AnyTensor
    ) -> th.Tensor:
        """Mean of the members, shape `(n,)`."""
        return th.as_tensor(self.predict(state, action, next_state, done), device=self.device)

    def predict(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Mean of the members, shape `(n,)`, without updating their normalizers.

        Arguments as in `predict_processed_all`.
        """
        kwargs = {"update_stats": False, **kwargs}
        return self.predict_processed(state, action, next_state, done, **kwargs)

    def predict_processed(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Mean of the members, shape `(n,)`; arguments as in `predict_processed_all`."""
        mean: Array = self.predict_processed_all(state, action, next_state, done, **kwargs).mean(-1)
        return mean

    def predict_processed_all(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> Array:
        """Rewards of every member.

        Arguments as in `preprocess`; keyword arguments are passed to each member's
        `predict_processed`.

        Returns:
            Rewards, shape `(n, num_members)`.
        """
        columns = [
            cast(RewardNet, member).predict_processed(state, action, next_state, done, **kwargs)
            for member in self.members
        ]
        return np.stack(columns, axis=-1)

    def predict_reward_moments(
        self,
        state: AnyTensor,
        action: AnyTensor,
        next_state: AnyTensor,
        done: AnyTensor,
        **kwargs: Any,
    ) -> tuple[Array, Array]:
        """Mean and unbiased variance over the members; arguments as in `predict_processed_all`.

        Returns:
            Means and variances, each of shape `(n,)`.
        """
        rewards = self.predict_processed_all(state, action, next_state, done, **kwargs)
        return rewards.mean(-1), rewards.var(-1, ddof=1)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same ensemble."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "members": list(self.members),
        }
