"""The parts that all off-policy methods are made of."""

import copy
import math

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from torch import nn

from imitbench.algorithms.off_policy.agent import AgentOptions, SoftActorCritic, SoftQ
from imitbench.algorithms.off_policy.collector import encoded_demonstrations
from imitbench.algorithms.off_policy.encoding import ObservationEncoder
from imitbench.algorithms.off_policy.randomness import SeedStreams
from imitbench.algorithms.off_policy.stacked_mlp import StackedMlp
from imitbench.algorithms.off_policy.transitions import TransitionStore, shares
from imitbench.util import squashed_gaussian

SMALL = AgentOptions(hidden_sizes=(8, 8))


def generators(count):
    return [th.Generator().manual_seed(seed) for seed in range(count)]


def twin(stack, member):
    """One member of a stack in torch's own layers."""
    modules = []
    for weight, bias in stack.layers(stack.vector.detach()):
        layer = nn.Linear(weight.shape[1], weight.shape[2])
        layer.weight.data, layer.bias.data = weight[member].t().clone(), bias[member, 0].clone()
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


@pytest.mark.parametrize("outputs", [1, 2])
def test_each_member_of_a_stack_computes_what_torchs_layers_do(outputs):
    stack = StackedMlp([3, 8, 8, outputs], generators(2))
    x = th.randn(2, 5, 3, requires_grad=True)
    loss = stack(x).square().sum()
    by_x, by_vector = th.autograd.grad(loss, [x, stack.vector])
    for member in range(2):
        network, inputs = twin(stack, member), x[member].detach().requires_grad_()
        network(inputs).square().sum().backward()
        th.testing.assert_close(by_x[member], inputs.grad)
        own = stack.layers(by_vector)
        for (weight, bias), layer in zip(own, network[::2], strict=True):
            th.testing.assert_close(weight[member].t(), layer.weight.grad)
            th.testing.assert_close(bias[member, 0], layer.bias.grad)


@pytest.mark.parametrize("differentiated", [(0,), (1,), (0, 1)])
def test_members_share_inputs_that_come_in_two_parts(differentiated):
    stack = StackedMlp([5, 8, 8, 1], generators(4))
    parts = [th.randn(2, 6, size) for size in (3, 2)]
    for each in differentiated:
        parts[each].requires_grad_()
    asked = [stack.vector, *(parts[each] for each in differentiated)]
    weights = th.randn(4, 6, 1)
    found = stack(*parts)
    wanted = stack(th.cat(parts, dim=2).repeat(2, 1, 1))
    th.testing.assert_close(found, wanted)
    gradients = (th.autograd.grad((each * weights).sum(), asked) for each in (found, wanted))
    th.testing.assert_close(*gradients)
    frozen = th.autograd.grad((stack.frozen(*parts) * weights).sum(), asked[1:])
    wanted = th.autograd.grad((stack(*parts) * weights).sum(), asked[1:])
    th.testing.assert_close(frozen, wanted)


def test_input_gradients_and_their_derivatives_are_those_of_torch():
    stack = StackedMlp([3, 8, 8, 1], generators(2))
    x = th.randn(2, 5, 3)
    found = stack.input_gradients(x)
    (by_vector,) = th.autograd.grad(found.square().sum(), stack.vector)
    for member in range(2):
        network, inputs = twin(stack, member), x[member].clone().requires_grad_()
        (wanted,) = th.autograd.grad(network(inputs).sum(), inputs, create_graph=True)
        th.testing.assert_close(found[member], wanted)
        wanted.square().sum().backward()
        for (weight, bias), layer in zip(stack.layers(by_vector), network[::2], strict=True):
            th.testing.assert_close(weight[member].t(), layer.weight.grad)
            assert not bias[member].any()


def test_a_frozen_stack_has_no_derivatives_by_its_parameters():
    stack = StackedMlp([3, 8, 1], generators(2))
    x = th.randn(2, 5, 3, requires_grad=True)
    th.testing.assert_close(stack.frozen(x), stack(x))
    assert not stack.frozen(x.detach()).requires_grad
    assert stack.frozen(x).requires_grad


def test_weights_start_in_the_range_of_torchs_linear_layers():
    stack = StackedMlp([16, 500], generators(1))
    weight, bias = stack.layers(stack.vector.detach())[0]
    assert weight.abs().max() <= 0.25
    assert bias.abs().max() <= 0.25
    assert float(weight.std()) == pytest.approx(0.25 / np.sqrt(3), rel=0.05)


def test_squashed_actions_have_stable_baselines3s_probabilities():
    outputs, noise = 0.3 * th.randn(4, 6), 0.5 * th.randn(4, 3)
    mean, log_std = squashed_gaussian.parameters_of(outputs)
    theirs = SquashedDiagGaussianDistribution(3).proba_distribution(mean, log_std)
    acts, log_prob = squashed_gaussian.sample(outputs, noise)
    th.testing.assert_close(acts, th.tanh(mean + log_std.exp() * noise))
    th.testing.assert_close(log_prob, theirs.log_prob(acts), atol=1e-3, rtol=1e-3)
    th.testing.assert_close(
        squashed_gaussian.log_prob(outputs, acts), log_prob, atol=1e-3, rtol=1e-3
    )
    th.testing.assert_close(squashed_gaussian.actions(outputs, noise), acts)


def test_sampled_actions_and_their_probabilities_have_torchs_derivatives():
    noise = th.randn(5, 3, dtype=th.float64)
    outputs = 2 * th.randn(5, 6, dtype=th.float64)
    outputs[0, 3], outputs[1, 4] = 3.0, -30.0  # log standard deviations beyond their limits
    outputs.requires_grad_()
    mean, log_std = squashed_gaussian.parameters_of(outputs)
    raw = mean + log_std.exp() * noise
    slopes = 2 * (math.log(2) - raw - th.nn.functional.softplus(-2 * raw))
    normal = -0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)
    wanted = th.tanh(raw), (normal - slopes).sum(dim=-1)
    found = squashed_gaussian.sample(outputs, noise)
    th.testing.assert_close(found, wanted)
    weights = th.randn(5, 3, dtype=th.float64), th.randn(5, dtype=th.float64)
    gradients = (th.autograd.grad(each, outputs, weights) for each in (found, wanted))
    th.testing.assert_close(*gradients)


def test_densities_of_squashed_actions_integrate_to_one():
    acts = th.linspace(-1, 1, 20_001)[1:-1, None]
    outputs = th.tensor([0.3, -0.5]).expand(len(acts), 2)
    density = squashed_gaussian.log_prob(outputs, acts).exp()
    assert float(th.trapezoid(density, acts[:, 0])) == pytest.approx(1.0, abs=1e-3)


def test_spread_tails_keep_the_density_and_bound_it_at_the_edges():
    acts = th.linspace(-1, 1, 200_001)[:, None]
    for mean, log_std in ((0.3, -0.5), (2.5, 0.5), (-6.0, -3.0)):
        outputs = th.tensor([mean, log_std]).expand(len(acts), 2)
        log_prob = squashed_gaussian.tailed_log_prob(outputs, acts)
        assert float(th.trapezoid(log_prob.exp(), acts[:, 0])) == pytest.approx(1.0, abs=1e-2)
        assert float(log_prob.max()) <= math.log(20) + 1e-4
    inside = acts[6000:-6000:1000]
    outputs = th.tensor([0.3, -0.5]).expand(len(inside), 2)
    th.testing.assert_close(
        squashed_gaussian.tailed_log_prob(outputs, inside),
        squashed_gaussian.log_prob(outputs, inside),
    )


def test_log_probabilities_of_actions_at_their_bounds_are_those_of_the_tails():
    outputs = th.tensor([[1.0, math.log(2.0)]]).requires_grad_()
    edge = math.atanh(0.95)
    for act, tail in ((1.0, (edge - 1) / 2), (-1.0, (edge + 1) / 2)):
        log_prob = squashed_gaussian.tailed_log_prob(outputs, th.tensor([[act]]))
        chance = 0.5 * math.erfc(tail / math.sqrt(2))
        assert log_prob.item() == pytest.approx(math.log(chance / 0.05), rel=1e-4)
    far = th.tensor([[-90.0, -5.0]], requires_grad=True)
    (slope,) = th.autograd.grad(
        squashed_gaussian.tailed_log_prob(far, th.tensor([[1.0]])).sum(), far
    )
    assert slope.isfinite().all()


def test_divergence_of_squashed_actions_is_that_of_their_samples():
    outputs, others = th.tensor([0.2, -0.3, -0.5, 0.1]), th.tensor([-0.4, 0.1, 0.2, -0.2])
    normals = [th.distributions.Normal(each[:2], each[2:].exp()) for each in (outputs, others)]
    wanted = th.distributions.kl_divergence(*normals).sum()
    found = squashed_gaussian.divergence(outputs, others)
    th.testing.assert_close(found, wanted)
    noise = th.randn(100_000, 2, generator=th.Generator().manual_seed(0))
    acts, log_prob = squashed_gaussian.sample(outputs.expand(len(noise), 4), noise)
    sampled = log_prob - squashed_gaussian.log_prob(others.expand(len(noise), 4), acts)
    assert float(sampled.mean()) == pytest.approx(float(wanted), abs=0.02)
    assert float(squashed_gaussian.divergence(outputs, outputs)) == 0.0


def constant_actor(agent, *outputs):
    """Makes a linear actor put out the same everywhere."""
    with th.no_grad():
        agent.actor.vector.zero_()
        agent.actor.vector[:, -len(outputs) :] = th.tensor(outputs)


def test_the_divergence_from_a_prior_stands_in_for_the_entropy():
    options = AgentOptions(hidden_sizes=(), temperature=0.5, learn_temperature=False)
    agent = SoftActorCritic(2, 1, options, SeedStreams([0, 1]))
    constant_actor(agent, 0.5, 0.0)
    with th.no_grad():
        agent.critics.vector.zero_()
    obs = agent.streams.normal(4, 2)
    agent.prior = lambda obs: th.zeros(*obs.shape[:2], 2)
    # Half the squared distance of the means.
    th.testing.assert_close(agent.soft_values(obs), th.full((2, 2, 4), -0.5 * 0.125))
    logged = agent.update_actor(obs)
    th.testing.assert_close(logged["actor_loss"], th.full((2,), 0.5 * 0.125))
    assert (agent.actor.vector[:, -2] < 0.5).all()
    assert th.equal(agent.actor.vector[:, -1], th.zeros(2))  # the deviation is right


def test_nothing_is_chosen_in_the_absorbing_state():
    obs = th.tensor([[[1.0, 0.0], [0.0, 1.0]]])  # a state, and the absorbing state
    agent = SoftActorCritic(2, 1, AgentOptions(hidden_sizes=(), temperature=0.5), SeedStreams([0]))
    agent.absorbing = True
    constant_actor(agent, 0.5, 0.0)
    with th.no_grad():
        agent.critics.vector.copy_(th.tensor([[1.0, 3.0, 10.0, 0.25]]).expand(2, 4))
    assert agent.soft_values(obs)[:, 0, 1].tolist() == [3.25, 3.25]
    assert agent.soft_values(obs)[0, 0, 0] != 1.25
    # Its entropy is that of the other state, where the action was drawn.
    acts, log_prob = agent.sample(obs)
    assert (acts[0, 1].tolist(), log_prob[0, 1].tolist()) == ([0.0], 0.0)
    agent.streams.torch[0].manual_seed(1)
    drawn = -agent.sample(obs)[1][0, 0].item()
    agent.streams.torch[0].manual_seed(1)
    assert agent.update_actor(obs)["entropy"].item() == pytest.approx(drawn)

    agent = SoftQ(2, 2, AgentOptions(hidden_sizes=(), temperature=0.5), SeedStreams([0]))
    agent.absorbing = True
    with th.no_grad():
        agent.critics.vector.copy_(th.tensor([[1.0, 2.0, 3.0, 40.0, 0.0, 0.0]]))
    value, at_end = agent.soft_values(obs)[0, 0].tolist()
    assert value == pytest.approx(0.5 * math.log(math.exp(1 / 0.5) + math.exp(2 / 0.5)))
    assert at_end == 3.0


def test_values_of_frozen_critics_have_derivatives_by_actions_only():
    agent = SoftActorCritic(2, 1, SMALL, SeedStreams([0]))
    obs, acts = agent.streams.normal(4, 2), agent.streams.normal(4, 1).requires_grad_()
    frozen, online = (agent.values(obs, acts, each) for each in ("frozen", "online"))
    th.testing.assert_close(frozen, online)
    th.testing.assert_close(
        th.autograd.grad(frozen.sum(), acts), th.autograd.grad(online.sum(), acts)
    )
    assert not agent.values(obs, acts.detach(), "frozen").requires_grad


def test_soft_q_learning_acts_by_the_softmax_of_its_values():
    agent = SoftQ(3, 4, AgentOptions(hidden_sizes=(8,), temperature=0.5), SeedStreams([0]))
    obs = th.randn(3).expand(1, 20_000, 3)
    values = agent._critics(obs[:, :1], "online")[0, 0, 0]
    wanted = th.softmax(values / 0.5, dim=-1)
    counts = th.bincount(agent.act(obs)[0], minlength=4) / 20_000
    th.testing.assert_close(counts, wanted, atol=0.015, rtol=0)
    acts = th.arange(4).expand(1, 4)
    log_prob = agent.log_prob(obs[:, :4], acts)[0]
    th.testing.assert_close(log_prob, wanted.log(), atol=1e-5, rtol=0)
    # V = E[Q - temperature * log pi]
    wanted_value = (wanted * (values - 0.5 * wanted.log())).sum()
    th.testing.assert_close(agent.soft_values(obs[:, :1])[0, 0, 0], wanted_value)


def test_an_actors_loss_pulls_actions_to_the_critics_maximum():
    agent = SoftActorCritic(
        2, 1, AgentOptions(hidden_sizes=(16,), actor_learning_rate=1e-2), SeedStreams([0])
    )
    # Make the critics prefer large actions.
    for _ in range(300):
        obs, acts = agent.streams.normal(64, 2), 2 * agent.streams.uniform(64, 1) - 1
        loss = (agent.values(obs, acts) - 5 * acts[..., 0]).square().mean(dim=-1).sum(dim=0)
        agent.update_critics(loss.sum())
    before = agent.act(agent.streams.normal(500, 2)).mean()
    for _ in range(200):
        agent.update_actor(agent.streams.normal(64, 2))
    assert before.abs() < 0.5 < agent.act(agent.streams.normal(500, 2)).mean()


def test_temperature_falls_while_entropy_is_above_its_target():
    options = AgentOptions(hidden_sizes=(8,), target_entropy=-20.0)
    agent = SoftActorCritic(2, 1, options, SeedStreams([0]))
    start = float(agent.temperature)
    logged = agent.update_actor(agent.streams.normal(16, 2))
    assert float(logged["entropy"]) > -20.0
    assert float(agent.temperature) < start


def test_targets_follow_by_their_share():
    agent = SoftActorCritic(2, 1, AgentOptions(hidden_sizes=(8,), tau=0.25), SeedStreams([0]))
    target, online = agent.targets.vector.clone(), agent.critics.vector
    with th.no_grad():
        online += 1.0
    agent.follow()
    th.testing.assert_close(agent.targets.vector, target + 0.25)


@pytest.mark.parametrize("kind", [SoftActorCritic, SoftQ])
def test_the_exported_policy_follows_the_learned_one_by_its_share(kind):
    options = AgentOptions(hidden_sizes=(8,), policy_tau=0.25)
    agent = kind(2, 1 if kind is SoftActorCritic else 2, options, SeedStreams([0]))
    before = agent.exported.vector.clone()
    with th.no_grad():
        agent.learned.vector.add_(1.0)
    agent.follow()
    th.testing.assert_close(agent.exported.vector, before + 0.25)
    again = kind(2, 1 if kind is SoftActorCritic else 2, options, SeedStreams([1]))
    again.load_state_dict(agent.state_dict())
    assert th.equal(again.exported.vector, agent.exported.vector)
    agent.restart_average()
    assert th.equal(agent.exported.vector, agent.learned.vector)


def test_without_an_average_the_learned_policy_is_exported():
    assert SMALL.policy_tau == 1
    agent = SoftActorCritic(2, 1, SMALL, SeedStreams([0]))
    assert agent.exported is agent.actor


@pytest.mark.parametrize("critics", ["online", "target", "frozen"])
def test_critics_see_clipped_actions(critics):
    options = AgentOptions(hidden_sizes=(8,), action_clip=0.9)
    agent = SoftActorCritic(2, 1, options, SeedStreams([0]))
    acts = th.tensor([[[0.9], [1.0], [-0.95], [-0.9], [0.5]]], requires_grad=True)
    values = agent.values(th.zeros(1, 5, 2), acts, critics)[0, 0]
    assert values[0] == values[1] and values[2] == values[3]
    assert len(set(values.tolist())) == 3
    values.sum().backward()
    assert (acts.grad[0, :, 0] == 0).tolist() == [False, True, True, False, False]


@pytest.mark.parametrize("clip", [0.0, 1.5])
def test_a_clip_out_of_range_is_refused(clip):
    with pytest.raises(ValueError, match=r"action_clip must lie in \(0, 1\]"):
        AgentOptions(action_clip=clip)


def test_a_seed_draws_the_same_alone_and_beside_others():
    alone, beside = SeedStreams([7]), SeedStreams([3, 7])
    for _ in range(2):
        th.testing.assert_close(alone.normal(2, 3)[0], beside.normal(2, 3)[1])
        th.testing.assert_close(alone.uniform(4)[0], beside.uniform(4)[1])
        assert (alone.indices([9], 5)[0] == beside.indices([4, 9], 5)[1]).all()


def test_agents_start_the_same_alone_and_beside_others():
    alone = SoftActorCritic(3, 2, SMALL, SeedStreams([7]))
    beside = SoftActorCritic(3, 2, SMALL, SeedStreams([3, 7]))
    th.testing.assert_close(alone.actor.vector[0], beside.actor.vector[1])
    th.testing.assert_close(alone.critics.vector, beside.critics.vector[[1, 3]])


def rows(*numbers):
    column = np.array(numbers, np.float32)
    return {
        "obs": column[:, None], "acts": column[:, None], "next_obs": column[:, None],
        "terminal": column, "rewards": column,
    }  # fmt: skip


def test_a_full_store_overwrites_the_oldest_transitions():
    store = TransitionStore(2, 3, 1, (1,))
    store.add(0, rows(1, 2))
    store.add(0, rows(3, 4))
    store.add(1, rows(9))
    assert store.sizes == [3, 1]
    assert store.column("rewards", 0).tolist() == [4, 2, 3]
    batch = store.take(np.array([[0, 2], [0, 0]]))
    assert batch.obs[..., 0].tolist() == [[4, 3], [9, 9]]
    again = TransitionStore(2, 3, 1, (1,))
    again.load_state_dict(copy.deepcopy(store.state_dict()))
    again.add(0, rows(5))
    assert again.column("rewards", 0).tolist() == [4, 5, 3]


def test_standardized_observations_have_mean_zero_and_deviation_one_over_both_kinds():
    encoder = ObservationEncoder(spaces.Box(-9, 9, (2,)), absorbing=False)
    rng = np.random.default_rng(0)
    one, two = rng.normal(3, 2, (400, 2)), rng.normal(-1, 1, (50, 2))
    encoder.standardize(one, two)
    both = [encoder(each) for each in (one, two)]
    np.testing.assert_allclose(np.mean([each.mean(0) for each in both], 0), 0, atol=1e-5)
    square = np.mean([np.square(each).mean(0) for each in both], 0)
    np.testing.assert_allclose(square, 1, atol=1e-5)


def test_hidden_entries_are_zero_before_and_after_standardizing():
    encoder = ObservationEncoder(spaces.Box(-9, 9, (2,)), absorbing=False, hidden=[1])
    obs = np.float32([[1, 7], [3, 9]])
    assert encoder(obs).tolist() == [[1, 0], [3, 0]]
    encoder.standardize(encoder.flatten(obs))
    assert encoder(obs).tolist() == [[-1, 0], [1, 0]]


def test_shares_add_up_to_those_of_both_batches():
    assert shares(2, 0.25, 0.75).tolist() == [0.125, 0.125, 0.375, 0.375]


def ended(obs, next_obs):
    """Demonstrations whose last step ends an episode for good."""
    dones, timeouts = np.array([False, True]), np.zeros(2, bool)
    return {"obs": obs, "acts": obs[:, :1], "next_obs": next_obs, "dones": dones,
            "timeouts": timeouts}  # fmt: skip


def test_the_end_of_an_episode_leads_to_the_absorbing_state():
    encoder = ObservationEncoder(spaces.Box(-9, 9, (2,)), absorbing=True)
    obs = np.ones((2, 2), np.float32)
    made = encoded_demonstrations(encoder, ended(obs, 2 * obs), spaces.Box(-1, 1, (1,)))
    assert made["next_obs"].tolist() == [[2, 2, 0], [0, 0, 1], [0, 0, 1]]
    assert made["obs"].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert made["acts"].tolist() == [[1], [1], [0]]
    assert not made["terminal"].any()


def test_without_an_absorbing_state_the_end_is_marked():
    encoder = ObservationEncoder(spaces.Box(-9, 9, (2,)), absorbing=False)
    obs = np.ones((2, 2), np.float32)
    made = encoded_demonstrations(encoder, ended(obs, obs), spaces.Box(-1, 1, (1,)))
    assert made["terminal"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Dict({"a": spaces.Box(-1, 1, (2,))}), "dictionaries"),
        (spaces.Box(0, 255, (36, 36, 3), np.uint8), "images"),
    ],
)
def test_observations_that_are_no_vectors_are_refused(space, words):
    with pytest.raises(ValueError, match=words):
        ObservationEncoder(space, absorbing=False)


@pytest.mark.parametrize(
    ("value", "words"),
    [({"gamma": 1.5}, "gamma"), ({"tau": 0.0}, "tau"), ({"temperature": 0.0}, "temperature"),
     ({"n_critics": 0}, "n_critics")],
)  # fmt: skip
def test_settings_out_of_range_are_refused(value, words):
    with pytest.raises(ValueError, match=words):
        AgentOptions(**value)
