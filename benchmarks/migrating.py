"""Runs trainings of the reference library's tutorials under both names, side by side.

    python benchmarks/migrating.py --install-reference .reference

The scripts in `benchmarks/tutorials/` have the tasks, methods and numbers of the tutorials. Only
the name of the package is replaced. Each is a whole process with one thread, imports included, and
both libraries take turns; times are CPU times, which depend less on the load of the machine. The
returns before and after training that the scripts print are shown as well.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import comparison
import reference

TUTORIALS = Path(__file__).parent / "tutorials"
NAMES = {"bc": "BC", "gail": "GAIL", "airl": "AIRL", "density": "density"}
SHARED = {"gail": "adversarial", "airl": "adversarial"}
"""Scripts of two tutorials, which get the name as an argument."""
TARGET = 4.0

# The experts of the tutorials are files of Stable-Baselines3, which both libraries read. The one of
# CartPole is the bundled one; the one of Pendulum imitates the bundled demonstrations.
WEIGHTS = """
import sys
import numpy as np
from imitbench.algorithms.bc import BC
from imitbench.cards.catalog import suite_directory
from imitbench.data import serialize
from imitbench.policies.storage import load_policy
from imitbench.util.util import make_vec_env
from stable_baselines3.common.policies import ActorCriticPolicy
suite = suite_directory("classic")
expert = load_policy(suite / "experts" / "ppo-seals-CartPole-v0")
rng = np.random.default_rng(0)
venv = make_vec_env("Pendulum-v1", rng=rng)
clone = ActorCriticPolicy(venv.observation_space, venv.action_space, lambda _: 1e-3)
trainer = BC(
    observation_space=venv.observation_space, action_space=venv.action_space, rng=rng,
    demonstrations=serialize.load(suite / "demos" / "sac-Pendulum-v1"), policy=clone,
)
trainer.train(n_batches=3000, progress_bar=False)
for name, policy in (("seals-CartPole-v0", expert), ("Pendulum-v1", clone)):
    np.savez(f"{sys.argv[1]}/{name}.npz", **{k: v.numpy() for k, v in policy.state_dict().items()})
"""
FILES = """
import pathlib, sys
import numpy as np, torch as th
from imitation.policies.base import NormalizeFeaturesExtractor
from imitation.util.networks import RunningNorm
from imitation.util.util import make_vec_env
from stable_baselines3 import PPO
normalized = dict(
    net_arch=[64, 64], features_extractor_class=NormalizeFeaturesExtractor,
    features_extractor_kwargs=dict(normalize_class=RunningNorm),
)
for name, kwargs in (("seals/CartPole-v0", normalized), ("Pendulum-v1", {})):
    venv = make_vec_env(name, rng=np.random.default_rng(0))
    model = PPO("MlpPolicy", venv, policy_kwargs=kwargs, device="cpu")
    folder = pathlib.Path(sys.argv[1], name.replace("/", "-"))
    weights = np.load(f"{folder}.npz")
    model.policy.load_state_dict({key: th.from_numpy(weights[key]) for key in weights.files})
    folder.mkdir()
    model.save(folder / "model.zip")
"""


def make_experts(folder: Path, python: Path) -> None:
    """Writes the experts of the tutorials."""
    reference.run(Path(sys.executable), WEIGHTS, str(folder))
    reference.run(python, "import seals\n" + FILES, str(folder))


def cpu_seconds(python: Path, script: str, arguments: list[str]) -> tuple[float, dict[str, float]]:
    """Runs a script.

    Returns:
        The CPU seconds of its process, and the returns that it prints.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:  # GAIL and AIRL write logs
        done = subprocess.run(
            [str(python), "-c", script, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        )
    if done.returncode != 0:
        raise SystemExit(f"{python} failed:\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    printed = re.findall(r"^(expert|before training|after training) ([-\d.]+)", done.stdout, re.M)
    return seconds, {what: float(value) for what, value in printed}


def main() -> int:
    """Prints the table.

    Returns:
        0 if every target is reached, else 1.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--reference-python", type=Path, help="interpreter with imitation 1.0.1")
    which.add_argument("--install-reference", type=Path, metavar="DIR", help="install one there")
    parser.add_argument("--only", choices=NAMES, action="append", help="only these")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    python = options.reference_python or reference.install(options.install_reference)
    comparison.print_heading(options.repeats)
    reached = True
    with tempfile.TemporaryDirectory() as folder:
        make_experts(Path(folder), python.absolute())
        for name in options.only or NAMES:
            script = (TUTORIALS / f"{SHARED.get(name, name)}.py").read_text()
            arguments = [folder, name] if name in SHARED else [folder]
            sides: dict[str, list[float]] = {"imitbench": [], "imitation": []}
            for _ in range(options.repeats):
                for library, own in (("imitbench", Path(sys.executable)), ("imitation", python)):
                    renamed = re.sub(r"\bimitation\b(?=[. ])", library, script)
                    seconds, printed = cpu_seconds(own.absolute(), renamed, arguments)
                    sides[library].append(seconds)
                    print(library, f"{seconds:.1f}", json.dumps(printed), file=sys.stderr)
            ours, theirs = sides["imitbench"], sides["imitation"]
            ratios = [their / our for our, their in zip(ours, theirs, strict=True)]
            reached &= statistics.median(ratios) >= TARGET
            print(comparison.row(f"{NAMES[name]}, named `imitbench`, CPU seconds", ours, 1))
            print(comparison.row("the same script, named `imitation`", theirs, 1))
            what = f"ratio of paired turns (target: at least {TARGET:g})"
            print(comparison.row(what, ratios, 2), flush=True)
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
