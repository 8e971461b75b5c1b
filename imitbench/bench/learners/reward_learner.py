"""Methods that learn a reward and train PPO on it, round by round."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.utils import FloatSchedule
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.adversarial.packed import RoundTrainer, TrainerPack
from imitbench.bench.curve import EpisodeLog, SeedEpisodes
from imitbench.bench.environments import make_packed_environments, make_training_environments
from imitbench.bench.learner import Callback, Checkpoint, Task, no_checkpoint
from imitbench.bench.learners.learner_per_seed import LearnerPerSeed, check_packs
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.policies.base import NormalizeFeaturesExtractor
from imitbench.records.runs import Budget
from imitbench.rl.packed_ppo import OwnGenerators
from imitbench.rl.ppo import PPO
from imitbench.rl.rollout import ReturnScaling
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from typing_extensions import Self

    from imitbench.data.types import TrajectoryWithRew

_ARGUMENTS = (
    "n_steps",
    "batch_size",
    "n_epochs",
    "learning_rate",
    "gamma",
    "gae_lambda",
    "clip_range",
    "ent_coef",
    "vf_coef",
    "max_grad_norm",
)


class Trainer(RoundTrainer, Protocol):
    """The interface that GAIL, AIRL and density share."""

    @property
    def policy(self) -> BasePolicy:
        """The policy in training."""


TrainerT = TypeVar("TrainerT", bound=Trainer)


class RewardLearner(LearnerPerSeed, Generic[TrainerT]):
    """A learner whose policy is PPO's; each round of the budget is one rollout.

    Attributes:
        task: Environment, spaces, hyper-parameters and seed.
        options: Every hyper-parameter by name.
        episodes: The training environments, which keep the returns of their episodes.
        ppo: PPO, which acts in them.
        trainer: What `make_trainer` returned.
        rounds: Number of rounds trained so far.
        pack: The trainers of all seeds; `None` for a single seed.
    """

    pack: TrainerPack[TrainerT] | None = None

    @abstractmethod
    def make_trainer(
        self, task: Task, demos: Sequence[TrajectoryWithRew], rng: np.random.Generator
    ) -> TrainerT:
        """Creates the algorithm; `options`, `episodes` and `ppo` are set already.

        Args:
            task: Environment and hyper-parameters.
            demos: Whole expert episodes, whose rewards must not be used.
            rng: Generator of all random choices.
        """

    @abstractmethod
    def train_round(self, steps: int) -> dict[str, float]:
        """Trains a single seed for `steps` environment steps; returns metrics for the curve."""

    def make_pack(
        self, venv: VecEnv, randomness: Sequence[OwnGenerators], device: str
    ) -> TrainerPack[TrainerT]:
        """Creates what trains the trainers of all seeds; arguments as of `TrainerPack`."""
        return TrainerPack([member.trainer for member in self.of_seeds()], venv, randomness, device)

    def train_pack(self, pack: TrainerPack[TrainerT], steps: int) -> list[dict[str, float]]:
        """Trains all seeds for `steps` environment steps each; returns metrics of each."""
        pack.learn(steps)
        return [member.latest_metrics() for member in self.of_seeds()]

    def latest_metrics(self) -> dict[str, float]:
        """Returns metrics of the latest rollout for the curve."""
        return self.episodes.pop()

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, PPO and the algorithm."""
        options: dict[str, Any] = dict(task.hyperparameters)
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self.set_up_in(EpisodeLog(self._environments), task, demos, rng, device)

    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds environments, and PPO and the algorithm of each seed.

        Raises:
            InputError: Hyper-parameters cannot be used in a pack.
        """
        options: dict[str, Any] = dict(tasks[0].hyperparameters)
        count: int = options["n_envs"]
        environments = make_packed_environments(
            tasks[0].environment, count, [task.seed for task in tasks]
        )
        episodes = EpisodeLog(environments, len(tasks))

        def set_up(seed: int, member: Self) -> None:
            own = SeedEpisodes(episodes, seed, count)
            member.set_up_in(own, tasks[seed], demos[seed], rngs[seed], "cpu")

        self.set_up_members(len(tasks), set_up)
        self._environments = environments
        self.pack = self.make_pack(episodes, self.randomness, device)

    def set_up_in(
        self,
        episodes: EpisodeLog | SeedEpisodes,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds PPO and the algorithm in environments; the other arguments as in `setup`."""
        self.task = task
        self.options: dict[str, Any] = dict(task.hyperparameters)
        self.episodes = episodes
        self.rounds = 0
        self.ppo = make_ppo(self.episodes, self.options, task.seed, device)
        if isinstance(episodes, SeedEpisodes):
            check_packs(self.ppo)
        self.trainer = self.make_trainer(task, demos, rng)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for as many rounds as fit into `budget.amount` environment steps.

        Raises:
            ValueError: The budget is less than one round.
        """
        steps = self.ppo.n_steps * self.ppo.n_envs
        first = self.before_rounds(budget.amount, callback)
        rounds = count_rounds(budget.amount - first, steps)
        while self.rounds < rounds:
            spent = self.rounds / rounds
            set_learning_rate(self.ppo, self.options, spent, budget.amount)
            if self.pack is None:
                metrics = self.train_round(steps)
            else:
                metrics = self._train_all(self.pack, first, steps)
            self.rounds += 1
            callback(first + self.rounds * steps, metrics)
            checkpoint()
        return first + self.rounds * steps

    def before_rounds(self, amount: int, callback: Callback) -> int:
        """Does what comes before the first round; nothing unless overridden.

        It is called again when training continues from a state, and must then change nothing.

        Args:
            amount: The budget, in environment steps.
            callback: Records points of the learning curve.

        Returns:
            Environment steps that it took, of each seed.
        """
        del amount, callback
        return 0

    def _train_all(self, pack: TrainerPack[TrainerT], first: int, steps: int) -> dict[str, float]:
        """Trains all seeds for a round; returns metrics of the first."""
        for member in self.of_seeds():
            member.ppo.lr_schedule = self.ppo.lr_schedule
        at = first + (self.rounds + 1) * steps
        return self.add_points(at, self.train_pack(pack, steps))

    def policy(self) -> BasePolicy:
        """PPO's policy."""
        return self.trainer.policy

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round."""
        state = {"environments": episode_states(self._environments), "rounds": self.rounds}
        if self.pack is None:
            return {"trainer": self.trainer.state_dict(), **state}
        curves = [[dict(point) for point in curve] for curve in self.curves]
        return {"pack": self.pack.state_dict(), **state, "curves": curves}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if self.pack is None:
            self.trainer.load_state_dict(state["trainer"])
        else:
            self.pack.load_state_dict(state["pack"])
            self.curves = [list(curve) for curve in state["curves"]]
        restore_episodes(self._environments, state["environments"])
        self.rounds = state["rounds"]


def make_ppo(venv: VecEnv, options: Mapping[str, Any], seed: int, device: str) -> PPO:
    """Builds PPO from a card's hyper-parameters.

    Args:
        venv: Environments to act in.
        options: Hyper-parameters named as PPO's arguments; `hidden_size`, `hidden_layers`,
            `normalize_observations` and `log_std_init` of the policy; `reward_scaling`, of which
            `returns` applies here; `lean_ppo`; and `ent_coef_continuous`, which replaces `ent_coef`
            for actions in a box unless it is `None`. `log_std_init`, `target_kl`,
            `reward_scaling` and `ent_coef_continuous` are optional.
        seed: Seed of PPO.
        device: `cpu` or `cuda`.
    """
    policy_kwargs: dict[str, Any] = {
        "net_arch": [options["hidden_size"]] * options["hidden_layers"],
        "log_std_init": options.get("log_std_init", 0.0),
    }
    if options["normalize_observations"]:
        policy_kwargs |= {
            "features_extractor_class": NormalizeFeaturesExtractor,
            "features_extractor_kwargs": {"normalize_class": RunningNorm},
        }
    arguments = {name: options[name] for name in _ARGUMENTS}
    arguments["ent_coef"] = value_for("ent_coef", options, venv.action_space)
    ppo = PPO(
        "MlpPolicy",
        venv,
        seed=seed,
        device=device,
        policy_kwargs=policy_kwargs,
        target_kl=options.get("target_kl"),
        lean=None if options["lean_ppo"] else False,
        **arguments,
    )
    if options.get("reward_scaling") == "returns":
        ppo.return_scaling = ReturnScaling(venv.num_envs, options["gamma"])
    return ppo


def value_for(name: str, options: Mapping[str, Any], action_space: spaces.Space[Any]) -> Any:
    """Returns a hyper-parameter, which may have a value of its own for actions in a box.

    Args:
        name: Its name.
        options: Hyper-parameters; that of the name with `_continuous` is optional and may be
            `None`.
        action_space: Space of the actions.
    """
    continuous = options.get(f"{name}_continuous")
    if continuous is None or not isinstance(action_space, spaces.Box):
        return options[name]
    return continuous


def scaled_by_running_statistics(options: Mapping[str, Any]) -> bool:
    """Whether hyper-parameters request rewards standardized by running statistics.

    True for `reward_scaling: running`, unless the older `normalize_reward` is false.

    Args:
        options: All hyper-parameters.
    """
    if "reward_scaling" not in options:
        return bool(options.get("normalize_reward", False))
    return options["reward_scaling"] == "running" and bool(options.get("normalize_reward", True))


def set_learning_rate(
    algorithm: PPO, options: Mapping[str, Any], spent: float, amount: int
) -> None:
    """Sets PPO's learning rate for a round.

    PPO's own schedules cover only one round, not the whole budget.

    Args:
        algorithm: Changed in place.
        options: Uses `learning_rate`, `learning_rate_decay` and, if there is one,
            `learning_rate_budget`.
        spent: Share of the budget before the round, in [0, 1].
        amount: The budget, in environment steps.
    """
    rate: float = options["learning_rate"]
    limit = options.get("learning_rate_budget")
    if limit is not None and amount > limit:
        rate *= math.sqrt(limit / amount)
    if options["learning_rate_decay"] == "linear":
        rate *= 1.0 - spent
    algorithm.lr_schedule = FloatSchedule(rate)


def count_rounds(amount: int, steps: int) -> int:
    """Returns how many rounds of `steps` environment steps fit into a budget.

    Raises:
        ValueError: The budget is less than one round.
    """
    if amount < steps:
        raise ValueError(
            f"a budget of {amount} environment steps is less than a single round of {steps}; "
            "lower n_envs or n_steps"
        )
    return amount // steps
