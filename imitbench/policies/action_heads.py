"""Policies for behavioral cloning of continuous actions, one for each kind of output.

They differ only in what follows the hidden layers and in their loss, so that a comparison of two
of them is one of outputs. `imitbench.algorithms.bc_heads.BCWithHead` trains them.

Losses and networks see scaled actions: the range of each bounded entry becomes [-1, 1]; entries
without bounds stay as they are.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.torch_layers import (
    BaseFeaturesExtractor,
    CombinedExtractor,
    FlattenExtractor,
)
from stable_baselines3.common.type_aliases import PyTorchObs
from torch import nn
from torch.nn import functional

from imitbench.policies.densities import (
    HALF_LOG_TAU,
    Mixture,
    flow_loss,
    follow_flow,
    spread_components,
)
from imitbench.util.networks import build_mlp

Array = npt.NDArray[Any]

# More steps than that are a mistake, or an attack by a file.
_MOST_STEPS = 1000
# The least variance of Lakshminarayanan et al. 2017.
_LEAST_VARIANCE = 1e-6


class HeadPolicy(BasePolicy, ABC):
    """Base of the policies with continuous actions that behavioral cloning can train.

    Args:
        observation_space: Space of one observation; dictionaries and images are flattened unless
            `features_extractor_class` says otherwise.
        action_space: A box.
        net_arch: Units of each hidden layer.
        activation_fn: Non-linearity after each hidden layer.
        features_extractor_class: Maps observations to vectors; by default it flattens them.
        features_extractor_kwargs: Its keyword arguments.
        normalize_images: Whether pixels are divided by 255.

    Attributes:
        centre: Middle of each entry's range, shape (actions,), float32; 0 without bounds.
        scale: Half of that range; 1 without bounds.

    Raises:
        ValueError: Actions are not continuous, or a layer has no units.
    """

    centre: th.Tensor
    scale: th.Tensor
    own_arguments: tuple[str, ...] = ()
    """Constructor arguments of the subclass, which are also its attributes."""

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        net_arch: Sequence[int] = (64, 64),
        activation_fn: type[nn.Module] = nn.Tanh,
        features_extractor_class: type[BaseFeaturesExtractor] | None = None,
        features_extractor_kwargs: dict[str, Any] | None = None,
        normalize_images: bool = True,
    ) -> None:
        if not isinstance(action_space, spaces.Box):
            raise ValueError(
                f"action_space: {type(self).__name__} needs continuous actions, not {action_space}"
            )
        if any(width < 1 for width in net_arch):
            raise ValueError(f"net_arch: every layer needs at least one unit, not {net_arch}")
        in_dict = isinstance(observation_space, spaces.Dict)
        usual = CombinedExtractor if in_dict else FlattenExtractor
        super().__init__(
            observation_space,
            action_space,
            features_extractor_class=features_extractor_class or usual,
            features_extractor_kwargs=features_extractor_kwargs,
            normalize_images=normalize_images,
        )
        self.net_arch = list(net_arch)
        self.activation_fn = activation_fn
        self.features_extractor = self.make_features_extractor()
        self.n_features: int = self.features_extractor.features_dim
        self.n_actions = spaces.flatdim(action_space)
        for name, value in zip(("centre", "scale"), _units_of(action_space), strict=True):
            # They follow from the space, so they are not among the weights.
            self.register_buffer(name, value, persistent=False)

    @abstractmethod
    def loss(self, obs: PyTorchObs, acts: th.Tensor, rng: np.random.Generator) -> th.Tensor:
        """Loss of each example, with derivatives by the parameters.

        Args:
            obs: Observations, shape (batch, *observation_shape), or a dictionary of them.
            acts: The expert's actions, shape (batch, *action_shape).
            rng: Source of the loss's own randomness, if it has any.

        Returns:
            Shape (batch,).
        """

    @abstractmethod
    def choose(self, features: th.Tensor, deterministic: bool) -> th.Tensor:
        """Chooses scaled actions.

        Args:
            features: Shape (batch, features).
            deterministic: Whether to take one fixed action; otherwise torch's generator decides.

        Returns:
            Shape (batch, actions).
        """

    def features(self, obs: PyTorchObs) -> th.Tensor:
        """Observations as vectors, shape (batch, features)."""
        return self.extract_features(obs, self.features_extractor)

    def scaled(self, acts: th.Tensor) -> th.Tensor:
        """Scaled actions, shape (batch, actions), float32.

        Args:
            acts: In the units of the environment, shape (batch, *action_shape).
        """
        return (acts.reshape(len(acts), -1).to(self.scale.dtype) - self.centre) / self.scale

    def unscaled(self, acts: th.Tensor) -> th.Tensor:
        """The inverse of `scaled`, shape (batch, actions)."""
        return acts * self.scale + self.centre

    def distance(self, one: Array, other: Array) -> npt.NDArray[np.float64]:
        """Root of the mean squared difference of the entries of scaled actions.

        Args:
            one: Actions in the units of the environment, shape (batch, *action_shape).
            other: The same.

        Returns:
            Shape (batch,).
        """
        difference = np.asarray(one, np.float64) - np.asarray(other, np.float64)
        rows = difference.reshape(len(difference), -1) / self.scale.cpu().numpy()
        distances: npt.NDArray[np.float64] = np.sqrt(np.square(rows).mean(axis=1))
        return distances

    def forward(self, obs: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        """Actions in the units of the environment, not yet clipped, shape (batch, actions)."""
        return self._predict(obs, deterministic)

    def _predict(self, observation: PyTorchObs, deterministic: bool = False) -> th.Tensor:
        return self.unscaled(self.choose(self.features(observation), deterministic))

    def _network(self, inputs: int, outputs: int) -> nn.Sequential:
        return build_mlp(inputs, self.net_arch, outputs, activation=self.activation_fn)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        names = (
            "net_arch",
            "activation_fn",
            "features_extractor_class",
            "features_extractor_kwargs",
            *self.own_arguments,
        )
        return super()._get_constructor_parameters() | {name: getattr(self, name) for name in names}


def _units_of(space: spaces.Box) -> tuple[th.Tensor, th.Tensor]:
    low, high = (edge.reshape(-1).astype(np.float64) for edge in (space.low, space.high))
    with np.errstate(over="ignore", invalid="ignore"):
        centre, scale = (high + low) / 2, (high - low) / 2
    bounded = np.isfinite(scale) & (scale > 0) & (scale < np.finfo(np.float32).max / 2)
    parts = np.where(bounded, centre, 0.0), np.where(bounded, scale, 1.0)
    return th.from_numpy(parts[0]).float(), th.from_numpy(parts[1]).float()


class DeterministicPolicy(HeadPolicy):
    """One action for each observation, fitted by least squares.

    Args:
        *args: As for `HeadPolicy`.
        **kwargs: As for `HeadPolicy`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.network = self._network(self.n_features, self.n_actions)

    def loss(self, obs: PyTorchObs, acts: th.Tensor, rng: np.random.Generator) -> th.Tensor:
        """Squared error, averaged over the entries of an action, shape (batch,)."""
        del rng
        error: th.Tensor = self.network(self.features(obs)) - self.scaled(acts)
        return error.square().mean(dim=1)

    def choose(self, features: th.Tensor, deterministic: bool) -> th.Tensor:
        """The output of the network in both cases."""
        del deterministic
        action: th.Tensor = self.network(features)
        return action


class MixturePolicy(HeadPolicy):
    """A mixture of Gaussians with diagonal covariances, fitted by maximum likelihood.

    Args:
        *args: As for `HeadPolicy`.
        n_components: Number of Gaussians.
        min_std: Least standard deviation, of scaled actions.
        low_noise: Whether a sampled action is the mean of a randomly drawn component; otherwise
            the component's own noise is added.
        **kwargs: As for `HeadPolicy`.

    Raises:
        ValueError: As `HeadPolicy`; there is no component, or `min_std` is not positive.

    Source: Mandlekar et al. 2021, "What Matters in Learning from Offline Human Demonstrations for
    Robot Manipulation" (BC-GMM); Bishop 1994, "Mixture Density Networks".
    """

    own_arguments = ("n_components", "min_std", "low_noise")

    def __init__(
        self,
        *args: Any,
        n_components: int = 5,
        min_std: float = 0.01,
        low_noise: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        _check_at_least_one("n_components", n_components)
        if not min_std > 0:
            raise ValueError(f"min_std must be positive, not {min_std}")
        self.n_components = n_components
        self.min_std = min_std
        self.low_noise = low_noise
        self.network = self._network(self.n_features, n_components * (1 + 2 * self.n_actions))
        last = self.network[-1]
        assert isinstance(last, nn.Linear), "build_mlp ends with a linear layer"
        spread_components(last, n_components, self.n_actions)

    def mixture(self, features: th.Tensor) -> Mixture:
        """The mixture of each row of features, shape (batch, features)."""
        return Mixture.of(self.network(features), self.n_components, self.min_std)

    def loss(self, obs: PyTorchObs, acts: th.Tensor, rng: np.random.Generator) -> th.Tensor:
        """Negative log-density of scaled actions, in nats, shape (batch,)."""
        del rng
        return self.mixture(self.features(obs)).loss(self.scaled(acts))

    def choose(self, features: th.Tensor, deterministic: bool) -> th.Tensor:
        """The mean of the heaviest component, or a sample."""
        return self.mixture(features).choose(deterministic, self.low_noise)


class FlowPolicy(HeadPolicy):
    """A flow that carries Gaussian noise to actions along straight lines.

    Args:
        *args: As for `HeadPolicy`.
        steps: Euler steps from noise to action.
        **kwargs: As for `HeadPolicy`.

    Raises:
        ValueError: As `HeadPolicy`, or `steps` is out of range.

    Source: Lipman et al. 2023, "Flow Matching for Generative Modeling", equations 22 and 23 with
    sigma_min = 0.
    """

    own_arguments = ("steps",)

    def __init__(self, *args: Any, steps: int = 5, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not 1 <= steps <= _MOST_STEPS:
            raise ValueError(f"steps must be from 1 to {_MOST_STEPS}, not {steps}")
        self.steps = steps
        self.network = self._network(self.n_features + self.n_actions + 1, self.n_actions)

    def velocity(self, features: th.Tensor, point: th.Tensor, time: th.Tensor) -> th.Tensor:
        """The learned velocity v_t(x | s).

        Args:
            features: Shape (batch, features).
            point: x, between noise and scaled action, shape (batch, actions).
            time: t in [0, 1], shape (batch, 1).

        Returns:
            Shape (batch, actions).
        """
        # Centred, as the other inputs are.
        result: th.Tensor = self.network(th.cat([features, point, 2 * time - 1], dim=1))
        return result

    def loss(self, obs: PyTorchObs, acts: th.Tensor, rng: np.random.Generator) -> th.Tensor:
        """Squared error of the velocity at one random point of each line, shape (batch,)."""
        features = self.features(obs)
        return flow_loss(partial(self.velocity, features), self.scaled(acts), rng)

    def choose(self, features: th.Tensor, deterministic: bool) -> th.Tensor:
        """Follows the flow from noise, or from its mean 0 if deterministic."""
        start = features.new_zeros(len(features), self.n_actions)
        if not deterministic:
            start = th.randn_like(start)
        return follow_flow(partial(self.velocity, features), start, self.steps)


class EnsembleLinear(nn.Module):
    """Linear layers of several networks, computed together.

    Weights start as those of `torch.nn.Linear`.

    Args:
        n_members: Number of networks.
        inputs: Units before the layer.
        outputs: Units after the layer.
    """

    def __init__(self, n_members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(inputs)
        self.weight = nn.Parameter(th.empty(n_members, inputs, outputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(th.empty(n_members, 1, outputs).uniform_(-bound, bound))

    def forward(self, x: th.Tensor) -> th.Tensor:
        """Maps shape (members, batch, inputs) to (members, batch, outputs)."""
        return th.baddbmm(self.bias, x, self.weight)


class EnsemblePolicy(HeadPolicy):
    """Several networks that differ in their initial weights; the policy is their mean.

    Args:
        *args: As for `HeadPolicy`.
        n_members: Number of networks.
        gaussian: Whether each network predicts a Gaussian, fitted by maximum likelihood; otherwise
            one action, fitted by least squares.
        **kwargs: As for `HeadPolicy`.

    Raises:
        ValueError: As `HeadPolicy`, or there is no network.

    Source: Lakshminarayanan, Pritzel and Blundell 2017, "Simple and Scalable Predictive
    Uncertainty Estimation using Deep Ensembles"; Menda, Driggs-Campbell and Kochenderfer 2019,
    "EnsembleDAgger: A Bayesian Approach to Safe Imitation Learning".
    """

    own_arguments = ("n_members", "gaussian")

    def __init__(
        self, *args: Any, n_members: int = 5, gaussian: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        _check_at_least_one("n_members", n_members)
        self.n_members = n_members
        self.gaussian = gaussian
        outputs = 2 * self.n_actions if gaussian else self.n_actions
        sizes = [self.n_features, *self.net_arch, outputs]
        layers: list[nn.Module] = []
        for before, after in itertools.pairwise(sizes):
            layers += [EnsembleLinear(n_members, before, after), self.activation_fn()]
        self.network = nn.Sequential(*layers[:-1])

    def members(self, features: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """What each network predicts.

        Args:
            features: Shape (batch, features).

        Returns:
            Means and variances of scaled actions, shape (members, batch, actions) each; networks
            that predict one action have variance 0.
        """
        outputs: th.Tensor = self.network(features.expand(self.n_members, *features.shape))
        if not self.gaussian:
            return outputs, th.zeros_like(outputs)
        means, spread = outputs.chunk(2, dim=2)
        return means, functional.softplus(spread) + _LEAST_VARIANCE

    def loss(self, obs: PyTorchObs, acts: th.Tensor, rng: np.random.Generator) -> th.Tensor:
        """The sum over networks, so that each is trained as if it were alone, shape (batch,).

        Of a Gaussian it is the negative log-density (Lakshminarayanan et al. 2017, equation 1),
        in nats; else the squared error, averaged over the entries of an action.
        """
        del rng
        means, variances = self.members(self.features(obs))
        errors = (means - self.scaled(acts)).square()
        if not self.gaussian:
            return errors.mean(dim=2).sum(dim=0)
        losses = 0.5 * (variances.log() + errors / variances) + HALF_LOG_TAU
        return losses.sum(dim=2).sum(dim=0)

    def choose(self, features: th.Tensor, deterministic: bool) -> th.Tensor:
        """The mean over networks; of Gaussians, if not deterministic, a sample of their mixture."""
        means, variances = self.members(features)
        if deterministic or not self.gaussian:
            return means.mean(dim=0)
        number = th.randint(self.n_members, (len(features),), device=features.device)
        rows = th.arange(len(features), device=features.device)
        mean = means[number, rows]
        return mean + variances[number, rows].sqrt() * th.randn_like(mean)

    def act_with_disagreement(
        self, obs: Array | dict[str, Array]
    ) -> tuple[Array, npt.NDArray[np.float64]]:
        """The deterministic actions, and how far apart the networks are.

        The disagreement is the root of the networks' variance (of their means, for Gaussians),
        averaged over the entries of a scaled action: 0.1 is 5 % of the range of bounded actions.

        Args:
            obs: Observations, shape (batch, *observation_shape), or a dictionary of them.

        Returns:
            Actions in the units of the environment, within its bounds, shape (batch,
            *action_shape); and the disagreement, shape (batch,), float64.
        """
        self.set_training_mode(False)
        tensor, _ = self.obs_to_tensor(obs)
        with th.no_grad():
            means, _ = self.members(self.features(tensor))
            acts = self.unscaled(means.mean(dim=0)).cpu().numpy()
            variance = means.double().var(dim=0, unbiased=False).mean(dim=1).cpu().numpy()
        space = self.action_space
        assert isinstance(space, spaces.Box), "checked on construction"
        acts = np.clip(acts.reshape(-1, *space.shape), space.low, space.high)
        return acts, np.sqrt(variance)


def _check_at_least_one(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
