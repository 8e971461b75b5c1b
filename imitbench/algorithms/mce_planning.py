"""Planning on tabular environments, soft and not: values, policies, occupancies, and measures.

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
Array = npt.NDArray[Any]

_LARGEST_EXPONENT = 690.0
"""Up to e to this power, and down to its inverse, numbers are normal in double precision."""
_SPARSE_FROM = 2**15
_SPARSE_DENSITY = 0.1


class _DenseDynamics:
    """Products with a small or dense transition matrix.

    Rows are ordered by action, then state, so that the states of an action are contiguous.

    Args:
        transitions: Shape (actions * states, states).
        discount: Factor for the values of next states.
    """

    def __init__(self, transitions: Floats, discount: float) -> None:
        rows, states = transitions.shape
        # The reward is an additional column, for a value that is always one: it needs no extra
        # call.
        self._matrix = np.empty((rows, states + 1))
        np.multiply(transitions, discount, out=self._matrix[:, :states])
        self._rewards = self._matrix[:, states].reshape(-1, states)
        self._transposed = np.ascontiguousarray(transitions.T)
        self.flow = np.empty(rows)
        """Probability of each (action, state), shape (actions * states,)."""
        self.backup = self._matrix.dot  # the function np.dot takes a third longer
        """Arguments: next values followed by a one, shape (states + 1,), and the output array."""
        self.push = partial(self._transposed.dot, self.flow)
        """Argument: the output array for the distribution of next states under `flow`."""

    def set_rewards(self, rewards: Floats) -> None:
        """Sets what `backup` adds, shape (states,) or (actions, states)."""
        self._rewards[...] = rewards

    def expect(self, values: Floats) -> Floats:
        """Expectations of values of shape (n, states), as (n, actions * states)."""
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
    """Plans repeatedly for changing rewards, in the same buffers.

    Args:
        model: Dynamics of the environment.
        discount: Discount factor, in [0, 1].

    Attributes:
        model: Dynamics of the environment.
        policy: Policy of the last plan, shape (horizon, actions, states); overwritten by the next
            plan.

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
        # Values of one step in each row, followed by the one for the reward's column.
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
        """Computes soft values and the softly optimal policy.

        Args:
            rewards: Rewards, shape (states,) or (states, actions).

        Raises:
            ValueError: Rewards are not finite.
        """
        low, high = float(rewards.min()), float(rewards.max())
        actions = self.model.actions
        # With this shift, soft values stay within half the range of returns around zero.
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
        """Four calls per step: within the bound, exponentials need no maximum."""
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
        # Differences of large values have rounding errors.
        np.divide(self.policy, self.policy.sum(axis=1, keepdims=True), out=self.policy)

    def values(self) -> tuple[Floats, Floats]:
        """Soft values of the last plan.

        Returns:
            V, shape (horizon, states), and Q, shape (horizon, states, actions).
        """
        model = self.model
        to_go = np.cumsum(self._weights)[::-1, None]  # discounted steps from each step on
        values: Floats = self._values[:-1, :-1] + self._shift * to_go
        following = np.vstack([values[1:], np.zeros((1, model.states))])
        expected = self._dynamics.expect(following).reshape(-1, model.actions, model.states)
        rewards = self._rewards if self._rewards.ndim == 2 else self._rewards[:, None]
        return values, rewards + self._discount * expected.transpose(0, 2, 1)

    def occupancies(self, policy: Floats | None = None) -> Floats:
        """Computes the probability of each state at each step.

        Args:
            policy: Shape (horizon, actions, states); the last plan's when `None`.

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
    """Raises a `ValueError` unless `discount` is in [0, 1]."""
    if not 0 <= discount <= 1:
        raise ValueError(f"discount must lie in [0, 1], not {discount}")


def mce_partition_fh(
    env: Any, *, reward: npt.NDArray[Any] | None = None, discount: float = 1.0
) -> tuple[Floats, Floats, Floats]:
    """Soft Bellman backup over a finite horizon.

    Args:
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward: Rewards, shape (states,), (states, actions) or (states, actions, states); the
            environment's own when `None`.
        discount: Discount factor, in [0, 1].

    Returns:
        Soft values V, shape (horizon, states); soft action values Q, shape (horizon, states,
        actions); and the maximum causal entropy policy pi, same shape as Q. All float64.

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
    """Computes how often each state is visited.

    Args:
        env: A tabular environment, such as `seals.base_envs.TabularModelPOMDP`.
        reward: Rewards to plan for if `pi` is `None`; as in `mce_partition_fh`.
        pi: The policy, shape (horizon, states, actions); the softly optimal one when `None`.
        discount: Discount factor of the sum over steps, and of planning.

    Returns:
        Probabilities of states at each step, shape (horizon, states), and their discounted sum,
        shape (states,), which adds up to the horizon if `discount` is 1. All float64.

    Raises:
        ValueError: As in `mce_partition_fh`; or `pi` has another shape or is not a distribution.
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
    # Single-precision probabilities add up to 1 only in single precision.
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


def optimal_policy(model: TabularModel, rewards: Floats | None = None) -> tuple[Floats, Floats]:
    """Computes the policy with the highest expected undiscounted return.

    Args:
        model: Dynamics of the environment.
        rewards: Rewards, shape (states,), (states, actions) or (states, actions, states); the
            environment's own when `None`.

    Returns:
        The policy, shape (horizon, states, actions), deterministic, with ties going to the first
        action; and the values of states, shape (horizon, states).

    Raises:
        ValueError: `rewards` have another shape or are not finite.
    """
    if rewards is not None:
        model.check_rewards(rewards, "rewards")
    by_action = model.rewards_by_action(model.rewards if rewards is None else rewards)
    policy = np.zeros((model.horizon, model.states, model.actions))
    values = np.zeros((model.horizon + 1, model.states))
    states = np.arange(model.states)
    # Actions whose values differ only by rounding are ties.
    rounding = 1e-12 * max(1.0, float(np.abs(by_action).max())) * model.horizon
    for step in reversed(range(model.horizon)):
        action_values = by_action + model.transitions @ values[step + 1]
        best = action_values.max(axis=1)
        chosen = (action_values >= best[:, None] - rounding).argmax(axis=1)
        policy[step, states, chosen] = 1
        values[step] = best
    return policy, values[:-1]


def policy_value(env: Any, pi: Array) -> float:
    """Expected undiscounted return of a policy under the environment's own reward.

    Args:
        env: A tabular environment.
        pi: A policy, shape (horizon, states, actions).

    Raises:
        ValueError: `env` is not tabular, or the policy does not fit it.
    """
    model = TabularModel.of(env)
    occupancies, _ = mce_occupancy_measures(env, pi=pi)
    rewards = model.rewards_by_action(model.rewards)
    return float(np.einsum("ts,tsa,sa->", occupancies, np.asarray(pi, dtype=np.float64), rewards))


def policy_value_regret(env: Any, pi: Array) -> float:
    """By how much a policy falls short of the best one, in expected undiscounted return.

    Args:
        env: A tabular environment.
        pi: A policy, shape (horizon, states, actions).

    Returns:
        At least 0, up to rounding.

    Raises:
        ValueError: `env` is not tabular, or the policy does not fit it.
    """
    model = TabularModel.of(env)
    _, values = optimal_policy(model)
    return float(model.initial @ values[0]) - policy_value(env, pi)


def reward_rank_correlation(learnt: Array, true: Array, weights: Array | None = None) -> float:
    """Whether a learnt reward ranks states as the true one does: Spearman's correlation.

    Ranks do not change with the scale and the offset of a reward, which demonstrations leave
    open. They do change with potential shaping, which leaves optimal policies as they are: a low
    value alone does not make a reward wrong.

    Args:
        learnt: Learnt rewards, any shape, such as (states,).
        true: True rewards, same shape.
        weights: How much each entry counts, same shape, such as the expert's visits; all the same
            when `None`. Ranks are those among all entries of positive weight.

    Returns:
        From -1 to 1; not a number where one of the rewards is constant.

    Raises:
        ValueError: Shapes differ, numbers are not finite, or weights are negative or all zero.

    Source: Spearman 1904, "The Proof and Measurement of Association between Two Things".
    """
    from scipy.stats import rankdata

    counts = np.ones(np.shape(true)) if weights is None else np.asarray(weights, dtype=np.float64)
    arrays = {"learnt": np.asarray(learnt), "true": np.asarray(true), "weights": counts}
    for name, array in arrays.items():
        if array.shape != arrays["true"].shape:
            raise ValueError(
                f"{name}: has shape {array.shape}, but true rewards have {arrays['true'].shape}"
            )
        if not np.isfinite(array).all():
            raise ValueError(f"{name}: holds numbers that are not finite")
    if (counts < 0).any() or not (counts > 0).any():
        raise ValueError("weights: must not be negative, nor all zero")
    kept = counts > 0
    share = counts[kept] / counts[kept].sum()
    ranks = np.stack([rankdata(arrays[name][kept]) for name in ("learnt", "true")])
    ranks -= (ranks @ share)[:, None]
    covariance = (ranks * share) @ ranks.T
    scale = float(np.sqrt(covariance[0, 0] * covariance[1, 1]))
    return float(covariance[0, 1]) / scale if scale > 0 else float("nan")
