import json
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.data import rollout
from imitbench.data.infos import decode_infos, encode_infos
from imitbench.data.render_wrapper import RenderImageInfoWrapper, load_frame
from imitbench.errors import InputError

pytest.importorskip("PIL", reason="Pillow is missing")


class Lamp(gym.Env):
    """An image that gets brighter by 20 each step, always drawn into the same array."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)

    def __init__(self, shape=(30, 40, 3), render_mode="rgb_array", dtype=np.uint8):
        self.render_mode = render_mode
        self.screen = np.zeros(shape, dtype)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        return self.count, 1.0, self.count == 4, False, {"count": self.count}

    def render(self):
        self.screen[...] = 20 * self.count
        return self.screen


def played(env, steps=3):
    env.reset(seed=0)
    return [env.step(0)[4] for _ in range(steps)]


@pytest.mark.parametrize("directory", [None, "frames"])
def test_each_info_has_the_frame_after_its_step(tmp_path, directory):
    env = RenderImageInfoWrapper(Lamp(), directory=directory and tmp_path / directory)
    infos = played(env)
    frames = [load_frame(info["rendered_img"]) for info in infos]
    assert [frame.shape for frame in frames] == [(30, 40, 3)] * 3
    assert [np.unique(frame).tolist() for frame in frames] == [[20], [40], [60]]
    assert all(frame.dtype == np.uint8 for frame in frames)
    assert [info["count"] for info in infos] == [1, 2, 3]


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_stored_frames_equal_the_rendered_ones_bit_for_bit(tmp_path, name):
    pytest.importorskip("pygame", reason="pygame draws these environments")
    env = RenderImageInfoWrapper(gym.make(name, render_mode="rgb_array"), directory=tmp_path)
    env.reset(seed=0)
    for _ in range(3):
        info = env.step(env.action_space.sample())[4]
        assert np.array_equal(load_frame(info["rendered_img"]), env.render())
        assert Path(info["rendered_img"]).stat().st_size < env.render().nbytes / 20
    env.close()


@pytest.mark.parametrize("directory", [None, "frames"])
@pytest.mark.parametrize(
    ("factor", "shape"), [(0.5, (15, 20, 3)), (0.1, (3, 4, 3)), (1e-9, (1, 1, 3))]
)
def test_frames_can_be_scaled_down(tmp_path, directory, factor, shape):
    env = RenderImageInfoWrapper(Lamp(), factor, directory and tmp_path / directory)
    (info,) = played(env, 1)
    frame = load_frame(info["rendered_img"])
    assert frame.shape == shape
    assert (frame == 20).all()


def test_infos_hold_absolute_paths_that_json_can_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    infos = played(RenderImageInfoWrapper(Lamp(), directory="frames"))
    assert json.loads(json.dumps(infos)) == infos
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    frames = [load_frame(info["rendered_img"]) for info in decode_infos(encode_infos(infos))]
    assert [int(frame[0, 0, 0]) for frame in frames] == [20, 40, 60]


def test_environments_share_a_directory_without_overwriting(tmp_path):
    envs = [RenderImageInfoWrapper(Lamp(), directory=tmp_path) for _ in range(3)]
    paths = [info["rendered_img"] for env in envs for info in played(env) + played(env)]
    assert len(set(paths)) == 3 * 6
    assert all(Path(path).is_file() for path in paths)


def test_recorded_trajectories_carry_their_frames(tmp_path):
    venv = DummyVecEnv([lambda: RenderImageInfoWrapper(Lamp(), directory=tmp_path)] * 2)
    (trajectory, *_) = rollout.generate_trajectories(
        None, venv, rollout.make_min_episodes(2), np.random.default_rng(0)
    )
    frames = [load_frame(info["rendered_img"]) for info in trajectory.infos]
    assert [int(frame[0, 0, 0]) for frame in frames] == [20, 40, 60, 80]


def test_wrapping_twice_is_an_error():
    env = RenderImageInfoWrapper(RenderImageInfoWrapper(Lamp()))
    env.reset()
    with pytest.raises(ValueError, match="wrap the environment once"):
        env.step(0)


@pytest.mark.parametrize("mode", [None, "human"])
def test_an_environment_that_renders_no_arrays_is_refused(mode):
    with pytest.raises(ValueError, match="render_mode must be 'rgb_array'"):
        RenderImageInfoWrapper(Lamp(render_mode=mode))


@pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan")])
def test_the_scale_factor_must_be_in_range(factor):
    with pytest.raises(ValueError, match="scale_factor"):
        RenderImageInfoWrapper(Lamp(), factor)


@pytest.mark.parametrize("options", [{"shape": (30, 40)}, {"dtype": np.float32}])
def test_rendered_arrays_that_are_not_images_are_refused(options):
    env = RenderImageInfoWrapper(Lamp(**options))
    env.reset()
    with pytest.raises(ValueError, match=r"env rendered an array of shape .* not an RGB image"):
        env.step(0)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.png: the stored frame cannot be read"):
        load_frame(str(tmp_path / "gone.png"))


@pytest.mark.parametrize("content", [b"", b"no image", b"\x89PNG\r\n\x1a\n" + bytes(20)])
def test_a_damaged_file_is_named(tmp_path, content):
    (tmp_path / "frame.png").write_bytes(content)
    with pytest.raises(InputError, match=r"frame\.png: the stored frame cannot be read"):
        load_frame(str(tmp_path / "frame.png"))


def test_frames_that_are_not_images_are_refused():
    with pytest.raises(ValueError, match="not an RGB image"):
        load_frame([1, 2, 3])
