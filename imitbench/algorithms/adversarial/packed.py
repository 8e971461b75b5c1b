"""PPO on learned rewards for several seeds in one process, with one batched network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch as th
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.adversarial.common import AdversarialTrainer
from imitbench.algorithms.adversarial.generator import (
    Experience,
    Generator,
    RolloutRewardGenerator,
)
from imitbench.rl.packed_ppo import OwnGenerators, PackedPPO


class RoundTrainer(Protocol):
    """A method that trains a generator round by round."""

    @property
    def generator(self) -> Generator:
        """What trains the policy on the method's reward."""

    def end_round(self, experience: Experience) -> None:
        """What the method does after the generator has learnt."""

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that further training depends on."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""


TrainerT = TypeVar("TrainerT", bound=RoundTrainer)


class TrainerPack(Generic[TrainerT]):
    """Trains the generators of several seeds together, see `PackedPPO`, round by round.

    Each seed learns what it would learn alone, up to rounding.

    Args:
        trainers: The method of each seed, with `imitbench.rl.ppo.PPO` on the CPU; they differ only
            in parameters and demonstrations.
        venv: The environments of the first seed, those of the second, and so on.
        randomness: Global generators of each seed, as they are after its trainer was made.
        device: Where the generators' updates are computed.

    Attributes:
        trainers: As given.

    Raises:
        ValueError: A generator cannot be trained together with others, see `PackedPPO`.
    """

    def __init__(
        self,
        trainers: Sequence[TrainerT],
        venv: VecEnv,
        randomness: Sequence[OwnGenerators],
        device: str | th.device = "cpu",
    ) -> None:
        self.trainers = list(trainers)
        self._randomness = list(randomness)
        self._generators: list[RolloutRewardGenerator] = []
        for trainer in trainers:
            generator = trainer.generator
            if not isinstance(generator, RolloutRewardGenerator):
                raise ValueError("gen_algo must be imitbench.rl.ppo.PPO with the lean path")
            self._generators.append(generator)
        members = [generator.algorithm for generator in self._generators]
        self._venv = venv
        self._ppo = PackedPPO(members, venv, self._randomness, device)

    @property
    def venv(self) -> VecEnv:
        """The environments of all seeds."""
        return self._venv

    def learn(self, timesteps: int) -> None:
        """Trains the generators, and ends the round of each trainer.

        Args:
            timesteps: Environment steps of each seed.

        Raises:
            ValueError: Training of a seed diverged, or episodes have different lengths without
                `allow_variable_horizon`.
        """
        self._ppo.learn(timesteps, [generator.recorder for generator in self._generators])
        for trainer, own, generator in zip(
            self.trainers, self._randomness, self._generators, strict=True
        ):
            with own.in_use():
                trainer.end_round(generator.recorder.pop())

    def state_dict(self) -> dict[str, Any]:
        """State of all trainers and of their global generators, at the end of a round."""
        return {
            "trainers": [trainer.state_dict() for trainer in self.trainers],
            "randomness": [own.state_dict() for own in self._randomness],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for trainer, saved in zip(self.trainers, state["trainers"], strict=True):
            trainer.load_state_dict(saved)
        for own, saved in zip(self._randomness, state["randomness"], strict=True):
            own.load_state_dict(saved)


class AdversarialPack(TrainerPack[AdversarialTrainer]):
    """Trains several instances of GAIL or AIRL, one for each seed, round by round.

    The generators, most of the work, are trained together, and the discriminators one after
    another. Arguments and errors are those of `TrainerPack`.
    """

    def train_round(self, timesteps: int) -> list[list[Mapping[str, float]]]:
        """Trains the generators, then the discriminators.

        Args:
            timesteps: Environment steps of each seed.

        Returns:
            For each seed, the statistics of each update of its discriminator.

        Raises:
            ValueError: See `learn`.
        """
        for trainer, own in zip(self.trainers, self._randomness, strict=True):
            with own.in_use():
                trainer.begin_round()
        self.learn(timesteps)
        updates: list[list[Mapping[str, float]]] = []
        for trainer, own in zip(self.trainers, self._randomness, strict=True):
            with own.in_use():
                updates.append(
                    [trainer.train_disc() for _ in range(trainer.n_disc_updates_per_round)]
                )
        return updates
