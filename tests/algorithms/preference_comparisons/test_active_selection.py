"""Active selection takes the pairs with the most disagreement, and changes nothing."""

import numpy as np
import pytest
import torch as th
from support.preference_pairs import (
    ACT_SPACE,
    OBS_SPACE,
    fragment,
    linear_ensemble,
    pairs_of,
    perceptron,
    quiet_logger,
)

from imitbench.algorithms.preference_comparisons.fragmenters import (
    ActiveSelectionFragmenter,
    Fragmenter,
    RandomFragmenter,
)
from imitbench.algorithms.preference_comparisons.preference_model import PreferenceModel
from imitbench.data.rollout import flatten_trajectories
from imitbench.data.types import TrajectoryWithRew
from imitbench.rewards.reward_nets import RewardEnsemble
from imitbench.util.networks import RunningNorm

KINDS = ("logit", "probability", "label")
# The members agree on the first number of an observation and disagree on the second.
DISAGREEING = ([1.0, 0.0, 0.0], [1.0, 0.5, 0.0], [1.0, -0.5, 0.0], [1.0, 1.0, 0.0])


class GivenPairs(Fragmenter):
    """Returns prepared pairs and records the arguments of its calls."""

    def __init__(self, pairs, folder):
        super().__init__(quiet_logger(folder))
        self.pairs = pairs
        self.asked = []

    def __call__(self, trajectories, fragment_length, num_pairs):
        self.asked.append((trajectories, fragment_length, num_pairs))
        return self.pairs[:num_pairs]


def steady(first, second, length=3):
    """A fragment that always observes the same two numbers."""
    obs = np.tile(np.array([first, second, 0.0], dtype=np.float32), (length + 1, 1))
    return TrajectoryWithRew(obs, np.zeros((length, 1), np.float32), None, False, np.zeros(length))


@pytest.fixture
def select(tmp_path):
    def build(pairs, uncertainty_on="logit", factor=2.0, weights=DISAGREEING, **kwargs):
        return ActiveSelectionFragmenter(
            PreferenceModel(linear_ensemble(*weights), **kwargs),
            GivenPairs(pairs, tmp_path),
            fragment_sample_factor=factor,
            uncertainty_on=uncertainty_on,
            custom_logger=quiet_logger(tmp_path),
        )

    return build


@pytest.mark.parametrize("kind", KINDS)
def test_the_pairs_with_the_most_disagreement_are_selected(select, kind):
    agreed = [(steady(1.0 + index, 0.0), steady(0.0, 0.0)) for index in range(3)]
    disputed = [(steady(0.0, 0.2), steady(0.0, 0.0)), (steady(0.0, 0.0), steady(0.0, 0.3))]
    pairs = [agreed[0], disputed[0], agreed[1], disputed[1], agreed[2]]
    fragmenter = select(pairs, kind, factor=2.5)
    chosen = fragmenter([], fragment_length=3, num_pairs=2)
    assert {id(pair) for pair in chosen} == {id(pair) for pair in disputed}


def test_the_more_uncertain_comes_first(select):
    gaps = [0.1, 0.4, 0.0, 0.3, 0.2]
    pairs = [(steady(0.0, gap), steady(0.0, 0.0)) for gap in gaps]
    for kind in ("logit", "probability"):
        chosen = select(pairs, kind, factor=1.0)([], 3, 5)
        assert [pair[0].obs[0, 1] for pair in chosen] == pytest.approx([0.4, 0.3, 0.2, 0.1, 0.0])


def test_equally_uncertain_pairs_keep_their_order(select):
    pairs = [(steady(float(index), 0.0), steady(0.0, 0.0)) for index in range(6)]
    assert select(pairs)([], 3, 3) == pairs[:3]


def test_pairs_are_selected_from_a_multiple(select):
    fragmenter = select(pairs_of(np.random.default_rng(0), [3] * 9), factor=2.5)
    assert len(fragmenter(["trajectories"], 3, 2)) == 2
    assert fragmenter.base_fragmenter.asked == [(["trajectories"], 3, 5)]
    assert fragmenter([], 3, 0) == []


@pytest.mark.parametrize("discount", [1.0, 0.7])
@pytest.mark.parametrize("kind", KINDS)
def test_variances_equal_the_closed_forms_alone_and_in_batches(select, kind, discount):
    rng = np.random.default_rng(0)
    pairs = pairs_of(rng, [5] * 12)
    fragmenter = select(pairs, kind, factor=1.0, discount_factor=discount, noise_prob=0.1)
    weights = np.array(DISAGREEING)
    expected = []
    for first, second in pairs:
        decay = discount ** np.arange(5)
        difference = decay @ (first.obs[:-1] - second.obs[:-1]) @ weights.T
        probability = 0.05 + 0.9 / (1 + np.exp(-difference))
        share = (difference > 0).mean()
        expected.append(
            {
                "logit": difference.var(ddof=1),
                "probability": probability.var(),
                "label": share * (1 - share),
            }[kind]
        )
        rewards = [
            fragmenter.preference_model.rewards(flatten_trajectories([each]))
            for each in (first, second)
        ]
        assert fragmenter.variance_estimate(*rewards) == pytest.approx(expected[-1], rel=1e-4)
    order = np.argsort(-np.array(expected), kind="stable")
    assert [id(pair) for pair in fragmenter([], 5, 12)] == [id(pairs[index]) for index in order]


def test_logits_are_not_clipped(select):
    pairs = [(steady(0.0, size), steady(0.0, 0.0)) for size in (50.0, 100.0)]
    chosen = select(pairs, "logit", factor=2, threshold=1.0)([], 3, 1)
    assert chosen == [pairs[1]]


def test_selection_does_not_change_the_networks(tmp_path):
    members = [perceptron(seed, normalize_input_layer=RunningNorm) for seed in range(2)]
    model = PreferenceModel(RewardEnsemble(OBS_SPACE, ACT_SPACE, members)).train()
    pairs = pairs_of(np.random.default_rng(0), [3] * 4)
    fragmenter = ActiveSelectionFragmenter(model, GivenPairs(pairs, tmp_path), 2.0)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    fragmenter([], 3, 2)
    assert all(th.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())


def test_the_base_fragmenter_shares_the_logger_and_its_state_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    model = PreferenceModel(linear_ensemble(*DISAGREEING))
    trajectories = [fragment(rng, 50) for _ in range(3)]

    def build():
        base = RandomFragmenter(np.random.default_rng(1), 0, quiet_logger(tmp_path))
        return ActiveSelectionFragmenter(model, base, 3.0, custom_logger=quiet_logger(tmp_path))

    through, resumed = build(), build()
    assert through.base_fragmenter.logger is through.logger
    through.logger = quiet_logger(tmp_path)
    assert through.base_fragmenter.logger is through.logger
    through(trajectories, 5, 4)
    resumed.load_state_dict(through.state_dict())
    assert resumed(trajectories, 5, 4) == through(trajectories, 5, 4)


def test_a_single_network_is_refused(tmp_path):
    with pytest.raises(ValueError, match="needs a model of a RewardEnsemble"):
        ActiveSelectionFragmenter(PreferenceModel(perceptron()), GivenPairs([], tmp_path), 2.0)


@pytest.mark.parametrize("factor", [0.5, 0.0, float("inf"), float("nan")])
def test_a_factor_below_one_is_refused(select, factor):
    with pytest.raises(ValueError, match="fragment_sample_factor must be at least 1"):
        select([], factor=factor)


def test_unknown_kinds_of_uncertainty_are_reported(select):
    with pytest.raises(ValueError, match="'entropy' is not supported; use logit, probability or"):
        select([], "entropy")
    fragmenter = select(pairs_of(np.random.default_rng(0), [3]), factor=1.0)
    fragmenter._uncertainty_on = "entropy"
    with pytest.raises(ValueError, match="not supported"):
        fragmenter.variance_estimate(th.rand(3, 4), th.rand(3, 4))


def test_a_prediction_that_is_not_finite_is_reported(select):
    fragmenter = select(pairs_of(np.random.default_rng(0), [3] * 2), weights=([np.nan] * 3,) * 2)
    with pytest.raises(ValueError, match=r"pair 0: the reward network's return .* is nan"):
        fragmenter([], 3, 1)
