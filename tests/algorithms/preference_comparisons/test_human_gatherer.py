import io
import json

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3.common.vec_env import DummyVecEnv

from imitbench.algorithms.preference_comparisons import human_gatherer
from imitbench.algorithms.preference_comparisons.dataset import PreferenceDataset
from imitbench.algorithms.preference_comparisons.fragmenters import RandomFragmenter
from imitbench.algorithms.preference_comparisons.human_gatherer import (
    Answer,
    AnswerFile,
    GatheringStoppedError,
    SynchronousHumanGatherer,
    write_fragment_video,
)
from imitbench.data import rollout
from imitbench.data.render_wrapper import RenderImageInfoWrapper
from imitbench.data.types import TrajectoryWithRew
from imitbench.errors import InputError

pytest.importorskip("imageio_ffmpeg", reason="imageio is missing")


def fragment(number, steps=2, shape=(16, 20, 3)):
    """A fragment whose frames are of one gray, 10 times its number."""
    infos = np.array([{"rendered_img": np.full(shape, 10 * number, np.uint8)}] * steps)
    obs = np.full((steps + 1, 1), number, np.float32)
    return TrajectoryWithRew(obs, np.zeros(steps), infos, False, np.zeros(steps))


def read(path):
    import imageio

    with imageio.get_reader(path) as reader:
        return [np.asarray(frame) for frame in reader]


def number(path):
    """Number of the fragment that a video shows."""
    if path.stat().st_size < 10:  # of `stub_videos`
        return int(path.read_text())
    return round(float(np.mean(read(path))) / 10)


@pytest.fixture(autouse=True)
def stub_videos(request, monkeypatch):
    """Each video costs a process of ffmpeg, so that most tests write the fragment's number."""
    if "real_videos" not in request.fixturenames:

        def write(fragment, path, fps):
            if fragment.infos is None:
                write_fragment_video(fragment, path, fps)  # which refuses it
            [gray] = {int(info["rendered_img"].flat[0]) for info in fragment.infos}
            path.write_text(str(gray // 10))

        monkeypatch.setattr(human_gatherer, "write_fragment_video", write)


@pytest.fixture
def real_videos():
    """For tests of what the videos show."""


PAIRS = [(fragment(2 * n), fragment(2 * n + 1)) for n in range(1, 5)]


class Person:
    """Types prepared lines, and remembers which fragments the videos showed."""

    def __init__(self, folder, **kwargs):
        self.folder, self.kwargs = folder, kwargs
        self.out, self.paths = io.StringIO(), []

    def gatherer(self, typed):
        return SynchronousHumanGatherer(
            self.folder,
            show=lambda left, right: self.paths.append((left, right)),
            input_stream=io.StringIO("".join(f"{line}\n" for line in typed.split())),
            output_stream=self.out,
            **self.kwargs,
        )

    @property
    def shown(self):
        numbers = {path: number(path) for path in {path for pair in self.paths for path in pair}}
        return [(numbers[left], numbers[right]) for left, right in self.paths]

    def answers(self, typed, pairs=PAIRS):
        return self.gatherer(typed)(pairs).tolist()

    def stops(self, typed, pairs=PAIRS):
        with pytest.raises(GatheringStoppedError) as caught:
            self.gatherer(typed)(pairs)
        return str(caught.value)


@pytest.fixture
def person(tmp_path):
    return Person(tmp_path / "videos")


def test_answers_become_preferences(person):
    given = person.gatherer("left right tie skip")(PAIRS)
    assert given.dtype == np.float32
    assert given.shape == (4,)
    assert given[:3].tolist() == [1, 0, 0.5]
    assert np.isnan(given[3])


@pytest.mark.parametrize("typed", ["l r t t", "L RIGHT tie T"])
def test_first_letters_are_accepted(person, typed):
    assert person.answers(typed) == [1, 0, 0.5, 0.5]


@pytest.mark.usefixtures("real_videos")
def test_both_fragments_are_shown_and_their_paths_printed(person):
    person.answers("l l l l")
    assert person.shown == [(2, 3), (4, 5), (6, 7), (8, 9)]
    told = person.out.getvalue()
    for path in person.folder.glob("*.mp4"):
        assert str(path) in told
    assert "Pair 3 of 4, 2 to go." in told


def test_invalid_answers_are_asked_again(person):
    assert person.answers("x leftt l r r r") == [1, 0, 0, 0]
    assert "'leftt' is not an answer." in person.out.getvalue()
    assert len(person.paths) == 4


def test_undo_asks_the_previous_pair_again(person):
    assert person.answers("l l undo r t t") == [1, 0, 0.5, 0.5]
    assert person.shown == [(2, 3), (4, 5), (6, 7), (4, 5), (6, 7), (8, 9)]


def test_undo_can_be_repeated(person):
    assert person.answers("l l l u u u u r r r r") == [0, 0, 0, 0]
    assert "No pair of this round" in person.out.getvalue()


def test_quit_keeps_the_answers_and_a_new_gatherer_asks_the_others(person):
    assert "all answers so far are kept" in person.stops("l r q")
    person.paths.clear()
    assert person.answers("t t") == [1, 0, 0.5, 0.5]
    assert person.shown == [(6, 7), (8, 9)]


def test_the_end_of_the_input_counts_as_quit(person):
    assert "the input ended" in person.stops("l r")
    assert person.answers("t t") == [1, 0, 0.5, 0.5]


def test_undo_works_after_a_restart(person):
    person.stops("l r q")
    assert person.answers("u l t t") == [1, 1, 0.5, 0.5]


def test_an_undone_answer_stays_undone_after_a_restart(person):
    person.stops("l r u q")
    assert person.answers("l t t") == [1, 1, 0.5, 0.5]


def test_a_skipped_pair_is_not_asked_again_and_not_trained_on(person):
    person.answers("s l l l")
    given = person.gatherer("")(PAIRS)
    assert np.isnan(given[0])
    dataset = PreferenceDataset()
    dataset.push(PAIRS, given)
    assert len(dataset) == 3


def test_undo_does_not_affect_pairs_of_other_rounds(person):
    person.answers("l l", PAIRS[:2])
    assert person.answers("u r r", PAIRS[2:]) == [0, 0]
    assert person.answers("", PAIRS) == [1, 1, 0, 0]


def test_a_pair_is_identified_by_its_content(person):
    person.answers("l", [PAIRS[0]])
    again = [(fragment(2), fragment(3)), (fragment(3), fragment(2)), (fragment(2), fragment(3))]
    assert person.answers("tie", again) == [1, 0.5, 1]


def test_every_answer_is_on_disk_before_the_next_question(person):
    seen = []

    class Typing:
        def readline(self):
            path = person.folder / "answers.jsonl"
            seen.append(len(path.read_text().splitlines()) if path.exists() else 0)
            return "left\n"

    SynchronousHumanGatherer(person.folder, input_stream=Typing(), output_stream=person.out)(PAIRS)
    assert seen == [0, 1, 2, 3]


def test_the_answer_file_can_be_chosen(tmp_path):
    person = Person(tmp_path / "videos", answers=tmp_path / "notes" / "mine.jsonl")
    person.answers("l l l l")
    assert len((tmp_path / "notes" / "mine.jsonl").read_text().splitlines()) == 4
    assert person.answers("") == [1, 1, 1, 1]


def test_standard_streams_are_the_default(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.stdin", io.StringIO("left\nq\n"))
    with pytest.raises(GatheringStoppedError):
        SynchronousHumanGatherer(tmp_path)(PAIRS)
    assert "Pair 2 of 4" in capsys.readouterr().out


class TestSides:
    def test_sides_are_drawn_and_answers_mapped_back(self, tmp_path):
        pairs = [(fragment(1), fragment(n)) for n in range(2, 8)]
        person = Person(tmp_path, rng=np.random.default_rng(0))
        given = person.answers("l " * 6, pairs)
        assert set(given) == {0, 1}
        # Left was preferred throughout, so that the first fragment wins where it was on the left.
        assert given == [float(left == 1) for left, _ in person.shown]

    def test_the_answer_file_records_the_sides(self, tmp_path):
        person = Person(tmp_path, rng=np.random.default_rng(0))
        given = person.answers("l l l l")
        lines = map(json.loads, (tmp_path / "answers.jsonl").read_text().splitlines())
        assert [line["answer"] for line in lines] == [
            {"choice": "left", "swapped": preference == 0} for preference in given
        ]

    def test_sides_do_not_depend_on_what_was_answered_before(self, tmp_path):
        whole = Person(tmp_path / "whole", rng=np.random.default_rng(4))
        whole.answers("l l l l")
        first = Person(tmp_path / "parts", rng=np.random.default_rng(4))
        first.stops("l q")
        second = Person(tmp_path / "parts", rng=np.random.default_rng(4))
        second.answers("l l l")
        assert first.shown[:1] + second.shown == whole.shown
        assert first.shown[1:] == second.shown[:1]

    def test_a_restored_gatherer_draws_the_same_sides(self, tmp_path):
        people = [Person(tmp_path / str(n), rng=np.random.default_rng(n)) for n in range(2)]
        first, second = (person.gatherer("l l l l") for person in people)
        second.load_state_dict(first.state_dict())
        assert first(PAIRS).tolist() == second(PAIRS).tolist()
        assert people[0].shown == people[1].shown


class TestBadInput:
    def test_fragments_without_frames_are_reported_before_any_question(self, person):
        bare = TrajectoryWithRew(np.zeros(3), np.zeros(2), None, False, np.zeros(2))
        with pytest.raises(
            ValueError, match=r"fragment 2 of pair 1 has no frames.*RenderImageInfo"
        ):
            person.answers("l l", [PAIRS[0], (fragment(1), bare)])
        assert person.out.getvalue() == ""

    @pytest.mark.usefixtures("real_videos")
    def test_a_missing_frame_file_is_reported(self, person, tmp_path):
        infos = np.array([{"rendered_img": str(tmp_path / "gone.png")}] * 2)
        gone = TrajectoryWithRew(np.ones(3), np.zeros(2), infos, False, np.zeros(2))
        with pytest.raises(InputError, match=r"gone\.png"):
            person.answers("l", [(gone, fragment(1))])
        assert list(person.folder.iterdir()) == [], "no half-written video stays"

    @pytest.mark.parametrize("fps", [0, -1, float("nan")])
    def test_the_frame_rate_must_be_positive(self, tmp_path, fps):
        with pytest.raises(ValueError, match="video_fps"):
            SynchronousHumanGatherer(tmp_path, fps)


class TestAnswerFile:
    LEFT, TIE = Answer(choice="left", swapped=False), Answer(choice="tie", swapped=True)

    def test_an_incomplete_last_line_is_removed(self, tmp_path):
        path = tmp_path / "answers"
        file = AnswerFile(path)
        file.record("a", self.LEFT)
        whole = path.read_bytes()
        file.record("b", self.TIE)
        content = path.read_bytes()
        for size in range(len(whole), len(content)):
            path.write_bytes(content[:size])
            again = AnswerFile(path)
            assert (again.get("a"), again.get("b")) == (self.LEFT, None)
            again.record("b", self.TIE)
            assert path.read_bytes() == content

    def test_each_answer_is_on_the_disk_once_it_is_recorded(self, tmp_path, flushed):
        file = AnswerFile(tmp_path / "answers")
        file.record("a", self.LEFT)
        assert [path for path, _ in flushed] == [file.path, tmp_path]
        file.record("b", self.TIE)
        assert [path for path, _ in flushed[2:]] == [file.path]

    def test_zeros_after_a_power_failure_are_removed(self, tmp_path):
        path = tmp_path / "answers"
        AnswerFile(path).record("a", self.LEFT)
        whole = path.read_bytes()
        path.write_bytes(whole + bytes(30))
        assert AnswerFile(path).get("a") == self.LEFT
        assert path.read_bytes() == whole

    def test_the_last_answer_to_a_pair_counts(self, tmp_path):
        file = AnswerFile(tmp_path / "answers")
        for answer in (self.LEFT, None, self.TIE):
            file.record("a", answer)
            assert AnswerFile(file.path).get("a") == file.get("a") == answer

    def test_the_latest_is_the_one_answered_last(self, tmp_path):
        file = AnswerFile(tmp_path / "answers")
        for pair in "abca":
            file.record(pair, self.LEFT)
        for each in (file, AnswerFile(file.path)):
            assert each.latest({"a", "b"}) == "a"
            assert each.latest({"b", "c"}) == "c"
            assert each.latest({"x"}) is None

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("hello\n", "line 1: not an answer"),
            ('{"pair": "a", "answer": null}\n{"pair": 1, "answer": null}\n', "line 2: .*pair"),
            ('{"pair": "a", "answer": {"choice": "both", "swapped": false}}\n', "answer.choice"),
            ('{"pair": "a", "answer": null}\n\n{"pair": "a", "answer": null}\n', "line 2"),
            ("my diary", "last line is not an answer"),
        ],
    )
    def test_other_files_are_refused_and_not_changed(self, tmp_path, content, message):
        path = tmp_path / "file"
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            SynchronousHumanGatherer(tmp_path, answers=path)
        assert path.read_text() == content


class TestVideos:
    def test_a_video_has_a_frame_for_each_step(self, tmp_path):
        grays = [0, 60, 120, 180, 240]
        infos = np.array([{"rendered_img": np.full((32, 48, 3), g, np.uint8)} for g in grays])
        each = TrajectoryWithRew(np.zeros(6), np.zeros(5), infos, False, np.zeros(5))
        write_fragment_video(each, tmp_path / "video.mp4", fps=10)
        frames = read(tmp_path / "video.mp4")
        assert np.allclose([frame.mean() for frame in frames], grays, atol=4)

    def test_sides_of_odd_length_are_padded(self, tmp_path):
        write_fragment_video(fragment(5, shape=(33, 47, 3)), tmp_path / "video.mp4", fps=10)
        for frame in read(tmp_path / "video.mp4"):
            assert frame.shape == (34, 48, 3)
            assert np.allclose(frame[:30, :44], 50, atol=4)

    def test_a_fragment_without_frames_is_refused(self, tmp_path):
        bare = TrajectoryWithRew(np.zeros(3), np.zeros(2), None, False, np.zeros(2))
        with pytest.raises(ValueError, match="RenderImageInfoWrapper"):
            write_fragment_video(bare, tmp_path / "video.mp4", fps=10)


@pytest.mark.usefixtures("real_videos")
@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
def test_rendered_trajectories_become_answered_comparisons(tmp_path, name):
    pytest.importorskip("pygame", reason="pygame draws these environments")

    def make():
        env = gym.make(name, render_mode="rgb_array", max_episode_steps=12)
        return RenderImageInfoWrapper(env, scale_factor=0.5, directory=tmp_path / "frames")

    venv = DummyVecEnv([make])
    rng = np.random.default_rng(0)
    trajectories = rollout.generate_trajectories(None, venv, rollout.make_min_timesteps(30), rng)
    pairs = RandomFragmenter(rng)(trajectories, fragment_length=6, num_pairs=2)
    gatherer = SynchronousHumanGatherer(
        tmp_path / "videos", input_stream=io.StringIO("left\ntie\n"), output_stream=io.StringIO()
    )
    dataset = PreferenceDataset()
    dataset.push(pairs, gatherer(pairs))
    assert dataset.preferences.tolist() == [1, 0.5]
    videos = [read(path) for path in (tmp_path / "videos").glob("*.mp4")]
    assert [len(frames) for frames in videos] == [6] * 4
    height, width = (size // 2 for size in venv.render().shape[:2])
    assert videos[0][0].shape == (height, width, 3)
    venv.close()
