// Charts of two numbers: lines with bands, points with intervals, and the dots of methods.
const SHAPE_SIZE = 10; // colors of the palette; the number's rest is the shape

// The dot of a method, in its color and shape.
function markOf(algorithm, x, y, extra, ...children) {
  return dot(algorithm, x, y, { class: `mark-of ${extra || ""} ${colorOf(algorithm)}` }, ...children);
}

// Positions on an axis: of names, linear, or logarithmic with a place of its own for 0 at the left.
function axisOf({ values, log, names }, [from, to], most) {
  if (names) return { at: linear([-0.5, names.length - 0.5], [from, to]), ticks: names.map((name, place) => [place, name]) };
  const known = values.filter((value) => value !== null);
  if (!log) {
    const domain = span(known);
    return { at: linear(domain, [from, to]), ticks: ticks(...domain, most).map((tick) => [tick, short(tick)]) };
  }
  const positive = known.filter((value) => value > 0);
  const [low, high] = positive.length ? [Math.min(...positive), Math.max(...positive)] : [1, 10];
  const room = known.some((value) => value <= 0) ? Math.min(60, (to - from) / 5) : 0;
  const [start, end] = [Math.log10(low), Math.log10(high)];
  const domain = end - start < 0.3 ? [start - 0.2, end + 0.2] : [start - 0.04 * (end - start), end + 0.04 * (end - start)];
  const scale = linear(domain, [from + room, to]);
  const marks = [];
  for (let power = Math.ceil(domain[0]); power <= domain[1]; power += 1) marks.push([10 ** power, short(10 ** power)]);
  if (marks.length < 2) {
    marks.length = 0;
    for (const unit of [1, 2, 5]) {
      for (let power = Math.floor(domain[0]); power <= domain[1]; power += 1) {
        const tick = unit * 10 ** power;
        if (Math.log10(tick) >= domain[0] && Math.log10(tick) <= domain[1]) marks.push([tick, short(tick)]);
      }
    }
  }
  while (marks.length > Math.max(2, most)) marks.splice(0, marks.length, ...marks.filter((_, place) => place % 2 === 0));
  if (room) marks.push([0, "0"]);
  return { at: (value) => (value > 0 ? scale(Math.log10(value)) : from + 10), ticks: marks };
}

// A text in lines of at most so many letters, as far as its words allow.
function wrapped(text, most) {
  return text.split(" ").reduce((lines, word) => {
    const last = lines[lines.length - 1];
    if (last === undefined || last.length + 1 + word.length > most) return [...lines, word];
    return [...lines.slice(0, -1), `${last} ${word}`];
  }, []);
}

function linePath(xs, ys, x, y) {
  return pathOf({ steps: xs, values: ys }, x, y);
}

function bandPath(entry, x, y) {
  const there = entry.x.map((value, place) => `${x(value).toFixed(1)} ${y(entry.high[place]).toFixed(1)}`);
  const back = entry.x.map((value, place) => `${x(value).toFixed(1)} ${y(entry.low[place]).toFixed(1)}`).reverse();
  return `M${[...there, ...back].join("L")}Z`;
}

// Intervals, then lines, then dots, so that no band hides a line.
function xyParts(entry, x, y) {
  const { algorithm } = entry;
  const dash = entry.dash ? `dash${entry.dash}` : "";
  const color = colorOf(algorithm);
  const title = s("title", {}, entry.said || algorithm.name);
  const parts = [[], [], []];
  const whole = entry.low && !entry.low.includes(null) && !entry.high.includes(null);
  if (entry.band && whole) parts[0].push(s("path", { d: bandPath(entry, x, y), class: `band ${color}` }));
  if (entry.line) parts[1].push(s("path", { d: linePath(entry.x, entry.y, x, y), class: `curve ${dash} ${entry.kind || ""} ${color}` }, title));
  if (entry.dots) {
    entry.x.forEach((value, place) => {
      if (value === null || entry.y[place] === null) return;
      const [cx, cy] = [x(value), y(entry.y[place])];
      if (entry.low && entry.low[place] !== null)
        parts[0].push(s("line", { x1: cx, x2: cx, y1: y(entry.low[place]), y2: y(entry.high[place]), class: `whisker ${color}` }));
      const hint = s("title", {}, entry.hints ? entry.hints[place] : algorithm.name);
      parts[2].push(markOf(algorithm, cx, cy, entry.kind, hint));
    });
  }
  return parts;
}

// title, detail: for people who cannot see it. x: {label, log, names}, y: {label, values}.
// anchors: scores with a name, drawn as dashed lines. series: see xyParts.
function xyChart(width, { title, detail, x: across, y: up, anchors, series }) {
  const [left, right, top] = [56, 16, 16];
  const most = across.names ? Math.max(6, Math.floor((width - left - right) / across.names.length / 7)) : Infinity;
  const rows = Math.max(1, ...(across.names || []).map((name) => wrapped(name, most).length));
  const bottom = 34 + 14 * rows;
  const height = Math.max(260, Math.min(380, width * 0.5)) + 14 * (rows - 1);
  const heights = series.flatMap((entry) => [...entry.y, ...(entry.low || []), ...(entry.high || [])]);
  const domain = up.domain || (() => {
    const [low, high] = span([...heights, ...anchors.map((each) => each.at)]);
    return [low - 0.04 * (high - low), high + 0.04 * (high - low)];
  })();
  const y = linear(domain, [height - bottom, top]);
  const axis = axisOf({ values: series.flatMap((entry) => entry.x), log: across.log, names: across.names }, [left + 8, width - right - 8], width / 90);
  const parts = [];
  for (const tick of ticks(...domain, 5)) {
    parts.push(s("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), class: "grid" }));
    parts.push(s("text", { x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, short(Number(tick.toFixed(9)))));
  }
  for (const [tick, label] of axis.ticks) {
    wrapped(across.format ? across.format(tick) : label, most).forEach((line, row) =>
      parts.push(s("text", { x: axis.at(tick), y: height - bottom + 18 + 14 * row, "text-anchor": "middle" }, line)));
  }
  parts.push(s("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, across.label));
  parts.push(s("text", { transform: `translate(13 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, up.label));
  for (const anchor of anchors) {
    if (anchor.at < domain[0] || anchor.at > domain[1]) continue;
    parts.push(s("line", { x1: left, x2: width - right, y1: y(anchor.at), y2: y(anchor.at), class: "anchor" }));
    parts.push(s("text", { x: width - right - 2, y: y(anchor.at) - 4, "text-anchor": "end", class: "anchor-name" }, anchor.name));
  }
  const drawn = series.map((entry) => xyParts(entry, axis.at, y));
  for (const layer of [0, 1, 2]) parts.push(...drawn.flatMap((each) => each[layer]));
  return described(title, detail, { width, height }, ...parts);
}

// One line per difference, grouped: a point with its interval, and a line at no difference.
function differenceChart(width, { title, detail, label, groups }) {
  const [right, row, gap, top, bottom] = [16, 20, 26, 6, 44];
  const left = 14;
  const every = groups.flatMap((group) => group.entries);
  const [low, high] = span([0, ...every.flatMap((entry) => [entry.value, entry.low, entry.high])]);
  const margin = 0.04 * (high - low);
  const domain = [low - margin, high + margin];
  const x = linear(domain, [left, width - right]);
  const height = top + bottom + groups.reduce((sum, group) => sum + gap + row * group.entries.length, 0);
  const base = height - bottom;
  const parts = [];
  for (const tick of ticks(...domain, width / 90)) {
    parts.push(s("line", { x1: x(tick), x2: x(tick), y1: top, y2: base, class: tick === 0 ? "anchor" : "grid" }));
    parts.push(s("text", { x: x(tick), y: base + 17, "text-anchor": "middle" }, short(Number(tick.toFixed(9)))));
  }
  parts.push(s("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, label));
  let y = top;
  for (const group of groups) {
    const most = Math.max(8, Math.floor((width - left - right) / 7));
    const shown = group.name.length > most ? `${group.name.slice(0, most - 1)}…` : group.name;
    parts.push(s("text", { x: left, y: y + 16, class: "label" }, s("title", {}, group.name), shown));
    y += gap;
    for (const entry of group.entries) {
      const middle = y + row / 2;
      const color = colorOf(entry.algorithm);
      if (entry.low !== null)
        parts.push(s("line", { x1: x(entry.low), x2: x(entry.high), y1: middle, y2: middle, class: `whisker ${color}` }));
      parts.push(markOf(entry.algorithm, x(entry.value), middle, "", s("title", {}, entry.said)));
      y += row;
    }
  }
  return described(title, detail, { width, height }, ...parts);
}
