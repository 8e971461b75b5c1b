// What the page knows of the runs, and how it asks the server for what is new.
const POLL_MS = 2000;
const BATCH = 20;
const STATES = ["done", "running", "failed", "interrupted", "waiting"];
const MOVING = ["running", "interrupted"];

const known = { session: "", version: 0, runs: new Map(), complete: false, missing: false, outlook: {}, lost: "" };
let colors = {};

async function ask(path, parameters) {
  const response = await fetch(`${path}?${new URLSearchParams(parameters)}`, { cache: "no-store" });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

async function askForRuns() {
  const { session, version } = known;
  const news = await ask("api/runs", { session, version });
  if (news.whole) known.runs.clear();
  for (const key of news.gone) known.runs.delete(key);
  for (const row of news.rows) known.runs.set(row.key, row);
  colors = news.colors;
  Object.assign(known, { session: news.session, version: news.version, complete: news.complete, missing: news.missing, outlook: news.outlook });
  return news.whole || news.rows.length + news.gone.length > 0;
}

function allRuns() {
  return [...known.runs.values()];
}

function algorithmOf(run) {
  return { name: run.algo, color: colors[run.algo] ?? null };
}

function labelOf(run) {
  return `${run.algo} on ${run.env}${run.seed === null ? "" : `, seed ${run.seed}`}`;
}

// Curves by run and metric: points are only ever added, unless a run starts again.
const curves = new Map();
const metricNames = new Map();

function curveOf(run, metric) {
  return curves.get(`${run.key} ${metric}`);
}

async function askForCurves(runs, metric) {
  const due = runs.filter((run) => {
    const curve = curveOf(run, metric);
    return run.state !== "waiting" && (!curve || curve.row !== run || run.state === "running");
  });
  let news = false;
  for (let place = 0; place < due.length; place += BATCH) {
    const batch = due.slice(place, place + BATCH);
    const parameters = [["metric", metric]];
    for (const run of batch) parameters.push(["run", run.key], ["token", curveOf(run, metric)?.token || ""]);
    const parts = await ask("api/curves", parameters);
    for (const run of batch) news = addPart(run, metric, parts[run.key]) || news;
  }
  return news;
}

function addPart(run, metric, part) {
  const old = curveOf(run, metric);
  const curve = part && (part.whole || !old) ? { steps: [], values: [] } : old || { steps: [], values: [] };
  curve.row = run;
  curves.set(`${run.key} ${metric}`, curve);
  if (!part) return !old;
  curve.token = part.token;
  curve.steps.push(...part.steps);
  curve.values.push(...part.values);
  if (!metricNames.has(run.key)) metricNames.set(run.key, new Set());
  const names = metricNames.get(run.key);
  for (const name of part.metrics) if (name !== "step") names.add(name);
  return part.whole || part.steps.length > 0;
}

function metricsOf(runs) {
  const names = new Set(runs.flatMap((run) => [...(metricNames.get(run.key) || [])]));
  return [...names].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
}
