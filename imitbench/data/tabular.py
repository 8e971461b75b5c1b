"""Tabular environments: validates their model and decodes states from observations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ATTRIBUTES = (
    "transition_matrix",
    "reward_matrix",
    "initial_state_dist",
    "horizon",
    "state_space",
    "action_space",
)


@dataclass(frozen=True)
class TabularModel:
    """Complete model of a tabular environment.

    Attributes:
        transitions: Probability of each next state, shape (states, actions, states), in the
            environment's data type. Terminal states lead to themselves.
        rewards: Rewards, shape (states, actions, states) or a prefix of it, float64; zero in
            terminal states.
        initial: Distribution of the first state, shape (states,), float64.
        horizon: Length of every episode that does not reach a terminal state.
        observations: Observation of each state, shape (states, size); `None` if the
            observation is the number of the state.
        terminal: Whether an episode ends in a state, shape (states,), bool.
    """

    transitions: Array
    rewards: Floats
    initial: Floats
    horizon: int
    observations: Array | None
    terminal: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, env: Any, argument: str = "env") -> TabularModel:
        """Reads the model of an environment, ignoring wrappers.

        An environment without a horizon gets its registered time limit.

        Args:
            env: An environment with the attributes of `seals.base_envs.TabularModelPOMDP`.
            argument: Argument name in errors.

        Raises:
            ValueError: It is not tabular, has no finite horizon, has invalid probabilities, or
                starts in a state of probability zero.
        """
        inner = getattr(env, "unwrapped", env)
        absent = [name for name in _ATTRIBUTES if not hasattr(inner, name)]
        if absent:
            raise ValueError(
                f"{argument}: {type(inner).__name__} is not a tabular environment (it lacks "
                f"{', '.join(absent)}); use one like seals.base_envs.TabularModelPOMDP"
            )
        horizon = inner.horizon
        if horizon is None:
            horizon = getattr(getattr(env, "spec", None), "max_episode_steps", None)
        if isinstance(horizon, bool) or not isinstance(horizon, int | np.integer) or horizon < 1:
            raise ValueError(
                f"{argument}: its horizon must be a positive whole number, not {horizon}"
            )
        transitions = np.asarray(inner.transition_matrix)
        initial = np.asarray(inner.initial_state_dist, dtype=np.float64)
        _check_distributions(transitions, f"{argument}: transition_matrix")
        _check_distributions(initial, f"{argument}: initial_state_dist")
        _check_start(inner, initial, argument)
        rewards = np.asarray(inner.reward_matrix, dtype=np.float64)
        terminal = _terminal_states(inner, len(transitions))
        if terminal.any():
            transitions, rewards = transitions.copy(), rewards.copy()
            transitions[terminal] = np.eye(len(terminal))[terminal][:, None]
            rewards[terminal] = 0
        model = cls(
            transitions,
            rewards,
            initial / initial.sum(),
            int(horizon),
            getattr(inner, "observation_matrix", None),
            terminal,
        )
        model.check_rewards(rewards, f"{argument}: reward_matrix")
        return model

    @property
    def states(self) -> int:
        """Number of states."""
        return int(self.transitions.shape[0])

    @property
    def actions(self) -> int:
        """Number of actions."""
        return int(self.transitions.shape[1])

    def check_rewards(self, rewards: Array, argument: str) -> None:
        """Raises a `ValueError` unless rewards are finite and have a matching shape."""
        if not rewards.ndim or rewards.shape != self.transitions.shape[: rewards.ndim]:
            raise ValueError(
                f"{argument}: has shape {rewards.shape}; it needs {self.transitions.shape} or the "
                "first one or two numbers of it (states, actions, next states)"
            )
        if not np.isfinite(rewards).all():
            raise ValueError(f"{argument}: not all rewards are finite")

    def check_policy(self, pi: Array, argument: str = "pi") -> None:
        """Raises a `ValueError` unless `pi` is a policy for each step of an episode."""
        expected = (self.horizon, self.states, self.actions)
        if pi.shape != expected:
            raise ValueError(
                f"{argument}: has shape {pi.shape}; it needs {expected} (steps, states, actions)"
            )
        _check_distributions(pi, argument)

    def rewards_by_action(self, rewards: Array) -> Floats:
        """Returns the expected reward of each action in each state.

        Args:
            rewards: Shape (states, actions, states) or a prefix of it.

        Returns:
            Shape (states, actions), float64; a read-only view if nothing is averaged.
        """
        if rewards.ndim == 3:
            expected: Floats = np.einsum("sat,sat->sa", self.transitions, rewards, dtype=np.float64)
            return expected
        full = rewards if rewards.ndim == 2 else rewards[:, None]
        return np.broadcast_to(full.astype(np.float64), (self.states, self.actions))


class ObservationDecoder:
    """Maps observations to states.

    Args:
        n_states: Number of states.
        observations: Observation of each state, shape (states, size); `None` if the
            observation is the number of the state. State numbers and one-hot vectors are
            always accepted.
    """

    def __init__(self, n_states: int, observations: Array | None) -> None:
        self.n_states = n_states
        self._table = None if observations is None else np.asarray(observations, np.float64) + 0.0
        if self._table is None:
            return
        # A random projection separates all observations; matches are then compared completely.
        size = self._table.shape[1]
        self._direction = np.random.default_rng(0).normal(size=size)
        keys = self._table @ self._direction
        self._order = np.argsort(keys)
        self._keys = keys[self._order]

    def __call__(self, observations: Any, argument: str = "observations") -> Ints:
        """Decodes a batch.

        Args:
            observations: State numbers, shape (n,) or (n, 1); one-hot vectors, shape
                (n, states); or observations, shape (n, size).
            argument: Argument name in errors.

        Returns:
            State numbers, shape (n,), int64.

        Raises:
            ValueError: They have another form, or do not match exactly one state.
        """
        array = np.asarray(observations)
        if array.ndim == 1 or (array.ndim == 2 and array.shape[1] == 1 and self._width != 1):
            return self._numbers(array.reshape(-1), argument)
        if array.ndim == 2 and array.shape[1] == self.n_states:
            chosen = array.argmax(axis=1)
            if _is_one_hot(array, chosen):
                return self._numbers(chosen, argument)
        if array.ndim == 2 and array.shape[1] == self._width:
            return self._look_up(array.astype(np.float64), argument)
        raise ValueError(
            f"{argument}: shape {array.shape} is neither that of {self.n_states} states nor that "
            "of the environment's observations"
        )

    @property
    def _width(self) -> int | None:
        return None if self._table is None else self._table.shape[1]

    def _numbers(self, array: Array, argument: str) -> Ints:
        whole = array.dtype.kind in "iu" or (
            array.dtype.kind == "f" and bool((array == np.floor(array)).all())
        )
        if not whole or (len(array) and not 0 <= array.min() <= array.max() < self.n_states):
            raise ValueError(
                f"{argument}: holds values that are not states, whole numbers from 0 to "
                f"{self.n_states - 1}"
            )
        return array.astype(np.int64)

    def _look_up(self, array: Floats, argument: str) -> Ints:
        assert self._table is not None, "a width requires a table"
        self._check_distinct(argument)
        keys = array @ self._direction
        right = np.searchsorted(self._keys, keys).clip(0, self.n_states - 1)
        left = (right - 1).clip(0)
        nearer = np.abs(self._keys[left] - keys) <= np.abs(self._keys[right] - keys)
        found: Ints = self._order[np.where(nearer, left, right)]
        wrong = (self._table[found] != array).any(axis=1)
        if wrong.any():
            raise ValueError(
                f"{argument}: {array[wrong.argmax()]} is the observation of no state of the "
                "environment"
            )
        return found

    def _check_distinct(self, argument: str) -> None:
        assert self._table is not None, "called only with a table"
        same = (np.diff(self._table[self._order], axis=0) == 0).all(axis=1)
        if same.any():
            start = int(same.argmax())
            first, second = sorted(self._order[start : start + 2].tolist())
            raise ValueError(
                f"{argument}: states {first} and {second} have the same observation; pass "
                "state numbers instead"
            )


def state_space_of(env: Any) -> spaces.Discrete:
    """Returns the state space of a tabular environment, ignoring wrappers."""
    space: spaces.Discrete = getattr(env, "unwrapped", env).state_space
    return space


def _terminal_states(inner: Any, count: int) -> npt.NDArray[np.bool_]:
    """Returns which states end an episode at any step, shape (count,), bool."""
    ends = getattr(inner, "terminal", None)
    if not callable(ends):
        return np.zeros(count, dtype=bool)
    return np.array([bool(ends(state, 0)) for state in np.arange(count)], dtype=bool)


def _check_start(inner: Any, initial: Floats, argument: str) -> None:
    """Checks that a sampled first state has positive probability; restores the generator."""
    draw, rng = getattr(inner, "initial_state", None), getattr(inner, "np_random", None)
    if not callable(draw) or not isinstance(rng, np.random.Generator):
        return
    before = rng.bit_generator.state
    state = int(draw())
    rng.bit_generator.state = before
    if not initial[state] > 0:
        raise ValueError(
            f"{argument}: starts in state {state}, which initial_state_dist gives probability 0"
        )


def _check_distributions(array: Array, argument: str) -> None:
    sums = array.sum(axis=-1, dtype=np.float64)
    if not ((array >= 0).all() and np.allclose(sums, 1, rtol=0, atol=1e-5)):
        raise ValueError(f"{argument}: must be probabilities, which sum to 1 along the last axis")


def _is_one_hot(array: Array, chosen: npt.NDArray[np.intp]) -> bool:
    ones = array[np.arange(len(array)), chosen] == 1
    return bool(ones.all()) and np.count_nonzero(array) == len(array)
