"""A method that is an external program: behavioral cloning in NumPy."""

PROGRAM = '''
"""Multinomial or linear regression of the expert's actions, in NumPy alone."""
import json, pathlib, sys, time

import numpy as np
import pyarrow.parquet as pq

task = json.loads(pathlib.Path(sys.argv[-1]).read_text())
options, budget = task["hyperparameters"], task["budget"]["amount"]
print("reading", task["demos"])
table = pq.read_table(task["demos"])
obs, acts = [], []
for row in table.to_pylist():
    obs += row["obs"][:-1]
    acts += row["acts"]
x = np.asarray(obs, dtype=np.float64).reshape(len(obs), -1)
box = task["action_space"]["type"] == "Box"
y = np.asarray(acts, dtype=np.float64).reshape(len(acts), -1)
if not box:
    y = np.eye(task["action_space"]["n"])[y[:, 0].astype(int)]
rng = np.random.default_rng(task["seed"])
w, b = 0.01 * rng.normal(size=(y.shape[1], x.shape[1])), np.zeros(y.shape[1])
start, kept = 0, task["checkpoints"] and pathlib.Path(task["checkpoints"], "state.json")
if kept and kept.exists():
    state = json.loads(kept.read_text())
    start, w, b = state["step"], np.array(state["w"]), np.array(state["b"])
    rng.bit_generator.state = state["rng"]
    print("going on from", start, file=sys.stderr)
if options["fail"]:
    print("no such thing as luck", file=sys.stderr)
    sys.exit(3)
for step in range(start + 1, budget + 1):
    time.sleep(options["sleep"])
    batch = rng.integers(len(x), size=64)
    out = x[batch] @ w.T + b
    if not box:
        out = np.exp(out - out.max(axis=1, keepdims=True))
        out /= out.sum(axis=1, keepdims=True)
    error = out - y[batch]
    w -= options["rate"] * error.T @ x[batch] / 64
    b -= options["rate"] * error.mean(axis=0)
    if step % 10 == 0:
        if kept:
            state = {"step": step, "w": w.tolist(), "b": b.tolist(), "rng": rng.bit_generator.state}
            kept.write_text(json.dumps(state))
            print(json.dumps({"checkpoint": True}), flush=True)
            sys.stdin.readline()  # until it has been copied
        print(json.dumps({"step": step, "error": float(np.square(error).mean())}), flush=True)

if box:  # mean, and the logarithm of a standard deviation that does not depend on anything
    spread = np.log((x @ w.T + b - y).std(axis=0) + 1e-3)
    w, b = np.concatenate([w, 0 * w]), np.concatenate([b, spread])
w, b = w.astype(np.float32), b.astype(np.float32)
output = pathlib.Path(task["output"])
kind = options["kind"]
if kind == "layers":
    from safetensors.numpy import save_file
    save_file({"0.weight": w, "0.bias": b}, output / "policy.safetensors")
    file = "policy.safetensors"
elif kind == "torchscript":
    import torch
    layer = torch.nn.Linear(w.shape[1], w.shape[0])
    layer.weight.data, layer.bias.data = torch.tensor(w), torch.tensor(b)
    torch.jit.script(layer).save(output / "policy.pt")
    file = "policy.pt"
else:
    from onnx import TensorProto, helper, numpy_helper, save
    names = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", s])
             for n, s in (("x", w.shape[1]), ("y", w.shape[0]))]
    graph = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transB=1)], "policy",
        names[:1], names[1:],
        [numpy_helper.from_array(w, "w"), numpy_helper.from_array(b, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    save(model, output / "policy.onnx")
    file = "policy.onnx"
description = {"format": "imitbench-foreign-policy", "kind": kind, "file": file,
               "output": "gaussian" if box else "logits"}
(output / "policy.json").write_text(json.dumps(description))
'''

CARD = """
schema_version: 1
name: outside
title: Outside
summary: An external program.
implementation: imitbench.bench.learners.command:CommandLearner
command: {{run: [python, train.py], checkpoints: {checkpoints}{further}}}
needs: {{demos: true, action_spaces: [discrete, box]}}
budget_unit: batches
seconds_per_1000: 1.0
hyperparameters:
  kind: {{type: str, default: {kind}, choices: [layers, torchscript, onnx], help: Of policy.}}
  rate: {{type: float, default: 0.05, help: Step size.}}
  sleep: {{type: float, default: 0.0, help: Seconds before each batch.}}
  fail: {{type: bool, default: false, help: Whether to fail.}}
"""


def write_outside_method(folder, kind="layers", checkpoints="false", further=""):
    """Writes the method and its card."""
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(PROGRAM)
    card = CARD.format(kind=kind, checkpoints=checkpoints, further=further)
    (folder / "card.yaml").write_text(card)
    return folder
