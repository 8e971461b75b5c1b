"""Maximum entropy inverse reinforcement learning on tabular environments.

Source: Ziebart et al. 2008, "Maximum Entropy Inverse Reinforcement Learning". A path is as likely
as its dynamics allow, times the exponential of its return. Where dynamics are deterministic, this
is the distribution of maximum causal entropy (`imitbench.algorithms.mce_irl`). Elsewhere, the
agent of this model counts on luck: it weighs the outcomes of an action as if it chose them, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.algorithms.mce_irl import MCEIRL, MCEDemonstrations
from imitbench.algorithms.mce_planning import SoftPlanner
from imitbench.data.tabular import TabularModel
from imitbench.rewards.reward_nets import RewardNet
from imitbench.util.logger import HierarchicalLogger

Floats = npt.NDArray[np.float64]

__all__ = ["MaxEntIRL", "PathPlanner"]


class PathPlanner(SoftPlanner):
    """Plans for the distribution over paths of the paper's algorithm 1, over a finite horizon.

    The weight of a state is that of all paths from it to the horizon: the sum over actions of
    e^reward times the expected weight of the next state. A policy takes actions in proportion to
    their weights, and visits states by the true dynamics, as in the algorithm's last steps.

    Args:
        model: Dynamics of the environment.
    """

    def __init__(self, model: TabularModel) -> None:
        super().__init__(model)
        by_action = np.ascontiguousarray(model.transitions.transpose(1, 0, 2), dtype=np.float64)
        rows = by_action.reshape(-1, model.states)
        rows /= rows.sum(axis=1, keepdims=True)  # single precision adds up to about 1
        row, self._next = np.nonzero(rows)
        self._chances = rows[row, self._next]
        self._row = row
        self._first = np.searchsorted(row, np.arange(len(rows)))
        self._logs = np.zeros((model.horizon + 1, model.states))
        self._action_logs = np.empty_like(self.policy)

    def plan(self, rewards: Floats) -> None:
        """Computes weights of states and actions, and the policy.

        Args:
            rewards: Rewards, shape (states,) or (states, actions).

        Raises:
            ValueError: Rewards are not finite.
        """
        if not np.isfinite(rewards).all():
            raise ValueError("rewards are not finite, or too large")
        for step in reversed(range(self.model.horizon)):
            self._action_logs[step] = rewards.T + self._expected(self._logs[step + 1])
            np.logaddexp.reduce(self._action_logs[step], axis=0, out=self._logs[step])
        np.exp(self._action_logs - self._logs[:-1, None], out=self.policy)
        # Differences of large numbers have rounding errors.
        self.policy /= self.policy.sum(axis=1, keepdims=True)

    def _expected(self, logs: Floats) -> Floats:
        """Returns the log of the next state's expected weight, shape (actions, states)."""
        reached = logs[self._next]
        highest = np.maximum.reduceat(reached, self._first)
        weights = self._chances * np.exp(reached - highest[self._row])
        expected: Floats = highest + np.log(np.add.reduceat(weights, self._first))
        return expected.reshape(-1, self.model.states)

    def values(self) -> tuple[Floats, Floats]:
        """Logs of the weights of the last plan.

        Returns:
            Of states, shape (horizon, states), and of actions, shape (horizon, states, actions).
        """
        return self._logs[:-1].copy(), self._action_logs.transpose(0, 2, 1).copy()


class MaxEntIRL(MCEIRL):
    """Learns a reward of states under which paths like the expert's are most likely.

    It is trained as MCE IRL is, by the difference of visits, and differs in how it plans. There is
    no discount: the model is of whole paths.

    Args:
        demonstrations: As those of `MCEIRL`.
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward_net: Network of the state alone.
        rng: Draws the policy's actions.
        optimizer_cls: Class of the optimizer.
        optimizer_kwargs: Keyword arguments of the optimizer; a learning rate of 0.01 by default.
        linf_eps: Training ends when the visits of each state differ by at most this.
        grad_l2_eps: Training ends when the L2 norm of the gradient is at most this.
        log_interval: Iterations between log records; `None` for none.
        custom_logger: Where to log; a new logger when `None`.

    Raises:
        ValueError: As `MCEIRL`.
    """

    def __init__(
        self,
        demonstrations: MCEDemonstrations | None,
        env: Any,
        reward_net: RewardNet,
        rng: np.random.Generator,
        optimizer_cls: type[th.optim.Optimizer] = th.optim.Adam,
        optimizer_kwargs: Mapping[str, Any] | None = None,
        linf_eps: float = 1e-3,
        grad_l2_eps: float = 1e-4,
        log_interval: int | None = 100,
        *,
        custom_logger: HierarchicalLogger | None = None,
    ) -> None:
        super().__init__(
            demonstrations,
            env,
            reward_net,
            rng,
            optimizer_cls,
            optimizer_kwargs,
            1.0,
            linf_eps,
            grad_l2_eps,
            log_interval,
            custom_logger=custom_logger,
        )

    def _make_planner(self) -> SoftPlanner:
        return PathPlanner(self._model)
