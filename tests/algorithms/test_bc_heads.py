"""Behavioral cloning with any head: what it learns, and that it is exact where it should be."""

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from support.dagger import quiet_logger

from imitbench.algorithms.bc_heads import BCWithHead
from imitbench.data import types
from imitbench.policies.action_heads import (
    DeterministicPolicy,
    EnsemblePolicy,
    FlowPolicy,
    MixturePolicy,
)
from imitbench.policies.base import FeedForward32Policy, NormalizeFeaturesExtractor
from imitbench.policies.storage import load_policy
from imitbench.util.state_file import load_state, save_state

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
TORQUE = spaces.Box(-2.0, 2.0, (2,), np.float32)
NORMALIZED = {"features_extractor_class": NormalizeFeaturesExtractor}
HEADS = {
    "deterministic": (DeterministicPolicy, {}),
    "mixture": (MixturePolicy, {"n_components": 5}),
    "flow": (FlowPolicy, {"steps": 10}),
    "ensemble": (EnsemblePolicy, {"n_members": 3}),
    "gaussian ensemble": (EnsemblePolicy, {"n_members": 3, "gaussian": True}),
}
ANY_HEAD = pytest.mark.parametrize(("cls", "options"), HEADS.values(), ids=HEADS)


def transitions(count=256, *, two_ways=False, seed=0):
    """The expert acts by the first observation; or, in one place, left and right at random."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, 3)).astype(np.float32) * (not two_ways)
    first = np.tanh(obs[:, 0]) if not two_ways else rng.choice([-1.0, 1.0], count)
    acts = np.stack([first, -first], axis=1).astype(np.float32)
    return types.TransitionsMinimal(obs=obs, acts=acts, infos=np.array([{}] * count))


def make(cls, options, *, data=None, seed=0, arch=(32,), **trainer_options):
    th.manual_seed(seed)
    return BCWithHead(
        policy=cls(OBS, TORQUE, net_arch=arch, **NORMALIZED, **options),
        rng=np.random.default_rng(seed),
        demonstrations=transitions() if data is None else data,
        custom_logger=quiet_logger(),
        device="cpu",
        **{"optimizer_kwargs": {"lr": 1e-2}, "batch_size": 32, **trainer_options},
    )


def train(trainer, batches, **options):
    trainer.train(n_batches=batches, progress_bar=False, **options)
    return trainer


def parameters_of(trainer):
    return {name: value.clone() for name, value in trainer.policy.state_dict().items()}


def assert_same(one, other):
    assert one.keys() == other.keys()
    assert all(th.equal(one[name], other[name]) for name in one)


@ANY_HEAD
def test_it_learns_what_the_expert_does(cls, options):
    trainer = train(make(cls, options), 250)
    fresh = transitions(200, seed=1)
    actions, _ = trainer.policy.predict(fresh.obs, deterministic=True)
    errors = trainer.policy.distance(actions, fresh.acts)
    # The expert's own actions deviate by 0.3 when scaled.
    assert np.sqrt(np.square(errors).mean()) < 0.06


def test_only_some_heads_can_go_two_ways():
    """The expert goes left or right at random; the middle is what it never does."""
    data = transitions(512, two_ways=True)
    samples = {}
    for name in ("deterministic", "mixture", "flow"):
        trainer = make(*HEADS[name], data=data, arch=(64, 64), batch_size=64)
        trainer.optimizer.param_groups[0]["lr"] = 3e-3
        train(trainer, 400)
        th.manual_seed(0)
        samples[name] = trainer.policy.predict(data.obs)[0][:, 0]
    assert np.abs(samples["deterministic"]).max() < 0.2
    for name in ("mixture", "flow"):
        near = np.abs(np.abs(samples[name]) - 1.0) < 0.4
        assert near.mean() > 0.8
        assert 0.3 < (samples[name] > 0).mean() < 0.7


def test_members_disagree_more_where_there_is_no_data():
    trainer = train(make(EnsemblePolicy, {"n_members": 5}), 300)
    known = transitions(200, seed=1).obs
    _, near = trainer.policy.act_with_disagreement(known)
    _, far = trainer.policy.act_with_disagreement(known * 6)
    assert np.median(far) > 3 * np.median(near)


@ANY_HEAD
def test_two_calls_equal_one_and_a_restored_state_continues_bit_for_bit(cls, options, tmp_path):
    whole = train(make(cls, options), 30)
    parts = train(make(cls, options), 13)
    save_state(tmp_path / "a.state", parts.state_dict())
    train(parts, 17)
    assert_same(parameters_of(parts), parameters_of(whole))
    resumed = make(cls, options, seed=7)
    resumed.load_state_dict(load_state(tmp_path / "a.state"))
    train(resumed, 17)
    assert_same(parameters_of(resumed), parameters_of(whole))


@ANY_HEAD
def test_the_log_interval_does_not_change_the_result(cls, options):
    often, never = (make(cls, options) for _ in range(2))
    assert_same(
        parameters_of(train(often, 12, log_interval=1)),
        parameters_of(train(never, 12, log_interval=1000)),
    )


@pytest.mark.parametrize("name", ["deterministic", "mixture", "gaussian ensemble"])
def test_minibatches_accumulate_the_gradient_of_the_batch(name):
    cls, options = HEADS[name]
    data = transitions(64)

    def gradient(minibatch_size):
        trainer = make(cls, options, data=data, batch_size=64, minibatch_size=minibatch_size)
        trainer.policy.features_extractor = th.nn.Flatten()  # batches normalize differently
        step = trainer.loss_calculator.gradient_step(trainer.policy)
        for start in range(0, 64, minibatch_size):
            part = slice(start, start + minibatch_size)
            obs, acts = (th.from_numpy(each[part].copy()) for each in (data.obs, data.acts))
            step(obs, acts, minibatch_size / 64)
        return [each.grad for each in trainer.policy.network.parameters()]

    for one, other in zip(gradient(64), gradient(16), strict=True):
        th.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_the_squared_norm_pulls_parameters_by_its_weight():
    trainer = make(DeterministicPolicy, {}, l2_weight=0.5)
    obs, acts = th.zeros(4, 3), th.zeros(4, 2)
    trainer.loss_calculator.gradient_step(trainer.policy)(obs, acts, 1.0)
    with_penalty = [each.grad.clone() for each in trainer.policy.parameters()]
    plain = make(DeterministicPolicy, {})
    plain.loss_calculator.gradient_step(plain.policy)(obs, acts, 1.0)
    for each, gradient in zip(plain.policy.parameters(), with_penalty, strict=True):
        th.testing.assert_close(gradient - each.grad, 0.5 * each.detach())


def test_logged_metrics_are_the_parts_of_the_loss():
    trainer = make(DeterministicPolicy, {}, l2_weight=0.1)
    obs, acts = th.randn(8, 3), th.rand(8, 2)
    trainer.policy.set_training_mode(False)
    found = trainer.loss_calculator(trainer.policy, obs, acts)
    squares = trainer.policy.loss(obs, acts, trainer.rng).mean()
    norm = 0.5 * sum(each.square().sum() for each in trainer.policy.parameters())
    th.testing.assert_close(found.head_loss, squares)
    th.testing.assert_close(found.action_error, squares.sqrt())
    th.testing.assert_close(found.l2_norm, norm)
    th.testing.assert_close(found.loss, squares + 0.1 * norm)


@ANY_HEAD
def test_a_trained_policy_is_stored_and_loaded(cls, options, tmp_path):
    trainer = train(make(cls, options), 3)
    trainer.save_policy(tmp_path)
    again = load_policy(tmp_path)
    assert type(again) is cls
    obs = transitions(5).obs
    for deterministic in (True, False):
        actions = []
        for policy in (trainer.policy, again):
            th.manual_seed(0)
            actions.append(policy.predict(obs, deterministic=deterministic)[0])
        np.testing.assert_array_equal(*actions)


def test_dictionaries_of_observations_are_learned_from():
    space = spaces.Dict({"a": OBS, "b": spaces.Discrete(2)})
    flat = transitions()
    obs = types.DictObs({"a": flat.obs, "b": (flat.obs[:, 0] > 0).astype(np.int64)})
    data = types.TransitionsMinimal(obs=obs, acts=flat.acts, infos=flat.infos)
    th.manual_seed(0)
    trainer = BCWithHead(
        policy=MixturePolicy(space, TORQUE),
        rng=np.random.default_rng(0),
        demonstrations=data,
        custom_logger=quiet_logger(),
        device="cpu",
    )
    before = parameters_of(trainer)
    train(trainer, 2)
    assert any(not th.equal(before[name], value) for name, value in parameters_of(trainer).items())


def test_policies_without_a_head_are_for_plain_cloning():
    policy = FeedForward32Policy(OBS, TORQUE, lambda _: 1e-3)
    with pytest.raises(TypeError, match="others are trained by BC"):
        BCWithHead(policy=policy, rng=np.random.default_rng(0))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 257}, "256 transitions, fewer than batch_size 257"),
        ({"data": []}, "demonstrations are empty"),
        ({"optimizer_kwargs": {"weight_decay": 1.0}}, "l2_weight"),
    ],
)
def test_bad_input_is_refused_as_by_plain_cloning(options, message):
    with pytest.raises(ValueError, match=message):
        make(DeterministicPolicy, {}, **options)
