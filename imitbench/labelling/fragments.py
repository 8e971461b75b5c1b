"""Cuts fragments from episodes: of policies that act now, or of stored demonstrations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from stable_baselines3.common.policies import BasePolicy

from imitbench.bench.environments import make_environment
from imitbench.bench.seeding import derive_seed
from imitbench.data.policy_callable import seeded_sampling
from imitbench.data.sources import open_trajectories
from imitbench.data.trajectories import Trajectory, TrajectoryWithRew, with_rewards
from imitbench.data.types import maybe_wrap_in_dictobs, stack_maybe_dictobs
from imitbench.errors import InputError
from imitbench.experts.loading import load_subject
from imitbench.experts.lookup import NamedPolicy, find_named_policy
from imitbench.experts.measurement import with_own_arguments
from imitbench.labelling.clips import Frame, shrink
from imitbench.policies.expert_folder import open_expert_folder
from imitbench.records.runs import EnvironmentSpec
from imitbench.untrusted import gate
from imitbench.util.hub_errors import Notify

_PER_EPISODE = 4
_MOST_VAIN_EPISODES = 20  # without a fragment of the required length
_MOST_STEPS_READ = 2_000_000


@dataclass(frozen=True)
class Fragment:
    """A part of an episode.

    Attributes:
        steps: Observations, actions and rewards; rewards are NaN where none were recorded.
        frames: The rendered frames, one per observation; `None` if it was not rendered.
    """

    steps: TrajectoryWithRew
    frames: list[Frame] | None


class Actor:
    """A policy that acts in one environment.

    Args:
        name: Name for messages.
        policy: The policy; `None` for random actions.
    """

    def __init__(self, name: str, policy: BasePolicy | None) -> None:
        self.name = name
        self._policy = policy

    def act(self, env: gym.Env[Any, Any]) -> Callable[[Any, bool], Any]:
        """Returns a function from an observation and whether it is the first to an action."""
        policy = self._policy
        if policy is None:
            return lambda _obs, _start: env.action_space.sample()
        state: Any = None

        def choose(obs: Any, start: bool) -> Any:
            nonlocal state
            action, state = policy.predict(
                obs, None if start else state, np.array([start]), deterministic=False
            )
            return action

        return choose

    def seeded(self, env: gym.Env[Any, Any], seed: int) -> Any:
        """Context in which the actions depend only on the seed."""
        env.action_space.seed(seed)
        if self._policy is not None:
            self._policy.action_space.seed(seed)
        policy = self._policy or (lambda obs, _state, _start: (obs, None))
        return seeded_sampling(policy, np.random.default_rng(seed))


def load_actors(
    names: Sequence[str], spec: EnvironmentSpec | None, *, out: Path, trust: bool, notify: Notify
) -> tuple[EnvironmentSpec, list[Actor]]:
    """Loads policies for one environment.

    Args:
        names: Policies as `find_named_policy` finds them, or `random`.
        spec: The environment; that of the first policy that states one when `None`.
        out: Results folder in which run ids are looked up.
        trust: Whether files may be unpickled and plug-ins imported.
        notify: Called with messages about downloads.

    Returns:
        The environment, with a variable horizon, and the policies.

    Raises:
        InputError: A policy does not exist, does not fit, or no environment is known.
    """
    named: list[NamedPolicy | None] = [
        None if name == "random" else find_named_policy(name, out=out, revision=None, notify=notify)
        for name in names
    ]
    stated = next((found.environment for found in named if found and found.environment), None)
    chosen = spec or stated
    if chosen is None:
        raise InputError("the environment is not known; name it by --env")
    actors = []
    for found in named:
        if found is None:
            actors.append(Actor("random actions", None))
            continue
        own = with_own_arguments(chosen, open_expert_folder(found.path))
        plugin = found.chosen_plugin(None, trust=trust)
        actors.append(Actor(found.name, load_subject(found, own, trust=trust, plugin=plugin)))
    return chosen.model_copy(update={"horizon": "variable"}), actors


def act_out(
    spec: EnvironmentSpec,
    actors: Sequence[Actor],
    *,
    count: int,
    length: int,
    seed: int,
    render: bool,
) -> Iterator[Fragment]:
    """Lets policies act in turn, one episode each, and cuts fragments from the episodes.

    Frames of many fragments do not fit into memory: use each fragment before the next one.

    Args:
        spec: The environment, with a `render_mode` if frames are wanted.
        actors: The policies.
        count: Number of fragments.
        length: Steps of each fragment.
        seed: Determines episodes and fragments.
        render: Whether to render.

    Yields:
        The fragments.

    Raises:
        InputError: Episodes are shorter than the fragments.
    """
    env = make_environment(spec)
    found = longest = vain = 0
    try:
        for episode in range(count + _MOST_VAIN_EPISODES):
            rng = np.random.default_rng([derive_seed(seed, "labelling"), episode])
            actor = actors[episode % len(actors)]
            with actor.seeded(env, int(rng.integers(2**31))):
                parts, steps = _episode(env, actor, rng, length, render)
            longest = max(longest, steps)
            vain = 0 if parts else vain + 1
            # Ends of long episodes differ most from their beginnings: keep parts from all over.
            keep = min(len(parts), _PER_EPISODE, count - found)
            drawn = sorted(rng.choice(len(parts), size=keep, replace=False)) if keep else ()
            yield from (parts[index] for index in drawn)
            found += keep
            if found == count:
                return
            if vain >= _MOST_VAIN_EPISODES:
                break
    finally:
        env.close()
    raise InputError(
        f"--length {length}: episodes of {spec.id} have up to {longest} steps here; name a "
        "smaller length"
    )


def _episode(
    env: gym.Env[Any, Any], actor: Actor, rng: np.random.Generator, length: int, render: bool
) -> tuple[list[Fragment], int]:
    """Returns consecutive fragments of one episode, and the length of the episode.

    Fragments begin at a random step, so that their positions in episodes differ.
    """
    obs, _ = env.reset(seed=int(rng.integers(2**31)))
    choose = actor.act(env)
    begin = int(rng.integers(length)) if rng.integers(2) else 0
    parts: list[Fragment] = []
    cut = _Cut(obs, env, render and begin == 0)
    step, ended, stop = 0, False, False
    while not (ended or stop) and len(parts) < _PER_EPISODE:
        action = choose(obs, step == 0)
        obs, reward, ended, stop, _ = env.step(action)
        step += 1
        cut.add(action, obs, float(reward))
        if step == begin:
            cut = _Cut(obs, env, render)
        elif step > begin and len(cut) == length:
            parts.append(cut.finish(bool(ended)))
            cut = _Cut(obs, env, render)
    return parts, step


class _Cut:
    """A fragment that grows step by step."""

    def __init__(self, obs: Any, env: gym.Env[Any, Any], render: bool) -> None:
        self._env, self._render = env, render
        self._obs, self._acts, self._rews = [obs], [], []  # type: ignore[var-annotated]
        self._frames: list[Frame] = []
        self._shoot()

    def __len__(self) -> int:
        return len(self._acts)

    def add(self, action: Any, obs: Any, reward: float) -> None:
        self._acts.append(action)
        self._obs.append(obs)
        self._rews.append(reward)
        self._shoot()

    def finish(self, terminal: bool) -> Fragment:
        obs = stack_maybe_dictobs([maybe_wrap_in_dictobs(observation) for observation in self._obs])
        steps = TrajectoryWithRew(
            obs, np.stack(self._acts), None, terminal, np.array(self._rews, dtype=float)
        )
        return Fragment(steps, self._frames if self._render else None)

    def _shoot(self) -> None:
        if self._render:
            self._frames.append(shrink(np.asarray(self._env.render())))


def of_demonstrations(path: Path, *, count: int, length: int, seed: int) -> list[Fragment]:
    """Cuts fragments from stored episodes, spread over all of them.

    Args:
        path: A set of trajectories in any format that `imitbench demos` reads.
        count: Number of fragments.
        length: Steps of each fragment.
        seed: Determines which fragments are taken.

    Raises:
        InputError: The set is damaged, or has too few steps.
    """
    rng = np.random.default_rng([derive_seed(seed, "labelling"), 0])
    episodes = list(_bounded(path))
    windows = [
        (number, start)
        for number, episode in enumerate(episodes)
        for start in range(0, len(episode) - length + 1, length)
    ]
    if len(windows) < count:
        longest = max((len(episode) for episode in episodes), default=0)
        raise InputError(
            f"{path}: has {len(windows)} fragments of {length} steps (the longest episode has "
            f"{longest}), and {count} are needed; name fewer --pairs or a smaller --length"
        )
    drawn = sorted(rng.choice(len(windows), size=count, replace=False))
    return [Fragment(_cut(episodes[windows[i][0]], windows[i][1], length), None) for i in drawn]


def _bounded(path: Path) -> Iterator[Trajectory]:
    gate.try_reading(lambda: sum(1 for _ in _unchecked(path)), path)
    return _unchecked(path)


def _unchecked(path: Path) -> Iterator[Trajectory]:
    steps = 0
    for chunk in open_trajectories(path).chunks(with_infos=False):
        for row in chunk.rows:
            steps += len(row.acts)
            yield row.trajectory(infos=None, where=str(path), number=0)
        if steps > _MOST_STEPS_READ:
            return


def _cut(episode: Trajectory, start: int, length: int) -> TrajectoryWithRew:
    end = start + length
    return TrajectoryWithRew(
        episode.obs[start : end + 1],
        episode.acts[start:end],
        None,
        bool(episode.terminal) and end == len(episode),
        with_rewards(episode).rews[start:end].astype(float),
    )
