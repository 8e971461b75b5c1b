"""Reinforcement learning, on the environment's reward or on a learned one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

import imitbench.rl.dqn
import imitbench.rl.sac
from imitbench.bench.learner import Task
from imitbench.bench.learners.algorithm_learner import (
    DQN_ARGUMENTS,
    LearnedRewardLearner,
    OffPolicyLearner,
    algorithm_arguments,
)
from imitbench.bench.learners.ppo_learner import PPOLearner
from imitbench.cards.algorithm import ActionSpace, AlgorithmCard, Needs
from imitbench.cards.catalog import load_algorithm
from imitbench.rewards.reward_function import RewardFn
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper

if TYPE_CHECKING:
    from imitbench.data.types import TrajectoryWithRew


class _OffPolicyRLLearner(LearnedRewardLearner, OffPolicyLearner):
    discrete: bool

    def __init__(self, reward_fn: RewardFn | None = None) -> None:
        self._reward_fn = reward_fn

    def make_algorithm(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> OffPolicyAlgorithm:
        venv: VecEnv = self.episodes
        if self._reward_fn is not None:
            venv = self.rewarded = RewardVecEnvWrapper(venv, self._reward_fn)
        cls = imitbench.rl.dqn.DQN if self.discrete else imitbench.rl.sac.SAC
        arguments = algorithm_arguments(self.options, task.seed, device, discrete=self.discrete)
        return cls("MlpPolicy", venv, **arguments)


class SACLearner(_OffPolicyRLLearner):
    """Soft actor-critic; arguments as those of `PPOLearner`."""

    discrete = False


class DQNLearner(_OffPolicyRLLearner):
    """Deep Q-learning; arguments as those of `PPOLearner`."""

    discrete = True


_IMPLEMENTATIONS = {
    name: f"{learner.__module__}:{learner.__qualname__}"
    for name, learner in {"ppo": PPOLearner, "sac": SACLearner, "dqn": DQNLearner}.items()
}
NAMES = tuple(_IMPLEMENTATIONS)


def reinforcement_card(name: str) -> AlgorithmCard:
    """Returns the card of PPO, SAC or DQN.

    They are not methods of the benchmark and have no folder in `algorithms/`; their
    hyper-parameters are those of methods built on them.

    Args:
        name: One of `NAMES`.
    """
    base = load_algorithm("zero_reward" if name == "ppo" else "sqil")
    own = dict(base.hyperparameters)
    if name != "ppo":
        batch = own["batch_size"].model_copy(update={"help": "Transitions in each minibatch."})
        single = own["n_envs"].model_copy(update={"default": 1})
        own |= {"batch_size": batch, "n_envs": single}
        del own["lean"]
    if name == "sac":
        own = {key: value for key, value in own.items() if key not in DQN_ARGUMENTS}
    actions: dict[str, list[ActionSpace]] = {"sac": ["box"], "dqn": ["discrete"]}
    spaces = actions.get(name, base.needs.action_spaces)
    return base.model_copy(
        update={
            "name": name,
            "title": name.upper(),
            "summary": "Reinforcement learning on the true reward, or on a saved one.",
            "paper": None,
            "implementation": _IMPLEMENTATIONS[name],
            "needs": Needs(demos=False, true_reward=True, action_spaces=spaces),
            "role": "method",
            "hyperparameters": own,
        }
    )
