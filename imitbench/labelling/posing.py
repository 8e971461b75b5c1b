"""Pictures of stored fragments: the environment is put into the states of the observations.

That works where an observation tells the whole state: in the classic-control environments, in
MuJoCo environments that observe all positions and velocities, as those of seals, and for images.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from imitbench.bench.environments import make_environment
from imitbench.data.types import Trajectory
from imitbench.errors import InputError
from imitbench.experts.video import check_rendering
from imitbench.labelling.clips import Frame, TraceScale, draw_trace, shrink
from imitbench.records.runs import EnvironmentSpec

TRACE_FPS, FASTEST_FPS = 20.0, 30.0
_GRAYS, _COLORS = 1, 3

Poser = Callable[[Any, npt.NDArray[Any]], None]


def _pendulum(env: Any, obs: npt.NDArray[Any]) -> None:
    env.state = np.array([np.arctan2(obs[1], obs[0]), obs[2]])
    env.last_u = None


def _plain(env: Any, obs: npt.NDArray[Any]) -> None:
    env.state = obs.copy()


def _acrobot(env: Any, obs: npt.NDArray[Any]) -> None:
    angles = np.arctan2(obs[1:4:2], obs[0:4:2])
    env.state = np.array([*angles, *obs[4:6]])


def _mujoco(env: Any, obs: npt.NDArray[Any]) -> None:
    env.set_state(obs[: env.model.nq].astype(float), obs[env.model.nq :].astype(float))


_CLASSIC: dict[str, Poser] = {
    "PendulumEnv": _pendulum,
    "CartPoleEnv": _plain,
    "MountainCarEnv": _plain,
    "Continuous_MountainCarEnv": _plain,
    "AcrobotEnv": _acrobot,
}


def _poser(env: gym.Env[Any, Any]) -> Poser | None:
    """What puts an environment into the state of an observation, if that is possible."""
    inner: Any = env.unwrapped
    for kind in type(inner).__mro__:
        if kind.__name__ in _CLASSIC and kind.__module__.startswith("gymnasium."):
            return _CLASSIC[kind.__name__]
    model, space = getattr(inner, "model", None), env.observation_space
    if hasattr(inner, "set_state") and space.shape == (
        getattr(model, "nq", 0) + getattr(model, "nv", 0),
    ):
        return _mujoco
    return None


class FragmentPainter:
    """Draws fragments that have no frames.

    Args:
        spec: Their environment; `None` if it is not known.

    Attributes:
        rendered: Whether frames show the environment; otherwise they are traces.
        fps: Frames per second.
        env_id: Id of the environment; `None` if it is not known.
    """

    def __init__(self, spec: EnvironmentSpec | None) -> None:
        self.env_id = None if spec is None else spec.id
        self._env: gym.Env[Any, Any] | None = None
        self._pose: Poser | None = None
        self.fps = TRACE_FPS
        if spec is not None:
            self._prepare(spec)
        self.rendered = self._pose is not None

    def _prepare(self, spec: EnvironmentSpec) -> None:
        try:
            found = check_rendering(spec)
        except InputError:
            return
        env = make_environment(found.spec)
        self._pose = _poser(env)
        if self._pose is None:
            env.close()
            return
        env.reset(seed=0)
        self._env, self.fps = env, min(found.fps, FASTEST_FPS)

    def frames(self, fragment: Trajectory) -> list[Frame]:
        """Draws one frame per observation.

        Raises:
            InputError: Observations are not plain numbers.
        """
        obs = fragment.obs
        if isinstance(obs, np.ndarray):
            if self._pose is not None and self._env is not None:
                return [self._picture(each) for each in obs]
            if obs.dtype == np.uint8 and obs.ndim == 4:
                return [_image(each) for each in obs]
        return self.trace(fragment)

    def trace(self, fragment: Trajectory) -> list[Frame]:
        """Draws the observations over time.

        Raises:
            InputError: Observations are not plain numbers.
        """
        return draw_trace(fragment, TraceScale([fragment]))

    def close(self) -> None:
        """Closes the environment."""
        if self._env is not None:
            self._env.close()

    def _picture(self, obs: npt.NDArray[Any]) -> Frame:
        assert self._env is not None and self._pose is not None, "it is rendered"
        self._pose(self._env.unwrapped, obs)
        return shrink(np.asarray(self._env.render()))


def _image(obs: npt.NDArray[Any]) -> Frame:
    """The picture in an observation of an image or of a stack of gray ones, whose last is shown."""
    if obs.shape[-1] not in (_GRAYS, _COLORS) and obs.shape[0] < obs.shape[-1]:
        obs = np.moveaxis(obs, 0, -1)  # channels first
    picture = obs if obs.shape[-1] == _COLORS else np.repeat(obs[..., -1:], _COLORS, axis=-1)
    return shrink(np.ascontiguousarray(picture))
