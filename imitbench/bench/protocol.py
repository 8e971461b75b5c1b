"""The evaluation protocol: runs a policy and returns the returns of its episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment, simulator_threads, stepped_in_batches
from imitbench.bench.seeding import derive_seed
from imitbench.errors import InputError
from imitbench.records.episodes import Episodes
from imitbench.records.runs import EnvironmentSpec
from imitbench.util.text_line import one_line

if TYPE_CHECKING:
    from types import TracebackType

    from stable_baselines3.common.policies import BasePolicy

    from imitbench.cards.success import SuccessRule

Array = npt.NDArray[Any]
_ACTIONS = "evaluation actions"  # purpose of a seed


@dataclass(frozen=True)
class Evaluation:
    """What to evaluate.

    Attributes:
        policy: Acts on batches of observations. A policy that overrides `predict` may have a
            memory, which is reset at the start of each episode.
        episodes: Number of episodes.
        seed: Seed of the record; training uses other random streams derived from it.
        deterministic: Whether the policy takes its most likely action.
    """

    policy: BasePolicy
    episodes: int
    seed: int
    deterministic: bool


class Evaluator:
    """Environments kept open for several evaluations of the same specification.

    Args:
        spec: The environment to build.
        environments: Number of environments stepped in parallel. Episode `i` always runs in
            environment `i % environments`, so environments with short episodes do not contribute
            more of them and short episodes are not over-counted.
        check: Called at every step; may raise to end an evaluation.
        wrap: Applied to each environment, for example to record it. Without it, all environments
            are stepped at once where that can be, with the same results.
        progress: Called when episodes have ended, with their number so far and that of all.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        environments: int,
        check: Callable[[], None] = lambda: None,
        wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
        progress: Callable[[int, int], None] = lambda _ended, _total: None,
    ) -> None:
        self.spec = spec
        self._check = check
        self._progress = progress
        self._count = environments
        first = make_environment(spec)
        # Evaluation in batches reads no infos, which say what a success is, and more.
        told = spec.success is not None or spec.measures is not None
        self._batched = wrap is None and not told and stepped_in_batches(first, spec, environments)
        # In a batch, one environment makes all resets: episodes have seeds of their own.
        others = 0 if self._batched else environments - 1
        made = [first, *(make_environment(spec) for _ in range(others))]
        self._environments = made if wrap is None else [wrap(environment) for environment in made]
        self._lanes: _Lanes | None = None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for environment in self._environments:
            environment.close()

    @property
    def observation_space(self) -> gym.Space[Any]:
        """Space of the environments' observations."""
        return self._environments[0].observation_space

    @property
    def action_space(self) -> gym.Space[Any]:
        """Space of the environments' actions."""
        return self._environments[0].action_space

    def evaluate(
        self, policy: BasePolicy, *, episodes: int, seed: int, deterministic: bool
    ) -> Episodes:
        """Makes one evaluation, see `Evaluation`."""
        return self.evaluate_all([Evaluation(policy, episodes, seed, deterministic)])[0]

    def evaluate_all(self, asked: Sequence[Evaluation]) -> list[Episodes]:
        """Runs the episodes of several evaluations, each episode with its own seed.

        All of them are stepped at once where that can be. Results do not depend on the others.

        Returns:
            For each evaluation, the episodes in order of their number.

        Raises:
            InputError: Episode lengths differ though the environment is declared to have a
                fixed horizon, or its infos do not say what a success is.
        """
        total, ended = sum(evaluation.episodes for evaluation in asked), 0

        def end(count: int) -> None:
            nonlocal ended
            if count:
                ended += count
                self._progress(ended, total)

        if self._batched and all(samples_from_torch(one.policy) for one in asked):
            return self._evaluate_together(asked, end)
        return [self._evaluate_together([evaluation], end)[0] for evaluation in asked]

    def _evaluate_together(
        self, asked: Sequence[Evaluation], count_ended: Callable[[int], None]
    ) -> list[Episodes]:
        counts = [min(self._count, evaluation.episodes) for evaluation in asked]
        lanes = self._lanes_for(sum(counts))
        ends = np.cumsum(counts)
        with ExitStack() as stack:
            runs = []
            for each, count, end in zip(asked, counts, ends, strict=True):
                stack.enter_context(_seeded(each.policy, derive_seed(each.seed, _ACTIONS)))
                runs.append(_Run(each, lanes, range(end - count, end), alone=len(asked) == 1))
            while live := [run for run in runs if len(run.live)]:
                self._check()
                actions = np.concatenate([run.act() for run in live])
                results = lanes.step(np.concatenate([run.live for run in live]), actions)
                begin = ended = 0
                for run in live:
                    end = begin + len(run.live)
                    ended += run.take(*(values[begin:end] for values in results))
                    begin = end
                count_ended(ended)
        for run in runs:
            self._check_horizon(run.lengths)
        lanes.check_success()
        return [run.episodes() for run in runs]

    def _lanes_for(self, count: int) -> _Lanes:
        if not self._batched:
            self._lanes = self._lanes or _Lanes(self._environments, self.spec)
        elif self._lanes is None or len(self._lanes) != count:
            self._lanes = _BatchLanes(self._environments[0], count, self.spec)
        return self._lanes

    def _check_horizon(self, lengths: Array) -> None:
        if self.spec.horizon == "fixed" and lengths.min() != lengths.max():
            raise InputError(
                f"environment {self.spec.id}: episodes took {lengths.min()} to {lengths.max()} "
                "steps though the card says 'horizon: fixed'. The end of an episode reveals "
                "the reward to a method; set 'horizon: variable' on the card to accept this"
            )


class _Lanes:
    """Environments that are each in an episode of their own.

    Args:
        environments: The environments.
        spec: Their specification.
    """

    def __init__(self, environments: list[gym.Env[Any, Any]], spec: EnvironmentSpec) -> None:
        self._environments = environments
        self._obs: list[Any] = [None] * len(environments)
        self._spec = spec
        self._told = False  # whether an info has said something of success
        self.measured: Array = np.zeros((len(environments), len(spec.measures or ())))

    @property
    def measures(self) -> list[str]:
        """Entries of the last infos that are averaged; `measured` has those of each lane."""
        return self._spec.measures or []

    @property
    def success(self) -> SuccessRule | None:
        """How episodes are judged; `None` if success is not measured."""
        return self._spec.success

    def check_success(self) -> None:
        """Checks that infos say what a success is, where it is measured.

        Raises:
            InputError: No info had the entry that the card names.
        """
        if self.success is not None and not self._told:
            raise InputError(
                f"environment {self._spec.id}: its infos have no '{self.success.key}', which the "
                "suite's card says tells success; correct success.key"
            )

    def __len__(self) -> int:
        return len(self._obs)

    def reset(self, lane: int, seed: int) -> None:
        """Starts an episode."""
        self._obs[lane] = self._environments[lane].reset(seed=seed)[0]

    def observations(self, lanes: Array) -> Any:
        """Returns the current observations of some environments, as a batch."""
        rows = [self._obs[lane] for lane in lanes]
        if isinstance(rows[0], dict):
            return {key: np.stack([row[key] for row in rows]) for key in rows[0]}
        return np.stack(rows)

    def step(self, lanes: Array, actions: Array) -> tuple[Array, ...]:
        """Steps some environments.

        Args:
            lanes: Their numbers, increasing.
            actions: An action for each.

        Returns:
            For each its reward, and whether the episode has terminated, was truncated and is a
            success by this step.
        """
        found = []
        for lane, action in zip(lanes, actions, strict=True):
            self._obs[lane], reward, ended, cut, info = self._environments[lane].step(action)
            found.append((float(reward), bool(ended), bool(cut), self._succeeded(info)))
            if self.measures and (ended or cut):
                self.measured[lane] = self._read_measures(info)
        return tuple(map(np.array, zip(*found, strict=True)))

    def _read_measures(self, info: Mapping[str, Any]) -> list[float]:
        try:
            return [float(info[name]) for name in self.measures]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"environment {self._spec.id}: the info of an episode's last step lacks a number "
                f"that the suite's card names ({one_line(error, 80)}); correct measures"
            ) from None

    def _succeeded(self, info: Mapping[str, Any]) -> bool:
        if self.success is None:
            return False
        try:
            said = self.success.read(info)
        except ValueError as error:
            raise InputError(
                f"environment {self._spec.id}: {error}; correct success.key on the suite's card"
            ) from None
        self._told |= said is not None
        return bool(said)


class _BatchLanes(_Lanes):
    """Environments that are stepped at once.

    Args:
        environment: Resets all of them.
        count: Number of environments.
        spec: Specification of the environment, which measures no success.
    """

    def __init__(self, environment: gym.Env[Any, Any], count: int, spec: EnvironmentSpec) -> None:
        from imitbench.envs.batch_choice import make_batch, unlimited

        super().__init__([environment] * count, spec)
        self._batch = make_batch([environment] * count, simulator_threads())
        self._limit = unlimited(environment)[1]
        self._lengths = np.zeros(count, dtype=np.int64)
        self._rows: Array | None = None

    def reset(self, lane: int, seed: int) -> None:
        super().reset(lane, seed)
        if self._rows is None:
            self._rows = np.zeros((len(self), *self._obs[lane].shape), self._obs[lane].dtype)
        self._rows[lane] = self._obs[lane]
        self._batch.load(lane)
        self._lengths[lane] = 0

    def observations(self, lanes: Array) -> Any:
        assert self._rows is not None, "all lanes were reset"
        return self._rows[lanes]

    def step(self, lanes: Array, actions: Array) -> tuple[Array, ...]:
        self._lengths[lanes] += 1
        results = self._batch.step(actions, lanes if len(lanes) < len(self) else None)
        assert self._rows is not None, "all lanes were reset"
        self._rows[lanes] = results.obs
        cut = self._lengths[lanes] >= self._limit
        return results.rewards, results.terminated, cut, np.zeros(len(lanes), dtype=bool)


class _Run:
    """An evaluation in progress.

    Args:
        asked: What is evaluated. Torch's generator has its seed.
        lanes: All lanes.
        own: Numbers of the lanes that it uses.
        alone: Whether nothing else draws from torch's generator.

    Attributes:
        live: Lanes in an episode, increasing.
        lengths: Lengths of the episodes, shape (episodes,).
    """

    def __init__(self, asked: Evaluation, lanes: _Lanes, own: range, *, alone: bool) -> None:
        import torch as th

        stream = np.random.SeedSequence(derive_seed(asked.seed, "evaluation"))
        self._seeds = stream.generate_state(asked.episodes)
        self._deterministic = asked.deterministic
        self._lanes, self._first = lanes, own.start
        self._returns = np.zeros(asked.episodes)
        self.lengths = np.zeros(asked.episodes, dtype=np.int64)
        self._terminated = np.zeros(asked.episodes, dtype=bool)
        self._success = np.zeros(asked.episodes, dtype=bool)
        self._measured = np.zeros((asked.episodes, len(lanes.measures)))
        self._current = np.arange(len(own))  # the episode that each lane is in
        self.live = np.array(own)
        for lane in own:
            lanes.reset(lane, int(self._seeds[lane - own.start]))
        self._actor = _make_actor(asked.policy, asked.deterministic, lanes, self.live)
        self._generator = None if alone else th.get_rng_state()

    def act(self) -> Any:
        """Returns an action for each live lane."""
        if self._generator is None:
            return self._actor.act(self.live)
        import torch as th

        th.set_rng_state(self._generator)
        actions = self._actor.act(self.live)
        self._generator = th.get_rng_state()
        return actions

    def take(self, rewards: Array, terminated: Array, truncated: Array, success: Array) -> int:
        """Records a step of the live lanes, and starts the next episodes of those that ended.

        Returns:
            How many ended.
        """
        episodes = self._current[self.live - self._first]
        self._returns[episodes] += rewards
        self.lengths[episodes] += 1
        rule = self._lanes.success
        if rule is not None:
            before = self._success[episodes] if rule.when == "ever" else False
            self._success[episodes] = success | before
        ended = terminated | truncated
        if not ended.any():
            return 0
        self._terminated[episodes[ended]] = terminated[ended]
        left = np.ones(len(self.live), dtype=bool)
        lanes_used = len(self._current)
        for row in np.flatnonzero(ended):
            lane = int(self.live[row])
            self._measured[episodes[row]] = self._lanes.measured[lane]
            self._actor.begin_episode(lane)
            following = int(episodes[row]) + lanes_used
            self._current[lane - self._first] = following
            if following < len(self._seeds):
                self._lanes.reset(lane, int(self._seeds[following]))
            else:
                left[row] = False
        self.live = self.live[left]
        return int(ended.sum())

    def episodes(self) -> Episodes:
        """Returns the episodes in order of their number."""
        success = None if self._lanes.success is None else self._success
        measures = dict(zip(self._lanes.measures, self._measured.T, strict=True))
        return Episodes(
            self._returns, self.lengths, self._terminated, self._deterministic, success, measures
        )


class _Actor:
    """Acts with a policy without memory, in the lanes that are in an episode."""

    def __init__(self, policy: BasePolicy, deterministic: bool, lanes: _Lanes) -> None:
        from imitbench.data.policy_callable import batch_actor

        self._lanes = lanes
        self._choose = batch_actor(policy, deterministic)

    def act(self, live: Array) -> Any:
        """Returns one action for each live lane."""
        return self._choose(self._lanes.observations(live))

    def begin_episode(self, lane: int) -> None:
        """Must be called when a lane starts another episode."""


class _RecurrentActor(_Actor):
    """Acts with a policy with memory, in all its lanes: the memory has one entry for each."""

    def __init__(self, policy: BasePolicy, deterministic: bool, lanes: _Lanes, own: Array) -> None:
        from imitbench.data.policy_callable import finite_choices

        self._finite_choices = finite_choices
        self._policy = policy
        self._deterministic = deterministic
        self._lanes, self._own = lanes, own
        self._state: tuple[Array, ...] | None = None
        self._starts = np.ones(len(own), dtype=bool)

    def act(self, live: Array) -> Any:
        with self._finite_choices():
            actions, self._state = self._policy.predict(
                self._lanes.observations(self._own),
                state=self._state,
                episode_start=self._starts,
                deterministic=self._deterministic,
            )
        # In finished lanes each step starts an episode, which is not counted.
        rows = live - self._own[0]
        self._starts = np.ones_like(self._starts)
        self._starts[rows] = False
        return actions[rows]

    def begin_episode(self, lane: int) -> None:
        self._starts[lane - self._own[0]] = True


class _StatefulActor(_RecurrentActor):
    """Acts with a policy whose memory can be split: finished lanes cost nothing."""

    def act(self, live: Array) -> Any:
        rows = live - self._own[0]
        with self._finite_choices():
            actions, memory = self._policy.predict(
                self._lanes.observations(live),
                state=None if self._state is None else tuple(part[rows] for part in self._state),
                episode_start=self._starts[rows],
                deterministic=self._deterministic,
            )
        assert memory is not None, "stateful policies return their memory"
        if self._state is None:  # all lanes are live at first
            self._state = tuple(part.copy() for part in memory)
        else:
            for whole, part in zip(self._state, memory, strict=True):
                whole[rows] = part
        self._starts[rows] = False
        return actions


def _make_actor(policy: BasePolicy, deterministic: bool, lanes: _Lanes, own: Array) -> _Actor:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.policies.stateful import StatefulPolicy

    if type(policy).predict is BasePolicy.predict:
        return _Actor(policy, deterministic, lanes)
    if isinstance(policy, StatefulPolicy):
        return _StatefulActor(policy, deterministic, lanes, own)
    return _RecurrentActor(policy, deterministic, lanes, own)


def samples_from_torch(policy: BasePolicy) -> bool:
    """Whether all random numbers of a policy's actions are those of torch's generator on the CPU.

    Such a policy acts in several evaluations by turns as in one after another, if the state of
    that generator is exchanged.
    """
    from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy
    from stable_baselines3.sac.policies import SACPolicy

    from imitbench.policies.action_heads import HeadPolicy

    cls = type(policy)
    if cls.predict is not BasePolicy.predict or policy.device.type != "cpu":
        return False
    if cls.__module__.partition(".")[0] not in ("imitbench", "stable_baselines3"):
        return False
    if isinstance(policy, SACPolicy):
        return not policy.actor.use_sde
    if isinstance(policy, ActorCriticPolicy):
        return not policy.use_sde
    return isinstance(policy, HeadPolicy)


@contextmanager
def _seeded(policy: BasePolicy, seed: int) -> Iterator[None]:
    """Makes sampled actions depend only on `seed`."""
    from stable_baselines3.common.policies import ActorCriticPolicy

    from imitbench.data.policy_callable import seeded_sampling

    policy.action_space.seed(seed)
    with seeded_sampling(policy, np.random.default_rng(seed)):
        # With generalized state-dependent exploration the policy holds noise that was drawn
        # earlier.
        if isinstance(policy, ActorCriticPolicy) and policy.use_sde:
            policy.reset_noise()
        yield
