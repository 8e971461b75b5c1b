"""The reward of a density, for steps that differ in what it does not see."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.rewards.density import DensityRewardNet
from imitbench.util.kernel_density import GaussianDensity

OBS, ACTS = spaces.Box(-1, 1, (2,)), spaces.Box(-1, 1, (1,))


def net_of(**seen):
    seen = {"use_action": False, "use_next_state": False} | seen
    net = DensityRewardNet(OBS, ACTS, kernel="gaussian", bandwidth=0.5, n_points=9, **seen)
    generator = th.Generator().manual_seed(0)
    net.points.copy_(th.randn(net.points.shape, generator=generator, dtype=th.float64))
    return net


@pytest.fixture
def asked(monkeypatch):
    """Numbers of points of which a density was computed."""
    found = []
    compute = GaussianDensity.log_density

    def counted(self, queries):
        found.append(len(queries))
        return compute(self, queries)

    monkeypatch.setattr(GaussianDensity, "log_density", counted)
    return found


def test_a_density_of_states_is_computed_once_for_each_of_repeated_states(asked):
    rng = np.random.default_rng(0)
    few = rng.uniform(-1, 1, (5, 2)).astype(np.float32)
    obs, acts = np.repeat(few, 8, axis=0), rng.uniform(-1, 1, (40, 1)).astype(np.float32)
    done = np.zeros(40, bool)
    net = net_of()
    found = net.predict(obs, acts, obs, done)
    alone = net.predict(few, acts[:5], few, done[:5])
    np.testing.assert_allclose(found, np.repeat(alone, 8), rtol=1e-6)
    assert asked == [5, 5]
    net_of(use_action=True).predict(obs, acts, obs, done)
    assert asked.pop() == 40
    assert net.predict(obs[:0], acts[:0], obs[:0], done[:0]).shape == (0,)
