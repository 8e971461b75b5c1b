"""Every fault is found by its check, and by no other check."""

import gymnasium as gym
import numpy as np
import pytest
from support.plans import make_plan
from support.plugins import PPO_OPTIONS, write_plugin

from imitbench.bench.provenance import isolation_of
from imitbench.cards.catalog import algorithm_names, load_algorithm
from imitbench.conformance import checks
from imitbench.conformance.checks import MethodChecker, check_method
from imitbench.conformance.practice_environments import InstrumentedEnv, StepCounter
from imitbench.conformance.resume import ResumeVerdict
from imitbench.conformance.test_bed import sizes_in
from imitbench.errors import InputError

AS_IT_SHOULD = """
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    pass
"""

PEEKS_AT_DEMOS = """
import dataclasses
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        best = max(demos, key=lambda demo: demo.rews.sum())
        super().setup(task, [demo for demo in demos if demo is best], rng, device)
"""

UNSEEDED = """
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        super().setup(task, demos, np.random.default_rng(), device)
"""

GLOBAL = """
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        super().setup(task, demos, np.random.default_rng(np.random.randint(2**31)), device)
"""

SEEDLESS = """
import numpy as np
import torch as th
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        th.manual_seed(0)
        super().setup(task, demos, np.random.default_rng(0), device)
"""

FORGETS = """
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def state_dict(self):
        state = super().state_dict()
        state["bc"] = {k: v for k, v in state["bc"].items() if k != "optimizer"}
        return state

    def load_state_dict(self, state):
        own = super().state_dict()
        state = {**state, "bc": {**own["bc"], **state["bc"]}}
        super().load_state_dict(state)
"""

HOARDS = """
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def state_dict(self):
        return super().state_dict() | {"hoard": np.zeros(self._batches * 50_000)}

    def load_state_dict(self, state):
        super().load_state_dict({k: v for k, v in state.items() if k != "hoard"})
"""

PICKLES = """
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def train(self, budget, callback, checkpoint=lambda: None):
        super().train(budget, callback)
        return 0

    def state_dict(self):
        return super().state_dict() | {"thing": object()}
"""

OVERSPENDS = """
from imitbench.bench.learners.controls import ZeroRewardLearner
from imitbench.records.runs import Budget


class Mine(ZeroRewardLearner):
    def train(self, budget, callback, checkpoint=lambda: None):
        more = Budget(name=budget.name, unit=budget.unit, amount=budget.amount + 100)
        return super().train(more, callback, checkpoint)
"""

MISCOUNTS = """
from imitbench.bench.learners.controls import ZeroRewardLearner


class Mine(ZeroRewardLearner):
    def train(self, budget, callback, checkpoint=lambda: None):
        return super().train(budget, callback, checkpoint) // 2
"""

PEEKS_AT_STEPS = """
import numpy as np

from imitbench.bench.learners.controls import ZeroRewardLearner


class Mine(ZeroRewardLearner):
    def make_trainer(self, task, demos, rng):
        self._taken, step = [], self.episodes.step_wait

        def watched():
            result = step()
            self._taken.append(np.nan_to_num(result[1]).copy())
            return result

        self.episodes.step_wait = watched
        return super().make_trainer(task, demos, rng)

    def _rewards(self, state, action, next_state, done):
        steps = len(state) // len(self._taken[-1])
        return np.stack(self._taken[-steps:]).reshape(-1).astype(np.float32)
"""

PEEKS_INSIDE = """
import numpy as np

from imitbench.bench.learners.controls import ZeroRewardLearner


class Mine(ZeroRewardLearner):
    def make_trainer(self, task, demos, rng):
        self._taken, self._now = [], []
        for env in self.episodes.get_attr("unwrapped"):
            self._watch(env)
        step = self.episodes.step_wait

        def watched():
            self._now.clear()
            result = step()
            self._taken.append(np.array(self._now[: self.episodes.num_envs]))
            return result

        self.episodes.step_wait = watched
        return super().make_trainer(task, demos, rng)

    def _watch(self, env):
        inner = type(env).step

        def recorded(action):
            result = inner(env, action)
            self._now.append(float(result[1]))
            return result

        env.step = recorded

    def _rewards(self, state, action, next_state, done):
        steps = len(state) // len(self._taken[-1])
        return np.stack(self._taken[-steps:]).reshape(-1).astype(np.float32)
"""

ON_THE_STACK = """
import sys


def on_the_stack(name):
    frame = sys._getframe()
    while frame is not None:
        if name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back
"""

PEEKS_AT_THE_SEED = (
    ON_THE_STACK
    + """
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        rng = np.random.default_rng(on_the_stack("first").seed)
        super().setup(task, demos, rng, device)
"""
)

PEEKS_AT_THE_EVALUATION = (
    ON_THE_STACK
    + """
import torch as th
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def train(self, budget, callback, checkpoint=lambda: None):
        steps = super().train(budget, callback, checkpoint)
        evaluator, policy = on_the_stack("evaluator"), self.policy()
        found = []
        for shift in (0.0, 0.5):  # keeps what is better
            with th.no_grad():
                policy.action_net.bias += shift
            found.append(evaluator.evaluate(policy, episodes=2, seed=0, deterministic=True))
        if found[0].returns.mean() > found[1].returns.mean():
            with th.no_grad():
                policy.action_net.bias -= 0.5
        return steps
"""
)

PEEKS_AT_THE_FOLDER = (
    ON_THE_STACK
    + """
import json
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        folder = on_the_stack("directory").path.parent
        [path, _] = sorted(folder.rglob("result.json"))
        best = json.loads(path.read_text())["raw_return"]
        rng = np.random.default_rng([int(best * 1000), int(rng.integers(2**31))])
        super().setup(task, demos, rng, device)
"""
)

WRONG_SPACES = """
import gymnasium as gym
import numpy as np
from imitbench.bench.learners.bc import BCLearner
import dataclasses


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        space = gym.spaces.Box(-9, 9, task.action_space.shape, np.float64)
        super().setup(dataclasses.replace(task, action_space=space), demos, rng, device)
"""

UNSTORABLE = """
import torch as th
from stable_baselines3.common.policies import ActorCriticPolicy
from imitbench.bench.learners.bc import BCLearner


class Own(ActorCriticPolicy):
    def __init__(self, *args, helper=None, **kwargs):
        super().__init__(*args, **kwargs)
        self.helper = helper


class Mine(BCLearner):
    def policy(self):
        policy = super().policy()
        own = Own(
            policy.observation_space, policy.action_space, lambda _: 0.0, net_arch=[8],
            helper=lambda: None,
        )
        own.load_state_dict(policy.state_dict())
        return own
"""

REWARDS_UNSTORABLE = """
import torch as th
from imitbench.bench.learners.bc import BCLearner
from imitbench.rewards.reward_nets import RewardNet


class Own(RewardNet):
    def __init__(self, observation_space, action_space, helper):
        super().__init__(observation_space, action_space)
        self.helper = helper

    def forward(self, state, action, next_state, done):
        return self.helper(state)


class Mine(BCLearner):
    def reward(self):
        policy = super().policy()
        return Own(policy.observation_space, policy.action_space, lambda state: state.sum(1))
"""

REWARDS_CHANGE = """
import torch as th
from imitbench.bench.learners.bc import BCLearner
from imitbench.rewards.reward_nets import RewardNet


class Own(RewardNet):
    scale = 1.0

    def forward(self, state, action, next_state, done):
        return self.scale * state.sum(1)


class Mine(BCLearner):
    def reward(self):
        policy = super().policy()
        own = Own(policy.observation_space, policy.action_space)
        own.scale = 2.0
        return own
"""

REMEMBERS = """
import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.policies import BasePolicy
from imitbench.bench.learners.bc import BCLearner


class Own(BasePolicy):
    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.layer = th.nn.Linear(observation_space.shape[0], action_space.shape[0])
        self.last = 0.0

    def _predict(self, observation, deterministic=False):
        chosen = self.layer(observation.float()) + self.last
        self.last = 0.5 * chosen.mean()
        return chosen


class Mine(BCLearner):
    def policy(self):
        policy = super().policy()
        own = Own(policy.observation_space, policy.action_space)
        head = policy.action_net
        own.layer.weight.data = head.weight.data[:, : own.layer.in_features].clone()
        own.layer.bias.data = head.bias.data.clone()
        return own
"""

BC = {"amount": 20}
PPO = {
    "amount": 200,
    "unit": "env_steps",
    "implementation": "learner:Mine",
}
FAULTY = {
    "none": (AS_IT_SHOULD, BC, set(), ""),
    "peeks at the demonstrations' rewards": (PEEKS_AT_DEMOS, BC, {"rewards"}, "learns differently"),
    "peeks at the environment's rewards": (PEEKS_AT_STEPS, PPO, {"rewards"}, "differently"),
    "peeks inside the environment": (PEEKS_INSIDE, PPO, {"isolation"}, "not isolated: learns"),
    "peeks at the seed of the evaluation": (PEEKS_AT_THE_SEED, BC, {"isolation"}, "its seed"),
    "peeks at the evaluation": (PEEKS_AT_THE_EVALUATION, BC, {"rewards", "budget"}, ""),
    "peeks at the folder of the run": (PEEKS_AT_THE_FOLDER, BC, {"isolation"}, "the folder of"),
    "unseeded": (UNSEEDED, BC, {"seeding"}, "the same seed gives different numbers"),
    "draws from a global generator": (GLOBAL, BC, {"seeding"}, "global generator of NumPy"),
    "deaf to its seed": (SEEDLESS, BC, {"seeding"}, "the same numbers as seed 0"),
    "forgets its optimizer": (FORGETS, BC, {"resume"}, "seems to lack something"),
    "hoards": (HOARDS, BC, {"state"}, "grows with training"),
    "overspends": (OVERSPENDS, PPO, {"budget"}, "spends more"),
    "miscounts": (MISCOUNTS, PPO, {"budget"}, "it took 200"),
    "has a policy that cannot be stored": (UNSTORABLE, BC, {"policy"}, "(argument helper of"),
    "has a reward that cannot be stored": (REWARDS_UNSTORABLE, BC, {"reward"}, "as JSON"),
    "has a reward that is stored in part": (REWARDS_CHANGE, BC, {"reward"}, "rewards change"),
    "remembers other episodes": (REMEMBERS, BC, {"memory"}, "keeps something between calls"),
    "acts elsewhere": (WRONG_SPACES, BC, {"spaces"}, "action space is float64"),
}


def write(folder, source, unit="batches"):
    options = PPO_OPTIONS if unit == "env_steps" else ""
    return str(write_plugin(folder, source, unit=unit, options=options))


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    """Verdicts are kept in the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def in_this_process(monkeypatch):
    """Skips checks that start processes; the slow tests cover resuming."""
    monkeypatch.setattr(checks, "check_plugins", lambda _: None)
    monkeypatch.setattr(checks, "check_resume", lambda *_, **__: ResumeVerdict())


DETERMINISTIC = """
import torch as th
import numpy as np
from imitbench.bench.learners.bc import BCLearner


class Mine(BCLearner):
    def setup(self, task, demos, rng, device):
        th.manual_seed(0)
        super().setup(task, demos, np.random.default_rng(0), device)
"""


@pytest.mark.parametrize(
    ("source", "failed"), [(DETERMINISTIC, []), (AS_IT_SHOULD, ["the card says 'deterministic"])]
)
def test_a_card_may_say_that_a_method_is_deterministic(source, failed, tmp_path, in_this_process):
    reference = write(tmp_path / "mine", source)
    with (tmp_path / "mine" / "card.yaml").open("a") as card:
        card.write("deterministic: true\n")
    report = check_method(reference, amount=20)
    found = [each.what for each in report.findings if each.verdict == "failed"]
    assert len(found) == len(failed)
    assert all(each.startswith(words) for each, words in zip(found, failed, strict=True))


SLOW = "forgets its optimizer"
# Methods whose speed is compared, with another of the same unit.
WITH_SPEED = {"none": " batches a second; bc: ", "overspends": " env_steps a second; "}


@pytest.mark.parametrize("fault", sorted(FAULTY.keys() - {SLOW}))
def test_each_fault_is_caught_by_exactly_its_check(fault, tmp_path, in_this_process, monkeypatch):
    if fault not in WITH_SPEED:  # it trains another method
        monkeypatch.setattr(MethodChecker, "_check_speed", lambda _: ("told", "not measured"))
    report = check_fault(fault, tmp_path)
    assert WITH_SPEED.get(fault, "") in report.findings[-1].what
    assert (report.findings[-1].check, report.findings[-1].verdict) == ("speed", "told")


@pytest.mark.slow
def test_forgotten_state_is_caught_by_exactly_its_check(tmp_path):
    check_fault(SLOW, tmp_path)


def check_fault(fault, tmp_path):
    source, options, checks, words = FAULTY[fault]
    reference = write(tmp_path / "mine", source, options.get("unit", "batches"))
    report = check_method(reference, amount=options["amount"])
    failed = {each.check: each.what for each in report.findings if each.verdict == "failed"}
    assert set(failed) == checks, failed
    assert all(words in what for what in failed.values()), failed
    assert report.conforms == (not checks)
    found = None if fault == "unseeded" else not {"rewards", "isolation"} & checks
    assert report.as_document()["isolated"] is found
    [spec] = make_plan(
        algorithms=[reference],
        suite="classic",
        environment="Pendulum-v1",
        seeds=[0],
    )
    assert isolation_of(spec) == {None: "unchecked", True: "checked", False: "peeks"}[found]
    return report


class TellingEnv(gym.Env):
    """Tells its reward in every way."""

    observation_space = action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float64)
    last_reward = 0.0

    def step(self, action):
        self.last_reward, self.speed = 0.25, 0.25
        info = {"reward_control": -0.5, "distance": 7.0, "gain": 0.25, "count": 3}
        return np.zeros(1), 0.25, False, False, info


def test_canaries_stand_wherever_a_reward_can_be_read():
    env = InstrumentedEnv(gym.Wrapper(TellingEnv()), StepCounter(), "canary")
    _, reward, _, _, info = env.step(0)
    assert reward == 2.5  # 3 - 2 r
    assert info == {"reward_control": 4.0, "distance": 7.0, "gain": 2.5, "count": 3}
    assert (env.unwrapped.last_reward, env.unwrapped.speed) == (2.5, 0.25)
    assert env.unwrapped.step(0)[1] == type(env.unwrapped).step(env.unwrapped, 0)[1] == 2.5


def test_a_state_that_cannot_be_saved_is_named(tmp_path, in_this_process):
    report = check_method(write(tmp_path / "mine", PICKLES), amount=20)
    [state] = [each for each in report.findings if each.check == "state"]
    assert (state.verdict, "thing" in state.what) == ("failed", True)


# Small enough for two rounds of each.
SETTINGS = {
    "n_steps": "100", "n_envs": "2", "demo_batch_size": "64", "hidden_size": "16",
    "rollout_round_min_episodes": "2", "rollout_round_min_timesteps": "400",
    "total_comparisons": "12", "num_iterations": "2", "fragment_length": "10",
    "reward_epochs": "2", "learning_starts": "100", "batch_size": "32",
    "bc_updates": "50", "critic_updates": "50", "exploration_steps": "50", "bc_batches": "20",
    "model_updates": "20", "model_pretraining": "20", "pairs": "20",
    "horizon": "4", "execute": "2", "chunk": "4", "channels": "8", "feedforward": "16",
}  # fmt: skip
AMOUNTS = {"env_steps": 1200, "replay_steps": 400, "batches": 60, "none": None}
METHODS = [name for name in algorithm_names() if load_algorithm(name).role == "method"]


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
def test_every_bundled_method_conforms(name, in_this_process):
    card = load_algorithm(name)
    overrides = {k: v for k, v in SETTINGS.items() if k in card.hyperparameters}
    # A step of the last two takes two updates, or the checks train long before the first step.
    other = {"preference_comparisons": 6000, "pebble": 1600, "value_dice": 200, "csil": 200,
             "drex": 2400}  # fmt: skip
    amount = other.get(name, AMOUNTS[card.budget_unit])
    report = check_method(name, amount=amount, overrides=overrides)
    assert report.conforms, [each for each in report.findings if each.verdict == "failed"]
    # Runs of these methods record `tested` without asking again.
    assert report.isolated is (None if card.needs.true_reward else True)


def test_an_environment_where_it_cannot_learn_is_reported():
    with pytest.raises(InputError, match="choose an environment where it can learn"):
        check_method("mce_irl", suite="classic")


def test_sizes_by_name():
    import numpy as np

    state = {"a": {"b": np.zeros(4)}, "c": [np.zeros(2), np.zeros(3)]}
    assert sizes_in(state) == [("a.b", 32), ("c", 16), ("c", 24)]
