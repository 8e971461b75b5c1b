"""Policies of sequences: storage, memory, spaces, and plans that are taken as they should be."""

import json

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from safetensors.torch import load_file, save_file
from support.sequence_policies import ACTS, OBS, POLICIES, SMALL_NET, demonstrations

from imitbench.conformance.acting import act_in_turn, memory_fault
from imitbench.errors import InputError
from imitbench.policies.sequences.act import ACTPolicy, ensembled
from imitbench.policies.sequences.base import WindowBatch
from imitbench.policies.sequences.bc_rnn import RecurrentPolicy
from imitbench.policies.sequences.diffusion import DiffusionPolicy, ddim, kept_signal
from imitbench.policies.sequences.flow import FlowChunkPolicy
from imitbench.policies.storage import load_policy, save_policy
from imitbench.util.tensor_storage import digest

ANY_POLICY = pytest.mark.parametrize(("cls", "options"), POLICIES.values(), ids=POLICIES)
SEEN = np.random.default_rng(0).normal(size=(7, 3, 3)).astype(np.float32)  # steps, environments


def fitted(cls, options, obs=OBS, acts=ACTS):
    """An untrained policy with the normalization of demonstrations."""
    th.manual_seed(0)
    policy = cls(obs, acts, **options)
    demos = demonstrations(obs=obs, acts=acts)
    policy.fit_normalization(
        np.concatenate([each.obs for each in demos]), np.concatenate([each.acts for each in demos])
    )
    return policy


@ANY_POLICY
def test_a_stored_policy_acts_as_before(cls, options, tmp_path):
    policy = fitted(cls, options)
    save_policy(policy, tmp_path)
    loaded = load_policy(tmp_path)
    for fixed in (True, False):
        before, after = (
            act_in_turn(actor, SEEN, deterministic=fixed) for actor in (policy, loaded)
        )
        np.testing.assert_array_equal(before, after)
        assert all(ACTS.contains(action) for action in before.reshape(-1, 2))


@ANY_POLICY
def test_the_memory_is_that_of_one_episode_in_one_environment(cls, options):
    assert memory_fault(fitted(cls, options), SEEN) == ""


@ANY_POLICY
def test_a_policy_without_its_normalization_is_refused_in_one_line(cls, options, tmp_path):
    save_policy(fitted(cls, options), tmp_path)
    weights, description = tmp_path / "policy.safetensors", tmp_path / "policy.json"
    rest = {k: v for k, v in load_file(weights).items() if not k.endswith("normalizer.scale")}
    save_file(rest, weights)
    said = json.loads(description.read_text())
    said["weights"]["sha256"] = digest(weights.read_bytes())
    description.write_text(json.dumps(said))
    with pytest.raises(InputError, match="normalization of the demonstrations is missing") as found:
        load_policy(tmp_path)
    assert "\n" not in str(found.value)
    assert str(description) in str(found.value)


IMAGES = {
    "channels last": spaces.Box(0, 255, (12, 14, 3), np.uint8),
    "channels first": spaces.Box(0, 255, (3, 12, 14), np.uint8),
}


@pytest.mark.parametrize("space", IMAGES.values(), ids=IMAGES)
@ANY_POLICY
def test_images_are_seen(cls, options, space, tmp_path):
    policy = fitted(cls, {**options, "image_features": 4}, obs=space)
    demo = demonstrations(1, obs=space)[0]
    batch = WindowBatch(
        th.tensor(demo.obs[: len(policy.observed)])[None],
        th.tensor(demo.acts[: len(policy.acted)])[None],
        th.ones(1, len(policy.acted), dtype=th.bool),
    )
    loss, _ = policy.loss(batch, np.random.default_rng(0))
    loss.backward()
    assert all(each.grad.abs().sum() > 0 for each in policy.encoder.image.parameters())
    save_policy(policy, tmp_path)
    seen = demo.obs[:6, np.newaxis]
    before, after = act_in_turn(policy, seen), act_in_turn(load_policy(tmp_path), seen)
    np.testing.assert_array_equal(before, after)


def test_both_orders_of_channels_are_the_same_image():
    last, first = (
        fitted(RecurrentPolicy, {"image_features": 4}, obs=space) for space in IMAGES.values()
    )
    first.load_state_dict(last.state_dict())
    image = th.randint(256, (2, 12, 14, 3), dtype=th.uint8)
    assert th.equal(last.encoder(image), first.encoder(image.movedim(3, 1)))


def test_features_of_an_image_tell_places():
    encoder = fitted(RecurrentPolicy, {}, obs=IMAGES["channels last"]).encoder.image
    with th.no_grad():  # each layer adds up its window, so that a bright spot stays one
        for layer in encoder.convolutions[::2]:
            layer.weight.fill_(1.0)
            layer.bias.zero_()
    places = []
    encoder.output = th.nn.Identity()
    for row, column in ((1, 1), (1, 12), (10, 1)):
        image = th.zeros(1, 12, 14, 3, dtype=th.uint8)
        image[0, row, column] = 255
        places.append(encoder(image)[0].detach())
    (rows, columns), (same_rows, right), (down, same_columns) = (each.chunk(2) for each in places)
    assert (down > rows).all()
    assert (right > columns).all()
    assert th.allclose(rows, same_rows)
    assert th.allclose(columns, same_columns)


def test_choices_are_taken_with_their_probabilities():
    policy = fitted(RecurrentPolicy, {"horizon": 4, "hidden_size": 8}, acts=spaces.Discrete(3))
    with th.no_grad():
        policy.head.weight.zero_()
        policy.head.bias.copy_(th.tensor([0.2, 0.5, 0.3]).log())
    seen = np.zeros((4000, 3), np.float32)
    th.manual_seed(0)
    drawn, _ = policy.predict(seen)
    np.testing.assert_allclose(np.bincount(drawn) / 4000, [0.2, 0.5, 0.3], atol=0.03)
    assert (policy.predict(seen, deterministic=True)[0] == 1).all()


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (DiffusionPolicy, {"horizon": 10, "levels": 3}, "multiple of 4 with 3 levels"),
        (FlowChunkPolicy, {"horizon": 8, "history": 2}, "8 actions are too few; .* need 9"),
        (DiffusionPolicy, {"channels": 12}, "channels: must be a multiple of 8"),
        (DiffusionPolicy, {"train_steps": 5}, "sample_steps"),
        (ACTPolicy, {"hidden_size": 12}, "hidden_size: must be a multiple"),
    ],
)
def test_settings_that_do_not_fit_each_other_are_refused(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(OBS, ACTS, **options)


def test_spaces_that_no_network_takes_are_refused():
    with pytest.raises(ValueError, match="ACTPolicy needs Box"):
        ACTPolicy(OBS, spaces.Discrete(2))
    with pytest.raises(ValueError, match="FlattenObservation"):
        RecurrentPolicy(spaces.Dict({"a": OBS}), ACTS)


# The recurrent state


def test_acting_step_by_step_is_what_training_sees_and_begins_anew_after_a_window():
    policy = fitted(RecurrentPolicy, {"horizon": 3, "hidden_size": 8, "layers": 2})
    window = SEEN[:3, 0]
    hidden, _ = policy.recurrent(policy.encoder(th.tensor(window))[None])
    whole = policy.in_units(policy._mixture(policy.head(hidden[0])).choose(True, True))
    acted = act_in_turn(policy, np.concatenate([window, window])[:, np.newaxis])[:, 0]
    expected = np.clip(whole.detach().numpy(), ACTS.low, ACTS.high)
    np.testing.assert_allclose(acted[:3], expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(acted[3:], acted[:3])


# Plans


class Planned(FlowChunkPolicy):
    """Plans the numbers 0, 1, 2, … plus 100 times the first entry of each observation seen."""

    def plan(self, seen, deterministic):
        self.asked = [*getattr(self, "asked", []), seen[:, :, 0]]
        numbers = th.arange(self.horizon).reshape(1, -1, 1)
        return 100 * seen[:, -1:, :1] + numbers.expand(len(seen), -1, self.n_actions)


def test_part_of_each_plan_is_taken_and_history_is_filled_with_the_first_observation():
    wide = spaces.Box(-1e4, 1e4, (1,), np.float32)
    policy = Planned(OBS, wide, **{**SMALL_NET, "history": 3, "horizon": 8, "execute": 4})
    seen = np.zeros((6, 2, 3), np.float32)
    seen[:, :, 0] = np.arange(6)[:, np.newaxis]
    starts = np.zeros((6, 2), dtype=bool)
    starts[2, 1] = True
    acted = act_in_turn(policy, seen, starts)[:, :, 0]
    # Two actions of a plan were taken before it; the next one is made after four.
    np.testing.assert_array_equal(acted[:, 0], [2, 3, 4, 5, 402, 403])
    np.testing.assert_array_equal(acted[:, 1], [2, 3, 202, 203, 204, 205])
    first, second, third = policy.asked
    np.testing.assert_array_equal(first, np.zeros((2, 3)))
    np.testing.assert_array_equal(second, [[2, 2, 2]])
    np.testing.assert_array_equal(third, [[2, 3, 4]])


def test_temporal_ensembling_is_the_weighted_mean_of_plans():
    decay = 0.5
    plans = th.arange(9.0).reshape(1, 3, 3, 1)  # plans[0]: now; plans[2]: two steps ago
    # The plan of i steps ago has its action i: 0, 4 and 8. The oldest weighs most.
    two, three = (ensembled(plans, th.tensor([made]), decay).item() for made in (2, 3))
    w = np.exp(-decay * np.arange(3))
    assert two == pytest.approx((w[0] * 4 + w[1] * 0) / (w[0] + w[1]))
    assert three == pytest.approx((w[0] * 8 + w[1] * 4 + w[2] * 0) / w.sum())
    assert ensembled(plans, th.tensor([1]), decay).item() == 0
    assert ensembled(plans, th.tensor([50]), decay).item() == pytest.approx(three)


def test_act_takes_the_mean_of_the_plans_that_it_made(monkeypatch):
    wide = spaces.Box(-1e4, 1e4, (1,), np.float32)
    policy = ACTPolicy(OBS, wide, chunk=3, ensemble_decay=0.5, hidden_size=8, heads=2)
    monkeypatch.setattr(
        policy, "plan", lambda seen, _: 100 * seen[:, :, :1] + th.arange(3).reshape(1, 3, 1)
    )
    seen = np.zeros((5, 1, 3), np.float32)
    seen[:, 0, 0] = np.arange(5)
    acted = act_in_turn(policy, seen)[:, 0, 0]
    w = np.exp(-0.5 * np.arange(3))
    # Step 4: the plans of steps 2, 3 and 4 have 202, 301 and 400 for it.
    assert acted[0] == 0
    assert acted[1] == pytest.approx((w[0] * 1 + w[1] * 100) / w[:2].sum())
    assert acted[4] == pytest.approx((w[0] * 202 + w[1] * 301 + w[2] * 400) / w.sum())


def test_the_latent_vector_of_an_expert_s_chunk_ignores_what_is_beyond_its_end():
    policy = fitted(*POLICIES["act"]).eval()
    seen, chunk = th.randn(2, 3), th.randn(2, 4, 2)
    real = th.tensor([[True, True, False, False]] * 2)
    other = th.where(real.unsqueeze(2), chunk, 7.0)
    one, two = (policy._infer(seen, each, real)[0] for each in (chunk, other))
    assert th.allclose(one, two, atol=1e-6)
    whole = th.ones_like(real)
    assert not th.allclose(*(policy._infer(seen, each, whole)[0] for each in (chunk, other)))


def test_actions_beyond_the_end_have_no_part_in_the_loss_of_act_and_bc_rnn():
    for name in ("act", "bc_rnn"):
        policy = fitted(*POLICIES[name]).eval()
        obs, acts = th.randn(1, len(policy.observed), 3), th.randn(1, 4, 2)
        real = th.tensor([[True, True, True, False]])
        other = acts.clone()
        other[0, 3] = 5.0
        one, two = (
            policy.loss(WindowBatch(obs, each, real), np.random.default_rng(0))[0]
            for each in (acts, other)
        )
        assert one.item() == pytest.approx(two.item(), rel=1e-5)


# Diffusion


@pytest.mark.parametrize("sample_steps", [1, 4, 100])
def test_ddim_with_the_exact_noise_of_a_single_point_returns_it(sample_steps):
    kept, point = kept_signal(100), th.tensor([[0.3, -0.8], [1.0, 0.0]])

    def noise_in(noisy, step):
        return (noisy - kept[step].sqrt() * point) / (1 - kept[step]).sqrt()

    found = ddim(noise_in, th.randn(2, 2), kept, sample_steps)
    assert th.allclose(found, point, atol=1e-5)


def test_ddim_of_a_gaussian_keeps_its_mean_and_spread():
    # For data N(m, s²), the best prediction of the noise is linear in the noisy point.
    kept, mean, std = kept_signal(100), 0.2, 0.1

    def noise_in(noisy, step):
        share = kept[step]
        variance = share * std**2 + 1 - share
        return (1 - share).sqrt() * (noisy - share.sqrt() * mean) / variance

    found = ddim(noise_in, th.randn(20_000, 1, generator=th.Generator().manual_seed(0)), kept, 100)
    assert found.mean().item() == pytest.approx(mean, abs=0.01)
    assert found.std().item() == pytest.approx(std, rel=0.1)


def test_the_schedule_is_a_squared_cosine():
    kept = kept_signal(50)
    times = np.arange(1, 51) / 50

    def level(time):
        return np.cos((time + 0.008) / 1.008 * np.pi / 2) ** 2

    np.testing.assert_allclose(kept[:-1], level(times)[:-1] / level(0.0), rtol=1e-4)
    # Beta is at most 0.999.
    assert kept[-1].item() == pytest.approx(kept[-2].item() * 0.001, rel=1e-3)


def test_fixed_plans_begin_at_stored_noise_and_random_ones_at_torch_s():
    policy = fitted(*POLICIES["diffusion"])
    first, second = (policy.start(3, True) for _ in range(2))
    assert th.equal(first, second)
    assert th.equal(first[0], first[2])
    assert first.abs().sum() > 0
    assert not th.equal(policy.start(3, False)[0], policy.start(3, False)[1])
