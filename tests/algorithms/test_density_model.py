"""Kernel density estimates are exact, fast in bounded memory, and standardized as documented."""

import tracemalloc

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from imitbench.algorithms.density_model import TimedDensity
from imitbench.util.kernel_density import (
    KERNELS,
    GaussianDensity,
    Standardiser,
    check_kernel,
    fit_density,
)


def whole_leaf(points, kernel, bandwidth):
    """scikit-learn's estimate, from a tree of one leaf: with more it loses digits."""
    from sklearn.neighbors import KernelDensity  # slowly, and not by every test worker

    estimator = KernelDensity(kernel=kernel, bandwidth=bandwidth, leaf_size=len(points))
    return estimator.fit(points)


def standard_scaler():
    from sklearn.preprocessing import StandardScaler

    return StandardScaler()


def by_the_definition(points, queries, bandwidth):
    count, dims = points.shape
    exponents = -0.5 * (cdist(queries, points) / bandwidth) ** 2
    return (
        logsumexp(exponents, axis=1)
        - np.log(count)
        - dims * (np.log(bandwidth) + 0.5 * np.log(2 * np.pi))
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("dims", "bandwidth"), [(1, 0.3), (4, 0.5), (17, 1.0)])
def test_any_kernel_equals_scikit_learns(kernel, dims, bandwidth):
    rng = np.random.default_rng(dims)
    points = rng.normal(size=(500, dims))
    queries = np.concatenate([1.5 * rng.normal(size=(100, dims)), points[:20]])
    expected = whole_leaf(points, kernel, bandwidth).score_samples(queries)
    got = fit_density(points, kernel, bandwidth).log_density(queries)
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_a_gaussian_density_integrates_to_one():
    density = GaussianDensity(np.array([[-1.0], [0.5], [0.7]]), 0.4)
    total, _ = quad(lambda x: np.exp(density.log_density(np.array([[x]]))[0]), -6, 6)
    assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("bandwidth", [0.05, 0.5, 5.0])
def test_tails_keep_their_digits(bandwidth):
    """The density is exp(-100,000) in some of these places."""
    rng = np.random.default_rng(0)
    points, queries = rng.normal(size=(400, 6)), rng.normal(size=(50, 6)) * 8
    expected = by_the_definition(points, queries, bandwidth)
    assert expected.min() < -20
    got = GaussianDensity(points, bandwidth).log_density(queries)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("offset", [1e4, 1e8])
def test_points_far_from_the_origin_keep_precision(offset):
    rng = np.random.default_rng(1)
    # Multiples of a power of two, which moving by the offset does not round.
    points, queries = (np.round(rng.normal(size=(n, 3)) * 1024) / 1024 for n in (300, 40))
    expected = by_the_definition(points, queries, 0.25)
    moved = GaussianDensity(points + offset, 0.25).log_density(queries + offset)
    np.testing.assert_allclose(moved, expected, atol=1e-8)


def test_points_far_from_each_other_keep_precision():
    """Products of numbers near a billion would leave no digit of differences near one."""
    clusters = np.array([[-1e9, 0.0], [0.0, 1e9], [1e9, 1e9]])
    points = np.concatenate([clusters + np.array([step, 0.0]) for step in (0.0, 0.5, 1.0)])
    queries = clusters + np.array([0.25, 0.75])
    np.testing.assert_allclose(
        GaussianDensity(points, 0.5).log_density(queries),
        by_the_definition(points, queries, 0.5),
        atol=1e-9,
    )


@pytest.mark.parametrize("bandwidth", [0.1, 3.0])  # every single point counts for the wide one
def test_more_points_than_a_block_give_the_same_density(bandwidth):
    rng = np.random.default_rng(2)
    points, queries = rng.normal(size=(40_000, 2)), rng.normal(size=(21, 2))
    got = GaussianDensity(points, bandwidth).log_density(queries)
    np.testing.assert_allclose(got, by_the_definition(points, queries, bandwidth), atol=1e-9)


def test_memory_does_not_grow_with_the_number_of_pairs():
    rng = np.random.default_rng(3)
    density = GaussianDensity(rng.normal(size=(20_000, 3)), 0.5)
    queries = rng.normal(size=(1_000, 3))
    density.log_density(queries[:2])
    tracemalloc.start()
    density.log_density(queries)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8e6  # all pairs together would take 160 MB


def test_an_answer_does_not_depend_on_its_neighbours():
    rng = np.random.default_rng(4)
    density = GaussianDensity(rng.normal(size=(3_000, 5)), 0.5)
    queries = rng.normal(size=(500, 5))
    alone = np.concatenate([density.log_density(query[None]) for query in queries[::50]])
    np.testing.assert_allclose(density.log_density(queries)[::50], alone, rtol=1e-13)


def test_bounded_kernels_have_densities_of_zero():
    density = fit_density(np.zeros((3, 1)), "tophat", 1.0)
    assert density.log_density(np.array([[0.5], [2.0]])).tolist() == [np.log(0.5), -np.inf]


def test_standardizing_equals_scikit_learns():
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(200, 5)) * [1, 1e3, 1e-4, 1, 0] + [0, 5, 1e3, -2, 7.1]
    queries = rng.normal(size=(30, 5))
    expected = standard_scaler().fit(rows).transform(queries)
    np.testing.assert_allclose(Standardiser(rows)(queries), expected, rtol=1e-9)
    assert np.array_equal(Standardiser(rows, enabled=False)(queries), queries)


def test_all_times_are_standardised_together():
    rows = {0: np.array([[0.0], [2.0]]), 1: np.array([[10.0], [12.0]])}
    density = TimedDensity(rows, "gaussian", 0.5, True)
    scaler = standard_scaler().fit(np.concatenate(list(rows.values())))
    queries, steps = np.array([[1.0], [1.0], [11.0]]), np.array([0, 1, 1])
    models = {t: whole_leaf(scaler.transform(rows[t]), "gaussian", 0.5) for t in rows}
    expected = [
        models[t].score_samples(scaler.transform(query[None]))[0]
        for t, query in zip(steps.tolist(), queries, strict=True)
    ]
    np.testing.assert_allclose(density.log_density(queries, steps), expected)


@pytest.mark.parametrize(
    ("kernel", "bandwidth", "message"),
    [
        ("round", 0.5, "kernel must be one of gaussian"),
        ("gaussian", 0.0, "kernel_bandwidth must be positive"),
        ("gaussian", -1.0, "kernel_bandwidth must be positive"),
        ("gaussian", float("nan"), "kernel_bandwidth must be positive"),
        ("gaussian", float("inf"), "kernel_bandwidth must be positive"),
        ("gaussian", "scott", "kernel_bandwidth must be positive"),
    ],
)
def test_bad_kernels_are_refused(kernel, bandwidth, message):
    with pytest.raises(ValueError, match=message):
        check_kernel(kernel, bandwidth)
