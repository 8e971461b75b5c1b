"""Sets made from policies and from demonstrations, with clips that are bounded in size."""

import subprocess

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from support.labelling import make_fragments

from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError
from imitbench.experts.lookup import find_demos, find_environment
from imitbench.experts.video import check_rendering
from imitbench.labelling import clips
from imitbench.labelling.build import SetRequest, build_set, make_pairs
from imitbench.labelling.clips import TraceScale, draw_trace, shrink, write_clip
from imitbench.labelling.fragments import Actor, act_out, of_demonstrations
from imitbench.labelling.label_set import LabelSet

RANDOM = Actor("random actions", None)
PENDULUM = find_environment("Pendulum-v1")


def frame_count(path):
    imageio = pytest.importorskip("imageio")
    pytest.importorskip("imageio_ffmpeg")
    with imageio.get_reader(path) as reader:
        return sum(1 for _ in reader), reader.get_meta_data()["size"]


def test_a_set_of_an_environment_shows_what_happened(tmp_path):
    request = SetRequest(PENDULUM, [RANDOM], pairs=2, length=6)
    built = build_set(request, tmp_path / "set")
    labels = LabelSet(tmp_path / "set")
    labels.check_clips()
    assert built.unrendered is None
    assert labels.header == built.header
    assert [len(fragment) for fragment in labels.fragments] == [6] * 4
    frames, size = frame_count(labels.clip_path(0))
    assert (frames, max(size)) == (7, clips.LONGEST_SIDE)


def test_demonstrations_become_traces(tmp_path):
    demos = find_demos("ppo-seals-CartPole-v0")
    built = build_set(SetRequest(None, demos=demos, pairs=2, length=8), tmp_path / "set")
    labels = LabelSet(tmp_path / "set")
    labels.check_clips()
    assert built.unrendered == "stored episodes have no frames"
    assert frame_count(labels.clip_path(1))[0] == 9


def test_many_long_names_of_policies_are_shortened(tmp_path):
    actors = [Actor(f"{number} {'a' * 60}", None) for number in range(8)]
    build_set(SetRequest(PENDULUM, actors, pairs=2, length=4), tmp_path / "set")
    source = LabelSet(tmp_path / "set").header.source
    assert source.startswith("episodes of 0 aaa")
    assert len(source) == 400


@pytest.mark.parametrize("wrong", [{"question": "?" * 401}, {"goal": 0}], ids=str)
def test_a_set_with_wrong_texts_is_refused_before_it_is_made(tmp_path, wrong):
    request = SetRequest(PENDULUM, [RANDOM], pairs=2, length=4, **wrong)
    with pytest.raises(InputError, match=next(iter(wrong))):
        build_set(request, tmp_path / "set", lambda *_: pytest.fail("it was being made"))


def test_fragments_depend_only_on_the_seed():
    def made(seed):
        return list(act_out(PENDULUM, [RANDOM], count=5, length=20, seed=seed, render=False))

    one, two, other = made(0), made(0), made(1)
    for first, second in zip(one, two, strict=True):
        np.testing.assert_array_equal(first.steps.obs, second.steps.obs)
        np.testing.assert_array_equal(first.steps.acts, second.steps.acts)
    assert not np.array_equal(one[0].steps.obs, other[0].steps.obs)


def test_a_fragment_is_what_the_environment_does():
    fragment = next(act_out(PENDULUM, [RANDOM], count=1, length=10, seed=0, render=False)).steps
    env = gym.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    cos, sin, velocity = (float(number) for number in fragment.obs[0])
    env.state = np.array([np.arctan2(sin, cos), velocity])
    for action, obs, reward in zip(fragment.acts, fragment.obs[1:], fragment.rews, strict=True):
        found, gained, *_ = env.step(action)
        np.testing.assert_allclose(found, obs, atol=1e-4)
        assert gained == pytest.approx(reward, abs=1e-3)


def test_fragments_longer_than_episodes_are_told():
    with pytest.raises(InputError, match=r"--length 300: episodes of Pendulum-v1 have up to 200"):
        list(act_out(PENDULUM, [RANDOM], count=1, length=300, seed=0, render=False))
    with pytest.raises(InputError, match="name fewer --pairs or a smaller --length"):
        of_demonstrations(find_demos("ppo-seals-CartPole-v0"), count=10**6, length=50, seed=0)


def test_obvious_pairs_prefer_the_much_larger_return():
    fragments = make_fragments(40)
    pairs = make_pairs(fragments, 20, 0)
    obvious = [pair for pair in pairs if pair.expected]
    assert (len(pairs), len(obvious)) == (21, 1)
    for pair in obvious:
        better, worse = fragments[pair.first].rews.sum(), fragments[pair.second].rews.sum()
        assert (better > worse) == (pair.expected == "first")
        assert abs(better - worse) > np.std([fragment.rews.sum() for fragment in fragments])
    used = [n for pair in pairs if pair.expected is None for n in (pair.first, pair.second)]
    assert sorted(used) == list(range(40))


def test_without_rewards_no_pair_is_obvious():
    unknown = [
        TrajectoryWithRew(f.obs, f.acts, None, False, np.full(len(f), np.nan))
        for f in make_fragments(8)
    ]
    assert {pair.expected for pair in make_pairs(unknown, 4, 0)} == {None}


def test_frames_are_reduced_to_even_sides():
    frame = np.zeros((501, 1003, 3), np.uint8)
    assert shrink(frame).shape == (160, 320, 3)
    small = np.zeros((64, 64, 3), np.uint8)
    assert shrink(small) is small
    with pytest.raises(ValueError, match="not an RGB image"):
        shrink(np.zeros((4, 4), np.uint8))


def test_a_clip_that_does_not_fit_is_told_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(clips, "MOST_BYTES", 100)
    frames = [np.zeros((32, 32, 3), np.uint8)] * 3
    with pytest.raises(InputError, match="make fragments shorter with --length"):
        write_clip(frames, tmp_path / "0.mp4", 20)
    assert list(tmp_path.iterdir()) == []


def test_a_clip_that_is_cut_off_is_told(tmp_path):
    build_set(SetRequest(PENDULUM, [RANDOM], pairs=1, length=4), tmp_path / "set")
    labels = LabelSet(tmp_path / "set")
    whole = labels.clip_path(1).read_bytes()
    for size in (len(whole) - 1, 40):
        labels.clip_path(1).write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"1\.mp4: is a clip that is cut off; make the set"):
            labels.check_clips()


def test_an_encoder_that_fails_leaves_no_clip_behind(tmp_path, monkeypatch):
    class Failing:
        def get_writer(self, path, **_options):
            path.write_bytes(b"\x00\x00\x00\x10ftypisom")
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def append_data(self, _frame):
            return None

    monkeypatch.setattr(clips, "import_encoder", lambda _what: Failing())
    with pytest.raises(InputError, match="cut off after writing; check the disk"):
        write_clip([np.zeros((32, 32, 3), np.uint8)], tmp_path / "0.mp4", 20)
    assert list(tmp_path.iterdir()) == []


def test_traces_of_a_set_have_the_same_axes():
    fragments = make_fragments(3)
    scale = TraceScale(fragments)
    units = np.concatenate([scale.unit(fragment) for fragment in fragments])
    np.testing.assert_allclose(units.min(axis=0), 0)
    np.testing.assert_allclose(units.max(axis=0), 1)
    drawn = draw_trace(fragments[0], scale)
    assert len(drawn) == len(fragments[0].obs)
    assert not np.array_equal(drawn[0], drawn[-1])


def test_an_environment_that_cannot_be_rendered_is_told():
    with pytest.raises(InputError, match="cannot be rendered here"):
        check_rendering(find_environment("seals/Parabola-v0"))


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 1), (8, 8, 4), (2, 8, 8, 3)])
def test_pictures_of_another_kind_are_refused(shape, monkeypatch):
    monkeypatch.setattr(PendulumEnv, "render", lambda _: np.zeros(shape, np.uint8))
    with pytest.raises(InputError, match="does not render images of three colors"):
        check_rendering(find_environment("Pendulum-v1"))


def test_the_clips_are_h264_that_browsers_play(tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg").get_ffmpeg_exe()
    write_clip([np.zeros((32, 48, 3), np.uint8)] * 3, tmp_path / "0.mp4", 20)
    told = subprocess.run(
        [ffmpeg, "-i", str(tmp_path / "0.mp4")], capture_output=True, text=True
    ).stderr
    assert "h264" in told
    assert "yuv420p" in told
