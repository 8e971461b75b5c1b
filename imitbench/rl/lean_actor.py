"""Acting with an actor-critic policy in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import ActorCriticPolicy, BasePolicy

from imitbench.data.policy_callable import PolicyCallable, States
from imitbench.rl.policy_twin import PolicyTwin, why_no_twin

Array = npt.NDArray[Any]


class LeanActor:
    """Draws the actions of an algorithm's policy, in a fraction of the time of `predict`.

    The draws are those of `predict` from the same state of torch's global generator, up to
    rounding.

    Args:
        algorithm: An algorithm for which `can_act` is true.
    """

    def __init__(self, algorithm: BaseAlgorithm) -> None:
        self._algorithm = algorithm
        self._twin: PolicyTwin | None = None

    def policy(self) -> PolicyCallable:
        """The policy with its parameters as they are now, until the next call of this method.

        Raises:
            ValueError: They are not finite.
        """
        current = self._algorithm.policy
        assert isinstance(current, ActorCriticPolicy), "can_act said so"
        if self._twin is None or not self._twin.fits(current):
            self._twin = PolicyTwin(current)
        twin = self._twin
        twin.load()
        space = current.action_space
        box = space if isinstance(space, spaces.Box) else None
        shape = (-1, *(space.shape or ()))

        def act(
            obs: Array | dict[str, Array], state: States, starts: Array | None
        ) -> tuple[Array, States]:
            del starts
            assert isinstance(obs, np.ndarray), "can_act said so"
            actions = twin.head.sample(twin.network.act(twin.features(obs))).reshape(shape)
            if box is not None:
                actions = np.minimum(np.maximum(actions, box.low), box.high)
            return actions, state

        return act


def can_act(algorithm: BaseAlgorithm) -> bool:
    """Whether `LeanActor` draws what the algorithm's `predict` would draw."""
    policy = algorithm.policy
    if why_no_twin(policy) is not None:
        return False
    cls: Any = type(policy)
    return (
        type(algorithm).predict is BaseAlgorithm.predict
        and cls.predict is BasePolicy.predict
        and cls.obs_to_tensor is BasePolicy.obs_to_tensor
        and cls._predict is ActorCriticPolicy._predict
        and not any(each._forward_hooks or each._forward_pre_hooks for each in policy.modules())
    )
