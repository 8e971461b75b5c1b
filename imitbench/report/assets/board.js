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
      if (words.length) for (const folded of table.querySelectorAll("details.variants")) folded.open = true;
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

// The first page: switches between conditions, which work without this script, and a search.
function startLanding(box) {
  const switches = [...document.querySelectorAll("#methods input[type=radio][data-view]")];
  const tables = [...document.querySelectorAll("table.landing")];
  const field = box.querySelector("[data-view=q]");
  const output = box.querySelector("output");
  const rowsOf = (body) => [...body.querySelectorAll("tr:not(.group)")];
  const chosen = (name) => switches.find((input) => input.name === name && input.checked)?.value;

  function shownTable() {
    const suite = chosen("suite");
    return document.getElementById(`t-${suite}--${chosen(`condition-${suite}`)}`);
  }

  // Cells sort by the score of the way of acting that is shown.
  function useActing() {
    const acting = chosen("acting") || "sampled";
    for (const cell of document.querySelectorAll(`table.landing td[data-${acting}]`)) cell.dataset.key = cell.dataset[acting];
    for (const heading of document.querySelectorAll("table.landing th.drawn:is([aria-sort=ascending], [aria-sort=descending])"))
      sortBy(heading.closest("table"), heading, heading.getAttribute("aria-sort"));
  }

  function apply() {
    const words = wordsOf(field);
    for (const table of tables)
      for (const body of table.tBodies) {
        for (const row of rowsOf(body)) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
        body.hidden = rowsOf(body).every((row) => row.hidden);
      }
    const rows = [...shownTable().tBodies].flatMap(rowsOf);
    output.textContent = words.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : "";
  }

  const records = () => {
    const table = shownTable();
    const shared = { table: table.getAttribute("aria-label") };
    return [...table.tBodies].flatMap((body) =>
      recordsOf(table, rowsOf(body)).map((record) => ({ ...shared, group: body.dataset.group, ...record })));
  };

  function choose(name, value) {
    const input = switches.find((each) => each.name === name && each.value === value);
    if (input) input.checked = true;
  }

  startSaving(box, records);
  box.hidden = false;
  const view = readView();
  choose("suite", view.get("suite"));
  choose(`condition-${chosen("suite")}`, view.get("condition"));
  choose("acting", view.get("acting"));
  field.value = view.get("q") || "";
  // A row with an address may stand in a table that is not shown.
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  for (let panel = target?.closest(".panel"); panel; panel = panel.parentNode.closest(".panel"))
    panel.previousElementSibling.previousElementSibling.checked = true;
  target?.scrollIntoView();
  for (const input of switches)
    input.addEventListener("change", () => {
      writeView(input.dataset.view, input.value);
      if (input.dataset.view === "suite") writeView("condition", chosen(`condition-${input.value}`));
      useActing();
      apply();
    });
  field.addEventListener("input", () => { writeView("q", field.value); apply(); });
  useActing();
  apply();
}

for (const box of document.querySelectorAll(".filters"))
  if (box.id === "filters") startLanding(box);
  else startChoices(box);
