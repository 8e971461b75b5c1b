// Brings the leaderboard's pages to life: theme, sorting, and the choice of tables and rows.
startTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("input[data-filter]").forEach(startFilter);

function startChoices(box) {
  const choices = [...box.querySelectorAll("select[data-facet]")];
  const field = box.querySelector("input");
  const output = box.querySelector("output");
  const tables = [...document.querySelectorAll("section.table")];

  function apply() {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shownTables = 0;
    let shownRows = 0;
    let allRows = 0;
    for (const table of tables) {
      table.hidden = choices.some(({ dataset, value }) => value && table.dataset[dataset.facet] !== value);
      shownTables += !table.hidden;
      for (const row of table.querySelectorAll("tbody tr")) {
        const said = `${row.cells[1].textContent} ${row.cells[2].textContent}`.toLowerCase();
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

  box.hidden = false;
  for (const choice of choices) choice.addEventListener("change", apply);
  field.addEventListener("input", apply);
  apply();
}

document.querySelectorAll(".filters").forEach(startChoices);
