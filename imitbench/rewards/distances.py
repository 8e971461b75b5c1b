"""Distances between reward functions: 0 for rewards that order behavior alike, 1 for opposites.

Potential shaping and positive scale do not change which policies are optimal (Ng, Harada and
Russell 1999), so EPIC and DARD ignore both: they compare canonical forms by Pearson's correlation.
EPIC asks for rewards of any pair of states; DARD only for steps that a transition model takes,
which matters for learned rewards, as they are arbitrary elsewhere.

Every distance is sqrt((1 - correlation) / 2). One of 0.5 means a correlation of 0.5, and
sqrt(1/2) = 0.71 none.

Sources: Gleave, Dennis, Legg, Russell and Leike 2021, "Quantifying Differences in Reward
Functions", arXiv:2006.13900 (EPIC, definitions 4.1 to 4.7); Wulfe, Balakrishna, Ellis, Mercat,
McAllister and Gaidon 2022, "Dynamics-Aware Comparison of Learned Reward Functions",
arXiv:2201.10081 (DARD, definition 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from imitbench.rewards.reward_function import RewardFn

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

# Most transitions in one call of a reward.
_AT_ONCE = 65_536


@dataclass(frozen=True)
class Steps:
    """Transitions on which rewards are compared: the coverage distribution.

    Attributes:
        obs: Observations, shape (n, …).
        acts: Actions, shape (n, …).
        next_obs: Observations after the actions, shape (n, …).
        dones: Whether the episode ended, shape (n,), bool.
    """

    obs: Array
    acts: Array
    next_obs: Array
    dones: Array

    def __len__(self) -> int:
        return len(self.acts)


class ConstantRewardError(ValueError):
    """A reward has no spread, so that it has no distance from another one.

    Attributes:
        side: Which of both rewards: 0 or 1.
    """

    def __init__(self, side: int) -> None:
        super().__init__("a reward is constant, or becomes so without its shaping: no distance")
        self.side = side


def pearson_distance(one: Array, other: Array, weights: Array | None = None) -> float:
    """Distance by Pearson's correlation.

    Args:
        one: Numbers of any shape, such as rewards of steps or returns of episodes.
        other: Numbers that belong to them, of the same shape.
        weights: How much each pair counts, not negative, same shape; `None` for equal weights.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: Shapes differ, a number is not finite, or one side is constant, so that the
            correlation is undefined.
    """
    return canonical_distance((one, other), weights)


def canonical_distance(
    sides: tuple[Array, Array],
    weights: Array | None = None,
    before: tuple[Array, Array] | None = None,
) -> float:
    """Pearson's distance of rewards in canonical form.

    Args:
        sides: Both rewards, of any shape.
        weights: See `pearson_distance`.
        before: The rewards with their shaping, beside which rounding is told from a difference;
            `None` for `sides`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: See `pearson_distance`; a `ConstantRewardError` if one side is constant.
    """
    x, y = (np.asarray(side, np.float64) for side in sides)
    w = np.ones(x.shape) if weights is None else np.asarray(weights, np.float64)
    if not x.shape == y.shape == w.shape:
        raise ValueError(f"shapes must be equal, not {x.shape}, {y.shape} and {w.shape}")
    counted = w > 0
    w = w[counted] / w[counted].sum()
    x, y = (
        _standardized(values[counted], w, float(np.abs(given).max(initial=0.0)), side)
        for side, (values, given) in enumerate(zip((x, y), before or (x, y), strict=True))
    )
    # Equal to sqrt((1 - correlation) / 2), and exact where the correlation is close to 1.
    return float(min(1.0, np.sqrt(w @ np.square(x - y)) / 2))


def _standardized(values: Floats, weights: Floats, scale: float, side: int) -> Floats:
    if not np.isfinite(values).all():
        raise ValueError("rewards must be finite")
    centred = values - weights @ values
    deviation = float(np.sqrt(weights @ np.square(centred)))
    # Learned rewards have the precision of float32.
    if deviation <= 1e-7 * scale:
        raise ConstantRewardError(side)
    return np.asarray(centred / deviation)


def spearman_distance(one: Array, other: Array) -> float:
    """Distance by Spearman's rank correlation; ties get their mean rank.

    Args:
        one: Numbers of any shape.
        other: Numbers that belong to them, of the same shape.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: See `pearson_distance`.
    """
    from scipy.stats import rankdata

    x, y = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("rewards must be finite")
    return pearson_distance(rankdata(x).reshape(x.shape), rankdata(y).reshape(y.shape))


# Tabular rewards, exactly.


def canonical_tabular(
    reward: Array, discount: float, states: Array | None = None, actions: Array | None = None
) -> Floats:
    """Canonical form of a tabular reward by EPIC (definition 4.1).

    It is R(s, a, s') + E[g R(s', A, S') - R(s, A, S') - g R(S, A, S')] with the discount g, for
    independent S, S' and A.

    Args:
        reward: Shape (states, actions, states), or a prefix of it.
        discount: Discount factor of the shaping that is removed.
        states: Distribution of S and S', shape (states,); uniform when `None`.
        actions: Distribution of A, shape (actions,); uniform when `None`.

    Returns:
        Shape (states, actions, states).
    """
    table = _table(reward, 1 if actions is None else len(actions))
    n_states, n_actions, _ = table.shape
    d_states, d_actions = _distribution(states, n_states), _distribution(actions, n_actions)
    mean = np.einsum("saz,a,z->s", table, d_actions, d_states)
    shaped = table + discount * mean[None, None, :] - mean[:, None, None]
    return np.asarray(shaped - discount * (d_states @ mean))


def epic_tabular(
    one: Array,
    other: Array,
    discount: float,
    *,
    states: Array | None = None,
    actions: Array | None = None,
    coverage: Array | None = None,
) -> float:
    """EPIC distance of tabular rewards, exactly.

    Args:
        one: Shape (states, actions, states), or a prefix of it.
        other: The same.
        discount: Discount factor.
        states: Distribution of states in the canonical form, shape (states,); uniform when `None`.
        actions: That of actions, shape (actions,).
        coverage: Probabilities of the transitions that are compared, shape (states, actions,
            states); those of independent states and actions when `None`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: Shapes do not fit, or see `pearson_distance`.
    """
    n_states, n_actions = len(one), max(_n_actions(one), _n_actions(other))
    d_states, d_actions = _distribution(states, n_states), _distribution(actions, n_actions)
    if coverage is None:
        coverage = np.einsum("s,a,z->saz", d_states, d_actions, d_states)
    forms = (
        canonical_tabular(one, discount, d_states, d_actions),
        canonical_tabular(other, discount, d_states, d_actions),
    )
    return canonical_distance(forms, coverage, (one, other))


def dard_tabular(
    one: Array,
    other: Array,
    discount: float,
    transitions: Array,
    *,
    actions: Array | None = None,
    coverage: Array | None = None,
) -> float:
    """DARD of tabular rewards, exactly.

    Args:
        one: Shape (states, actions, states), or a prefix of it.
        other: The same.
        discount: Discount factor.
        transitions: Probability of each next state, shape (states, actions, states).
        actions: Distribution of actions, shape (actions,); uniform when `None`.
        coverage: Probabilities of the transitions that are compared, shape (states, actions,
            states); uniform states, `actions` and `transitions` when `None`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: Shapes do not fit, or see `pearson_distance`.
    """
    model = np.asarray(transitions, np.float64)
    n_states, n_actions, _ = model.shape
    d_actions = _distribution(actions, n_actions)
    if coverage is None:
        coverage = model * d_actions[None, :, None] / n_states
    forms = (
        _dard_form(_table(one, n_actions), discount, model, d_actions),
        _dard_form(_table(other, n_actions), discount, model, d_actions),
    )
    return canonical_distance(forms, coverage, (one, other))


def _dard_form(table: Floats, discount: float, model: Floats, actions: Floats) -> Floats:
    """R(s, a, s') + E[g R(s', A, S'') - R(s, A, S') - g R(S', A, S'')], S' from s and S'' from s'.

    One action A is taken in both states.
    """
    if table.shape != model.shape:
        raise ValueError(f"a reward has shape {table.shape}, transitions have {model.shape}")
    mean = np.einsum("saz,saz,a->s", table, model, actions)
    # Reward of each action between the states that it leads to, shape (states, states).
    between = np.einsum("a,sax,zay,xay->sz", actions, model, model, table, optimize=True)
    shaped = table + discount * mean[None, None, :] - mean[:, None, None]
    return np.asarray(shaped - discount * between[:, None, :])


def _n_actions(reward: Array) -> int:
    """Number of actions that a tabular reward tells apart."""
    return np.shape(reward)[1] if np.ndim(reward) > 1 else 1


def _table(reward: Array, n_actions: int) -> Floats:
    """A reward of states, of states and actions, or of transitions, as one of transitions."""
    table = np.asarray(reward, np.float64)
    if not 1 <= table.ndim <= 3:
        raise ValueError(f"a tabular reward has 1 to 3 axes, not {table.ndim}")
    n_states = len(table)
    n_actions = max(n_actions, _n_actions(table))
    table = table.reshape(table.shape + (1,) * (3 - table.ndim))
    return np.array(np.broadcast_to(table, (n_states, n_actions, n_states)))


def _distribution(given: Array | None, size: int) -> Floats:
    if given is None:
        return np.full(size, 1 / size)
    found = np.asarray(given, np.float64)
    if found.shape != (size,) or (found < 0).any() or not np.isclose(found.sum(), 1):
        raise ValueError(f"must be a distribution over {size} values, not {found}")
    return found


# Any rewards, from samples.


def canonical_rewards(
    reward_fn: RewardFn, steps: Steps, states: Array, actions: Array, discount: float
) -> Floats:
    """Rewards of steps in EPIC's canonical form, up to a constant that no distance sees.

    Args:
        reward_fn: The reward; also asked for steps between states that do not follow each other.
        steps: Transitions.
        states: Sample of the states S', shape (m, …).
        actions: Sample of the actions A, shape (m, …).
        discount: Discount factor of the shaping that is removed.

    Returns:
        Shape (n,), float64.
    """
    means = _means(reward_fn, np.concatenate([steps.obs, steps.next_obs]), actions, states)
    before, after = np.split(means, 2)
    return np.asarray(step_rewards(reward_fn, steps) + discount * after - before)


def epic(
    one: RewardFn,
    other: RewardFn,
    steps: Steps,
    *,
    discount: float,
    states: Array | None = None,
    actions: Array | None = None,
) -> float:
    """EPIC distance of any rewards, estimated from samples.

    It takes n times m rewards of each function, and more of them the smaller the error.

    Args:
        one: A reward, such as `RewardNet.predict`.
        other: Another one.
        steps: Transitions that are compared, n of them.
        discount: Discount factor.
        states: Sample of states for the canonical form, shape (m, …); next states of `steps` when
            `None`.
        actions: Sample of actions, shape (m, …); those of `steps` when `None`.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: See `pearson_distance`.
    """
    drawn_states = steps.next_obs if states is None else states
    drawn_actions = steps.acts if actions is None else actions
    if len(drawn_states) != len(drawn_actions):
        raise ValueError(
            f"states and actions must be equally many, not {len(drawn_states)} and "
            f"{len(drawn_actions)}"
        )
    # Actions of steps belong to their next states: another order makes them independent.
    drawn_actions = np.roll(drawn_actions, len(drawn_actions) // 2, axis=0)
    forms = (
        canonical_rewards(one, steps, drawn_states, drawn_actions, discount),
        canonical_rewards(other, steps, drawn_states, drawn_actions, discount),
    )
    return canonical_distance(forms, before=(step_rewards(one, steps), step_rewards(other, steps)))


def dard(
    one: RewardFn,
    other: RewardFn,
    steps: Steps,
    model: Callable[[Array, Array], Array],
    *,
    actions: Array,
    discount: float,
) -> float:
    """DARD of any rewards, estimated from samples.

    Args:
        one: A reward.
        other: Another one.
        steps: Transitions that are compared, n of them.
        model: Draws next observations, shape (n, …), for observations and actions.
        actions: Sample of actions, shape (m, …).
        discount: Discount factor.

    Returns:
        A number in [0, 1].

    Raises:
        ValueError: See `pearson_distance`.
    """
    forms = (
        dard_rewards(one, steps, model, actions=actions, discount=discount),
        dard_rewards(other, steps, model, actions=actions, discount=discount),
    )
    return canonical_distance(forms, before=(step_rewards(one, steps), step_rewards(other, steps)))


def dard_rewards(
    reward_fn: RewardFn,
    steps: Steps,
    model: Callable[[Array, Array], Array],
    *,
    actions: Array,
    discount: float,
) -> Floats:
    """Rewards of steps in DARD's canonical form.

    Args:
        reward_fn: The reward.
        steps: Transitions.
        model: See `dard`.
        actions: Sample of actions, shape (m, …).
        discount: Discount factor of the shaping that is removed.

    Returns:
        Shape (n,), float64.
    """
    form = step_rewards(reward_fn, steps)
    never = np.zeros(len(steps), bool)
    for action in actions:
        acts = np.broadcast_to(action, (len(steps), *np.shape(action)))
        first, second = model(steps.obs, acts), model(steps.next_obs, acts)
        follows = Steps(steps.next_obs, acts, second, never)
        instead = Steps(steps.obs, acts, first, never)
        between = Steps(first, acts, second, never)
        change = discount * (step_rewards(reward_fn, follows) - step_rewards(reward_fn, between))
        form = form + (change - step_rewards(reward_fn, instead)) / len(actions)
    return form


def step_rewards(reward_fn: RewardFn, steps: Steps) -> Floats:
    """Computes the rewards of steps, by calls with a limited number of them.

    Args:
        reward_fn: The reward.
        steps: Transitions, n of them.

    Returns:
        Shape (n,), float64.
    """
    fields = (steps.obs, steps.acts, steps.next_obs, steps.dones)
    parts = [
        np.asarray(reward_fn(*(field[start : start + _AT_ONCE] for field in fields)), np.float64)
        for start in range(0, len(steps), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.zeros(0)


def _means(reward_fn: RewardFn, obs: Array, acts: Array, next_obs: Array) -> Floats:
    """Mean reward in each observation over sampled pairs of action and next observation."""
    count, drawn = len(obs), len(acts)
    at_once = max(1, _AT_ONCE // drawn)
    none = np.zeros(at_once * drawn, bool)
    found = np.empty(count)
    for start in range(0, count, at_once):
        part = obs[start : start + at_once]
        repeated = Steps(
            np.repeat(part, drawn, axis=0),
            np.tile(acts, (len(part),) + (1,) * (acts.ndim - 1)),
            np.tile(next_obs, (len(part),) + (1,) * (next_obs.ndim - 1)),
            none[: len(part) * drawn],
        )
        rewards = step_rewards(reward_fn, repeated)
        found[start : start + len(part)] = rewards.reshape(len(part), drawn).mean(axis=1)
    return found
