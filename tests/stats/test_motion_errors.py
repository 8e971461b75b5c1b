"""Errors of motions, on cases that are computed by hand."""

import numpy as np
import pytest

from imitbench.stats.motion_errors import evenly_spaced, swept_error_area, warping_distances


def points(*pairs):
    return np.array(pairs, dtype=np.float64)


def on_axis(*values):
    return points(*((value, 0) for value in values))


def test_points_are_evenly_spaced_along_the_path():
    found = evenly_spaced(points((0, 0), (1, 0), (1, 3)), 5)
    np.testing.assert_allclose(found, [(0, 0), (1, 0), (1, 1), (1, 2), (1, 3)])
    np.testing.assert_array_equal(evenly_spaced(points((2, 1), (2, 1)), 3), [(2, 1)] * 3)


@pytest.mark.parametrize(
    ("path", "demonstration", "area"),
    [
        (on_axis(0, 1, 2), points((0, 1), (1, 1), (2, 1)), 2.0),
        (on_axis(0, 2), points((0, 3), (2, 3)), 6.0),
        (points((0, 0), (2, 1)), points((0, 1), (2, 0)), 1.0),  # two triangles of 1/2
        (points((0, 0), (0, 1)), points((2, 1), (2, 0)), 1.0),  # their connections cross
        (on_axis(0, 0.1, 2), on_axis(0, 1, 2), 0.0),  # another speed, the same way
        (points((0, 0), (0, 0)), points((0, 0), (1, 0), (1, 1)), 0.5),  # a triangle to a point
    ],
)
def test_swept_error_area(path, demonstration, area):
    assert swept_error_area(path, demonstration) == pytest.approx(area)
    assert swept_error_area(path + 7.5, demonstration + 7.5) == pytest.approx(area)


@pytest.mark.parametrize(
    ("path", "demonstration", "cost"),
    [
        (on_axis(0, 1, 2), on_axis(0, 0, 1, 1, 2), 0.0),  # another speed
        (on_axis(0, 2), on_axis(0, 1, 2), 1.0),  # the middle is matched at distance 1
        (points((0, 1), (1, 1), (2, 1)), on_axis(0, 1, 2), 3.0),
        (on_axis(5), on_axis(4, 6, 9), 6.0),
    ],
)
def test_time_warping_per_point_of_the_demonstration(path, demonstration, cost):
    found = warping_distances(path, demonstration[None])
    assert found == pytest.approx([cost / len(demonstration)])


def test_time_warping_agrees_with_its_definition():
    rng = np.random.default_rng(0)
    path, demonstrations = rng.normal(size=(6, 2)), rng.normal(size=(3, 5, 2))

    def cost(i, j, other):
        here = float(np.linalg.norm(path[i] - other[j]))
        before = [(i - 1, j), (i, j - 1), (i - 1, j - 1)]
        known = [cost(a, b, other) for a, b in before if a >= 0 and b >= 0]
        return here + min(known, default=0.0)

    expected = [cost(5, 4, other) / 5 for other in demonstrations]
    np.testing.assert_allclose(warping_distances(path, demonstrations), expected)
