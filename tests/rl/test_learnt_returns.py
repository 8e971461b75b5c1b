"""The log of learnt returns is the same whether rewards come by the step or by the rollout."""

import numpy as np
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv
from support.environments import Counter

from imitbench.rewards.reward_wrapper import RewardVecEnvWrapper
from imitbench.rl.ppo import PPO, LearntReturns


def reward(state, action, next_state, done):
    return (next_state[:, 0] ** 2 - 3 * done).astype(np.float32)


def train(ppo, steps=56):
    venv = DummyVecEnv([lambda: Counter((5, 1, 9)), lambda: Counter((12,))])
    options = {"n_steps": 7, "batch_size": 14, "n_epochs": 1, "device": "cpu"}
    if ppo is PPO:
        model, callback = PPO("MlpPolicy", venv, **options), LearntReturns(2, ep_history=4)
        model.reward_fn = reward
    else:
        venv = RewardVecEnvWrapper(venv, reward, ep_history=4)
        model, callback = ppo("MlpPolicy", venv, **options), venv.make_log_callback()
    model.learn(steps, callback=callback)
    return model, callback


def test_episodes_are_followed_across_rollouts():
    model, lean = train(PPO)
    assert model.lean
    _, plain = train(stable_baselines3.PPO)
    assert len(lean.episode_rewards) == 4
    # Wrapping resets an environment once more, so that lengths come in another order.
    returns = {sum(i**2 for i in range(1, n + 1)) - 3 for n in (5, 1, 9, 12)}
    assert set(lean.episode_rewards) | set(plain.episode_rewards) <= returns
    assert lean.steps.tolist() == [28 - 21, 28 - 24]
    assert lean.returns[1] == 1 + 4 + 9 + 16


def test_a_restart_forgets_running_episodes_alone():
    _, callback = train(PPO)
    callback.restart()
    assert (callback.steps.tolist(), callback.returns.tolist()) == ([0, 0], [0, 0])
    assert len(callback.episode_rewards) == 4


def test_the_state_is_restored():
    _, callback = train(PPO)
    other = LearntReturns(2, ep_history=4)
    other.load_state_dict(callback.state_dict())
    for name in ("steps", "returns", "episode_rewards"):
        assert list(getattr(other, name)) == list(getattr(callback, name))
