"""`imitbench eval` measures, compares and races policies of other tools."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from imitbench.cli.main import app
from imitbench.errors import InputError

HERE = Path(__file__).parents[1] / "policies" / "robot_policies"
ACT, MIXTURE = HERE / "act", HERE / "bc_gmm.pth"
REACHER = ("--env", "Reacher-v5")
STATE = "observation.state"
KEYS = (f"{STATE}=0:2", "observation.environment_state=2:5")
ACT_KEYS = [word for key in KEYS for word in ("--observation-key", key)]
MIXTURE_KEYS = ["--observation-key", "object=0:3", "--observation-key", "robot0_eef_pos=3:5"]


def call(*arguments):
    answer = CliRunner().invoke(
        app, ["eval", *(str(each) for each in arguments)], standalone_mode=False
    )
    if answer.exception is not None:
        raise answer.exception
    return json.loads(answer.stdout)


def test_policies_of_two_tools_are_compared():
    episodes = ("--episodes", 2, "--seed", 3, "--json")
    found = call(ACT, MIXTURE, *REACHER, *ACT_KEYS, *MIXTURE_KEYS, *episodes)
    alone = call(MIXTURE, *REACHER, *MIXTURE_KEYS, *episodes)
    assert found["policies"][1]["returns"] == alone["returns"]
    first, second = (policy["mean_return"] for policy in found["policies"])
    assert found["difference"]["return"]["difference"] == pytest.approx(first - second)


def test_a_race_registers_where_inputs_are(tmp_path):
    race = ("--race", "--batch", 2, "--max-episodes", 4, "--margin", 1, "--out", tmp_path)
    found = call(ACT, MIXTURE, *REACHER, *ACT_KEYS, *MIXTURE_KEYS, *race, "--json")
    [registered] = tmp_path.glob(".policy-races/*/design.json")
    policies = json.loads(registered.read_text())["design"]["policies"]
    assert policies[0]["observation_keys"] == dict(key.split("=") for key in KEYS)
    assert policies[1]["observation_keys"] == {"object": "0:3", "robot0_eef_pos": "3:5"}
    assert found["verdict"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ACT,), "name it by --env"),
        ((ACT, *REACHER, "--observation-key", "a"), "a: write INPUT=KEY"),
        ((ACT, *REACHER, *ACT_KEYS, *ACT_KEYS[:2]), "observation.state was given before"),
        ((ACT, *REACHER, *ACT_KEYS, *MIXTURE_KEYS), "object=0:3: must be an input of a policy"),
        (
            ("sac-Pendulum-v1", "--observation-key", "a=b", "--episodes", 1),
            "a=b: must be an input of a policy of LeRobot or robomimic; here is no such policy",
        ),
    ],
)
def test_bad_input_is_one_line(arguments, message):
    with pytest.raises(InputError) as refused:
        call(*arguments, "--json")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_control_characters_in_an_input_are_shown_in_one_line(imitbench):
    ended = imitbench(
        "eval", ACT, *REACHER, *ACT_KEYS[2:], "--observation-key", f"{STATE}=0:2\n\x1b"
    )
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith(rf"error: --observation-key {STATE}=0:2\n\x1b: observations of the")
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("described", [False, True], ids=["file", "folder"])
def test_onnx_programs_are_run_only_with_trust(tmp_path, described):
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weights = onnx.numpy_helper.from_array(np.zeros((3, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], "zero",
        [helper.make_tensor_value_info("x", kind, ["n", 3])],
        [helper.make_tensor_value_info("y", kind, ["n", 1])], [weights],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    if described:
        description = {
            "format": "imitbench-foreign-policy", "kind": "onnx", "file": path.name,
            "output": "actions",
        }  # fmt: skip
        (tmp_path / "policy.json").write_text(json.dumps(description))
        path = tmp_path
    pendulum = ("--env", "Pendulum-v1", "--episodes", 1, "--json")
    with pytest.raises(InputError, match=r"is a program \(onnx\), .* `imitbench eval --trust`"):
        call(path, *pendulum)
    assert call(path, *pendulum, "--trust")["mean_length"] == 200
