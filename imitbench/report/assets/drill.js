// What opens below an environment: single runs, learning curves, and everything on one run.
// Every algorithm of the section has a group, in the order of its table; some have no run here.
function grouped(algorithms, runs) {
  const groups = new Map(algorithms.map((index) => [index, []]));
  for (const run of runs) groups.get(run.algorithm).push(run);
  return [...groups].map(([index, members]) => ({ algorithm: data.algorithms[index], runs: members }));
}

function curvesPart(environment, groups) {
  const counts = new Map();
  for (const group of groups)
    for (const run of group.runs)
      for (const curve of run.curves) counts.set(curve.metric, (counts.get(curve.metric) || 0) + 1);
  if (!counts.size) return h("p", { class: "ends" }, "No learning curves were recorded here.");
  const metrics = [...counts.keys()].sort((a, b) => compare(data.metrics[a], data.metrics[b], false));
  const preferred = data.metrics.indexOf(mostTelling(metrics.map((index) => data.metrics[index])));
  const options = metrics.map((index) => h("option", { value: index, selected: index === preferred }, data.metrics[index]));
  const select = h("select", {}, ...options);
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Algorithms shown" });
  const caption = h("figcaption", {});
  const off = new Set();
  const shown = () => {
    const metric = Number(select.value);
    return groups
      .map((group) => ({
        algorithm: group.algorithm,
        runs: group.runs,
        curves: group.runs.flatMap((run) =>
          run.curves.filter((curve) => curve.metric === metric && curve.steps.length).map((curve) => ({ ...curve, seed: run.seed }))),
      }))
      .filter((group) => group.curves.length);
  };
  const [box, redraw] = fitted("curves", (width) => {
    const name = data.metrics[Number(select.value)];
    const visible = shown().filter((group) => !off.has(group.algorithm));
    const unit = unitOf(visible.flatMap((group) => group.runs).map((run) => run.spec && run.spec.budget.unit));
    const lines = data.returns.includes(Number(select.value)) ? referenceLines(environment) : [];
    return curveChart(width, `${name} on ${environment.name}`, name, unit, visible, lines);
  });
  const refresh = () => {
    const present = shown();
    legend.replaceChildren(...present.map(({ algorithm }) => h("button", {
      type: "button",
      "aria-pressed": String(!off.has(algorithm)),
      onclick: (event) => {
        if (!off.delete(algorithm)) off.add(algorithm);
        event.currentTarget.setAttribute("aria-pressed", String(!off.has(algorithm)));
        redraw();
      },
    }, named(algorithm))));
    const curves = present.flatMap((group) => group.curves);
    const most = Math.max(...curves.map((curve) => curve.points));
    const kept = Math.max(...curves.map((curve) => curve.steps.length));
    const thinned = kept < most ? ` At most ${kept} of ${most} recorded points of a run are drawn.` : "";
    caption.textContent = `Thin lines: single runs; thick lines: their mean.${thinned}`;
    redraw();
  };
  select.addEventListener("change", refresh);
  refresh();
  return h("figure", {}, h("p", { class: "filter" }, h("label", {}, "Metric ", select)), legend, box, caption);
}

// The returns of the scores 0 and 1, if all runs here have the same.
function referenceLines({ references }) {
  const known = new Set(references.map(({ random, expert }) => `${random} ${expert}`));
  if (known.size !== 1) return [];
  const [{ random, expert, score_one: one = "expert" }] = references;
  if (one === "success") return []; // they are shares of episodes, not returns
  return [[one === "expert" ? "expert" : `score 1 (${one})`, expert], ["random", random]];
}

const RUN_COLUMNS = [
  ["Algorithm", false, (run) => data.algorithms[run.algorithm].name],
  ["Seed", true, (run) => run.seed, String],
  ["Raw return", true, (run) => run.raw, rawText],
  ["Score", true, (run) => run.score, (value) => fixed(value, 3)],
  ["Score, deterministic", true, (run) => run.deterministic, (value) => fixed(value, 3)],
  ["Episode length", true, (run) => run.length, (value) => fixed(value, 1)],
  ["Terminated", true, (run) => run.termination, (value) => (value == null ? "n/a" : `${fixed(100 * value, 0)}%`)],
  ["Env. steps", true, (run) => run.steps, short],
  ["Seconds", true, (run) => run.wall, (value) => fixed(value, 1)],
];

function runTable(environment, runs) {
  const head = RUN_COLUMNS.map(([label, number]) => h("th", { scope: "col", class: number && "number" }, label));
  head.push(h("th", { scope: "col", "data-fixed": true }, "Run"));
  const rows = runs.map((run) => {
    const cells = RUN_COLUMNS.map(([, number, value, show], place) => {
      const content = value(run);
      const attributes = { class: number && "number", "data-key": content };
      if (place === 0) {
        return h("th", { scope: "row", ...attributes }, named(data.algorithms[run.algorithm]));
      }
      return h("td", attributes, show(content));
    });
    const title = `${data.algorithms[run.algorithm].name}, seed ${run.seed}: all that is known on this run`;
    const button = h("button", { type: "button", class: "open", "aria-label": title, onclick: () => openRun(environment, run) }, run.id);
    return h("tr", { "data-run": run.id }, ...cells, h("td", {}, button));
  });
  const references = environment.references.map(
    ({ version, random, expert, score_one: one = "expert" }) => one === "success" ? `version ${version}: scores are shares of successful episodes` : `version ${version}: random ${rawText(random)}, ${one === "expert" ? "expert" : `score 1 (${one})`} ${rawText(expert)}`);
  const protocols = new Set(runs.filter((run) => run.spec).map((run) => run.spec.protocol.episodes));
  const episodes = protocols.size === 1 ? `${[...protocols][0]} episodes of the stochastic policy. ` : "";
  const caption = `One row for each run; raw returns are means over ${episodes || "evaluation episodes. "}References, ${references.join("; ") || "not recorded"}.`;
  const table = h("table", { class: "sortable runs" }, h("caption", {}, h("span", {}, caption)), h("thead", {}, h("tr", {}, ...head)), h("tbody", {}, ...rows));
  makeSortable(table);
  return h("div", { class: "scroll", role: "region", "aria-label": `Runs on ${environment.name}`, tabindex: 0 }, table);
}

function openRun(environment, run) {
  const dialog = document.getElementById("run");
  const name = data.algorithms[run.algorithm].name;
  const parts = [
    h("h2", { id: "run-title" }, `${name} on ${environment.name}, seed ${run.seed}`),
    factList([
      ["Run", run.id],
      ["Raw return", `${rawText(run.raw)}${run.spread == null ? "" : ` ± ${rawText(run.spread)} over episodes`}`],
      ["Score", fixed(run.score, 3)],
      ["Raw return, deterministic", run.rawDeterministic === undefined ? null : rawText(run.rawDeterministic)],
      ["Score, deterministic", fixed(run.deterministic, 3)],
      ["Episode length", fixed(run.length, 1)],
      ["Episodes terminated", run.termination == null ? null : `${fixed(100 * run.termination, 1)}%`],
      ["Environment steps", run.steps],
      ["Time", `${fixed(run.wall, 1)} s${run.train == null ? "" : `, ${fixed(run.train, 1)} s of it training`}`],
      ["Finished", run.finished],
    ]),
  ];
  if (run.spec) {
    const { hyperparameters, demos, expert, environment: setup, budget, protocol, ...rest } = run.spec;
    const sections = [
      ["Hyper-parameters", hyperparameters],
      ["Demonstrations", demos],
      ["Expert", expert],
      ["Set-up", { ...rest, environment: setup, budget, protocol }],
      ["Provenance", data.origins[run.origin]],
    ];
    for (const [title, record] of sections)
      if (record && Object.keys(record).length) parts.push(h("h3", {}, title), factList(flat(record)));
  }
  const close = h("button", { type: "button", class: "close", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(h("div", {}, close, ...parts));
  dialog.showModal();
  dialog.scrollTop = 0;
}

function drill(box) {
  const environment = data.sections[box.dataset.section].environments[box.dataset.environment];
  const runs = environment.runs.map((index) => data.runs[index]);
  if (!runs.length) {
    box.replaceChildren(h("p", {}, "No run was completed here."));
    return;
  }
  const groups = grouped(data.sections[box.dataset.section].algorithms, runs);
  const [chart] = fitted("runs", (width) => runChart(width, environment.name, groups, (run) => openRun(environment, run)));
  box.replaceChildren(
    h("h4", {}, "Scores of single runs"),
    chart,
    h("h4", {}, "Learning curves"),
    curvesPart(environment, groups),
    h("h4", {}, "All runs"),
    runTable(environment, runs),
  );
}
