"""Images from the game to the agent: an Atari game, a convolutional reward and policy."""

import numpy as np
import pytest
import stable_baselines3
import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage
from stable_baselines3.ppo import CnnPolicy

from imitbench.algorithms import preference_comparisons
from imitbench.algorithms.preference_comparisons import AgentTrainer, PreferenceDataset
from imitbench.data.atari import make_fixed_length_atari
from imitbench.rewards.reward_nets import CnnRewardNet
from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rewards.storage import load_reward_net, save_reward
from imitbench.rl.ppo import PPO
from imitbench.util.logger import configure

pytest.importorskip("ale_py", reason="ale-py is missing: pip install 'imitbench[atari]'")
pytest.importorskip("cv2", reason="OpenCV is missing: pip install 'imitbench[atari]'")

LENGTH = 5
STACKED = (84, 84, 4)


def make_venv():
    options = {"env_id": "BreakoutNoFrameskip-v4", "num_steps": 16}
    single = make_vec_env(make_fixed_length_atari, n_envs=2, env_kwargs=options, seed=1)
    return VecFrameStack(single, n_stack=4)


def make_net(venv):
    th.manual_seed(0)
    return CnnRewardNet(venv.observation_space, venv.action_space)


@pytest.fixture
def venv():
    made = make_venv()
    yield made
    made.close()


@pytest.fixture
def net(venv):
    return make_net(venv)


def make_algorithm(venv, net, folder, ppo=PPO):
    rng = np.random.default_rng(0)
    agent = ppo(CnnPolicy, venv, n_steps=8, batch_size=8, n_epochs=1, seed=0, device="cpu")
    return preference_comparisons.PreferenceComparisons(
        AgentTrainer(agent, net, venv, rng),
        net,
        num_iterations=1,
        fragment_length=LENGTH,
        initial_comparison_frac=0.5,
        initial_epoch_multiplier=1,
        custom_logger=configure(folder, ["csv"]),
        rng=rng,
    )


def train(folder, ppo=PPO):
    """The trained algorithm, its metrics, and parameters of each network before and after."""
    venv = make_venv()
    net = make_net(venv)
    algorithm = make_algorithm(venv, net, folder, ppo)
    networks = {"reward": net, "policy": algorithm.trajectory_generator.algorithm.policy}
    before = {
        name: [parameter.detach().clone() for parameter in each.parameters()]
        for name, each in networks.items()
    }
    metrics = algorithm.train(total_timesteps=32, total_comparisons=4)
    pairs = {name: zip(before[name], each.parameters(), strict=True)
             for name, each in networks.items()}  # fmt: skip
    venv.close()
    return algorithm, metrics, pairs


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return train(tmp_path_factory.mktemp("trained"))


@pytest.mark.parametrize("ppo", ["ours", "sb3"])
def test_a_reward_of_images_is_learned_and_an_agent_trained_on_it(request, tmp_path, ppo):
    if ppo == "ours":
        algorithm, metrics, parameters = request.getfixturevalue("trained")
    else:
        algorithm, metrics, parameters = train(tmp_path, stable_baselines3.PPO)
    agent = algorithm.trajectory_generator.algorithm
    assert isinstance(agent.get_env(), VecTransposeImage)  # the policy wants channels first
    assert np.isfinite(metrics["reward_loss"])
    for name, pairs in parameters.items():
        assert any(not th.equal(old, new) for old, new in pairs), name


def test_fragments_of_images_are_bytes(trained):
    dataset = trained[0].dataset
    assert len(dataset) == 4
    for fragment in (*dataset.fragments1, *dataset.fragments2):
        assert fragment.obs.dtype == np.uint8
        assert fragment.obs.shape == (LENGTH + 1, *STACKED)
        assert fragment.obs.base is None  # the episode it was cut from is not kept alive
        assert fragment.infos is None
        # The latest image comes last, and is second to last a step later.
        np.testing.assert_array_equal(fragment.obs[:-1, ..., 1:], fragment.obs[1:, ..., :-1])


def test_comparisons_of_images_are_stored_as_bytes(trained, tmp_path):
    dataset = trained[0].dataset
    dataset.save(tmp_path / "comparisons")
    different = {id(each): each for each in (*dataset.fragments1, *dataset.fragments2)}
    images = sum(each.obs.nbytes for each in different.values())
    assert images < (tmp_path / "comparisons").stat().st_size < 1.01 * images
    loaded = PreferenceDataset.load(tmp_path / "comparisons")
    np.testing.assert_array_equal(loaded.preferences, dataset.preferences)
    for own, other in zip(dataset.fragments1, loaded.fragments1, strict=True):
        assert other.obs.dtype == np.uint8
        np.testing.assert_array_equal(own.obs, other.obs)


def test_the_network_sees_images_scaled_to_one(venv, net):
    obs = venv.reset()
    batch = (obs, np.zeros(2, int), obs, np.zeros(2, bool))
    state = net.preprocess(*batch)[0]
    assert state.dtype == th.float32
    assert 0 < state.max() <= 1
    th.testing.assert_close(state, th.from_numpy(obs) / 255)
    first = CnnRewardNet(
        VecTransposeImage(venv).observation_space, venv.action_space, hwc_format=False
    )
    first.load_state_dict(net.state_dict())
    moved = obs.transpose(0, 3, 1, 2)
    np.testing.assert_allclose(
        net.predict(*batch), first.predict(moved, batch[1], moved, batch[3]), rtol=1e-4
    )


def test_a_stored_reward_of_images_trains_a_fresh_agent(venv, net, tmp_path):
    save_reward(net, tmp_path)
    loaded = load_reward_net(tmp_path)
    obs = venv.reset()
    batch = (obs, np.zeros(2, int), obs, np.zeros(2, bool))
    np.testing.assert_array_equal(loaded.predict(*batch), net.predict(*batch))
    learnt = RewardVecEnvWrapper(venv, loaded.predict_processed)
    agent = stable_baselines3.PPO(
        CnnPolicy, learnt, n_steps=8, batch_size=8, n_epochs=1, device="cpu"
    )
    agent.learn(16)
    assert agent.num_timesteps == 16
