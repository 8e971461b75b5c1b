// What is chosen on a page stands behind its address's #, so that a view can be cited.
function readView() {
  const hash = location.hash.slice(1);
  return new URLSearchParams(hash.includes("=") ? hash : "");
}

function writeView(name, value) {
  const view = readView();
  if (value) view.set(name, value);
  else view.delete(name);
  const said = view.toString();
  history.replaceState(null, "", said ? `#${said}` : location.href.split("#")[0] + "#");
}

// Sorting of the table with an id; others are not part of the view.
function keepSorting(table) {
  const place = table.id || table.closest("section").id;
  const headings = [...table.tHead.rows[0].cells];
  for (const heading of headings) {
    const button = heading.querySelector("button");
    if (!button) continue;
    button.addEventListener("click", () => {
      writeView("sort", `${place}.${heading.cellIndex}.${heading.getAttribute("aria-sort")}`);
    });
  }
  const [where, index, direction] = (readView().get("sort") || "").split(".");
  if (where !== place || !headings[index] || !headings[index].querySelector("button")) return;
  if (direction === "ascending" || direction === "descending") sortBy(table, headings[index], direction);
}

function saveFile(name, type, content) {
  const link = h("a", { download: name, href: URL.createObjectURL(new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// Spreadsheets must not take a text for a formula.
function csvField(value) {
  if (value === null || value === undefined) return "";
  const said = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\n]/.test(said) ? `"${said.replaceAll('"', '""')}"` : said;
}

// The shown rows of a table: a record each, with numbers where a column has them.
function recordsOf(table, rows) {
  const headings = [...table.tHead.rows[0].cells];
  return rows.filter((row) => !row.hidden).map((row) => Object.fromEntries(headings.flatMap((heading, place) => {
    const cell = row.cells[place];
    if (heading.hidden || "fixed" in heading.dataset) return [];
    const label = heading.title || (heading.querySelector("button") || heading).textContent.trim();
    if (cell.dataset.value)
      return Object.entries(JSON.parse(cell.dataset.value)).map(([name, each]) => [`${label} ${name}`, each]);
    const key = cell.dataset.key ?? "";
    return [[label, key === "" ? null : heading.classList.contains("number") ? Number(key) : key]];
  })));
}

// Buttons that save what is shown; each record has the names of all.
function startSaving(box, records) {
  const whole = (shown) => {
    const names = [...new Set(shown.flatMap((record) => Object.keys(record)))];
    return shown.map((record) => Object.fromEntries(names.map((name) => [name, record[name] ?? null])));
  };
  const write = {
    json: (shown) => ["application/json", `${JSON.stringify(shown, null, 1)}\n`],
    csv: (shown) => {
      const lines = [Object.keys(shown[0] || {}), ...shown.map((record) => Object.values(record))];
      return ["text/csv", lines.map((line) => `${line.map(csvField).join(",")}\n`).join("")];
    },
  };
  for (const button of box.querySelectorAll("[data-save]")) {
    const type = button.dataset.save;
    button.addEventListener("click", () => saveFile(`leaderboard-view.${type}`, ...write[type](whole(records()))));
  }
}
