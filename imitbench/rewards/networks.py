"""Reward networks: perceptrons and convolutional networks, with potential-based shaping or not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
from gymnasium import spaces
from torch import nn

from imitbench.rewards.base import ObservationMask, RewardNet, encoded_size
from imitbench.rewards.wrappers import ForwardWrapper
from imitbench.util.networks import build_cnn, build_mlp

# Bytes of a layer's output up to which images are convolved together on a CPU.
_CONVOLVED_AT_ONCE = 2**22
_INPUTS = ("use_state", "use_action", "use_next_state", "use_done")


class BasicRewardNet(RewardNet):
    """A perceptron of selected inputs: state, action, next state and done flag.

    Args:
        observation_space: As for `RewardNet`.
        action_space: As for `RewardNet`.
        use_state: Whether the state is an input.
        use_action: Whether the action is an input.
        use_next_state: Whether the next state is an input.
        use_done: Whether the done flag is an input.
        hidden_entries: Indices of entries of flat encoded observations to drop, from 0.
        **kwargs: Passed to `imitbench.util.networks.build_mlp`; by default two hidden layers
            of 32 units.

    Raises:
        ValueError: There would be no input, or an entry to drop does not exist.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        use_state: bool = True,
        use_action: bool = True,
        use_next_state: bool = False,
        use_done: bool = False,
        hidden_entries: Sequence[int] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.use_state = use_state
        self.use_action = use_action
        self.use_next_state = use_next_state
        self.use_done = use_done
        self.hidden_entries = tuple(hidden_entries)
        state_size = encoded_size(observation_space, "observation_space")
        self._visible = ObservationMask(state_size, self.hidden_entries)
        in_size = (
            self._visible.size * (use_state + use_next_state)
            + encoded_size(action_space, "action_space") * use_action
            + use_done
        )
        if in_size == 0:
            raise ValueError(
                "use_state, use_action, use_next_state and use_done are all False: set one of them"
            )
        self._mlp_kwargs = _with_sizes({"hid_sizes": (32, 32), **kwargs}, "hid_sizes")
        self.mlp = build_mlp(in_size, squeeze_output=True, **self._mlp_kwargs)

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards with gradients; unused inputs may be `None`."""
        inputs = []
        if self.use_state:
            inputs.append(self._visible(state))
        if self.use_action:
            inputs.append(action.flatten(1))
        if self.use_next_state:
            inputs.append(self._visible(next_state))
        if self.use_done:
            inputs.append(done.reshape(-1, 1))
        rewards: th.Tensor = self.mlp(th.cat(inputs, dim=1) if len(inputs) > 1 else inputs[0])
        return rewards

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **{name: getattr(self, name) for name in _INPUTS},
            **({"hidden_entries": self.hidden_entries} if self.hidden_entries else {}),
            **self._mlp_kwargs,
        }


class CnnRewardNet(RewardNet):
    """A convolutional network of the state, the next state or both, stacked as channels.

    It has one output per action if it uses the action, and twice as many if it uses the done
    flag; the transition selects one of them.

    Args:
        observation_space: Space of images, a Box of three dimensions.
        action_space: Discrete if used.
        use_state: Whether the state is an input.
        use_action: Whether the action selects the output.
        use_next_state: Whether the next state is an input.
        use_done: Whether the done flag selects the output.
        hwc_format: Whether channels are the last dimension of an image (else the first).
        **kwargs: Passed to `imitbench.util.networks.build_cnn`; by default two convolutions
            to 32 channels.

    Raises:
        ValueError: Observations are not images, actions are used but not Discrete, or there
            would be no image.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        use_state: bool = True,
        use_action: bool = True,
        use_next_state: bool = False,
        use_done: bool = False,
        hwc_format: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(observation_space, action_space)
        self.use_state = use_state
        self.use_action = use_action
        self.use_next_state = use_next_state
        self.use_done = use_done
        self.hwc_format = hwc_format
        if not (use_state or use_next_state):
            raise ValueError("use_state and use_next_state are both False: set one of them")
        channels = self.get_num_channels_obs(observation_space) * (use_state + use_next_state)
        self._ends = 2 if use_done else 1
        self._choices = 1
        if use_action:
            if not isinstance(action_space, spaces.Discrete):
                raise ValueError(
                    f"action_space: a CnnRewardNet needs Discrete actions, not {action_space}; "
                    "or set use_action=False"
                )
            self._choices = int(action_space.n)
        self._cnn_kwargs = _with_sizes({"hid_channels": (32, 32), **kwargs}, "hid_channels")
        self.cnn = build_cnn(channels, out_size=self._ends * self._choices, **self._cnn_kwargs)

    def get_num_channels_obs(self, space: gym.Space[Any]) -> int:
        """Number of channels of the images of a space.

        Raises:
            ValueError: Its elements are not images.
        """
        return _image_channels(space, self.hwc_format)

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """Computes rewards with gradients.

        Args:
            state: Shape `(n, height, width, channels)`, or `(n, channels, height, width)` unless
                `hwc_format`; `None` if not used.
            action: One-hot, shape `(n, actions)`; `None` if not used.
            next_state: Same shape as `state`; `None` if not used.
            done: Shape `(n,)`; `None` if not used.

        Returns:
            Rewards, shape `(n,)`.
        """
        images = [state] if self.use_state else []
        if self.use_next_state:
            images.append(next_state)
        image = th.cat(images, dim=-1 if self.hwc_format else 1) if len(images) > 1 else images[0]
        outputs = _convolve(self.cnn, cnn_transpose(image) if self.hwc_format else image)
        # Axes: transition, done flag, action.
        outputs = outputs.reshape(-1, self._ends, self._choices)
        by_end = th.einsum("nea,na->ne", outputs, action) if self.use_action else outputs.squeeze(2)
        if not self.use_done:
            return by_end.squeeze(1)
        return th.where(done.bool(), by_end[:, 1], by_end[:, 0])

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            **{name: getattr(self, name) for name in (*_INPUTS, "hwc_format")},
            **self._cnn_kwargs,
        }


class ConstantRewardNet(RewardNet):
    """The same reward for every transition, without parameters.

    Args:
        observation_space: As for `RewardNet`.
        action_space: As for `RewardNet`.
        reward: The reward.
    """

    def __init__(
        self, observation_space: gym.Space[Any], action_space: gym.Space[Any], reward: float
    ) -> None:
        super().__init__(observation_space, action_space)
        self.reward = reward

    def forward(
        self, state: th.Tensor, action: th.Tensor, next_state: th.Tensor, done: th.Tensor
    ) -> th.Tensor:
        """The reward of each transition, shape `(n,)`."""
        del action, next_state
        return th.full((len(state),), self.reward, dtype=done.dtype, device=done.device)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same network."""
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "reward": self.reward,
        }


def cnn_transpose(tens: th.Tensor) -> th.Tensor:
    """Moves the channels of images to the front.

    Args:
        tens: Shape `(n, height, width, channels)`.

    Returns:
        A view of shape `(n, channels, height, width)`.

    Raises:
        ValueError: `tens` does not have four dimensions.
    """
    if tens.ndim != 4:
        raise ValueError(f"tens has shape {tuple(tens.shape)}; it needs four dimensions")
    return tens.permute(0, 3, 1, 2)


def _convolve(cnn: nn.Module, images: th.Tensor) -> th.Tensor:
    """Applies a network of `build_cnn` to images, shape `(n, channels, height, width)`.

    On a CPU, a few images are processed at a time, so that activations stay in the caches: large
    batches then take a third of the time.
    """
    number, channels, height, width = images.shape
    widths = [layer.out_channels for layer in cnn.modules() if isinstance(layer, nn.Conv2d)]
    size = max([channels, *widths]) * height * width * images.element_size()
    at_once = max(1, _CONVOLVED_AT_ONCE // max(1, size))
    if images.device.type != "cpu" or number <= at_once:
        outputs: th.Tensor = cnn(images)
        return outputs
    return th.cat([cnn(part) for part in th.split(images, at_once)])


def _image_channels(space: gym.Space[Any], hwc_format: bool) -> int:
    if not isinstance(space, spaces.Box) or len(space.shape) != 3 or not _holds_images(space):
        raise ValueError(
            "observation_space: needs images, a Box of three dimensions with bytes from 0 to 255, "
            f"or with floats within [-1, 1]; not {space}"
        )
    return int(space.shape[-1 if hwc_format else 0])


def _holds_images(space: spaces.Box) -> bool:
    """Whether values are bytes, which are scaled later, or floats that are scaled already."""
    low, high = space.low.min(), space.high.max()
    if space.dtype == np.uint8:
        return bool(low == space.low.max() == 0 and high == space.high.min() == 255)
    return bool(np.issubdtype(space.dtype, np.floating) and low >= -1 and high <= 1)


def _with_sizes(kwargs: dict[str, Any], name: str) -> dict[str, Any]:
    """Copies keyword arguments with the sizes under `name`, any iterable, as a tuple."""
    return {**kwargs, name: tuple(int(size) for size in kwargs[name])}


class ShapedRewardNet(ForwardWrapper):
    """Adds γΦ(s') − Φ(s) to another network's rewards, where Φ is 0 after an episode's end.

    It changes no optimal policy (Ng, Harada and Russell 1999, "Policy Invariance Under Reward
    Transformations: Theory and Application to Reward Shaping").

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
        self._kwargs = _with_sizes({"hid_sizes": hid_sizes, **kwargs}, "hid_sizes")
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
        self._kwargs = _with_sizes({"hid_sizes": hid_sizes, **kwargs}, "hid_sizes")
        self._hwc_format = hwc_format
        channels = _image_channels(observation_space, hwc_format)
        self._potential_net = build_cnn(
            channels, hid_channels=self._kwargs["hid_sizes"], squeeze_output=True, **kwargs
        )

    def forward(self, state: th.Tensor) -> th.Tensor:
        """Computes potentials, shape `(n,)`, of images as in `CnnRewardNet`."""
        images = cnn_transpose(state) if self._hwc_format else state
        return _convolve(self._potential_net, images)

    def arguments(self) -> dict[str, Any]:
        """Constructor arguments that build the same potential."""
        return {
            "observation_space": self._observation_space,
            "hwc_format": self._hwc_format,
            **self._kwargs,
        }
