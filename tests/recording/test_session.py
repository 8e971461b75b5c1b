"""What a person does with episodes: act, pause, take back, keep, discard."""

import numpy as np
import pytest
from support.recording import NOTHING, STEPS, UNEVEN, act, session_in, task_of

from imitbench.bench.environments import make_environment
from imitbench.data.serialize import load_with_rewards
from imitbench.data.sources import open_trajectories
from imitbench.recording.session import NotNowError


def test_an_episode_waits_for_the_first_input_and_runs_without_further_ones(tmp_path):
    with session_in(tmp_path / "to") as (session, _):
        assert not session.tick(NOTHING, 0.0)
        assert session.state()["phase"] == "ready"
        act(session, 1)
        assert session.tick(NOTHING, 0.05)
        state = session.state()
        assert (state["phase"], state["steps"]) == ("running", 2)


def test_what_is_kept_is_what_happened(tmp_path):
    with session_in(tmp_path / "to") as (session, store):
        act(session, 30)
        state = session.state()
        assert (state["phase"], state["success"]) == ("ended", True)
        assert session.perform("keep") == "Episode 1 of 3 kept."
        record = store.records[0]
        [episode] = load_with_rewards(tmp_path / "to")
    env = make_environment(task_of().spec)
    obs = [env.reset(seed=record.seed)[0]]
    for step, action in enumerate(episode.acts):
        fresh, reward, terminated, _, info = env.step(action)
        obs.append(fresh)
        assert reward == episode.rews[step]
        assert episode.infos[step] == {
            "is_success": terminated, "place": [info["place"][0]]
        }  # fmt: skip
    assert np.array_equal(obs, episode.obs)
    assert terminated
    assert episode.terminal
    assert len(episode) == state["steps"]
    assert state["return"] == pytest.approx(episode.rews.sum())
    assert (record.success, record.success_rule) == (True, "a step says is_success")
    assert record.real_hz == pytest.approx(20)


def test_a_pause_is_no_part_of_the_rate(tmp_path):
    with session_in(tmp_path / "to") as (session, _):
        act(session, 5)
        session.perform("pause")
        assert not session.tick(NOTHING, 50.0)
        session.perform("resume")
        act(session, 5, start=100.0)
        state = session.state()
        assert (state["phase"], state["steps"]) == ("running", 10)
        assert state["real_hz"] == pytest.approx(20)


def test_restart_has_the_same_start_and_discard_another(tmp_path):
    with session_in(tmp_path / "to") as (session, store):
        first = session.frame.copy()
        act(session, 5)
        session.perform("restart")
        assert np.array_equal(session.frame, first)
        session.perform("discard")
        act(session, 5)
        session.perform("keep")
        [record] = store.records
        assert record.attempt == 1


def test_undo_goes_back_exactly_even_after_the_end(tmp_path):
    with session_in(tmp_path / "undone") as (session, store):
        act(session, 4)
        kept = session.frame.copy()
        act(session, 5)
        assert session.perform("undo") == "5 steps taken back; your next input goes on."
        state = session.state()
        assert (state["phase"], state["steps"]) == ("ready", 4)
        assert np.array_equal(session.frame, kept)
        act(session, 60)
        assert session.phase == "ended"
        session.perform("undo")
        assert session.phase == "ready"
        act(session, 60)
        session.perform("keep")
        assert store.records[0].undone_steps == 10
        seed = store.records[0].seed
        [episode] = load_with_rewards(tmp_path / "undone")
    env = make_environment(task_of().spec)
    obs = [env.reset(seed=seed)[0], *(env.step(action)[0] for action in episode.acts)]
    assert np.array_equal(obs, episode.obs)


def test_undo_goes_at_most_to_the_start(tmp_path):
    with session_in(tmp_path / "to") as (session, _):
        with pytest.raises(NotNowError, match="nothing to take back"):
            session.perform("undo")
        act(session, 3)
        session.perform("undo")
        assert session.state()["steps"] == 0
        act(session, 3)
        assert session.state()["steps"] == 3


def test_undo_is_refused_where_a_replay_leads_elsewhere(tmp_path):
    with session_in(tmp_path / "to", task_of(UNEVEN)) as (session, _):
        act(session, 9)
        for _ in range(2):
            with pytest.raises(NotNowError, match="not available here"):
                session.perform("undo")
        state = session.state()
        assert (state["steps"], state["undo"], state["phase"]) == (9, False, "running")
        act(session, 1)
        assert session.state()["steps"] == 10


def test_the_goal_ends_the_recording_and_a_second_one_goes_on(tmp_path):
    seeds = []
    for goal, kept in ((2, 0), (3, 2)):
        with session_in(tmp_path / "to", task_of(goal=goal)) as (session, store):
            assert len(store) == kept
            while session.phase != "complete":
                act(session, 2)
                session.perform("keep")
            with pytest.raises(NotNowError, match="kept already"):
                session.perform("restart")
            seeds = [record.seed for record in store.records]
    assert len(set(seeds)) == 3
    assert len(open_trajectories(tmp_path / "to")) == 3
    with session_in(tmp_path / "to") as (session, _):
        assert session.phase == "complete"


@pytest.mark.parametrize("command", ["keep", "undo", "pause", "resume"])
def test_what_is_not_possible_now_is_said(command, tmp_path):
    with session_in(tmp_path / "to") as (session, _), pytest.raises(NotNowError):
        session.perform(command)


def test_success_by_another_entry_at_the_end(tmp_path):
    with session_in(tmp_path / "to", task_of(success="is_success:end")) as (session, store):
        act(session, 3)
        assert session.state()["success"] is False
        session.perform("keep")
        assert store.records[0].success_rule == "the last step says is_success"
    with session_in(tmp_path / "none", task_of(success="self")) as (session, _):
        act(session, 3)
        assert session.state()["success"] is None  # it is an object, which says nothing


def test_a_disk_that_is_full_keeps_the_episode_on_the_page(tmp_path, monkeypatch):
    with session_in(tmp_path / "to") as (session, store):
        act(session, 3)

        def full(*_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("imitbench.recording.episode_store.atomic_write_bytes", full)
            with pytest.raises(NotNowError, match=r"could not be stored: .*No space left"):
                session.perform("keep")
        assert session.state()["steps"] == 3
        session.perform("keep")
        assert len(store) == 1


def test_a_task_without_an_action_that_does_nothing_waits_for_keys(tmp_path):
    with session_in(tmp_path / "to", task_of(STEPS)) as (session, store):
        act(session, 2)
        act(session, 2, NOTHING, start=1.0)
        act(session, 2, start=9.0)
        assert (session.state()["steps"], session.state()["real_hz"]) == (4, pytest.approx(20))
        session.perform("keep")
        [episode] = load_with_rewards(tmp_path / "to")
        assert episode.acts.tolist() == [1, 1, 1, 1]
        assert episode.acts.dtype == np.int64
        assert len(store) == 1
