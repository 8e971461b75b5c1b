import math

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.policies.bounded_actions import ActionBounds, clipped_log_prob
from imitbench.util.squashed_gaussian import TAIL_WIDTH, squashed_log_prob


def box(low: float = -2.0, high: float = 2.0, size: int = 1) -> spaces.Box:
    return spaces.Box(low, high, (size,), np.float32)


BOUNDS = ActionBounds.of(box())
WIDTH = TAIL_WIDTH * 2.0


def clipped(mean: float, std: float, actions: th.Tensor) -> th.Tensor:
    size = len(actions)
    means, stds = th.full((size, 1), mean), th.full((1,), std)
    return clipped_log_prob(means, stds, actions.reshape(size, 1), BOUNDS)


@pytest.mark.parametrize(
    ("mean", "std"), [(0.0, 0.5), (0.0, 3.0), (1.9, 0.2), (-2.5, 1.0), (6.0, 2.0)]
)
def test_total_mass_of_clipped_actions_is_one(mean: float, std: float) -> None:
    inside = th.linspace(-2, 2, 200_001, dtype=th.float64)[1:-1]
    length = float(inside[1] - inside[0])
    mass = float(clipped(mean, std, inside).exp().sum()) * length
    mass += float(clipped(mean, std, th.tensor([-2.0, 2.0])).exp().sum()) * WIDTH
    assert mass == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize(("mean", "std"), [(0.3, 0.4), (1.5, 1.0), (-3.0, 2.0)])
def test_clipped_density_is_the_frequency_of_simulated_actions(mean: float, std: float) -> None:
    draws = np.random.default_rng(0).normal(mean, std, 400_000).clip(-2, 2)
    at_bounds = [(draws == bound).mean() / WIDTH for bound in (-2.0, 2.0)]
    density = clipped(mean, std, th.tensor([-2.0, 2.0])).exp().tolist()
    assert density == pytest.approx(at_bounds, rel=0.03, abs=0.02)
    counts, edges = np.histogram(draws[np.abs(draws) < 2], bins=20, range=(-2, 2))
    middles = th.as_tensor((edges[1:] + edges[:-1]) / 2, dtype=th.float32)
    seen = counts / len(draws) / np.diff(edges)
    assert clipped(mean, std, middles).exp().tolist() == pytest.approx(seen, rel=0.05, abs=0.01)


def test_without_spread_a_mean_beyond_the_bound_is_certain_to_be_at_it() -> None:
    assert float(clipped(2.5, 1e-4, th.tensor([2.0]))) == pytest.approx(-math.log(WIDTH))
    assert float(clipped(1e6, 1.0, th.tensor([2.0]))) == pytest.approx(-math.log(WIDTH))
    # The other bound is all but impossible, but its density is a number.
    opposite = float(clipped(2.5, 0.1, th.tensor([-2.0])))
    assert -1100 < opposite < -900


def test_the_normal_density_of_a_clipped_action_is_not_its_own() -> None:
    """The known answer: mean 3 standard deviations beyond the bound."""
    action = th.tensor([2.0])
    normal = th.distributions.Normal(2.3, 0.1).log_prob(action)
    assert float(normal) == pytest.approx(-4.5 - math.log(0.1) - 0.9189385)
    tail = 0.5 * (1 + math.erf(3 / math.sqrt(2)))
    assert float(clipped(2.3, 0.1, action)) == pytest.approx(math.log(tail / WIDTH), abs=1e-5)


def test_density_of_several_dimensions_is_the_product() -> None:
    bounds = ActionBounds.of(spaces.Box(np.array([-1, 0]), np.array([1, 4]), dtype=np.float32))
    mean, std = th.tensor([[0.2, 5.0]]), th.tensor([0.5, 1.0])
    found = clipped_log_prob(mean, std, th.tensor([[0.1, 4.0]]), bounds)
    first = th.distributions.Normal(0.2, 0.5).log_prob(th.tensor(0.1))
    tail = 0.5 * (1 + math.erf(1 / math.sqrt(2)))
    assert float(found) == pytest.approx(float(first) + math.log(tail / (TAIL_WIDTH * 2)))


def test_uniform_density_has_mass_one() -> None:
    space = spaces.Box(np.array([-1, 0]), np.array([1, 4]), dtype=np.float32)
    # Length and both weighted bounds: 2 + 2 * 0.05 and 4 + 2 * 0.1.
    assert ActionBounds.of(space).log_uniform() == pytest.approx(-math.log(2.1 * 4.2), abs=1e-6)


@pytest.mark.parametrize(("mean", "log_std"), [(0.0, -0.5), (1.5, 0.3), (-3.0, -1.0)])
def test_total_mass_of_squashed_actions_is_one(mean: float, log_std: float) -> None:
    actions = (th.arange(400_000, dtype=th.float64) + 0.5) / 200_000 - 1
    means, log_stds = th.full((400_000, 1), mean), th.full((1,), log_std)
    density = squashed_log_prob(means, log_stds, actions.reshape(-1, 1)).exp()
    assert float(density.sum()) / 200_000 == pytest.approx(1, abs=2e-4)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Discrete(3), "must be a Box"),
        (box(high=np.inf), "finite bounds"),
        (box(low=-np.inf), "finite bounds"),
        (box(low=2.0, high=2.0), "must be below"),
    ],
)
def test_spaces_without_bounds_are_refused(space: gym.Space[object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ActionBounds.of(space)
