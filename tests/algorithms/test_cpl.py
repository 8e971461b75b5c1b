"""Contrastive preference learning, with losses worked out by hand."""

import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms.cpl import CPL, CPLOptions, contrastive_loss, log_probabilities
from imitbench.algorithms.preference_comparisons import PreferenceDataset
from imitbench.data.types import TrajectoryWithRew
from imitbench.policies.action_heads import DeterministicPolicy

OBS = spaces.Box(-1, 1, (2,), np.float32)
TORQUE = spaces.Box(-2, 2, (1,), np.float32)
BUTTONS = spaces.Discrete(2)


def tensor(*values):
    return th.tensor(values, dtype=th.float64)


def test_without_bias_the_loss_is_that_of_bradley_and_terry():
    losses = contrastive_loss(tensor(2.0, 2.0, 0.0), tensor(1.0, 1.0, 0.0), tensor(1.0, 0.0, 0.5))
    expected = [math.log1p(math.exp(-1)), math.log1p(math.exp(1)), math.log(2)]
    assert losses.tolist() == pytest.approx(expected)


def test_the_bias_weighs_the_other_fragment():
    # log(exp A_1 + exp ½ A_2) - A_1 for A = -3, -4: log(1 + exp(-2 + 3)).
    losses = contrastive_loss(tensor(-3.0), tensor(-4.0), tensor(1.0), bias=0.5)
    assert losses.item() == pytest.approx(math.log1p(math.e))
    # And for the second: log(1 + exp(-1.5 + 4)).
    losses = contrastive_loss(tensor(-3.0), tensor(-4.0), tensor(0.0), bias=0.5)
    assert losses.item() == pytest.approx(math.log1p(math.exp(2.5)))
    # A soft answer lies between, and weights multiply.
    soft = contrastive_loss(tensor(-3.0), tensor(-4.0), tensor(0.75), 0.5, tensor(2.0))
    expected = 2 * (0.75 * math.log1p(math.e) + 0.25 * math.log1p(math.exp(2.5)))
    assert soft.item() == pytest.approx(expected)


def test_with_a_bias_likely_fragments_have_less_loss():
    ones = th.ones(2, dtype=th.float64)
    likely, unlikely = contrastive_loss(tensor(-1.0, -5.0), tensor(-2.0, -6.0), ones, 0.5)
    assert likely < unlikely
    likely, unlikely = contrastive_loss(tensor(-1.0, -5.0), tensor(-2.0, -6.0), ones, 1.0)
    assert likely == unlikely


def test_large_advantages_do_not_overflow():
    losses = contrastive_loss(tensor(-1e4, 1e4), tensor(1e4, -1e4), tensor(1.0, 1.0))
    assert losses.tolist() == [2e4, 0.0]


def test_log_probabilities_are_squared_distances_or_those_of_choices():
    policy = DeterministicPolicy(OBS, TORQUE, net_arch=[4])
    with th.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    # The action is always 0; -2, 1 and 0 are -1, ½ and 0 in scaled units.
    given = log_probabilities(policy, th.zeros(3, 2), th.tensor([[-2.0], [1.0], [0.0]]))
    assert given.tolist() == [-1.0, -0.25, 0.0]
    choice = ActorCriticPolicy(OBS, BUTTONS, lambda _: 1e-3)
    obs = th.rand(5, 2)
    both = [log_probabilities(choice, obs, th.full((5,), button)).exp() for button in (0, 1)]
    assert th.allclose(both[0] + both[1], th.ones(5), atol=1e-6)


def comparisons(space, flaw=False):
    """Fragments whose better half does what the first entry of observations says.

    With a flaw, half of the answers are turned round but hardly count.
    """
    rng = np.random.default_rng(0)
    dataset = PreferenceDataset()
    for number in range(60):
        obs = rng.uniform(-1, 1, (6, 2)).astype(np.float32)
        right, wrong = obs[:5, 0] > 0, obs[:5, 0] < 0
        acts = [np.where(each, 1, 0) for each in (right, wrong)]
        if space is TORQUE:
            acts = [(4.0 * each - 2).astype(np.float32)[:, None] for each in acts]
        pair = [TrajectoryWithRew(obs, each, None, False, np.zeros(5)) for each in acts]
        spoilt = flaw and number % 2 == 0
        preference = np.float32([0.0 if spoilt else 1.0])
        dataset.push([tuple(pair)], preference, np.float32([1e-6 if spoilt else 1.0]))
    return dataset


def make(space, dataset=None, **given):
    th.manual_seed(0)
    if space is TORQUE:
        policy = DeterministicPolicy(OBS, space, net_arch=[16])
    else:
        policy = ActorCriticPolicy(OBS, space, lambda _: 1e-3, net_arch=[16])
    options = {"bc_batches": 0, "learning_rate": 0.01, "batch_size": 16, "alpha": 0.3} | given
    return CPL(
        policy=policy,
        dataset=comparisons(space) if dataset is None else dataset,
        rng=np.random.default_rng(0),
        options=CPLOptions(**options),
    )


def share_right(cpl):
    obs = np.random.default_rng(1).uniform(-1, 1, (200, 2)).astype(np.float32)
    acts, _ = cpl.policy.predict(obs, deterministic=True)
    up = acts.reshape(200) > (0 if cpl.policy.action_space is TORQUE else 0.5)
    return (up == (obs[:, 0] > 0)).mean()


@pytest.mark.parametrize("space", [TORQUE, BUTTONS], ids=["box", "discrete"])
def test_the_policy_does_what_better_fragments_do(space):
    cpl = make(space)
    first = cpl.train(1)
    last = cpl.train(150)
    assert share_right(cpl) > 0.95
    assert last["cpl_loss"] < first["cpl_loss"]
    assert last["accuracy"] > 0.9


def test_cloning_of_all_fragments_cannot_tell_them_apart():
    cpl = make(BUTTONS, bc_batches=150)
    logged = cpl.train(150)
    assert set(logged) == {"bc_loss"}
    assert logged["bc_loss"] == pytest.approx(math.log(2), abs=0.02)
    assert "cpl_loss" in cpl.train(1)


def test_answers_count_by_their_weights():
    cpl = make(BUTTONS, comparisons(BUTTONS, flaw=True))
    cpl.train(150)
    assert share_right(cpl) > 0.95


@pytest.mark.parametrize("space", [TORQUE, BUTTONS], ids=["box", "discrete"])
@pytest.mark.parametrize("done", [4, 10, 12])
def test_a_restored_training_goes_on_bit_for_bit(space, done):
    whole, part, rest = (make(space, bc_batches=10) for _ in range(3))
    whole.train(20)
    part.train(done)
    rest.load_state_dict(part.state_dict())
    rest.train(20 - done)
    for key, value in whole.policy.state_dict().items():
        assert th.equal(rest.policy.state_dict()[key], value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"alpha": 0.0}, "alpha must be positive"),
        ({"bias": 1.5}, r"bias must lie in \(0, 1\]"),
        ({"discount_factor": 2.0}, "discount_factor must lie"),
        ({"bc_batches": -1}, "bc_batches must be at least 0"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_wrong_options_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        CPLOptions(**given)


def test_an_empty_dataset_is_refused():
    with pytest.raises(ValueError, match="dataset is empty"):
        make(BUTTONS, PreferenceDataset())
