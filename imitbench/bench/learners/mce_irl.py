"""The learners for IRL by maximum causal entropy, and by maximum entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th

from imitbench.algorithms.maxent_irl import MaxEntIRL
from imitbench.algorithms.mce_irl import MCEIRL, TabularRewardNet
from imitbench.algorithms.mce_planning import policy_value_regret, reward_rank_correlation
from imitbench.bench.environments import make_environment
from imitbench.bench.learner import Callback, Checkpoint, Learner, Task, no_checkpoint
from imitbench.bench.learners.batch_learner import CURVE_POINTS
from imitbench.cards.algorithm import Scalar
from imitbench.data.tabular import TabularModel
from imitbench.policies.tabular import ObservationTabularPolicy
from imitbench.records.runs import Budget
from imitbench.rewards.reward_nets import BasicRewardNet, RewardNet
from imitbench.util.logger import configure

if TYPE_CHECKING:
    from stable_baselines3.common.policies import BasePolicy

    from imitbench.data.types import TrajectoryWithRew


class MCEIRLLearner(Learner):
    """Learns a reward, and plans for it with the environment's model.

    The environment's own reward is used only for the curve: the policy's regret, and the rank
    correlation of the learned reward.
    """

    METRICS = "mce_irl"
    """First part of the names of its metrics."""

    def setup(
        self,
        task: Task,
        demos: Sequence[TrajectoryWithRew],
        rng: np.random.Generator,
        device: str,
    ) -> None:
        """Builds the reward and `MCEIRL` with the demonstrations.

        Raises:
            ValueError: The environment is not tabular.
        """
        options = task.hyperparameters
        self._env = make_environment(task.environment)
        self._model = TabularModel.of(self._env, "task")
        self._iterations = 0
        self._irl = self._make_irl(
            options,
            demonstrations=list(demos),
            env=self._env,
            reward_net=_make_reward_net(self._env, task).to(device),
            rng=rng,
            optimizer_kwargs={"lr": options["learning_rate"]},
            linf_eps=float(options["linf_eps"] or 0.0),
            grad_l2_eps=float(options["grad_l2_eps"] or 0.0),
            log_interval=None,
            custom_logger=configure(format_strs=[]),
        )

    def _make_irl(self, options: Mapping[str, Scalar], **given: Any) -> MCEIRL:
        return MCEIRL(**given, discount=float(options["discount"] or 0.0))

    def train(
        self, budget: Budget, callback: Callback, checkpoint: Checkpoint = no_checkpoint
    ) -> int:
        """Trains for at most `budget.amount` iterations."""
        stretch = max(1, budget.amount // CURVE_POINTS)
        while self._iterations < budget.amount:
            iterations = min(stretch, budget.amount - self._iterations)
            visits = self._irl.train(iterations)
            self._iterations += iterations
            callback(self._iterations, self._describe(visits))
            checkpoint()
        return 0

    def _describe(self, visits: Any) -> dict[str, float]:
        wanted = self._irl.demo_state_om
        assert wanted is not None, "setup() passes demonstrations"
        difference = np.abs(visits - wanted)
        name = self.METRICS
        metrics = {
            f"{name}/linf_delta": float(difference.max()),
            f"{name}/visit_distance": float(difference.sum() / wanted.sum() / 2),
            f"{name}/regret": policy_value_regret(self._env, self._irl.policy.pi),
        }
        if self._model.rewards.ndim == 1:
            rewards = self._irl.rewards()
            correlation = reward_rank_correlation(rewards, self._model.rewards, wanted)
            if np.isfinite(correlation):
                metrics[f"{name}/reward_rank_correlation"] = correlation
        return metrics

    def policy(self) -> BasePolicy:
        """The policy for the learned reward, as a function of observations."""
        return ObservationTabularPolicy.of(self._env, self._irl.policy.pi)

    def reward(self) -> RewardNet:
        """The learned reward, of the state."""
        return self._irl.reward_net

    def state_dict(self) -> dict[str, Any]:
        """State of `MCEIRL`, and the number of iterations so far."""
        return {"irl": self._irl.state_dict(), "iterations": self._iterations}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._irl.load_state_dict(state["irl"])
        self._iterations = state["iterations"]


class MaxEntIRLLearner(MCEIRLLearner):
    """The same for maximum entropy over paths, which has no discount."""

    METRICS = "maxent_irl"

    def _make_irl(self, options: Mapping[str, Scalar], **given: Any) -> MCEIRL:
        return MaxEntIRL(**given)


def _make_reward_net(env: Any, task: Task) -> RewardNet:
    options: dict[str, Any] = dict(task.hyperparameters)
    if options["tabular_reward"]:
        return TabularRewardNet.of(env)
    th.manual_seed(task.seed)
    return BasicRewardNet(
        env.observation_space,
        env.action_space,
        use_action=False,
        hid_sizes=[options["hidden_size"]] * options["hidden_layers"],
    )
