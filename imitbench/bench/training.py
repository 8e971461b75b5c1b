"""One training from its seed to saved results: seed, task, setup, train, evaluate, save.

Runs of the harness and single trainings call `run_trainings`, with several seeds if these are
trained together; the conformance checks use only its first part, `seed_generators` and `set_up`.
Numbers depend on the order of the steps here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from imitbench.bench.checkpoint import (
    CheckpointManager,
    CurveFlusher,
    RunProgress,
    generator_states,
    restore_generators,
)
from imitbench.bench.hidden_parts import (
    hidden_environment_rewards,
    hide_demo_rewards,
)
from imitbench.bench.learner import Learner, PackedLearner, Task, never_stop
from imitbench.bench.monitor import Monitor
from imitbench.bench.protocol import Evaluation, Evaluator
from imitbench.bench.seeding import derive_seed, seed_everything
from imitbench.bench.stopping import RunStoppedError, TimedOut
from imitbench.bench.training_setup import Trained, Training, TrainingConfig, TrainingInputs
from imitbench.records.episodes import Episodes, EpisodeTable
from imitbench.records.runs import (
    Budget,
)
from imitbench.store.run_dir import RunDirectory
from imitbench.util.torch_startup import repeat_exactly

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.rewards.base import RewardNet


def seed_generators(config: TrainingConfig) -> None:
    """Seeds the global random generators, before any part of a training is loaded."""
    repeat_exactly(config.training_device)
    seed_everything(config.derive_training_seed("training"))


def set_up(
    config: TrainingConfig,
    inputs: TrainingInputs,
    obs: gym.Space[Any],
    acts: gym.Space[Any],
    check_stop: Callable[[], object] = never_stop,
) -> Learner:
    """Creates a learner and sets it up.

    Args:
        config: Configuration of the training.
        inputs: The method and its data.
        obs: Observation space of the environment.
        acts: Action space of the environment.
        check_stop: See `Task`.

    Raises:
        InputError: Something cannot be loaded or does not fit the environment.
    """
    task, rng = _task(config, inputs, obs, acts)
    task = replace(task, check_stop=check_stop)
    demos = hide_demo_rewards(inputs.demos, config.rewards)
    inputs.learner.setup(task, demos, rng, config.training_device)
    return inputs.learner


def set_up_pack(
    configs: Sequence[TrainingConfig],
    inputs: Sequence[TrainingInputs],
    obs: gym.Space[Any],
    acts: gym.Space[Any],
) -> Learner:
    """Sets up the first learner for all seeds.

    Args:
        configs: Configuration of each seed.
        inputs: The method and its data for each seed; only the first learner is set up.
        obs: Observation space of the environment.
        acts: Action space of the environment.

    Raises:
        InputError: Something cannot be loaded or does not fit the environment.
    """
    learner = inputs[0].learner
    assert isinstance(learner, PackedLearner), "its card says that it packs"
    made = [_task(*pair, obs, acts) for pair in zip(configs, inputs, strict=True)]
    learner.setup_pack(
        [task for task, _ in made],
        [hide_demo_rewards(own.demos, configs[0].rewards) for own in inputs],
        [rng for _, rng in made],
        configs[0].training_device,
    )
    return learner


def _task(
    config: TrainingConfig, inputs: TrainingInputs, obs: gym.Space[Any], acts: gym.Space[Any]
) -> tuple[Task, np.random.Generator]:
    """Returns the task of a seed and its source of randomness."""
    task = Task(
        config.environment,
        obs,
        acts,
        hyperparameters=inputs.hyperparameters,
        seed=config.derive_training_seed("training"),
        expert=inputs.expert(obs, acts),
        supplement=inputs.supplement,
        reward=inputs.reward(obs, acts),
        folder=inputs.folder,
    )
    if inputs.demos_name is not None:
        from imitbench.data.demonstration_checks import validate_demonstrations

        shown = None if inputs.actions_hidden else acts
        validate_demonstrations(inputs.demos, obs, shown, where=inputs.demos_name)
        if inputs.supplement is not None:
            others = inputs.supplement.trajectories
            validate_demonstrations(others, obs, shown, where="mixture")
    return task, np.random.default_rng(config.derive_training_seed("learner"))


def _check_storable(learner: Learner) -> None:
    """Checks before training that the policy and the reward of a learner can be stored.

    What a learner does not have before training is not checked. Global generators of random numbers
    are left as they were.
    """
    from imitbench.policies import storage as policies
    from imitbench.rewards import storage as rewards

    before = generator_states()
    try:
        policy, reward = _if_there(learner.policy), _if_there(learner.reward)
        if policy is not None:
            policies.check_storable(policy)
        if reward is not None:
            rewards.check_storable(reward)
    finally:
        restore_generators(before)


def _if_there(give: Callable[[], Any]) -> Any:
    try:
        return give()
    except Exception:  # there may be none before training
        return None


def run_trainings(
    members: Sequence[Training],
    checkpoints: CheckpointManager,
    monitor: Monitor,
    *,
    keep_trained: bool = False,
) -> list[Trained]:
    """Seeds, loads, sets up, trains, evaluates and saves.

    Args:
        members: A training, or the seeds of a pack; their configurations differ only in the seed.
        checkpoints: Its checkpoints, from which it resumes.
        monitor: Notified of progress; may end the training. Points are those of the first seed.
        keep_trained: Whether a checkpoint is saved after training, in case the evaluation is
            interrupted.

    Returns:
        Results of the members that have a directory, in order.

    Raises:
        InputError: Something cannot be loaded or does not fit the environment.
    """
    first = members[0].config
    seed_generators(first)
    monitor.enter("load")
    inputs = [member.load() for member in members]
    with Evaluator(
        first.evaluated, first.protocol.environments, monitor.check, progress=monitor.evaluated
    ) as evaluator:
        monitor.enter("setup")
        spaces = evaluator.observation_space, evaluator.action_space
        with hidden_environment_rewards(first.environment.gym_id, first.rewards):
            if len(members) == 1:
                learner = set_up(first, inputs[0], *spaces, monitor.check)
            else:
                learner = set_up_pack([member.config for member in members], inputs, *spaces)
            if inputs[0].folder is not None:
                _check_storable(learner)
            monitor.enter("train")
            directories = [member.directory for member in members]
            env_steps, progress = train_learner(
                first.budget, learner, checkpoints, monitor, directories
            )
        if keep_trained:
            checkpoints.save(learner, progress)
        monitor.enter("evaluate")
        made = [
            (member.directory, member.config, own, policy, curve)
            for member, own, policy, curve in zip(
                members,
                _of_seeds(learner),
                _policies(learner),
                _curves(learner, progress),
                strict=True,
            )
            if member.directory is not None
        ]
        trained = generator_states()
        with _saved_if_stopped(monitor, checkpoints, learner, progress):
            episodes = _evaluate(evaluator, [(policy, config) for _, config, _, policy, _ in made])
        measures = []
        for _, config, own, _, _ in made:
            if len(members) > 1:  # each seed's must not depend on which others have a directory
                restore_generators(trained)
            measures.append(_measures(own, config, partial(inputs[0].judge, *spaces)))
        transfers = _transferred(evaluator, learner, members)
    monitor.enter("save")
    results = []
    for (directory, _, own, policy, curve), evaluated, measured, transfer in zip(
        made, episodes, measures, transfers, strict=True
    ):
        _save(directory, policy, curve, own.reward(), evaluated)
        seconds = progress.train_s / len(members)
        measured = measured | evaluated[0].mean_measures
        results.append(Trained(*evaluated, env_steps, seconds, measured, transfer))
    return results


def _transferred(
    evaluator: Evaluator, learner: Learner, members: Sequence[Training]
) -> list[Episodes | None]:
    """Returns, for each member with a directory, episodes of a policy trained on its reward.

    `None` if there is no learned reward, or no such policy was requested.
    """
    first = members[0].config
    fresh: Sequence[BasePolicy | None] = [None] * len(members)
    if first.transfer:
        with hidden_environment_rewards(first.environment.gym_id, first.rewards):
            if len(members) == 1:
                fresh = [learner.transfer_policy()]
            elif isinstance(learner, PackedLearner):
                fresh = learner.transfer_policies()
    return [
        None if policy is None else _transfer_episodes(evaluator, policy, member.config)
        for policy, member in zip(fresh, members, strict=True)
        if member.directory is not None
    ]


def _transfer_episodes(
    evaluator: Evaluator, policy: BasePolicy, config: TrainingConfig
) -> Episodes:
    acting, episodes = _where_evaluated(policy, config), config.protocol.episodes
    return evaluator.evaluate(acting, episodes=episodes, seed=config.seed, deterministic=False)


def _measures(
    learner: Learner, config: TrainingConfig, judge: Callable[[], BasePolicy | None]
) -> dict[str, float]:
    """Returns a learner's measures, and those of its reward on single steps.

    Args:
        learner: The learner of a seed.
        config: Configuration of the seed.
        judge: Loads the expert on whose steps rewards are compared.
    """
    measures = learner.measures()
    if "reward_correlation" in measures:
        measures |= _step_measures(learner, config, judge())
    return measures


@contextmanager
def _saved_if_stopped(
    monitor: Monitor, checkpoints: CheckpointManager, learner: Learner, progress: RunProgress
) -> Iterator[None]:
    """Context of the evaluation, which saves the training if it is stopped there."""
    trained = generator_states()
    monitor.resumes_at_once = True
    try:
        yield
    except (RunStoppedError, TimedOut):
        restore_generators(trained)
        _save_checkpoint(checkpoints, learner, progress)
        raise
    finally:
        monitor.resumes_at_once = False


def _save_checkpoint(
    checkpoints: CheckpointManager, learner: Learner, progress: RunProgress
) -> None:
    try:
        checkpoints.save(learner, progress)
    except OSError as error:  # the earlier checkpoint is still there
        print(f"no checkpoint could be written: {error}", file=sys.stderr)


def _step_measures(
    learner: Learner, config: TrainingConfig, expert: BasePolicy | None
) -> dict[str, float]:
    """Returns the agreement of a learned reward with the true one on single steps, if it is known.

    Global generators of random numbers are left as they were: a transfer may follow.
    """
    from imitbench.bench.learners.reward_agreement import step_correlation

    net = learner.reward()
    if net is None or expert is None:
        return {}
    before = generator_states()
    seed = derive_seed(config.seed, "held-out steps")
    found = step_correlation(net, expert, learner.policy(), config.environment, seed)
    restore_generators(before)
    return found


def _of_seeds(learner: Learner) -> Sequence[Learner]:
    """Returns the learner of each seed."""
    return learner.of_seeds() if isinstance(learner, PackedLearner) else [learner]


def _policies(learner: Learner) -> Sequence[BasePolicy]:
    """Returns the policy of each seed."""
    return learner.policies() if isinstance(learner, PackedLearner) else [learner.policy()]


def _curves(learner: Learner, progress: RunProgress) -> list[list[Mapping[str, float]]]:
    """Returns the learning curve of each seed."""
    others = learner.curves if isinstance(learner, PackedLearner) else ()
    return [progress.curve, *others]


def _evaluate(
    evaluator: Evaluator, policies: Sequence[tuple[BasePolicy, TrainingConfig]]
) -> list[tuple[Episodes, Episodes]]:
    """Returns stochastic and deterministic episodes of each policy."""
    acting = [(_where_evaluated(policy, config), config) for policy, config in policies]
    found = evaluator.evaluate_all(
        [
            Evaluation(policy, config.protocol.episodes, config.seed, deterministic)
            for policy, config in acting
            for deterministic in (False, True)
        ]
    )
    return list(zip(found[::2], found[1::2], strict=True))


def _where_evaluated(policy: BasePolicy, config: TrainingConfig) -> BasePolicy:
    """Returns a policy on the processor that evaluates: small networks act faster on the CPU."""
    if config.device != "hybrid" or policy.device.type == "cpu":
        return policy
    return deepcopy(policy).to("cpu")


def train_learner(
    budget: Budget,
    learner: Learner,
    checkpoints: CheckpointManager,
    monitor: Monitor,
    directories: Sequence[RunDirectory | None] = (None,),
) -> tuple[int, RunProgress]:
    """Trains from the start, or from the checkpoint of an interrupted attempt.

    The curves in the directories grow meanwhile. At the start they end where the checkpoint does:
    training gives later points of an interrupted attempt again.

    Args:
        budget: Amount of training.
        learner: A learner that was set up.
        checkpoints: Where its state is saved, and from which it resumes.
        monitor: Notified of progress; may end the training.
        directories: That of each seed, for its curve; `None` for a curve in no file.

    Returns:
        Environment steps of the training, and its progress with the curve.

    Raises:
        RunStoppedError: The monitor ended the training; its state was saved.
    """
    progress = checkpoints.resume(learner) or RunProgress()
    monitor.begin(progress)
    earlier, started = progress.train_s, time.monotonic()

    def timed() -> RunProgress:
        progress.train_s = earlier + time.monotonic() - started
        return progress

    at_point = earlier

    def record(step: int, metrics: Mapping[str, float]) -> None:
        nonlocal at_point
        at_point = earlier + time.monotonic() - started
        progress.curve.append({"step": step, **metrics})
        flusher.grown()
        monitor.point(step, metrics)

    def flush() -> None:
        for directory, curve in zip(directories, _curves(learner, progress), strict=True):
            if directory is not None:
                directory.write_curve(list(curve))
        monitor.flushed(int(progress.curve[-1]["step"]) if progress.curve else 0, at_point)

    def offer() -> None:
        try:
            monitor.check()
        except (RunStoppedError, TimedOut):
            _save_checkpoint(checkpoints, learner, timed())
            raise
        if learner.waits:
            checkpoints.save(learner, timed())
        else:
            checkpoints.save_if_due(learner, timed)

    flusher = CurveFlusher(flush)
    with flusher:
        env_steps = learner.train(budget, record, offer)
    return env_steps, timed()


def _save(
    directory: RunDirectory,
    policy: BasePolicy,
    curve: list[Mapping[str, float]],
    reward: RewardNet | None,
    evaluated: Sequence[Episodes],
) -> None:
    from imitbench.policies.storage import save_policy

    save_policy(policy, directory.policy)
    if reward is not None:
        from imitbench.rewards.storage import save_reward

        save_reward(reward, directory.reward)
    directory.write_curve(curve)
    directory.write_episodes(EpisodeTable.of(evaluated))
