"""Computes what `imitbench rewards show` draws of a learned reward.

`find_subject` finds a stored reward with its environment, policy and expert; `make_picture` runs
episodes and computes the numbers. A reward that is a Python function needs no files:

    subject = RewardSubject("mine", my_reward, find_environment("Pendulum-v1"))
    picture = make_picture(subject)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.preprocessing import is_image_space

from imitbench.bench.environments import make_environment, make_training_environments
from imitbench.bench.single_run import RECORD_FILE
from imitbench.data import rollout
from imitbench.data.demonstrations import read_trajectories
from imitbench.data.observations import assert_not_dictobs
from imitbench.data.policy_callable import batch_actor
from imitbench.envs.chosen_states import (
    Plane,
    StateSpace,
    find_state_space,
    plane_of_dims,
    step_from,
)
from imitbench.errors import InputError
from imitbench.experts.loading import (
    environment_of,
    load_run_reward,
    load_subject,
    load_suite_expert,
)
from imitbench.experts.lookup import (
    ListedEnvironment,
    NamedPolicy,
    find_environment,
    find_named_policy,
    find_same_environment,
)
from imitbench.policies.space_check import check_reward_fits
from imitbench.policies.stateful import StatefulPolicy
from imitbench.policies.time_feature import TimeFeaturePolicy
from imitbench.records.runs import EnvironmentSpec
from imitbench.rewards.base import RewardNet
from imitbench.rewards.distances import Steps
from imitbench.rewards.pictures import (
    RewardMap,
    RewardPicture,
    Scale,
    Sensitivity,
    agreement,
    behavior,
    dimension_names,
    finite_rewards,
    permutation_sensitivity,
)
from imitbench.rewards.reward_function import RewardFn
from imitbench.store.overview import find_run
from imitbench.store.run_dir import RunDirectory
from imitbench.untrusted import gate
from imitbench.util.hub_client import silent
from imitbench.util.text_line import one_line

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

GRID = 61
"""Points of a map along each axis."""
MOST_STEPS = 10_000
"""Most visited steps that sensitivities and scatters use, drawn at random."""
_WIDEST = 1e6  # bounds beyond this, such as those of float32, do not limit an axis


@dataclass(frozen=True)
class RewardSubject:
    """A learned reward, and what it is compared on.

    Attributes:
        name: Display name.
        reward: The reward, a function of batches of transitions.
        environment: Environment whose reward is the true one.
        policy: Policy that was trained together with the reward; `None` if there is none.
        expert: The suite's expert; `None` if there is none.
        demonstrations: Observations of the expert's demonstrations, shape (n, d); `None` if there
            are none.
        seed: Seed of the run; 0 for other rewards.
    """

    name: str
    reward: RewardFn
    environment: EnvironmentSpec
    policy: BasePolicy | None = None
    expert: BasePolicy | None = None
    demonstrations: Array | None = None
    seed: int = 0


def find_subject(
    run: str,
    *,
    out: Path,
    env: str | None = None,
    suite: str | None = None,
    plugin: str | None = None,
    trust: bool = False,
) -> RewardSubject:
    """Finds a stored reward with its environment, its policy and the suite's expert.

    Args:
        run: Id of a run or its start; the folder of a run or of `imitbench train`; or that of a
            reward.
        out: Results folder in which ids are looked up.
        env: Id of the environment; `None` for that of the run.
        suite: Suite of `env`, or its folder; `None` for the first suite that has it.
        plugin: The plug-in whose source defines a class of the reward or of the policy.
        trust: Whether that source may have changed since, and the plug-in that the results folder
            names may be imported.

    Raises:
        InputError: There is no such run; it has no stored reward; a file cannot be read; the
            environment is unknown, or has other spaces than the reward or than flat observations.
    """
    path = _record_folder(Path(run) if Path(run).exists() else find_run(out, run).path)
    stored = RunDirectory(path)
    if trust and plugin is None and (path / "spec.json").is_file():
        plugin = find_named_policy(str(path), out=out, revision=None, notify=silent).plugin
    net = load_run_reward(path, out=out, plugin=plugin, trust=trust, option="--algo")
    named = find_named_policy(str(path), out=out, revision=None, notify=silent)
    has_policy = stored.policy.is_dir()
    spec = environment_of(named, env, suite) if has_policy else _stated(named, env, suite)
    spec = spec.model_copy(update={"horizon": "variable"})  # nothing is trained here
    _check_spaces(net, spec, str(path))
    listed = find_same_environment(spec, suite)
    return RewardSubject(
        name=named.name,
        reward=net.predict,
        environment=spec,
        policy=load_subject(named, spec, trust=trust, plugin=plugin) if has_policy else None,
        expert=load_suite_expert(listed, spec),
        demonstrations=_demonstrated(listed),
        seed=named.seed,
    )


def make_picture(
    subject: RewardSubject,
    *,
    dims: tuple[int, int] | None = None,
    episodes: int = 5,
    seed: int | None = None,
) -> RewardPicture:
    """Runs episodes, and computes the numbers of a picture.

    Args:
        subject: The reward.
        dims: Two dimensions of the observation for the map, from 0; `None` for the usual
            coordinates of the task, or for the two dimensions to which the reward is most
            sensitive.
        episodes: Episodes of the expert, of the policy and of random actions, each. Policies sample
            their actions.
        seed: Seed of episodes and permutations; `None` for that of the subject.

    Returns:
        The numbers; equal arguments give equal numbers.

    Raises:
        InputError: Observations are not flat, `dims` do not fit them, or the reward is not finite.
    """
    seed = subject.seed if seed is None else seed
    env = make_environment(subject.environment)
    size = _flat_size(env.observation_space, subject.environment.id)
    _check_dims(dims, size)
    task = find_state_space(env)
    rng = np.random.default_rng(seed)
    try:
        played = _play(subject, episodes, seed, rng)
        behaviors = tuple(behavior(subject.reward, name, parts) for name, parts in played.items())
        visited, true = _visited(played, rng)
        names = task.names if task is not None else dimension_names("obs", size)
        sensitivities = permutation_sensitivity(
            subject.reward, visited, rng, observation_names=names
        )
        plane = _plane(dims, task, names, sensitivities, env.observation_space, visited)
        stepped = None if task is None or not (dims is None or task.free) else task
        if subject.environment.active_wrappers:  # the reward would depend on chance or on the past
            stepped = None
        drawn = _map(subject, env, plane, stepped, visited, true)
    except ValueError as error:
        raise InputError(f"{subject.name}: {error}; the reward cannot be shown") from error
    finally:
        env.close()
    learned = [rewards for comparison in behaviors for rewards in comparison.learned]
    return RewardPicture(
        reward=subject.name,
        environment=subject.environment.id,
        map=drawn,
        behaviors=behaviors,
        learned_scale=Scale.of(np.concatenate(learned)),
        true_scale=Scale.of(
            np.concatenate([r for comparison in behaviors for r in comparison.true])
        ),
        sensitivities=sensitivities,
        steps=len(visited),
        seed=seed,
    )


def _record_folder(path: Path) -> Path:
    """Returns the folder of a run or training whose reward folder is given; else the path."""
    above = path.resolve().parent
    records = ("spec.json", RECORD_FILE)
    if path.resolve().name == "reward" and any((above / name).is_file() for name in records):
        return path.parent if path.name == "reward" else above
    return path


def _stated(named: NamedPolicy, env: str | None, suite: str | None) -> EnvironmentSpec:
    """Returns the environment of a reward without a policy."""
    if env is not None:
        return find_environment(env, suite).evaluated
    if named.environment is None:
        raise InputError(f"{named.name}: {named.lacks}; name it by --env")
    return named.environment


def _check_spaces(net: RewardNet, spec: EnvironmentSpec, where: str) -> None:
    env = make_environment(spec)
    env.close()
    _flat_size(env.observation_space, spec.id)
    try:
        check_reward_fits(net, env.observation_space, env.action_space, where=where)
    except InputError as error:
        raise InputError(f"{error}; name the environment of its training by --env") from None


def _flat_size(space: gym.Space[Any], env_id: str) -> int:
    """Returns the number of dimensions of flat observations.

    Raises:
        InputError: Observations are images, dictionaries, or anything else that is not flat.
    """
    if not isinstance(space, spaces.Box) or len(space.shape) != 1 or is_image_space(space):
        dictionary = isinstance(space, spaces.Dict)
        image = isinstance(space, spaces.Box) and len(space.shape) == 3
        kind = "dictionaries" if dictionary else "images" if image else one_line(space, 60)
        raise InputError(
            f"environment {env_id}: observations are {kind}; rewards are drawn over flat "
            "vectors of numbers only, so name a reward of such an environment"
        )
    if space.shape[0] < 2:
        raise InputError(
            f"environment {env_id}: observations have {space.shape[0]} dimension, and a map needs "
            "two; name a reward of another environment"
        )
    return int(space.shape[0])


def _check_dims(dims: tuple[int, int] | None, size: int) -> None:
    if dims is None:
        return
    given = ",".join(map(str, dims))
    if any(not 0 <= dim < size for dim in dims):
        raise InputError(
            f"--dims {given}: observations have dimensions 0 to {size - 1}; name two of these"
        )
    if dims[0] == dims[1]:
        raise InputError(f"--dims {given}: are the same; name two different dimensions")


def _demonstrated(listed: ListedEnvironment | None) -> Array | None:
    """Returns all observations of the suite's demonstrations."""
    if listed is None or not listed.demos.is_dir():
        return None
    folder = listed.demos
    found = gate.checked(lambda: read_trajectories(folder), folder)
    return np.concatenate([assert_not_dictobs(trajectory.obs) for trajectory in found])


_Played = dict[str, list[tuple[Steps, Floats]]]


def _play(subject: RewardSubject, episodes: int, seed: int, rng: np.random.Generator) -> _Played:
    """Runs episodes of each behavior, with the same seeds of the environment.

    Episodes run one after the other: in parallel, short ones would be over-represented.
    """
    actors = {"expert": subject.expert, "policy": subject.policy}
    behaviors = {name: actor for name, actor in actors.items() if actor is not None}
    found: _Played = {}
    for name, actor in [*behaviors.items(), ("random actions", None)]:
        venv = make_training_environments(subject.environment, 1, seed)
        played = rollout.generate_trajectories(
            actor, venv, rollout.make_min_episodes(episodes), rng
        )
        venv.close()
        parts = []
        for episode in played:
            flat = rollout.flatten_trajectories_with_rew([episode])
            obs, next_obs = assert_not_dictobs(flat.obs), assert_not_dictobs(flat.next_obs)
            parts.append((Steps(obs, flat.acts, next_obs, flat.dones), flat.rews))
        found[name] = parts
    return found


def _visited(played: _Played, rng: np.random.Generator) -> tuple[Steps, Floats]:
    """Returns the steps of all episodes with their true rewards, or a random part of them."""
    parts = [part for episodes in played.values() for part in episodes]
    fields = (
        np.concatenate([getattr(steps, name) for steps, _ in parts])
        for name in ("obs", "acts", "next_obs", "dones")
    )
    steps, true = Steps(*fields), np.concatenate([rewards for _, rewards in parts])
    if len(steps) <= MOST_STEPS:
        return steps, true
    kept = np.sort(rng.choice(len(steps), MOST_STEPS, replace=False))
    chosen = Steps(steps.obs[kept], steps.acts[kept], steps.next_obs[kept], steps.dones[kept])
    return chosen, true[kept]


def _plane(
    dims: tuple[int, int] | None,
    task: StateSpace | None,
    names: Sequence[str],
    sensitivities: Sequence[Sensitivity],
    space: gym.Space[Any],
    visited: Steps,
) -> Plane:
    """Returns the coordinates of the map."""
    if dims is None and task is not None:
        return task.plane
    if dims is None:
        shares = [
            sensitivity.share or 0.0
            for sensitivity in sensitivities
            if sensitivity.kind == "observation"
        ]
        first, second = sorted(np.argsort(shares, kind="stable")[::-1][:2].tolist())
        dims = (first, second)
    low, high = _range(space, visited, dims[0]), _range(space, visited, dims[1])
    return plane_of_dims(dims, tuple(names), (low, high))


def _range(space: gym.Space[Any], visited: Steps, dim: int) -> tuple[float, float]:
    """Returns the bounds of a dimension, or those of the visited states where it has none."""
    assert isinstance(space, spaces.Box)
    low, high = float(space.low[dim]), float(space.high[dim])
    if -_WIDEST < low < high < _WIDEST:
        return low, high
    values = visited.obs[:, dim].astype(np.float64)
    low, high = float(values.min()), float(values.max())
    return (low, high) if low < high else (low - 0.5, high + 0.5)


def _map(
    subject: RewardSubject,
    env: gym.Env[Any, Any],
    plane: Plane,
    task: StateSpace | None,
    visited: Steps,
    true: Floats,
) -> RewardMap:
    """Computes the map; without `task`, states cannot be chosen, so that true rewards lack."""
    shown = subject.demonstrations
    source = "visited states" if shown is None else "the expert's demonstrations"
    base = np.median(visited.obs if shown is None else shown, axis=0)
    x, y = (np.linspace(*ends, GRID) for ends in plane.ranges)
    over_x, over_y = (values.ravel() for values in np.meshgrid(x, y))
    dtype = env.observation_space.dtype
    obs = plane.observe(np.asarray(base, np.float64), over_x, over_y).astype(dtype)
    acts, action = _actions(subject.policy, env.action_space, obs)
    next_obs, dones, rewards = obs, np.zeros(len(obs), bool), None
    then = "the next observation is the same one"
    if task is not None:
        next_obs, rewards, dones = step_from(env, task, obs, acts)
        rewards = rewards.reshape(GRID, GRID)
        then = "the next observation is the environment's"
    learned = finite_rewards(subject.reward, Steps(obs, acts, next_obs, dones)).reshape(GRID, GRID)
    moved = np.ptp(plane.observe(np.zeros(obs.shape[1]), over_x, over_y), axis=0) > 0
    others = [] if moved.all() else [f"other dimensions are at the median of {source}"]
    return RewardMap(
        labels=plane.labels,
        x=x,
        y=y,
        learned=learned,
        true=rewards,
        visited=np.stack([*plane.project(visited.obs), true]),
        agreement=None if rewards is None else agreement(learned, rewards),
        action=action,
        rest="; ".join([*others, then]),
    )


def _actions(policy: BasePolicy | None, space: gym.Space[Any], obs: Array) -> tuple[Array, str]:
    """Returns an action for each observation, shape (n, …), and how it is chosen."""
    if policy is not None and not isinstance(policy, StatefulPolicy | TimeFeaturePolicy):
        return batch_actor(policy, True)(obs), "the most likely one of the run's policy"
    action, phrase = _fixed_action(space)
    why = "no policy is stored" if policy is None else "the policy needs more than the observation"
    return np.tile(action, (len(obs),) + (1,) * np.ndim(action)), f"{phrase} ({why})"


def _fixed_action(space: gym.Space[Any]) -> tuple[Array, str]:
    if isinstance(space, spaces.Box):
        if (space.low <= 0).all() and (space.high >= 0).all():
            return np.zeros(space.shape, space.dtype), "zero"
        middle = (space.low.astype(np.float64) + space.high) / 2
        return np.asarray(middle, space.dtype), "the middle of the action space"
    if isinstance(space, spaces.Discrete):
        middle_of_all = int(space.start + (space.n - 1) // 2)
        return np.asarray(middle_of_all), f"action {middle_of_all}, the middle of the action space"
    if isinstance(space, spaces.MultiDiscrete):
        return np.asarray((space.nvec - 1) // 2), "the middle of the action space"
    return np.zeros(space.shape or (), space.dtype), "zero"
