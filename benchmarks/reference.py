"""The reference library in a separate virtual environment, for all comparisons."""

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
# The version of MuJoCo that gymnasium 0.29 supports; its requirements would install newer ones.
MUJOCO = "mujoco==3.1.6"
TORCH = "torch==2.13.0"


def install(directory: Path) -> Path:
    """Creates a virtual environment with the reference library.

    Args:
        directory: Its folder; not changed if it has the library already.

    Returns:
        Path of its interpreter.
    """
    python = directory / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if not works(python):
        # Torch first and pinned, so that other packages do not install another version.
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
        Its standard output.
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
