"""Soft planning on tabular environments: values, policies and occupancies in batch form.

Source: Ziebart 2010, "Modeling Purposeful Adaptive Behavior with the Principle of Maximum Causal
Entropy", equations 9.1 to 9.3 and algorithm 9.3.
"""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.data.tabular import TabularModel

Floats = npt.NDArray[np.float64]

_LARGEST_EXPONENT = 690.0
"""Numbers up to e to this power, and down to its inverse, are ordinary double-precision ones."""
_SPARSE_FROM = 2**15
_SPARSE_DENSITY = 0.1


class _DenseDynamics:
    """Products with the transition matrix, for small or dense ones.

    Rows are ordered by action, then state, so that an action's states lie side by side.

    Args:
        transitions: Shape (actions * states, states).
        discount: Factor on the values of next states.
    """

    def __init__(self, transitions: Floats, discount: float) -> None:
        rows, states = transitions.shape
        # The reward is one more column, for a value that is always one: it costs no call.
        self._matrix = np.empty((rows, states + 1))
        np.multiply(transitions, discount, out=self._matrix[:, :states])
        self._rewards = self._matrix[:, states].reshape(-1, states)
        self._transposed = np.ascontiguousarray(transitions.T)
        self.flow = np.empty(rows)
        """Probability of each (action, state), shape (actions * states,)."""
        self.backup = self._matrix.dot  # as a method: the function takes a third longer
        """Called with next values and a one, shape (states + 1,), and an array for the result."""
        self.push = partial(self._transposed.dot, self.flow)
        """Called with an array for the distribution of the states that `flow` leads to."""

    def set_rewards(self, rewards: Floats) -> None:
        """Sets what `backup` adds, shape (states,) or (actions, states)."""
        self._rewards[...] = rewards

    def expect(self, values: Floats) -> Floats:
        """Expectations of many values, shape (n, states), as (n, actions * states)."""
        result: Floats = values @ self._transposed
        return result


class _SparseDynamics:
    """The same for large transition matrices that are mostly zero."""

    def __init__(self, transitions: Any, discount: float) -> None:
        from scipy import sparse

        rows, states = transitions.shape
        column = sparse.csr_array(np.ones((rows, 1)))
        self._matrix = sparse.hstack([transitions * discount, column], format="csr")
        self._matrix.sort_indices()
        self._last = self._matrix.indptr[1:] - 1
        self._transitions = transitions
        self._transposed = sparse.csr_array(transitions.T)
        self._shape = (rows // states, states)
        self.flow = np.empty(rows)

    def backup(self, values: Floats, out: Floats) -> None:
        np.copyto(out, self._matrix @ values)

    def set_rewards(self, rewards: Floats) -> None:
        self._matrix.data[self._last] = np.broadcast_to(rewards, self._shape).ravel()

    def push(self, out: Floats) -> None:
        np.copyto(out, self._transposed @ self.flow)

    def expect(self, values: Floats) -> Floats:
        result: Floats = np.asarray((self._transitions @ values.T).T)
        return result


class SoftPlanner:
    """Plans again and again for changing rewards, in the same buffers.

    Args:
        model: The environment.
        discount: Discount factor, from 0 to 1.

    Attributes:
        model: The environment.
        policy: Policy of the last plan, shape (horizon, actions, states), in which a state's
            actions lie far apart; overwritten by the next plan.

    Raises:
        ValueError: `discount` is out of range.
    """

    def __init__(self, model: TabularModel, discount: float = 1.0) -> None:
        check_discount(discount)
        horizon, states, actions = model.horizon, model.states, model.actions
        self.model = model
        self._discount = discount
        self._weights = discount ** np.arange(horizon, dtype=np.float64)
        self._total = float(self._weights.sum())
        self._dynamics = _make_dynamics(model, discount)
        self.policy = np.empty((horizon, actions, states))
        # Values of one step in each row, with the one that the reward's column is for.
        self._values = np.ones((horizon + 1, states + 1))
        self._values[horizon, :states] = 0
        self._sums = np.empty((horizon, states))
        self._occupancies = np.empty((horizon, states))
        flat = self.policy.reshape(horizon, -1)
        self._backward = [
            (self._values[t + 1], flat[t], self.policy[t], self._sums[t], self._values[t, :states])
            for t in reversed(range(horizon))
        ]
        self._occupancies[0] = model.initial
        self._forward = list(itertools.pairwise(self._occupancies))
        self._by_step = list(self.policy)
        self._shift = 0.0
        self._rewards: Floats = np.zeros((states, actions))

    def plan(self, rewards: Floats) -> None:
        """Computes soft values and the policy that is softly optimal.

        Args:
            rewards: Rewards of states, shape (states,), or of actions, (states, actions).

        Raises:
            ValueError: Rewards are not finite.
        """
        low, high = float(rewards.min()), float(rewards.max())
        actions = self.model.actions
        # Shifted so, soft values stay within half the spread of returns around zero.
        self._shift = (low + high) / 2 + math.log(actions)
        largest = (high - low) / 2 * self._total + math.log(actions)
        if not math.isfinite(largest):
            raise ValueError("rewards are not finite, or too large")
        self._rewards = rewards
        self._dynamics.set_rewards(rewards.T - self._shift)
        if largest <= _LARGEST_EXPONENT:
            self._plan_with_exponentials()
        else:
            self._plan_with_logarithms()

    def _plan_with_exponentials(self) -> None:
        """Four calls per step: exponentials need no maximum, which the bound makes safe."""
        backup, exp, log = self._dynamics.backup, np.exp, np.log
        add_up = np.ones(self.model.actions).dot
        for following, flat, by_action, total, values in self._backward:
            backup(following, flat)
            exp(flat, flat)
            add_up(by_action, total)
            log(total, values)
        np.divide(self.policy, self._sums[:, None], out=self.policy)

    def _plan_with_logarithms(self) -> None:
        """For returns of any size."""
        backup, reduce = self._dynamics.backup, np.logaddexp.reduce
        for following, flat, by_action, _, values in self._backward:
            backup(following, flat)
            reduce(by_action, axis=0, out=values)
        np.subtract(self.policy, self._values[:-1, None, :-1], out=self.policy)
        np.exp(self.policy, out=self.policy)
        # Rounding of large values shows in their differences.
        np.divide(self.policy, self.policy.sum(axis=1, keepdims=True), out=self.policy)

    def values(self) -> tuple[Floats, Floats]:
        """Soft values of the last plan.

        Returns:
            Values of states, shape (horizon, states), and of actions, (horizon, states, actions).
        """
        model = self.model
        to_go = np.cumsum(self._weights)[::-1, None]  # discounted steps from each step on
        values: Floats = self._values[:-1, :-1] + self._shift * to_go
        following = np.vstack([values[1:], np.zeros((1, model.states))])
        expected = self._dynamics.expect(following).reshape(-1, model.actions, model.states)
        rewards = self._rewards if self._rewards.ndim == 2 else self._rewards[:, None]
        return values, rewards + self._discount * expected.transpose(0, 2, 1)

    def occupancies(self, policy: Floats | None = None) -> Floats:
        """Probability of each state at each step.

        Args:
            policy: Shape (horizon, actions, states); that of the last plan when `None`.

        Returns:
            Shape (horizon, states); overwritten by the next call.
        """
        by_step = self._by_step if policy is None else policy
        push, multiply = self._dynamics.push, np.multiply
        flow = self._dynamics.flow.reshape(self.model.actions, self.model.states)
        for actions, (current, following) in zip(by_step, self._forward, strict=False):
            multiply(actions, current, flow)
            push(following)
        return self._occupancies

    def cumulate(self, occupancies: Floats) -> Floats:
        """Discounted sum of `occupancies` over steps, shape (states,)."""
        total: Floats = np.dot(self._weights, occupancies)
        return total


def check_discount(discount: float) -> None:
    """Raises a `ValueError` unless `discount` is from 0 to 1."""
    if not 0 <= discount <= 1:
        raise ValueError(f"discount must be from 0 to 1, not {discount}")


def mce_partition_fh(
    env: Any, *, reward: npt.NDArray[Any] | None = None, discount: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Soft Bellman backup over a finite horizon.

    Args:
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward: Rewards, shape (states,), (states, actions) or (states, actions, states); the
            environment's own when `None`.
        discount: Discount factor, from 0 to 1.

    Returns:
        Soft values V, shape (horizon, states); Q, shape (horizon, states, actions); and the
        policy of maximum causal entropy pi, same shape as Q. All float64.

    Raises:
        ValueError: `env` is not tabular or has no finite horizon, `reward` has another shape or
            is not finite, or `discount` is out of range.
    """
    planner = SoftPlanner(TabularModel.of(env), discount)
    _plan(planner, reward)
    values, action_values = planner.values()
    return values, action_values, np.ascontiguousarray(planner.policy.transpose(0, 2, 1))


def mce_occupancy_measures(
    env: Any,
    *,
    reward: npt.NDArray[Any] | None = None,
    pi: npt.NDArray[Any] | None = None,
    discount: float = 1.0,
) -> tuple[Floats, Floats]:
    """How often each state is visited.

    Args:
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward: Rewards to plan for when there is no `pi`; as in `mce_partition_fh`.
        pi: The policy, shape (horizon, states, actions); the softly optimal one when `None`.
        discount: Discount factor of the sum over steps, and of planning.

    Returns:
        Probabilities of states at each step, shape (horizon, states), and their discounted sum,
        shape (states,), which adds up to the horizon if `discount` is 1. All float64.

    Raises:
        ValueError: As in `mce_partition_fh`; `pi` has another shape or holds no probabilities.
    """
    planner = SoftPlanner(TabularModel.of(env), discount)
    policy = None
    if pi is None:
        _plan(planner, reward)
    else:
        given = np.asarray(pi, dtype=np.float64)
        planner.model.check_policy(given)
        policy = np.ascontiguousarray(given.transpose(0, 2, 1))
    occupancies = planner.occupancies(policy)
    return occupancies, planner.cumulate(occupancies)


def _plan(planner: SoftPlanner, reward: npt.NDArray[Any] | None) -> None:
    model = planner.model
    rewards = model.rewards if reward is None else np.asarray(reward)
    model.check_rewards(rewards, "reward")
    planner.plan(model.rewards_by_action(rewards))


def _make_dynamics(model: TabularModel, discount: float) -> _DenseDynamics | _SparseDynamics:
    states, actions = model.states, model.actions
    # Single-precision probabilities add up to 1 only in that precision.
    sums = model.transitions.sum(axis=-1, dtype=np.float64)
    size = model.transitions.size
    if size >= _SPARSE_FROM and np.count_nonzero(model.transitions) <= _SPARSE_DENSITY * size:
        from scipy import sparse

        state, action, following = np.nonzero(model.transitions)
        chances = model.transitions[state, action, following] / sums[state, action]
        entries = (chances, (action * states + state, following))
        return _SparseDynamics(
            sparse.csr_array(entries, shape=(actions * states, states)), discount
        )
    ordered = (model.transitions / sums[:, :, None]).transpose(1, 0, 2)
    return _DenseDynamics(np.ascontiguousarray(ordered).reshape(-1, states), discount)
