"""The agent that all off-policy methods train: a soft actor-critic, or soft Q-learning.

Every tensor has the seeds on its first axis, and losses are summed over them: gradients do not
cross seeds, so each learns as it would alone.

Sources: Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications"; Haarnoja et al.
2017, "Reinforcement Learning with Deep Energy-Based Policies".
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium as gym
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
from stable_baselines3.sac.policies import SACPolicy
from torch import nn

from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.util import squashed_gaussian
from imitbench.util.adam import direct_step, load_optimizer_state

Critics = Literal["online", "target", "frozen"]
"""Whose values: the critics', their targets', or the critics' without derivatives by parameters."""


@dataclass(frozen=True)
class AgentOptions:
    """Settings of the agent.

    Attributes:
        hidden_sizes: Units of each hidden layer, of actor and critics alike.
        actor_learning_rate: Learning rate of actor and temperature.
        critic_learning_rate: Learning rate of the critics.
        gamma: Discount factor.
        tau: Share by which target critics follow after each update.
        policy_tau: Share by which the exported policy follows the learned one after each update; 1
            for the learned one itself.
        temperature: Weight of the entropy; the initial one if it is learned.
        learn_temperature: Whether the temperature is learned so that the entropy stays at
            `target_entropy`; only for continuous actions.
        target_entropy: In nats; `None` for minus the number of action entries.
        n_critics: Number of critics; the least value counts.
        action_clip: Critics see continuous actions clipped to plus or minus this. A squashed
            policy never quite takes actions at their bounds, so critics that see them may tell an
            expert who does by that alone.

    Raises:
        ValueError: A value is out of range.
    """

    hidden_sizes: tuple[int, ...] = (64, 64)
    actor_learning_rate: float = 3e-4
    critic_learning_rate: float = 3e-4
    gamma: float = 0.99
    tau: float = 0.005
    policy_tau: float = 1.0
    temperature: float = 0.1
    learn_temperature: bool = True
    target_entropy: float | None = None
    n_critics: int = 2
    action_clip: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.gamma <= 1:
            raise ValueError(f"gamma must lie in [0, 1], not {self.gamma}")
        for name in ("tau", "policy_tau", "action_clip"):
            if not 0 < getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in (0, 1], not {getattr(self, name)}")
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive, not {self.temperature}")
        if self.n_critics < 1:
            raise ValueError(f"n_critics must be at least 1, not {self.n_critics}")


class Adam:
    """Torch's Adam on one tensor.

    Args:
        tensor: The parameters.
        learning_rate: Learning rate.
    """

    def __init__(self, tensor: th.Tensor, learning_rate: float) -> None:
        self._tensor = tensor
        tensor.grad = th.zeros_like(tensor)
        self._optimizer = th.optim.Adam([tensor], lr=learning_rate, fused=True)
        self._step = direct_step(self._optimizer)

    def step(self, loss: th.Tensor, *, keep_graph: bool = False) -> None:
        """Takes a step down the gradient of a loss.

        Args:
            loss: A scalar.
            keep_graph: Whether another step will use parts of the loss's graph.
        """
        (gradient,) = th.autograd.grad(loss, self._tensor, retain_graph=keep_graph)
        self.step_along(gradient)

    def step_along(self, gradient: th.Tensor) -> None:
        """Takes a step down a gradient, of the tensor's shape."""
        assert self._tensor.grad is not None, "the constructor made it"
        self._tensor.grad.copy_(gradient)
        self._step()

    def state_dict(self) -> dict[str, Any]:
        """The optimizer's state."""
        return copy.deepcopy(self._optimizer.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        load_optimizer_state(self._optimizer, state)
        self._step = direct_step(self._optimizer)


class Agent(ABC):
    """Critics, their targets, and a policy that is soft in the critics' values.

    Args:
        inputs: Inputs of each critic.
        outputs: Outputs of each critic.
        options: Settings.
        streams: Randomness of each seed.
        n_critics: Number of critics.

    Attributes:
        options: As given.
        streams: As given.
        n_critics: As given.
        critics: All critics; members are ordered by critic, then by seed.
        targets: Their targets.
        learned: The network that defines the policy.
        exported: The network of the exported policy, one perceptron of each seed: the one that is
            learned, or with `policy_tau` below 1 its moving average, which changes less from update
            to update (Polyak and Juditsky 1992, "Acceleration of Stochastic Approximation by
            Averaging").
        absorbing: Whether the last entry of observations marks the absorbing state. Nothing is
            chosen there: its value is that of action 0, without entropy, because no transition
            tells what another action would be worth.
    """

    absorbing: bool = False
    learned: StackedMlp
    exported: StackedMlp

    def __init__(
        self,
        inputs: int,
        outputs: int,
        options: AgentOptions,
        streams: SeedStreams,
        n_critics: int,
    ) -> None:
        self.options = options
        self.streams = streams
        self.n_critics = n_critics
        self._shape = (inputs, *options.hidden_sizes, outputs)
        self.critics = StackedMlp(self._shape, streams.torch * n_critics, streams.device)
        self.targets = self.critics.copy()
        self._critic_adam = Adam(self.critics.vector, options.critic_learning_rate)

    def restart_average(self) -> None:
        """Sets the exported policy to the learned one."""
        with th.no_grad():
            self.exported.vector.copy_(self.learned.vector)

    @abstractmethod
    def values(self, obs: th.Tensor, acts: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """Q(s, a) by each critic, with derivatives by the parameters of the online ones.

        Args:
            obs: Shape (seeds, batch, features).
            acts: Shape (seeds, batch, actions), or (seeds, batch) for discrete ones.
            critics: Which critics to ask.

        Returns:
            Shape (critics, seeds, batch).
        """

    @abstractmethod
    def soft_values(self, obs: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """V(s) = E[Q(s, a) - temperature * log pi(a|s)] by each critic.

        For continuous actions the expectation is one sample of the policy, without derivatives by
        the policy. In the absorbing state it is Q(s, 0).

        Args:
            obs: Shape (seeds, batch, features).
            critics: Which critics to ask; derivatives are by the online ones.

        Returns:
            Shape (critics, seeds, batch).
        """

    @abstractmethod
    def act(self, obs: th.Tensor) -> th.Tensor:
        """Samples actions without derivatives.

        Args:
            obs: Shape (seeds, batch, features).

        Returns:
            Shape (seeds, batch, actions) in [-1, 1], or (seeds, batch) for discrete ones.
        """

    @abstractmethod
    def log_prob(self, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
        """Log-probability of actions, with derivatives by the actor's parameters.

        Returns:
            Shape (seeds, batch).
        """

    def update_critics(self, loss: th.Tensor) -> None:
        """Takes a step of the critics down the gradient of a loss, summed over seeds."""
        self._critic_adam.step(loss)

    def update_actor(
        self, obs: th.Tensor, regularization: th.Tensor | None = None
    ) -> dict[str, th.Tensor]:
        """Takes a step of policy and temperature, where they have parameters of their own.

        Args:
            obs: Shape (seeds, batch, features).
            regularization: What the policy minimizes besides, shape (seeds,).

        Returns:
            What to log, each of shape (seeds,).
        """
        del obs, regularization
        return {}

    def reset_critics(self) -> None:
        """Draws new critics, and sets targets and optimizer back."""
        streams = self.streams
        fresh = StackedMlp(self._shape, streams.torch * self.n_critics, streams.device)
        with th.no_grad():
            self.critics.vector.copy_(fresh.vector)
            self.targets.vector.copy_(fresh.vector)
        self._critic_adam = Adam(self.critics.vector, self.options.critic_learning_rate)

    def follow(self) -> None:
        """Moves the targets towards the critics, and the exported policy towards the learned."""
        self.targets.follow(self.critics, self.options.tau)
        if self.exported is not self.learned:
            self.exported.follow(self.learned, self.options.policy_tau)

    def _learn_policy_of(self, learned: StackedMlp) -> None:
        self.learned = learned
        self.exported = learned if self.options.policy_tau == 1 else learned.copy()

    def _critics(
        self, obs: th.Tensor, critics: Critics, acts: th.Tensor | None = None
    ) -> th.Tensor:
        """Outputs of each critic, shape (critics, seeds, batch, outputs)."""
        passes: dict[Critics, Callable[[th.Tensor, th.Tensor | None], th.Tensor]] = {
            "online": self.critics, "target": self.targets, "frozen": self.critics.frozen
        }  # fmt: skip
        return passes[critics](obs, acts).view(self.n_critics, *obs.shape[:2], -1)

    def state_dict(self) -> dict[str, Any]:
        """Parameters and optimizers."""
        return {
            "critics": self.critics.vector.detach().cpu().clone(),
            "targets": self.targets.vector.cpu().clone(),
            "critic_adam": self._critic_adam.state_dict(),
            "exported": self.exported.vector.detach().cpu().clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        with th.no_grad():
            self.critics.vector.copy_(state["critics"])
            self.targets.vector.copy_(state["targets"])
            self.exported.vector.copy_(state["exported"])
        self._critic_adam.load_state_dict(state["critic_adam"])


class SoftActorCritic(Agent):
    """An agent for continuous actions.

    Args:
        features: Entries of an encoded observation.
        actions: Entries of an action.
        options: Settings.
        streams: Randomness of each seed.

    Attributes:
        actor: Its outputs are the mean and the log standard deviation of actions before squashing.
        log_temperature: Shape (seeds,).
        prior: Outputs of an actor for observations: the policy that the temperature pulls to, so
            that minus the divergence from it stands in for the entropy. `None` for the entropy.
    """

    def __init__(
        self, features: int, actions: int, options: AgentOptions, streams: SeedStreams
    ) -> None:
        super().__init__(features + actions, 1, options, streams, options.n_critics)
        self._actions = actions
        sizes = (features, *options.hidden_sizes, 2 * actions)
        self.actor = StackedMlp(sizes, streams.torch, streams.device)
        self._learn_policy_of(self.actor)
        start = math.log(options.temperature)
        self.log_temperature = th.full((len(streams),), start, device=streams.device)
        self.log_temperature.requires_grad_()
        goal = options.target_entropy
        self._target_entropy = -float(actions) if goal is None else goal
        rate = options.actor_learning_rate
        self.prior: Callable[[th.Tensor], th.Tensor] | None = None
        self._actor_adam = Adam(self.actor.vector, rate)
        self._temperature_adam = Adam(self.log_temperature, rate)

    def values(self, obs: th.Tensor, acts: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """Q(s, a) by each critic; see `Agent.values`."""
        if (clip := self.options.action_clip) < 1:
            acts = acts.clamp(-clip, clip)
        return self._critics(obs, critics, acts).squeeze(-1)

    def soft_values(self, obs: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """V(s) by each critic; see `Agent.soft_values`."""
        with th.no_grad():
            acts, cost = self._sample_at_cost(obs)
            cost = self.temperature * cost
        return self.values(obs, acts, critics) - cost

    def sample(self, obs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Actions of the policy with log-probabilities, both with derivatives.

        Args:
            obs: Shape (seeds, batch, features).

        Returns:
            Shapes (seeds, batch, actions) and (seeds, batch); 0 in the absorbing state.
        """
        noise = self.streams.normal(obs.shape[1], self._actions)
        acts, log_prob = squashed_gaussian.sample(self.actor(obs), noise)
        return self._where_alive(obs, acts), self._where_alive(obs, log_prob)

    def _sample_at_cost(self, obs: th.Tensor) -> tuple[th.Tensor, th.Tensor]:
        """Actions, and what the temperature weighs: log pi(a|s), or the divergence from a prior."""
        if self.prior is None:
            return self.sample(obs)
        outputs = self.actor(obs)
        noise = self.streams.normal(obs.shape[1], self._actions)
        acts = squashed_gaussian.actions(outputs, noise)
        with th.no_grad():
            prior = self.prior(obs)
        cost = squashed_gaussian.divergence(outputs, prior)
        return self._where_alive(obs, acts), self._where_alive(obs, cost)

    def _where_alive(self, obs: th.Tensor, values: th.Tensor) -> th.Tensor:
        """The values, of shape (seeds, batch, …), or 0 in the absorbing state."""
        if not self.absorbing:
            return values
        alive = 1 - obs[..., -1]
        return values * (alive if values.dim() == 2 else alive.unsqueeze(-1))

    @property
    def temperature(self) -> th.Tensor:
        """Weight of the entropy, shape (seeds, 1), without derivatives."""
        return self.log_temperature.detach().exp().unsqueeze(1)

    def act(self, obs: th.Tensor) -> th.Tensor:
        """Samples actions; see `Agent.act`."""
        with th.no_grad():
            noise = self.streams.normal(obs.shape[1], self._actions)
            return self._where_alive(obs, squashed_gaussian.actions(self.actor(obs), noise))

    def log_prob(self, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
        """Log-probability of actions; see `Agent.log_prob`."""
        return squashed_gaussian.log_prob(self.actor(obs), acts)

    def step_actor(self, loss: th.Tensor) -> None:
        """Takes a step of the actor alone down the gradient of a loss, summed over seeds."""
        self._actor_adam.step(loss)

    def update_actor(
        self, obs: th.Tensor, regularization: th.Tensor | None = None
    ) -> dict[str, th.Tensor]:
        """Takes a step of policy and temperature; see `Agent.update_actor`."""
        acts, cost = self._sample_at_cost(obs)
        values = self.values(obs, acts, "frozen").amin(dim=0)
        loss = (self.temperature * cost - values).mean(dim=1)
        self.step_actor((loss if regularization is None else loss + regularization).sum())
        entropy = -cost.detach().mean(dim=1)
        if self.absorbing:  # the mean over states in which something is chosen
            entropy = entropy / (1 - obs[..., -1]).mean(dim=1).clamp_min(1 / obs.shape[1])
        if self.options.learn_temperature:
            # The derivative of log_temperature * (entropy - target entropy).
            self._temperature_adam.step_along(entropy - self._target_entropy)
        return {"actor_loss": loss.detach(), "entropy": entropy}

    def state_dict(self) -> dict[str, Any]:
        """Parameters and optimizers."""
        return {
            **super().state_dict(),
            "actor": self.actor.vector.detach().cpu().clone(),
            "actor_adam": self._actor_adam.state_dict(),
            "log_temperature": self.log_temperature.detach().cpu().clone(),
            "temperature_adam": self._temperature_adam.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        super().load_state_dict(state)
        with th.no_grad():
            self.actor.vector.copy_(state["actor"])
            self.log_temperature.copy_(state["log_temperature"])
        self._actor_adam.load_state_dict(state["actor_adam"])
        self._temperature_adam.load_state_dict(state["temperature_adam"])


class SoftQ(Agent):
    """An agent for discrete actions: pi(a|s) is proportional to exp(Q(s, a) / temperature).

    Args:
        features: Entries of an encoded observation.
        actions: Number of choices.
        options: Settings; the temperature is fixed, and there is one critic.
        streams: Randomness of each seed.
    """

    def __init__(
        self, features: int, actions: int, options: AgentOptions, streams: SeedStreams
    ) -> None:
        super().__init__(features, actions, options, streams, 1)
        self._learn_policy_of(self.critics)

    def values(self, obs: th.Tensor, acts: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """Q(s, a) by the critic; see `Agent.values`."""
        outputs = self._critics(obs, critics)
        return outputs.gather(-1, acts[None, ..., None]).squeeze(-1)

    def soft_values(self, obs: th.Tensor, critics: Critics = "online") -> th.Tensor:
        """V(s) = temperature * log sum exp(Q(s, a) / temperature); see `Agent.soft_values`."""
        temperature = self.options.temperature
        outputs = self._critics(obs, critics)
        values = temperature * th.logsumexp(outputs / temperature, dim=-1)
        return th.where(obs[..., -1] > 0, outputs[..., 0], values) if self.absorbing else values

    def act(self, obs: th.Tensor) -> th.Tensor:
        """Samples actions; see `Agent.act`."""
        with th.no_grad():
            logits = self._critics(obs, "online")[0] / self.options.temperature
            # Gumbel's trick: the largest of logits with such noise is a sample.
            uniform = self.streams.uniform(*logits.shape[1:])
            return (logits - th.log(-th.log(uniform.clamp_min(1e-20)))).argmax(dim=-1)

    def log_prob(self, obs: th.Tensor, acts: th.Tensor) -> th.Tensor:
        """Log-probability of actions, with derivatives by the critic; see `Agent.log_prob`."""
        logits = self._critics(obs, "online")[0] / self.options.temperature
        return th.log_softmax(logits, dim=-1).gather(-1, acts.unsqueeze(-1)).squeeze(-1)


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
        for parameter in policy.value_net.parameters():
            parameter.zero_()


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
    layers = stack.member(member)
    weight, bias = layers[0]
    scale = th.from_numpy(encoder.scale).float()
    mean = th.from_numpy(encoder.mean).float()
    by_obs = weight[: encoder.size] / scale.unsqueeze(1)
    weight = th.cat([by_obs, weight[encoder.features :]])
    layers[0] = weight, bias - mean @ by_obs
    return layers


def _copy(layers: list[tuple[th.Tensor, th.Tensor]], modules: list[Any]) -> None:
    linear = [module for module in modules if isinstance(module, nn.Linear)]
    for (weight, bias), module in zip(layers, linear, strict=True):
        module.weight.copy_(weight.t())
        module.bias.copy_(bias)


def _constant(_progress: float) -> float:
    return 3e-4
