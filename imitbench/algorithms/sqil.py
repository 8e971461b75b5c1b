"""Soft Q imitation learning: off-policy learning with reward 1 for the expert, 0 for the learner.

Source: Reddy, Dragan and Levine 2020, "SQIL: Imitation Learning via Reinforcement Learning with
Sparse Rewards".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import stable_baselines3 as sb3
import torch as th
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from imitbench.algorithms import base
from imitbench.algorithms.demonstration_fit import (
    check_action_space,
    common_time_limit,
    expert_transitions,
)
from imitbench.data import types
from imitbench.rl.dqn import DQN
from imitbench.rl.sac import SAC
from imitbench.rl.training import algorithm_state, load_algorithm_state
from imitbench.util.actions import scale_actions
from imitbench.util.logger import HierarchicalLogger

Array = npt.NDArray[Any]

_LEAN: dict[type[OffPolicyAlgorithm], type[OffPolicyAlgorithm]] = {sb3.DQN: DQN, sb3.SAC: SAC}


class SQILReplayBuffer(ReplayBuffer):
    """A replay buffer: half of each batch from the learner (reward 0), half from the expert (1).

    In a batch of odd size the expert has one more. The learner's transitions come first.

    Values are bootstrapped where a time limit truncated an episode, for learner and expert.
    Otherwise the last steps of a task without an end would get low values. A demonstration counts
    as truncated if its last info has `TimeLimit.truncated`, or if it is a trajectory as long as the
    environment's time limit.

    Args:
        buffer_size: Capacity for the learner's transitions.
        observation_space: Space of one observation; not a `Dict`.
        action_space: Space of one action.
        demonstrations: Demonstrations; `None` to set them later.
        device: Device of the samples.
        n_envs: Number of the learner's environments.
        optimize_memory_usage: Must be `False`.
        time_limit: Maximum episode length in steps, if there is one.

    Attributes:
        expert_buffer: The demonstrations; `None` before they are set.

    Raises:
        ValueError: Demonstrations do not fit, observations are dictionaries, or
            `optimize_memory_usage` is set.
    """

    expert_buffer: ReplayBuffer | None = None

    def __init__(
        self,
        buffer_size: int,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        demonstrations: base.AnyTransitions | None,
        device: th.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        time_limit: int | None = None,
    ) -> None:
        if isinstance(observation_space, spaces.Dict):
            raise ValueError("observation_space: dictionaries of observations are not supported")
        if optimize_memory_usage:
            raise ValueError("optimize_memory_usage must be False, to store truncations")
        super().__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.time_limit = time_limit
        if demonstrations is not None:
            self.set_demonstrations(demonstrations)

    def set_demonstrations(self, demonstrations: base.AnyTransitions) -> None:
        """Replaces the demonstrations.

        Actions in a box are clipped to its bounds and scaled to [-1, 1], as
        Stable-Baselines3 stores the learner's.

        Args:
            demonstrations: Trajectories, transitions with next observations, or a finite
                iterable of batches of them.

        Raises:
            ValueError: Demonstrations are empty, not finite, of other shapes, or lack a field.
        """
        check_action_space(self.action_space)
        fields = expert_transitions(
            demonstrations, self.observation_space, self.action_space, self.time_limit
        )
        count = len(fields["acts"])
        expert = ReplayBuffer(count, self.observation_space, self.action_space, self.device)
        shape = (count, *self.obs_shape)  # (1,) for discrete observations
        expert.observations[:, 0] = fields["obs"].reshape(shape)
        expert.next_observations[:, 0] = fields["next_obs"].reshape(shape)
        acts = scale_actions(fields["acts"], self.action_space)
        expert.actions[:, 0] = acts.reshape(count, self.action_dim)
        expert.dones[:, 0] = fields["dones"]
        expert.timeouts[:, 0] = fields["timeouts"]
        expert.rewards.fill(1.0)
        expert.full = True
        self.expert_buffer = expert

    def add(
        self,
        obs: Array,
        next_obs: Array,
        action: Array,
        reward: Array,
        done: Array,
        infos: list[dict[str, Any]],
    ) -> None:
        """Adds one transition of the learner per environment, with reward 0, whatever is given."""
        super().add(obs, next_obs, action, np.zeros(self.n_envs, np.float32), done, infos)

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        """Draws a batch of learner and expert together, with replacement.

        Raises:
            ValueError: There are no demonstrations.
        """
        expert = self.expert_buffer
        if expert is None:
            raise ValueError("no demonstrations; call set_demonstrations() first")
        share = batch_size // 2
        # From NumPy's global generator, as in the base class.
        own = np.random.randint(0, self.size() * self.n_envs, size=share)  # noqa: NPY002
        theirs = np.random.randint(0, expert.buffer_size, size=batch_size - share)  # noqa: NPY002

        def both(name: str) -> Array:
            return np.concatenate(
                [_rows(getattr(self, name), own), _rows(getattr(expert, name), theirs)]
            )

        rewards = np.zeros((batch_size, 1), np.float32)
        rewards[share:] = 1.0
        arrays = {
            "observations": self._normalize_obs(both("observations"), env),
            "actions": both("actions"),
            "next_observations": self._normalize_obs(both("next_observations"), env),
            "dones": (both("dones") * (1 - both("timeouts"))).reshape(-1, 1),
            "rewards": rewards,
        }
        return ReplayBufferSamples(
            **{name: th.as_tensor(array, device=self.device) for name, array in arrays.items()}
        )


def _rows(array: Array, index: Array) -> Array:
    """Transitions of an array of shape (steps, n_envs, …); number `t * n_envs + i` is (t, i)."""
    return array.reshape(-1, *array.shape[2:]).take(index, axis=0)


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
        lean: Whether Stable-Baselines3's DQN and SAC are replaced by `imitbench.rl.dqn.DQN`
            and `imitbench.rl.sac.SAC`, which compute the same faster.

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

    def _pass_on_logger(self, logger: HierarchicalLogger) -> None:
        self.rl_algo.set_logger(logger)

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
