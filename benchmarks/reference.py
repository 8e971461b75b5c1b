"""The reference library in an environment of its own, as the peer of every comparison."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REQUIREMENTS = (
    "imitation==1.0.1",
    "stable-baselines3==2.2.1",
    "gymnasium==0.29.1",
    "numpy<2",
    "pyarrow<20",
    "datasets<4",
    "glfw",
    "imageio",
    "setuptools<80",
)
# The MuJoCo that gymnasium 0.29 works with; its own requirements would pull newer parts.
MUJOCO = "mujoco==3.1.6"
TORCH = "torch==2.13.0"


def install(directory: Path) -> Path:
    """Makes a virtual environment with the reference library.

    Args:
        directory: Where; left alone if it has the library already.

    Returns:
        Its interpreter.
    """
    python = directory / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not works(python):
        # Torch first and pinned, so that the others are content with it.
        subprocess.run([*pip, TORCH], check=True)
        subprocess.run([*pip, *REQUIREMENTS], check=True)
        subprocess.run([*pip, "--no-deps", MUJOCO], check=True)
    return python


def works(python: Path) -> bool:
    """Whether an interpreter has the reference library."""
    probe = "import imitation.algorithms.bc, seals"
    done = subprocess.run([str(python), "-c", probe], capture_output=True)
    return done.returncode == 0


def run(python: Path, code: str, *arguments: str) -> str:
    """Runs a program in an interpreter on one thread.

    Returns:
        What it printed on standard output.
    """
    done = subprocess.run(
        [str(python), "-c", code, *arguments],
        capture_output=True,
        text=True,
        env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PATH": "/usr/bin:/bin"},
    )
    if done.returncode != 0:
        raise SystemExit(f"{python} failed:\n{done.stderr}")
    return done.stdout
