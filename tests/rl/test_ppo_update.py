"""The gradient in closed form is that of automatic differentiation."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import nn
from torch.nn import functional

from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor
from imitbench.rl.numpy_policy import NumpyPolicy
from imitbench.rl.ppo_update import PPOUpdater, Samples, UpdateSettings

DISCRETE, BOX = spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32)


def settings(**changes):
    plain = {
        "clip_range": 0.2, "clip_range_vf": None, "normalize_advantage": True, "ent_coef": 0.01,
        "vf_coef": 0.5, "max_grad_norm": 0.5, "target_kl": None, "n_epochs": 2, "batch_size": 16,
    }  # fmt: skip
    return UpdateSettings(**plain | changes)


def loss_of(evaluate, policy, samples, acts, chosen):
    """The loss as the paper writes it, for torch to differentiate."""
    old_values, old_log_probs, advantages, returns = (
        th.from_numpy(getattr(samples, name))
        for name in ("values", "log_probs", "advantages", "returns")
    )
    values, log_prob, entropy = evaluate(policy, samples.obs, acts)
    if chosen.normalize_advantage:
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
    ratio = (log_prob - old_log_probs).exp()
    bounded = ratio.clamp(1 - chosen.clip_range, 1 + chosen.clip_range)
    gain = th.min(advantages * ratio, advantages * bounded).mean()
    if chosen.clip_range_vf is not None:
        change = (values - old_values).clamp(-chosen.clip_range_vf, chosen.clip_range_vf)
        values = old_values + change
    return (
        -gain
        - chosen.ent_coef * entropy.mean()
        + chosen.vf_coef * functional.mse_loss(returns, values)
    )


@pytest.fixture
def make_samples():
    def make(numpy_policy, count=50):
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(count, 5))
        space = numpy_policy.policy.action_space
        acts = rng.integers(3, size=count) if space is DISCRETE else rng.normal(size=(count, 2))
        numpy_policy.load()
        outputs, values = numpy_policy.network.evaluate(numpy_policy.features(obs))
        encoded = numpy_policy.head.encode(acts)
        log_probs, _ = numpy_policy.head.log_prob(outputs, encoded)
        # Half of the ratios are cut off, and half of the values have moved too far.
        samples = Samples(
            obs=obs,
            acts=encoded,
            values=values + rng.normal(size=count) * 0.3,
            log_probs=log_probs + rng.normal(size=count) * 0.3,
            advantages=rng.normal(size=count),
            returns=rng.normal(size=count),
        )
        return samples, acts

    return make


@pytest.mark.parametrize("space", [DISCRETE, BOX], ids=["discrete", "box"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"clip_range_vf": 0.2}, {"ent_coef": 0.0, "vf_coef": 0.0}, {"normalize_advantage": False}],
)
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"net_arch": {"pi": [7], "vf": [9, 8]}, "activation_fn": nn.ReLU},
        {"net_arch": []},
        {"cls": FeedForward32Policy, "features_extractor_class": NormalizeFeaturesExtractor},
    ],
)
def test_gradient_is_exact(make_policy, make_samples, evaluate, space, changes, kwargs):
    policy = make_policy(space, th.float64, **kwargs)
    updater = PPOUpdater(NumpyPolicy(policy))
    policy.set_training_mode(False)
    samples, acts = make_samples(updater.numpy_policy)
    chosen = settings(n_epochs=1, batch_size=50, max_grad_norm=np.inf, **changes)
    loss_of(evaluate, policy, samples, acts, chosen).backward()
    expected = [each.grad.numpy().copy() for each in policy.parameters()]
    updater.update(samples, chosen)
    for each, due in zip(policy.parameters(), expected, strict=True):
        # Adam's first moment is a tenth of its first gradient.
        gradient = policy.optimizer.state[each]["exp_avg"] / 0.1
        np.testing.assert_allclose(gradient, due, rtol=0, atol=1e-10)


def test_steps_are_those_of_adam_on_shortened_gradients(make_policy, make_samples, evaluate):
    """A minibatch of all samples has no order, so that two optimizers can be compared."""
    policy, other = (make_policy(BOX, th.float64) for _ in range(2))
    updater = PPOUpdater(NumpyPolicy(policy))
    samples, acts = make_samples(updater.numpy_policy)
    chosen = settings(batch_size=50, n_epochs=5, max_grad_norm=0.1)
    updater.update(samples, chosen)
    for _ in range(5):
        other.optimizer.zero_grad()
        loss_of(evaluate, other, samples, acts, chosen).backward()
        nn.utils.clip_grad_norm_(other.parameters(), 0.1)
        other.optimizer.step()
    for own, expected in zip(policy.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(own.detach(), expected.detach(), rtol=0, atol=1e-10)
        for key in ("step", "exp_avg", "exp_avg_sq"):
            mine, theirs = policy.optimizer.state[own][key], other.optimizer.state[expected][key]
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-10)


def test_statistics_of_a_normalizer_follow_each_minibatch(make_policy, make_samples):
    kwargs = {"features_extractor_class": NormalizeFeaturesExtractor}
    policy, other = (make_policy(DISCRETE, th.float64, **kwargs) for _ in range(2))
    updater = PPOUpdater(NumpyPolicy(policy))
    samples, _ = make_samples(updater.numpy_policy)
    policy.set_training_mode(True)
    np.random.seed(0)  # noqa: NPY002
    updater.update(samples, settings(n_epochs=1))
    np.random.seed(0)  # noqa: NPY002
    order = np.random.permutation(50)  # noqa: NPY002
    other.set_training_mode(True)
    for start in range(0, 50, 16):
        other.features_extractor(th.from_numpy(samples.obs[order[start : start + 16]]))
    found, expected = policy.features_extractor.normalize, other.features_extractor.normalize
    assert found.count == expected.count == 50
    np.testing.assert_allclose(found.running_mean, expected.running_mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.running_var, expected.running_var, rtol=0, atol=1e-12)


def test_stops_before_the_step_of_the_minibatch_that_went_too_far(make_policy, make_samples):
    policy = make_policy(DISCRETE, th.float64)
    updater = PPOUpdater(NumpyPolicy(policy))
    samples, _ = make_samples(updater.numpy_policy)
    before = [each.detach().clone() for each in policy.parameters()]
    result = updater.update(samples, settings(target_kl=1e-6))
    assert result.stopped
    assert result.epochs == 1
    for old, new in zip(before, policy.parameters(), strict=True):
        assert th.equal(old, new)
    assert not policy.optimizer.state


def test_a_gradient_that_is_not_finite_is_an_error(make_policy, make_samples):
    updater = PPOUpdater(NumpyPolicy(make_policy(DISCRETE, th.float64)))
    samples, _ = make_samples(updater.numpy_policy)
    samples.returns[0] = np.inf
    with pytest.raises(ValueError, match="not finite"):
        updater.update(samples, settings())
