"""What GAIL and AIRL share: rounds, batches, gradients, errors, and resuming."""

import copy
import itertools

import gymnasium as gym
import numpy as np
import pytest
import stable_baselines3
import torch as th
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter, DictCounter

from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.bench.checkpoint import generator_states, restore_generators
from imitbench.data.resumable_env import episode_states, restore_episodes
from imitbench.data.types import TransitionsMinimal
from imitbench.rewards.reward_nets import BasicRewardNet
from imitbench.rl.ppo import PPO

from .conftest import NETS, make_trainer, make_venv, random_transitions

FIELDS = ("obs", "acts", "next_obs", "dones")


def samples(transitions, count=32):
    return {name: getattr(transitions, name)[:count] for name in FIELDS}


def weights(trainer):
    return th.cat([p.detach().flatten() for p in trainer._reward_net.parameters()])


def test_rounds_fill_the_budget_and_never_exceed_it(algorithm):
    trainer = make_trainer(algorithm, n_disc_updates_per_round=3)
    rounds: list = []
    trainer.train(total_timesteps=3 * 120 + 119, callback=rounds.append)
    assert rounds == [0, 1, 2]
    assert trainer.gen_train_timesteps == 120
    assert trainer.gen_algo.num_timesteps == 360
    assert trainer._disc_step == 9


def test_a_budget_below_one_round_is_reported(algorithm):
    with pytest.raises(ValueError, match="total_timesteps 119 is less than the 120 steps"):
        make_trainer(algorithm).train(119)


@pytest.mark.parametrize("ppo", [PPO, stable_baselines3.PPO], ids=["lean", "sb3"])
def test_training_moves_policy_and_discriminator(algorithm, ppo):
    trainer = make_trainer(algorithm, ppo=ppo)
    before = weights(trainer), trainer.policy.action_net.weight.detach().clone()
    trainer.train(240)
    assert (weights(trainer) != before[0]).any()
    assert (trainer.policy.action_net.weight != before[1]).any()


def test_per_rollout_and_per_step_rewards_train_the_same_policy(algorithm):
    trainers, seen = [], []
    for ppo in (PPO, stable_baselines3.PPO):
        trainer = make_trainer(algorithm, make_venv(), ppo=ppo)
        # Wrapping resets the environments again; both must start the same way.
        trainer.venv.seed(7)
        trainer.gen_algo._last_obs = None
        trainer.train_gen()
        kept = trainer._gen_replay_buffer.state_dict()["arrays"]
        # They come in another order: time by time, and episode by episode.
        seen.append(sorted((*o, a, *n, d) for o, a, n, d in zip(*kept.values(), strict=True)))
        trainers.append(trainer)
    lean, plain = trainers
    assert lean.venv_train is lean.venv
    assert plain.venv_train is not plain.venv
    assert seen[0] == seen[1]
    for one, two in zip(lean.policy.parameters(), plain.policy.parameters(), strict=True):
        th.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_the_generator_is_trained_on_the_learned_reward():
    trainer = make_trainer(GAIL)
    trainer.train_gen()
    rollout = trainer.gen_algo.last_rollout
    flat = [getattr(rollout, name).reshape(120, *getattr(rollout, name).shape[2:])
            for name in FIELDS]  # fmt: skip
    expected = trainer.reward_train.predict_processed(*flat)
    np.testing.assert_allclose(rollout.rews.ravel(), expected, rtol=1e-5)
    assert set(np.unique(rollout.env_rews)) <= {0.0, 1.0}


@pytest.mark.parametrize("ppo", [PPO, stable_baselines3.PPO], ids=["lean", "sb3"])
def test_ground_truth_uses_the_environment_s_reward(ppo):
    trainer = make_trainer(GAIL, ppo=ppo, debug_use_ground_truth=True)
    trainer.train_gen()
    assert set(np.unique(trainer.gen_algo.rollout_buffer.rewards)) <= {0.0, 1.0}


@pytest.mark.parametrize(("off_policy", "name"), [(DQN, "seals/CartPole-v0"), (SAC, "Pendulum-v1")])
def test_off_policy_generators_train(off_policy, name):
    venv = make_venv(name)
    algo = off_policy("MlpPolicy", venv, learning_starts=10, buffer_size=500, device="cpu")
    trainer = make_trainer(GAIL, venv, gen_algo=algo)
    assert trainer.gen_train_timesteps == venv.num_envs * algo.train_freq.frequency
    trainer.train(64)
    assert algo.num_timesteps == 64
    # Rewards in its buffer are the discriminator's, which are positive.
    assert (algo.replay_buffer.rewards[: algo.replay_buffer.pos] > 0).all()


def test_sac_can_generate_for_airl():
    venv = make_venv("Pendulum-v1")
    algo = SAC("MlpPolicy", venv, learning_starts=10, buffer_size=500, device="cpu")
    make_trainer(AIRL, venv, gen_algo=algo).train(20)
    assert algo.num_timesteps == 20


def test_the_discriminator_sees_the_latest_generator_transitions(algorithm):
    trainer = make_trainer(algorithm, gen_replay_buffer_capacity=50)
    trainer.train_gen()
    kept = trainer._gen_replay_buffer.state_dict()["arrays"]["obs"]
    rollout = trainer.gen_algo.last_rollout.obs.reshape(120, -1)
    assert {tuple(o) for o in kept} == {tuple(o) for o in rollout[-50:]}


def test_a_share_of_its_batches_is_from_the_whole_training(algorithm):
    trainer = make_trainer(algorithm, gen_replay_buffer_capacity=120, gen_history_share=0.25)
    seen = []
    for _ in range(3):
        trainer.train_gen()
        rollout = trainer.gen_algo.last_rollout.obs.reshape(120, -1)
        seen.append({tuple(o) for o in rollout})
    drawn = trainer._gen_replay_buffer.sample(4_000, np.random.default_rng(0))
    assert {len(array) for array in drawn.values()} == {4_000}
    kinds = np.array([[tuple(o) in rollout for rollout in seen] for o in drawn["obs"]])
    # A third of the quarter is from the latest rollout, too.
    assert kinds.mean(axis=0) == pytest.approx([1 / 12, 1 / 12, 10 / 12], abs=0.02)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_of_the_whole_training_must_be_possible(share):
    with pytest.raises(ValueError, match=rf"gen_history_share must lie in \[0, 1\], not {share}"):
        make_trainer(GAIL, gen_history_share=share)


def test_minibatches_accumulate_the_gradient_of_the_batch(algorithm):
    def update(**options):
        venv = make_venv()
        th.manual_seed(3)
        net = NETS[algorithm](venv.observation_space, venv.action_space)
        trainer = make_trainer(algorithm, venv, reward_net=net, **options)
        expert, generated = random_transitions(venv, seed=1), random_transitions(venv, seed=2)
        stats = trainer.train_disc(expert_samples=samples(expert), gen_samples=samples(generated))
        return weights(trainer), stats

    (whole, stats), (parts, stats_of_parts) = update(), update(demo_minibatch_size=8)
    th.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-6)
    assert stats_of_parts == pytest.approx(stats, rel=1e-5)
    assert stats["n_expert"] == stats["n_generated"] == 32


def test_the_discriminator_s_gradient_is_that_of_finite_differences(algorithm):
    venv = make_venv()
    net = NETS[algorithm](venv.observation_space, venv.action_space).double()
    trainer = make_trainer(
        algorithm, venv, reward_net=net, disc_opt_cls=th.optim.SGD, disc_opt_kwargs={"lr": 1.0}
    )
    data = {
        "expert_samples": samples(random_transitions(venv, seed=1)),
        "gen_samples": samples(random_transitions(venv, seed=2)),
    }
    before = weights(trainer)
    trainer.train_disc(**data)
    gradient = before - weights(trainer)  # a step of size 1 against the gradient

    def loss_at(point):
        th.nn.utils.vector_to_parameters(point, net.parameters())
        return trainer.train_disc(**data)["disc_loss"]

    rng, step = np.random.default_rng(0), 1e-3
    for index in rng.choice(len(before), 20, replace=False):
        ends = []
        for sign in (1, -1):
            point = before.clone()
            point[index] += sign * step
            ends.append(loss_at(point))
        # The loss is reported in single precision.
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(float(gradient[index]), abs=2e-4)


def test_the_reward_s_normalizer_learns_from_the_discriminator_only():
    trainer = make_trainer(GAIL)
    counts = [m for m in trainer._reward_net.modules() if hasattr(m, "running_mean")]
    trainer.train_gen()
    assert [int(m.count) for m in counts] == [0]
    trainer.train_disc()
    assert [int(m.count) for m in counts] == [64]


def test_given_samples_are_used_and_checked(algorithm):
    trainer = make_trainer(algorithm)
    data = random_transitions(trainer.venv)
    with pytest.raises(RuntimeError, match=r"train_gen\(\) first"):
        trainer.train_disc()
    with pytest.raises(ValueError, match="gen_samples has 31 entries in 'obs'"):
        trainer.train_disc(expert_samples=samples(data), gen_samples=samples(data, 31))
    short = {k: v for k, v in samples(data).items() if k != "next_obs"}
    with pytest.raises(ValueError, match="expert_samples has no 'next_obs'"):
        trainer.train_disc(expert_samples=short, gen_samples=samples(data))
    tensors = {name: th.as_tensor(np.array(value)) for name, value in samples(data).items()}
    stats = trainer.train_disc(expert_samples=tensors, gen_samples=samples(data))
    assert stats["disc_acc_expert"] == 1 - stats["disc_acc_gen"]  # the same samples


def test_demonstrations_may_come_later(algorithm):
    trainer = make_trainer(algorithm, demonstrations=None)
    with pytest.raises(ValueError, match=r"set_demonstrations\(\) first"):
        trainer.train(120)
    trainer.set_demonstrations(random_transitions(trainer.venv))
    trainer.train(120)
    data = random_transitions(trainer.venv)
    trainer.set_demonstrations([samples(data, 32)])
    trainer.train(120)
    assert trainer._global_step == 3


def test_tensorboard_summaries(tmp_path):
    pytest.importorskip("tensorboard")
    trainer = make_trainer(
        GAIL,
        init_tensorboard=True,
        init_tensorboard_graph=True,
        log_dir=tmp_path,
        n_disc_updates_per_round=20,
    )
    trainer.train(120)
    [file] = (tmp_path / "summary").iterdir()
    content = file.read_bytes()
    assert b"disc_logits" in content
    assert b"BasicRewardNet" in content


def test_training_logs_discriminator_and_generator(algorithm):
    trainer = make_trainer(algorithm)
    recorded: list = []
    trainer.logger.default_logger.dump = lambda _step: recorded.append(
        dict(trainer.logger.default_logger.name_to_value)
    )
    trainer.train(120)
    names = {"mean/disc/disc_loss", "mean/disc/disc_acc", "mean/gen/train/loss"}
    assert names <= recorded[-1].keys()


@pytest.mark.parametrize("ppo", [PPO, stable_baselines3.PPO], ids=["lean", "sb3"])
def test_resumed_training_equals_uninterrupted_training(algorithm, ppo):
    def state_of(trainer):
        return copy.deepcopy(
            {
                "trainer": trainer.state_dict(),
                "episodes": episode_states(trainer.venv),
                "generators": generator_states(),
            }
        )

    options = {"ppo": ppo, "gen_replay_buffer_capacity": 200, "gen_history_share": 0.5}
    whole = make_trainer(algorithm, **options)
    whole.train(240)
    state = state_of(whole)
    whole.train(600)  # through the end of an episode
    other = make_trainer(algorithm, **options, seed=9)
    restore_episodes(other.venv, state["episodes"])
    other.load_state_dict(state["trainer"])
    restore_generators(state["generators"])
    other.train(600)
    assert th.equal(weights(other), weights(whole))
    for one, two in zip(other.policy.parameters(), whole.policy.parameters(), strict=True):
        assert th.equal(one, two)


@pytest.mark.parametrize("ppo", [PPO, stable_baselines3.PPO], ids=["lean", "sb3"])
def test_the_environment_can_be_wrapped_with_learned_rewards(algorithm, ppo):
    trainer = make_trainer(algorithm, ppo=ppo)
    wrapped = trainer.venv_wrapped
    obs, acts = wrapped.reset(), np.zeros(2, np.int64)
    following, rewards, dones, _ = wrapped.step(acts)
    wanted = trainer.reward_train.predict_processed(obs, acts, following, dones)
    np.testing.assert_allclose(rewards, wanted, rtol=1e-6)
    debugged = make_trainer(algorithm, ppo=ppo, debug_use_ground_truth=True)
    assert debugged.venv_wrapped is debugged.venv_train
    debugged.venv_wrapped.reset()
    np.testing.assert_array_equal(debugged.venv_wrapped.step(acts)[1], [1.0, 1.0])


def test_off_policy_generators_resume():
    def make(seed):
        venv = make_venv()
        algo = DQN("MlpPolicy", venv, learning_starts=10, buffer_size=500, seed=seed, device="cpu")
        return make_trainer(GAIL, venv, gen_algo=algo, gen_replay_buffer_capacity=64)

    whole = make(0)
    whole.train(40)
    state, episodes = copy.deepcopy(whole.state_dict()), episode_states(whole.venv)
    generators = generator_states()
    whole.train(40)
    other = make(5)
    restore_episodes(other.venv, episodes)
    other.load_state_dict(state)
    restore_generators(generators)
    other.train(40)
    for one, two in zip(other.policy.parameters(), whole.policy.parameters(), strict=True):
        assert th.equal(one, two)
    np.testing.assert_array_equal(
        other.gen_algo.replay_buffer.rewards, whole.gen_algo.replay_buffer.rewards
    )


def test_a_state_does_not_change_while_training_continues(algorithm):
    trainer = make_trainer(algorithm)
    trainer.train(120)
    expert, generated = (samples(random_transitions(trainer.venv, seed=seed)) for seed in (1, 2))

    def update(trainer):
        for _ in range(5):
            trainer.train_disc(expert_samples=expert, gen_samples=generated)
        return weights(trainer)

    best, at_best, after = trainer.state_dict(), weights(trainer), []
    for each in (trainer, make_trainer(algorithm, seed=1), make_trainer(algorithm, seed=2)):
        assert not th.equal(update(trainer), at_best)
        each.load_state_dict(best)
        assert th.equal(weights(each), at_best)
        after.append(update(each))
    assert all(th.equal(each, after[0]) for each in after)


def test_a_state_needs_its_demonstrations(algorithm):
    state = make_trainer(algorithm).state_dict()
    with pytest.raises(ValueError, match="set_demonstrations"):
        make_trainer(algorithm, demonstrations=None).load_state_dict(state)
    other = make_trainer(algorithm, demonstrations=random_transitions(make_venv(), 100))
    with pytest.raises(ValueError, match="state is of 200 transitions, not 100"):
        other.load_state_dict(state)


def test_variable_horizon_must_be_allowed(algorithm):
    def venv():
        return DummyVecEnv([lambda: Counter(lengths=(5, 7))])

    with pytest.raises(ValueError, match=r"\[5, 7\].*allow_variable_horizon"):
        make_trainer(algorithm, venv()).train(60)
    make_trainer(algorithm, venv(), allow_variable_horizon=True).train(60)


BAD_ARGUMENTS = {
    "empty": ({"demonstrations": []}, "demonstrations are empty"),
    "too few": ({"demo_batch_size": 201}, "200 transitions, fewer than batch_size 201"),
    "no batch": ({"demo_batch_size": 0}, "demo_batch_size must be positive, not 0"),
    "minibatch": ({"demo_minibatch_size": 5}, "demo_minibatch_size 5 does not divide"),
    "no algorithm": ({"gen_algo": object()}, "gen_algo must be an algorithm"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_are_reported(algorithm, case):
    options, message = BAD_ARGUMENTS[case]
    with pytest.raises(ValueError, match=message):
        make_trainer(algorithm, **options)


def test_demonstrations_that_do_not_fit_are_reported(algorithm):
    venv = make_venv()
    data = random_transitions(venv)
    fields = {**samples(data, 200), "infos": data.infos}
    for name, value in itertools.product(("obs", "next_obs"), (np.nan, np.inf)):
        broken = np.array(fields[name])
        broken[3, 1] = value
        with pytest.raises(ValueError, match="not finite"):
            make_trainer(algorithm, demonstrations=type(data)(**{**fields, name: broken}))
    with pytest.raises(ValueError, match="shape"):
        make_trainer(algorithm, demonstrations=random_transitions(make_venv("Pendulum-v1")))
    minimal = TransitionsMinimal(obs=data.obs, acts=data.acts, infos=data.infos)
    with pytest.raises(ValueError, match="next_obs"):
        make_trainer(algorithm, demonstrations=minimal)


def test_an_algorithm_for_another_environment_is_reported(algorithm):
    other = PPO("MlpPolicy", make_venv("Pendulum-v1"), device="cpu")
    with pytest.raises(ValueError, match="gen_algo has observation_space"):
        make_trainer(algorithm, gen_algo=other)
    more = PPO("MlpPolicy", make_venv(count=3), device="cpu")
    with pytest.raises(ValueError, match="3 environments, but venv has 2"):
        make_trainer(algorithm, gen_algo=more)


def test_dictionary_observations_are_refused():
    venv = DummyVecEnv([lambda: DictCounter(Counter())])
    algo = stable_baselines3.PPO("MultiInputPolicy", venv, device="cpu")
    net = BasicRewardNet(spaces.Box(0, 1, (1,)), venv.action_space)
    with pytest.raises(ValueError, match="venv: dictionary observations"):
        GAIL(demonstrations=None, demo_batch_size=4, venv=venv, gen_algo=algo, reward_net=net)


def test_actions_must_be_numbered_from_zero():
    class Shifted(Counter):
        action_space = spaces.Discrete(2, start=1)

    venv = DummyVecEnv([lambda: Shifted()])
    algo = PPO("MlpPolicy", make_venv(), device="cpu")
    net = BasicRewardNet(venv.observation_space, gym.spaces.Discrete(2))
    with pytest.raises(ValueError, match="does not start at 0"):
        GAIL(demonstrations=None, demo_batch_size=4, venv=venv, gen_algo=algo, reward_net=net)
