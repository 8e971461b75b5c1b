"""Programs that were written for the reference API work with this library.

Each test is one of the usual ways to use the API, from an expert on a hub to a trained policy, at
a small size. The tests of preference comparisons use the reference's own examples, read from the
folder of fixtures and run with another package name and smaller numbers.
"""

import functools
import inspect
from functools import partial

import numpy as np
import pytest
import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.ppo import MlpPolicy
from support.hub import serve_hub
from support.reference_texts import (
    program_in,
    reference_text,
    section,
    signatures_in,
    with_arguments,
)

from imitbench.algorithms import bc, preference_comparisons
from imitbench.algorithms.adversarial.airl import AIRL
from imitbench.algorithms.adversarial.gail import GAIL
from imitbench.algorithms.dagger import SimpleDAggerTrainer
from imitbench.cards.catalog import suite_directory
from imitbench.data import rollout, serialize
from imitbench.data.wrappers import RolloutInfoWrapper
from imitbench.policies.base import RandomPolicy
from imitbench.policies.serialize import load_policy, policy_registry
from imitbench.rewards.reward_nets import (
    BasicRewardNet,
    BasicShapedRewardNet,
    NormalizedRewardNet,
    RewardNet,
    ShapedRewardNet,
)
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rewards.serialize import load_reward
from imitbench.rewards.storage import save_reward
from imitbench.util import util
from imitbench.util.logger import configure
from imitbench.util.networks import RunningNorm
from imitbench.util.util import make_vec_env

CARTPOLE = "seals:seals/CartPole-v0"
EXPERT = "ppo-seals-CartPole-v0"


@pytest.fixture(autouse=True)
def hub(tmp_path, monkeypatch):
    """A hub that has the bundled expert under the usual organization."""
    files = {
        path.name: path.read_bytes()
        for path in (suite_directory("classic") / "experts" / EXPERT).iterdir()
    }
    with serve_hub() as hub:
        hub.point_client_here(monkeypatch, tmp_path / "cache")
        hub.add_model(f"HumanCompatibleAI/{EXPERT}", files)
        yield hub


def make_env(**kwargs):
    return make_vec_env(
        CARTPOLE,
        rng=np.random.default_rng(0),
        n_envs=4,
        post_wrappers=[lambda env, _: RolloutInfoWrapper(env)],
        env_make_kwargs=kwargs,
    )


@pytest.fixture
def env():
    return make_env()


@pytest.fixture
def expert(env, hub):
    return load_policy(
        "ppo-huggingface",
        organization="HumanCompatibleAI",
        env_name="seals-CartPole-v0",
        venv=env,
    )


def rollouts_of(expert, env, episodes=8):
    return rollout.rollout(
        expert,
        env,
        rollout.make_sample_until(min_timesteps=None, min_episodes=episodes),
        rng=np.random.default_rng(0),
    )


def test_behavioral_cloning_improves_the_policy(env, expert):
    transitions = rollout.flatten_trajectories(rollouts_of(expert, env))
    th.manual_seed(0)
    trainer = bc.BC(
        observation_space=env.observation_space,
        action_space=env.action_space,
        demonstrations=transitions,
        rng=np.random.default_rng(0),
    )
    env.seed(0)
    before, _ = evaluate_policy(trainer.policy, env, 4)
    trainer.train(n_epochs=8, progress_bar=False)
    env.seed(0)
    after, _ = evaluate_policy(trainer.policy, env, 4)
    assert after > before + 100


def test_dagger_trains_an_untrained_policy(tmp_path, env, expert):
    rng = np.random.default_rng(0)
    trainer = SimpleDAggerTrainer(
        venv=env,
        scratch_dir=tmp_path,
        expert_policy=expert,
        bc_trainer=bc.BC(
            observation_space=env.observation_space, action_space=env.action_space, rng=rng
        ),
        rng=rng,
    )
    trainer.train(4000, bc_train_kwargs={"progress_bar": False})
    reward, _ = evaluate_policy(trainer.policy, env, 4)
    assert reward > 300


@pytest.mark.parametrize(
    ("algorithm", "net", "options"),
    [
        (GAIL, BasicRewardNet, {"ent_coef": 0.0, "learning_rate": 0.0004}),
        (AIRL, BasicShapedRewardNet, {"clip_range": 0.1, "vf_coef": 0.1}),
    ],
    ids=["gail", "airl"],
)
def test_adversarial_training_logs_discriminator_and_generator(
    tmp_path, expert, algorithm, net, options
):
    env = make_env(max_episode_steps=100)
    learner = PPO(
        env=env,
        policy=MlpPolicy,
        batch_size=64,
        gamma=0.95,
        n_epochs=5,
        n_steps=128,
        seed=42,
        device="cpu",
        **options,
    )
    trainer = algorithm(
        demonstrations=rollouts_of(expert, env),
        demo_batch_size=512,
        gen_replay_buffer_capacity=512,
        n_disc_updates_per_round=8,
        venv=env,
        gen_algo=learner,
        reward_net=net(
            observation_space=env.observation_space,
            action_space=env.action_space,
            normalize_input_layer=RunningNorm,
        ),
        custom_logger=configure(tmp_path, ["csv"]),
    )
    env.seed(42)
    before, _ = evaluate_policy(learner, env, 4, return_episode_rewards=True)
    trainer.train(1024)  # through the end of an episode
    env.seed(42)
    after, _ = evaluate_policy(learner, env, 4, return_episode_rewards=True)
    assert len(before) == len(after) == 4
    header = (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert "mean/disc/disc_acc" in header
    assert "mean/gen/rollout/ep_rew_wrapped_mean" in header


def test_trajectories_are_saved_and_loaded(tmp_path, env, expert):
    trajectories = rollouts_of(expert, env, episodes=2)
    serialize.save(tmp_path / "demos", trajectories)
    loaded = serialize.load(tmp_path / "demos")
    assert [len(t) for t in loaded] == [len(t) for t in trajectories]
    np.testing.assert_array_equal(loaded[0].obs, trajectories[0].obs)
    np.testing.assert_array_equal(loaded[0].rews, trajectories[0].rews)


def test_a_custom_policy_loader_is_called(env, monkeypatch):
    monkeypatch.setattr(policy_registry, "_values", dict(policy_registry._values))

    def my_loader(venv, some_param: int) -> BasePolicy:
        assert some_param == 42
        return RandomPolicy(venv.observation_space, venv.action_space)

    policy_registry.register("my-policy", my_loader)
    assert isinstance(load_policy("my-policy", env, some_param=42), RandomPolicy)


class Mine(RewardNet):
    """A custom reward network."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)

    def forward(self, state, action, next_state, done):
        return th.zeros_like(done)


def test_a_reward_network_replaces_the_reward_of_the_environment():
    venv = util.make_vec_env("Pendulum-v1", n_envs=3, rng=np.random.default_rng(0))
    for net in (Mine, BasicRewardNet):
        reward_net = net(venv.observation_space, venv.action_space)
        wrapped = RewardVecEnvWrapper(venv, reward_net.predict_processed)
        obs = wrapped.reset()
        actions = np.zeros((3, 1), np.float32)
        next_obs, rewards, dones, infos = wrapped.step(actions)
        np.testing.assert_allclose(
            rewards, reward_net.predict(obs, actions, next_obs, dones), rtol=1e-5
        )
        assert all(info["original_env_rew"] <= 0 for info in infos)


def test_normalized_rewards_are_stored_and_evaluated_frozen(tmp_path):
    venv = util.make_vec_env("Pendulum-v1", n_envs=3, rng=np.random.default_rng(0))
    plain = BasicRewardNet(venv.observation_space, venv.action_space)
    net = NormalizedRewardNet(plain, normalize_output_layer=RunningNorm)
    batch = venv.reset(), np.zeros((3, 1), np.float32), venv.reset(), np.zeros(3, bool)
    net.predict_processed(*batch)
    frozen = partial(net.predict_processed, update_stats=False)
    np.testing.assert_array_equal(frozen(*batch), frozen(*batch))
    save_reward(net, tmp_path)
    options = {"reward_path": tmp_path, "venv": venv}
    normalized = load_reward(reward_type="RewardNet_normalized", **options)
    unnormalized = load_reward(reward_type="RewardNet_unnormalized", **options)
    learning = load_reward(reward_type="RewardNet_normalized", update_stats=True, **options)
    np.testing.assert_allclose(normalized(*batch), frozen(*batch), rtol=1e-6)
    np.testing.assert_allclose(unnormalized(*batch), plain.predict(*batch), rtol=1e-6)
    before = learning(*batch)
    other = (*batch[:2], batch[0] + 5, batch[3])
    learning(batch[0] * 50, *other[1:])
    assert (learning(*batch) != before).any()


def test_a_value_function_works_as_potential():
    venv = util.make_vec_env("Pendulum-v1", n_envs=2, rng=np.random.default_rng(0))
    agent = PPO(MlpPolicy, venv, n_steps=32, batch_size=32, device="cpu")
    base = BasicRewardNet(venv.observation_space, venv.action_space)
    shaped = ShapedRewardNet(base=base, potential=agent.policy.predict_values, discount_factor=0.99)
    learned = RewardVecEnvWrapper(venv, shaped.predict_processed)
    PPO(MlpPolicy, learned, n_steps=32, batch_size=32, n_epochs=2, device="cpu").learn(64)
    obs, acts, done = venv.reset(), np.zeros((2, 1), np.float32), np.zeros(2, bool)
    with th.no_grad():
        value = agent.policy.predict_values(th.as_tensor(obs)).numpy().ravel()
    expected = base.predict(obs, acts, obs, done) + 0.99 * value - value
    np.testing.assert_allclose(shaped.predict(obs, acts, obs, done), expected, rtol=1e-4)


@pytest.fixture
def run_example(tmp_path, monkeypatch):
    """Runs a program in an empty folder; returns its namespace."""
    monkeypatch.chdir(tmp_path)

    def run(program):
        namespace = {"__name__": "example"}
        exec(compile(program, "example", "exec"), namespace)
        return namespace

    return run


def check_comparisons(names, expected):
    dataset = names["pref_comparisons"].dataset
    assert len(dataset) == expected
    assert set(dataset.preferences) <= {0, 1}
    assert all(th.isfinite(each).all() for each in names["reward_net"].parameters())


AS_WRITTEN = pytest.param({}, id="as written", marks=pytest.mark.slow)
SMALLER = pytest.param({"num_iterations": 1, "total_comparisons": 20}, id="smaller")


@pytest.mark.parametrize("numbers", [SMALLER, AS_WRITTEN])
def test_the_tutorial_on_preference_comparisons_runs(shared_dir, run_example, numbers):
    numbers = {**numbers, "n_epochs": 1} if numbers else numbers
    program = program_in(reference_text(shared_dir, "002"))
    assert program.count("import ") == 11
    for last in ("pref_comparisons.train(", "learner.learn(1_000)", 'print(f"Reward:'):
        assert last in program
    names = run_example(with_arguments(program, **numbers))
    check_comparisons(names, numbers.get("total_comparisons", 200))
    assert names["learner"].num_timesteps == 2048  # a whole rollout
    assert -2000 < names["reward_mean"] < -100


@pytest.mark.parametrize("numbers", [SMALLER, AS_WRITTEN])
def test_the_short_example_of_preference_comparisons_runs(shared_dir, run_example, numbers):
    example = section(
        reference_text(shared_dir, "001"),
        "Detailed example notebook: Learning a Reward Function using Preference Comparisons",
        "API",
    )
    names = run_example(with_arguments(program_in(example), **numbers))
    check_comparisons(names, numbers.get("total_comparisons", 200))
    assert -2000 < names["reward"] < -100


@pytest.mark.parametrize(
    "comparisons",
    [pytest.param(5, id="smaller"), pytest.param(15, id="as written", marks=pytest.mark.slow)],
)
def test_the_tutorial_on_atari_runs(shared_dir, run_example, comparisons):
    pytest.importorskip("ale_py", reason="ale-py is missing: pip install 'imitbench[atari]'")
    pytest.importorskip("cv2", reason="OpenCV is missing: pip install 'imitbench[atari]'")
    example = section(
        reference_text(shared_dir, "001"),
        "Learning a Reward Function using Preference Comparisons on Atari",
        "-----",
    )
    program = program_in(example)
    # That text was written for gym.
    program = program.replace("import gym\n", "import gymnasium as gym\n")
    program = program.replace("from gym.", "from gymnasium.")
    assert "AutoResetWrapper(preprocessed_env)" in program
    names = run_example(program)
    names["pref_comparisons"].train(total_timesteps=16, total_comparisons=comparisons)
    dataset = names["pref_comparisons"].dataset
    assert len(dataset) == comparisons
    assert dataset.fragments1[0].obs.shape == (11, 84, 84, 4)


def test_every_documented_name_of_preference_comparisons_exists(shared_dir):
    listed = signatures_in(reference_text(shared_dir, "000"))
    assert len(listed) >= 50
    for name, arguments in listed:
        here = functools.reduce(getattr, name.split("."), preference_comparisons)
        if "args" in arguments or name == "RewardLoss":
            continue
        missing = set(arguments) - set(inspect.signature(here).parameters)
        assert not missing, f"{name} lacks {missing}"
