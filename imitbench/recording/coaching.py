"""A page on which a person and a policy act in turns, for DAgger by hand.

In each round the policy acts until the person does anything, which takes over. Every step says in
its infos who acted. Episodes are stored when they are kept, so that a training that is killed goes
on with those of an unfinished round.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np

from imitbench.algorithms.human_gated_dagger import RoundRequest, SharedEpisode
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.recording.controls import Inputs
from imitbench.recording.episode_store import EpisodeStore
from imitbench.recording.server import GOODBYE_S, RecordingServer
from imitbench.recording.session import Command, NotNowError, Session
from imitbench.recording.simulation import Simulation
from imitbench.recording.task import RecordingTask

Actor = Literal["person", "policy"]

_FLAG = "intervention"  # LeRobot and robosuite have the same word
_LOOK_S = 0.5  # between two looks for a request to stop


class CoachedSession(Session):
    """A session in which a policy acts, too; the phase is `learning` between rounds.

    Args:
        task: What is recorded.
        store: Where episodes are kept.
    """

    def __init__(self, task: RecordingTask, store: EpisodeStore) -> None:
        self._request = RoundRequest(0, None, 1, 1)
        self._kept_steps: list[int] = []
        self._actor: Actor = "person"
        self._finished = False
        super().__init__(task, store)
        self.phase = "learning"

    def begin_round(self, request: RoundRequest, kept_steps: list[int]) -> str:
        """Begins a round.

        Args:
            request: What it asks for.
            kept_steps: Steps of each episode that was kept in it before.
        """
        self._request, self._kept_steps = request, kept_steps
        self._begin()
        return ""

    def complete(self) -> str:
        """Ends the session."""
        self.phase = "complete"
        return ""

    @property
    def finished(self) -> bool:
        """Whether the person wants no further round."""
        return self._finished

    def tick(self, inputs: Inputs, now: float) -> bool:
        """See `Session.tick`; the person's input takes over."""
        if inputs.active and self._actor == "policy" and self.phase == "running":
            self._take_over()
        return super().tick(inputs, now)

    def state(self) -> dict[str, Any]:
        """See `Session.state`; what is kept is that of the round."""
        request, kept = self._request, len(self._kept_steps)
        steps = sum(self._kept_steps)
        more = kept + (steps < request.min_steps)
        return {
            **super().state(),
            "kept": kept,
            "goal": max(request.min_episodes, more),
            "round": {
                "number": request.number,
                "steps": steps,
                "min_steps": request.min_steps,
                "policy": request.act is not None,
            },
            "acting": self._actor if self.phase in ("running", "paused") else None,
        }

    def _actions(self) -> dict[Command, Callable[[], str]]:
        if self.phase == "learning":
            raise NotNowError("The policy is learning; the next round begins soon.")
        return {**super()._actions(), "switch": self._switch, "finish": self._finish}

    def _action(self, inputs: Inputs) -> Any:
        if self._actor == "person":
            return super()._action(inputs)
        assert self._request.act is not None
        return self._request.act(self._draft.obs[-1])

    def _remark(self) -> dict[str, Any]:
        return {_FLAG: self._actor == "person"}

    def _round(self) -> int:
        return self._request.number

    def _begin(self) -> None:
        super()._begin()
        self._actor = "person"

    def _undo(self) -> str:
        said = super()._undo()
        self._actor = "person"
        return said

    def _go_on(self) -> str:
        self._kept_steps.append(len(self._draft.acts))
        self._next_start()
        if _is_enough(self._request, self._kept_steps):
            self.phase = "learning"
            return f"Kept. Round {self._request.number} is complete: the policy learns from it."
        return f"Episode {len(self._kept_steps)} of round {self._request.number} kept."

    def _switch(self) -> str:
        if self._request.act is None:
            raise NotNowError("There is no policy before the end of the first round.")
        if self.phase not in ("ready", "running"):
            raise NotNowError("Nothing runs now.")
        if self.phase == "running" and self._actor == "policy":
            self._take_over()
            return "You act."
        self._actor, self.phase = "policy", "running"
        return "The policy acts."

    def _take_over(self) -> None:
        self._actor = "person"
        acts = self._draft.acts
        self._mapper.begin(acts[-1] if acts else None)

    def _finish(self) -> str:
        if self._request.act is None:
            raise NotNowError("Complete the first round: there is no policy before.")
        self._finished, self.phase = True, "learning"
        return "This was the last round."


def _is_enough(request: RoundRequest, kept_steps: list[int]) -> bool:
    return len(kept_steps) >= request.min_episodes and sum(kept_steps) >= request.min_steps


class PersonAtPage:
    """A person on a local page, which opens with the first round; use it as a context manager.

    Args:
        task: The environment and its controls.
        folder: Where episodes are kept.
        port: Port of the page; 0 for any.
        tell: Called with the page's address.
    """

    def __init__(
        self, task: RecordingTask, folder: Path, port: int, tell: Callable[[str], None]
    ) -> None:
        self._task, self._folder, self._port, self._tell = task, folder, port, tell
        self._opened = ExitStack()
        self._simulation: Simulation | None = None
        self._finished = False

    def __enter__(self) -> PersonAtPage:
        return self

    def __exit__(self, *_: object) -> None:
        simulation = self._simulation
        if simulation is not None and simulation.problem is None:
            simulation.call(self._session.complete)
            simulation.await_pages(GOODBYE_S)
        self._opened.close()

    @property
    def finished(self) -> bool:
        """Whether the person wants no further round."""
        return self._finished

    def take_turns(
        self, request: RoundRequest, check_stop: Callable[[], object]
    ) -> list[SharedEpisode]:
        """Waits until a round is complete, see `imitbench.algorithms.human_gated_dagger.Person`.

        Episodes of the round that are in the folder already count.

        Raises:
            InputError: The environment failed, or the page cannot be opened.
        """
        if self._simulation is None:
            self._simulation = self._open()
        simulation, session = self._simulation, self._session
        kept_steps = [len(episode) for episode in self._store.read_round(request.number)]
        if not _is_enough(request, kept_steps):
            with suppress(NotNowError):  # the environment has failed, which is told below
                simulation.call(lambda: session.begin_round(request, kept_steps))
            while not simulation.await_state(lambda state: state["phase"] == "learning", _LOOK_S):
                check_stop()
            if simulation.problem is not None:
                raise InputError(
                    f"{self._task.spec.id}: failed while a person acted ({simulation.problem}); "
                    f"what was kept is in {self._folder}"
                )
            self._finished = session.finished
        return [_shared(episode) for episode in self._store.read_round(request.number)]

    def _open(self) -> Simulation:
        task = self._task
        self._store = EpisodeStore(self._folder, task.spec.id, task.stored_kwargs)
        self._opened.callback(self._store.close)
        simulation = self._opened.enter_context(Simulation(self._make_session, task.rate_hz))
        server = RecordingServer(simulation, task.spec.id, task.controls, self._port)
        self._opened.enter_context(server)
        self._tell(server.url)
        return simulation

    def _make_session(self) -> CoachedSession:
        self._session = CoachedSession(self._task, self._store)
        return self._session


def _shared(episode: TrajectoryWithRew) -> SharedEpisode:
    infos = episode.infos
    assert infos is not None, "they are stored with the episode"
    return SharedEpisode(episode, np.array([info[_FLAG] for info in infos], dtype=bool))
