"""The evaluation protocol: runs a policy and returns the returns of its episodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, SupportsFloat

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment, simulator_threads, stepped_in_batches
from imitbench.bench.seeding import derive_seed
from imitbench.errors import InputError
from imitbench.records.episodes import Episodes
from imitbench.records.runs import EnvironmentSpec

if TYPE_CHECKING:
    from types import TracebackType

    from stable_baselines3.common.policies import BasePolicy


class Evaluator:
    """Environments kept open for several evaluations of the same specification.

    Args:
        spec: The environment to build.
        environments: Number of environments stepped in parallel. Episode `i` always runs in
            environment `i % environments`, so environments with short episodes do not contribute
            more of them and short episodes are not over-counted.
        check: Called at every step; may raise to end an evaluation.
        wrap: Applied to each environment, for example to record it. Without it, MuJoCo steps all
            environments at once where it can, with the same results.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        environments: int,
        check: Callable[[], None] = lambda: None,
        wrap: Callable[[gym.Env[Any, Any]], gym.Env[Any, Any]] | None = None,
    ) -> None:
        self.spec = spec
        self._check = check
        made = [make_environment(spec) for _ in range(environments)]
        self._environments = made if wrap is None else [wrap(environment) for environment in made]
        batched = wrap is None and stepped_in_batches(made[0], spec)
        self._lanes = _BatchLanes(made) if batched else _Lanes(self._environments)

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
        """Runs whole episodes, each with its own seed.

        Args:
            policy: Acts on batches of observations. A policy that overrides `predict` may have a
                memory, which is reset at the start of each episode.
            episodes: Number of episodes.
            seed: Seed of the record; training uses other random streams derived from it.
            deterministic: Whether the policy takes its most likely action.

        Returns:
            The episodes in order of their number.

        Raises:
            InputError: Episode lengths differ though the environment is declared to have a
                fixed horizon.
        """
        seeds = np.random.SeedSequence(derive_seed(seed, "evaluation")).generate_state(episodes)
        returns = np.zeros(episodes)
        lengths = np.zeros(episodes, dtype=np.int64)
        terminated = np.zeros(episodes, dtype=bool)
        lanes = min(len(self._environments), episodes)
        current = list(range(lanes))  # the episode that each lane is in
        observations = [self._lanes.reset(lane, int(seeds[lane])) for lane in range(lanes)]
        live = list(range(lanes))
        actor = _make_actor(policy, deterministic, lanes)
        with _seeded(policy, derive_seed(seed, "evaluation actions")):
            while live:
                actions = actor.act(observations, live)
                finished = False
                self._check()
                for lane, result in zip(live, self._lanes.step(live, actions), strict=True):
                    episode = current[lane]
                    observations[lane], reward, ended, cut = result
                    returns[episode] += float(reward)
                    lengths[episode] += 1
                    if ended or cut:
                        terminated[episode] = ended
                        actor.begin_episode(lane)
                        current[lane] = following = episode + lanes
                        if following < episodes:
                            observations[lane] = self._lanes.reset(lane, int(seeds[following]))
                        else:
                            finished = True
                if finished:
                    live = [lane for lane in live if current[lane] < episodes]
        self._check_horizon(lengths)
        return Episodes(returns, lengths, terminated, deterministic)

    def _check_horizon(self, lengths: npt.NDArray[np.int64]) -> None:
        if self.spec.horizon == "fixed" and lengths.min() != lengths.max():
            raise InputError(
                f"environment {self.spec.id}: episodes took {lengths.min()} to {lengths.max()} "
                "steps though the card says 'horizon: fixed'. The end of an episode reveals "
                "the reward to a method; set 'horizon: variable' on the card to accept this"
            )


class _Lanes:
    """Environments that are each in an episode of their own."""

    def __init__(self, environments: list[gym.Env[Any, Any]]) -> None:
        self._environments = environments

    def reset(self, lane: int, seed: int) -> Any:
        """Starts an episode, and returns its first observation."""
        return self._environments[lane].reset(seed=seed)[0]

    def step(
        self, live: list[int], actions: npt.NDArray[Any]
    ) -> Iterable[tuple[Any, SupportsFloat, bool, bool]]:
        """Steps some environments.

        Args:
            live: Their numbers, increasing.
            actions: An action for each.

        Returns:
            Observation, reward, and whether the episode has terminated and was truncated, for each.
        """
        for lane, action in zip(live, actions, strict=True):
            yield self._environments[lane].step(action)[:4]


class _BatchLanes(_Lanes):
    """Environments whose simulations MuJoCo steps at once."""

    def __init__(self, environments: list[gym.Env[Any, Any]]) -> None:
        from imitbench.envs.mujoco_batch import MujocoBatch, time_limit

        super().__init__(environments)
        bare = [environment.unwrapped for environment in environments]
        self._batch = MujocoBatch(bare, simulator_threads())
        self._limit = time_limit(environments[0]) or np.inf
        self._lengths = np.zeros(len(environments), dtype=np.int64)

    def reset(self, lane: int, seed: int) -> Any:
        obs = super().reset(lane, seed)
        self._batch.load(lane)
        self._lengths[lane] = 0
        return obs

    def step(
        self, live: list[int], actions: npt.NDArray[Any]
    ) -> Iterable[tuple[Any, SupportsFloat, bool, bool]]:
        ids = np.array(live)
        self._lengths[ids] += 1
        results = self._batch.step(actions, ids if len(live) < len(self._lengths) else None)
        cut = self._lengths[ids] >= self._limit
        ended = results.terminated.tolist()
        return zip(results.obs, results.rewards.tolist(), ended, cut.tolist(), strict=True)


class _Actor:
    """Acts with a policy without memory, in the lanes that are in an episode."""

    def __init__(self, policy: BasePolicy, deterministic: bool) -> None:
        from imitbench.data.policy_callable import batch_actor

        self._choose = batch_actor(policy, deterministic)

    def act(self, observations: list[Any], live: list[int]) -> Any:
        """Returns one action for each live lane, given the observations of all lanes."""
        return self._choose(_stack([observations[lane] for lane in live]))

    def begin_episode(self, lane: int) -> None:
        """Must be called when a lane starts another episode."""


class _RecurrentActor(_Actor):
    """Acts with a policy with memory, in all lanes: its memory has one entry for each lane."""

    def __init__(self, policy: BasePolicy, deterministic: bool, lanes: int) -> None:
        from imitbench.data.policy_callable import finite_choices

        self._finite_choices = finite_choices
        self._policy = policy
        self._deterministic = deterministic
        self._state: tuple[npt.NDArray[Any], ...] | None = None
        self._starts = np.ones(lanes, dtype=bool)

    def act(self, observations: list[Any], live: list[int]) -> Any:
        with self._finite_choices():
            actions, self._state = self._policy.predict(
                _stack(observations),
                state=self._state,
                episode_start=self._starts,
                deterministic=self._deterministic,
            )
        # In finished lanes each step starts an episode, which is not counted.
        self._starts = np.ones_like(self._starts)
        self._starts[live] = False
        return actions[live]

    def begin_episode(self, lane: int) -> None:
        self._starts[lane] = True


def _make_actor(policy: BasePolicy, deterministic: bool, lanes: int) -> _Actor:
    from stable_baselines3.common.policies import BasePolicy

    if type(policy).predict is BasePolicy.predict:
        return _Actor(policy, deterministic)
    return _RecurrentActor(policy, deterministic, lanes)


def _stack(observations: list[Any]) -> Any:
    if isinstance(observations[0], dict):
        return {key: np.stack([o[key] for o in observations]) for key in observations[0]}
    return np.stack(observations)


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
