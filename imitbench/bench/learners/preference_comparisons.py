"""Preference comparisons in the harness, with synthetic preferences by the true reward."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from stable_baselines3.common.policies import BasePolicy

from imitbench.algorithms.adversarial.generator import RolloutRewardGenerator, make_generator
from imitbench.algorithms.preference_comparisons import (
    ActiveSelectionFragmenter,
    AgentTrainer,
    CrossEntropyRewardLoss,
    Fragmenter,
    PreferenceComparisons,
    PreferenceModel,
    RandomFragmenter,
    TrainingRound,
    make_reward_trainer,
)
from imitbench.algorithms.preference_comparisons.agent_trainer import AgentPack
from imitbench.bench.curve import EpisodeLog, SeedEpisodes, silent_logger
from imitbench.bench.environments import (
    make_packed_environments,
    make_training_environments,
    time_limit_of,
)
from imitbench.bench.learner import Callback, Checkpoint, Task, no_checkpoint
from imitbench.bench.learners.learner_per_seed import LearnerPerSeed, check_packs
from imitbench.bench.learners.preference_answers import (
    available_comparisons,
    curve_metrics,
    make_gatherer,
    waits_for_people,
)
from imitbench.bench.learners.reward_agreement import held_out_agreement
from imitbench.bench.learners.reward_learner import (
    make_ppo,
    scaled_by_running_statistics,
    set_learning_rate,
)
from imitbench.bench.seeding import derive_seed
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.errors import InputError
from imitbench.records.runs import Budget
from imitbench.rewards.reward_nets import (
    AddSTDRewardWrapper,
    BasicRewardNet,
    NormalizedRewardNet,
    RewardEnsemble,
    RewardNet,
)
from imitbench.rl.packed_ppo import OwnGenerators, PackedPPO
from imitbench.rl.ppo import PPO
from imitbench.util.networks import RunningNorm

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy
    from typing_extensions import Self

    from imitbench.data.types import TrajectoryWithRew
    from imitbench.rewards.base import RewardNet


@dataclass(frozen=True)
class SamplingCost:
    """Upper bound of the environment steps of sampling.

    Attributes:
        n_envs: Number of parallel environments.
        episode_length: Maximum episode length, in steps.
        exploration_frac: Share of transitions with additional random actions.
    """

    n_envs: int
    episode_length: int
    exploration_frac: float

    def most_steps(self, transitions: int, trained: int) -> int:
        """Returns the maximum number of environment steps of sampling.

        Args:
            transitions: Number of transitions to sample.
            trained: Steps of training since the last sampling, whose episodes are used first.
        """
        exploratory = int(self.exploration_frac * transitions)
        finished = max(0, trained - self.n_envs * self.episode_length)
        missing = max(0, transitions - exploratory - finished)
        return self._whole_episodes(exploratory) + self._whole_episodes(missing)

    def _whole_episodes(self, transitions: int) -> int:
        """Rounds up, because every environment finishes its episode."""
        round_of_episodes = self.n_envs * self.episode_length
        return math.ceil(transitions / round_of_episodes) * round_of_episodes


def agent_steps(
    total: int, transitions: Sequence[int], rollout: int, sampling: SamplingCost
) -> int | None:
    """Returns the steps of training per round that fit the budget even in the worst case.

    Args:
        total: Environment steps of all rounds.
        transitions: Transitions to sample in each round.
        rollout: Steps of one rollout of the agent.
        sampling: Bound of the steps of sampling.

    Returns:
        The maximum, a multiple of `rollout`; `None` if not one rollout per round fits.
    """
    for rollouts in range(total // (len(transitions) * rollout), 0, -1):
        share = rollouts * rollout
        spent = sum(
            share + sampling.most_steps(number, share if index else 0)
            for index, number in enumerate(transitions)
        )
        if spent <= total:
            return share
    return None


_MOST_HALVINGS = 4  # of the transitions to sample from, for small budgets


class PreferenceComparisonsLearner(LearnerPerSeed):
    """Learns a reward from comparisons of fragments, and trains PPO on it.

    In a pack, the agents are trained as one network, and each seed samples, asks and learns its
    reward for itself.
    """

    _ppo: PPO
    _agent: AgentTrainer
    _pack: AgentPack | None = None  # if there are several seeds

    def setup_pack(
        self,
        tasks: Sequence[Task],
        demos: Sequence[Sequence[TrajectoryWithRew]],
        rngs: Sequence[np.random.Generator],
        device: str,
    ) -> None:
        """Builds what `setup` does for each seed.

        Raises:
            InputError: Hyper-parameters cannot be used in a pack.
        """
        if tasks[0].hyperparameters["gatherer"] == "human":
            raise InputError(
                "--pack: people answer the questions of one run at a time; omit --pack, or "
                "--set gatherer=human"
            )

        def set_up(seed: int, member: Self) -> None:
            member.setup(tasks[seed], demos[seed], rngs[seed], "cpu")
            check_packs(member._ppo)

        self.set_up_members(len(tasks), set_up)
        agents = [member._agent for member in self.of_seeds()]
        self._device = device
        self._pack = AgentPack(agents, self.randomness, device)

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds environments, PPO, reward and algorithm; `demos` is not used."""
        self._task, self._device = task, device
        self._options: dict[str, Any] = dict(task.hyperparameters)
        options = self._options
        self._environments = make_training_environments(
            task.environment, options["n_envs"], task.seed
        )
        self._episodes = EpisodeLog(self._environments)
        if (longest := self._time_limit) is not None:  # a fragment is at most an episode
            options["fragment_length"] = min(options["fragment_length"], longest)
        self._ppo = make_ppo(self._episodes, options, task.seed, device)
        self._net = make_reward_net(task, standardized=scaled_by_running_statistics(options)).to(
            device
        )
        self._rounds_done = 0
        self._agent = AgentTrainer(
            algorithm=self._ppo,
            reward_fn=self._net,
            venv=self._episodes,
            rng=rng,
            exploration_frac=options["exploration_frac"],
            custom_logger=silent_logger(),
        )
        model = PreferenceModel(
            self._net,
            noise_prob=options["noise_prob"],
            discount_factor=options["discount_factor"],
        )
        trainer_options = {
            "epochs": options["reward_epochs"],
            "lr": options["reward_learning_rate"],
            "batch_size": options["reward_batch_size"],
        }
        self._algorithm = PreferenceComparisons(
            self._agent,
            self._net,
            num_iterations=options["num_iterations"],
            fragmenter=make_fragmenter(model, options, rng),
            preference_gatherer=make_gatherer(task, options, rng),
            reward_trainer=make_reward_trainer(
                model, CrossEntropyRewardLoss(), rng, trainer_options
            ),
            comparison_queue_size=options["comparison_queue_size"],
            fragment_length=options["fragment_length"],
            transition_oversampling=options["transition_oversampling"],
            initial_comparison_frac=options["initial_comparison_frac"],
            initial_epoch_multiplier=options["initial_epoch_multiplier"],
            custom_logger=silent_logger(),
            allow_variable_horizon=task.environment.horizon == "variable",
            query_schedule=options["query_schedule"],
        )
        self.waits = waits_for_people(self._algorithm.preference_gatherer)

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for the card's number of rounds, or as many as fit.

        All environment steps count, including those of sampling. With a small budget, comparisons
        are sampled from fewer transitions.

        Raises:
            ValueError: Not even one round fits into `budget.amount` environment steps.
        """
        members = self.of_seeds()
        plans = [member._plan(budget.amount) for member in members]  # which all are the same
        rounds = plans[0]
        for index in range(self._rounds_done, len(rounds)):
            step = rounds[index]
            if index == len(rounds) - 1:
                left = min(
                    member._left_for_agent(budget.amount, step, rounds) for member in members
                )
                step = replace(step, timesteps=left)
            for member in members:
                spent = member._episodes.steps / budget.amount
                set_learning_rate(member._ppo, self._options, spent, budget.amount)
            found = self._run_round(step)
            self._rounds_done += 1
            metrics = [
                {**member._episodes.pop(), **curve_metrics(own)}
                for member, own in zip(members, found, strict=True)
            ]
            callback(self._episodes.steps, self.add_points(self._episodes.steps, metrics))
            checkpoint()
        return self._episodes.steps

    def _run_round(self, step: TrainingRound) -> list[dict[str, float]]:
        """Trains all seeds for a round; returns metrics of each."""
        if self._pack is None:
            return [self._algorithm.run_round(step)]
        found = []
        for member, own in zip(self.of_seeds(), self.randomness, strict=True):
            with own.in_use():
                found.append(member._algorithm.begin_round(step))
        self._pack.train(step.timesteps)
        for member in self.of_seeds():
            member._algorithm.end_round()
        return found

    def _plan(self, total: int) -> list[TrainingRound]:
        """Plans the rounds that fit into `total` environment steps."""
        algorithm = self._algorithm
        comparisons = available_comparisons(
            algorithm.preference_gatherer, self._options["total_comparisons"]
        )
        for halvings in range(_MOST_HALVINGS + 1):
            algorithm.transition_oversampling = (
                self._options["transition_oversampling"] / 2**halvings
            )
            for algorithm.num_iterations in range(self._options["num_iterations"], 0, -1):
                rounds = algorithm.plan(0, comparisons)
                transitions = [algorithm.transitions_for(step.comparisons) for step in rounds]
                share = agent_steps(total, transitions, self._rollout, self._sampling)
                if share is not None:
                    return [replace(step, timesteps=share) for step in rounds]
        raise ValueError(
            f"a budget of {total} environment steps is too small to sample {comparisons} pairs of "
            "fragments and train the agent; lower total_comparisons, fragment_length, n_envs or "
            "n_steps"
        )

    def _left_for_agent(
        self, total: int, last: TrainingRound, rounds: Sequence[TrainingRound]
    ) -> int:
        """Steps of training in the last round, with those that sampling did not need."""
        transitions = self._algorithm.transitions_for(last.comparisons)
        trained = last.timesteps if len(rounds) > 1 else 0
        spent = self._episodes.steps + self._sampling.most_steps(transitions, trained)
        return max(last.timesteps, (total - spent) // self._rollout * self._rollout)

    @property
    def _rollout(self) -> int:
        return self._ppo.n_steps * self._ppo.n_envs

    @property
    def _time_limit(self) -> int | None:
        return time_limit_of(self._environments)

    @property
    def _sampling(self) -> SamplingCost:
        if self._time_limit is None:
            raise ValueError(
                f"environment {self._task.environment.id} has no time limit, which planning of the "
                "sampling needs"
            )
        return SamplingCost(
            n_envs=self._ppo.n_envs,
            episode_length=self._time_limit,
            exploration_frac=self._options["exploration_frac"],
        )

    def policy(self) -> BasePolicy:
        """PPO's policy."""
        return self._ppo.policy

    def reward(self) -> RewardNet:
        """The learned reward."""
        return self._net

    def measures(self) -> dict[str, float]:
        """Agreement of the learned and the true reward on held-out episodes."""
        length = self._options["fragment_length"]
        return held_out_agreement(self._net, self.policy(), self._task, length)

    def transfer_policy(self) -> BasePolicy | None:
        """A new PPO, trained on the learned reward from scratch."""
        steps = self._options["transfer_steps"]
        if not steps:
            return None
        seed = derive_seed(self._task.seed, "transfer")
        venv = make_training_environments(self._task.environment, self._options["n_envs"], seed)
        fresh = make_ppo(venv, self._options, seed, self._device)
        fresh.set_logger(silent_logger())
        generator = make_generator(fresh, venv, _frozen(self._net))
        for trained in range(0, steps - self._rollout + 1, self._rollout):
            set_learning_rate(fresh, self._options, trained / steps, steps)
            generator.learn(self._rollout)
        venv.close()
        return fresh.policy

    def transfer_policies(self) -> Sequence[BasePolicy | None]:
        """A new PPO for each seed, trained on its reward from scratch, together."""
        members, steps = self.of_seeds(), self._options["transfer_steps"]
        if not steps:
            return [None for _ in members]
        seeds = [derive_seed(member._task.seed, "transfer") for member in members]
        count = self._options["n_envs"]
        venv = EpisodeLog(
            make_packed_environments(self._task.environment, count, seeds), len(seeds)
        )
        randomness = [OwnGenerators() for _ in members]
        fresh, recorders = [], []
        for number, (member, own) in enumerate(zip(members, randomness, strict=True)):
            with own.in_use():
                seen = SeedEpisodes(venv, number, count)
                ppo = make_ppo(seen, self._options, seeds[number], "cpu")
                ppo.set_logger(silent_logger())
                generator = RolloutRewardGenerator(ppo, seen, _frozen(member._net))
            fresh.append(ppo)
            recorders.append(generator.recorder)
        pack = PackedPPO(fresh, venv, randomness, self._device)
        for trained in range(0, steps - self._rollout + 1, self._rollout):
            for ppo in fresh:
                set_learning_rate(ppo, self._options, trained / steps, steps)
            pack.learn(self._rollout, recorders)
            for recorder in recorders:
                recorder.pop()
        venv.close()
        return [ppo.policy for ppo in fresh]

    def state_dict(self) -> dict[str, Any]:
        """State at the end of a round."""
        if self._pack is None:
            return self._own_state()
        return {
            "members": [member._own_state() for member in self.of_seeds()],
            "randomness": [own.state_dict() for own in self.randomness],
            "curves": [[dict(point) for point in curve] for curve in self.curves],
        }

    def _own_state(self) -> dict[str, Any]:
        return {
            "algorithm": self._algorithm.state_dict(),
            "environments": episode_states(self._environments),
            "rounds": self._rounds_done,
            "steps": self._episodes.steps,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        if self._pack is None:
            self._load_own_state(state)
            return
        for member, own in zip(self.of_seeds(), state["members"], strict=True):
            member._load_own_state(own)
        for generators, own in zip(self.randomness, state["randomness"], strict=True):
            generators.load_state_dict(own)
        self.curves = [list(curve) for curve in state["curves"]]

    def _load_own_state(self, state: Mapping[str, Any]) -> None:
        self._algorithm.load_state_dict(state["algorithm"])
        restore_episodes(self._environments, state["environments"])
        self._rounds_done = state["rounds"]
        self._episodes.steps = state["steps"]


def make_reward_net(task: Task, *, standardized: bool, **inputs: Any) -> RewardNet:
    """Builds the reward, an ensemble if its size is above 1.

    Args:
        task: Uses the hyper-parameters `reward_hidden_size`, `reward_hidden_layers` and
            `ensemble_size`.
        standardized: Whether rewards for the agent are standardized with running statistics.
        **inputs: Options of `BasicRewardNet` that select its inputs; by default state and action.
    """
    options: dict[str, Any] = dict(task.hyperparameters)

    def make() -> RewardNet:
        net: RewardNet = BasicRewardNet(
            task.observation_space,
            task.action_space,
            hid_sizes=[options["reward_hidden_size"]] * options["reward_hidden_layers"],
            normalize_input_layer=RunningNorm,
            **inputs,
        )
        return NormalizedRewardNet(net, RunningNorm) if standardized else net

    if options["ensemble_size"] == 1:
        return make()
    members = [make() for _ in range(options["ensemble_size"])]
    return AddSTDRewardWrapper(
        RewardEnsemble(task.observation_space, task.action_space, members), default_alpha=0.0
    )


def make_fragmenter(
    model: PreferenceModel, options: Mapping[str, Any], rng: np.random.Generator
) -> Fragmenter:
    """Makes what chooses pairs: at random, or with `active_selection_factor` by disagreement.

    Raises:
        InputError: A single network is to disagree.
    """
    random = RandomFragmenter(rng, warning_threshold=0)
    factor = options["active_selection_factor"]
    if factor == 1:
        return random
    if options["ensemble_size"] == 1:
        raise InputError(
            f"active_selection_factor={factor:g} chooses pairs on which several networks disagree; "
            "add --set ensemble_size=3, or --set active_selection_factor=1"
        )
    return ActiveSelectionFragmenter(model, random, factor)


def _frozen(net: RewardNet) -> Any:
    """The reward in training, with fixed statistics of its normalizers."""

    def reward(*transitions: Any) -> Any:
        return net.predict_processed(*transitions, update_stats=False)

    return reward
