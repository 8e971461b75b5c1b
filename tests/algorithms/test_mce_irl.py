"""Maximum causal entropy IRL: its gradient, what it recovers, and that it can be resumed."""

from functools import partial

import gymnasium as gym
import numpy as np
import pytest
import torch as th
from seals.diagnostics.cliff_world import CliffWorldEnv
from seals.diagnostics.random_trans import RandomTransitionEnv
from stable_baselines3.common.vec_env import DummyVecEnv
from support.tabular import chance, every_trajectory, small_model, state_numbers

from imitbench.algorithms.mce_irl import (
    MCEIRL,
    TabularPolicy,
    TabularRewardNet,
    mce_occupancy_measures,
    mce_partition_fh,
    squeeze_r,
)
from imitbench.data import rollout, types
from imitbench.rewards.reward_nets import BasicRewardNet, BasicShapedRewardNet, NormalizedRewardNet
from imitbench.util.logger import configure
from imitbench.util.networks import RunningNorm
from imitbench.util.state_file import load_state, save_state

QUIET = configure(format_strs=[])


def cliff_world(horizon=10):
    return CliffWorldEnv(width=5, height=3, horizon=horizon, use_xy_obs=True)


def random_model():
    return RandomTransitionEnv(
        n_states=8,
        n_actions=3,
        branch_factor=3,
        horizon=8,
        random_obs=True,
        obs_dim=4,
        generator_seed=0,
    )


def make_net(env, sizes=(32,), seed=0, **kwargs):
    th.manual_seed(seed)
    return BasicRewardNet(
        env.observation_space, env.action_space, use_action=False, hid_sizes=sizes, **kwargs
    )


def make_irl(env, demonstrations="own", net=None, lr=1e-2, seed=0, **options):
    if isinstance(demonstrations, str):
        demonstrations = mce_occupancy_measures(env, discount=options.get("discount", 1.0))[1]
    return MCEIRL(
        demonstrations,
        env,
        net if net is not None else make_net(env),
        np.random.default_rng(seed),
        optimizer_kwargs={"lr": lr},
        custom_logger=QUIET,
        **options,
    )


def whole_episodes(env, count, seed=0):
    """Trajectories of the softly optimal policy, with the environment's observations."""
    venv = DummyVecEnv([lambda: env])
    venv.seed(seed)
    pi = mce_partition_fh(env)[2]
    rng = np.random.default_rng(seed)
    states = []

    def act(obs, state, starts):
        step = 0 if state is None or starts[0] else int(state[0])
        current = int(env.state)
        states.append(current)
        return np.array([rng.choice(env.action_dim, p=pi[step, current])]), (np.array(step + 1),)

    episodes = rollout.generate_trajectories(act, venv, rollout.make_min_episodes(count), rng)
    return episodes, np.bincount(states, minlength=env.state_dim) / count


class TestGradient:
    @pytest.mark.parametrize("discount", [1.0, 0.8])
    @pytest.mark.parametrize("kind", ["linear", "perceptron", "smooth", "table"])
    def test_is_that_of_the_log_likelihood_of_demonstrations(self, kind, discount):
        """By finite differences of the likelihood, summed over all trajectories of an expert."""
        env = small_model(deterministic=False, horizon=3)
        expert = np.random.default_rng(5).dirichlet(np.ones(2), size=(3, 3))
        steps = np.arange(3)
        episodes = [
            (states, actions, chance(env, states, actions) * expert[steps, states, actions].prod())
            for states, actions in every_trajectory(env)
        ]
        nets = {
            "linear": partial(make_net, env, ()),
            "perceptron": partial(make_net, env, (4, 3)),
            "smooth": partial(make_net, env, (4,), activation=th.nn.Tanh),
            "table": partial(TabularRewardNet.of, env),
        }
        net = nets[kind]().double()
        if kind == "table":
            th.nn.init.normal_(net.values, generator=th.Generator().manual_seed(0))
        visits = mce_occupancy_measures(env, pi=expert, discount=discount)[1]
        irl = make_irl(env, visits, net, discount=discount, grad_l2_eps=0.0, linf_eps=0.0)
        before = th.nn.utils.parameters_to_vector(net.parameters()).detach().clone()

        def loss(parameters):
            """Each action's log-likelihood counts as much as the rewards of its step."""
            th.nn.utils.vector_to_parameters(parameters, net.parameters())
            states = th.as_tensor(env.observation_matrix).double()
            with th.no_grad():
                reward = net(states, None, None, None).numpy()
            values = mce_partition_fh(env, reward=reward, discount=discount)[0]
            powers = discount**steps
            returns = sum(p * (powers * reward[states]).sum() for states, _, p in episodes)
            return float(env.initial_state_dist @ values[0]) - returns

        differences = [
            (loss(before + 1e-6 * unit) - loss(before - 1e-6 * unit)) / 2e-6
            for unit in th.eye(len(before), dtype=th.float64)
        ]
        th.nn.utils.vector_to_parameters(before.clone(), net.parameters())
        irl.optimizer.param_groups[0]["lr"] = 0.0
        irl.train(1)
        gradient = th.cat([each.grad.flatten() for each in net.parameters()])
        np.testing.assert_allclose(gradient.numpy(), differences, rtol=1e-6, atol=1e-8)

    def test_objective_is_the_causal_log_likelihood_up_to_the_dynamics(self):
        """Sum of log pi equals return minus soft value, where dynamics are deterministic."""
        env = small_model(deterministic=True)
        values, _, pi = mce_partition_fh(env)
        steps = np.arange(env.horizon)
        for states, actions in every_trajectory(env):
            if chance(env, states, actions) > 0:
                likelihood = np.log(pi[steps, states, actions]).sum()
                expected = env.reward_matrix[states].sum() - values[0, states[0]]
                assert likelihood == pytest.approx(expected, rel=1e-9, abs=1e-12)


class TestTraining:
    @pytest.mark.parametrize("make_env", [cliff_world, random_model])
    @pytest.mark.parametrize("tabular", [True, False])
    def test_recovers_a_reward_under_which_visits_match(self, make_env, tabular):
        env = make_env()
        net = TabularRewardNet.of(env) if tabular else make_net(env, (64,))
        irl = make_irl(env, net=net, lr=0.05 if tabular else 0.01)
        visits = irl.train(8000)
        np.testing.assert_allclose(visits, irl.demo_state_om, atol=irl.linf_eps)
        np.testing.assert_allclose(
            mce_occupancy_measures(env, pi=irl.policy.pi)[1], visits, rtol=1e-9
        )

    def test_cannot_match_visits_beyond_its_reward_class(self):
        irl = make_irl(cliff_world(), net=make_net(cliff_world(), ()))
        visits = irl.train(3000)
        assert np.abs(visits - irl.demo_state_om).max() > 0.1

    def test_matches_discounted_visits(self):
        env = random_model()
        irl = make_irl(env, net=TabularRewardNet.of(env), lr=0.05, discount=0.8)
        visits = irl.train(3000)
        assert visits.sum() == pytest.approx((1 - 0.8**8) / 0.2)
        np.testing.assert_allclose(visits, irl.demo_state_om, atol=irl.linf_eps)

    def test_returns_visits_under_the_final_reward_and_its_policy(self):
        env = cliff_world()
        irl = make_irl(env)
        visits = irl.train(7)
        states = th.as_tensor(env.observation_matrix)
        reward = irl.reward_net(states, None, None, None).detach().numpy().astype(np.float64)
        pi = mce_partition_fh(env, reward=reward)[2]
        np.testing.assert_allclose(irl.policy.pi, pi, rtol=1e-12)
        np.testing.assert_allclose(visits, mce_occupancy_measures(env, pi=pi)[1], rtol=1e-12)

    def test_without_iterations_only_plans(self):
        env = cliff_world()
        irl = make_irl(env, net=TabularRewardNet.of(env))
        np.testing.assert_allclose(irl.policy.pi, 0.25)
        visits = irl.train(0)
        expected = mce_occupancy_measures(env, reward=np.zeros(15))[1]
        np.testing.assert_allclose(visits, expected, rtol=1e-12)

    @pytest.mark.parametrize("option", ["linf_eps", "grad_l2_eps"])
    def test_stops_at_its_tolerances(self, option):
        env = cliff_world()
        irl = make_irl(env, **{"linf_eps": 0.0, "grad_l2_eps": 0.0, option: 1e3})
        before = [each.detach().clone() for each in irl.reward_net.parameters()]
        irl.train(5)
        for old, new in zip(before, irl.reward_net.parameters(), strict=True):
            assert th.equal(old, new)

    @pytest.mark.parametrize("sizes", [(), (16,), (8, 8)])
    def test_short_cuts_equal_automatic_differentiation(self, sizes, monkeypatch):
        env = cliff_world()

        def parameters():
            net = make_net(env, sizes).double()
            # Not Adam, which takes full steps along gradients that are only rounding errors.
            irl = make_irl(env, net=net, optimizer_cls=th.optim.SGD, lr=1e-3)
            irl.train(30)
            return th.nn.utils.parameters_to_vector(net.parameters()).detach()

        quick = parameters()
        monkeypatch.setattr("imitbench.algorithms.mce_rewards._is_plain", lambda _: False)
        np.testing.assert_allclose(quick, parameters(), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("optimizer_cls", [th.optim.SGD, th.optim.AdamW, th.optim.RMSprop])
    def test_takes_any_optimizer(self, optimizer_cls):
        env = cliff_world()
        irl = make_irl(env, optimizer_cls=optimizer_cls, lr=1e-3)
        before = np.abs(irl.train(0) - irl.demo_state_om).sum()
        after = np.abs(irl.train(200) - irl.demo_state_om).sum()
        assert after < 0.9 * before

    def test_restores_the_mode_and_normalizes_inputs(self):
        env = random_model()
        irl = make_irl(env, net=make_net(env, (32,), normalize_input_layer=RunningNorm).eval())
        before = np.abs(irl.train(0) - irl.demo_state_om).max()
        visits = irl.train(300)
        assert not irl.reward_net.training
        assert np.abs(visits - irl.demo_state_om).max() < 0.3 * before

    def test_works_with_observed_states(self):
        env = state_numbers(small_model(deterministic=False))
        irl = make_irl(env, net=make_net(env, ()), lr=0.1)
        np.testing.assert_allclose(irl.train(2000), irl.demo_state_om, atol=irl.linf_eps)

    def test_works_on_a_registered_environment(self):
        env = gym.make("seals/CliffWorld7x4-v0")
        irl = make_irl(env, net=make_net(env, ()))
        assert irl.train(3).sum() == pytest.approx(9)

    def test_logs_at_intervals(self, tmp_path):
        env = cliff_world()
        irl = make_irl(env, log_interval=10)
        irl.logger = configure(tmp_path, ["csv"])
        irl.train(25)
        lines = (tmp_path / "progress.csv").read_text().splitlines()
        assert set(lines[0].split(",")) == {
            "iteration",
            "linf_delta",
            "weight_norm",
            "grad_norm",
        }
        assert len(lines) == 1 + 3

    @pytest.mark.parametrize("make_net", [TabularRewardNet.of, make_net], ids=["table", "network"])
    def test_a_state_does_not_change_while_training_continues(self, make_net):
        env = cliff_world()
        irl = make_irl(env, net=make_net(env))
        irl.train(5)
        best, at_best, after = irl.state_dict(), irl.rewards(), []
        for each in (irl, make_irl(env, net=make_net(env)), make_irl(env, net=make_net(env))):
            irl.train(5)
            each.load_state_dict(best)
            np.testing.assert_array_equal(each.rewards(), at_best)
            each.train(5)
            after.append(each.rewards())
        for rewards in after[1:]:
            np.testing.assert_array_equal(rewards, after[0])

    def test_resumes_from_a_checkpoint_as_if_uninterrupted(self, tmp_path):
        env = cliff_world()
        whole = make_irl(env)
        whole.train(60)
        first = make_irl(env)
        first.train(25)
        save_state(tmp_path / "state", first.state_dict())
        second = make_irl(env, net=make_net(env, seed=9), seed=9)
        second.load_state_dict(load_state(tmp_path / "state"))
        np.testing.assert_array_equal(second.policy.pi, first.policy.pi)
        second.train(35)
        for one, other in zip(
            whole.reward_net.parameters(), second.reward_net.parameters(), strict=True
        ):
            assert th.equal(one, other)
        np.testing.assert_array_equal(whole.policy.pi, second.policy.pi)
        states = np.zeros(50, dtype=int)
        np.testing.assert_array_equal(
            whole.policy.predict(states)[0], second.policy.predict(states)[0]
        )


class TestDemonstrations:
    @pytest.mark.parametrize("make_env", [cliff_world, random_model])
    def test_trajectories_are_counted(self, make_env):
        env = make_env()
        episodes, visits = whole_episodes(env, 6)
        irl = make_irl(env, episodes)
        np.testing.assert_allclose(irl.demo_state_om, visits)
        assert irl.demo_state_om.sum() == pytest.approx(env.horizon)

    def test_trajectories_of_states_are_discounted_by_step(self):
        env = small_model(deterministic=True)
        acts = np.zeros(4, dtype=int)
        episodes = [
            types.Trajectory(np.array(obs), acts, None, True)
            for obs in ([0, 1, 1, 2, 0], [2, 2, 0, 1, 1])
        ]
        irl = make_irl(env, episodes, discount=0.5)
        expected = [(1 + 0.25) / 2, (0.5 + 0.25 + 0.125) / 2, (0.125 + 1 + 0.5) / 2]
        np.testing.assert_allclose(irl.demo_state_om, expected)

    def test_all_forms_give_the_same_visits(self):
        env = cliff_world()
        episodes, visits = whole_episodes(env, 6)
        transitions = rollout.flatten_trajectories(episodes)
        halves = [
            {"obs": th.tensor(transitions.obs[part]), "acts": transitions.acts[part]}
            for part in (slice(None, 30), slice(30, None))
        ]
        one_hot = types.TransitionsMinimal(
            obs=np.eye(15)[[int(np.flatnonzero((env.observation_matrix == o).all(axis=1))[0])
                            for o in transitions.obs]],
            acts=transitions.acts,
            infos=transitions.infos,
        )  # fmt: skip
        for form in (iter(episodes), transitions, iter(halves), one_hot, visits):
            np.testing.assert_allclose(make_irl(env, form).demo_state_om, visits)

    @pytest.mark.parametrize(
        ("demonstrations", "message"),
        [
            ([], "demonstrations are empty"),
            (np.zeros(2), r"visits have shape \(2,\); they need \(3,\)"),
            (np.array([1.0, 1.0, 3.0]), "visits add up to 5, but 4 steps .* add up to 4"),
            (np.array([5.0, -1.0, 0.0]), "visits must be finite and not negative"),
            (
                [types.Trajectory(np.zeros(4, int), np.zeros(3, int), None, True)],
                "a trajectory has 3 steps, but the environment's horizon is 4",
            ),
            (
                [types.Trajectory(np.full(5, 3), np.zeros(4, int), None, True)],
                "demonstrations: holds values that are not states",
            ),
            (
                [types.Trajectory(np.ones((5, 2)), np.zeros(4, int), None, True)],
                "is the observation of no state",
            ),
        ],
    )
    def test_that_do_not_fit_are_refused(self, demonstrations, message):
        with pytest.raises(ValueError, match=message):
            make_irl(small_model(deterministic=True), demonstrations)

    @pytest.mark.parametrize("discount", [1.0, 0.5])
    def test_an_episode_that_ends_early_stays_where_it_ended(self, discount):
        env = gym.make("seals/EarlyTermNeg-v0")
        episode = types.Trajectory(np.array([0, 1, 2]), np.array([0, 1]), None, True)
        net = TabularRewardNet.of(env)
        irl = MCEIRL([episode], env, net, np.random.default_rng(0), discount=discount)
        rest = sum(discount**t for t in range(2, 10))
        np.testing.assert_allclose(irl.demo_state_om, [1, discount, rest])

    def test_an_episode_may_end_early_only_in_a_terminal_state(self):
        env = gym.make("seals/EarlyTermNeg-v0")
        episode = types.Trajectory(np.array([0, 1, 0]), np.array([0, 0]), None, True)
        with pytest.raises(ValueError, match=r"a trajectory has 2 steps, but .* horizon is 10"):
            MCEIRL([episode], env, TabularRewardNet.of(env), np.random.default_rng(0))

    def test_transitions_are_refused_where_episodes_can_end_early(self):
        env = gym.make("seals/EarlyTermNeg-v0")
        steps = types.TransitionsMinimal(np.array([0, 1]), np.array([0, 1]), np.array([{}, {}]))
        with pytest.raises(ValueError, match="transitions do not show which episodes ended early"):
            MCEIRL(steps, env, TabularRewardNet.of(env), np.random.default_rng(0))

    def test_transitions_cannot_be_discounted(self):
        env = small_model(deterministic=True)
        batches = [{"obs": np.zeros(3, int), "acts": np.zeros(3, int)}]
        make_irl(env, batches)
        with pytest.raises(ValueError, match="transitions have no time step"):
            make_irl(env, batches, discount=0.9)

    @pytest.mark.parametrize("demonstrations", [5, [5]])
    def test_of_another_type_are_refused(self, demonstrations):
        with pytest.raises(TypeError, match="demonstrations must"):
            make_irl(small_model(deterministic=True), demonstrations)

    def test_may_come_later_but_not_after_training(self):
        env = small_model(deterministic=True)
        irl = make_irl(env, None)
        with pytest.raises(ValueError, match=r"call set_demonstrations\(\) first"):
            irl.train()
        irl.set_demonstrations(np.array([4.0, 0, 0]))
        irl.train(1)


class TestBadInput:
    @pytest.mark.parametrize("option", ["use_next_state", "use_done"])
    def test_networks_of_more_than_the_state(self, option):
        env = cliff_world()
        with pytest.raises(ValueError, match=f"reward_net: it has {option}=True"):
            make_irl(env, net=make_net(env, **{option: True}))

    def test_networks_of_actions(self):
        env = cliff_world()
        net = BasicRewardNet(env.observation_space, env.action_space)
        with pytest.raises(ValueError, match="reward_net: it has use_action=True"):
            make_irl(env, net=net)

    def test_networks_that_are_shaped(self):
        env = cliff_world()
        net = BasicShapedRewardNet(env.observation_space, env.action_space, use_action=False)
        with pytest.raises(ValueError, match="reward_net: it must use only the state"):
            make_irl(env, net=net)

    def test_networks_for_other_observations(self):
        with pytest.raises(ValueError, match="reward_net: it cannot read this environment's"):
            make_irl(cliff_world(), net=make_net(random_model()))

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"discount": 1.5}, "discount must lie in"),
            ({"log_interval": 0}, "log_interval must be positive or None"),
        ],
    )
    def test_options_out_of_range(self, options, message):
        env = cliff_world()
        with pytest.raises(ValueError, match=message):
            make_irl(env, None, **options)

    def test_rewards_that_are_not_finite(self):
        env = cliff_world()
        net = make_net(env, ())
        irl = make_irl(env, net=net)
        with th.no_grad():
            net.mlp[0].bias.fill_(np.nan)
        with pytest.raises(ValueError, match="reward_net: rewards are not finite"):
            irl.train(1)

    def test_states_of_another_environment(self):
        irl = make_irl(cliff_world())
        with pytest.raises(ValueError, match="state: pi: has shape"):
            irl.load_state_dict(make_irl(random_model()).state_dict())


class TestTabularRewardNet:
    def test_has_a_reward_for_each_state(self):
        env = cliff_world()
        net = TabularRewardNet.of(env)
        with th.no_grad():
            net.values.copy_(th.arange(15.0))
        obs = env.observation_matrix[[3, 14, 3]]
        rewards = net.predict(obs, np.zeros(3, int), obs, np.zeros(3, bool))
        np.testing.assert_array_equal(rewards, [3, 14, 3])

    def test_refuses_observations_of_no_state(self):
        net = TabularRewardNet.of(cliff_world())
        obs = np.full((1, 2), 0.3, dtype=np.float32)
        with pytest.raises(ValueError, match="state: an observation belongs to no state"):
            net.predict(obs, np.zeros(1, int), obs, np.zeros(1, bool))

    def test_gives_the_rewards_of_all_states_in_one_call(self):
        env = cliff_world()
        net = TabularRewardNet.of(env)
        wanted = np.linspace(-1, 1, len(net.values), dtype=np.float32)
        net.values.data.copy_(th.from_numpy(wanted))
        known = net.observations.numpy()
        for count in (len(known), 1):  # all of them are a case of their own
            obs, rest = known[:count], (np.zeros(count, int), known[:count], np.zeros(count, bool))
            for predict in (net.predict, net.predict_processed):
                rewards = predict(obs, *rest)
                np.testing.assert_array_equal(rewards, wanted[:count])
                rewards[:] = 9  # the caller's own
        np.testing.assert_array_equal(net.values.detach().numpy(), wanted)

    def test_refuses_states_with_equal_observations(self):
        env = cliff_world()
        with pytest.raises(ValueError, match="two states have the same"):
            TabularRewardNet(env.observation_space, env.action_space, np.zeros((3, 2)))

    def test_can_be_wrapped(self):
        env = cliff_world()
        net = NormalizedRewardNet(TabularRewardNet.of(env), RunningNorm)
        irl = make_irl(env, net=net, lr=0.05)
        np.testing.assert_allclose(irl.train(3000), irl.demo_state_om, atol=0.01)


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
def test_squeeze_r_leaves_one_dimension(shape):
    assert squeeze_r(th.zeros(shape)).shape == (4,)


@pytest.mark.parametrize("shape", [(), (4, 2), (4, 1, 1)])
def test_squeeze_r_refuses_other_shapes(shape):
    with pytest.raises(ValueError, match="r_output has shape"):
        squeeze_r(th.zeros(shape))


def test_policy_is_tabular():
    assert isinstance(make_irl(cliff_world(), None).policy, TabularPolicy)


def test_the_default_optimizer_reaches_the_tolerance_of_visits():
    """As the reference's: Adam with a learning rate of 0.01."""
    env = small_model(deterministic=False, horizon=10)
    visits = mce_occupancy_measures(env)[1]
    net = make_net(env, sizes=())
    irl = MCEIRL(visits, env, net, np.random.default_rng(0), custom_logger=QUIET)
    assert irl.optimizer.param_groups[0]["lr"] == 0.01
    assert np.abs(irl.train() - visits).max() <= irl.linf_eps
