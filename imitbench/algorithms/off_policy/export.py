"""The agent's policy as one of Stable-Baselines3, which acts without this package."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import nn

from imitbench.algorithms.off_policy.agent import Agent, SoftActorCritic
from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp


def make_policy(
    agent: Agent, observation_space: gym.Space[Any], action_space: gym.Space[Any]
) -> BasePolicy:
    """Creates a policy of the agent's shape, for `copy_policy` to fill.

    Returns:
        `SACPolicy` for continuous actions; for discrete ones `ActorCriticPolicy`, whose value is
        always 0.
    """
    layers = list(agent.options.hidden_sizes)
    if isinstance(agent, SoftActorCritic):
        return SACPolicy(
            observation_space,
            action_space,  # type: ignore[arg-type]
            _constant,
            net_arch=layers,
            n_critics=agent.n_critics,
        )
    return ActorCriticPolicy(
        observation_space,
        action_space,
        _constant,
        net_arch={"pi": layers, "vf": []},
        activation_fn=nn.ReLU,
    )


def copy_policy(agent: Agent, encoder: ObservationEncoder, seed: int, policy: BasePolicy) -> None:
    """Copies one seed's networks into a policy, with the encoding in their first layers.

    Args:
        agent: The agent.
        encoder: The encoder of that seed.
        seed: Number of the seed, from 0.
        policy: From `make_policy` for this agent.
    """
    with th.no_grad():
        if isinstance(policy, SACPolicy) and isinstance(agent, SoftActorCritic):
            _copy_actor(agent, encoder, seed, policy)
            return
        assert isinstance(policy, ActorCriticPolicy), "make_policy made it"
        *hidden, last = _encoded(agent.exported, seed, encoder)
        _copy(hidden, list(policy.mlp_extractor.policy_net))
        weight, bias = last
        scaled = weight / agent.options.temperature, bias / agent.options.temperature
        _copy([scaled], [policy.action_net])
        for each in policy.value_net.parameters():
            each.zero_()


def _copy_actor(
    agent: SoftActorCritic, encoder: ObservationEncoder, seed: int, policy: SACPolicy
) -> None:
    actor = policy.actor
    *hidden, (weight, bias) = _encoded(agent.exported, seed, encoder)
    _copy(hidden, list(actor.latent_pi))
    mean, log_std = zip(weight.chunk(2, dim=1), bias.chunk(2), strict=True)
    _copy([mean, log_std], [actor.mu, actor.log_std])
    for stack, critics in ((agent.critics, policy.critic), (agent.targets, policy.critic_target)):
        for number, network in enumerate(critics.q_networks):
            member = number * len(agent.streams) + seed
            _copy(_encoded(stack, member, encoder), list(network.children()))


def _encoded(
    stack: StackedMlp, member: int, encoder: ObservationEncoder
) -> list[tuple[th.Tensor, th.Tensor]]:
    """One member's layers on raw observations, which are never the absorbing state."""
    layers = [
        (weight[member].cpu(), bias[member, 0].cpu())
        for weight, bias in stack.layers(stack.vector.detach())
    ]
    weight, bias = layers[0]
    scale = th.from_numpy(encoder.scale).float()
    mean = th.from_numpy(encoder.mean).float()
    by_obs = weight[: encoder.size] / scale.unsqueeze(1)
    weight = th.cat([by_obs, weight[encoder.features :]])
    layers[0] = weight, bias - mean @ by_obs
    return layers


def _copy(layers: list[tuple[th.Tensor, th.Tensor]], modules: list[Any]) -> None:
    linear = [each for each in modules if isinstance(each, nn.Linear)]
    for (weight, bias), module in zip(layers, linear, strict=True):
        module.weight.copy_(weight.t())
        module.bias.copy_(bias)


def _constant(_progress: float) -> float:
    return 3e-4
