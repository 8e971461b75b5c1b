"""Rewards of off-policy methods for others: networks of raw observations and actions.

They are built without data first, so that no random numbers are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional

from imitbench.algorithms.off_policy.agent import Critics, SoftActorCritic
from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.trainer import OffPolicyTrainer
from imitbench.rewards.agent_rewards import InverseSoftQRewardNet
from imitbench.rewards.networks import BasicRewardNet

Layers = list[tuple[th.Tensor, th.Tensor]]
"""Weight, shape (inputs, outputs), and bias, shape (outputs,), of each layer."""


def pair_reward_nets(
    stack: StackedMlp,
    encoders: Sequence[ObservationEncoder],
    venv: VecEnv,
    *,
    hidden_entries: Sequence[int],
    use_actions: bool = True,
    use_next_obs: bool = False,
) -> list[BasicRewardNet]:
    """The reward of each seed, where it is a network of what `PairInputs` makes.

    In tasks with an absorbing state, the network's output in that state is subtracted from all:
    then it is 0 there, as it is for every agent after the end of an episode, and trajectories of
    the same horizon are ordered as before. A network of next observations gets the last one of an
    episode as it is, where the method has the absorbing state.

    Args:
        stack: The network of each seed, with one output.
        encoders: Encoder of each seed.
        venv: Environments, for their spaces.
        hidden_entries: As for `PairInputs`.
        use_actions: As for `PairInputs`.
        use_next_obs: As for `PairInputs`.
    """
    nets = []
    for seed, encoder in enumerate(encoders):
        with th.device("meta"):
            net = BasicRewardNet(
                venv.observation_space,
                venv.action_space,
                use_action=use_actions,
                use_next_state=use_next_obs,
                hid_sizes=stack.sizes[1:-1],
                hidden_entries=sorted(hidden_entries),
            )
        layers = _of_raw_inputs(stack.member(seed), encoder, net)
        net.load_state_dict(perceptron_state("mlp", layers), assign=True)
        nets.append(net)
    return nets


def _of_raw_inputs(layers: Layers, encoder: ObservationEncoder, net: BasicRewardNet) -> Layers:
    """Layers on the raw inputs of a net, for the outputs relative to the absorbing state."""
    layers = [(weight.double(), bias.double()) for weight, bias in layers]
    offset = _in_absorbing_state(layers, encoder, net) if encoder.absorbing else 0.0
    weight, bias = layers[0]
    seen = np.delete(np.arange(encoder.size), list(net.hidden_entries))
    scale, mean = (th.from_numpy(statistic[seen]) for statistic in (encoder.scale, encoder.mean))
    count = len(weight) - encoder.features * (1 + net.use_next_state)
    of_obs, by_acts, of_next = th.split(
        weight, [encoder.features, count, encoder.features * net.use_next_state]
    )
    parts = [of_obs[seen] / scale.unsqueeze(1)]
    bias = bias - mean @ parts[0]
    space = net.action_space
    if isinstance(space, spaces.Box) and count:
        low, high = (th.from_numpy(bound.ravel()).double() for bound in (space.low, space.high))
        by_acts = by_acts * (2 / (high - low)).unsqueeze(1)
        bias = bias - ((high + low) / 2) @ by_acts
    parts.append(by_acts)
    if net.use_next_state:
        parts.append(of_next[seen] / scale.unsqueeze(1))
        bias = bias - mean @ parts[-1]
    layers[0] = th.cat(parts), bias
    layers[-1] = layers[-1][0], layers[-1][1] - offset
    return layers


def _in_absorbing_state(layers: Layers, encoder: ObservationEncoder, net: BasicRewardNet) -> float:
    """The output of a network inside the absorbing state, where the action is 0."""
    x = th.zeros(len(layers[0][0]), dtype=th.float64)
    x[encoder.features - 1] = 1.0
    if isinstance(net.action_space, spaces.Discrete) and net.use_action:
        x[encoder.features] = 1.0
    if net.use_next_state:
        x[-1] = 1.0
    for depth, (weight, bias) in enumerate(layers):
        x = (functional.relu(x) if depth else x) @ weight + bias
    return float(x)


def perceptron_state(name: str, layers: Layers) -> dict[str, th.Tensor]:
    """The state of a perceptron of `build_mlp`, float32.

    Args:
        name: Name of the perceptron in the network that it is part of.
        layers: Its layers.
    """
    names = [f"dense{depth}" for depth in range(len(layers) - 1)] + ["dense_final"]
    return {
        f"{name}.{layer}.{part}": values.to(th.float32, copy=True).contiguous()
        for layer, (weight, bias) in zip(names, layers, strict=True)
        for part, values in (("weight", weight.t()), ("bias", bias))
    }


def encoder_state(encoder: ObservationEncoder) -> dict[str, th.Tensor]:
    """The state of a `StandardizedRewardNet` that encodes observations as an encoder does."""
    return {"mean": th.tensor(encoder.mean), "scale": th.tensor(encoder.scale)}


def unmarked(layers: Layers, encoder: ObservationEncoder) -> Layers:
    """Layers without the weights of the absorbing state's mark, which raw observations lack."""
    weight, bias = layers[0]
    return [(th.cat([weight[: encoder.size], weight[encoder.features :]]), bias), *layers[1:]]


class ImplicitRewardTrainer(OffPolicyTrainer):
    """A method whose soft Q-values imply a reward.

    Attributes:
        value_critics: Whose values V is.
        value_limit: Largest absolute value of V; `None` for none.
    """

    value_critics: Critics = "target"
    value_limit: float | None = None
    least_value = False
    """Whether V is that of the least critic, not of each."""

    @property
    def reward_nets(self) -> Sequence[InverseSoftQRewardNet]:
        """The implied reward of each seed as it is now; see `InverseSoftQRewardNet`."""
        return [self._implied_reward(seed) for seed in range(len(self.streams))]

    def _implied_reward(self, seed: int) -> InverseSoftQRewardNet:
        agent, encoder, space = self.agent, self._encoders[seed], self.venv.action_space
        options, count = self.options.agent, len(self.streams)
        with th.device("meta"):
            net = InverseSoftQRewardNet(
                self.venv.observation_space,
                space,
                hid_sizes=options.hidden_sizes,
                n_critics=agent.n_critics,
                discount=options.gamma,
                least_value=self.least_value,
                value_bound=self.value_limit,
                action_clip=options.action_clip,
                ends=self._has_ends(seed),
            )
        targets = agent.targets if self.value_critics == "target" else agent.critics
        state = encoder_state(encoder) | {"noise": net.noise}
        for name, stack in (("critics", agent.critics), ("next_critics", targets)):
            for number in range(agent.n_critics):
                layers = unmarked(stack.member(number * count + seed), encoder)
                state |= perceptron_state(f"{name}.{number}", layers)
        temperature = th.tensor(options.temperature)
        if isinstance(agent, SoftActorCritic):
            temperature = agent.temperature[seed, 0].cpu()
            state |= perceptron_state("actor", unmarked(agent.actor.member(seed), encoder))
        net.load_state_dict(state | {"temperature": temperature}, assign=True)
        return net

    def _has_ends(self, seed: int) -> bool:
        """Whether an episode of the learner or the expert ended other than by its time limit."""
        stores = [self._replay] if self._expert is None else [self._replay, self._expert]
        found = [store.column("terminal", seed) for store in stores]
        if self._encoders[seed].absorbing:
            found += [store.column("next_obs", seed)[:, -1] for store in stores]
        return any(bool((column > 0).any()) for column in found)
