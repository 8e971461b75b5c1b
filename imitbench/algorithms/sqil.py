"""Soft Q imitation learning: off-policy learning with reward 1 for the expert, 0 for the learner.

Source: Reddy, Dragan and Levine 2020, "SQIL: Imitation Learning via Reinforcement Learning with
Sparse Rewards".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import stable_baselines3 as sb3
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms import base
from imitbench.algorithms.expert_transitions import common_time_limit
from imitbench.algorithms.sqil_buffer import SQILReplayBuffer
from imitbench.data import types
from imitbench.rl.lean_dqn import DQN
from imitbench.rl.lean_sac import SAC
from imitbench.rl.training import algorithm_state, load_algorithm_state
from imitbench.util.logger import HierarchicalLogger

__all__ = ["SQIL", "SQILReplayBuffer"]

_LEAN: dict[type[OffPolicyAlgorithm], type[OffPolicyAlgorithm]] = {sb3.DQN: DQN, sb3.SAC: SAC}


class SQIL(base.DemonstrationAlgorithm[types.Transitions]):
    """Soft Q imitation learning.

    With DQN, which has no entropy bonus, the learning is not soft; with SAC it is.

    Rewards are never negative, so the learner avoids ending an episode. That suits tasks in which
    the expert continues as long as it can, and tasks of fixed length. If the expert ends episodes
    on purpose, wrap the environment so that ends lead to an absorbing state.

    Args:
        venv: Environments in which the learner acts.
        demonstrations: Demonstrations; `None` to set them later.
        policy: Policy class, or its name in Stable-Baselines3.
        custom_logger: Where to log; a new logger when `None`.
        rl_algo_class: Off-policy algorithm of Stable-Baselines3: DQN for discrete actions; SAC,
            TD3 or DDPG for continuous ones.
        rl_kwargs: Keyword arguments of the algorithm, without a replay buffer.
        lean: Whether Stable-Baselines3's DQN and SAC are replaced by `imitbench.rl.lean_dqn.DQN`
            and `imitbench.rl.lean_sac.SAC`, which compute the same faster.

    Attributes:
        rl_algo: The off-policy algorithm in use.

    Raises:
        ValueError: `rl_kwargs` has a replay buffer, the algorithm is not off-policy or does not fit
            the action space, or demonstrations do not fit.
    """

    def __init__(
        self,
        *,
        venv: VecEnv,
        demonstrations: base.AnyTransitions | None,
        policy: str | type[BasePolicy],
        custom_logger: HierarchicalLogger | None = None,
        rl_algo_class: type[OffPolicyAlgorithm] = sb3.DQN,
        rl_kwargs: Mapping[str, Any] | None = None,
        lean: bool = True,
    ) -> None:
        options = dict(rl_kwargs or {})
        for name in ("replay_buffer_class", "replay_buffer_kwargs"):
            if name in options:
                raise ValueError(f"rl_kwargs: {name} is set by SQIL; leave it out")
        if not (isinstance(rl_algo_class, type) and issubclass(rl_algo_class, OffPolicyAlgorithm)):
            raise ValueError(
                f"rl_algo_class: {rl_algo_class} is not an off-policy algorithm of "
                "Stable-Baselines3"
            )
        self.venv = venv
        chosen = _LEAN.get(rl_algo_class, rl_algo_class) if lean else rl_algo_class
        self.rl_algo = _build(
            chosen,
            policy=policy,
            env=venv,
            replay_buffer_class=SQILReplayBuffer,
            replay_buffer_kwargs={"demonstrations": None, "time_limit": common_time_limit(venv)},
            **options,
        )
        super().__init__(demonstrations=demonstrations, custom_logger=custom_logger)
        self.rl_algo.set_logger(self.logger)

    @property
    def policy(self) -> BasePolicy:
        """The policy that imitates the demonstrations."""
        return self.rl_algo.policy

    @property
    def logger(self) -> HierarchicalLogger:
        """Where the algorithm logs."""
        return self._logger

    @logger.setter
    def logger(self, value: HierarchicalLogger) -> None:
        self._logger = value
        self.rl_algo.set_logger(value)

    @property
    def expert_buffer(self) -> Any:
        """The demonstrations as a `ReplayBuffer`; `None` without demonstrations."""
        return self._replay_buffer.expert_buffer

    @property
    def _replay_buffer(self) -> SQILReplayBuffer:
        buffer = self.rl_algo.replay_buffer
        assert isinstance(buffer, SQILReplayBuffer), "the constructor asked for one"
        return buffer

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations; the learner's transitions stay in the replay buffer.

        Args:
            demonstrations: Trajectories, transitions with next observations, or a finite
                iterable of batches of them; see `SQILReplayBuffer` for the ends of episodes.

        Raises:
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
        """
        self._replay_buffer.set_demonstrations(demonstrations)

    def train(self, *, total_timesteps: int, tb_log_name: str = "SQIL", **kwargs: Any) -> None:
        """Trains the policy.

        Args:
            total_timesteps: Environment steps, summed over environments.
            tb_log_name: Name of the run in TensorBoard.
            **kwargs: Passed on to the algorithm's `learn`.

        Raises:
            ValueError: There are no demonstrations.
        """
        if self.expert_buffer is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        self.rl_algo.learn(total_timesteps=total_timesteps, tb_log_name=tb_log_name, **kwargs)

    def state_dict(self) -> dict[str, Any]:
        """Everything that further training depends on, the replay buffer included.

        Excludes the demonstrations, and the state of the environments and of torch's and NumPy's
        global generators.

        Returns:
            Tensors, arrays, numbers, strings, `None`, and lists and dictionaries of them.
        """
        return {"algorithm": algorithm_state(self.rl_algo)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned.

        Restore the environments before, and continue with `train(…, reset_num_timesteps=False)`.

        Args:
            state: The state of an instance with the same arguments and demonstrations.
        """
        load_algorithm_state(self.rl_algo, state["algorithm"])


def _build(cls: type[OffPolicyAlgorithm], **options: Any) -> OffPolicyAlgorithm:
    """Creates an algorithm; raises a `ValueError` if it does not support the action space."""
    space = options["env"].action_space
    try:
        return cls(**options)
    except AssertionError as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"rl_algo_class: {cls.__name__} does not fit action_space {space} ({reason})"
        ) from error
