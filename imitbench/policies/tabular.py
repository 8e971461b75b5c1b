"""Tabular policies: a distribution over actions for each step and state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy

from imitbench.data.tabular import ObservationDecoder, TabularModel, state_space_of

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]


class TabularPolicy(BasePolicy):
    """A tabular policy that observes states.

    The `state` of `predict` is the current step of each episode.

    Args:
        state_space: Discrete space, used as the observation space.
        action_space: Discrete space.
        pi: `pi[t, s, a]` is the probability of action `a` in state `s` at step `t`, shape
            (horizon, states, actions).
        rng: Samples actions; `None` for torch's global generator, as in other policies.

    Attributes:
        pi: The table, shape (horizon, states, actions), float64.
        rng: Generator of actions, or `None`.

    Raises:
        ValueError: A space is not discrete, or `pi` has another shape or is not a distribution.
    """

    pi: Floats

    def __init__(
        self,
        state_space: gym.Space[Any],
        action_space: gym.Space[Any],
        pi: Array,
        rng: np.random.Generator | None = None,
    ) -> None:
        _check_discrete(state_space, "state_space")
        _check_discrete(action_space, "action_space")
        super().__init__(observation_space=state_space, action_space=action_space)
        self._n_states = _size(state_space)
        self.rng = rng
        self.set_pi(pi)

    def set_pi(self, pi: Array) -> None:
        """Replaces the table.

        Raises:
            ValueError: It does not fit the spaces or is not a distribution.
        """
        table = np.array(pi, dtype=np.float64)
        expected = (self._n_states, _size(self.action_space))
        if table.ndim != 3 or not len(table) or table.shape[1:] != expected:
            raise ValueError(
                f"pi: has shape {table.shape}; it needs (horizon, {expected[0]}, {expected[1]})"
            )
        self._use(table)

    def _use(self, table: Floats) -> None:
        cumulative = table.cumsum(axis=2)
        totals = cumulative[:, :, -1:]
        if not ((table >= 0).all() and np.allclose(totals, 1, rtol=0, atol=1e-5)):
            raise ValueError("pi: must contain probabilities, which sum to 1 over actions")
        self.pi = table
        # Normalized, so that rounding never selects an action of probability zero.
        self._cumulative = cumulative / totals

    def forward(self, *args: Any, **kwargs: Any) -> th.Tensor:
        """Not available: this policy cannot be trained.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(f"{type(self).__name__} cannot be trained; use predict()")

    def _predict(
        self, observation: th.Tensor | dict[str, th.Tensor], deterministic: bool = False
    ) -> th.Tensor:
        raise NotImplementedError("a table needs the step: use predict()")

    def predict(
        self,
        observation: Array | dict[str, Array],
        state: tuple[Array, ...] | None = None,
        episode_start: Array | None = None,
        deterministic: bool = False,
    ) -> tuple[Array, tuple[Array, ...] | None]:
        """Chooses actions.

        Args:
            observation: Numbers of states, shape (n,).
            state: Step of each episode, a tuple of one array of shape (n,), as returned by the last
                call; `None` if all episodes start.
            episode_start: Whether episodes start with this observation, shape (n,), bool.
            deterministic: Whether to take the most likely action; the first of equally likely ones.

        Returns:
            Actions, shape (n,), int64, and the new state.

        Raises:
            ValueError: The observation is a dictionary or contains values that are not states,
                lengths differ, or an episode is longer than the table.
        """
        if isinstance(observation, Mapping):
            raise ValueError("observation: a table needs states, not a dictionary")
        states = self._states_of(np.asarray(observation))
        steps = _steps(state, episode_start, len(states))
        if len(steps) and steps.max() >= len(self.pi):
            raise ValueError(
                f"state: an episode is at step {steps.max()}, but the table has {len(self.pi)} "
                "steps; pass episode_start at the start of an episode"
            )
        if deterministic:
            actions = self.pi[steps, states].argmax(axis=1)
        else:
            draws = self._uniform(len(states))
            # Inverse transform sampling: the number of cumulative probabilities up to the draw.
            actions = (self._cumulative[steps, states] <= draws[:, None]).sum(axis=1)
        return actions + int(getattr(self.action_space, "start", 0)), (steps + 1,)

    def probabilities(self, observation: Array, steps: npt.NDArray[np.int64]) -> Floats:
        """Returns the probabilities of actions.

        Args:
            observation: n states, or n observations of states.
            steps: Step of each in its episode, shape (n,).

        Returns:
            Shape (n, actions).

        Raises:
            ValueError: The observation contains values that are not states, or a step exceeds the
                table.
        """
        if len(steps) and steps.max() >= len(self.pi):
            raise ValueError(f"steps: the table has {len(self.pi)}, not {steps.max() + 1}")
        chances: Floats = self.pi[steps, self._states_of(np.asarray(observation))]
        return chances

    def _states_of(self, observation: Array) -> npt.NDArray[np.int64]:
        start = int(getattr(self.observation_space, "start", 0))
        states = observation.reshape(-1).astype(np.int64) - start
        if len(states) and not 0 <= states.min() <= states.max() < self._n_states:
            raise ValueError(f"observation: contains values that are not states: {observation}")
        return states

    def _uniform(self, count: int) -> Floats:
        """Samples uniformly from [0, 1), shape (count,), float64."""
        if self.rng is not None:
            return self.rng.random(count)
        draws: Floats = th.rand(count, dtype=th.float64).numpy()
        return draws


class ObservationTabularPolicy(TabularPolicy):
    """A tabular policy that observes the environment's observations and can be stored.

    Until `load_state_dict`, the table is uniform and no observation is known; `of` creates a
    complete policy for an environment.

    Args:
        observation_space: That of the environment.
        action_space: Discrete space.
        horizon: Length of the table, in steps.
        n_states: Number of states in the table.
        rng: Samples actions; `None` for torch's global generator.
    """

    table: th.Tensor
    observations: th.Tensor

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        horizon: int,
        n_states: int,
        rng: np.random.Generator | None = None,
    ) -> None:
        _check_discrete(action_space, "action_space")
        if horizon < 1 or n_states < 1:
            raise ValueError(f"horizon {horizon} and n_states {n_states} must be positive")
        BasePolicy.__init__(self, observation_space, action_space)
        self._n_states = n_states
        self.rng = rng
        actions = _size(action_space)
        self.register_buffer("table", th.full((horizon, n_states, actions), 1 / actions).double())
        width = int(np.prod(observation_space.shape or ()))
        is_state = isinstance(observation_space, spaces.Discrete)
        self.register_buffer(
            "observations", th.zeros((0 if is_state else n_states, width)).double()
        )
        self._refresh()

    @classmethod
    def of(
        cls, env: Any, pi: Array, rng: np.random.Generator | None = None
    ) -> ObservationTabularPolicy:
        """Creates the policy of a tabular environment.

        Args:
            env: See `TabularModel.of`.
            pi: Shape (horizon, states, actions).
            rng: Samples actions; `None` for torch's global generator.

        Raises:
            ValueError: `env` is not tabular, or `pi` does not fit it.
        """
        model = TabularModel.of(env)
        model.check_policy(np.asarray(pi))
        space = state_space_of(env) if model.observations is None else env.observation_space
        policy = cls(space, env.action_space, model.horizon, model.states, rng)
        state = {"table": th.as_tensor(np.array(pi, np.float64))}
        state["observations"] = (
            policy.observations
            if model.observations is None
            else th.as_tensor(np.array(model.observations, np.float64))
        )
        policy.load_state_dict(state)
        return policy

    def load_state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """Loads both tables."""
        result = super().load_state_dict(*args, **kwargs)
        self._refresh()
        return result

    def _refresh(self) -> None:
        self._use(self.table.cpu().numpy())
        known = self.observations.cpu().numpy() if len(self.observations) else None
        self._decode = ObservationDecoder(self._n_states, known)

    def set_pi(self, pi: Array) -> None:
        """Replaces the table.

        Raises:
            ValueError: Its shape differs from the current one, or it is not a distribution.
        """
        table = np.array(pi, dtype=np.float64)
        if table.shape != tuple(self.table.shape):
            raise ValueError(f"pi: has shape {table.shape}; it needs {tuple(self.table.shape)}")
        self._use(table)
        self.table.copy_(th.from_numpy(table))

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {
            "observation_space": self.observation_space,
            "action_space": self.action_space,
            "horizon": len(self.pi),
            "n_states": self._n_states,
        }

    def _states_of(self, observation: Array) -> npt.NDArray[np.int64]:
        if len(self.observations):
            observation = observation.reshape(-1, self.observations.shape[1])
        return self._decode(observation, "observation")


def _steps(
    state: tuple[Array, ...] | None, starts: Array | None, count: int
) -> npt.NDArray[np.int64]:
    if state is None:
        return np.zeros(count, dtype=np.int64)
    if len(state) != 1 or state[0].shape != (count,):
        shapes = [array.shape for array in state]
        raise ValueError(f"state: has shapes {shapes}; it needs one array of shape ({count},)")
    steps = state[0].astype(np.int64)
    if starts is not None:
        steps[np.asarray(starts, dtype=bool)] = 0
    return steps


def _check_discrete(space: gym.Space[Any], argument: str) -> None:
    if not isinstance(space, spaces.Discrete):
        raise ValueError(f"{argument}: must be Discrete, not {space}")


def _size(space: gym.Space[Any]) -> int:
    return int(space.n)  # type: ignore[attr-defined]
