"""A common calling convention for all kinds of policies."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import (
    CategoricalDistribution,
    DiagGaussianDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.torch_layers import FlattenExtractor, MlpExtractor
from stable_baselines3.common.utils import check_for_correct_spaces
from stable_baselines3.common.vec_env import VecEnv
from torch import nn

from imitbench.errors import InputError

Array = npt.NDArray[Any]
States = tuple[Array, ...] | None

PolicyCallable = Callable[
    [Array | dict[str, Array], States, Array | None],
    tuple[Array, States],
]
"""Maps batches of observations, states and episode starts to actions and new states.

The state is `None` at first and then the result of the previous call. The starts, shape
`(n_envs,)`, bool, are `True` where an episode starts with this observation, so that a recurrent
policy resets its state.
"""

_NOT_FINITE = (
    "the policy chose an action that is not finite; its weights are too large or damaged: train or "
    "fetch it again"
)
_PLAIN_LAYERS = (nn.Linear, nn.Tanh, nn.ReLU)

AnyPolicy = BaseAlgorithm | BasePolicy | PolicyCallable | None


def policy_to_callable(
    policy: AnyPolicy,
    venv: VecEnv,
    deterministic_policy: bool = False,
    *,
    rng: np.random.Generator | None = None,
) -> PolicyCallable:
    """Converts any kind of policy to a function of batches of observations.

    Args:
        policy: A Stable-Baselines3 policy or algorithm, a function with the signature of the
            result, or None for actions sampled from the action space.
        venv: Environments that the policy will act in.
        deterministic_policy: Whether a Stable-Baselines3 policy takes its most likely action.
        rng: Generator of the seed of random actions if `policy` is `None`; by default that of
            `venv.action_space`.

    Returns:
        The policy as a `PolicyCallable`.

    Raises:
        ValueError: The spaces of the policy differ from those of `venv`, or
            `deterministic_policy` is set for a function.
        TypeError: `policy` is of another type.
    """
    if policy is None:
        return _random_policy(venv, rng)
    if isinstance(policy, BaseAlgorithm | BasePolicy):
        check_for_correct_spaces(venv, policy.observation_space, policy.action_space)
        if _predicts_plainly(policy):
            return _plain_policy(policy, deterministic_policy)

        def predict(
            obs: Array | dict[str, Array], state: States, starts: Array | None
        ) -> tuple[Array, States]:
            with finite_choices():
                return policy.predict(
                    obs, state=state, episode_start=starts, deterministic=deterministic_policy
                )

        return predict
    if not callable(policy):
        raise TypeError(
            f"policy is a {type(policy).__name__}; expected a policy or algorithm of "
            "Stable-Baselines3, a function, or None"
        )
    if deterministic_policy:
        raise ValueError("deterministic_policy does not apply to a function: leave it False")
    return policy


def batch_actor(
    policy: BasePolicy, deterministic: bool
) -> Callable[[Array | dict[str, Array]], Array]:
    """Returns a fast function from a batch of observations to a policy's actions.

    Args:
        policy: A policy without recurrent state.
        deterministic: Whether to take the most likely action.

    Returns:
        A function with the results of `policy.predict`.
    """
    if _predicts_plainly(policy):
        plain = _plain_policy(policy, deterministic)
        return lambda obs: plain(obs, None, None)[0]

    def act(obs: Array | dict[str, Array]) -> Array:
        with finite_choices():
            return policy.predict(obs, deterministic=deterministic)[0]

    return act


@contextmanager
def finite_choices() -> Iterator[None]:
    """Explains the error of torch's distributions whose parameters are not finite.

    Raises:
        InputError: A policy that acts in the context has such a distribution.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Expected parameter "):
            raise
        raise InputError(_NOT_FINITE) from error


@contextmanager
def seeded_sampling(policy: AnyPolicy, rng: np.random.Generator) -> Iterator[None]:
    """Makes sampled actions depend only on `rng`.

    Torch's generator is restored on exit, so that collecting does not affect training; for an
    algorithm, which may explore with them, also NumPy's global one and its action space's.

    Args:
        policy: Policy that samples; a function is assumed to sample on the CPU.
        rng: Generator of the seed.
    """
    seed = int(rng.integers(2**63))
    on_cuda = isinstance(policy, BaseAlgorithm | BasePolicy) and policy.device.type == "cuda"
    devices = [th.device(policy.device)] if on_cuda else []  # type: ignore[union-attr]
    with th.random.fork_rng(devices):
        th.default_generator.manual_seed(seed)
        for device in devices:
            with th.cuda.device(device):
                th.cuda.manual_seed(seed)
        with _seeded_exploration(policy, seed):
            yield


@contextmanager
def _seeded_exploration(policy: AnyPolicy, seed: int) -> Iterator[None]:
    """Seeds the generators from which algorithms such as DQN draw random actions."""
    if not isinstance(policy, BaseAlgorithm):
        yield
        return
    numpy_state = np.random.get_state()  # noqa: NPY002 (Stable-Baselines3 uses it)
    source = policy.action_space.np_random.bit_generator
    own_state = source.state
    np.random.seed(seed % 2**32)  # noqa: NPY002
    # In place, because other spaces and environments may share the generator.
    source.state = type(source)(seed).state
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        source.state = own_state


def _random_policy(venv: VecEnv, rng: np.random.Generator | None) -> PolicyCallable:
    source = rng if rng is not None else venv.action_space.np_random
    actions = batch_space(venv.action_space, venv.num_envs)
    actions.seed(int(source.integers(2**31)))

    def sample(
        obs: Array | dict[str, Array], state: States, starts: Array | None
    ) -> tuple[Array, States]:
        del obs, starts
        return actions.sample(), state

    return sample


def _predicts_plainly(policy: BaseAlgorithm | BasePolicy) -> bool:
    """Whether `predict` is the unmodified one of Stable-Baselines3, on flat observations."""
    if isinstance(policy, BaseAlgorithm):
        return (
            type(policy).predict is BaseAlgorithm.predict
            and isinstance(policy.policy, BasePolicy)
            and _predicts_plainly(policy.policy)
        )
    cls = type(policy)
    return (
        cls.predict is BasePolicy.predict
        and cls.obs_to_tensor is BasePolicy.obs_to_tensor
        and isinstance(policy.observation_space, spaces.Box)
        and not is_image_space(policy.observation_space)
    )


def _plain_policy(source: BaseAlgorithm | BasePolicy, deterministic: bool) -> PolicyCallable:
    """Returns `BasePolicy.predict` without operations that are the same in every call.

    `predict` checks whether the observation is batched or an image, finds the device by
    iterating over the parameters and sets every module to evaluation mode, which is about half
    of the time for a small policy.
    """
    policy = source.policy if isinstance(source, BaseAlgorithm) else source
    choose = _chooser(policy, deterministic)
    device = policy.device

    def predict(
        obs: Array | dict[str, Array], state: States, starts: Array | None
    ) -> tuple[Array, States]:
        del starts
        if policy.training:
            policy.set_training_mode(False)
        with th.no_grad():
            actions = choose(th.as_tensor(obs, device=device))
        return environment_actions(policy, actions), state

    return predict


def environment_actions(policy: BasePolicy, actions: th.Tensor) -> Array:
    """Converts what a policy chose to actions for environments, as `BasePolicy.predict` does.

    Args:
        policy: The policy.
        actions: Shape (batch, …).

    Returns:
        Shape (batch, …), within the bounds of the action space.

    Raises:
        InputError: An action is not finite.
    """
    space = policy.action_space
    array: Array = actions.cpu().numpy().reshape((-1, *(space.shape or ())))
    if not isinstance(space, spaces.Box):
        return array
    if not np.isfinite(array).all():
        raise InputError(_NOT_FINITE)
    if policy.squash_output:
        return np.asarray(policy.unscale_action(array))
    return np.clip(array, space.low, space.high)


def _chooser(policy: BasePolicy, deterministic: bool) -> Callable[[th.Tensor], th.Tensor]:
    """Returns `policy._predict`, with a faster path for the usual heads of actor-critic policies.

    The samples are the same, with the same random numbers.
    """
    cls: Any = type(policy)
    if not (
        isinstance(policy, ActorCriticPolicy)
        and cls._predict is ActorCriticPolicy._predict
        and cls.get_distribution is ActorCriticPolicy.get_distribution
        and cls._get_action_dist_from_latent is ActorCriticPolicy._get_action_dist_from_latent
        and type(policy.action_dist) in (CategoricalDistribution, DiagGaussianDistribution)
    ):
        return finite_choices()(lambda obs: policy._predict(obs, deterministic=deterministic))
    discrete = type(policy.action_dist) is CategoricalDistribution
    act = _actor(policy)

    def choose(obs: th.Tensor) -> th.Tensor:
        head = act(obs)
        if discrete:
            if deterministic:
                return head.argmax(dim=1)
            # The exponential race that torch.multinomial uses for a single sample, with a
            # faster check.
            probs = head.softmax(dim=1)
            if not math.isfinite(probs.sum().item()):
                raise InputError(_NOT_FINITE)
            return probs.div_(th.empty_like(probs).exponential_()).argmax(dim=1)
        if deterministic:
            return head
        return th.normal(head, policy.log_std.exp().expand_as(head))

    return choose


def _actor(policy: ActorCriticPolicy) -> Callable[[th.Tensor], th.Tensor]:
    """Returns a function from observations to logits or means, layer by layer if possible."""
    extractor, mlp = policy.pi_features_extractor, policy.mlp_extractor
    if type(mlp) is MlpExtractor:
        layers = [*mlp.policy_net, policy.action_net]
        if all(type(layer) in _PLAIN_LAYERS for layer in layers) and not _hooked(policy):
            flattens = type(extractor) is FlattenExtractor

            def pass_through(obs: th.Tensor) -> th.Tensor:
                # What `extract_features` does with observations that are not images.
                x = obs.float()
                x = x.flatten(1) if flattens else extractor.forward(x)
                for layer in layers:
                    x = layer.forward(x)
                return x

            return pass_through

    def act(obs: th.Tensor) -> th.Tensor:
        features = BasePolicy.extract_features(policy, obs, policy.pi_features_extractor)
        head: th.Tensor = policy.action_net(policy.mlp_extractor.forward_actor(features))
        return head

    return act


def _hooked(policy: ActorCriticPolicy) -> bool:
    """Whether layers have hooks, which direct calls of `forward` would skip."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in policy.modules())
