"""External programs train, and their policies are evaluated like any other."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch as th
from support.outside_method import write_outside_method

from imitbench.bench.learners.command import ChildFailedError
from imitbench.bench.training_setup import TrainingConfig
from imitbench.cards.plugins import find_algorithm
from imitbench.conformance.test_bed import MethodUnderTest, practice_test_bed
from imitbench.errors import InputError
from imitbench.policies.foreign import load_foreign_policy
from imitbench.policies.storage import load_policy, save_policy
from imitbench.records.runs import Budget

KINDS = ["layers", "torchscript", "onnx"]
# Each program that is started takes seconds to load its own libraries.
SLOW = pytest.mark.slow


@pytest.fixture
def subject(tmp_path):
    def make(amount=40, overrides=None, **options):
        folder = write_outside_method(tmp_path / "method", **options)
        card = find_algorithm(str(folder))
        return MethodUnderTest(card, card.resolve(overrides or {}), amount)

    return make


@pytest.mark.parametrize(
    ("kind", "space"),
    [
        ("layers", "discrete"),
        ("onnx", "box"),
        *(
            pytest.param(kind, space, marks=SLOW)
            for kind, space in (
                ("layers", "box"),
                ("onnx", "discrete"),
                ("torchscript", "box"),
                ("torchscript", "discrete"),
            )
        ),
    ],
)
def test_a_program_trains_and_its_policy_acts(kind, space, subject, tmp_path):
    if kind == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnx")
    bed = practice_test_bed(space)
    trained = subject(kind=kind).train(bed)
    assert [point["step"] for point in trained.curve] == [10, 20, 30, 40]
    assert trained.curve[0]["error"] > 0
    policy = trained.learner.policy()
    observations = bed.observations()
    for deterministic in (True, False):
        actions, _ = policy.predict(observations, deterministic=deterministic)
        assert all(bed.action_space.contains(action) for action in actions)
    # A policy is stored unchanged. Programs run only if the user named the method.
    save_policy(policy, tmp_path / "stored")
    again = load_foreign_policy(tmp_path / "stored", programs=True)
    expected = policy.predict(observations, deterministic=True)[0]
    np.testing.assert_array_equal(again.predict(observations, deterministic=True)[0], expected)
    if kind == "layers":
        plain = load_policy(tmp_path / "stored").predict(observations, deterministic=True)[0]
        np.testing.assert_array_equal(plain, expected)
    else:
        with pytest.raises(InputError, match="is a program"):
            load_policy(tmp_path / "stored")


@SLOW
def test_kinds_of_policy_agree(subject):
    pytest.importorskip("onnxruntime")
    bed = practice_test_bed("box")
    actions = [
        subject(kind=kind)
        .train(bed)
        .learner.policy()
        .predict(bed.observations(), deterministic=True)[0]
        for kind in KINDS
    ]
    for other in actions[1:]:
        np.testing.assert_allclose(other, actions[0], rtol=1e-5)


def test_samples_have_the_standard_deviation_of_the_description(tmp_path):
    from gymnasium import spaces
    from safetensors.numpy import save_file

    weights = {"0.weight": np.zeros((2, 1), np.float32), "0.bias": np.float32([0.3, np.log(0.5)])}
    save_file(weights, tmp_path / "p.safetensors")
    (tmp_path / "policy.json").write_text(
        json.dumps({"format": "imitbench-foreign-policy", "kind": "layers",
                    "file": "p.safetensors", "output": "gaussian"})
    )  # fmt: skip
    box = spaces.Box(-9.0, 9.0, (1,), np.float32)
    policy = load_foreign_policy(tmp_path, box, box, programs=False)
    th.manual_seed(0)
    drawn, _ = policy.predict(np.zeros((4000, 1), np.float32))
    assert drawn.mean() == pytest.approx(0.3, abs=0.03)
    assert drawn.std() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
def test_a_program_gets_the_supplement_and_ranks_that_its_card_needs(form, subject, tmp_path):
    bed = practice_test_bed("box")
    method = subject(further=f", demos: {form}")
    budget = Budget(name="quick", unit="batches", amount=1)
    config = TrainingConfig(bed.environment, bed.environment, budget, 0)
    plain = method.set_up(bed, config)._describe(budget)
    assert (plain.supplement, plain.ranks) == (None, None)
    path = tmp_path / "method" / "card.yaml"
    more = "demos: true, actions: false, supplement: true, ranking: true,"
    path.write_text(path.read_text().replace("demos: true,", more))
    learner = reread(method, path).set_up(bed, config)
    task = learner._describe(budget)
    assert task.ranks == bed.supplement.ranks.tolist()
    assert task.supplement != task.demos
    if form == "parquet":
        rows = pq.read_table(task.supplement).to_pylist()
    else:
        rows = [json.loads(line) for line in Path(task.supplement).read_text().splitlines()]
    for row, given in zip(rows, bed.supplement.trajectories, strict=True):
        np.testing.assert_allclose(row["obs"], given.obs, rtol=1e-6)
        assert row["acts"] == [[]] * len(given)
        assert not any(row.get("rews", []))


@SLOW
@pytest.mark.parametrize("checkpoints", ["false", "true"])
def test_an_interrupted_program_gives_the_same_result(checkpoints, subject):
    bed = practice_test_bed("discrete")
    method = subject(checkpoints=checkpoints)
    whole, resumed = method.train(bed).learner, method.train_interrupted(bed)
    one, other = (dict(each.policy().state_dict()) for each in (whole, resumed))
    np.testing.assert_array_equal(one["program"], other["program"])


def test_a_program_that_fails_is_quoted(subject):
    with pytest.raises(ChildFailedError, match=r"train.py ended with code 3; .*no such thing"):
        subject(overrides={"fail": "true"}).train(practice_test_bed("box"))


def test_a_program_beyond_its_time_limit_is_killed(subject):
    method = subject(overrides={"sleep": "5"}, further=", timeout_minutes: 0.05")
    started = time.monotonic()
    with pytest.raises(ChildFailedError, match="longer than 3 s"):
        method.train(practice_test_bed("box"))
    assert time.monotonic() - started < 60


def test_absent_programs_and_commands_are_reported(subject, tmp_path):
    method = subject()
    path = tmp_path / "method" / "card.yaml"
    text = path.read_text()
    path.write_text(text.replace("run: [python", "run: [no-such-program"))
    with pytest.raises(InputError, match="no-such-program: cannot be started"):
        reread(method, path).train(practice_test_bed("box"))
    path.write_text(text.replace("\ncommand:", "\n#"))
    with pytest.raises(InputError, match="command: CommandLearner needs one"):
        reread(method, path).train(practice_test_bed("box"))


def reread(method, path):
    card = find_algorithm(str(path.parent))
    return MethodUnderTest(card, method.values, 10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pickle"}, "kind: Input should be"),
        ({"file": "../../etc/passwd"}, "file: String should match"),
        ({"output": "logits"}, "logits are not actions of Box"),
        ({"file": "absent"}, "absent: cannot be read"),
        ({"file": "policy.json"}, "not readable as layers"),
    ],
)
def test_wrong_descriptions_are_reported_in_one_line(change, message, tmp_path):
    from gymnasium import spaces

    document = {"format": "imitbench-foreign-policy", "kind": "layers", "file": "x",
                "output": "gaussian"} | change  # fmt: skip
    (tmp_path / "x").write_bytes(b"?")
    (tmp_path / "policy.json").write_text(json.dumps(document))
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    with pytest.raises(InputError, match=message) as told:
        load_foreign_policy(tmp_path, box, box, programs=True)
    assert "\n" not in str(told.value)


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux sees to it")
def test_the_program_ends_with_its_worker(tmp_path):
    """A killed worker cannot stop the program itself."""
    worker = (
        "import sys, time, pathlib\n"
        "from imitbench.bench.learners.command import ChildProcess\n"
        "words = ['sleep', '600']\n"
        "with ChildProcess(words, folder=pathlib.Path('.'), timeout_s=None) as child:\n"
        "    print(child._process.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", worker], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    try:
        child = int(process.stdout.readline())
        os.kill(child, 0)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
    for _ in range(100):
        if not is_alive(child):
            return
        time.sleep(0.1)
    raise AssertionError("it lives on")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stream:  # noqa: PTH123
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
