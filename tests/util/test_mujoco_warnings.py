"""MuJoCo's warnings: those of a simulation on stderr, none in a file."""

import subprocess
import sys

import pytest

MAKE = """
from imitbench.bench.environments import make_environment
from imitbench.records.runs import EnvironmentSpec

env = make_environment(EnvironmentSpec(id="Humanoid-v5")).unwrapped
env.reset(seed=0)
"""
UNSTABLE = MAKE + "env.data.qvel[:] = 1e10\nenv.step(env.action_space.low)\n"


@pytest.mark.parametrize(("program", "said"), [(MAKE, ""), (UNSTABLE, "MuJoCo: Nan, Inf or huge")])
def test_no_file_is_left_behind(program, said, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith(said)
    assert bool(done.stderr) == bool(said)
    assert list(tmp_path.iterdir()) == []
