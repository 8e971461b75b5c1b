"""Behavioral cloning: what it computes, what it learns, and that it can be resumed."""

import io
import json
import pickle

import numpy as np
import pytest
import torch as th
from gymnasium import spaces
from stable_baselines3.common import distributions
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticPolicy

from imitbench.algorithms import bc
from imitbench.algorithms.bc_loss import has_short_cut, log_prob_and_entropy
from imitbench.data import rollout, serialize, types
from imitbench.data.wrappers import RolloutInfoWrapper
from imitbench.experts.lookup import find_expert
from imitbench.policies.base import (
    FeedForward32Policy,
    NormalizeFeaturesExtractor,
    RandomPolicy,
)
from imitbench.policies.storage import load_policy
from imitbench.util import logger as imit_logger
from imitbench.util.util import make_vec_env

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
DICT_OBS = spaces.Dict({"a": OBS, "b": spaces.Discrete(2)})
ACTIONS = {
    "discrete": spaces.Discrete(3),
    "box": spaces.Box(-1.0, 1.0, (2,), np.float32),
    "multi-discrete": spaces.MultiDiscrete([2, 3]),
    "multi-binary": spaces.MultiBinary(2),
}


def transitions_for(action_space, n=200, obs_space=OBS):
    """The expert acts on the sign of the first observation."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(n, 3)).astype(np.float32)
    positive = obs[:, 0] > 0
    if isinstance(action_space, spaces.Discrete):
        acts = positive.astype(np.int64)
    elif isinstance(action_space, spaces.Box):
        acts = np.stack([positive, ~positive], axis=1).astype(np.float32) - 0.5
    else:
        acts = np.stack([positive, ~positive], axis=1).astype(action_space.dtype)
    if isinstance(obs_space, spaces.Dict):
        obs = types.DictObs({"a": obs, "b": positive.astype(np.int64)})
    return types.TransitionsMinimal(obs=obs, acts=acts, infos=np.array([{}] * n))


def make_bc(action_space=ACTIONS["discrete"], *, seed=0, obs_space=OBS, data=None, **options):
    th.manual_seed(seed)
    options.setdefault("custom_logger", imit_logger.configure(format_strs=[]))
    return bc.BC(
        observation_space=obs_space,
        action_space=action_space,
        rng=np.random.default_rng(seed),
        demonstrations=transitions_for(action_space, obs_space=obs_space) if data is None else data,
        device="cpu",
        **options,
    )


def batch_of(action_space, n=32):
    data = transitions_for(action_space, n)
    return th.from_numpy(data.obs.copy()), th.from_numpy(data.acts.copy())


@pytest.mark.parametrize("obs_space", [OBS, DICT_OBS], ids=["vector", "dict"])
@pytest.mark.parametrize("action_space", ACTIONS.values(), ids=ACTIONS)
def test_it_learns_every_kind_of_space(action_space, obs_space):
    trainer = make_bc(action_space, obs_space=obs_space, optimizer_kwargs={"lr": 1e-2})
    trainer.train(n_epochs=30, progress_bar=False)
    data = transitions_for(action_space, 100, obs_space)
    obs = data.obs.unwrap() if isinstance(data.obs, types.DictObs) else data.obs
    actions, _ = trainer.policy.predict(obs, deterministic=True)
    agree = np.isclose(actions, data.acts, atol=0.35).reshape(len(actions), -1).all(axis=1)
    assert agree.mean() > 0.9


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_the_short_cut_equals_the_policys_own_evaluation(kind):
    th.manual_seed(0)
    policy = FeedForward32Policy(OBS, ACTIONS[kind], lambda _: 1e-3)
    obs, acts = batch_of(ACTIONS[kind])
    assert has_short_cut(policy)
    log_prob, entropy = log_prob_and_entropy(policy, obs, acts)
    _, expected_log_prob, expected_entropy = policy.evaluate_actions(obs, acts)
    th.testing.assert_close(log_prob, expected_log_prob)
    th.testing.assert_close(entropy.expand(len(obs)), expected_entropy)
    for own, expected in ((log_prob, expected_log_prob), (entropy, expected_entropy)):
        grads, wanted = (
            th.autograd.grad(
                x.mean(), list(policy.parameters()), allow_unused=True, retain_graph=True
            )
            for x in (own, expected)
        )
        for grad, want in zip(grads, wanted, strict=True):
            want = th.zeros(1) if want is None else want
            grad = th.zeros_like(want) if grad is None else grad
            th.testing.assert_close(grad.expand_as(want), want, rtol=1e-4, atol=1e-6)


def test_policies_with_their_own_evaluation_use_it():
    class Own(FeedForward32Policy):
        def evaluate_actions(self, obs, actions):
            value, log_prob, entropy = super().evaluate_actions(obs, actions)
            return value, log_prob - 1, entropy

    policy = Own(OBS, ACTIONS["discrete"], lambda _: 1e-3)
    obs, acts = batch_of(ACTIONS["discrete"])
    assert not has_short_cut(policy)
    log_prob, _ = log_prob_and_entropy(policy, obs, acts)
    th.testing.assert_close(log_prob, policy.evaluate_actions(obs, acts)[1])


def test_gsde_policies_do_not_use_the_short_cut():
    policy = ActorCriticPolicy(OBS, ACTIONS["box"], lambda _: 1e-3, use_sde=True)
    assert isinstance(policy.action_dist, distributions.StateDependentNoiseDistribution)
    assert not has_short_cut(policy)


@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_gradients_equal_finite_differences(kind):
    th.manual_seed(0)
    policy = FeedForward32Policy(OBS, ACTIONS[kind], lambda _: 1e-3).double()
    calculator = bc.BehaviorCloningLossCalculator(ent_weight=0.1, l2_weight=0.01)
    obs, acts = batch_of(ACTIONS[kind], 8)
    obs, acts = obs.double(), acts.double() if kind == "box" else acts
    # Observations are converted to float32 at the input; this pass-through keeps doubles.
    policy.extract_features = lambda x, *_: x
    weight = policy.action_net.weight
    (gradient,) = th.autograd.grad(calculator.loss(policy, obs, acts), weight)
    step, numeric = 1e-6, th.zeros_like(gradient)
    with th.no_grad():
        for index in np.ndindex(*weight.shape):
            values = []
            for sign in (1, -1):
                weight[index] += sign * step
                values.append(calculator.loss(policy, obs, acts))
                weight[index] -= sign * step
            numeric[index] = (values[0] - values[1]) / (2 * step)
    th.testing.assert_close(gradient, numeric, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("l2_weight", [0.0, 0.01])
@pytest.mark.parametrize("ent_weight", [0.0, 0.3])
@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_the_closed_form_gradient_is_that_of_the_loss(kind, ent_weight, l2_weight):
    th.manual_seed(0)
    policy = FeedForward32Policy(OBS, ACTIONS[kind], lambda _: 1e-3)
    calculator = bc.BehaviorCloningLossCalculator(ent_weight, l2_weight)
    obs, acts = batch_of(ACTIONS[kind])
    (2 * 0.25 * calculator.loss(policy, obs, acts)).backward()
    expected = {n: p.grad.clone() for n, p in policy.named_parameters() if p.grad is not None}
    policy.zero_grad()
    add_gradient = calculator.gradient_step(policy)
    for _ in range(2):  # gradients add up
        add_gradient(obs, acts, 0.25)
    for name, parameter in policy.named_parameters():
        if name in expected:
            th.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-6)
        else:
            assert parameter.grad is None


def test_the_loss_is_the_sum_of_its_parts():
    policy = FeedForward32Policy(OBS, ACTIONS["discrete"], lambda _: 1e-3)
    obs, acts = batch_of(ACTIONS["discrete"])
    calculator = bc.BehaviorCloningLossCalculator(ent_weight=0.2, l2_weight=0.3)
    metrics = calculator(policy, obs, acts)
    _, log_prob, entropy = policy.evaluate_actions(obs, acts)
    squares = sum(parameter.square().sum() for parameter in policy.parameters())
    th.testing.assert_close(metrics.neglogp, -log_prob.mean())
    th.testing.assert_close(metrics.prob_true_act, log_prob.exp().mean())
    th.testing.assert_close(metrics.ent_loss, -0.2 * entropy.mean())
    th.testing.assert_close(metrics.l2_norm, squares / 2)
    th.testing.assert_close(metrics.l2_loss, 0.3 * squares / 2)
    th.testing.assert_close(metrics.loss, metrics.neglogp + metrics.ent_loss + metrics.l2_loss)
    th.testing.assert_close(calculator.loss(policy, obs, acts), metrics.loss)


@pytest.mark.parametrize("minibatch_size", [8, 16])
def test_gradients_of_minibatches_add_up_to_those_of_the_batch(minibatch_size):
    # Gradient descent turns equal gradients into equal parameters.
    options = {"optimizer_cls": th.optim.SGD, "optimizer_kwargs": {"lr": 0.1}, "l2_weight": 0.1}
    data = transitions_for(ACTIONS["discrete"], n=32)
    whole = make_bc(data=data, batch_size=32, **options)
    parts = make_bc(data=data, batch_size=32, minibatch_size=minibatch_size, **options)
    for trainer in (whole, parts):
        trainer.train(n_batches=3, progress_bar=False)
    for one, other in zip(whole.policy.parameters(), parts.policy.parameters(), strict=True):
        th.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_epochs_and_batches_are_counted():
    trainer = make_bc(batch_size=32)  # 6 batches from 200 transitions
    counts = {"epochs": 0, "batches": 0}

    def count(what):
        counts[what] += 1

    hooks = {
        "on_epoch_end": lambda: count("epochs"),
        "on_batch_end": lambda: count("batches"),
        "progress_bar": False,
    }
    trainer.train(n_epochs=2, **hooks)
    assert counts == {"epochs": 2, "batches": 12}
    trainer.train(n_batches=7, **hooks)
    assert counts == {"epochs": 3, "batches": 19}
    trainer.train(n_batches=5, **hooks)
    assert counts == {"epochs": 4, "batches": 24}
    trainer.train(n_batches=0, **hooks)
    assert counts == {"epochs": 4, "batches": 24}


def test_an_incomplete_batch_of_the_last_pass_is_trained_on(tmp_path):
    log = imit_logger.configure(tmp_path, ["json"])
    trainer = make_bc(batch_size=128, minibatch_size=64, custom_logger=log)  # 3 minibatches
    ends = []
    before = trainer.policy.action_net.bias.clone()
    trainer.train(
        n_epochs=1, on_batch_end=lambda: ends.append(trainer.policy.action_net.bias.clone()),
        log_interval=1, progress_bar=False,
    )  # fmt: skip
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").open()]
    assert [line["bc/samples_so_far"] for line in lines] == [128, 192]
    assert len(ends) == 2
    assert not th.equal(before, ends[0])
    assert not th.equal(ends[0], ends[1])


def test_an_epoch_sees_every_transition_at_most_once():
    data = transitions_for(ACTIONS["discrete"], n=96)
    trainer = make_bc(data=data, batch_size=32)
    for _ in range(2):
        seen = th.cat([batch["obs"] for batch in trainer._batches])
        assert len(th.unique(seen, dim=0)) == 96


def test_the_log_has_every_part_of_the_loss(tmp_path):
    trainer = make_bc(custom_logger=imit_logger.configure(tmp_path, ["json"]), batch_size=32)
    trainer.train(n_batches=11, log_interval=5, progress_bar=False)
    trainer.logger.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").open()]
    assert [line["bc/batch"] for line in lines] == [0, 5, 10]
    assert [line["bc/samples_so_far"] for line in lines] == [32, 192, 352]
    assert [line["bc/epoch"] for line in lines] == [0, 0, 1]
    assert {line["batch_size"] for line in lines} == {32}
    for key in ("loss", "neglogp", "entropy", "ent_loss", "prob_true_act", "l2_norm", "l2_loss"):
        assert all(np.isfinite(line[f"bc/{key}"]) for line in lines)
    assert lines[-1]["bc/loss"] < lines[0]["bc/loss"]


@pytest.fixture
def cartpole():
    venv = make_vec_env("seals:seals/CartPole-v0", rng=np.random.default_rng(0), n_envs=2)
    yield venv
    venv.close()


def test_rollouts_are_logged_and_the_training_mode_is_restored(cartpole, tmp_path):
    policy = FeedForward32Policy(
        cartpole.observation_space, cartpole.action_space, lambda _: 1e-3,
        features_extractor_class=NormalizeFeaturesExtractor,
    )  # fmt: skip
    demos = rollout.rollout(
        RandomPolicy(cartpole.observation_space, cartpole.action_space), cartpole,
        rollout.make_min_episodes(1), rng=np.random.default_rng(0), unwrap=False,
    )  # fmt: skip
    log = imit_logger.configure(tmp_path, ["json"])
    trainer = bc.BC(
        observation_space=cartpole.observation_space, action_space=cartpole.action_space,
        rng=np.random.default_rng(0), policy=policy, demonstrations=demos, custom_logger=log,
    )  # fmt: skip
    trainer.train(
        n_batches=10, log_interval=5, log_rollouts_venv=cartpole, log_rollouts_n_episodes=1,
        progress_bar=False,
    )  # fmt: skip
    log.close()
    lines = [json.loads(line) for line in (tmp_path / "progress.json").open()]
    assert all("rollout/return_mean" in line for line in lines)
    assert policy.features_extractor.normalize.count == 10 * trainer.batch_size
    assert not policy.training


@pytest.mark.parametrize("amount", [{"n_batches": 13}, {"n_epochs": 2}], ids=str)
@pytest.mark.parametrize("kind", ["discrete", "box"])
def test_resumed_training_equals_uninterrupted_training_bit_for_bit(kind, amount):
    def fresh(seed):
        policy = ActorCriticPolicy(
            OBS, ACTIONS[kind], lambda _: 1e-3, net_arch=[8],
            features_extractor_class=NormalizeFeaturesExtractor,
        )  # fmt: skip
        return make_bc(ACTIONS[kind], seed=seed, policy=policy)

    straight, first = fresh(0), fresh(0)
    first.policy.load_state_dict(straight.policy.state_dict())
    straight.train(**{unit: 2 * number for unit, number in amount.items()}, progress_bar=False)
    first.train(**amount, progress_bar=False)
    stored = io.BytesIO()
    th.save(first.state_dict(), stored)
    stored.seek(0)
    second = fresh(1)
    second.load_state_dict(th.load(stored, weights_only=True))
    second.train(**amount, progress_bar=False)
    for name, tensor in straight.policy.state_dict().items():
        assert th.equal(tensor, second.policy.state_dict()[name]), name


def test_actions_of_several_dimensions_have_one_probability_each():
    flat = spaces.Box(-1.0, 1.0, (4,), np.float32)
    found, obs, acts = [], th.randn(5, 3), th.rand(5, 4)
    for space in (spaces.Box(-1.0, 1.0, (2, 2), np.float32), flat):
        th.manual_seed(0)
        policy = ActorCriticPolicy(OBS, space, lambda _: 1e-3, use_sde=True)
        assert not has_short_cut(policy)
        found.append(log_prob_and_entropy(policy, obs, acts.reshape(5, *space.shape))[0])
    assert found[0].shape == (5,)
    assert th.equal(*found)


def weights(trainer):
    return th.nn.utils.parameters_to_vector(trainer.policy.parameters()).detach()


def test_a_state_does_not_change_while_training_continues():
    trainer = make_bc()
    trainer.train(n_batches=3, progress_bar=False)
    best, at_best = trainer.state_dict(), weights(trainer).clone()
    after = []
    for each in (trainer, make_bc(seed=1), make_bc(seed=2)):
        trainer.train(n_batches=9, progress_bar=False)
        assert not th.equal(weights(trainer), at_best)
        each.load_state_dict(best)
        assert th.equal(weights(each), at_best)
        each.train(n_batches=9, progress_bar=False)
        after.append(weights(each))
    assert all(th.equal(each, after[0]) for each in after)


def test_the_log_interval_does_not_change_results():
    often, seldom = make_bc(), make_bc()
    often.train(n_batches=12, log_interval=1, progress_bar=False)
    seldom.train(n_batches=12, log_interval=100, progress_bar=False)
    for one, other in zip(often.policy.parameters(), seldom.policy.parameters(), strict=True):
        assert th.equal(one, other)


def test_a_state_of_other_demonstrations_is_refused():
    trainer = make_bc()
    trainer.train(n_batches=1, progress_bar=False)
    state = trainer.state_dict()
    other = make_bc(seed=1, data=transitions_for(ACTIONS["discrete"], n=64))
    before = [parameter.clone() for parameter in other.policy.parameters()]
    with pytest.raises(ValueError, match="200 transitions"):
        other.load_state_dict(state)
    for parameter, old in zip(other.policy.parameters(), before, strict=True):
        assert th.equal(parameter, old)  # refused as a whole
    with pytest.raises(ValueError, match="batch_size 32"):
        make_bc(batch_size=16).load_state_dict(state)
    with pytest.raises(ValueError, match="set_demonstrations"):
        make_bc().load_state_dict({key: state[key] for key in ("policy", "optimizer", "rng")})


def test_the_same_seed_trains_the_same_policy():
    first, second = make_bc(), make_bc()
    for trainer in (first, second):
        trainer.train(n_epochs=1, progress_bar=False)
    assert all(
        th.equal(a, b)
        for a, b in zip(first.policy.parameters(), second.policy.parameters(), strict=True)
    )


@pytest.mark.parametrize("form", ["trajectories", "batches", "data loader", "late"])
def test_all_forms_of_demonstrations_train_the_same_policy(form):
    flat = transitions_for(ACTIONS["discrete"], n=64)
    if form == "trajectories":
        data = [types.Trajectory(obs=flat.obs[:33], acts=flat.acts[:32], infos=None, terminal=True)]
    elif form == "batches":
        data = [{"obs": flat.obs[i : i + 32], "acts": flat.acts[i : i + 32]} for i in (0, 32)]
    elif form == "data loader":
        data = th.utils.data.DataLoader(
            flat, batch_size=32, collate_fn=types.transitions_collate_fn
        )
    else:
        data = flat
    trainer = make_bc(data=data if form != "late" else flat)
    if form == "late":
        trainer.set_demonstrations(data)
    before = [parameter.clone() for parameter in trainer.policy.parameters()]
    trainer.train(n_batches=3, progress_bar=False)
    assert any(not th.equal(a, b) for a, b in zip(before, trainer.policy.parameters(), strict=True))


def test_an_iterator_of_batches_is_used_to_its_end():
    flat = transitions_for(ACTIONS["discrete"], n=96)
    batches = ({"obs": flat.obs[i : i + 32], "acts": flat.acts[i : i + 32]} for i in (0, 32, 64))
    trainer = make_bc(data=batches)
    ends = []
    trainer.train(n_epochs=1, on_batch_end=lambda: ends.append(1), progress_bar=False)
    assert len(ends) == 3
    with pytest.raises(ValueError, match="single pass"):
        trainer.train(n_epochs=1, progress_bar=False)


def test_actions_of_another_precision_train_the_same_policy():
    # Data sets often hold float64; parameters and their gradients stay float32.
    plain, double = (
        make_bc(
            ACTIONS["box"],
            data=types.TransitionsMinimal(
                obs=data.obs.astype(dtype), acts=data.acts.astype(dtype), infos=data.infos
            ),
        )
        for data in [transitions_for(ACTIONS["box"])]
        for dtype in (np.float32, np.float64)
    )
    for trainer in (plain, double):
        trainer.train(n_batches=10, progress_bar=False)
    for one, other in zip(plain.policy.parameters(), double.policy.parameters(), strict=True):
        th.testing.assert_close(one, other)


def test_a_policy_survives_storage(tmp_path):
    trainer = make_bc()
    trainer.train(n_epochs=1, progress_bar=False)
    trainer.save_policy(tmp_path / "policy")
    again = bc.reconstruct_policy(tmp_path / "policy", device="cpu")
    obs = transitions_for(ACTIONS["discrete"]).obs
    np.testing.assert_array_equal(
        trainer.policy.predict(obs, deterministic=True)[0],
        again.predict(obs, deterministic=True)[0],
    )


def test_only_actor_critic_policies_are_reconstructed(tmp_path):
    from imitbench.policies.storage import save_policy

    save_policy(RandomPolicy(OBS, ACTIONS["box"]), tmp_path)
    with pytest.raises(TypeError, match="RandomPolicy"):
        bc.reconstruct_policy(tmp_path)


def test_the_progress_bar_goes_to_stderr(capsys):
    make_bc().train(n_batches=2, progress_bar=True)
    captured = capsys.readouterr()
    assert "2/2" in captured.err
    assert captured.out == ""


def test_a_pickle_excludes_the_logger_s_files():
    trainer = make_bc(custom_logger=imit_logger.configure(format_strs=["log"]))
    again = pickle.loads(pickle.dumps(trainer.__getstate__()["_bc_logger"]))
    assert not hasattr(again, "_logger")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"optimizer_kwargs": {"weight_decay": 1.0}}, "l2_weight"),
        ({"batch_size": 32, "minibatch_size": 5}, "not a multiple of minibatch_size"),
        ({"batch_size": 0}, "batch_size must be positive"),
        ({"minibatch_size": 0}, "minibatch_size must be positive"),
        ({"minibatch_size": -8}, "minibatch_size must be positive"),
        ({"batch_size": 201}, "200 transitions, fewer than batch_size 201"),
        ({"data": []}, "demonstrations are empty"),
        ({"data": [{"obs": np.zeros((3, 3)), "acts": np.zeros(3)}]}, "batch_size is 32"),
        ({"data": transitions_for(ACTIONS["box"])}, "acts has shape"),
        ({"data": [{"obs": np.zeros((32, 3))}]}, "no 'acts'"),
        (
            {"data": [{"obs": np.full((32, 3), np.nan), "acts": np.zeros(32)}]},
            "obs holds values that are not finite",
        ),
        ({"action_space": spaces.Discrete(3, start=1)}, "does not start at 0"),
        (
            {"obs_space": spaces.Discrete(3, start=2), "data": []},
            r"observation_space: Discrete\(3, start=2\) does not start at 0",
        ),
    ],
)  # fmt: skip
def test_bad_arguments_are_reported(options, message):
    with pytest.raises(ValueError, match=message):
        make_bc(**options).train(n_batches=1, progress_bar=False)


def test_a_policy_of_other_actions_is_reported():
    policy = FeedForward32Policy(OBS, ACTIONS["box"], lambda _: 1e-3)
    with pytest.raises(ValueError, match="policy: its action_space"):
        make_bc(policy=policy)


def test_demonstrations_that_are_not_finite_are_reported():
    data = transitions_for(ACTIONS["discrete"])
    obs = data.obs.copy()
    obs[3, 0] = np.nan
    with pytest.raises(ValueError, match="obs holds values that are not finite"):
        make_bc(data=types.TransitionsMinimal(obs=obs, acts=data.acts, infos=data.infos))


def test_demonstrations_of_another_type_are_reported():
    with pytest.raises(TypeError, match="not int"):
        make_bc(data=3)
    with pytest.raises(TypeError, match="not str"):
        make_bc(data=["a"])


def test_the_log_interval_is_positive():
    with pytest.raises(ValueError, match="log_interval"):
        make_bc().train(n_batches=1, log_interval=0, progress_bar=False)


@pytest.mark.parametrize("counts", [{}, {"n_epochs": 1, "n_batches": 1}, {"n_epochs": -1}])
def test_training_needs_exactly_one_of_epochs_and_batches(counts):
    with pytest.raises(ValueError, match="n_epochs and n_batches"):
        make_bc().train(progress_bar=False, **counts)


def test_training_needs_demonstrations():
    trainer = bc.BC(
        observation_space=OBS, action_space=ACTIONS["box"], rng=np.random.default_rng(0)
    )
    with pytest.raises(ValueError, match="set_demonstrations"):
        trainer.train(n_epochs=1)


def test_an_expert_can_be_cloned_from_its_rollouts(cartpole):
    # The bundled expert is recorded, flattened, cloned and measured; so is a novice.
    expert = load_policy(find_expert("ppo-seals-CartPole-v0"))
    novice = RandomPolicy(cartpole.observation_space, cartpole.action_space)
    novice.action_space.seed(0)
    rng = np.random.default_rng(0)
    returns = {}
    recorder = make_vec_env(
        "seals:seals/CartPole-v0", rng=rng, n_envs=2,
        post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
    )  # fmt: skip
    for name, teacher in {"expert": expert, "novice": novice}.items():
        demos = rollout.rollout(
            teacher, recorder, rollout.make_sample_until(min_episodes=4), rng=rng, verbose=False
        )
        th.manual_seed(0)
        trainer = bc.BC(
            observation_space=cartpole.observation_space,
            action_space=cartpole.action_space,
            demonstrations=rollout.flatten_trajectories(demos),
            rng=rng,
            custom_logger=imit_logger.configure(format_strs=[]),
        )
        if name == "expert":
            returns["untrained"], _ = evaluate_policy(trainer.policy, cartpole, 2)
        trainer.train(n_epochs=12, progress_bar=False)
        returns[name], _ = evaluate_policy(trainer.policy, cartpole, 2)
    recorder.close()
    assert returns["untrained"] < 250
    assert returns["novice"] < 250
    assert returns["expert"] > 450


def test_demonstrations_of_the_reference_train_a_competent_policy(shared_dir, cartpole):
    demos = serialize.load(
        shared_dir / "hub-fixtures" / "imitation" / "datasets" / "ppo-seals-CartPole-v0"
    )
    trainer = bc.BC(
        observation_space=cartpole.observation_space,
        action_space=cartpole.action_space,
        demonstrations=rollout.flatten_trajectories(demos),
        rng=np.random.default_rng(0),
        custom_logger=imit_logger.configure(format_strs=[]),
    )
    trainer.train(n_epochs=3, progress_bar=False)
    episodes = rollout.rollout(
        trainer.policy, cartpole, rollout.make_min_episodes(4), rng=np.random.default_rng(0),
        unwrap=False, verbose=False,
    )  # fmt: skip
    assert rollout.rollout_stats(episodes)["return_mean"] > 450
