"""Makes a policy explore by occasionally switching to random actions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.vector.utils import batch_space
from stable_baselines3.common.vec_env import VecEnv

from imitbench.data.policy_callable import AnyPolicy, policy_to_callable
from imitbench.util.util import make_seeds

Array = npt.NDArray[Any]
States = tuple[Array, ...] | None


class ExplorationWrapper:
    """A policy that alternates between a given policy and a random one.

    After each action, the current policy is kept with probability `1 - switch_prob`; otherwise the
    next one is drawn: the random policy with probability `random_prob`, else the given one. All
    environments switch at the same time.

    Args:
        policy: Policy that should explore.
        venv: Environments that it acts in.
        random_prob: Probability of the random policy at each draw, in [0, 1].
        switch_prob: Probability of a draw after each action, in [0, 1].
        rng: Generator of all draws, including random actions.
        deterministic_policy: Whether the given policy takes its most likely action; must be
            `False` for functions.
        stateful: Whether the given policy may have a memory. It misses the steps at which random
            actions are taken.

    Attributes:
        wrapped_policy: The given policy, as a function.
        current_policy: The policy of the next action: `wrapped_policy` or the random one.

    Raises:
        ValueError: A probability is out of range.
    """

    def __init__(
        self,
        policy: AnyPolicy,
        venv: VecEnv,
        random_prob: float,
        switch_prob: float,
        rng: np.random.Generator,
        deterministic_policy: bool = False,
        *,
        stateful: bool = False,
    ) -> None:
        for name, value in (("random_prob", random_prob), ("switch_prob", switch_prob)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} must lie in [0, 1], not {value}")
        self.random_prob = random_prob
        self.switch_prob = switch_prob
        self.venv = venv
        self.rng = rng
        self.wrapped_policy = policy_to_callable(policy, venv, deterministic_policy, rng=rng)
        self.current_policy = self.wrapped_policy
        self._stateful = stateful
        self._random_actions = batch_space(venv.action_space, venv.num_envs)
        self._random_actions.seed(make_seeds(rng))
        self._switch()

    def __call__(
        self,
        observation: Array | dict[str, Array],
        input_state: States = None,
        episode_start: Array | None = None,
    ) -> tuple[Array, States]:
        """Chooses actions.

        Args:
            observation: Observations, shape (n_envs, *observation_shape).
            input_state: State of the wrapped policy.
            episode_start: Whether an episode starts, shape (n_envs,), bool.

        Returns:
            Actions, and the state of the wrapped policy.

        Raises:
            ValueError: There is a state, although the policy is not `stateful`.
        """
        actions, following = self.current_policy(observation, input_state, episode_start)
        if not self._stateful and not (input_state is None and following is None):
            raise ValueError(
                "policy has a state, which would miss the steps of random actions; pass "
                "stateful=True to accept this"
            )
        if self.rng.random() < self.switch_prob:
            self._switch()
        return actions, following

    def state_dict(self) -> dict[str, Any]:
        """Returns the current policy and the random actions' generator; the caller saves `rng`."""
        return {
            "acts_randomly": self.current_policy == self._random_policy,
            "random_actions": self._random_actions.np_random.bit_generator.state,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the result of `state_dict`."""
        self._choose(state["acts_randomly"])
        self._random_actions.np_random.bit_generator.state = state["random_actions"]

    def _random_policy(
        self, observation: Array | dict[str, Array], state: States, episode_start: Array | None
    ) -> tuple[Array, States]:
        del observation, episode_start
        return self._random_actions.sample(), state

    def _switch(self) -> None:
        self._choose(bool(self.rng.random() < self.random_prob))

    def _choose(self, randomly: bool) -> None:
        self.current_policy = self._random_policy if randomly else self.wrapped_policy
