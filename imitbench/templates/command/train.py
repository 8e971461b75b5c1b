"""Supervised learning from demonstrations, with NumPy alone: `python train.py task.json`.

The task is described in `imitbench.bench.learners.command.CommandTask`.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

Array = npt.NDArray[np.float64]
REPORT_EVERY = 100


def read_demos(path: str) -> tuple[Array, npt.NDArray[Any]]:
    """Returns observations and actions of all steps; the last observation has no action."""
    obs, acts = [], []
    for line in Path(path).read_text().splitlines():
        episode = json.loads(line)
        obs.append(np.array(episode["obs"][:-1], float))
        acts.append(np.array(episode["acts"]))
    return np.concatenate(obs).reshape(sum(map(len, obs)), -1), np.concatenate(acts)


class Network:
    """Two linear layers with tanh between them, trained by Adam."""

    def __init__(self, sizes: tuple[int, int, int], rng: np.random.Generator) -> None:
        self.parameters: list[Array] = []
        for inputs, outputs in pairwise(sizes):
            scale = 1 / np.sqrt(inputs)
            self.parameters += [rng.uniform(-scale, scale, (outputs, inputs)), np.zeros(outputs)]
        self.moments = [(np.zeros_like(p), np.zeros_like(p)) for p in self.parameters]
        self.steps = 0

    def forward(self, obs: Array) -> tuple[Array, Array]:
        """Returns the hidden layer and the outputs."""
        w0, b0, w1, b1 = self.parameters
        hidden = np.tanh(obs @ w0.T + b0)
        return hidden, hidden @ w1.T + b1

    def step(self, obs: Array, hidden: Array, slope: Array, rate: float) -> None:
        """Updates the parameters; `slope` is the gradient of the loss by the outputs."""
        inner = (slope @ self.parameters[2]) * (1 - hidden**2)
        gradients = [inner.T @ obs, inner.sum(0), slope.T @ hidden, slope.sum(0)]
        self.steps += 1
        for parameter, (first, second), gradient in zip(
            self.parameters, self.moments, gradients, strict=True
        ):
            first += 0.1 * (gradient - first)
            second += 0.001 * (gradient**2 - second)
            mean = first / (1 - 0.9**self.steps)
            parameter -= rate * mean / (np.sqrt(second / (1 - 0.999**self.steps)) + 1e-8)


def loss_of(outputs: Array, acts: npt.NDArray[Any], discrete: bool) -> tuple[float, Array]:
    """Returns the mean loss and its gradient by the outputs: replace this with your idea."""
    count = len(acts)
    if not discrete:
        error = outputs - acts
        return float((error**2).sum(1).mean()), 2 * error / count
    shares = np.exp(outputs - outputs.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    chosen = np.eye(outputs.shape[1])[acts]
    return float(-np.log((shares * chosen).sum(1)).mean()), (shares - chosen) / count


def main() -> None:
    """Trains, and writes the policy to the folder that the task names."""
    task = json.loads(Path(sys.argv[1]).read_text())
    options, space = task["hyperparameters"], task["action_space"]
    discrete = space["type"] == "Discrete"
    rng = np.random.default_rng(task["seed"])
    obs, acts = read_demos(task["demos"])
    mean, spread = obs.mean(0), obs.std(0) + 1e-6
    obs = (obs - mean) / spread
    acts = acts.astype(int) - space["start"] if discrete else acts.reshape(len(acts), -1)
    width = space["n"] if discrete else acts.shape[1]
    network = Network((obs.shape[1], options["hidden_size"], width), rng)
    for number in range(1, task["budget"]["amount"] + 1):
        rows = rng.integers(len(obs), size=options["batch_size"])
        hidden, outputs = network.forward(obs[rows])
        loss, slope = loss_of(outputs, acts[rows], discrete)
        network.step(obs[rows], hidden, slope, options["learning_rate"])
        if number % REPORT_EVERY == 0:
            print(json.dumps({"step": number, "loss": loss}), flush=True)
    network.parameters[0] /= spread  # from here on, it takes observations as they are
    network.parameters[1] -= network.parameters[0] @ mean
    names = ("0.weight", "0.bias", "1.weight", "1.bias")
    layers = {n: p.astype(np.float32) for n, p in zip(names, network.parameters, strict=True)}
    output = Path(task["output"])
    save_file(layers, output / "policy.safetensors")
    policy = {
        "format": "imitbench-foreign-policy",
        "kind": "layers",
        "file": "policy.safetensors",
        "activation": "tanh",
        "output": "logits" if discrete else "actions",
    }
    (output / "policy.json").write_text(json.dumps(policy))


if __name__ == "__main__":
    main()
