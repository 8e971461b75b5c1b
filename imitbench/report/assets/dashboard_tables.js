// Tables that change while one looks at them: rows that stay the same stay in place.
const PAGE = 200;

function place(parent, children) {
  let at = parent.firstChild;
  for (const child of children) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

// Builds an element for each item, and keeps it as long as its mark stays the same.
function keeper(build) {
  let made = new Map();
  return (items, keyOf, markOf) => {
    const now = new Map();
    for (const item of items) {
      const [key, mark] = [keyOf(item), JSON.stringify(markOf(item))];
      const old = made.get(key);
      now.set(key, old && old.mark === mark ? old : { mark, element: build(item) });
    }
    made = now;
    return [...now.values()].map((each) => each.element);
  };
}

function sortedBy(items, column, direction) {
  const sign = direction === "ascending" ? 1 : -1;
  const keyed = items.map((item) => [item, column.value(item)]);
  const missing = (value) => value === null || value === undefined || value === "";
  keyed.sort(([, a], [, b]) => {
    if (missing(a) || missing(b)) return missing(a) - missing(b);
    return sign * (column.number ? a - b : String(a).localeCompare(String(b), "en", { numeric: true }));
  });
  return keyed.map(([item]) => item);
}

// Columns: label, value(item) to sort by, cell(item) to show, number: whether it is one.
function liveTable({ name, caption, columns, keyOf, classes }) {
  let sorting = null;
  let limit = PAGE;
  let last = [];
  const body = h("tbody");
  const headings = columns.map((column) => heading(column));
  const more = h("button", { type: "button", class: "press more", hidden: true, onclick: () => { limit += 5 * PAGE; show(last); } });
  const table = h("table", { class: `folded ${classes || ""}` }, h("caption", {}, h("span", {}, caption)), h("thead", {}, h("tr", {}, ...headings)), body);
  const element = h("div", {}, h("div", { class: "scroll", role: "region", "aria-label": name, tabindex: 0 }, table), more);
  const rows = keeper((item) => h("tr", { "data-key": keyOf(item) }, ...columns.map((column, at) => {
    const shown = column.cell ? column.cell(item) : String(column.value(item) ?? "");
    return h(at === 0 ? "th" : "td", { scope: at === 0 ? "row" : null, class: column.number && "number", "data-label": at > 0 && column.label }, shown);
  })));

  function heading(column) {
    const cell = h("th", { scope: "col", class: column.number && "number" });
    if (column.fixed) {
      cell.append(column.label);
      return cell;
    }
    const order = column.number ? ["descending", "ascending"] : ["ascending", "descending"];
    cell.setAttribute("aria-sort", "none");
    cell.append(h("button", { type: "button", onclick: () => {
      const direction = cell.getAttribute("aria-sort") === order[0] ? order[1] : order[0];
      for (const other of headings) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      cell.setAttribute("aria-sort", direction);
      sorting = [column, direction];
      show(last);
    } }, column.label));
    return cell;
  }

  function show(items) {
    last = items;
    const ordered = sorting ? sortedBy(items, ...sorting) : items;
    const shown = ordered.slice(0, limit);
    place(body, rows(shown, keyOf, (item) => columns.map((column) => (column.mark || column.value)(item))));
    more.hidden = shown.length === ordered.length;
    more.textContent = `Show more: ${ordered.length - shown.length} of ${ordered.length} rows are hidden`;
    element.hidden = items.length === 0;
  }
  return { element, show };
}

function shareBar(parts, said) {
  let left = 0;
  const bars = parts.filter(([, share]) => share > 0).map(([name, share]) => {
    const bar = s("rect", { x: `${100 * left}%`, width: `${100 * share}%`, y: 0, height: "100%", class: `state-${name}` });
    left += share;
    return bar;
  });
  return s("svg", { class: "share", role: "img" }, s("title", {}, said), ...bars);
}

function clock(time) {
  if (!time) return "";
  const date = new Date(time);
  if (Number.isNaN(date.getTime())) return String(time);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

function lasting(seconds) {
  if (seconds === null || seconds === undefined) return "n/a";
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  return minutes < 90 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}
