// Charts of single runs and learning curves, drawn to the width that there is.
function ticks(low, high, most) {
  const rough = (high - low) / Math.max(1, most);
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((unit) => power * unit >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step);
  return found;
}

function span(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function linear([low, high], [from, to]) {
  return (value) => from + ((value - low) / (high - low)) * (to - from);
}

function described(name, detail, attributes, ...parts) {
  return s("svg", { role: "img", class: "chart", ...attributes }, s("title", {}, name), s("desc", {}, detail), ...parts);
}

// A point in the shape of its method, as in the tables.
function dot({ color }, x, y, attributes, ...parts) {
  const shapes = {
    1: "M-4.5-4.5h9v9h-9Z",
    2: "M0-6L6 0 0 6-6 0Z",
    3: "M0-6L5.5 4.5h-11Z",
    4: "M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z",
  };
  const path = shapes[Math.floor((color ?? 0) / 10)];
  if (path === undefined) return s("circle", { cx: x, cy: y, r: 5, ...attributes }, ...parts);
  return s("path", { d: path, transform: `translate(${x} ${y})`, ...attributes }, ...parts);
}

// One dot for each run, one row for each algorithm.
function runChart(width, environment, groups, open) {
  const left = Math.min(190, width * 0.34);
  const [right, rowHeight, bottom] = [16, 30, 40];
  const height = groups.length * rowHeight + bottom;
  const scores = groups.flatMap((group) => group.runs.map((run) => run.score));
  const [low, high] = span([0, 1, ...scores]);
  const margin = 0.04 * (high - low);
  const domain = [low - margin, high + margin];
  const x = linear(domain, [left, width - right]);
  const parts = [];
  const base = groups.length * rowHeight;
  for (const tick of ticks(...domain, width / 110)) {
    const anchor = tick === 0 || tick === 1 ? "anchor" : "grid";
    parts.push(s("line", { x1: x(tick), x2: x(tick), y1: 0, y2: base, class: anchor }));
    parts.push(s("text", { x: x(tick), y: base + 16, "text-anchor": "middle" }, short(tick)));
  }
  parts.push(s("text", { x: (left + width - right) / 2, y: base + 34, "text-anchor": "middle" }, "score of each run"));
  groups.forEach((group, place) => {
    const y = (place + 0.5) * rowHeight;
    const most = Math.max(4, Math.floor((left - 12) / 7));
    const name = group.algorithm.name;
    const shown = name.length > most ? `${name.slice(0, most - 1)}…` : name;
    parts.push(s("text", { x: left - 10, y: y + 4, "text-anchor": "end", class: "label" }, s("title", {}, name), shown));
    if (!group.runs.length)
      parts.push(s("text", { x: x(0) + 6, y: y + 4 }, "no completed run"));
    for (const run of group.runs) {
      if (run.score === null) continue;
      const title = `${name}, seed ${run.seed}: score ${fixed(run.score, 3)}, raw return ${rawText(run.raw)}`;
      const attributes = { class: `run ${colorOf(group.algorithm)}`, onclick: () => open(run) };
      parts.push(dot(group.algorithm, x(run.score), y, attributes, s("title", {}, title)));
    }
  });
  const said = groups.map((group) => `${group.algorithm.name}: ${group.runs.map((run) => fixed(run.score, 3)).join(", ")}`);
  return described(`Scores of single runs on ${environment}`, said.join("; "), { width, height }, ...parts);
}

// The metric that tells most about progress.
function mostTelling(metrics) {
  for (const pattern of [/return/, /score/, /reward/, /^loss$/, /\/loss$/, /loss/]) {
    const found = metrics.find((name) => pattern.test(name));
    if (found !== undefined) return found;
  }
  return metrics[0];
}

// The label of the axis of steps, for budgets in these units.
function unitOf(budgets) {
  const units = new Set(budgets);
  if (units.size !== 1) return "training steps, counted as each method does";
  const [unit] = units;
  return unit === "env_steps" ? "environment steps" : unit === "batches" ? "batches" : "training steps";
}

// The mean of several curves where all of them are known, by linear interpolation.
function meanCurve(curves) {
  const whole = curves.filter((curve) => curve.steps.length && !curve.values.includes(null));
  if (whole.length < 2) return null;
  const first = Math.max(...whole.map((curve) => curve.steps[0]));
  const last = Math.min(...whole.map((curve) => curve.steps[curve.steps.length - 1]));
  const longest = whole.reduce((a, b) => (b.steps.length > a.steps.length ? b : a));
  const steps = longest.steps.filter((step) => step >= first && step <= last);
  const values = steps.map((step) => {
    let sum = 0;
    for (const curve of whole) {
      let after = curve.steps.findIndex((each) => each >= step);
      if (after === 0) after = 1;
      if (curve.steps.length === 1) { sum += curve.values[0]; continue; }
      const [a, b] = [curve.steps[after - 1], curve.steps[after]];
      const share = b === a ? 1 : (step - a) / (b - a);
      sum += curve.values[after - 1] + share * (curve.values[after] - curve.values[after - 1]);
    }
    return sum / whole.length;
  });
  return { steps, values };
}

function pathOf(curve, x, y) {
  let path = "";
  let pen = false;
  curve.steps.forEach((step, place) => {
    const value = curve.values[place];
    if (value === null) { pen = false; return; }
    path += `${pen ? "L" : "M"}${x(step).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
  });
  return path;
}

// Thin lines are runs, thick ones the mean over the runs of an algorithm; dashed ones are returns
// of the references.
function curveChart(width, title, metric, unit, groups, references = []) {
  const [left, right, top, bottom] = [64, 16, 12, 46];
  const height = Math.max(240, Math.min(360, width * 0.5));
  const every = groups.flatMap((group) => group.curves);
  const steps = span(every.flatMap((curve) => [curve.steps[0], curve.steps[curve.steps.length - 1]]));
  const values = span([...references.map(([, value]) => value), ...every.flatMap((curve) => curve.values)]);
  const x = linear(steps, [left, width - right]);
  const y = linear(values, [height - bottom, top]);
  const parts = [];
  for (const tick of ticks(...values, 5)) {
    parts.push(s("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    parts.push(s("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  for (const tick of ticks(...steps, width / 120))
    parts.push(s("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, short(tick)));
  parts.push(s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, unit));
  for (const [name, value] of references) {
    parts.push(s("line", { x1: left, x2: width - right, y1: y(value), y2: y(value), class: "anchor" }, s("title", {}, `${name}: ${rawText(value)}`)));
    parts.push(s("text", { x: width - right - 4, y: y(value) + (name === "random" ? -5 : 14), "text-anchor": "end" }, name));
  }
  for (const group of groups) {
    const color = colorOf(group.algorithm);
    const mean = meanCurve(group.curves);
    for (const curve of group.curves) {
      const hint = s("title", {}, `${group.algorithm.name}, seed ${curve.seed}`);
      if (curve.steps.length === 1 && curve.values[0] !== null)
        parts.push(s("circle", { cx: x(curve.steps[0]), cy: y(curve.values[0]), r: 3, class: `run ${color}` }, hint));
      else parts.push(s("path", { d: pathOf(curve, x, y), class: `curve ${mean ? "thin " : ""}${color}` }, hint));
    }
    if (mean) parts.push(s("path", { d: pathOf(mean, x, y), class: `curve ${color}` }, s("title", {}, `${group.algorithm.name}, mean`)));
  }
  const said = groups.map((group) => {
    const last = group.curves.map((curve) => curve.values[curve.values.length - 1]).filter((value) => value !== null);
    const mean = last.reduce((a, b) => a + b, 0) / last.length;
    return `${group.algorithm.name}: ${group.curves.length} runs, ${last.length ? short(mean) : "n/a"} at the end on average`;
  });
  return described(title, `${metric} by ${unit}. ${said.join("; ")}.`, { width, height }, ...parts);
}

// Draws anew whenever the width changes.
function fitted(label, draw) {
  const box = h("div", { class: "fitted" });
  let width = 0;
  const redraw = () => {
    if (width > 0) box.replaceChildren(draw(width));
  };
  new ResizeObserver((entries) => {
    const now = Math.floor(entries[0].contentRect.width);
    if (now === width) return;
    width = now;
    redraw();
  }).observe(box);
  return [box, redraw];
}
