"""What a person does with episodes: act, pause, take back, keep, discard. Knows no clock, no page.

The state machine:

    ready ── first input ──▶ running ◀── pause ──▶ paused
      ▲                         │ the episode ends
      │                         ▼
      └─ restart, discard, ── ended
         keep, undo

An episode that was kept is followed by the next start; the one that completes the goal by
`complete`, which is the end. `imitbench.recording.coaching` adds a policy that acts, too, and a
phase in which it learns.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from imitbench.bench.environments import make_environment
from imitbench.bench.seeding import derive_seed
from imitbench.cards.success import SuccessRule
from imitbench.data.resumable_env import ResumableEnv
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.recording.controls import ActionMapper, Inputs
from imitbench.recording.episode_store import EpisodeRecord, EpisodeStore
from imitbench.recording.task import RecordingTask
from imitbench.util.text_line import one_line

Phase = Literal["ready", "running", "paused", "ended", "learning", "complete"]
Command = Literal["pause", "resume", "restart", "discard", "keep", "undo", "switch", "finish"]

_SUCCESS_KEYS = ("is_success", "success")


class NotNowError(Exception):
    """A command that the present phase does not allow; the message is for the person."""


@dataclass
class _Draft:
    """The present episode, with one observation more than the rest.

    Attributes:
        said: What each step says about success.
        gaps: Seconds since the step before; `None` after a pause.
        undone: Steps that were taken back.
    """

    obs: list[Any]
    acts: list[Any] = field(default_factory=list)
    rews: list[float] = field(default_factory=list)
    infos: list[dict[str, Any]] = field(default_factory=list)
    said: list[bool | None] = field(default_factory=list)
    gaps: list[float | None] = field(default_factory=list)
    terminal: bool = False
    undone: int = 0

    def truncated(self, steps: int) -> _Draft:
        """The draft without what follows a number of steps."""
        return _Draft(
            self.obs[: steps + 1],
            self.acts[:steps],
            self.rews[:steps],
            self.infos[:steps],
            self.said[:steps],
            self.gaps[:steps],
            undone=self.undone + len(self.acts) - steps,
        )


class Session:
    """Episodes of one person in one environment; used by one thread.

    Args:
        task: What is recorded.
        store: Where episodes are kept.

    Attributes:
        phase: See the module.
        frame: The present picture, shape (height, width, 3), uint8.

    """

    def __init__(self, task: RecordingTask, store: EpisodeStore) -> None:
        self._task, self._store = task, store
        self._env = self._make()
        self._spare: ResumableEnv | None = None
        self._mapper = ActionMapper(task.controls, self._env.action_space, "--controls")
        self._success = task.success
        self._undo_refused: str | None = None
        self._attempt = store.next_attempt
        self._last_time: float | None = None
        self.phase: Phase = "ready"
        self._begin()
        if self._is_complete():
            self.phase = "complete"

    def close(self) -> None:
        """Closes the environments."""
        self._env.close()
        if self._spare is not None:
            self._spare.close()

    def tick(self, inputs: Inputs, now: float) -> bool:
        """Takes a step, if the phase and the inputs say so.

        Args:
            inputs: What the person does.
            now: Time in seconds, from any start.

        Returns:
            Whether a step was taken, so that there is a new picture.
        """
        if self.phase == "ready" and inputs.active:
            self.phase = "running"
        if self.phase != "running":
            return False
        action = self._action(inputs)
        if action is None:
            self._last_time = None  # the time of waiting is no part of the rate
            return False
        obs, reward, terminated, truncated, info = self._env.step(action)
        draft = self._draft
        if self._success is None and not draft.acts:
            self._success = _usual_success(info)
        draft.obs.append(np.array(obs))
        draft.acts.append(action)
        draft.rews.append(float(reward))
        draft.infos.append({**copy.deepcopy(info), **self._remark()})
        draft.said.append(self._read_success(info))
        draft.gaps.append(None if self._last_time is None else now - self._last_time)
        self._last_time = now
        if terminated or truncated:
            draft.terminal = True
            self.phase = "ended"
        self._render()
        return True

    def perform(self, command: Command) -> str:
        """Does what the person asks for.

        Returns:
            A sentence for the person.

        Raises:
            NotNowError: It is not possible now.
        """
        if self.phase == "complete":
            raise NotNowError("All episodes are kept already.")
        actions = self._actions()
        if command not in actions:
            raise NotNowError("No policy acts here.")
        said = actions[command]()
        self._last_time = None
        return said

    def pause(self) -> None:
        """Pauses, if the task runs."""
        if self.phase == "running":
            self.phase = "paused"
            self._last_time = None

    def state(self) -> dict[str, Any]:
        """What the page shows of the episode and of the progress."""
        draft = self._draft
        return {
            "phase": self.phase,
            "steps": len(draft.acts),
            "return": float(sum(draft.rews)),
            "success": self._succeeded(),
            "success_rule": None if self._success is None else str(self._success),
            "kept": len(self._store),
            "goal": self._task.goal,
            "asked_hz": self._task.rate_hz,
            "real_hz": _rate(draft.gaps),
            "undo": self._undo_refused is None,
            "round": None,
            "acting": None,
        }

    # What a session with a policy does differently.

    def _actions(self) -> dict[Command, Callable[[], str]]:
        return {
            "pause": self._pause,
            "resume": self._resume,
            "restart": self._restart,
            "discard": self._discard,
            "keep": self._keep,
            "undo": self._undo,
        }

    def _action(self, inputs: Inputs) -> Any:
        """Returns the action of the next step; `None` to wait."""
        return self._mapper.action(inputs, 1 / self._task.rate_hz)

    def _remark(self) -> dict[str, Any]:
        """Returns entries that are added to the infos of a step."""
        return {}

    def _is_complete(self) -> bool:
        return self._task.goal is not None and len(self._store) >= self._task.goal

    def _round(self) -> int | None:
        """Returns the number of the round that a kept episode belongs to."""
        return None

    def _go_on(self) -> str:
        """Continues after an episode was kept."""
        kept = len(self._store)
        if self._is_complete():
            self.phase = "complete"
            return f"Kept. All {kept} episodes are recorded."
        self._next_start()
        return f"Episode {kept} of {self._task.goal} kept."

    def _make(self) -> ResumableEnv:
        return ResumableEnv(make_environment(self._task.spec))

    @property
    def _seed(self) -> int:
        return derive_seed(self._task.seed, f"recorded start {self._attempt}")

    def _begin(self) -> None:
        obs, info = self._env.reset(seed=self._seed)
        if self._success is None:
            self._success = _usual_success(info)
        self._draft = _Draft([np.array(obs)])
        self._last_time = None
        self._mapper.begin()
        self.phase = "ready"
        self._render()

    def _render(self) -> None:
        frame: Any = self._env.render()
        self.frame = np.ascontiguousarray(frame, dtype=np.uint8)

    def _succeeded(self) -> bool | None:
        ever = self._success is not None and self._success.when == "ever"
        told = [said for said in self._draft.said[0 if ever else -1 :] if said is not None]
        return any(told) if told else None

    def _read_success(self, info: Mapping[str, Any]) -> bool | None:
        try:
            return None if self._success is None else self._success.read(info)
        except ValueError:  # an entry of another kind says nothing
            return None

    def _pause(self) -> str:
        if self.phase != "running":
            raise NotNowError("Nothing runs now.")
        self.phase = "paused"
        return "Paused."

    def _resume(self) -> str:
        if self.phase != "paused":
            raise NotNowError("Nothing is paused now.")
        self.phase = "running"
        return "Going on."

    def _restart(self) -> str:
        self._begin()
        return "The same start again."

    def _next_start(self) -> None:
        self._attempt += 1
        self._begin()

    def _discard(self) -> str:
        self._next_start()
        return "Discarded; this is another start."

    def _keep(self) -> str:
        draft = self._draft
        if not draft.acts:
            raise NotNowError("There is nothing to keep yet.")
        space = self._env.action_space
        try:
            self._store.add(
                TrajectoryWithRew(
                    obs=np.stack(draft.obs),
                    acts=np.asarray(draft.acts, dtype=space.dtype),
                    infos=np.fromiter(draft.infos, dtype=object),
                    terminal=draft.terminal,
                    rews=np.asarray(draft.rews),
                ),
                EpisodeRecord(
                    env=self._task.spec.id,
                    kwargs=dict(self._task.stored_kwargs),
                    attempt=self._attempt,
                    seed=self._seed,
                    rate_hz=self._task.rate_hz,
                    real_hz=_rate(draft.gaps),
                    success=self._succeeded(),
                    success_rule=None if self._success is None else str(self._success),
                    undone_steps=draft.undone,
                    controls=self._task.controls.model_dump(mode="json"),
                    round=self._round(),
                ),
            )
        except (OSError, InputError, ValueError) as error:
            raise NotNowError(f"The episode could not be stored: {one_line(error, 160)}") from error
        return self._go_on()

    def _undo(self) -> str:
        draft = self._draft
        if not draft.acts:
            raise NotNowError("There is nothing to take back.")
        if self._undo_refused is not None:
            raise NotNowError(self._undo_refused)
        steps = max(0, len(draft.acts) - max(1, round(self._task.undo_s * self._task.rate_hz)))
        if self._spare is None:
            self._spare = self._make()
        start = {"seed": self._seed, "generator": None, "options": None}
        try:
            # In the spare environment: if it ends elsewhere, the present one is untouched.
            self._spare.restore_episode(
                {"start": start, "actions": draft.acts[:steps], "obs": draft.obs[steps]}
            )
        except ValueError:
            self._undo_refused = (
                "Undo is not available here: the same actions do not lead to the same state."
            )
            raise NotNowError(self._undo_refused) from None
        self._env, self._spare = self._spare, self._env
        taken = len(draft.acts) - steps
        self._draft = draft.truncated(steps)
        self._mapper.begin(self._draft.acts[-1] if steps else None)
        self.phase = "ready"
        self._render()
        return f"{taken} steps taken back; your next input goes on."


def _usual_success(info: Mapping[str, Any]) -> SuccessRule | None:
    found = next((key for key in _SUCCESS_KEYS if key in info), None)
    return None if found is None else SuccessRule(key=found, when="ever")


def _rate(gaps: list[float | None]) -> float | None:
    """Returns steps per second; `None` if no step follows another without a pause."""
    known = [gap for gap in gaps if gap is not None]
    return len(known) / sum(known) if sum(known) > 0 else None
