// Charts of learning curves that grow: of one environment, or of two runs.
const MOST_POINTS = 400;
const MOST_RUNS = 60;

function thinned(curve) {
  const count = curve.steps.length;
  if (count <= MOST_POINTS) return { steps: curve.steps, values: curve.values };
  const places = Array.from({ length: MOST_POINTS }, (_, k) => Math.round((k * (count - 1)) / (MOST_POINTS - 1)));
  return { steps: places.map((at) => curve.steps[at]), values: places.map((at) => curve.values[at]) };
}

// Running runs first, and then of each algorithm as many as of the others.
function drawnFirst(runs) {
  const seen = new Map();
  const ranked = runs.filter((run) => run.state !== "waiting").map((run) => {
    const rank = seen.get(run.algo) || 0;
    seen.set(run.algo, rank + 1);
    return [run, run.state === "running" ? -1 : rank];
  });
  return ranked.sort(([, a], [, b]) => a - b).map(([run]) => run);
}

function setOptions(select, names, chosen) {
  if ([...select.options].map((option) => option.value).join("\n") !== names.join("\n"))
    select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
  if (select.value !== chosen) select.value = chosen;
}

// A chart of runs with a choice of metrics; `groupOf` gives a run's name and color. Where runs are
// compared, a metric that all of them have comes first.
function liveChart(titleOf, groupOf, comparing = false) {
  let runs = [];
  let chosen = null;
  let picked = false; // by the user; otherwise, a more telling metric may appear
  const off = new Set();
  const select = h("select", {});
  const legend = h("div", { class: "legend", role: "group", "aria-label": "Shown" });
  const caption = h("figcaption", {});
  const figure = h("figure", {}, h("p", { class: "filter" }, h("label", {}, "Metric ", select)), legend);
  const [box, redraw] = fitted("curves", draw);
  const nothing = h("p", { class: "ends" });
  figure.append(box, caption);
  const buttons = keeper((group) => h("button", {
    type: "button",
    "aria-pressed": String(!off.has(group.name)),
    onclick: (event) => {
      if (!off.delete(group.name)) off.add(group.name);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(group.name)));
      redraw();
    },
  }, named(group)));

  function groups() {
    const found = new Map();
    for (const run of runs) {
      const curve = curveOf(run, chosen);
      if (!curve || !curve.steps.length) continue;
      const algorithm = groupOf(run);
      if (!found.has(algorithm.name)) found.set(algorithm.name, { algorithm, curves: [], units: [] });
      found.get(algorithm.name).curves.push({ ...thinned(curve), seed: run.seed });
      found.get(algorithm.name).units.push(run.unit);
    }
    return [...found.values()];
  }

  function draw(width) {
    const visible = groups().filter((group) => !off.has(group.algorithm.name));
    return curveChart(width, `${chosen} ${titleOf()}`, chosen, unitOf(visible.flatMap((group) => group.units)), visible);
  }

  async function update(wanted) {
    runs = drawnFirst(wanted).slice(0, MOST_RUNS);
    const unnamed = runs.filter((run) => !metricNames.get(run.key)?.size);
    await askForCurves(unnamed, "");
    const metrics = metricsOf(runs);
    const shared = metrics.filter((name) => runs.every((run) => metricNames.get(run.key)?.has(name)));
    const offered = comparing && shared.length ? shared : metrics;
    if (!picked || !metrics.includes(chosen)) chosen = metrics.length ? mostTelling(offered) : null;
    setOptions(select, metrics, chosen);
    const news = chosen !== null && (await askForCurves(runs, chosen));
    const present = chosen === null ? [] : groups();
    figure.hidden = present.length === 0;
    nothing.hidden = present.length > 0;
    nothing.textContent = wanted.some((run) => run.state === "running") ? "No points of the curves so far." : "No learning curves are recorded here.";
    place(legend, buttons(present.map((group) => group.algorithm), (group) => group.name, (group) => group));
    const points = present.reduce((sum, group) => sum + group.curves.length, 0);
    const begun = wanted.filter((run) => run.state !== "waiting").length;
    const left = begun - points;
    caption.textContent = `Thin lines: single runs; thick lines: their mean. ${points} of ${begun} runs are drawn${left ? `: others do not record this metric, or are more than ${MOST_RUNS}` : ""}.`;
    const mark = JSON.stringify([chosen, ...present.map((group) => group.algorithm.name)]);
    if (news || mark !== drawn) redraw();
    drawn = mark;
  }
  let drawn = "";

  select.addEventListener("change", () => {
    chosen = select.value;
    picked = true;
    update(runs).then(redraw, loseConnection);
  });
  return { element: h("div", {}, figure, nothing), update, redraw };
}

function curvesView(section) {
  let chosen = null;
  const select = h("select", {});
  const chart = liveChart(() => `on ${chosen}`, algorithmOf);
  const empty = h("p", {}, "No run has begun.");
  const field = h("p", { class: "filter" }, h("label", {}, "Environment ", select));
  section.append(field, chart.element, empty);
  const begun = () => allRuns().filter((run) => run.state !== "waiting");
  const nameOf = (run) => `${run.suite}: ${run.env}`;

  async function show() {
    const runs = begun();
    const names = [...new Set(runs.map(nameOf))].sort();
    if (!names.includes(chosen)) chosen = nameOf(runs.find((run) => run.state === "running") || runs[0] || { suite: "", env: "" });
    setOptions(select, names, chosen);
    empty.hidden = runs.length > 0;
    field.hidden = chart.element.hidden = runs.length === 0;
    await chart.update(runs.filter((run) => nameOf(run) === chosen));
  }
  select.addEventListener("change", () => {
    chosen = select.value;
    show().then(chart.redraw, loseConnection);
  });
  return show;
}
