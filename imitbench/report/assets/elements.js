// Builds elements from text and attributes; text never becomes markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function h(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function s(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

function fixed(value, digits) {
  if (value === null || value === undefined) return "n/a";
  const shown = value.toFixed(digits);
  return Number(shown) === 0 ? shown.replace("-", "") : shown;
}

function rawText(value) {
  if (value === null || value === undefined) return "n/a";
  const small = value !== 0 && Math.abs(value) < 0.1;
  return fixed(value, small ? Math.min(12, 2 - Math.floor(Math.log10(Math.abs(value)))) : 2);
}

function short(value) {
  if (value === null || value === undefined) return "n/a";
  const size = Math.abs(value);
  for (const [unit, sign] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]])
    if (size >= unit) return `${Number((value / (sign === "k" ? 1e3 : unit)).toPrecision(4))} ${sign}`;
  return String(Number(value.toPrecision(4)));
}

function factList(entries) {
  const rows = entries.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", {}, ...rows.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, String(value))]));
}

function flat(record) {
  return Object.entries(record).map(([name, value]) => [name, typeof value === "object" && value !== null ? JSON.stringify(value) : value]);
}

function colorOf(algorithm) {
  return algorithm.color === null ? "" : `c${algorithm.color}`;
}

// An algorithm's name with a spot of its color; long names may break, at underscores first.
function named({ name, color }) {
  const classes = `name spotted ${name.length > 40 ? "long" : ""} ${colorOf({ color })}`;
  const parts = name.split(/(?<=[_/])/).flatMap((part, place) => (place ? [h("wbr"), part] : [part]));
  return h("span", { class: classes }, ...parts);
}
