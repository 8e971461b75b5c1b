"""The heads of behavioral cloning: their losses, their samples, and what they refuse.

Networks without hidden layers are linear, so that their output can be set to any numbers.
"""

import json
import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from torch import distributions

from imitbench.errors import InputError
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    MixturePolicy,
)
from imitbench.policies.storage import load_policy, save_policy

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
UNIT = spaces.Box(-1.0, 1.0, (2,), np.float32)
HEADS = {
    "deterministic": (DeterministicPolicy, {}),
    "mixture": (MixturePolicy, {"n_components": 3, "low_noise": False}),
    "flow": (FlowPolicy, {"steps": 3}),
    "ensemble": (EnsemblePolicy, {"n_members": 4}),
    "gaussian ensemble": (EnsemblePolicy, {"n_members": 4, "gaussian": True}),
}
ANY_HEAD = pytest.mark.parametrize(("cls", "options"), HEADS.values(), ids=HEADS)


def linear(cls, output=None, acts=UNIT, **options):
    """A policy without hidden layers; its output does not depend on its input."""
    policy = cls(OBS, acts, net_arch=[], **options)
    with th.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
        if output is not None:
            policy.network[-1].bias.copy_(th.tensor(output))
    return policy


def observations(count=5, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32)


def loss_of(policy, acts, rng=None):
    rows = th.tensor(acts)
    return policy.loss(th.zeros(len(rows), 3), rows, rng or np.random.default_rng(0)).detach()


# All heads


@ANY_HEAD
@pytest.mark.parametrize("shape", [(2,), (), (2, 2)], ids=str)
def test_a_batch_of_observations_gives_a_batch_of_actions_within_bounds(cls, options, shape):
    th.manual_seed(0)
    space = spaces.Box(-0.01, 0.02, shape, np.float32)
    policy = cls(OBS, space, **options)
    for deterministic in (True, False):
        actions, state = policy.predict(observations(), deterministic=deterministic)
        assert actions.shape == (5, *shape)
        assert actions.dtype == np.float32
        assert state is None
        assert all(space.contains(np.asarray(action)) for action in actions)
    alone, _ = policy.predict(observations()[2], deterministic=True)
    together, _ = policy.predict(observations(), deterministic=True)
    np.testing.assert_allclose(alone, together[2], rtol=1e-5)


@ANY_HEAD
def test_samples_depend_on_torch_s_generator_and_fixed_actions_on_nothing(cls, options):
    th.manual_seed(0)
    policy = cls(OBS, UNIT, **options)

    def act(seed, deterministic):
        th.manual_seed(seed)
        return policy.predict(observations(50), deterministic=deterministic)[0]

    np.testing.assert_array_equal(act(1, True), act(2, True))
    np.testing.assert_array_equal(act(1, False), act(1, False))
    samples = policy.__class__ in (MixturePolicy, FlowPolicy) or options.get("gaussian", False)
    assert (act(1, False) != act(2, False)).any() == samples


@ANY_HEAD
def test_gradients_equal_finite_differences(cls, options):
    th.manual_seed(0)
    policy = cls(OBS, UNIT, net_arch=[4], **options).double()
    policy.extract_features = lambda obs, _: obs.double()  # which are made float32 otherwise
    obs, acts = th.randn(6, 3), th.rand(6, 2) - 0.5
    weight = policy.network[-1].weight

    def loss():
        return policy.loss(obs, acts, np.random.default_rng(1)).mean()

    (gradient,) = th.autograd.grad(loss(), weight)
    numeric, step = th.zeros_like(gradient), 1e-6
    with th.no_grad():
        for index in np.ndindex(*weight.shape):
            values = []
            for sign in (1, -1):
                weight[index] += sign * step
                values.append(loss())
                weight[index] -= sign * step
            numeric[index] = (values[0] - values[1]) / (2 * step)
    th.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)


def test_bounded_entries_are_scaled_and_others_are_not():
    space = spaces.Box(
        np.array([-2.0, 0.0, -np.inf, 1.0], np.float32),
        np.array([2.0, 4.0, np.inf, 1.0], np.float32),
    )
    policy = DeterministicPolicy(OBS, space)
    acts = th.tensor([[-2.0, 0.0, 7.0, 1.0], [1.0, 3.0, -7.0, 1.5]], dtype=th.float64)
    # (a - centre) / half of the range; the last entry has no range.
    scaled = th.tensor([[-1.0, -1.0, 7.0, 1.0], [0.5, 0.5, -7.0, 1.5]])
    th.testing.assert_close(policy.scaled(acts), scaled)
    th.testing.assert_close(policy.unscaled(scaled), acts.float())
    # Differences of 1.5, 1.5, 14 and 0.5 in scaled entries.
    distance = policy.distance(acts[:1].numpy(), acts[1:].numpy())
    np.testing.assert_allclose(distance, math.sqrt((2.25 + 2.25 + 196 + 0.25) / 4))


def test_dictionaries_of_observations_are_flattened():
    space = spaces.Dict({"a": OBS, "b": spaces.Discrete(2)})
    policy = DeterministicPolicy(space, UNIT)
    assert policy.n_features == 5
    actions, _ = policy.predict({"a": observations(), "b": np.array([0, 1, 1, 0, 1])})
    assert actions.shape == (5, 2)


@ANY_HEAD
def test_discrete_actions_are_refused(cls, options):
    with pytest.raises(ValueError, match=f"{cls.__name__} needs continuous actions, not Disc"):
        cls(OBS, spaces.Discrete(3), **options)


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (DeterministicPolicy, {"net_arch": [8, 0]}, "at least one unit"),
        (MixturePolicy, {"n_components": 0}, "n_components must be at least 1"),
        (MixturePolicy, {"min_std": 0.0}, "min_std must be positive"),
        (FlowPolicy, {"steps": 0}, "steps must be from 1 to 1000"),
        (EnsemblePolicy, {"n_members": 0}, "n_members must be at least 1"),
    ],
)
def test_impossible_settings_are_refused(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(OBS, UNIT, **options)


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (FlowPolicy, "steps", 10**9),
        (EnsemblePolicy, "n_members", 10**9),
        (MixturePolicy, "n_components", 10**9),
        (MixturePolicy, "min_std", "small"),
        (DeterministicPolicy, "net_arch", [10**6, 10**6]),
    ],
)
def test_files_that_ask_for_the_impossible_are_refused(tmp_path, cls, name, value):
    save_policy(cls(OBS, UNIT), tmp_path)
    path = tmp_path / "policy.json"
    document = json.loads(path.read_text())
    document["kwargs"][name] = value
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match="does not describe its weights"):
        load_policy(tmp_path)


# Least squares


def test_squared_error_is_averaged_over_scaled_entries():
    space = spaces.Box(-2.0, 2.0, (2,), np.float32)
    policy = linear(DeterministicPolicy, [0.25, -0.5], space)
    # The action (1, 1) is (0.5, 0.5) when scaled: errors 0.25 and 1.
    th.testing.assert_close(loss_of(policy, [[1.0, 1.0]]), th.tensor([(0.0625 + 1.0) / 2]))
    policy.loss(th.zeros(1, 3), th.ones(1, 2), np.random.default_rng(0)).sum().backward()
    # d/db of (b - a)^2 / 2 entries is b - a.
    th.testing.assert_close(policy.network[-1].bias.grad, th.tensor([-0.25, -1.0]))


# Mixtures


def mixture_output(log_weights, means, stds, min_std=0.01):
    """The output of a network for which the mixture has these parameters."""
    spread = np.log(np.expm1(np.asarray(stds) - min_std))
    rest = [value for pair in zip(means, spread, strict=True) for part in pair for value in part]
    return [*log_weights, *rest]


MEANS, STDS = [[0.5, 0.0], [-0.5, 0.2]], [[0.1, 0.2], [0.3, 0.05]]
WEIGHTS = [math.log(0.25), math.log(0.75)]


def two_gaussians(**options):
    output = mixture_output(WEIGHTS, MEANS, STDS)
    return linear(MixturePolicy, output, n_components=2, **options)


def test_the_density_of_a_mixture_equals_torch_s():
    expected = distributions.MixtureSameFamily(
        distributions.Categorical(logits=th.tensor(WEIGHTS)),
        distributions.Independent(distributions.Normal(th.tensor(MEANS), th.tensor(STDS)), 1),
    )
    acts = th.rand(20, 2) * 2 - 1
    th.testing.assert_close(loss_of(two_gaussians(), acts.tolist()), -expected.log_prob(acts))


def test_a_mixture_of_one_is_the_gaussian():
    policy = linear(MixturePolicy, mixture_output([3.0], [[0.2, 0.3]], [[0.5, 0.1]]),
                    n_components=1)  # fmt: skip
    # At one deviation from the mean in the first entry: 1/2 + log 0.5 + log 0.1 + log 2 pi.
    expected = 0.5 + math.log(0.05) + math.log(2 * math.pi)
    th.testing.assert_close(loss_of(policy, [[0.7, 0.3]]), th.tensor([expected]))


def test_a_sample_comes_from_a_component_as_often_as_it_weighs():
    th.manual_seed(0)
    actions, _ = two_gaussians().predict(np.zeros((4000, 3), np.float32))
    first = np.isclose(actions, MEANS[0], atol=1e-6).all(axis=1)
    assert np.isclose(actions[~first], MEANS[1], atol=1e-6).all()
    assert abs(first.mean() - 0.25) < 4 * math.sqrt(0.25 * 0.75 / 4000)


def test_noisy_samples_have_the_components_deviations():
    th.manual_seed(0)
    actions, _ = two_gaussians(low_noise=False).predict(np.zeros((20_000, 3), np.float32))
    # Entry 1 of the mixture: mean 0.15, variance E[std^2 + mean^2] - mean^2.
    variance = 0.25 * 0.04 + 0.75 * (0.0025 + 0.04) - 0.15**2
    assert abs(actions[:, 1].mean() - 0.15) < 5 * math.sqrt(variance / 20_000)
    np.testing.assert_allclose(actions[:, 1].var(), variance, rtol=0.06)


def test_the_fixed_action_is_the_mean_of_the_heaviest_component():
    actions, _ = two_gaussians().predict(np.zeros((2, 3), np.float32), deterministic=True)
    np.testing.assert_allclose(actions, [MEANS[1]] * 2, rtol=1e-6)


def test_no_deviation_is_below_the_least():
    policy = linear(MixturePolicy, [0.0] * 3 + [-100.0] * 2, n_components=1, min_std=0.03)
    stds = policy.mixture(th.zeros(1, 3))[2]
    assert (stds >= 0.03).all()


# Flows


def flow(by_point=0.0, by_time=0.0, constant=0.0, **options):
    """The velocity `by_point * x + by_time * (2 t - 1) + constant`, in one dimension."""
    policy = linear(FlowPolicy, [constant], spaces.Box(-9.0, 9.0, (1,), np.float32), **options)
    with th.no_grad():
        policy.network[-1].weight[0, 3:] = th.tensor([by_point, by_time])
    return policy


def scaled_action(policy, start):
    """Where the flow leads from a given noise."""

    with pytest.MonkeyPatch.context() as patch, th.no_grad():
        patch.setattr(th, "randn_like", lambda point: th.full_like(point, start))
        return float(policy.choose(th.zeros(1, 3), deterministic=False))


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_constant_velocity_is_followed_exactly(steps):
    policy = flow(constant=0.5, steps=steps)
    assert scaled_action(policy, 0.25) == pytest.approx(0.75)
    with th.no_grad():
        assert float(policy.choose(th.zeros(1, 3), deterministic=True)) == pytest.approx(0.5)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_euler_steps_of_a_decay_and_of_a_velocity_that_depends_on_time(steps):
    # dx/dt = -x in n steps: (1 - 1/n)^n of the noise is left.
    assert scaled_action(flow(by_point=-1.0, steps=steps), 0.8) == pytest.approx(
        0.8 * (1 - 1 / steps) ** steps
    )
    # dx/dt = 2 t - 1 at t = 0, 1/n, ..., (n - 1)/n: the sum is -1/n.
    assert scaled_action(flow(by_time=1.0, steps=steps), 0.0) == pytest.approx(-1 / steps)


class Fixed:
    """A generator whose numbers are known."""

    def __init__(self, noise, time):
        self.noise, self.time = noise, time

    def standard_normal(self, shape, dtype):
        return np.full(shape, self.noise, dtype)

    def random(self, shape, dtype):
        return np.full(shape, self.time, dtype)


def test_the_loss_is_the_error_of_the_velocity_on_the_straight_line():
    # The action 4.5 is 0.5 when scaled; from noise 0.1 the line has the velocity 0.4, and
    # passes x = 0.75 * 0.1 + 0.25 * 0.5 = 0.2 at t = 0.25.
    rng = Fixed(0.1, 0.25)
    for policy, velocity in (
        (flow(constant=0.3), 0.3),
        (flow(by_point=1.0), 0.2),
        (flow(by_time=1.0), -0.5),
    ):
        expected = th.tensor([(velocity - 0.4) ** 2])
        th.testing.assert_close(loss_of(policy, [[4.5]], rng), expected)


def test_the_best_velocity_of_a_gaussian_expert_is_the_known_one():
    """For actions from N(m, s^2) the minimum over functions of (x, t) is known in closed form."""
    mean, std, count = 0.3, 0.2, 40_000
    rng = np.random.default_rng(0)
    acts = th.from_numpy(9 * rng.normal(mean, std, (count, 1)))  # unscaled

    def optimum(_, x, t):
        gain = (t * std**2 - (1 - t)) / ((1 - t) ** 2 + (t * std) ** 2)
        return mean + gain * (x - t * mean)

    def loss_with(velocity):
        policy = flow()
        policy.velocity = velocity
        losses = policy.loss(th.zeros(count, 3), acts, np.random.default_rng(1))
        return float(losses.mean())

    best = loss_with(optimum)
    for change in (0.05, -0.05):
        assert loss_with(lambda *at, c=change: optimum(*at) + c) > best + 0.0015
        assert loss_with(lambda f, x, t, c=change: optimum(f, x, t) + 2 * c * x) > best
    # The deterministic action of the best flow is the mean, up to Euler's error.
    policy = flow(steps=200)
    policy.velocity = optimum
    assert float(policy.choose(th.zeros(1, 3), deterministic=True)) == pytest.approx(mean, abs=0.01)


# Ensembles


def constant_ensemble(means, variances=None, acts=UNIT):
    outputs = means
    if variances is not None:
        spread = np.log(np.expm1(np.asarray(variances) - 1e-6)).tolist()
        outputs = [m + s for m, s in zip(means, spread, strict=True)]
    policy = linear(EnsemblePolicy, n_members=len(means), gaussian=variances is not None, acts=acts)
    with th.no_grad():
        policy.network[-1].bias.copy_(th.tensor(outputs).unsqueeze(1))
    return policy


def test_members_are_independent_networks_of_the_usual_layers():
    th.manual_seed(0)
    policy = EnsemblePolicy(OBS, UNIT, net_arch=[6, 5], n_members=3)
    obs, acts = th.randn(7, 3), th.rand(7, 2)
    policy.loss(obs, acts, np.random.default_rng(0)).mean().backward()
    for member in range(3):
        alone = DeterministicPolicy(OBS, UNIT, net_arch=[6, 5])
        layers = [layer for layer in alone.network if isinstance(layer, th.nn.Linear)]
        stacked = [layer for layer in policy.network if hasattr(layer, "bias")]
        with th.no_grad():
            for layer, stack in zip(layers, stacked, strict=True):
                layer.weight.copy_(stack.weight[member].t())
                layer.bias.copy_(stack.bias[member, 0])
        means = policy.members(obs)[0][member]
        th.testing.assert_close(means, alone.network(obs))
        # Trained together, each has the gradient that it would have alone.
        alone.loss(obs, acts, np.random.default_rng(0)).mean().backward()
        for layer, stack in zip(layers, stacked, strict=True):
            th.testing.assert_close(stack.weight.grad[member].t(), layer.weight.grad)
            th.testing.assert_close(stack.bias.grad[member, 0], layer.bias.grad)
    assert len({float(weight.sum().detach()) for weight in policy.network[0].weight}) == 3


def test_disagreement_is_the_deviation_of_the_members_over_scaled_entries():
    space = spaces.Box(-2.0, 2.0, (2,), np.float32)
    policy = constant_ensemble([[0.1, 0.5], [0.3, -0.5]], acts=space)
    actions, disagreement = policy.act_with_disagreement(observations(4))
    np.testing.assert_allclose(actions, [[0.4, 0.0]] * 4, atol=1e-6)
    # Variances 0.01 and 0.25.
    np.testing.assert_allclose(disagreement, [math.sqrt(0.13)] * 4, rtol=1e-6)
    again, _ = policy.predict(observations(4), deterministic=True)
    np.testing.assert_array_equal(actions, again)


def test_actions_beyond_the_bounds_are_clipped():
    actions, _ = constant_ensemble([[3.0, 0.0], [2.0, -9.0]]).act_with_disagreement(observations(1))
    np.testing.assert_array_equal(actions, [[1.0, -1.0]])


def test_gaussian_members_minimize_their_negative_log_likelihood():
    means, variances = [[0.1, 0.2], [0.0, -0.3]], [[0.5, 0.1], [0.2, 0.3]]
    acts = th.rand(5, 2)
    expected = -sum(
        distributions.Normal(th.tensor(mean), th.tensor(variance).sqrt()).log_prob(acts).sum(dim=1)
        for mean, variance in zip(means, variances, strict=True)
    )
    th.testing.assert_close(loss_of(constant_ensemble(means, variances), acts.tolist()), expected)


def test_samples_of_gaussian_members_have_the_moments_of_their_mixture():
    """Section 2.4: the variance is the mean of variance + mean^2, less the squared mean."""
    means, variances = [[0.3, 0.0], [-0.1, 0.0]], [[0.01, 0.02], [0.03, 0.04]]
    policy, count = constant_ensemble(means, variances), 40_000
    th.manual_seed(0)
    with th.no_grad():
        samples = policy.choose(th.zeros(count, 3), deterministic=False).numpy()
    expected = np.array([(0.01 + 0.09 + 0.03 + 0.01) / 2 - 0.1**2, 0.03])
    np.testing.assert_allclose(samples.var(axis=0), expected, rtol=0.05)
    assert (np.abs(samples.mean(axis=0) - [0.1, 0.0]) < 5 * np.sqrt(expected / count)).all()
