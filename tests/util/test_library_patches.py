"""Training and building a policy work without torch's compiler and symbolic shapes."""

import subprocess
import sys

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


def test_the_compiler_stays_unloaded():
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
