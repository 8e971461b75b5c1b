"""A worker's optimizer works without torch's compiler being loaded."""

import subprocess
import sys


def test_the_compiler_stays_unloaded_and_optimizers_work():
    code = (
        "import sys, torch\n"
        "from imitbench.util.library_patches import leave_compiler_unloaded\n"
        "leave_compiler_unloaded()\n"
        "weight = torch.nn.Parameter(torch.ones(1))\n"
        "optimizer = torch.optim.Adam([weight], lr=0.5)\n"
        "weight.square().sum().backward()\n"
        "optimizer.step(); optimizer.zero_grad()\n"
        "again = torch.optim.Adam([weight]); again.load_state_dict(optimizer.state_dict())\n"
        "assert weight.item() < 1 and weight.grad is None\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
