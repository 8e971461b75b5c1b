"""Copies of Stable-Baselines3's actor-critic policies in NumPy, and acting with them."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from torch import nn

from imitbench.data.policy_callable import PolicyCallable, States
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.rl.actor_critic import ActorCritic, Architecture, Array, Parameters, make_head
from imitbench.rl.mlp import Stack, stack_of
from imitbench.util.networks import BaseNorm

_NO_LAYERS = Stack((), tanh=False, activate_last=True)
# The copy reimplements these methods, so that a policy must not override them.
_METHODS = (
    "forward",
    "evaluate_actions",
    "predict_values",
    "extract_features",
    "get_distribution",
    "_get_action_dist_from_latent",
)


def why_no_numpy_policy(policy: Any) -> str | None:
    """Returns why a policy has no copy in NumPy; `None` if it has one."""
    cls = type(policy)
    if not isinstance(policy, ActorCriticPolicy) or any(
        getattr(cls, name) is not getattr(ActorCriticPolicy, name) for name in _METHODS
    ):
        return f"{cls.__name__} is not a plain ActorCriticPolicy"
    space = policy.observation_space
    if not isinstance(space, spaces.Box) or is_image_space(space):
        return f"observations are {space}, not vectors"
    head = type(policy.action_dist)
    if head not in (CategoricalDistribution, DiagGaussianDistribution):
        return f"its actions have a {head.__name__}"
    extractor = policy.features_extractor
    if type(extractor) not in (FlattenExtractor, NormalizeFeaturesExtractor):
        return f"its features extractor is a {type(extractor).__name__}"
    if _normalizer(policy) is not None and not policy.share_features_extractor:
        return "its actor and critic normalize features separately"
    if not isinstance(_normalizer(policy), BaseNorm | None):
        return "its features are normalized by a layer of another library"
    if type(policy.mlp_extractor) is not MlpExtractor or not _is_plain(policy):
        return "its layers are not all linear layers followed by Tanh or ReLU"
    first = next(policy.parameters())
    if any(not parameter.requires_grad for parameter in policy.parameters()):
        return "some of its parameters are frozen"
    if first.device.type != "cpu" or first.dtype != th.float32:
        return f"it computes in {first.dtype} on {first.device}, not in float32 on the CPU"
    return None


def _normalizer(policy: ActorCriticPolicy) -> nn.Module | None:
    return getattr(policy.features_extractor, "normalize", None)


def _stacks(policy: ActorCriticPolicy) -> list[Stack | None]:
    """Returns the hidden layers of actor and critic; `None` for other kinds of layers."""
    extractor = policy.mlp_extractor
    return [
        stack_of(list(net)) if len(net) else _NO_LAYERS
        for net in (extractor.policy_net, extractor.value_net)
    ]


def _is_plain(policy: ActorCriticPolicy) -> bool:
    stacks = [stack for stack in _stacks(policy) if stack is not None and stack.activate_last]
    heads = stack_of([policy.action_net]), stack_of([policy.value_net])
    linear = 2 + sum(len(stack.layers) for stack in stacks)
    return (
        len(stacks) == 2
        and None not in heads
        and len({stack.tanh for stack in stacks if stack.layers}) <= 1
        and len(list(policy.parameters())) == 2 * linear + hasattr(policy, "log_std")
    )


def architecture_of(policy: ActorCriticPolicy) -> Architecture:
    """Returns the architecture of a policy that has a copy in NumPy."""
    actor, critic = (stack for stack in _stacks(policy) if stack is not None)
    return Architecture(
        features=policy.features_dim,
        actor=tuple(layer.out_features for layer in actor.layers),
        critic=tuple(layer.out_features for layer in critic.layers),
        outputs=cast(nn.Linear, policy.action_net).out_features,
        gaussian=type(policy.action_dist) is DiagGaussianDistribution,
        relu=any(stack.layers and not stack.tanh for stack in (actor, critic)),
    )


class NumpyPolicy:
    """A copy of a policy in NumPy.

    `load` copies the parameters from the policy and `store` copies them back. The statistics of a
    normalization layer are shared with the policy.

    Args:
        policy: A policy for which `why_no_numpy_policy` is `None`, or would be in float32.

    Attributes:
        policy: The policy.
        named: Parameters of the policy by name.
        network: Actor and critic in NumPy.
        head: Distribution over actions.
        parameters: Parameters of the policy, in the order of `split`.
        vector: Parameters of the network, shape (size,).
        gradient: Gradient of the network, shape (size,).
        normalizer: Layer that normalizes observations; `None` if there is none.
        mean: Subtracted from observations in evaluation mode, shape (features,), or a scalar.
        scale: Then multiplied with them, like `mean`; both are from the last `load`.
    """

    def __init__(self, policy: ActorCriticPolicy) -> None:
        self.policy = policy
        self.named: dict[str, nn.Parameter] = dict(policy.named_parameters())
        self._arrays = {name: parameter.detach().numpy() for name, parameter in self.named.items()}
        self.dtype = next(iter(self._arrays.values())).dtype
        self.network = ActorCritic(architecture_of(policy), self.dtype)
        self.head = make_head(self.network)
        self.parameters = [self.named[name] for name in self.network.parameters.named]
        self.vector = th.from_numpy(self.network.parameters.vector)
        self.gradient = th.from_numpy(self.network.gradient.vector)
        self.normalizer = cast(BaseNorm | None, _normalizer(policy))
        self.mean, self.scale = np.zeros(()), np.ones(())

    def fits(self, policy: ActorCriticPolicy) -> bool:
        """Whether this is the copy of a policy, and the policy's parameters were not replaced."""
        return policy is self.policy and all(
            self.named.get(name) is parameter
            and parameter.data_ptr() == self._arrays[name].ctypes.data
            and parameter.shape == self._arrays[name].shape
            for name, parameter in policy.named_parameters()
        )

    def split(self, vector: th.Tensor) -> list[th.Tensor]:
        """Returns views of a vector of shape (size,), one with the shape of each parameter."""
        views = Parameters(self.network.architecture, vector.numpy()).named
        return [th.from_numpy(view) for view in views.values()]

    def load(self) -> None:
        """Copies the policy's parameters.

        Raises:
            ValueError: The parameters are not finite.
        """
        self.network.parameters.load(self._arrays)
        if not np.isfinite(self.network.parameters.vector).all():
            raise ValueError("the policy has parameters that are not finite: training diverged")
        if self.normalizer is not None:
            self.mean = self.normalizer.running_mean.numpy().copy()
            variance = self.normalizer.running_var.numpy()
            self.scale = 1 / np.sqrt(variance + variance.dtype.type(self.normalizer.eps))

    def store(self) -> None:
        """Copies the parameters back to the policy."""
        with th.no_grad():
            self.network.parameters.store(self._arrays)

    def features(self, obs: Array) -> Array:
        """Computes features in evaluation mode.

        Args:
            obs: Shape (n, *observation_shape).

        Returns:
            Shape (n, features), normalized by the statistics at the last `load`.
        """
        flat = self.flatten(obs)
        return flat if self.normalizer is None else (flat - self.mean) * self.scale

    def flatten(self, obs: Array) -> Array:
        """Flattens observations to shape (n, observation size), without normalization."""
        return obs.reshape(len(obs), -1).astype(self.dtype, copy=False)

    def training_features(self, flat: Array) -> Array:
        """Computes features of flat observations in training mode, which updates the statistics."""
        if self.normalizer is None:
            return flat
        with th.no_grad():
            features: th.Tensor = self.normalizer(th.from_numpy(flat))
        return features.numpy()


class NumpyActor:
    """Samples actions of an algorithm's policy in a fraction of the time of `predict`.

    With the same state of torch's global generator, actions are those of `predict` up to rounding.

    Args:
        algorithm: An algorithm for which `can_act` is true.
    """

    def __init__(self, algorithm: BaseAlgorithm) -> None:
        self._algorithm = algorithm
        self._numpy_policy: NumpyPolicy | None = None

    def policy(self) -> PolicyCallable:
        """Returns the policy with its current parameters; valid until the next call.

        Raises:
            ValueError: The parameters are not finite.
        """
        current = self._algorithm.policy
        assert isinstance(current, ActorCriticPolicy), "checked by can_act"
        if self._numpy_policy is None or not self._numpy_policy.fits(current):
            self._numpy_policy = NumpyPolicy(current)
        numpy_policy = self._numpy_policy
        numpy_policy.load()
        space = current.action_space
        box = space if isinstance(space, spaces.Box) else None
        shape = (-1, *(space.shape or ()))

        def act(
            obs: Array | dict[str, Array], state: States, starts: Array | None
        ) -> tuple[Array, States]:
            del starts
            assert isinstance(obs, np.ndarray), "checked by can_act"
            actions = numpy_policy.head.sample(
                numpy_policy.network.act(numpy_policy.features(obs))
            ).reshape(shape)
            if box is not None:
                actions = np.minimum(np.maximum(actions, box.low), box.high)
            return actions, state

        return act


def can_act(algorithm: BaseAlgorithm) -> bool:
    """Whether `NumpyActor` can replace the algorithm's `predict`."""
    policy = algorithm.policy
    if why_no_numpy_policy(policy) is not None:
        return False
    cls: Any = type(policy)
    return (
        type(algorithm).predict is BaseAlgorithm.predict
        and cls.predict is BasePolicy.predict
        and cls.obs_to_tensor is BasePolicy.obs_to_tensor
        and cls._predict is ActorCriticPolicy._predict
        and not any(
            module._forward_hooks or module._forward_pre_hooks for module in policy.modules()
        )
    )
