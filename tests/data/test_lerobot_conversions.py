"""Points of PushT's block give back its pose; other sets are refused."""

from dataclasses import replace
from typing import get_args

import numpy as np
import pytest
from support.plain_sets import episodes, write_lerobot
from support.pusht import points_of, write_keypoints

from imitbench.cards.demonstrations import Conversion
from imitbench.data.demonstrations import read_demonstrations
from imitbench.data.lerobot_conversions import (
    converted_copy,
    digest_of_conversion,
    states_of_keypoints,
)
from imitbench.errors import InputError

[CONVERSION] = get_args(Conversion)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_what_the_environment_records_as_points_is_its_state():
    pytest.importorskip("gym_pusht")
    import gymnasium as gym

    make = {"id": "gym_pusht/PushT-v0", "disable_env_checker": True}
    shown, recorded = gym.make(**make), gym.make(**make, obs_type="environment_state_agent_pos")
    states, points = [], []
    for seed in range(3):
        states.append(shown.reset(seed=seed)[0])
        seen = [recorded.reset(seed=seed)[0]]
        shown.action_space.seed(seed)
        for _ in range(20):
            action = shown.action_space.sample()
            states.append(shown.step(action)[0])
            seen.append(recorded.step(action)[0])
        points += [np.concatenate([each["agent_pos"], each["environment_state"]]) for each in seen]
    assert len(np.unique(np.array(states)[:, 4])) > 10  # the block is pushed
    np.testing.assert_allclose(states_of_keypoints(np.array(points)), states, atol=1e-9)


def test_poses_are_found_for_all_angles():
    rng = np.random.default_rng(0)
    states = np.column_stack(
        [rng.uniform(0, 512, (200, 4)), np.linspace(0, 2 * np.pi, 200, endpoint=False)]
    )
    found = states_of_keypoints(points_of(states).astype(np.float32))
    np.testing.assert_allclose(found[:, :4], states[:, :4], atol=1e-3)
    apart = (found[:, 4] - states[:, 4] + np.pi) % (2 * np.pi) - np.pi
    np.testing.assert_allclose(apart, 0, atol=1e-5)
    assert (found[:, 4] >= 0).all()
    assert (found[:, 4] < 2 * np.pi).all()


def test_a_set_has_the_demonstrations_that_were_recorded(tmp_path):
    made = write_keypoints(tmp_path / "set")
    copied = read_demonstrations(converted_copy(tmp_path / "set", CONVERSION))
    assert len(copied) == len(made)
    for copy, original in zip(copied, made, strict=True):
        assert (copy.obs.dtype, copy.terminal) == (np.float64, True)
        np.testing.assert_allclose(copy.obs[:-1], original.obs[:-1], atol=1e-3)
        np.testing.assert_array_equal(copy.obs[-1], copy.obs[-2])  # is not recorded
        np.testing.assert_allclose(copy.acts, original.acts, rtol=1e-6)
        np.testing.assert_allclose(copy.rews, original.rews, rtol=1e-6)


def test_the_digest_tells_the_content_and_not_the_place(tmp_path):
    for name, rows in (("one", range(3)), ("same", range(3)), ("other", range(1, 4))):
        write_keypoints(tmp_path / name, rows=rows)
    one, same, other = (
        digest_of_conversion(tmp_path / name, CONVERSION) for name in ("one", "same", "other")
    )
    assert one == same
    assert one != other


def test_points_of_another_shape_are_refused(tmp_path):
    [made] = episodes((3,), obs=18, acts=2)
    wrong = [replace(made, obs=points_of(np.full((4, 5), 100.0)) + 3 * made.obs)]
    recordings = {"observation.state": slice(0, 2), "observation.environment_state": slice(2, 18)}
    write_lerobot(tmp_path / "set", wrong, recordings=recordings, number="float32")
    with pytest.raises(InputError, match=r"trajectory 0: is no data for .* pixels away") as caught:
        converted_copy(tmp_path / "set", CONVERSION)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("recordings", "reason"),
    [
        ({"observation.state": slice(None)}, "observation.environment_state"),
        ({"observation.state": slice(0, 2), "observation.environment_state": slice(2, 8)}, "8 num"),
    ],
)
def test_a_set_of_other_recordings_is_refused(tmp_path, recordings, reason):
    write_lerobot(tmp_path / "set", episodes((3,), obs=18, acts=2), recordings=recordings)
    with pytest.raises(InputError, match=reason) as caught:
        converted_copy(tmp_path / "set", CONVERSION)
    assert "\n" not in str(caught.value)
