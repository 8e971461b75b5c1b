"""How far a motion in the plane is from a demonstrated one: swept area and time warping."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def evenly_spaced(path: Floats, count: int) -> Floats:
    """Re-samples a polyline at points that are equally far apart along it.

    Args:
        path: Points, shape (points, 2).
        count: Number of points of the result, at least 2.

    Returns:
        Shape (count, 2), with the first and the last point of `path`.
    """
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)])
    wanted = np.linspace(0.0, along[-1], count)
    return np.stack([np.interp(wanted, along, axis) for axis in path.T], axis=1)


def swept_error_area(path: Floats, demonstration: Floats) -> float:
    """Returns the area between a motion and a demonstration, in squared units of the positions.

    Both are re-sampled at equally spaced points, as many as the demonstration has. The area is the
    sum over consecutive points of the area that the quadrilateral of two points of one motion and
    the two of the other encloses. Where its sides cross, it consists of two triangles.

    Args:
        path: Points of the motion, shape (points, 2).
        demonstration: Points of the demonstration, shape (points, 2).

    Source: Khansari-Zadeh and Billard 2014, "Learning control Lyapunov function to ensure stability
    of dynamical system-based robot reaching motions", equation 14.
    """
    count = len(demonstration)
    one, other = evenly_spaced(path, count), evenly_spaced(demonstration, count)
    return float(_enclosed(one[:-1], one[1:], other[1:], other[:-1]).sum())


def _enclosed(a: Floats, b: Floats, c: Floats, d: Floats) -> Floats:
    """Returns the areas that quadrilaterals with corners a, b, c, d enclose, shape (n,)."""
    simple = np.abs(_cross(c - a, d - b)) / 2
    area = simple
    for p, q, r, s in ((a, b, c, d), (b, c, d, a)):
        # Where the side from p to q crosses that from r to s, two triangles meet in x.
        along, across = q - p, s - r
        scale = _cross(along, across)
        safe = np.where(scale == 0, 1.0, scale)
        here, there = _cross(r - p, across) / safe, _cross(r - p, along) / safe
        crosses = (scale != 0) & (here > 0) & (here < 1) & (there > 0) & (there < 1)
        x = p + here[:, None] * along
        triangles = (np.abs(_cross(q - x, r - x)) + np.abs(_cross(s - x, p - x))) / 2
        area = np.where(crosses, triangles, area)
    return area


def _cross(one: Floats, other: Floats) -> Floats:
    crossed: Floats = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
    return crossed


def warping_distances(path: Floats, demonstrations: Floats) -> Floats:
    """Returns the dynamic time warping distance of a motion to each demonstration.

    It is the least sum of distances between matched points, divided by the number of points of the
    demonstration. The first points are matched, and the last ones; every point is matched, and
    matches never go back in time.

    Args:
        path: Points of the motion, shape (n, 2).
        demonstrations: Points of each demonstration, shape (demonstrations, m, 2).

    Returns:
        In units of the positions, shape (demonstrations,). Takes n * m steps for each.

    Source: Sakoe and Chiba 1978, "Dynamic programming algorithm optimization for spoken word
    recognition", without slope constraint and with weight 1 for every match.
    """
    apart = np.linalg.norm(demonstrations[:, None] - path[None, :, None], axis=-1)
    costs = np.cumsum(apart[:, 0], axis=1)
    for row in apart.swapaxes(0, 1)[1:]:
        before = np.concatenate([costs[:, :1], np.minimum(costs[:, 1:], costs[:, :-1])], axis=1)
        # costs[j] = row[j] + min(before[j], costs[j - 1]), for all j at once.
        sums = np.cumsum(row, axis=1)
        costs = sums + np.minimum.accumulate(before - (sums - row), axis=1)
    found: Floats = costs[:, -1] / demonstrations.shape[1]
    return found
