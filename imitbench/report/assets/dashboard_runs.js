// The views of runs: overview, list, failures, videos, two runs side by side, and one run alone.
const compared = [];

function stateMark(run) {
  return h("span", { class: `state state-${run.state}` }, run.state);
}

function stepsText(run) {
  if (run.step === null || !run.total) return "";
  return `${short(run.step)} of ${short(run.total)}`;
}

function openButton(run) {
  const label = `${labelOf(run)}: all that is known on this run`;
  return h("button", { type: "button", class: "open", "aria-label": label, onclick: () => openRun(run.key) }, run.run_id);
}

const COLUMNS = {
  algo: { label: "Algorithm", value: (run) => run.algo, mark: (run) => [run.algo, colors[run.algo]], cell: (run) => named(algorithmOf(run)) },
  env: { label: "Environment", value: (run) => run.env },
  seed: { label: "Seed", number: true, value: (run) => run.seed },
  state: { label: "State", value: (run) => run.state, cell: stateMark },
  score: { label: "Score", number: true, value: (run) => run.score, cell: (run) => (run.state === "done" && run.raw !== null ? fixed(run.score, 3) : "") },
  raw: { label: "Raw return", number: true, value: (run) => run.raw, cell: (run) => (run.raw === null ? "" : rawText(run.raw)) },
  wall: { label: "Time", number: true, value: (run) => run.wall, cell: (run) => (run.wall === null ? "" : lasting(run.wall)) },
  phase: { label: "Phase", value: (run) => run.phase },
  at: { label: "Last report", value: (run) => run.at, cell: (run) => h("span", { class: "progress" }, clock(run.at)) },
  run: { label: "Run", fixed: true, value: (run) => run.run_id, cell: openButton },
  error: { label: "Message", value: (run) => run.error },
  progress: {
    label: "Progress",
    number: true,
    value: (run) => (run.step === null || !run.total ? null : run.step / run.total),
    cell: (run) => h("span", { class: "progress" }, run.step !== null && run.total ? shareBar([["running", Math.min(1, run.step / run.total)]], stepsText(run)) : null, stepsText(run)),
  },
};

function cellsOf(runs) {
  const cells = new Map();
  for (const run of runs) {
    const key = JSON.stringify([run.suite, run.algo, run.env, run.conditions]);
    if (!cells.has(key)) cells.set(key, { key, suite: run.suite, algo: run.algo, env: run.env, conditions: run.conditions, counts: {}, scores: [], size: 0 });
    const cell = cells.get(key);
    cell.size += 1;
    cell.counts[run.state] = (cell.counts[run.state] || 0) + 1;
    if (run.score !== null) cell.scores.push(run.score);
  }
  return [...cells.values()].sort((a, b) => a.key.localeCompare(b.key));
}

function overviewView(section) {
  const mean = (cell) => (cell.scores.length ? cell.scores.reduce((a, b) => a + b, 0) / cell.scores.length : null);
  const shares = (cell) => STATES.map((state) => [state, (cell.counts[state] || 0) / cell.size]);
  const said = (cell) => STATES.filter((state) => cell.counts[state]).map((state) => `${cell.counts[state]} ${state}`).join(", ");
  const cells = liveTable({
    name: "Progress by algorithm and environment",
    caption: "One row for each algorithm on each environment under the same conditions; mean scores are over finished runs.",
    keyOf: (cell) => cell.key,
    columns: [
      COLUMNS.algo,
      COLUMNS.env,
      { label: "Suite", value: (cell) => cell.suite },
      { label: "Conditions", value: (cell) => cell.conditions },
      { label: "Runs", value: said, mark: shares, cell: (cell) => h("span", { class: "progress" }, shareBar(shares(cell), said(cell)), said(cell)) },
      { label: "Mean score", number: true, value: mean, cell: (cell) => (cell.scores.length ? fixed(mean(cell), 3) : "") },
    ],
  });
  const running = liveTable({
    name: "Running now",
    caption: "What the runs report: their phase, and how much of the budget is spent.",
    keyOf: (run) => run.key,
    columns: [COLUMNS.algo, COLUMNS.env, COLUMNS.seed, COLUMNS.phase, COLUMNS.progress, COLUMNS.at, COLUMNS.run],
  });
  const heading = h("h3", {}, "Running now");
  section.append(heading, running.element, h("h3", {}, "Progress"), cells.element);
  return () => {
    const now = allRuns().filter((run) => run.state === "running");
    heading.textContent = now.length ? "Running now" : "Nothing is running";
    running.show(now);
    cells.show(cellsOf(allRuns()));
  };
}

function runsView(section) {
  const off = new Set();
  const field = h("input", { type: "search", placeholder: "algorithm, environment, run id" });
  const count = h("output", { "aria-live": "polite" });
  const chips = h("div", { class: "legend", role: "group", "aria-label": "States shown" });
  const button = h("button", { type: "button", class: "press", onclick: () => { location.hash = compareHash(); } }, "Compare");
  const table = liveTable({
    name: "Runs",
    caption: "Mark two runs to compare them. Scores are of the stochastic policy after training.",
    keyOf: (run) => run.key,
    columns: [
      COLUMNS.algo, COLUMNS.env, COLUMNS.seed, COLUMNS.state, COLUMNS.score, COLUMNS.raw, COLUMNS.progress, COLUMNS.wall, COLUMNS.at, COLUMNS.run,
      { label: "Compare", fixed: true, value: (run) => compared.includes(run.key), cell: mark },
    ],
  });
  section.append(h("p", { class: "filter" }, h("label", {}, "Filter ", field), " ", count), chips, h("p", {}, button), table.element);
  const states = keeper(([state, number]) => h("button", {
    type: "button",
    "aria-pressed": String(!off.has(state)),
    onclick: (event) => {
      if (!off.delete(state)) off.add(state);
      event.currentTarget.setAttribute("aria-pressed", String(!off.has(state)));
      show();
    },
  }, h("span", { class: `state state-${state}` }, state), ` ${number}`));

  function mark(run) {
    const label = `Compare ${labelOf(run)}`;
    const box = h("input", { type: "checkbox", "aria-label": label, checked: compared.includes(run.key) });
    box.addEventListener("change", () => {
      const at = compared.indexOf(run.key);
      if (at >= 0) compared.splice(at, 1);
      else compared.push(run.key);
      if (compared.length > 2) compared.shift();
      show();
    });
    return box;
  }

  function show() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const runs = allRuns();
    const counts = STATES.map((state) => [state, runs.filter((run) => run.state === state).length]);
    place(chips, states(counts.filter(([, number]) => number), ([state]) => state, (each) => each));
    const shown = runs.filter((run) => {
      if (off.has(run.state)) return false;
      const said = `${run.suite} ${run.algo} ${run.env} ${run.run_id}`.toLowerCase();
      return words.every((word) => said.includes(word));
    });
    count.textContent = shown.length < runs.length ? `${shown.length} of ${runs.length} runs` : "";
    button.disabled = compared.length !== 2;
    button.textContent = compared.length === 2 ? "Compare the two marked runs" : "Compare: mark two runs";
    const order = (run) => (run.state === "running" ? 0 : run.state === "failed" ? 1 : run.state === "done" ? 2 : 3);
    table.show(shown.sort((a, b) => order(a) - order(b) || String(b.at || "").localeCompare(String(a.at || "")) || a.key.localeCompare(b.key)));
  }
  field.addEventListener("input", show);
  return show;
}

function failuresView(section) {
  const none = h("p", {}, "No run has failed.");
  const box = h("div", {});
  section.append(none, box);
  const tables = new Map();
  const groups = keeper(({ kind, runs }) => {
    const table = liveTable({
      name: kind,
      caption: "Placeholders in the heading stand for what differs between these runs.",
      keyOf: (run) => run.key,
      classes: "failed",
      columns: [COLUMNS.algo, COLUMNS.env, COLUMNS.seed, COLUMNS.phase, COLUMNS.error, COLUMNS.at, COLUMNS.run],
    });
    tables.set(kind, table);
    const count = h("span", { class: "bad" });
    const element = h("details", { class: "environment", open: true }, h("summary", {}, count, " ", h("code", {}, kind)), h("div", { class: "drill" }, table.element));
    element.count = count;
    return element;
  });
  return () => {
    const kinds = new Map();
    for (const run of allRuns()) {
      if (run.kind === null) continue;
      if (!kinds.has(run.kind)) kinds.set(run.kind, []);
      kinds.get(run.kind).push(run);
    }
    const found = [...kinds].map(([kind, runs]) => ({ kind, runs })).sort((a, b) => b.runs.length - a.runs.length);
    none.hidden = found.length > 0;
    const elements = groups(found, (group) => group.kind, (group) => group.kind);
    place(box, elements);
    found.forEach(({ kind, runs }, at) => {
      elements[at].count.textContent = `${runs.length} ×`;
      tables.get(kind).show(runs);
    });
  };
}

function videoFigure(video) {
  const run = known.runs.get(video.run);
  const said = run ? labelOf(run) : video.file;
  const source = `video?${new URLSearchParams({ file: video.file })}`;
  return h("figure", { class: "video" },
    h("video", { controls: true, preload: "metadata", src: source, "aria-label": said }),
    h("figcaption", {}, run ? h("span", {}, said, " ", openButton(run)) : null, h("code", {}, video.file), ` ${clock(1000 * video.changed)}`));
}

function videosView(section) {
  const box = h("div", { class: "videos" });
  const none = h("p", {}, "No videos here. ", h("code", {}, "imitbench eval RUN --video DIR/videos/RUN.mp4"), " records one, where DIR is this folder and RUN the id of a run.");
  section.append(box, none);
  const figures = keeper(videoFigure);
  let askedAt = 0;
  return async () => {
    if (Date.now() - askedAt < 5 * POLL_MS && box.firstChild) return;
    askedAt = Date.now();
    const videos = await ask("api/videos", {});
    none.hidden = videos.length > 0;
    place(box, figures(videos, (video) => video.file, (video) => [video, known.runs.has(video.run)]));
  };
}

function compareHash() {
  return `compare=${compared.map(encodeURIComponent).join("&")}`;
}

function specRows(details) {
  const rows = new Map();
  const walk = (name, value) => {
    if (value !== null && typeof value === "object" && !Array.isArray(value))
      for (const [key, inner] of Object.entries(value)) walk(name ? `${name}.${key}` : key, inner);
    else rows.set(name, typeof value === "string" ? value : JSON.stringify(value));
  };
  walk("", details.spec || {});
  return rows;
}

function compareView(section) {
  const hint = h("p", {}, "Mark two runs in the list of ", h("a", { href: "#runs" }, "runs"), ", and press Compare.");
  const box = h("div", {});
  section.append(hint, box);
  let shown = "";

  function table(title, names, rows) {
    const head = h("tr", {}, h("th", { scope: "col" }, title), ...names.map((name) => h("th", { scope: "col" }, name)));
    const body = rows.map(([name, ...values]) => h("tr", {}, h("th", { scope: "row" }, name), ...values.map((value) => h("td", {}, value))));
    return h("div", { class: "scroll", role: "region", "aria-label": title, tabindex: 0 }, h("table", { class: "pairs" }, h("thead", {}, head), h("tbody", {}, ...body)));
  }

  async function build(keys) {
    const both = await Promise.all(keys.map((key) => ask("api/run", { key })));
    const names = keys.map((key) => labelOf(known.runs.get(key)));
    if (names[0] === names[1]) keys.forEach((key, at) => { names[at] += ` (${known.runs.get(key).run_id})`; });
    const [first, second] = both.map(specRows);
    const fields = [...new Set([...first.keys(), ...second.keys()])].filter((name) => first.get(name) !== second.get(name));
    const different = fields.map((name) => [name, first.get(name) ?? "—", second.get(name) ?? "—"]);
    const of = (title, read) => [title, ...both.map(({ result, ...details }) => (result ? read(result, details) : "no result"))];
    const scores = [
      ["State", ...keys.map((key) => known.runs.get(key).state)],
      of("Score", (_, details) => fixed(details.score, 3)),
      of("Score, deterministic", (_, details) => fixed(details.score_deterministic, 3)),
      of("Raw return", (result) => `${rawText(result.raw_return)} ± ${rawText(result.return_std)} over episodes`),
      of("Raw return, deterministic", (result) => rawText(result.deterministic_return)),
      of("Episode length", (result) => fixed(result.mean_length, 1)),
      of("Environment steps", (result) => short(result.env_steps)),
      of("Time", (result) => lasting(result.wall_s)),
    ];
    const chart = liveChart(() => "of two runs", (run) => ({ name: names[keys.indexOf(run.key)], color: keys.indexOf(run.key) }), true);
    box.replaceChildren(
      h("h3", {}, "Scores"), table("Outcome", names, scores),
      h("h3", {}, "Learning curves"), chart.element,
      h("h3", {}, "Differences of the specifications"),
      different.length ? table("Field", names, different) : h("p", {}, "The specifications are the same."));
    return chart;
  }

  let chart = null;
  return async () => {
    const keys = (location.hash.split("=")[1] || "").split("&").filter(Boolean).map(decodeURIComponent);
    const runs = keys.map((key) => known.runs.get(key));
    const ready = keys.length === 2 && runs.every(Boolean);
    hint.hidden = ready;
    box.hidden = !ready;
    if (!ready) return;
    const mark = JSON.stringify(runs.map((run) => [run.key, run.state, run.raw]));
    if (mark !== shown) {
      chart = await build(keys);
      shown = mark;
    }
    await chart.update(runs);
  };
}

function textBlock(title, lines) {
  return lines.length ? [h("h3", {}, title), h("pre", { tabindex: 0, role: "region", "aria-label": title }, lines.join("\n"))] : [];
}

async function openRun(key) {
  const run = known.runs.get(key);
  if (!run) return;
  const dialog = document.getElementById("run");
  const details = await ask("api/run", { key }).catch((error) => ({ problems: [error.message], log: [], videos: [] }));
  const { spec, result, failure, status } = details;
  const parts = [
    h("h2", { id: "run-title" }, labelOf(run)),
    factList([
      ["Run", run.run_id],
      ["State", run.state],
      ["Folder", details.folder],
      ["Cannot be read", details.problems.join("; ")],
      ["Phase", status && run.state !== "done" ? status.phase : null],
      ["Progress", stepsText(run)],
      ["Host", status && `${status.host}, process ${status.pid}, attempt ${status.attempt}`],
      ["Score", result && fixed(details.score, 3)],
      ["Score, deterministic", result && fixed(details.score_deterministic, 3)],
      ["Raw return", result && `${rawText(result.raw_return)} ± ${rawText(result.return_std)} over episodes`],
      ["Episode length", result && fixed(result.mean_length, 1)],
      ["Time", result && lasting(result.wall_s)],
      ["Finished", result && clock(result.finished_at)],
      ["Failed", failure && `${failure.phase}, ${clock(failure.failed_at)}`],
    ]),
    ...(failure ? textBlock("Failure", [`${failure.error_type}: ${failure.message}`, "", failure.traceback]) : []),
    ...details.videos.map(videoFigure),
    ...textBlock("End of the log", details.log),
  ];
  if (spec) {
    const { hyperparameters, demos, expert, environment, budget, protocol, ...rest } = spec;
    const sections = [["Hyper-parameters", hyperparameters], ["Demonstrations", demos], ["Expert", expert], ["Set-up", { ...rest, environment, budget, protocol }]];
    if (result) sections.push(["Further measurements", result.measures]);
    if (result || failure) sections.push(["Provenance", (result || failure).provenance]);
    for (const [title, record] of sections)
      if (record && Object.keys(record).length) parts.push(h("h3", {}, title), factList(flat(record)));
  }
  const close = h("button", { type: "button", class: "close", onclick: () => dialog.close() }, "Close");
  dialog.replaceChildren(h("div", {}, close, ...parts));
  dialog.showModal();
  dialog.scrollTop = 0;
}
