// Brings the leaderboard's pages to life: theme, sorting, and the choice of tables and rows.
startTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("table.board, table.landing").forEach(keepSorting);
startCopying();

function wordsOf(field) {
  return field.value.toLowerCase().split(/\s+/).filter(Boolean);
}

function startChoices(box) {
  const choices = [...box.querySelectorAll("select[data-facet]")];
  const field = box.querySelector("input");
  const output = box.querySelector("output");
  const tables = [...document.querySelectorAll("section.table")];

  function apply() {
    const words = wordsOf(field);
    let shownTables = 0;
    let shownRows = 0;
    let allRows = 0;
    for (const table of tables) {
      table.hidden = choices.some(({ dataset, value }) => value && table.dataset[dataset.facet] !== value);
      shownTables += !table.hidden;
      for (const row of table.querySelectorAll("tbody tr")) {
        const said = [...row.querySelectorAll("th")].map((cell) => cell.textContent).join(" ").toLowerCase();
        row.hidden = !words.every((word) => said.includes(word));
        allRows += 1;
        shownRows += !row.hidden && !table.hidden;
      }
    }
    const chosen = words.length || choices.some((choice) => choice.value);
    output.textContent = chosen
      ? `${shownTables} of ${tables.length} tables, ${shownRows} of ${allRows} rows`
      : "";
  }

  const records = () => tables.filter((table) => !table.hidden).flatMap((section) => {
    const { dataset } = section;
    const shared = choices.map((choice) => [choice.dataset.facet, dataset[choice.dataset.facet].slice(1)]);
    const table = section.querySelector("table");
    return recordsOf(table, [...table.tBodies[0].rows]).map((record) => ({ table: section.id, ...Object.fromEntries(shared), ...record }));
  });

  startSaving(box, records);
  box.hidden = false;
  const view = readView();
  for (const choice of choices) {
    choice.value = view.get(choice.dataset.facet) || "";
    if (choice.selectedIndex < 0) choice.value = "";
    choice.addEventListener("change", () => { writeView(choice.dataset.facet, choice.value); apply(); });
  }
  field.value = view.get("q") || "";
  field.addEventListener("input", () => { writeView("q", field.value); apply(); });
  apply();
}

// The first page: one table, of which suites and rows are chosen.
function startLanding(box) {
  const table = document.getElementById("landing");
  const [suite, kind, field] = ["suite", "rows", "q"].map((name) => box.querySelector(`[data-view=${name}]`));
  const output = box.querySelector("output");
  const methods = () => [...table.querySelectorAll("tbody tr:not(.group)")];

  function apply() {
    const words = wordsOf(field);
    const column = suite.value ? String(suite.selectedIndex - 1) : "";
    for (const cell of table.querySelectorAll("[data-suite]"))
      cell.hidden = column !== "" && cell.dataset.suite !== column;
    for (const body of table.tBodies) {
      body.hidden = kind.value !== "" && body.dataset.rows !== kind.value;
      for (const row of body.querySelectorAll("tr:not(.group)")) {
        const cell = column && row.querySelector(`[data-suite="${column}"]`);
        const known = !cell || cell.dataset.key !== "";
        row.hidden = !known || !words.every((word) => row.textContent.toLowerCase().includes(word));
      }
    }
    const shown = methods().filter((row) => !row.hidden && !row.parentNode.hidden).length;
    output.textContent = words.length || suite.value || kind.value ? `${shown} of ${methods().length} rows` : "";
  }

  const records = () => [...table.tBodies].filter((body) => !body.hidden).flatMap((body) =>
    recordsOf(table, [...body.querySelectorAll("tr:not(.group)")]).map((record) => ({ rows: body.dataset.rows, ...record })));

  startSaving(box, records);
  box.hidden = false;
  const view = readView();
  for (const choice of [suite, kind, field]) {
    choice.value = view.get(choice.dataset.view) || "";
    if (choice.selectedIndex < 0) choice.value = "";
    choice.addEventListener(choice === field ? "input" : "change", () => {
      writeView(choice.dataset.view, choice.value);
      apply();
    });
  }
  apply();
}

for (const box of document.querySelectorAll(".filters"))
  if (box.id === "filters") startLanding(box);
  else startChoices(box);
