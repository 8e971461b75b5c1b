"""Disturbance-based reward extrapolation (D-REX): T-REX on trajectories that noise has ranked.

The demonstrations are cloned. The more of the clone's actions are replaced by random ones, the
worse its trajectories are: this ranks them, without anybody who judges. T-REX then learns what
made them worse, and a policy may become better than the demonstrator.

Source: Brown, Goo and Niekum 2020, "Better-than-Demonstrator Imitation Learning via
Automatically-Ranked Demonstrations", algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.bc import BC
from imitbench.algorithms.trex import RankedTrajectories, RewardExtrapolation
from imitbench.data import rollout
from imitbench.data.types import TrajectoryWithRew, TransitionsMinimal
from imitbench.policies.exploration_wrapper import ExplorationWrapper, States


def even_noise(count: int) -> tuple[float, ...]:
    """Returns evenly spaced shares of random actions, from 0 to below 1."""
    return tuple(level / count for level in range(count))


@dataclass(frozen=True)
class CloneOptions:
    """How the demonstrations are cloned.

    Attributes:
        batches: Steps of the optimizer.
        batch_size: Transitions in each; all of them if there are fewer.
        learning_rate: Learning rate of Adam.
        ent_weight: Weight of the entropy bonus.
        l2_weight: Weight of half the sum of squared parameters.
    """

    batches: int = 5_000
    batch_size: int = 32
    learning_rate: float = 1e-3
    ent_weight: float = 1e-3
    l2_weight: float = 0.0


class DREX(RewardExtrapolation):
    """D-REX: the trajectories are the clone's, ranked by the share of random actions.

    `train_reward` clones the demonstrations, acts in `rollout_venv`, and fits the reward. The
    demonstrations themselves are not among the ranked trajectories.

    Args:
        demonstrations: Transitions with actions.
        noise_levels: Shares of random actions, in [0, 1].
        rollout_venv: Environments in which the clone acts: each gives a trajectory for each level,
            or more if its episodes are shorter than others. `None` for `venv`.
        clone: Untrained policy that imitates the demonstrations; a new `FeedForward32Policy` when
            `None`.
        clone_options: How it is trained.
        **kwargs: See `RewardExtrapolation`.

    Attributes:
        noise_levels: As given; may be replaced before `train_reward`.
        rollout_venv: As given; may be replaced before `train_reward`.
    """

    def __init__(
        self,
        *,
        demonstrations: TransitionsMinimal,
        noise_levels: Sequence[float] = even_noise(20),
        rollout_venv: VecEnv | None = None,
        clone: ActorCriticPolicy | None = None,
        clone_options: CloneOptions | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.noise_levels = tuple(noise_levels)
        self.rollout_venv = rollout_venv
        self._clone_options = clone_options or CloneOptions()
        self._bc = self._make_clone(demonstrations, clone)

    def _make_clone(
        self, demonstrations: TransitionsMinimal, clone: ActorCriticPolicy | None
    ) -> BC:
        options = self._clone_options
        return BC(
            observation_space=self.venv.observation_space,
            action_space=self.venv.action_space,
            rng=self.rng,
            policy=clone,
            demonstrations=demonstrations,
            batch_size=min(options.batch_size, len(demonstrations)),
            optimizer_kwargs={"lr": options.learning_rate},
            ent_weight=options.ent_weight,
            l2_weight=options.l2_weight,
            device=self.reward_net.device,
            custom_logger=self.logger,
        )

    @property
    def clone(self) -> ActorCriticPolicy:
        """The policy that imitates the demonstrations."""
        return self._bc.policy

    def ranked(self) -> RankedTrajectories:
        """Clones the demonstrations, and ranks the clone's trajectories by their noise."""
        self._bc.train(n_batches=self._clone_options.batches, progress_bar=False)
        trajectories: list[TrajectoryWithRew] = []
        values: list[float] = []
        for level in self.noise_levels:
            found = self._act_with_noise(level)
            trajectories += found
            values += [-level] * len(found)
        return RankedTrajectories(trajectories, np.array(values))

    def _act_with_noise(self, level: float) -> Sequence[TrajectoryWithRew]:
        """At each step, all environments take random actions with probability `level`."""
        venv = self.rollout_venv or self.venv
        actor = ExplorationWrapper(
            self.clone, venv, random_prob=level, switch_prob=1.0, rng=self.rng,
            deterministic_policy=True,
        )  # fmt: skip

        def act(obs: Any, state: States, starts: Any) -> tuple[Any, States]:
            self.env_steps += venv.num_envs
            return actor(obs, state, starts)

        enough = rollout.make_min_episodes(venv.num_envs)
        return rollout.generate_trajectories(act, venv, enough, self.rng)
