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
