// Tables that are sorted by their headings, and filtered by a field above them.
// Rows without a key, such as those of references, come last either way.
function keyOf(row, column, number) {
  const key = row.cells[column].dataset.key;
  if (key === undefined || key === "") return null;
  return number ? Number(key) : key;
}

function compare(a, b, number) {
  return number ? a - b : a.localeCompare(b, "en", { numeric: true });
}

function sortBy(table, heading, direction) {
  const number = heading.classList.contains("number");
  const sign = direction === "ascending" ? 1 : -1;
  for (const body of table.tBodies) { // groups of rows stay together
    const rows = [...body.rows].filter((row) => !row.classList.contains("group"));
    const keyed = rows.map((row) => [row, keyOf(row, heading.cellIndex, number)]);
    keyed.sort(([, a], [, b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return sign * compare(a, b, number);
    });
    body.append(...keyed.map(([row]) => row));
  }
  for (const other of table.tHead.rows[0].cells)
    if (other.querySelector("button")) other.setAttribute("aria-sort", "none");
  heading.setAttribute("aria-sort", direction);
}

function makeSortable(table) {
  for (const heading of table.tHead.rows[0].cells) {
    if ("fixed" in heading.dataset) continue;
    const first = heading.classList.contains("number") ? "descending" : "ascending";
    const second = first === "ascending" ? "descending" : "ascending";
    // The axis of drawings stands below the label, and is no part of the button.
    const button = h("button", { type: "button" }, ...[...heading.childNodes].filter((node) => node.nodeName !== "svg"));
    heading.prepend(button);
    heading.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      sortBy(table, heading, heading.getAttribute("aria-sort") === first ? second : first);
    });
  }
}

function startFilter(field) {
  const target = document.getElementById(field.dataset.filter);
  const paragraph = field.closest("p");
  const count = paragraph.querySelector("output");
  paragraph.hidden = false;
  field.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = [...target.querySelectorAll("tbody tr")];
    let shown = 0;
    for (const row of rows) {
      const named = [...row.querySelectorAll("th")].map((cell) => cell.textContent).join(" ");
      row.hidden = !words.every((word) => named.toLowerCase().includes(word));
      shown += !row.hidden;
    }
    count.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  });
}
