"""Collects trajectories, flattens them into transitions and summarizes them."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data.episode_buffer import EpisodeBuffer
from imitbench.data.policy_callable import (
    AnyPolicy,
    PolicyCallable,
    policy_to_callable,
    seeded_sampling,
)
from imitbench.data.trajectories import infos_of
from imitbench.data.types import (
    DictObs,
    Observation,
    Trajectory,
    TrajectoryWithRew,
    Transitions,
    TransitionsWithRew,
    assert_not_dictobs,
    concatenate_maybe_dictobs,
    maybe_wrap_in_dictobs,
    stack_maybe_dictobs,
)

__all__ = [
    "AnyPolicy",
    "GenTrajTerminationFn",
    "PolicyCallable",
    "TrajectoryAccumulator",
    "discounted_sum",
    "flatten_trajectories",
    "flatten_trajectories_with_rew",
    "generate_trajectories",
    "generate_transitions",
    "make_min_episodes",
    "make_min_timesteps",
    "make_sample_until",
    "policy_to_callable",
    "rollout",
    "rollout_stats",
    "unwrap_traj",
]

Array = npt.NDArray[Any]
GenTrajTerminationFn = Callable[[Sequence[TrajectoryWithRew]], bool]
"""Whether the trajectories finished so far are enough."""

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _AtLeast:
    """Minimum numbers of steps and episodes; 0 for no minimum.

    For this class, `generate_trajectories` keeps running totals, because sums over all
    trajectories after each episode take quadratic time.
    """

    timesteps: int = 0
    episodes: int = 0

    def __call__(self, trajectories: Sequence[TrajectoryWithRew]) -> bool:
        return self.met(sum(map(len, trajectories)), len(trajectories))

    def met(self, timesteps: int, episodes: int) -> bool:
        return timesteps >= self.timesteps and episodes >= self.episodes


def make_min_episodes(n: int) -> GenTrajTerminationFn:
    """Collects at least `n` episodes; more if several end in the same step.

    Raises:
        ValueError: `n` is not positive.
    """
    return make_sample_until(min_episodes=n)


def make_min_timesteps(n: int) -> GenTrajTerminationFn:
    """Collects whole episodes of at least `n` steps in total.

    Raises:
        ValueError: `n` is not positive.
    """
    return make_sample_until(min_timesteps=n)


def make_sample_until(
    min_timesteps: int | None = None, min_episodes: int | None = None
) -> GenTrajTerminationFn:
    """Collects until both minima are reached.

    Args:
        min_timesteps: Minimum number of steps in finished episodes.
        min_episodes: Minimum number of finished episodes.

    Raises:
        ValueError: Neither is given, or one is not positive.
    """
    if min_timesteps is None and min_episodes is None:
        raise ValueError("give min_timesteps, min_episodes, or both")
    for name, value in (("min_timesteps", min_timesteps), ("min_episodes", min_episodes)):
        if value is not None and value <= 0:
            raise ValueError(f"{name} is {value}; it needs to be positive")
    return _AtLeast(min_timesteps or 0, min_episodes or 0)


def generate_trajectories(
    policy: AnyPolicy,
    venv: VecEnv,
    sample_until: GenTrajTerminationFn,
    rng: np.random.Generator,
    *,
    deterministic_policy: bool = False,
) -> Sequence[TrajectoryWithRew]:
    """Collects whole episodes.

    When there are enough, every environment finishes its current episode, which is included:
    without it, short episodes would be over-represented, as they are more likely to have
    finished.

    Args:
        policy: See `policy_to_callable`.
        venv: Environments, which are reset first but not seeded.
        sample_until: Whether the trajectories so far are enough; called whenever an episode
            ends, and must depend only on them.
        rng: Shuffles the trajectories, because short ones finish first; also seeds random
            actions and sampling by torch.
        deterministic_policy: Whether a Stable-Baselines3 policy takes its most likely action.

    Returns:
        Trajectories that satisfy `sample_until`, all `terminal`.

    Raises:
        ValueError: The policy does not fit the environments.
    """
    act = policy_to_callable(policy, venv, deterministic_policy, rng=rng)
    trajectories: list[TrajectoryWithRew] = []
    timesteps = 0
    with seeded_sampling(policy, rng):
        obs: Any = venv.reset()
        acts, state = act(obs, None, np.ones(venv.num_envs, dtype=bool))
        buffer = EpisodeBuffer(obs, acts)
        while True:
            obs, rews, dones, infos = venv.step(acts)
            finished = buffer.add(acts, obs, rews, dones, infos)
            if finished:
                trajectories += finished
                timesteps += sum(map(len, finished))
                if isinstance(sample_until, _AtLeast):
                    enough = sample_until.met(timesteps, len(trajectories))
                else:
                    enough = sample_until(trajectories)
                if enough:
                    buffer.stop(dones)
                    if not buffer.any_active:
                        break
            acts, state = act(obs, state, dones)
    order = rng.permutation(len(trajectories))
    return [trajectories[i] for i in order]


def generate_transitions(
    policy: AnyPolicy,
    venv: VecEnv,
    n_timesteps: int,
    rng: np.random.Generator,
    *,
    truncate: bool = True,
    **kwargs: Any,
) -> TransitionsWithRew:
    """Collects transitions.

    Args:
        policy: See `policy_to_callable`.
        venv: Environments, which are reset first.
        n_timesteps: Minimum number of transitions.
        rng: See `generate_trajectories`.
        truncate: Whether to drop transitions beyond `n_timesteps`, instead of keeping whole
            episodes.
        **kwargs: Passed to `generate_trajectories`.

    Raises:
        ValueError: `n_timesteps` is not positive, or the policy does not fit.
    """
    trajectories = generate_trajectories(
        policy, venv, make_min_timesteps(n_timesteps), rng, **kwargs
    )
    transitions = flatten_trajectories_with_rew(trajectories)
    return transitions[:n_timesteps] if truncate else transitions


def rollout(
    policy: AnyPolicy,
    venv: VecEnv,
    sample_until: GenTrajTerminationFn,
    rng: np.random.Generator,
    *,
    unwrap: bool = True,
    exclude_infos: bool = True,
    verbose: bool = True,
    **kwargs: Any,
) -> Sequence[TrajectoryWithRew]:
    """Collects whole episodes, unwraps them and logs statistics.

    Args:
        policy: See `policy_to_callable`.
        venv: Environments, which are reset first.
        sample_until: See `generate_trajectories`.
        rng: See `generate_trajectories`.
        unwrap: Whether to restore the observations and rewards that `RolloutInfoWrapper`
            recorded, with `unwrap_traj`.
        exclude_infos: Whether to replace the infos with None, which saves much memory.
        verbose: Whether to log `rollout_stats` at level INFO.
        **kwargs: Passed to `generate_trajectories`.

    Returns:
        See `generate_trajectories`.

    Raises:
        ValueError: `unwrap` without a `RolloutInfoWrapper`, or a policy that does not fit.
    """
    trajectories = generate_trajectories(policy, venv, sample_until, rng, **kwargs)
    if unwrap:
        trajectories = [unwrap_traj(trajectory) for trajectory in trajectories]
    if verbose:
        _LOGGER.info("Rollout stats: %s", rollout_stats(trajectories))
    if exclude_infos:
        trajectories = [dataclasses.replace(t, infos=None) for t in trajectories]
    return trajectories


def unwrap_traj(traj: TrajectoryWithRew) -> TrajectoryWithRew:
    """Restores observations and rewards before outer wrappers changed them.

    Args:
        traj: A whole episode of an environment with a `RolloutInfoWrapper`, with infos.

    Returns:
        A copy with `obs` and `rews` replaced.

    Raises:
        ValueError: There are no infos, or none from `RolloutInfoWrapper`.
    """
    if traj.infos is None:
        raise ValueError("the trajectory has no infos to take observations and rewards from")
    original = traj.infos[-1].get("rollout")
    if original is None:
        raise ValueError(
            "the last info has no entry 'rollout': wrap the environment in RolloutInfoWrapper, "
            "or pass unwrap=False"
        )
    # Infos read from a file are plain JSON, with lists in place of arrays.
    obs = original["obs"]
    if isinstance(obs, dict):
        obs = {key: np.asarray(values) for key, values in obs.items()}
    elif isinstance(obs, list):
        obs = np.asarray(obs)
    rews = np.asarray(original["rews"], dtype=np.float64)
    return dataclasses.replace(traj, obs=maybe_wrap_in_dictobs(obs), rews=rews)


def rollout_stats(trajectories: Sequence[TrajectoryWithRew]) -> Mapping[str, float]:
    """Summarizes returns and lengths.

    Args:
        trajectories: At least one.

    Returns:
        `n_traj`; `return_{min,mean,std,max}` of the undiscounted returns;
        `len_{min,mean,std,max}` in steps; and, if a `Monitor` wrapped the environments and the
        infos were kept, `monitor_return_len`, the number of returns that it reported, with
        `monitor_return_{min,mean,std,max}`. Standard deviations are those of the population.

    Raises:
        ValueError: There are no trajectories.
    """
    if not trajectories:
        raise ValueError("there are no trajectories to summarize")
    returns = [float(np.sum(t.rews, dtype=np.float64)) for t in trajectories]
    stats: dict[str, float] = {"n_traj": len(trajectories)}
    stats |= _spread("return", returns)
    stats |= _spread("len", [len(t) for t in trajectories])
    reported = [
        float(t.infos[-1]["episode"]["r"])
        for t in trajectories
        if t.infos is not None and "episode" in t.infos[-1]
    ]
    if reported:
        stats["monitor_return_len"] = len(reported)
        stats |= _spread("monitor_return", reported)
    return stats


def _spread(name: str, values: Sequence[float]) -> dict[str, float]:
    return {
        f"{name}_min": min(values),
        f"{name}_mean": float(np.mean(values)),
        f"{name}_std": float(np.std(values)),
        f"{name}_max": max(values),
    }


def flatten_trajectories(trajectories: Iterable[Trajectory]) -> Transitions:
    """Joins trajectories into one batch of transitions, in order.

    Args:
        trajectories: At least one. Missing infos become empty dictionaries.

    Returns:
        The transitions. `dones` is True where a `terminal` trajectory ends.

    Raises:
        ValueError: There are no trajectories, or their kinds of observation differ.
    """
    return Transitions(**_flat_fields(list(trajectories)))


def flatten_trajectories_with_rew(
    trajectories: Sequence[TrajectoryWithRew],
) -> TransitionsWithRew:
    """Joins trajectories into one batch of transitions with rewards, in order.

    Args:
        trajectories: At least one. Missing infos become empty dictionaries.

    Raises:
        ValueError: There are no trajectories, or their kinds of observation differ.
    """
    fields = _flat_fields(trajectories)
    return TransitionsWithRew(**fields, rews=np.concatenate([t.rews for t in trajectories]))


def _flat_fields(trajectories: Sequence[Trajectory]) -> dict[str, Any]:
    if not trajectories:
        raise ValueError("there are no trajectories to flatten")
    ends = np.cumsum([len(t) for t in trajectories])
    dones = np.zeros(ends[-1], dtype=bool)
    dones[ends - 1] = [t.terminal for t in trajectories]
    before: list[Observation] = [t.obs[:-1] for t in trajectories]
    after: list[Observation] = [t.obs[1:] for t in trajectories]
    return {
        "obs": concatenate_maybe_dictobs(before),
        "acts": np.concatenate([t.acts for t in trajectories]),
        "infos": np.concatenate([np.asarray(infos_of(t), dtype=object) for t in trajectories]),
        "next_obs": concatenate_maybe_dictobs(after),
        "dones": dones,
    }


def discounted_sum(arr: Array, gamma: float) -> Array | float:
    """Sums over time with weights 1, gamma, gamma², …; for rewards, this is the return.

    Args:
        arr: Values over time in the last axis, shape `(T,)` or `(batch, T)`.
        gamma: Discount factor, in [0, 1].

    Returns:
        A number, or shape `(batch,)`.

    Raises:
        ValueError: `arr` has another number of dimensions.
    """
    if arr.ndim not in (1, 2):
        raise ValueError(f"arr has {arr.ndim} dimensions; expected 1 or 2")
    total = arr @ np.power(float(gamma), np.arange(arr.shape[-1]))
    return float(total) if arr.ndim == 1 else np.asarray(total)


class TrajectoryAccumulator:
    """Accumulates unfinished trajectories by key until they are finished.

    For complete vectorized rollouts, `imitbench.data.episode_buffer.EpisodeBuffer` is faster: it
    writes to an array per step instead of a dictionary per environment and step.

    Attributes:
        partial_trajectories: The recorded values of each unfinished trajectory, by key and then
            by field.
    """

    def __init__(self) -> None:
        self.partial_trajectories: dict[Hashable, dict[str, list[Any]]] = {}

    def add_step(self, step_dict: Mapping[str, Any], key: Hashable = None) -> None:
        """Appends one step.

        Args:
            step_dict: Values of any of the fields of `TrajectoryWithRew`. The first step of a
                trajectory has only an observation.
            key: Identifies the trajectory; may be omitted for a single one.
        """
        fields = self.partial_trajectories.setdefault(key, {})
        for name, value in step_dict.items():
            fields.setdefault(name, []).append(value)

    def finish_trajectory(self, key: Hashable, terminal: bool) -> TrajectoryWithRew:
        """Removes a trajectory and returns it.

        Args:
            key: See `add_step`.
            terminal: Whether it includes the end of its episode.

        Raises:
            KeyError: No step was recorded under `key`.
            ValueError: A field is missing, or lengths do not match.
        """
        fields = self.partial_trajectories.pop(key)
        missing = {"obs", "acts", "rews"} - fields.keys()
        if missing:
            raise ValueError(f"trajectory {key!r} has no {', '.join(sorted(missing))}")
        return TrajectoryWithRew(
            obs=stack_maybe_dictobs(fields["obs"]),
            acts=np.stack(fields["acts"]),
            infos=np.fromiter(fields["infos"], dtype=object) if "infos" in fields else None,
            terminal=terminal,
            rews=np.stack(fields["rews"]),
        )

    def add_steps_and_auto_finish(
        self,
        acts: Array,
        obs: Observation | dict[str, Array],
        rews: Array,
        dones: Array,
        infos: Sequence[dict[str, Any]],
    ) -> list[TrajectoryWithRew]:
        """Records one step of every environment of a `VecEnv`; keys are their indices.

        Before the first call, record the first observation of each environment: call
        `add_step({"obs": obs[i]}, key=i)` after `venv.reset()`. When an episode ends, the
        observation that `step` returned starts the next one.

        Args:
            acts: Actions passed to `VecEnv.step`, shape `(n_envs, *action_shape)`.
            obs: Observations returned by it, shape `(n_envs, *observation_shape)`.
            rews: Rewards returned by it, shape `(n_envs,)`.
            dones: Whether episodes ended, shape `(n_envs,)`, bool.
            infos: Info dictionaries; those of ended episodes have `terminal_observation`.

        Returns:
            The finished trajectories, one for each True in `dones`.

        Raises:
            KeyError: An environment's first observation is missing.
        """
        batch = maybe_wrap_in_dictobs(obs)
        for i in range(len(acts)):
            if i not in self.partial_trajectories:
                raise KeyError(f"environment {i}: add its first observation with add_step")
        finished = []
        for i, (done, info) in enumerate(zip(dones, infos, strict=True)):
            last = _like(info["terminal_observation"], batch) if done else batch[i]
            self.add_step({"acts": acts[i], "rews": rews[i], "obs": last, "infos": info}, key=i)
            if done:
                finished.append(self.finish_trajectory(i, terminal=True))
                self.add_step({"obs": batch[i]}, key=i)
        return finished


def _like(terminal: Observation | Mapping[str, Array], batch: Observation) -> Observation:
    """Converts a raw terminal observation to the data types of the vector environment."""
    raw = maybe_wrap_in_dictobs(terminal)
    if isinstance(raw, DictObs) and isinstance(batch, DictObs):
        return DictObs({key: np.asarray(v, batch.get(key).dtype) for key, v in raw.items()})
    return np.asarray(raw, dtype=assert_not_dictobs(batch).dtype)
