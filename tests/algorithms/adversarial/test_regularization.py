"""What keeps a discriminator from being too sure of itself."""

import functools

import numpy as np
import pytest
import torch as th
from gymnasium import spaces

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.discriminator import (
    Regularization,
    gradient_penalty,
)
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet
from imitbench.util.networks import RunningNorm

from .conftest import make_trainer, make_venv

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)
ACTS = spaces.Box(-1, 1, (2,), np.float32)


def samples(seed, count=500, scale=(1.0, 10.0, 0.1)):
    rng = np.random.default_rng(seed)
    obs, next_obs = (rng.normal(seed, scale, (count, 3)).astype(np.float32) for _ in range(2))
    acts = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    return {"obs": obs, "acts": acts, "next_obs": next_obs, "dones": rng.random(count) < 0.1}


def linear(weights):
    """A network whose gradient is the same everywhere."""
    net = BasicRewardNet(BOX, ACTS, hid_sizes=[], normalize_input_layer=RunningNorm)
    with th.no_grad():
        net.mlp.dense_final.weight.copy_(th.tensor([weights]))
    return net


def test_the_penalty_is_of_the_gradient_by_standardized_inputs():
    one, other = samples(0), samples(1)
    net = linear([0.5, -1.0, 0.0, 2.0, 0.0])
    with th.no_grad():
        net.mlp.normalize_input.update_stats(
            th.from_numpy(np.concatenate([np.hstack([e["obs"], e["acts"]]) for e in (one, other)]))
        )
    found = gradient_penalty(net.train(), one, other, np.random.default_rng(0))
    norm = np.linalg.norm([0.5, -1.0, 2.0])
    assert found.item() == pytest.approx((norm - 1) ** 2, rel=1e-3)
    assert net.mlp.normalize_input.count == 1000, "its statistics stay as they are"


def test_units_of_observations_do_not_matter():
    one, other = samples(0), samples(1)
    net = linear([0.5, -1.0, 0.0, 2.0, 0.0])
    scaled = [{**e, "obs": e["obs"] * 100, "next_obs": e["next_obs"] * 100} for e in (one, other)]
    with th.no_grad():
        changed = linear([0.005, -0.01, 0.0, 2.0, 0.0])
    rng = np.random.default_rng
    before, after = (
        gradient_penalty(each, *batches, rng(0)).item()
        for each, batches in ((net, (one, other)), (changed, scaled))
    )
    assert after == pytest.approx(before, rel=1e-3)


@pytest.mark.parametrize("cls", [BasicRewardNet, BasicShapedRewardNet])
def test_training_on_the_penalty_gives_gradients_of_norm_one(cls):
    th.manual_seed(0)
    net = cls(BOX, ACTS, normalize_input_layer=RunningNorm)
    net(*net.preprocess(*samples(0).values()))
    optimizer, rng = th.optim.Adam(net.parameters(), lr=0.01), np.random.default_rng(0)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = gradient_penalty(net, samples(0), samples(1), rng)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"gradient_penalty": -1.0}, "gradient_penalty must be at least 0"),
        ({"label_smoothing": 0.5}, r"label_smoothing must lie in \[0, 0.5\), not 0.5"),
    ],
)
def test_a_value_out_of_range_is_reported(options, message):
    with pytest.raises(ValueError, match=message):
        Regularization(**options)


def sure_logits(algorithm, regularization, **net_options):
    """Largest logit after training on samples that are easy to distinguish."""
    venv = make_venv("Pendulum-v1")
    nets = {GAIL: BasicRewardNet, AIRL: BasicShapedRewardNet}
    trainer = make_trainer(
        algorithm, venv, regularization=regularization, disc_opt_kwargs={"lr": 0.01},
        reward_net=nets[algorithm](
            venv.observation_space, venv.action_space, normalize_input_layer=RunningNorm,
            **net_options,
        ),
    )  # fmt: skip
    rng = np.random.default_rng(0)

    def batch(shift):
        obs = rng.normal(shift, 0.1, (2, 32, 3)).astype(np.float32)
        return {"obs": obs[0], "acts": rng.uniform(-1, 1, (32, 1)).astype(np.float32),
                "next_obs": obs[1], "dones": np.zeros(32, bool)}  # fmt: skip

    for _ in range(60):
        trainer.train_disc(expert_samples=batch(1.0), gen_samples=batch(-1.0))
    with th.no_grad():
        return trainer._logits_of(batch(1.0)).abs().max().item()


@functools.cache
def sure_logits_without_regularization(algorithm):
    return sure_logits(algorithm, None)


@pytest.mark.parametrize(
    ("regularization", "net_options"),
    [
        (Regularization(gradient_penalty=10.0), {}),
        (Regularization(label_smoothing=0.1), {}),
        (None, {"spectral_norm": True}),
        (None, {"spectral_norm": True, "lipschitz": 2.0}),
    ],
    ids=["penalty", "smoothing", "spectral norm", "larger slopes"],
)
def test_each_regularization_makes_the_discriminator_less_certain(
    algorithm, regularization, net_options
):
    found = sure_logits(algorithm, regularization, **net_options)
    assert found < 0.7 * sure_logits_without_regularization(algorithm)
