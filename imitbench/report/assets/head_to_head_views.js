// What the page of comparisons shows of chosen methods; all numbers are in its data.
const VERDICTS = { 1: "better", "-1": "worse", 0: "undecided" };
const scaleNames = document.getElementById("scale").dataset;
const ANCHORS = [{ at: 0, name: scaleNames.zero }, { at: 1, name: scaleNames.one }];

function signed(value, digits = 3) {
  return value === null ? "n/a" : `${value > 0 ? "+" : ""}${fixed(value, digits)}`;
}

function ends(low, high, digits = 3) {
  return low === null || high === null ? "[n/a]" : `[${fixed(low, digits)}, ${fixed(high, digits)}]`;
}

// The pair of two entries of a table, from the side of the first; null without a common environment.
function pairOf(table, first, second) {
  const [i, j] = first < second ? [first, second] : [second, first];
  const count = table.entries.length;
  const found = table.pairs[(i * (2 * count - i - 1)) / 2 + (j - i - 1)];
  if (!found) return null;
  const [sampled, lacking, environments, iqm, low, high, p, pLow, pHigh, likely, point, from, to, margins] = found;
  const minus = (value) => (value === null ? null : -value);
  const rest = (value) => (value === null ? null : 1 - value);
  const same = { lacking, environments, margins };
  const of = (...ways) => {
    const known = ways.filter((way) => way !== null);
    return { decision: known.every((way) => way === known[0]) ? known[0] : 0, ways: known };
  };
  if (first < second) return { ...same, ...of(sampled, likely), iqm: [iqm, low, high], quiet: [point, from, to], p: [p, pLow, pHigh] };
  return { ...same, ...of(-sampled, minus(likely)), iqm: [minus(iqm), minus(high), minus(low)], quiet: [minus(point), minus(to), minus(from)], p: [rest(p), rest(pHigh), rest(pLow)] };
}

// In which ways of acting a pair is decided, if that depends on them.
function waysOf(pair) {
  if (pair.ways.length < 2 || pair.ways[0] === pair.ways[1]) return "";
  return pair.ways.flatMap((way, place) => (way ? [`${VERDICTS[way]} if ${["sampled", "likely"][place]}`] : [])).join(", ");
}

function difference(table, first, second, environment) {
  const [one, other] = [first, second].map((place) => table.entries[place].cells[environment]);
  if (one === null || other === null) return null;
  const pair = pairOf(table, first, second);
  const margin = pair ? pair.margins[environment] : null;
  const value = one[0] - other[0];
  return { value, low: margin === null ? null : value - margin, high: margin === null ? null : value + margin };
}

// A name with its submitter, where the table has the method twice.
function nameOf(entry) {
  return h("span", {}, named(entry), entry.twice ? h("span", { class: "ends" }, ` ${entry.who}`) : null);
}

function scrolling(label, ...children) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, ...children);
}

function matrix(label, table, chosen, cell) {
  const head = h("tr", {}, h("th", { scope: "col" }, "Row against column"),
    ...chosen.map((place) => h("th", { scope: "col" }, nameOf(table.entries[place]))));
  const rows = chosen.map((first) => h("tr", {}, h("th", { scope: "row" }, nameOf(table.entries[first])),
    ...chosen.map((second) => {
      const shown = first === second ? h("td", { class: "self" }, "—") : cell(first, second);
      shown.dataset.label = table.entries[second].label; // for phones, where cells stand below each other
      return shown;
    })));
  return scrolling(label, h("table", { class: "matrix pairs" }, h("thead", {}, head), h("tbody", {}, ...rows)));
}

function over(pair, table) {
  const [count, all] = [pair.environments, table.environments.length];
  return count === all ? "" : `over ${count} of ${all} environments`;
}

function verdictView(table, chosen) {
  const parts = [];
  if (chosen.length === 2) parts.push(sentence(table, ...chosen));
  parts.push(matrix("Verdicts", table, chosen, (first, second) => {
    const pair = pairOf(table, first, second);
    if (!pair) return h("td", { class: "ends" }, "no common environment");
    const said = VERDICTS[pair.decision];
    const shade = pair.decision > 0 ? "h9" : pair.decision < 0 ? "h1" : "";
    const why = pair.lacking ? `too few runs: ${pair.lacking} more of each` : over(pair, table);
    const differing = waysOf(pair);
    const quiet = pair.ways.length > 1 ? [h("br"), signed(pair.quiet[0]), h("br"), ends(pair.quiet[1], pair.quiet[2])] : [];
    return h("td", { class: shade }, h(pair.decision ? "strong" : "span", {}, said), h("br"),
      differing ? h("span", { class: "ends" }, differing, h("br")) : null,
      h("span", { class: "ends" }, signed(pair.iqm[0]), h("br"), ends(pair.iqm[1], pair.iqm[2]), ...quiet),
      why ? h("br") : null, why ? h("span", { class: "ends" }, why) : null);
  }));
  const [first, ...others] = chosen.map((place) => table.entries[place].typed);
  // No command takes a name for one method if it has commas.
  if ([first, ...others].includes(null)) return parts;
  const quoted = (name) => (/^[\w./-]+$/.test(name) ? name : `'${name.replaceAll("'", "'\\''")}'`);
  const line = ["imitbench compare", quoted(first), ...others.map((name) => `--baseline ${quoted(name)}`), "--out leaderboard.json"];
  parts.push(h("p", { class: "said" }, "The same from the terminal, where several baselines are corrected for: ", h("code", {}, line.join(" "))));
  return parts;
}

function sentence(table, first, second) {
  const pair = pairOf(table, first, second);
  const [one, other] = [table.entries[first], table.entries[second]];
  if (!pair) return h("p", { class: "lead" }, nameOf(one), " and ", nameOf(other), " have no environment in common.");
  const verdict = pair.decision === 0
    ? [nameOf(one), " and ", nameOf(other), " cannot be told apart"]
    : [nameOf(one), h("strong", {}, ` is ${VERDICTS[pair.decision]} than `), nameOf(other)];
  const where = over(pair, table);
  const differing = waysOf(pair);
  if (differing) verdict.push(` (${differing})`);
  return h("p", { class: "lead" }, ...verdict,
    `: interquartile mean ${signed(pair.iqm[0])} ${ends(pair.iqm[1], pair.iqm[2])}, probability of improvement ${fixed(pair.p[0], 2)} ${ends(pair.p[1], pair.p[2], 2)}${where ? `, ${where}` : ""}.`);
}

function improvementView(table, chosen) {
  return [matrix("Probability of improvement", table, chosen, (first, second) => {
    const pair = pairOf(table, first, second);
    if (!pair || pair.p[0] === null) return h("td", { class: "ends" }, "n/a");
    const clear = pair.p[1] !== null && (pair.p[1] > 0.5 || pair.p[2] < 0.5);
    return h("td", { class: `h${Math.round(10 * Math.min(1, Math.max(0, pair.p[0])))}` },
      h(clear ? "strong" : "span", {}, fixed(pair.p[0], 2)), h("br"), h("span", { class: "ends" }, ends(pair.p[1], pair.p[2], 2)));
  })];
}

function leftOut(table, places, why) {
  if (!places.length) return [];
  const names = places.flatMap((place, number) => [number ? ", " : "", nameOf(table.entries[place])]);
  return [h("p", { class: "ends" }, `${why}: `, ...names)];
}

// Entries with the same color differ by their dashes.
function dashes(table, chosen) {
  const seen = {};
  return new Map(chosen.map((place) => {
    const { color } = table.entries[place];
    const shape = color === null ? 0 : Math.floor(color / SHAPE_SIZE);
    const hue = color === null ? "none" : color % SHAPE_SIZE;
    seen[hue] = (seen[hue] ?? -1) + 1;
    return [place, Math.max(shape, seen[hue]) % 4];
  }));
}

function profileView(table, chosen) {
  const [low, high, count] = table.thresholds;
  const x = Array.from({ length: count }, (_, place) => low + ((high - low) * place) / (count - 1));
  const dash = dashes(table, chosen);
  const drawn = chosen.filter((place) => table.entries[place].profile);
  const series = drawn.map((place) => {
    const entry = table.entries[place];
    const [y, bottom, top] = entry.profile;
    return { algorithm: entry, x, y, low: bottom, high: top, line: true, band: true, dash: dash.get(place) };
  });
  const half = x.findIndex((value) => value >= 0.5);
  const detail = drawn.map((place) => `${table.entries[place].name}: ${fixed(100 * table.entries[place].profile[0][half], 0)} % above 0.5`);
  const chart = (width) => xyChart(width, { title: "Performance profiles", detail: detail.join("; "), x: { label: "score τ" },
    y: { label: "share of runs above τ", domain: [-0.02, 1.02] }, anchors: [], series });
  const missing = chosen.filter((place) => !table.entries[place].profile);
  return [...(series.length ? [fitted("profile", chart)[0]] : []), ...leftOut(table, missing, "Not on every environment")];
}

function environmentView(table, chosen, state, choose) {
  const base = chosen.includes(state.base) ? state.base : chosen[0];
  const others = chosen.filter((place) => place !== base);
  const select = h("select", { onchange: (event) => choose("base", table.entries[event.target.value].key) },
    ...chosen.map((place) => h("option", { value: place, selected: place === base }, table.entries[place].label)));
  const groups = table.environments.map((name, environment) => ({
    name,
    entries: others.flatMap((place) => {
      const found = difference(table, place, base, environment);
      const algorithm = table.entries[place];
      return found ? [{ ...found, algorithm, said: `${algorithm.name}: ${signed(found.value)} ${ends(found.low, found.high)}` }] : [];
    }),
  }));
  const drawn = groups.filter((group) => group.entries.length);
  const detail = drawn.map((group) => `${group.name}: ${group.entries.map((entry) => entry.said).join("; ")}`).join(". ");
  const chart = (width) => differenceChart(width, { title: `Differences from ${table.entries[base].name}`, detail, label: `score minus that of ${table.entries[base].name}`, groups: drawn });
  const head = h("tr", {}, h("th", { scope: "col" }, "Environment"), h("th", { scope: "col", class: "number" }, nameOf(table.entries[base])),
    ...others.map((place) => h("th", { scope: "col", class: "number" }, nameOf(table.entries[place]))));
  const rows = table.environments.map((name, environment) => {
    const mean = table.entries[base].cells[environment];
    return h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "number" }, mean ? fixed(mean[0], 3) : "n/a"),
      ...others.map((place) => {
        const found = difference(table, place, base, environment);
        if (!found) return h("td", { class: "number" }, "n/a");
        const clear = found.low !== null && (found.low > 0 || found.high < 0);
        return h("td", { class: "number" }, h(clear ? "strong" : "span", {}, signed(found.value)), " ", h("span", { class: "ends" }, ends(found.low, found.high)));
      }));
  });
  for (const { cells } of rows) // for phones, where cells stand below each other
    [base, ...others].forEach((place, at) => { cells[at + 1].dataset.label = table.entries[place].label; });
  const numbers = h("details", { open: chosen.length === 2 || null }, h("summary", {}, "The same as a table"),
    scrolling("Differences by environment", h("table", { class: "differences" }, h("thead", {}, head), h("tbody", {}, ...rows))));
  return [h("p", { class: "filters" }, h("label", {}, "Against ", select)), ...(drawn.length ? [fitted("differences", chart)[0]] : []), numbers];
}

function curveView(table, chosen, state, choose) {
  const some = chosen.filter((place) => table.entries[place].curves);
  if (!some.length) return [h("p", {}, "No learning curves of returns are published for these methods.")];
  const places = table.environments.map((_, place) => String(place)).filter((place) => some.some((each) => table.entries[each].curves.by[place]));
  const whole = some.some((place) => table.entries[place].curves.whole) ? ["whole"] : [];
  const at = [...whole, ...places].includes(state.env) ? state.env : [...whole, ...places][0];
  const select = h("select", { onchange: (event) => choose("env", event.target.value === "whole" ? "" : table.environments[event.target.value]) },
    ...whole.map(() => h("option", { value: "whole", selected: at === "whole" }, "all environments")),
    ...places.map((place) => h("option", { value: place, selected: at === place }, table.environments[place])));
  const known = (place) => {
    const { curves } = table.entries[place];
    if (at === "whole") return curves.whole;
    return curves.counts ? curves.by[at] : null;
  };
  const dash = dashes(table, chosen);
  const series = some.filter(known).map((place) => {
    const entry = table.entries[place];
    const [first, last, runs, y, low, high] = known(place);
    const x = y.map((_, step) => first + (y.length > 1 ? ((last - first) * step) / (y.length - 1) : 0));
    return { algorithm: entry, x, y, low, high, line: true, band: true, dots: y.length === 1, dash: dash.get(place), said: `${entry.name}, mean of ${runs} runs` };
  });
  const detail = series.map((entry) => `${entry.algorithm.name}: ${fixed(entry.y[entry.y.length - 1], 2)} at the end`).join("; ");
  const label = at === "whole" ? "share of the training budget" : "environment steps";
  const chart = (width) => xyChart(width, { title: "Learning curves", detail, x: { label, format: at === "whole" ? (tick) => `${fixed(100 * tick, 0)} %` : null },
    y: { label: "score" }, anchors: ANCHORS, series });
  const missing = chosen.filter((place) => !some.includes(place) || !known(place));
  return [h("p", { class: "filters" }, h("label", {}, "Environment ", select)), ...(series.length ? [fitted("curves", chart)[0]] : []),
    ...leftOut(table, missing, "No curve of returns by these steps is published")];
}

// The entries of other tables with scores on the same scale, of the same method and submitter.
function alike(tables, table, key) {
  return tables.filter((each) => each.group === table.group)
    .flatMap((each) => each.entries.filter((entry) => entry.key === key).map((entry) => ({ entry, table: each })));
}

function regimeView(table, chosen, state, choose, tables, frontiers, regimes) {
  const dash = dashes(table, chosen);
  const of = (own) => alike(tables, table, own.key)
    .filter(({ entry, table: at }) => at.regime && entry.demos !== null && entry.budget === own.budget && entry.sound === own.sound);
  const shown = chosen.map((place) => [place, of(table.entries[place])]).filter(([, found]) => found.length);
  const names = regimes.filter((name) => shown.some(([, found]) => found.some((each) => each.table.regime === name)));
  const series = shown.map(([place, found]) => {
    const own = table.entries[place];
    const at = (each) => names.indexOf(each.table.regime);
    found.sort((a, b) => at(a) - at(b));
    return { algorithm: own, x: found.map(at), y: found.map(({ entry }) => entry.iqm[0]),
      low: found.map(({ entry }) => entry.iqm[1]), high: found.map(({ entry }) => entry.iqm[2]), line: true, dots: true, dash: dash.get(place),
      hints: found.map(({ entry, table: { regime } }) => `${own.name}, ${regime}: ${fixed(entry.iqm[0], 3)} ${ends(entry.iqm[1], entry.iqm[2])}`) };
  });
  const without = chosen.filter((place) => table.entries[place].demos === null);
  if (!series.length) return [h("p", {}, "None of these methods uses demonstrations.")];
  const detail = series.map((entry) => entry.hints.join("; ")).join("; ");
  const chart = (width) => xyChart(width, { title: "Score by regime", detail, x: { label: "demonstrations", names }, y: { label: "IQM score" }, anchors: ANCHORS, series });
  return [fitted("regimes", chart)[0],
    ...(names.length === 1 ? [h("p", { class: "ends" }, "Only one regime is published at this budget.")] : []),
    ...leftOut(table, without, "Without demonstrations")];
}

const COST_LABELS = { hours: "core-hours of training per run", steps: "environment steps per run" };

function costView(table, chosen, state, choose, tables, frontiers) {
  const cost = state.cost === "steps" ? "steps" : "hours";
  const keys = new Set(chosen.map((place) => table.entries[place].key));
  const same = tables.filter((each) => each.group === table.group);
  const others = same.flatMap((each) => each.entries.filter((entry) => !keys.has(entry.key) && entry.role === "method" && entry.sound && entry[cost] !== null)
    .map((entry) => ({ entry, table: each })));
  const hint = ({ entry, table: at }) => `${entry.name} (${at.title}): ${fixed(entry.iqm[0], 3)} ${ends(entry.iqm[1], entry.iqm[2])}, ${short(entry[cost])} ${COST_LABELS[cost]}`;
  const gray = { algorithm: { name: "others", color: null }, x: others.map(({ entry }) => entry[cost]), y: others.map(({ entry }) => entry.iqm[0]), dots: true, kind: "other", hints: others.map(hint) };
  const front = frontiers.find((each) => each.group === table.group)[cost].map(([number, place]) => tables[number].entries[place]);
  const line = { algorithm: { name: "frontier", color: null }, x: front.map((entry) => entry[cost]), y: front.map((entry) => entry.iqm[0]), line: true, kind: "frontier", said: "frontier" };
  const series = chosen.map((place) => {
    const own = table.entries[place];
    const found = alike(tables, table, own.key).filter(({ entry }) => entry[cost] !== null);
    return { algorithm: own, x: found.map(({ entry }) => entry[cost]), y: found.map(({ entry }) => entry.iqm[0]), low: found.map(({ entry }) => entry.iqm[1]),
      high: found.map(({ entry }) => entry.iqm[2]), dots: true, hints: found.map(hint) };
  });
  const radio = (name) => h("label", {}, h("input", { type: "radio", name: "cost", value: name, checked: name === cost, onchange: () => choose("cost", name === "hours" ? "" : name) }), ` ${COST_LABELS[name]}`);
  const detail = [...series.flatMap((entry) => entry.hints), `frontier: ${front.map((entry) => entry.name).join(", ")}`].join("; ");
  const chart = (width) => xyChart(width, { title: "Score by cost", detail, x: { label: COST_LABELS[cost], log: true }, y: { label: "IQM score" }, anchors: ANCHORS, series: [gray, line, ...series] });
  const names = [...new Set(front.map((entry) => entry.name))];
  return [h("div", { class: "filters", role: "radiogroup", "aria-label": "Cost" }, radio("hours"), radio("steps")), fitted("cost", chart)[0],
    ...(names.length ? [h("p", { class: "ends" }, `Frontier, cheapest first: ${names.join(", ")}`)] : [])];
}
