"""A person and a policy act in turns, on the page and without it."""

import contextlib
import threading

import numpy as np
import pytest
from support.recording import NOTHING, RIGHT, act, session_in, store_of, task_of
from support.recording_page import RIGHT as PRESSED
from support.recording_page import Training

from imitbench.algorithms.human_gated_dagger import RoundRequest
from imitbench.bench.environments import make_environment
from imitbench.data.inspection import inspect_demonstrations
from imitbench.data.sources import open_trajectories
from imitbench.errors import InputError
from imitbench.recording.coaching import CoachedSession
from imitbench.recording.session import NotNowError

LEFT = np.array([-1.0], np.float32)


def to_the_left(_):
    return LEFT


def request_of(number=1, policy=to_the_left, min_episodes=2, min_steps=10):
    return RoundRequest(number, policy if number else None, min_episodes, min_steps)


@contextlib.contextmanager
def coached(folder, request=None):
    """Yields a session in a round, and its store."""
    task = task_of(goal=None)
    store = store_of(folder, task)
    session = CoachedSession(task, store)
    if request is not None:
        session.begin_round(request, [])
    yield session, store
    session.close()
    store.close()


def flags(store, number):
    [episode, *_] = store.read_round(number)
    return [info["intervention"] for info in episode.infos]


def test_nothing_is_possible_while_the_policy_learns(tmp_path):
    with coached(tmp_path / "to") as (session, _):
        assert session.state()["phase"] == "learning"
        assert not session.tick(RIGHT, 0.0)
        with pytest.raises(NotNowError, match="is learning"):
            session.perform("keep")


def test_in_the_first_round_there_is_no_policy(tmp_path):
    with coached(tmp_path / "to", request_of(0)) as (session, store):
        for command in ("switch", "finish"):
            with pytest.raises(NotNowError, match=r"(?i)there is no policy"):
                session.perform(command)
        act(session, 3)
        assert session.state()["acting"] == "person"
        session.perform("keep")
        assert flags(store, 0) == [True] * 3


def test_an_input_takes_over_and_the_switch_gives_back(tmp_path):
    with coached(tmp_path / "to", request_of()) as (session, store):
        assert session.perform("switch") == "The policy acts."
        act(session, 3, NOTHING)
        assert session.state()["acting"] == "policy"
        act(session, 2, start=0.15)
        assert session.state()["acting"] == "person"
        act(session, 1, NOTHING, start=0.25)  # the person acts until they give back
        session.perform("switch")
        act(session, 2, NOTHING, start=0.3)
        assert session.perform("switch") == "You act."
        session.perform("keep")
        assert flags(store, 1) == [False] * 3 + [True] * 3 + [False] * 2
        [episode] = store.read_round(1)
        assert episode.acts[:, 0].tolist() == [-1, -1, -1, 1, 1, 0, -1, -1]
        assert store.records[0].round == 1


def test_a_person_may_act_from_the_start(tmp_path):
    with coached(tmp_path / "to", request_of()) as (session, store):
        act(session, 2)
        session.perform("keep")
        assert flags(store, 1) == [True, True]


def test_undo_takes_the_policys_steps_back_too_and_the_person_goes_on(tmp_path):
    with coached(tmp_path / "to", request_of()) as (session, store):
        session.perform("switch")
        act(session, 8, NOTHING)
        assert session.perform("undo") == "5 steps taken back; your next input goes on."
        act(session, 2, start=1.0)
        session.perform("keep")
        assert flags(store, 1) == [False] * 3 + [True] * 2
        [episode] = store.read_round(1)
        seed = store.records[0].seed
    env = make_environment(task_of().spec)
    obs = [env.reset(seed=seed)[0], *(env.step(action)[0] for action in episode.acts)]
    assert np.array_equal(obs, episode.obs)


def test_a_round_ends_with_enough_episodes_and_steps(tmp_path):
    with coached(tmp_path / "to", request_of(min_episodes=2, min_steps=10)) as (session, _):
        seen = []
        while session.phase != "learning":
            act(session, 4)
            session.perform("keep")
            state = session.state()
            seen.append((state["kept"], state["goal"], state["round"]["steps"]))
        assert seen == [(1, 2, 4), (2, 3, 8), (3, 3, 12)]


def test_the_last_round_ends_at_once(tmp_path):
    with coached(tmp_path / "to", request_of()) as (session, _):
        act(session, 4)
        session.perform("finish")
        assert (session.phase, session.finished) == ("learning", True)


def test_plain_recordings_have_no_policy(tmp_path):
    with session_in(tmp_path / "to") as (session, _):
        for command in ("switch", "finish"):
            with pytest.raises(NotNowError, match="No policy acts here"):
                session.perform(command)
        assert (session.state()["round"], session.state()["acting"]) == (None, None)


# On the page.


def fast():
    return task_of(goal=None, rate_hz=60.0)


def keep_some(tab, steps):
    tab.does(PRESSED)
    tab.until(lambda state: state["steps"] >= steps)
    assert tab.asks("keep")[0] == 200


def test_rounds_are_done_on_the_page_and_an_interrupted_one_goes_on(tmp_path):
    stop, pressed, asked = threading.Event(), threading.Event(), []

    def two_steps(obs):
        asked.append(obs)
        if len(asked) > 2:  # the person takes over now, however slow the machine is
            assert pressed.wait(60)
        return LEFT

    rounds = [request_of(number, two_steps, 2, 4) for number in range(2)]

    def check_stop():
        if stop.is_set():
            raise KeyboardInterrupt

    first = Training(tmp_path / "to", fast(), rounds, check_stop)
    tab = first.tab()
    for _ in range(2):
        keep_some(tab, 3)
    tab.until(lambda state: state["phase"] == "ready" and state["round"]["number"] == 1)
    keep_some(tab, 2)
    stop.set()
    tab.until(lambda state: state["phase"] == "complete")
    tab.leave()
    first.join()
    assert isinstance(first.error, KeyboardInterrupt)
    assert len(first.found) == 1

    second = Training(tmp_path / "to", fast(), rounds)
    tab = second.tab()
    state = tab.until(lambda state: state["phase"] == "ready")
    # Round 0 needs nobody any more, and round 1 has the episode of before.
    assert (state["round"]["number"], state["kept"]) == (1, 1)
    tab.asks("switch")
    tab.until(lambda state: state["steps"] >= 2)
    tab.does(PRESSED)
    pressed.set()
    tab.until(lambda state: state["acting"] == "person" and state["steps"] >= 5)
    assert tab.asks("keep")[0] == 200
    tab.until(lambda state: state["phase"] == "complete")
    tab.leave()
    second.join()
    assert second.error is None
    assert [len(found) for found in second.found] == [2, 2]
    for before, after in zip(first.found[0], second.found[0], strict=True):
        np.testing.assert_array_equal(before.trajectory.obs, after.trajectory.obs)
    assert all(episode.by_person.all() for episode in second.found[0])
    mixed = second.found[1][-1].by_person
    assert not mixed[0]
    assert mixed[-1]
    assert inspect_demonstrations(open_trajectories(tmp_path / "to")).problems == []
    assert "in 2 rounds of DAgger" in (tmp_path / "to" / "README.md").read_text()


def test_the_person_ends_the_training(tmp_path):
    training = Training(tmp_path / "to", fast(), [request_of(1), request_of(2)])
    tab = training.tab()
    tab.until(lambda state: state["phase"] == "ready")
    assert tab.asks("finish")[0] == 200
    tab.leave()
    training.join()
    assert (training.error, training.found) == (None, [[]])


def test_an_environment_that_fails_is_told_and_nothing_is_lost(tmp_path, monkeypatch):
    training = Training(tmp_path / "to", fast(), [request_of(0, min_episodes=2)])
    tab = training.tab()
    tab.until(lambda state: state["phase"] == "ready")
    keep_some(tab, 2)

    def fail(*_):
        raise RuntimeError("the simulator is gone")

    monkeypatch.setattr("support.recording.Point.step", fail)
    tab.does({**PRESSED, "keys": ["ArrowLeft"]})
    state = tab.until(lambda state: state["problem"] is not None)
    assert "the simulator is gone" in state["problem"]
    tab.leave()
    training.join()
    assert isinstance(training.error, InputError)
    assert "failed while a person acted" in str(training.error)
    with contextlib.closing(store_of(tmp_path / "to", task_of())) as store:
        assert len(store) == 1
