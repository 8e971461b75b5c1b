"""A small task to record: a point that is moved; and sessions of it."""

import contextlib

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from imitbench.recording.controls import ActionMapper, Inputs
from imitbench.recording.episode_store import EpisodeStore
from imitbench.recording.session import Session
from imitbench.recording.task import controls_for, make_task
from imitbench.records.runs import EnvironmentSpec

POINT = "recorded/Point-v0"
UNEVEN = "recorded/Uneven-v0"
STEPS = "recorded/Steps-v0"
RIGHT = Inputs(keys=["ArrowRight"])
NOTHING = Inputs()


class Point(gym.Env):
    """Is moved by at most 0.1 along a line; done at 1 or after 40 steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 20}  # noqa: RUF012 (as Gymnasium)
    observation_space = spaces.Box(-10, 10, (2,), np.float64)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None, uneven=False, discrete=False):
        self.render_mode, self.uneven, self.discrete = render_mode, uneven, discrete
        if discrete:
            self.action_space = spaces.Discrete(2)
        self.others = np.random.default_rng()  # a source that no seed determines

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-0.2, 0), 0
        return self._observe(), {"is_success": False}

    def step(self, action):
        noise = self.others if self.uneven else self.np_random
        push = 2 * action - 1 if self.discrete else action[0]
        self.place += 0.1 * float(push) + noise.normal(scale=1e-3)
        self.count += 1
        done = self.place >= 1
        info = {"is_success": done, "place": np.array([self.place]), "self": self}
        return self._observe(), self.place, done, self.count == 40, info

    def render(self):
        frame = np.zeros((32, 64, 3), np.uint8)
        frame[:, int(np.clip(32 + 20 * self.place, 0, 63))] = 255
        return frame

    def _observe(self):
        return np.array([self.place, self.count], dtype=np.float64)


def register():
    """Registers the environments."""
    for env_id, kwargs in ((POINT, {}), (UNEVEN, {"uneven": True}), (STEPS, {"discrete": True})):
        if env_id not in gym.registry:
            gym.register(env_id, f"{__name__}:Point", kwargs=kwargs)


def task_of(env_id=POINT, *, controls=None, success=None, rate_hz=20.0, goal=3, undo_s=0.25):
    """Returns a task to record."""
    register()
    spec = EnvironmentSpec(id=env_id, horizon="variable")
    mapping = controls_for(spec, controls)
    return make_task(
        spec, mapping, rate_hz=rate_hz, goal=goal, undo_s=undo_s, seed=0, success=success
    )


def store_of(folder, task):
    """Opens the folder of a task."""
    return EpisodeStore(folder, task.spec.id, task.stored_kwargs)


@contextlib.contextmanager
def session_in(folder, task=None):
    """Yields a session that records into a folder, and its store."""
    task = task or task_of()
    store = store_of(folder, task)
    try:
        session = Session(task, store)
        try:
            yield session, store
        finally:
            session.close()
    finally:
        store.close()


def act(session, count, inputs=RIGHT, start=0.0, seconds=0.05):
    """Takes steps at an even rate."""
    for step in range(count):
        session.tick(inputs, start + seconds * step)


def action_of(controls, space, inputs, steps=1, seconds=0.1):
    """Returns the action after some steps with the same inputs."""
    mapper = ActionMapper(controls, space, "test")
    for _ in range(steps):
        found = mapper.action(inputs, seconds)
    return found
