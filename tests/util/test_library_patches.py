"""Training and building a policy work without torch's compiler and symbolic shapes."""

import subprocess
import sys

import pytest

STEPS = """
import sys, torch
from imitbench.policies.bounded_construction import allocations_limited_by
from imitbench.util.gradients import backward_from
from imitbench.util.library_patches import leave_compiler_unloaded

weight = torch.nn.Parameter(torch.ones(2))
backward_from(weight * 2, torch.ones(2))
assert weight.grad.tolist() == [2, 2]
assert 'sympy' not in sys.modules, 'by gradients'

with allocations_limited_by({}):
    assert torch.nn.Linear(3, 4)(torch.ones(3)).shape == (4,)
assert 'torch._dynamo' not in sys.modules, 'by the limit of allocations'

leave_compiler_unloaded()
optimizer = torch.optim.Adam([weight], lr=0.5)
optimizer.step(); optimizer.zero_grad()
again = torch.optim.Adam([weight]); again.load_state_dict(optimizer.state_dict())
assert weight[0].item() < 1 and weight.grad is None
assert 'torch._dynamo' not in sys.modules, 'by optimizers'
"""

COMPILER = """
import torch
from imitbench.util.library_patches import leave_compiler_unloaded

leave_compiler_unloaded()
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.Adam([weight], lr=0.5)
calls = []
optimizer.register_step_post_hook(lambda *_: calls.append(weight.grad.tolist()))
import torch._dynamo
original = torch.optim.Optimizer.zero_grad.__wrapped__
before = original.__dynamo_disable
weight.grad = torch.ones(2)
optimizer.step(); optimizer.zero_grad()
assert original.__dynamo_disable is not before, 'torch excludes it from compilation again'
assert calls == [[1, 1]] and weight.grad is None and abs(weight[0].item() - 0.5) < 1e-6
"""

FIRST = """
import sys
import numpy as np
from gymnasium import spaces
{imports}
space, choice = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)
rng = np.random.default_rng(0)
before = set(sys.modules)
{make}
heavy = {{'torch._dynamo', 'torch._inductor', 'sympy', 'matplotlib', 'datasets', 'sklearn'}}
assert not heavy & (set(sys.modules) - before), heavy & set(sys.modules)
assert len(set(sys.modules) - before) < 100, sorted(set(sys.modules) - before)
"""


CONSTRUCTORS = {
    "BC": (
        "from imitbench.algorithms.bc import BC\nfrom imitbench.data.types import Transitions",
        """
demos = Transitions(
    np.zeros((4, 3), np.float32), np.zeros(4, int), np.array([{}] * 4),
    np.zeros((4, 3), np.float32), np.zeros(4, bool),
)
trainer = BC(
    observation_space=space, action_space=choice, demonstrations=demos, batch_size=2, rng=rng
)
trainer.train(n_batches=2, progress_bar=False)
trainer.load_state_dict(trainer.state_dict())
""",
    ),
    "an expert": (
        "import stable_baselines3\n"
        "from imitbench.cards.catalog import suite_directory\n"
        "from imitbench.policies.serialize import load_policy\n"
        "from imitbench.util.util import make_vec_env",
        """
folder = suite_directory('classic') / 'experts' / 'ppo-seals-CartPole-v0'
venv = make_vec_env('seals:seals/CartPole-v0', rng=rng, n_envs=2)
load_policy('ppo', path=folder, venv=venv)
stable_baselines3.PPO('MlpPolicy', venv, n_steps=8, batch_size=8, device='cpu').learn(16)
""",
    ),
    "PPO": (
        "from imitbench.rl.ppo import PPO\nfrom imitbench.util.util import make_vec_env",
        """
venv = make_vec_env('CartPole-v1', rng=rng, n_envs=2)
PPO('MlpPolicy', venv, n_steps=8, batch_size=8, device='cpu').learn(16)
""",
    ),
}


@pytest.mark.parametrize("code", [STEPS, COMPILER])
def test_the_compiler_is_loaded_only_by_those_who_need_it(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("first", CONSTRUCTORS)
def test_the_first_algorithm_of_a_script_imports_nothing_heavy(first):
    imports, make = CONSTRUCTORS[first]
    code = FIRST.format(imports=imports, make=make)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
