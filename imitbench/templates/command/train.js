// Supervised learning from demonstrations, without packages: `node train.js task.json`.
// The task is described in imitbench.bench.learners.command.CommandTask.
"use strict";

const fs = require("fs");
const path = require("path");

const REPORT_EVERY = 100;

/** Observations and actions of all steps; the last observation of an episode has no action. */
function readDemos(file) {
  const obs = [];
  const acts = [];
  for (const line of fs.readFileSync(file, "utf8").split("\n")) {
    if (!line) continue;
    const episode = JSON.parse(line);
    episode.acts.forEach((act, step) => {
      obs.push([episode.obs[step]].flat(Infinity));
      acts.push([act].flat(Infinity));
    });
  }
  return { obs, acts };
}

/** Mean and spread of each number of the observations, which training brings to 0 and 1. */
function statistics(obs) {
  const mean = obs[0].map((_, i) => obs.reduce((sum, row) => sum + row[i], 0) / obs.length);
  const spread = mean.map(
    (m, i) => Math.sqrt(obs.reduce((sum, row) => sum + (row[i] - m) ** 2, 0) / obs.length) + 1e-6);
  return { mean, spread };
}

/** Numbers in [0, 1) that depend on the seed alone (mulberry32). */
function generator(seed) {
  let state = seed % 2 ** 32 | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function makeLayer(inputs, outputs, random) {
  const scale = 1 / Math.sqrt(inputs);
  const weight = new Float64Array(outputs * inputs).map(() => (2 * random() - 1) * scale);
  return { inputs, outputs, weight, bias: new Float64Array(outputs) };
}

function apply(layer, input) {
  const output = Float64Array.from(layer.bias);
  for (let row = 0; row < layer.outputs; row++) {
    for (let column = 0; column < layer.inputs; column++) {
      output[row] += layer.weight[row * layer.inputs + column] * input[column];
    }
  }
  return output;
}

/** Adds the gradient of a layer's numbers, and returns that of its input. */
function addGradient(layer, gradient, input, slope) {
  const inner = new Float64Array(layer.inputs);
  for (let row = 0; row < layer.outputs; row++) {
    gradient.bias[row] += slope[row];
    for (let column = 0; column < layer.inputs; column++) {
      const place = row * layer.inputs + column;
      gradient.weight[place] += slope[row] * input[column];
      inner[column] += slope[row] * layer.weight[place];
    }
  }
  return inner;
}

function makeAdam(numbers, rate) {
  const first = new Float64Array(numbers.length);
  const second = new Float64Array(numbers.length);
  let steps = 0;
  return (gradient) => {
    steps += 1;
    for (let i = 0; i < numbers.length; i++) {
      first[i] += 0.1 * (gradient[i] - first[i]);
      second[i] += 0.001 * (gradient[i] ** 2 - second[i]);
      const mean = first[i] / (1 - 0.9 ** steps);
      numbers[i] -= (rate * mean) / (Math.sqrt(second[i] / (1 - 0.999 ** steps)) + 1e-8);
    }
  };
}

/** The loss of one step and its gradient by the outputs: replace this with your idea. */
function lossOf(output, act, discrete) {
  if (!discrete) {
    const error = output.map((value, place) => value - act[place]);
    return { loss: error.reduce((sum, each) => sum + each ** 2, 0), slope: error.map((e) => 2 * e) };
  }
  const most = Math.max(...output);
  const slope = output.map((value) => Math.exp(value - most));
  const total = slope.reduce((sum, each) => sum + each, 0);
  for (let place = 0; place < slope.length; place++) slope[place] /= total;
  const loss = -Math.log(slope[act[0]]);
  slope[act[0]] -= 1;
  return { loss, slope };
}

/** Writes arrays as safetensors: the header's length, the header, the numbers. */
function saveTensors(file, tensors) {
  const header = {};
  const parts = [];
  let end = 0;
  for (const [name, { shape, values }] of Object.entries(tensors)) {
    const bytes = Buffer.from(Float32Array.from(values).buffer);
    header[name] = { dtype: "F32", shape, data_offsets: [end, end + bytes.length] };
    end += bytes.length;
    parts.push(bytes);
  }
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  fs.writeFileSync(file, Buffer.concat([length, text, ...parts]));
}

function main() {
  const task = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
  const { batch_size: batchSize, learning_rate: rate, hidden_size: hiddenSize } = task.hyperparameters;
  const space = task.action_space;
  const discrete = space.type === "Discrete";
  const random = generator(task.seed);
  const { obs: seen, acts } = readDemos(task.demos);
  const { mean, spread } = statistics(seen);
  const obs = seen.map((row) => row.map((value, i) => (value - mean[i]) / spread[i]));
  if (discrete) acts.forEach((act) => (act[0] -= space.start));
  const layers = [
    makeLayer(obs[0].length, hiddenSize, random),
    makeLayer(hiddenSize, discrete ? space.n : acts[0].length, random),
  ];
  const updates = layers.map((layer) => [makeAdam(layer.weight, rate), makeAdam(layer.bias, rate)]);
  for (let number = 1; number <= task.budget.amount; number++) {
    const gradients = layers.map((layer) => ({
      weight: new Float64Array(layer.weight.length),
      bias: new Float64Array(layer.bias.length),
    }));
    let total = 0;
    for (let each = 0; each < batchSize; each++) {
      const row = Math.floor(random() * obs.length);
      const hidden = apply(layers[0], obs[row]).map(Math.tanh);
      const { loss, slope } = lossOf(apply(layers[1], hidden), acts[row], discrete);
      total += loss / batchSize;
      const share = slope.map((value) => value / batchSize);
      const inner = addGradient(layers[1], gradients[1], hidden, share);
      addGradient(layers[0], gradients[0], obs[row], inner.map((v, i) => v * (1 - hidden[i] ** 2)));
    }
    updates.forEach(([weight, bias], place) => {
      weight(gradients[place].weight);
      bias(gradients[place].bias);
    });
    if (number % REPORT_EVERY === 0) console.log(JSON.stringify({ step: number, loss: total }));
  }
  // From here on, the first layer takes observations as they are.
  const first = layers[0];
  for (let place = 0; place < first.weight.length; place++) {
    first.weight[place] /= spread[place % first.inputs];
    first.bias[Math.floor(place / first.inputs)] -= first.weight[place] * mean[place % first.inputs];
  }
  const tensors = {};
  layers.forEach((layer, place) => {
    tensors[`${place}.weight`] = { shape: [layer.outputs, layer.inputs], values: layer.weight };
    tensors[`${place}.bias`] = { shape: [layer.outputs], values: layer.bias };
  });
  saveTensors(path.join(task.output, "policy.safetensors"), tensors);
  const policy = {
    format: "imitbench-foreign-policy",
    kind: "layers",
    file: "policy.safetensors",
    activation: "tanh",
    output: discrete ? "logits" : "actions",
  };
  fs.writeFileSync(path.join(task.output, "policy.json"), JSON.stringify(policy));
}

main();
