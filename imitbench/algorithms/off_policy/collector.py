"""Acting in environments, and how transitions are encoded for the agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch as th
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv

from imitbench.algorithms.off_policy.agent import Agent
from imitbench.algorithms.off_policy.encoding import ObservationEncoder, encode_each
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.util.actions import scale_actions, unscale_actions

Array = npt.NDArray[Any]
Rows = dict[str, Array]


class Collector:
    """Steps the environments of all seeds together.

    Args:
        venv: Environments: those of the first seed, those of the second, and so on.
        encoders: Encoder of each seed.
        streams: Randomness of each seed.

    Attributes:
        n_envs: Environments of each seed.
        lengths: Lengths, in steps, of the episodes that ended in the last step.
        ended: Whether the episode of each environment ended in the last step, for good or by its
            time limit; shape (environments of all seeds,), bool.
        rewards: The environments' rewards of the last step, shape (environments of all seeds,);
            only for the agent on the true reward.

    Raises:
        ValueError: The number of environments is not a multiple of the number of seeds.
    """

    def __init__(
        self, venv: VecEnv, encoders: Sequence[ObservationEncoder], streams: SeedStreams
    ) -> None:
        if venv.num_envs % len(streams):
            raise ValueError(
                f"venv has {venv.num_envs} environments, which {len(streams)} seeds cannot share"
            )
        self._venv = venv
        self._encoders = encoders
        self._streams = streams
        self.n_envs = venv.num_envs // len(streams)
        shape = len(streams), self.n_envs, encoders[0].features
        self._encoded: Array = np.zeros(shape, np.float32)
        self._act: Callable[[], th.Tensor] | None = None
        self._obs: Array | None = None
        self._steps = np.zeros(venv.num_envs, np.int64)
        self.lengths: list[int] = []
        self.ended: Array = np.zeros(venv.num_envs, bool)
        self.rewards: Array = np.zeros(venv.num_envs, np.float32)

    def step(self, agent: Agent | None) -> list[Rows]:
        """Takes a step in every environment.

        Args:
            agent: Chooses the actions; `None` for random ones.

        Returns:
            Encoded transitions of each seed, by the fields of `Batch`.
        """
        if self._obs is None:
            self._obs = np.asarray(self._venv.reset())
        space = self._venv.action_space
        obs = encode_each(self._encoders, self._obs)
        acts = self._random() if agent is None else self._chosen(agent, obs)
        executed = unscale_actions(acts.reshape(-1, *(space.shape or ())), space)
        stepped, self.rewards, dones, infos = self._venv.step(executed)
        self._obs = np.asarray(stepped)
        self._steps += 1
        self.ended = np.array(dones)
        self.lengths = self._steps[dones].tolist()
        self._steps[dones] = 0
        reached = np.array(self._obs) if self.lengths else self._obs
        terminal = np.array(dones)
        for index in np.flatnonzero(dones):
            reached[index] = infos[index]["terminal_observation"]
            terminal[index] = not infos[index].get("TimeLimit.truncated", False)
        next_obs = encode_each(self._encoders, reached)
        shape = next_obs.shape[:2]  # seeds, environments of each
        rows = _rows(obs, acts.reshape(*shape, *acts.shape[1:]), next_obs, terminal.reshape(shape))
        return [
            _with_absorbing(encoder, {name: values[seed] for name, values in rows.items()})
            for seed, encoder in enumerate(self._encoders)
        ]

    def _random(self) -> Array:
        space = self._venv.action_space
        if isinstance(space, spaces.Discrete):
            uniform = self._streams.uniform(self.n_envs).cpu().numpy()
            return np.asarray((uniform * space.n).astype(np.int64).ravel())
        uniform = self._streams.uniform(self.n_envs, spaces.flatdim(space)).cpu().numpy()
        return np.asarray((2 * uniform - 1).reshape(self._venv.num_envs, -1))

    def _chosen(self, agent: Agent, encoded: Array) -> Array:
        self._encoded[:] = encoded
        if self._act is None:
            self._act = self._make_act(agent)
        acts = self._act().cpu().numpy()
        return np.asarray(acts.reshape(self._venv.num_envs, *acts.shape[2:]))

    def _make_act(self, agent: Agent) -> Callable[[], th.Tensor]:
        """What chooses the actions in the observations in `_encoded`."""
        encoded = th.from_numpy(self._encoded)

        def act() -> th.Tensor:
            given = self._streams.given(lambda host: host.copy_(encoded), self._encoded.shape)
            return agent.act(given)

        return self._streams.recorded(act)

    def state_dict(self) -> dict[str, Any]:
        """Latest observations and lengths of the running episodes."""
        obs = None if self._obs is None else self._obs.copy()
        return {"obs": obs, "steps": self._steps.copy()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self._obs = None if state["obs"] is None else np.array(state["obs"])
        self._steps = np.array(state["steps"])


def encoded_demonstrations(
    encoder: ObservationEncoder, rows: Rows, space: spaces.Space[Any]
) -> Rows:
    """Encodes demonstrations, with transitions into and inside the absorbing state.

    Args:
        encoder: The encoder.
        rows: From `expert_transitions`, n of them.
        space: Space of one action.

    Returns:
        The fields of `Batch`, each of shape (m, …) with m at least n. Rewards are 0.
    """
    acts = scale_actions(rows["acts"], space)
    if isinstance(space, spaces.Box):
        acts = acts.reshape(len(acts), -1).astype(np.float32)
    terminal = rows["dones"].astype(bool) & ~rows["timeouts"]
    obs, next_obs = encoder(rows["obs"]), encoder(rows["next_obs"])
    return _with_absorbing(encoder, _rows(obs, acts, next_obs, terminal))


def _rows(obs: Array, acts: Array, next_obs: Array, terminal: Array) -> Rows:
    return {
        "obs": obs,
        "acts": acts,
        "next_obs": next_obs,
        "terminal": terminal.astype(np.float32),
        "rewards": np.zeros(terminal.shape, np.float32),
    }


def _with_absorbing(encoder: ObservationEncoder, rows: Rows) -> Rows:
    """Transitions of one seed, with those into and inside the absorbing state."""
    if not encoder.absorbing or not rows["terminal"].any():
        return rows
    ended = rows["terminal"] > 0
    count = int(ended.sum())
    absorbing = encoder.absorbing_states(count)
    rows["next_obs"][ended] = absorbing
    rows["terminal"][:] = 0.0
    acts = rows["acts"]
    still = np.zeros((count, *acts.shape[1:]), acts.dtype)
    loops = _rows(absorbing, still, absorbing, np.zeros(count, bool))
    return {name: np.concatenate([rows[name], loops[name]]) for name in rows}
