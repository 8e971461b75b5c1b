import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

from imitbench.data.demonstration_checks import validate_demonstrations
from imitbench.data.observations import DictObs
from imitbench.data.trajectories import TrajectoryWithRew
from imitbench.errors import InputError

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)


def check(trajectories, observations=BOX, actions=spaces.Discrete(2)):  # noqa: B008
    validate_demonstrations(trajectories, observations, actions, where="demos.parquet")


def changed(trajectories, **fields):
    good, bad, *_ = trajectories
    return [good, dataclasses.replace(bad, **fields)]


def test_good_demonstrations_pass_also_beyond_the_bounds_of_the_box(trajectories):
    check(trajectories())
    check(changed(trajectories(), obs=np.full((5, 2), 1e6)))
    check(trajectories((2,)), actions=BOX)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"obs": np.zeros((5, 3))}, r"observations have shape \(3,\) each.*\(2,\)"),
        ({"obs": np.zeros(5)}, r"observations have shape \(\) each"),
        ({"obs": np.array([[0, 0]] * 3 + [[0, np.nan]] + [[0, 0]])}, "not finite at step 3"),
        ({"obs": np.zeros((5, 2), bool)}, "data type bool"),
        ({"obs": DictObs({"a": np.zeros((5, 2))})}, "dictionaries"),
        ({"acts": np.array([0, 1, 2, 0])}, "actions hold 2 at step 2, .* 0 to 1"),
        ({"acts": np.array([0, -1, 0, 0])}, "actions hold -1 at step 1"),
        ({"acts": np.zeros((4, 1), int)}, r"actions have shape \(1,\) each"),
        ({"acts": np.zeros(4)}, "actions have data type float64.*integers"),
        ({"rews": np.array([0, 0, np.inf, 0])}, "rewards are not finite at step 2"),
    ],
)
def test_the_first_misfit_is_named_with_its_row(trajectories, fields, message):
    with pytest.raises(InputError, match=rf"^demos\.parquet, episode 1: .*{message}"):
        check(changed(trajectories(), **fields))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"obs": np.zeros((4, 2))}, "4 observations for 4 actions"),
        ({"acts": np.zeros(0, int)}, "no steps"),
        ({"rews": np.zeros((4, 1))}, r"rewards of shape \(4, 1\)"),
    ],
)
def test_lengths_of_any_row_object_are_checked(trajectories, fields, message):
    good, other, _ = trajectories()
    record = SimpleNamespace(**{"obs": other.obs, "acts": other.acts, "rews": other.rews} | fields)
    with pytest.raises(InputError, match=rf"episode 1: {message}"):
        check([good, record])


def test_an_empty_set_is_refused():
    with pytest.raises(InputError, match="no trajectories"):
        check([])


@pytest.mark.parametrize(
    ("space", "good", "bad"),
    [
        (spaces.Discrete(3, start=5), [5, 7], [4, 7]),
        (spaces.MultiDiscrete([2, 3]), [[1, 2], [0, 0]], [[1, 2], [2, 0]]),
        (spaces.MultiBinary(2), [[0, 1], [1, 1]], [[0, 1], [1, 2]]),
    ],
)
def test_discrete_values_stay_in_range(space, good, bad):
    def demonstration(acts):
        return [TrajectoryWithRew(np.zeros((3, 2)), np.array(acts), None, True, np.zeros(2))]

    check(demonstration(good), actions=space)
    with pytest.raises(InputError, match="actions hold"):
        check(demonstration(bad), actions=space)


def test_images_must_be_integers():
    def demonstration(dtype):
        return [
            TrajectoryWithRew(
                np.zeros((2, 4, 4, 3), dtype), np.zeros(1, int), None, True, np.zeros(1)
            )
        ]

    image = spaces.Box(0, 255, (4, 4, 3), np.uint8)
    check(demonstration(np.uint8), observations=image)
    with pytest.raises(InputError, match="observations have data type float32"):
        check(demonstration(np.float32), observations=image)


def test_unsupported_spaces_are_named(trajectories):
    with pytest.raises(InputError, match="Dict space is not supported"):
        check(trajectories(), observations=spaces.Dict({"a": BOX}))
