"""Trains a method in this process, as a worker would, and records what it does."""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import gymnasium as gym
import numpy as np

from imitbench.bench import artifacts
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.bench.environments import make_environment
from imitbench.bench.hidden_parts import hide_actions, hide_demo_rewards
from imitbench.bench.implementation import learner_class
from imitbench.bench.learner import Learner, Supplement
from imitbench.bench.protocol import Evaluator
from imitbench.bench.seeding import derive_seed
from imitbench.bench.supplement import supplement_of_run
from imitbench.bench.training import seed_generators, set_up
from imitbench.bench.training_setup import Training, TrainingConfig, TrainingInputs
from imitbench.cards.algorithm import ActionSpace, AlgorithmCard, Scalar
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.practice_environments import (
    Poison,
    instrumented_spec,
    poisoned,
    poisoned_demos,
    practice_environment,
)
from imitbench.errors import InputError
from imitbench.records.episodes import EpisodeTable
from imitbench.records.runs import Budget, EnvironmentSpec, RunSpec
from imitbench.store.run_dir import RunDirectory
from imitbench.util.torch_startup import use_one_thread

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew

_EPISODES = 4
_OBSERVATIONS = 64
_ENVIRONMENTS = 4


@dataclass(frozen=True)
class TestBed:
    """Environment and data with which a method is tested.

    Attributes:
        environment: Specification of the environment.
        observation_space: Observation space of the environment.
        action_space: Action space of the environment.
        demos: Demonstrations, which may be empty.
        expert: Policy that recorded the demonstrations.
        supplement: Trajectories of mixed quality with ranks; `None` where the regime has none.
    """

    environment: EnvironmentSpec
    observation_space: gym.Space[Any]
    action_space: gym.Space[Any]
    demos: Sequence[TrajectoryWithRew]
    expert: BasePolicy | None
    supplement: Supplement | None = None

    def observations(self) -> Any:
        """Returns some observations, shape (n, …)."""
        seen = [np.asarray(demo.obs) for demo in self.demos]
        if seen:
            joined = np.concatenate(seen)
            return joined[:: max(1, len(joined) // _OBSERVATIONS)]
        # Acts at random, because samples of an unbounded space resemble no real observation.
        env = make_environment(self.environment)
        env.action_space.seed(0)
        observations = [env.reset(seed=0)[0]]
        while len(observations) < _OBSERVATIONS:
            obs, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
            observations.append(env.reset()[0] if over else obs)
        env.close()
        return np.stack(observations)

    def steps(self) -> Any:
        """Returns these as steps of several environments, shape (steps, environments, …).

        There are no more steps than the longest demonstration has: policies of tabular methods are
        defined for as many only.
        """
        observations = self.observations()
        longest = max((len(demo) for demo in self.demos), default=len(observations))
        steps = min(len(observations) // _ENVIRONMENTS, longest)
        kept = observations[: steps * _ENVIRONMENTS]
        return kept.reshape(steps, _ENVIRONMENTS, *observations.shape[1:])


def practice_test_bed(kind: ActionSpace) -> TestBed:
    """Creates an artificial environment with an expert that acts at random.

    Args:
        kind: Kind of its action space.
    """
    from imitbench.data.types import TrajectoryWithRew
    from imitbench.policies.base import RandomPolicy

    environment = practice_environment(kind)
    env = make_environment(environment)
    env.action_space.seed(0)
    demos = []
    for episode in range(_EPISODES):
        observations = [env.reset(seed=episode)[0]]
        actions, rewards, done = [], [], False
        while not done:
            actions.append(env.action_space.sample())
            obs, reward, _, done, _ = env.step(actions[-1])
            observations.append(obs)
            rewards.append(float(reward))
        demos.append(
            TrajectoryWithRew(
                obs=np.stack(observations),
                acts=np.stack(actions),
                infos=None,
                terminal=False,
                rews=np.array(rewards),
            )
        )
    spaces = env.observation_space, env.action_space
    env.close()
    others = Supplement(hide_demo_rewards(demos, "none"), np.arange(len(demos), dtype=np.int64))
    return TestBed(environment, *spaces, demos, RandomPolicy(*spaces), others)


def suite_test_bed(spec: RunSpec, root: Path) -> TestBed:
    """Returns the test bed with the environment and data of a run.

    Args:
        spec: Specification of the run.
        root: Folder that holds `experts/` and `demos/`.
    """
    env = make_environment(spec.environment)
    spaces = env.observation_space, env.action_space
    env.close()
    expert = artifacts.expert_of_run(spec, root, *spaces, "cpu")
    demos, others = artifacts.demos_of_run(spec, root), supplement_of_run(spec, root, ranked=True)
    return TestBed(spec.environment, *spaces, demos, expert, others)


@dataclass
class TrainingTrace:
    """Record of one training.

    Attributes:
        learner: The learner after the training.
        claimed_steps: Environment steps that the learner reported.
        real_steps: Environment steps that were counted.
        seconds: Duration of `train`.
        curve: Points of the learning curve.
        sizes: For each offer of a checkpoint, budget units spent according to the curve, and the
            size of the state in bytes.
        offers: Number of checkpoints that were offered.
    """

    learner: Learner
    claimed_steps: int = 0
    real_steps: int = 0
    seconds: float = 0.0
    curve: list[dict[str, float]] = field(default_factory=list)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    offers: int = 0


class InterruptedForTestError(Exception):
    """Ends a training when a checkpoint is offered."""


class MethodUnderTest:
    """A method that is tested.

    Args:
        card: Card of the method.
        values: Values of all hyper-parameters.
        amount: Amount of training per trial, in the unit of its budget.
    """

    def __init__(self, card: AlgorithmCard, values: Mapping[str, Scalar], amount: int) -> None:
        self.card = card
        self.values = dict(values)
        self.amount = amount if card.budget_unit != "none" else 0

    def set_up(
        self, bed: TestBed, config: TrainingConfig, *, others: int = 0, poison: Poison = "none"
    ) -> Learner:
        """Creates a learner and sets it up.

        Args:
            bed: Test bed to use.
            config: Configuration of the training.
            others: Seed of the generators that a method must not draw from: Python's, and NumPy's
                global one.
            poison: How rewards in demonstrations are changed, see `InstrumentedEnv`.
        """
        card = self.card
        seed_generators(config)
        random.seed(others)
        np.random.seed(others)  # noqa: NPY002
        what = f"algorithm {card.name}"
        demos = poisoned_demos(bed.demos, poison) if card.needs.demos else []
        inputs = TrainingInputs(
            learner=learner_class(card.implementation, card.origin.digest, what)(),
            hyperparameters=self.values,
            demos=demos if card.needs.actions else hide_actions(demos),
            supplement=self._supplement(bed),
            expert=lambda *_: bed.expert if card.needs.expert else None,
            folder=card.origin.folder if card.origin.source else None,
        )
        return set_up(config, inputs, bed.observation_space, bed.action_space)

    def _supplement(self, bed: TestBed) -> Supplement | None:
        """Returns what the method is given of the trajectories of mixed quality."""
        needs, others = self.card.needs, bed.supplement
        if others is None or not needs.supplement:
            return None
        shown = others.trajectories if needs.actions else hide_actions(others.trajectories)
        return Supplement(shown, others.ranks if needs.ranking else None)

    def train(
        self,
        bed: TestBed,
        seed: int = 0,
        *,
        others: int = 0,
        poison: Poison = "none",
        measure: bool = False,
    ) -> TrainingTrace:
        """Trains a new learner to the end.

        Args:
            bed: Test bed to use.
            seed: Seed of the run.
            others: See `set_up`.
            poison: How rewards are changed, in the environment and in demonstrations.
            measure: Whether to measure the size of the state at each offer of a checkpoint.
        """
        make_environment(bed.environment).close()  # so that its id is registered

        def train(run: Training) -> TrainingTrace:
            assert run.directory is not None, "every training here has a folder"
            directory = run.directory
            done = TrainingTrace(self.set_up(bed, run.config, others=others, poison=poison))

            def record(step: int, metrics: Mapping[str, float]) -> None:
                done.curve.append({"step": step, **metrics})
                if len(done.curve).bit_count() == 1:  # at each doubling of their number
                    directory.write_curve(_shown_curve(done.curve, poison))

            def offered() -> None:
                done.offers += 1
                if measure:
                    at = int(done.curve[-1]["step"]) if done.curve else 0
                    sizes = sizes_in(done.learner.state_dict())
                    done.sizes.append((at, sum(size for _, size in sizes)))

            before = meter.steps
            started = time.monotonic()
            done.claimed_steps = done.learner.train(self._budget, record, offered)
            done.seconds = time.monotonic() - started
            done.real_steps = meter.steps - before
            return done

        with instrumented_spec(bed.environment.gym_id, poison) as meter:
            return _inside_a_run(bed.environment, self._budget, seed, poison, train)

    def train_interrupted(self, bed: TestBed, seed: int = 0) -> Learner:
        """Trains to the middle, and continues in a new learner from the state of the first one.

        Args:
            bed: Test bed to use.
            seed: Seed of the run.
        """
        total = self.train(bed, seed).offers
        config = TrainingConfig(bed.environment, bed.environment, self._budget, seed)
        first = self.set_up(bed, config)
        seen: list[dict[str, Any]] = []
        count = 0

        def offered() -> None:
            nonlocal count
            count += 1
            if count >= max(1, total // 2):
                seen.append({"learner": first.state_dict(), "generators": generator_states()})
                raise InterruptedForTestError

        with contextlib.suppress(InterruptedForTestError):
            first.train(self._budget, lambda *_: None, offered)
        second = self.set_up(bed, config)
        if seen:
            second.load_state_dict(seen[0]["learner"])
            restore_generators(seen[0]["generators"])
        second.train(self._budget, lambda *_: None)
        return second

    @property
    def _budget(self) -> Budget:
        return Budget(name="quick", unit=self.card.budget_unit, amount=self.amount)


# What code finds around a training: the folder of the run, its evaluation, the seed on the stack.
# `check-algo` trains a method among the true ones, and once more among false ones. A method that
# learns from what it finds there learns something else then.
_T = TypeVar("_T")
_EVALUATED_ENVIRONMENTS = 2
_EARLIER_RETURNS = np.array([0.25, 4.0, 7.5])


def _inside_a_run(
    environment: EnvironmentSpec,
    budget: Budget,
    seed: int,
    poison: Poison,
    train: Callable[[Training], _T],
) -> _T:
    """Trains below a stack frame with the variables of `run_trainings`.

    With the poison `run`, the seed on the stack, the rewards of the evaluation and the numbers in
    the folder are false. What a method is given is true.

    Args:
        environment: Environment of the training and the evaluation.
        budget: Amount of training.
        seed: Seed of the run.
        poison: How rewards are changed, see `Poison`.
        train: Sets a learner up and trains it.
    """
    false = poison == "run"
    shown = derive_seed(seed, "canary") if false else seed
    first = TrainingConfig(environment, environment, budget, shown, training_seed=seed)
    with tempfile.TemporaryDirectory(prefix="imitbench-") as folder:
        directory = _leave_results(Path(folder), shown, poison)
        members = [Training(first, _nothing_to_load, directory)]
        with instrumented_spec(environment.gym_id, "canary") if false else contextlib.nullcontext():
            evaluator = Evaluator(first.evaluated, _EVALUATED_ENVIRONMENTS)
        with evaluator:
            return train(members[0])


def _nothing_to_load() -> Any:
    raise InputError("a training of check-algo is loaded already")


def _shown_curve(curve: list[dict[str, float]], poison: Poison) -> list[Mapping[str, float]]:
    """Returns a curve as the folder of a run shows it: with the poison `run`, false numbers."""
    if poison != "run":
        return list(curve)
    return [
        {k: v if k == "step" else poisoned(v, "other") for k, v in point.items()} for point in curve
    ]


def _leave_results(out: Path, seed: int, poison: Poison) -> RunDirectory:
    """Writes what earlier runs would have left, and returns the folder of this run."""
    returns = np.array(
        [poisoned(value, "other") if poison == "run" else value for value in _EARLIER_RETURNS]
    )
    own, other = (RunDirectory(out / "runs" / name) for name in ("own", "other"))
    for directory in (own, other):
        directory.path.mkdir(parents=True)
        (directory.path / "spec.json").write_text(json.dumps({"seed": seed}))
        directory.write_episodes(
            EpisodeTable(
                returns=returns,
                lengths=np.full(len(returns), 10),
                terminated=np.zeros(len(returns), dtype=bool),
                deterministic=np.zeros(len(returns), dtype=bool),
            )
        )
        directory.write_curve([{"step": 1, "rollout/return_mean": float(returns[0])}])
        result = {"raw_return": float(returns.mean()), "return_std": float(returns.std())}
        (directory.path / "result.json").write_text(json.dumps(result))
    return own


class MethodTester:
    """Trains a method on artificial environments; for the tests of plug-ins.

    Args:
        folder: Folder of the method's card.
        amount: Amount of training, in the unit of its budget.
        **overrides: Hyper-parameters as text.
    """

    def __init__(self, folder: Path, amount: int, **overrides: str) -> None:
        use_one_thread()  # as workers do: small networks are slower with more
        self.card = find_algorithm(str(folder.resolve()))
        self._subject = MethodUnderTest(self.card, self.card.resolve(overrides), amount)

    def trained(self, kind: ActionSpace, *, seed: int = 0, interrupted: bool = False) -> Learner:
        """Returns a trained learner.

        Args:
            kind: Kind of action space.
            seed: Seed of the run.
            interrupted: Whether a second learner resumes the training in the middle.
        """
        bed = practice_test_bed(kind)
        if interrupted:
            return self._subject.train_interrupted(bed, seed)
        return self._subject.train(bed, seed).learner

    def observations(self, kind: ActionSpace) -> Any:
        """Returns observations of the environment with this kind of actions, shape (n, …)."""
        return practice_test_bed(kind).observations()

    def action_space(self, kind: ActionSpace) -> gym.Space[Any]:
        """Returns the action space of this kind."""
        return practice_test_bed(kind).action_space


def sizes_in(state: Any, name: str = "") -> list[tuple[str, int]]:
    """Returns names and sizes in bytes of the values in a state."""
    if isinstance(state, Mapping):
        items = [(f"{name}.{key}" if name else str(key), value) for key, value in state.items()]
    elif isinstance(state, list | tuple):
        items = [(name, value) for value in state]  # a list counts as one
    else:
        nbytes = getattr(state, "nbytes", None)
        return [(name, int(nbytes) if nbytes is not None else len(str(state)))]
    return [pair for key, value in items for pair in sizes_in(value, key)]
