"""Potential-based reward shaping, and networks for the potential.

Source: Ng, Harada and Russell 1999, "Policy Invariance Under Reward Transformations: Theory and
Application to Reward Shaping": adding F(s, s') = γΦ(s') − Φ(s) changes no optimal policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import torch as th
from torch import nn

from imitbench.rewards.base import RewardNet
from imitbench.rewards.encoding import ObservationMask, encoded_size
from imitbench.rewards.networks import (
    BasicRewardNet,
    cnn_transpose,
    convolve,
    image_channels,
    with_sizes,
)
from imitbench.rewards.wrappers import ForwardWrapper
from imitbench.util.networks import build_cnn, build_mlp


class ShapedRewardNet(ForwardWrapper):
    """Adds γΦ(s') − Φ(s) to another network's rewards, where Φ is 0 after an episode's end.

    Both potentials come from one call, so that a normalizing layer in Φ applies the same
    statistics to them.

    Args:
        base: Network whose rewards are shaped.
        potential: Φ: maps encoded states, shape `(n, *encoded_observation_shape)`, to numbers,
            shape `(n,)` or `(n, 1)`. A module becomes a submodule.
        discount_factor: γ, in [0, 1].

    Raises:
        ValueError: γ is out of range, or `base` contains a `PredictProcessedWrapper`.
    """

    def __init__(
        self,
        base: RewardNet,
        potential: Callable[[th.Tensor], th.Tensor],
        discount_factor: float,
    ) -> None:
        super().__init__(base)
        if not 0 <= discount_factor <= 1:
            raise ValueError(f"discount_factor must lie in [0, 1], not {discount_factor}")
        self.potential = potential
        self.discount_factor = discount_factor

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes shaped rewards with gradients.

        Raises:
            ValueError: The potential does not return one number per state.
        """
        rewards: th.Tensor = self.base(state, action, next_state, done)
        number = len(state)
        potentials = self.potential(th.cat((state, next_state)))
        if potentials.shape not in ((2 * number,), (2 * number, 1)):
            raise ValueError(
                f"potential gives shape {tuple(potentials.shape)} for {2 * number} states; it "
                f"needs ({2 * number},)"
            )
        before, after = potentials.reshape(2, number)
        goes_on = 1 - done.to(after.dtype)
        shaped: th.Tensor = rewards + self.discount_factor * goes_on * after - before
        return shaped

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {
            "base": self.base,
            "potential": self.potential,
            "discount_factor": self.discount_factor,
        }


class BasicShapedRewardNet(ShapedRewardNet):
    """A perceptron for the reward, shaped by a perceptron for the potential.

    Args:
        observation_space: As for `RewardNet`.
        action_space: As for `RewardNet`.
        reward_hid_sizes: Widths of the hidden layers of the reward.
        potential_hid_sizes: Widths of the hidden layers of the potential.
        use_state: Whether the state is an input of the reward.
        use_action: Whether the action is an input of the reward.
        use_next_state: Whether the next state is an input of the reward.
        use_done: Whether the done flag is an input of the reward.
        discount_factor: γ of the shaping, in [0, 1].
        hidden_entries: Indices of entries of flat encoded observations to drop, from 0.
        **kwargs: Passed to both perceptrons.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        reward_hid_sizes: Sequence[int] = (32,),
        potential_hid_sizes: Sequence[int] = (32, 32),
        use_state: bool = True,
        use_action: bool = True,
        use_next_state: bool = False,
        use_done: bool = False,
        discount_factor: float = 0.99,
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        base = BasicRewardNet(
            observation_space,
            action_space,
            use_state=use_state,
            use_action=use_action,
            use_next_state=use_next_state,
            use_done=use_done,
            hid_sizes=reward_hid_sizes,
            hidden_entries=hidden_entries,
            **kwargs,
        )
        potential = BasicPotentialMLP(
            observation_space,
            hid_sizes=potential_hid_sizes,
            hidden_entries=hidden_entries,
            **kwargs,
        )
        super().__init__(base, potential, discount_factor)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        base, potential = self.base, self.potential
        assert isinstance(base, BasicRewardNet), "the constructor made it"
        assert isinstance(potential, BasicPotentialMLP), "the constructor made it"
        reward = base.arguments()
        sizes = reward.pop("hid_sizes")
        return {
            **reward,
            "reward_hid_sizes": sizes,
            "potential_hid_sizes": potential.arguments()["hid_sizes"],
            "discount_factor": self.discount_factor,
        }


class BasicPotentialMLP(nn.Module):
    """A perceptron as potential.

    Args:
        observation_space: As for `RewardNet`.
        hid_sizes: Widths of the hidden layers.
        hidden_entries: Indices of entries of flat encoded observations to drop, from 0.
        **kwargs: Passed to `imitbench.util.networks.build_mlp`.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        hid_sizes: Iterable[int],
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._observation_space = observation_space
        self._kwargs = with_sizes({"hid_sizes": hid_sizes, **kwargs}, "hid_sizes")
        self._hidden = tuple(hidden_entries)
        self._visible = ObservationMask(
            encoded_size(observation_space, "observation_space"), self._hidden
        )
        self._potential_net = build_mlp(
            self._visible.size, squeeze_output=True, flatten_input=True, **self._kwargs
        )

    def forward(self, state: th.Tensor) -> th.Tensor:
        """Computes potentials, shape `(n,)`, of encoded states, `(n, *encoded_shape)`."""
        potentials: th.Tensor = self._potential_net(self._visible(state))
        return potentials

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same potential."""
        hidden = {"hidden_entries": self._hidden} if self._hidden else {}
        return {"observation_space": self._observation_space, **hidden, **self._kwargs}


class BasicPotentialCNN(nn.Module):
    """A convolutional network as potential.

    Args:
        observation_space: Space of images, a Box of three dimensions.
        hid_sizes: Channels after each convolution.
        hwc_format: Whether channels are the last dimension of an image (else the first).
        **kwargs: Passed to `imitbench.util.networks.build_cnn`.

    Raises:
        ValueError: Observations are not images.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        hid_sizes: Iterable[int],
        hwc_format: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        self._observation_space = observation_space
        self._kwargs = with_sizes({"hid_sizes": hid_sizes, **kwargs}, "hid_sizes")
        self._hwc_format = hwc_format
        channels = image_channels(observation_space, hwc_format)
        self._potential_net = build_cnn(
            channels, hid_channels=self._kwargs["hid_sizes"], squeeze_output=True, **kwargs
        )

    def forward(self, state: th.Tensor) -> th.Tensor:
        """Computes potentials, shape `(n,)`, of images as in `CnnRewardNet`."""
        images = cnn_transpose(state) if self._hwc_format else state
        return convolve(self._potential_net, images)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same potential."""
        return {
            "observation_space": self._observation_space,
            "hwc_format": self._hwc_format,
            **self._kwargs,
        }
