"""Videos hold every frame that was rendered."""

import json
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from imitbench.errors import InputError
from imitbench.util.video_wrapper import VideoWrapper

needs_encoder = pytest.mark.skipif(
    "not __import__('importlib').util.find_spec('imageio_ffmpeg')", reason="imageio is missing"
)


class Lamp(gym.Env):
    """An image that gets brighter by 20 each step; both sides are odd."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)

    def __init__(self, length=4, render_mode="rgb_array", shape=(33, 47, 3)):
        self.length, self.render_mode, self.shape = length, render_mode, shape

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return 0, {}

    def step(self, action):
        self.count += 1
        return self.count, 1.5, self.count == self.length, False, {}

    def render(self):
        return np.full(self.shape, 20 * self.count, np.uint8)


def play(env, episodes):
    for _ in range(episodes):
        env.reset(seed=0)
        over = False
        while not over:
            _, _, over, _, _ = env.step(0)


def read(path):
    import imageio

    with imageio.get_reader(path) as reader:
        return reader.get_meta_data(), [np.asarray(frame) for frame in reader]


@needs_encoder
def test_one_file_holds_all_episodes(tmp_path):
    env = VideoWrapper(Lamp(), tmp_path / "videos")
    play(env, 3)
    assert not list((tmp_path / "videos").glob("*[0-9].mp4"))
    env.close()
    assert sorted(path.name for path in (tmp_path / "videos").iterdir()) == [
        "video.000000.meta.json",
        "video.000000.mp4",
    ]
    meta, frames = read(tmp_path / "videos" / "video.000000.mp4")
    assert meta["fps"] == 10
    assert len(frames) == 15
    assert frames[0].shape == (34, 48, 3)
    brightness = [frame.mean() for frame in frames]
    np.testing.assert_allclose(brightness, [0, 20, 40, 60, 80] * 3, atol=4)
    document = json.loads((tmp_path / "videos" / "video.000000.meta.json").read_text())
    assert document["episodes"] == [
        {"episode_id": number, "length": 4, "return": 6.0} for number in range(3)
    ]


@needs_encoder
def test_each_episode_may_have_its_own_file(tmp_path):
    env = VideoWrapper(Lamp(), tmp_path, single_video=False)
    play(env, 2)
    assert (tmp_path / "video.000000.mp4").exists()
    assert not (tmp_path / "video.000001.mp4").exists()
    env.close()
    env.close()
    for number in range(2):
        _, frames = read(tmp_path / f"video.{number:06d}.mp4")
        assert len(frames) == 5
        meta = json.loads((tmp_path / f"video.{number:06d}.meta.json").read_text())
        assert meta["episode_id"] == number


@needs_encoder
def test_the_environment_behaves_as_before(tmp_path):
    env = VideoWrapper(gym.wrappers.TimeLimit(Lamp(), 3), str(tmp_path))
    assert env.reset(seed=1, options={})[0] == 0
    for count, truncated in ((1, False), (2, False), (3, True)):
        assert env.step(0)[:4] == (count, 1.5, False, truncated)
    env.close()


@needs_encoder
def test_closing_an_unused_environment_leaves_no_file(tmp_path):
    VideoWrapper(Lamp(), tmp_path).close()
    assert list(tmp_path.iterdir()) == []


@needs_encoder
def test_classic_control_is_recorded(tmp_path):
    pytest.importorskip("pygame")
    env = VideoWrapper(gym.make("CartPole-v1", render_mode="rgb_array"), tmp_path)
    play(env, 1)
    env.close()
    meta, frames = read(tmp_path / "video.000000.mp4")
    assert (meta["fps"], frames[0].shape) == (50, (400, 600, 3))


@needs_encoder
def test_what_cannot_be_recorded_is_told(tmp_path):
    with pytest.raises(ValueError, match="render_mode must be 'rgb_array', not None"):
        VideoWrapper(Lamp(render_mode=None), tmp_path)
    env = VideoWrapper(Lamp(shape=(4, 4)), tmp_path)
    with pytest.raises(ValueError, match=r"array of shape \(4, 4\), not an RGB image"):
        env.reset()


def test_a_missing_encoder_is_told_with_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(InputError, match=r"pip install 'imitbench\[video\]'"):
        VideoWrapper(Lamp(), tmp_path)
