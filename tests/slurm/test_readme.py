"""What the README says of clusters is true."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.readme import ROOT, cluster_commands


def test_the_readme_shows_a_command_for_the_cluster():
    assert cluster_commands()


@pytest.mark.parametrize("command", cluster_commands())
def test_commands_for_the_cluster_run(cluster, tmp_path, command):
    (tmp_path / "slurm").symlink_to(ROOT / "slurm")
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": programs},
    )
    assert done.returncode == 0, done.stderr
    assert "18 done" in done.stderr
    assert "dagger" in done.stdout
