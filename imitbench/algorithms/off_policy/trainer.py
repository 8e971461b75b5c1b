"""What all off-policy methods share: acting, storing, updating, and their state."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import (
    check_action_space,
    common_time_limit,
    expert_transitions,
)
from imitbench.algorithms.off_policy.agent import (
    Agent,
    AgentOptions,
    SoftActorCritic,
    SoftQ,
    copy_policy,
    make_policy,
)
from imitbench.algorithms.off_policy.collector import Collector, Rows, encoded_demonstrations
from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.transitions import Batch, TransitionStore, store_of
from imitbench.data import types
from imitbench.rewards.base import RewardNet
from imitbench.util.logger import HierarchicalLogger
from imitbench.util.torch_startup import one_thread

# Recordings that are kept; each has its own memory on the GPU.
_RECORDED_UPDATES = 2


@dataclass(frozen=True)
class OffPolicyOptions:
    """Settings that all off-policy methods share.

    Attributes:
        agent: Settings of the agent.
        batch_size: Transitions of the learner in each update, and as many of the expert.
        buffer_size: Capacity for the learner's transitions.
        learning_starts: Environment steps with random actions before the first update.
        steps_per_update: Environment steps of a seed for each round of updates; a multiple of its
            number of environments.
        updates: Updates in each round.
        absorbing_states: Whether the end of an episode leads to an absorbing state, so that the
            method learns its value instead of assuming 0 (Kostrikov et al. 2019, section 4.2).
        standardize: Whether observations are standardized, with the statistics of the first random
            steps, and of demonstrations in equal parts if there are any.
        hidden_entries: Entries of flat observations that the agent does not see.

    Raises:
        ValueError: A value is out of range.
    """

    agent: AgentOptions = field(default_factory=AgentOptions)
    batch_size: int = 128
    buffer_size: int = 1_000_000
    learning_starts: int = 1000
    steps_per_update: int = 1
    updates: int = 1
    absorbing_states: bool = True
    standardize: bool = True
    hidden_entries: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("batch_size", "buffer_size", "learning_starts", "steps_per_update", "updates"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")


class OffPolicyTrainer(base.DemonstrationAlgorithm[types.Transitions]):
    """Base of methods that learn from a replay buffer and demonstrations.

    A method overrides `critic_loss`, and `learn` where it has more to learn than the agent.

    Several seeds are trained as one batched program when `seeds` has more than one; `venv` then
    has the environments of the first seed, those of the second, and so on.

    Args:
        venv: Environments in which the learner acts; as many for each seed.
        demonstrations: Demonstrations; `None` to set them later.
        options: Settings.
        seeds: Seed of each learner.
        device: Where to compute.
        custom_logger: Where to log; a new logger when `None`.
        allow_variable_horizon: Whether episodes of different length are accepted.

    Attributes:
        venv: As given.
        options: As given.
        agent: The agent.
        streams: Randomness of each seed.
        num_timesteps: Environment steps of each seed so far.

    Raises:
        ValueError: Spaces or demonstrations do not fit, or `venv` has a number of environments
            that is not a multiple of the number of seeds.
    """

    discrete_actions = False
    """Whether the method is defined for discrete actions."""
    uses_demonstrations = True
    """Whether the method learns from demonstrations; without, `expert` batches are the learner's
    own."""
    reads_actions = True
    """Whether the method learns from the expert's actions; without, zeros stand for them in
    `expert` batches."""
    improves_on_both = False
    """Whether the policy is improved in the expert's observations, too."""

    def __init__(
        self,
        *,
        venv: VecEnv,
        demonstrations: base.AnyTransitions | None,
        options: OffPolicyOptions | None = None,
        seeds: Sequence[int] = (0,),
        device: str | th.device = "cpu",
        custom_logger: HierarchicalLogger | None = None,
        allow_variable_horizon: bool = False,
    ) -> None:
        check_off_policy_spaces(venv, type(self).__name__, discrete=self.discrete_actions)
        self.venv = venv
        self.options = options or OffPolicyOptions()
        self.streams = SeedStreams(seeds, device)
        absorbing = self.options.absorbing_states and allow_variable_horizon
        self._encoders = [
            ObservationEncoder(
                venv.observation_space, absorbing=absorbing, hidden=self.options.hidden_entries
            )
            for _ in seeds
        ]
        self._collector = Collector(venv, self._encoders, self.streams)
        self.agent = self._make_agent()
        self.agent.absorbing = absorbing
        space = venv.action_space
        self._replay = TransitionStore(
            len(self.streams),
            self.options.buffer_size,
            self._encoders[0].features,
            () if isinstance(space, spaces.Discrete) else (spaces.flatdim(space),),
            device,
        )
        self._demonstrations: list[Rows] = []
        self._expert: TransitionStore | None = None
        self.num_timesteps = 0
        self.n_updates = 0
        self._ready = False
        self._updates: dict[Hashable, Callable[[], dict[str, th.Tensor]]] = {}
        self._policies = [
            make_policy(self.agent, venv.observation_space, space).to(device) for _ in seeds
        ]
        super().__init__(
            demonstrations=demonstrations,
            custom_logger=custom_logger,
            allow_variable_horizon=allow_variable_horizon,
        )

    # What a method defines.

    @abstractmethod
    def critic_loss(self, own: Batch, expert: Batch) -> th.Tensor:
        """What the critics minimize.

        Args:
            own: Transitions of the learner.
            expert: As many of the expert.

        Returns:
            Shape (seeds,), with derivatives by the critics' parameters.
        """

    def prepare(self) -> None:
        """Called once, before the first update: demonstrations and random steps are there."""

    def learn(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of what the method learns beside the agent, before the critics' step.

        Returns:
            What to log, each of shape (seeds,); not the same names in every update.
        """
        del own, expert
        return {}

    def set_rewards(self, seed: int, rows: Rows) -> Rows:
        """Called with each seed's new transitions, in the order of time, before they are stored.

        Args:
            seed: Number of the seed, from 0.
            rows: The fields of `Batch`, each of shape (n, …): a transition of each environment,
                then those inside the absorbing state.

        Returns:
            The same transitions, perhaps with rewards.
        """
        del seed
        return rows

    def actor_obs(self, own: Batch, expert: Batch) -> th.Tensor:
        """Observations in which the policy is improved, shape (seeds, batch, features)."""
        return th.cat([own.obs, expert.obs], dim=1) if self.improves_on_both else own.obs

    def improve_policy(self, own: Batch, expert: Batch) -> dict[str, th.Tensor]:
        """Takes a step of the policy, after the critics' step.

        Returns:
            What to log, each of shape (seeds,).
        """
        return self.agent.update_actor(self.actor_obs(own, expert))

    def update_kind(self) -> Hashable | None:
        """What updates depend on beside tensors: those of the same kind do the same operations.

        Returns:
            Anything hashable; `None` for an update that is unlike all others.
        """
        return ()

    def extra_state(self) -> dict[str, Any]:
        """State of what the method learns beside the agent."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `extra_state` returned."""
        del state

    # Temporal differences, for methods with a reward.

    def td_loss(
        self, batch: Batch, rewards: th.Tensor, following: th.Tensor | None = None
    ) -> th.Tensor:
        """Squared error of Q(s, a) from r + gamma * V(s'), half of its mean over the batch.

        Args:
            batch: Transitions.
            rewards: Shape (seeds, batch).
            following: What follows the reward, shape (seeds, batch); `next_values` when `None`.

        Returns:
            The sum over critics, shape (seeds,).
        """
        with th.no_grad():
            targets = rewards + (self.next_values(batch) if following is None else following)
        errors = self.agent.values(batch.obs, batch.acts) - targets
        return 0.5 * errors.square().mean(dim=-1).sum(dim=0)

    def next_values(self, batch: Batch) -> th.Tensor:
        """Gamma * V(s') by the least target critic, 0 after the end; shape (seeds, batch)."""
        values = self.agent.soft_values(batch.next_obs, "target").amin(dim=0)
        return self.options.agent.gamma * (1 - batch.terminal) * values

    def ended(self, batch: Batch) -> th.Tensor:
        """Whether the next state is absorbing, marked or not; shape (seeds, batch), bool."""
        ended = batch.terminal > 0
        return ended | (batch.next_obs[..., -1] > 0) if self._encoders[0].absorbing else ended

    def initial_obs(self, count: int) -> th.Tensor:
        """Draws observations in which demonstrations begin; shape (seeds, count, features)."""
        starts = [np.flatnonzero(rows["starts"]) for rows in self._demonstrations]

        def fill(host: th.Tensor) -> None:
            drawn = self.streams.indices([len(start) for start in starts], count)
            index = [start[numbers] for start, numbers in zip(starts, drawn, strict=True)]
            host.copy_(th.from_numpy(np.stack(index)))

        return self.expert.take(self.streams.given(fill, (len(starts), count), th.int64)).obs

    # Demonstrations and policy.

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations, of all seeds.

        Args:
            demonstrations: Trajectories, transitions with next observations, or a finite iterable
                of batches of them.

        Raises:
            TypeError: Demonstrations of another type.
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
        """
        self.set_demonstrations_of_seeds([demonstrations] * len(self.streams))

    def set_demonstrations_of_seeds(self, demonstrations: Sequence[base.AnyTransitions]) -> None:
        """Replaces the demonstrations of each seed by its own.

        Args:
            demonstrations: Those of each seed, as for `set_demonstrations`.

        Raises:
            TypeError: See `set_demonstrations`.
            ValueError: See `set_demonstrations`.
        """
        rows: dict[int, Rows] = {}
        for demonstration in demonstrations:
            if id(demonstration) not in rows:
                rows[id(demonstration)] = expert_transitions(
                    demonstration,
                    self.venv.observation_space,
                    self.venv.action_space,
                    common_time_limit(self.venv),
                    read_actions=self.reads_actions,
                )
        self._demonstrations = [rows[id(demonstration)] for demonstration in demonstrations]
        if self._ready:
            self._expert = self._encoded_demonstrations()
            self._updates.clear()

    @property
    def policies(self) -> list[BasePolicy]:
        """The policy of each seed, with the parameters as they are now."""
        for seed, (policy, encoder) in enumerate(zip(self._policies, self._encoders, strict=True)):
            copy_policy(self.agent, encoder, seed, policy)
        return self._policies

    @property
    def policy(self) -> BasePolicy:
        """The policy of the first seed, with the parameters as they are now."""
        return self.policies[0]

    @property
    def reward_nets(self) -> Sequence[RewardNet]:
        """The reward of each seed as it is now, a function of raw observations and actions.

        Empty for methods whose reward is none of single transitions.
        """
        return []

    # Training.

    def train(self, total_timesteps: int) -> dict[str, float]:
        """Continues training.

        Args:
            total_timesteps: Environment steps of each seed, in addition to earlier ones.

        Returns:
            What the updates logged: means over those that did and over seeds; empty without
            updates.

        Raises:
            ValueError: There are no demonstrations.
        """
        logged = self.train_seeds(total_timesteps)
        return {name: float(np.mean([metrics[name] for metrics in logged])) for name in logged[0]}

    def train_seeds(self, total_timesteps: int) -> list[dict[str, float]]:
        """Like `train`, but returns what was logged for each seed."""
        if self.uses_demonstrations and not self._demonstrations:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        end = self.num_timesteps + total_timesteps
        sums: dict[str, th.Tensor] = {}
        counts: Counter[str] = Counter()
        with one_thread():
            while self.num_timesteps < end:
                self._step()
                if self._update_is_due():
                    for _ in range(self.options.updates):
                        _add(self._update(), sums, counts)
        means = {name: (value / counts[name]).tolist() for name, value in sums.items()}
        return [
            {name: value[seed] for name, value in means.items()}
            for seed in range(len(self.streams))
        ]

    def _step(self) -> None:
        rows = self._collector.step(self.agent if self._ready else None)
        for seed, row in enumerate(rows):
            self._replay.add(seed, self.set_rewards(seed, row))
        self.num_timesteps += self._collector.n_envs
        self._check_fixed_horizon(self._collector.lengths)

    def _update_is_due(self) -> bool:
        options = self.options
        if self.num_timesteps < options.learning_starts:
            return False
        if not self._ready:
            self._become_ready()
        return self.num_timesteps % options.steps_per_update < self._collector.n_envs

    def _become_ready(self) -> None:
        """Fixes the encoding, and hands demonstrations and random steps to the method."""
        if self.options.standardize:
            for seed in range(len(self.streams)):
                self._standardize(seed)
        if self.uses_demonstrations:
            self._expert = self._encoded_demonstrations()
        self._ready = True
        self.prepare()

    def _standardize(self, seed: int) -> None:
        """Fixes the statistics of a seed; those before were 0 and 1."""
        encoder = self._encoders[seed]
        stored = [self._replay.column(name, seed) for name in ("obs", "next_obs")]
        marked = [rows[:, encoder.size :].any(dim=1) for rows in stored]
        own = stored[0][~marked[0], : encoder.size].cpu().numpy().astype(np.float64)
        kinds = [own]
        if self.uses_demonstrations:
            kinds.append(encoder.flatten(self._demonstrations[seed]["obs"]))
        encoder.standardize(*kinds)
        mean, scale = (
            th.from_numpy(array).to(stored[0]) for array in (encoder.mean, encoder.scale)
        )
        for rows, absorbing in zip(stored, marked, strict=True):
            rows[:, : encoder.size] = (rows[:, : encoder.size] - mean) / scale
            rows[absorbing, : encoder.size] = 0.0

    def _update(self) -> dict[str, th.Tensor]:
        """Takes an update; the next one may overwrite what it returns."""
        kind = self.update_kind() if self.streams.recording else None
        if kind is None:
            logged = self._compute_update()
        else:
            self._replay.flush()  # a recorded update only reads
            logged = self._recorded_update(kind)()
        self.n_updates += 1
        return logged

    def _recorded_update(self, kind: Hashable) -> Callable[[], dict[str, th.Tensor]]:
        if kind not in self._updates:
            if len(self._updates) == _RECORDED_UPDATES:
                del self._updates[next(iter(self._updates))]
            self._updates[kind] = self.streams.recorded(self._compute_update)
        return self._updates[kind]

    def _compute_update(self) -> dict[str, th.Tensor]:
        size = self.options.batch_size
        own = self._replay.sample(self.streams, size)
        expert = self.expert.sample(self.streams, size) if self.uses_demonstrations else own
        logged = self.learn(own, expert)
        loss = self.critic_loss(own, expert)
        self.agent.update_critics(loss.sum())
        logged |= self.improve_policy(own, expert)
        self.agent.follow()
        return {**logged, "critic_loss": loss.detach()}

    def _encoded_demonstrations(self) -> TransitionStore:
        space = self.venv.action_space
        return store_of(
            [
                encoded_demonstrations(encoder, rows, space)
                for encoder, rows in zip(self._encoders, self._demonstrations, strict=True)
            ],
            self.streams.device,
        )

    @property
    def expert(self) -> TransitionStore:
        """Encoded demonstrations; from `prepare` on."""
        assert self._expert is not None, "training is ready"
        return self._expert

    # Spaces.

    @property
    def features(self) -> int:
        """Entries of an encoded observation."""
        return self._encoders[0].features

    @property
    def actor_critic(self) -> SoftActorCritic:
        """The agent of a method for continuous actions."""
        assert isinstance(self.agent, SoftActorCritic), "check_off_policy_spaces refused others"
        return self.agent

    def _make_agent(self) -> Agent:
        space, features = self.venv.action_space, self._encoders[0].features
        if isinstance(space, spaces.Discrete):
            return SoftQ(features, int(space.n), self.options.agent, self.streams)
        return SoftActorCritic(features, spaces.flatdim(space), self.options.agent, self.streams)

    # State.

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, the replay buffer included.

        Excludes the demonstrations, and the state of the environments.

        Returns:
            Tensors, arrays, numbers, strings, `None`, and lists and dictionaries of them.
        """
        return {
            "agent": self.agent.state_dict(),
            "streams": self.streams.state_dict(),
            "replay": self._replay.state_dict(),
            "encoders": [encoder.state_dict() for encoder in self._encoders],
            "collector": self._collector.state_dict(),
            "steps": (self.num_timesteps, self.n_updates, self._ready),
            "horizon": self._horizon,
            "method": self.extra_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Restore the environments before.

        Args:
            state: The state of an instance with the same arguments and demonstrations.
        """
        self.agent.load_state_dict(state["agent"])
        self.streams.load_state_dict(state["streams"])
        self._replay.load_state_dict(state["replay"])
        for encoder, own in zip(self._encoders, state["encoders"], strict=True):
            encoder.load_state_dict(own)
        self._collector.load_state_dict(state["collector"])
        self.num_timesteps, self.n_updates, self._ready = state["steps"]
        self._horizon = state["horizon"]
        if self._ready and self.uses_demonstrations:
            self._expert = self._encoded_demonstrations()
        self.load_extra_state(state["method"])
        self._updates.clear()  # optimizers have new tensors


def _add(logged: Mapping[str, th.Tensor], sums: dict[str, th.Tensor], counts: Counter[str]) -> None:
    """Adds what an update logged to the sums so far."""
    for name, value in logged.items():
        if name not in sums:
            sums[name] = th.zeros_like(value)
    counts.update(logged.keys())
    th._foreach_add_([sums[name] for name in logged], list(logged.values()))


def check_off_policy_spaces(venv: VecEnv, method: str, *, discrete: bool) -> None:
    """Checks that a method can choose the actions of environments.

    Args:
        venv: The environments.
        method: What to call the method in messages.
        discrete: Whether it is defined for discrete actions.

    Raises:
        ValueError: It cannot.
    """
    space = venv.action_space
    if isinstance(space, spaces.Discrete):
        if not discrete:
            raise ValueError(f"action_space: {method} needs continuous actions, not {space}")
        check_action_space(space)
    elif not isinstance(space, spaces.Box):
        raise ValueError(f"action_space: off-policy methods cannot choose from {space}")
    elif not space.is_bounded():
        raise ValueError(f"action_space: {method} needs actions with bounds, not {space}")
