"""The expert of PushT: plans pushes by sampling on the simulator."""

from __future__ import annotations

import hashlib
import math
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
import torch as th

from imitbench.cards.algorithm import Scalar
from imitbench.policies.pusht_pushes import MOST_STEPS, Plan, PushSettings, plan_pushes
from imitbench.policies.pusht_world import PushTState, PushTWorld
from imitbench.policies.scripted import ScriptedPolicy, check_boxes, check_number
from imitbench.policies.stateful import State

_OBSERVATION = 5
_TOLERANCE = np.array([8.0, 8.0, 5.0, 5.0, 0.06])  # of what a plan expects


class PushTPlannerPolicy(ScriptedPolicy):
    """Pushes the block to the goal by plans of one push each.

    At the start, after each push, and wherever an observation is not what the plan expected, a plan
    is drawn from the best ones that `imitbench.policies.pusht_pushes.plan_pushes` finds, with
    probabilities proportional to exp(-cost / temperature). The plans start at different points of
    the block, so that demonstrations are multimodal. With `deterministic`, the best plan is taken,
    and its search draws numbers that depend on the observation alone.

    Observations are the 5 numbers of `gym_pusht/PushT-v0` with `obs_type="state"`.

    Args:
        observation_space: Box of shape (5,).
        action_space: Box of shape (2,).
        samples: Pushes that are simulated at first for each plan.
        temperature: In pixels; a smaller one gives better and more similar plans.
        free_speed: Speed of the target on the way to a push, in pixels per step.
        push_speed: Speed of the target in a push, in pixels per step.

    Raises:
        ValueError: A space or a setting is invalid; the message begins with its name.

    Source: the task is that of Chi et al. 2023, "Diffusion Policy: Visuomotor Policy Learning via
    Action Diffusion", arXiv:2303.04137; the planner is this package's.
    """

    def __init__(
        self,
        observation_space: gym.Space[Any],
        action_space: gym.Space[Any],
        *,
        samples: int = 90,
        temperature: float = 0.5,
        free_speed: float = 24.0,
        push_speed: float = 12.0,
    ) -> None:
        super().__init__(observation_space, action_space)
        check_boxes(self, _OBSERVATION, 2)
        for name, value, least, most in (
            ("samples", samples, 30, 10_000),
            ("temperature", temperature, 0.001, 100),
            ("free_speed", free_speed, 1, 100),
            ("push_speed", push_speed, 1, 100),
        ):
            check_number(name, value, least, most, whole=name == "samples")
        self._temperature = temperature
        self._search = PushSettings(samples, free_speed=free_speed, push_speed=push_speed)
        self._world: PushTWorld | None = None

    @property
    def settings(self) -> dict[str, Scalar]:
        """The keyword arguments that build this policy again."""
        return {
            "samples": self._search.samples,
            "temperature": self._temperature,
            "free_speed": self._search.free_speed,
            "push_speed": self._search.push_speed,
        }

    def initial_state(self, n_envs: int) -> State:
        """No plan: its actions, what each leads to, number of its steps, and the next step."""
        return (
            th.zeros((n_envs, MOST_STEPS, 2), dtype=th.float32),
            th.zeros((n_envs, MOST_STEPS, _OBSERVATION), dtype=th.float64),
            th.zeros(n_envs, dtype=th.int64),
            th.zeros(n_envs, dtype=th.int64),
        )

    def act(
        self, observation: th.Tensor | dict[str, th.Tensor], state: State, deterministic: bool
    ) -> tuple[th.Tensor, State]:
        """Chooses one target per environment, shape (n_envs, 2)."""
        assert isinstance(observation, th.Tensor), "the space was checked"
        seen = observation.to("cpu", th.float64).numpy()
        targets, expected, lengths, indices = (part.clone().numpy() for part in state)
        for row, own in enumerate(seen):
            index = indices[row]
            going = 0 < index < lengths[row] and _as_expected(own, expected[row, index - 1])
            if not going:
                plan = self._plan(own, deterministic)
                lengths[row], indices[row] = len(plan.targets), 0
                targets[row, : lengths[row]] = plan.targets
                expected[row, : lengths[row]] = plan.expected
        chosen = targets[np.arange(len(seen)), indices]
        indices += 1
        memory = tuple(th.as_tensor(part) for part in (targets, expected, lengths, indices))
        return th.as_tensor(chosen), memory

    def _plan(self, observation: npt.NDArray[np.float64], deterministic: bool) -> Plan:
        """Makes a plan; where there is none, the agent stays for a step."""
        if deterministic:
            digest = hashlib.sha256(observation.tobytes()).digest()
            rng = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        else:
            rng = np.random.default_rng(int(th.randint(2**62, (1,))))
        if self._world is None:
            self._world = PushTWorld()
        state = PushTState.of_observation(observation)
        plans = plan_pushes(self._world, state, self._search, rng)
        if not plans:
            stay = np.clip(observation[None, :2], 0, 512).astype(np.float32)
            return Plan(stay, observation[None], 0.0)
        if deterministic:
            return plans[0]
        costs = np.array([plan.cost for plan in plans])
        weights = np.exp(-(costs - costs.min()) / self._temperature)
        return plans[rng.choice(len(plans), p=weights / weights.sum())]


def _as_expected(seen: npt.NDArray[np.float64], expected: npt.NDArray[np.float64]) -> bool:
    """Whether an observation is close to that of the plan."""
    apart = np.abs(seen - expected)
    apart[4] = min(apart[4], 2 * math.pi - apart[4])  # it is an angle
    return bool((apart <= _TOLERANCE).all())
