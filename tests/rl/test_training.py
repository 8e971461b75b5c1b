"""Training a bit at a time: the count of steps goes on, and every form of callback is called."""

import pytest
from stable_baselines3.common.callbacks import BaseCallback, CallbackList

from imitbench.rl.ppo import PPO
from imitbench.rl.training import continue_learning


class Counting(BaseCallback):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def _on_step(self):
        self.calls += 1
        return True


@pytest.fixture
def algorithm(make_venv):
    return PPO("MlpPolicy", make_venv("CartPole-v1"), n_steps=8, batch_size=32, device="cpu")


def test_the_count_of_steps_goes_on(algorithm):
    for _ in range(3):
        continue_learning(algorithm, 32, None, {})
    assert algorithm.num_timesteps == 96


@pytest.mark.parametrize("form", ["object", "list", "CallbackList", "function", None])
def test_callbacks_in_every_form_are_called_beside_one_s_own(algorithm, form):
    own, given, calls = Counting(), Counting(), []
    forms = {
        "object": given,
        "list": [given],
        "CallbackList": CallbackList([given]),
        "function": lambda *_: calls.append(1) or True,
        None: None,
    }
    continue_learning(algorithm, 32, own, {"callback": forms[form]})
    assert own.calls == 8
    assert given.calls + len(calls) == (8 if form else 0)
