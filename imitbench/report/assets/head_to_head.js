// Chooses methods, keeps the choice in the address, and draws the comparison.
startTheme();
const { tables, frontiers, regimes } = JSON.parse(document.getElementById("data").textContent);
const MOST_CHOSEN = 12;
const VIEWS = {
  verdicts: verdictView, improvement: improvementView, profile: profileView, environments: environmentView,
  curves: curveView, regimes: regimeView, cost: costView,
};

const NAMED = { verdicts: true, improvement: true }; // tables that name the methods themselves

for (const table of tables) {
  const counts = {};
  for (const entry of table.entries) counts[entry.name] = (counts[entry.name] || 0) + 1;
  for (const entry of table.entries) {
    entry.twice = counts[entry.name] > 1;
    entry.label = entry.twice ? `${entry.name} (${entry.who})` : entry.name;
  }
}

function bestOf(table) {
  const order = table.entries.map((entry, place) => place).filter((place) => table.entries[place].role === "method");
  order.sort((a, b) => (table.entries[b].iqm[0] ?? -1e6) - (table.entries[a].iqm[0] ?? -1e6));
  return order.slice(0, 3);
}

const box = document.getElementById("choice");
const [runs, find, best, none] = ["runs", "filter", "best", "none"].map((name) => box.querySelector(`[data-choice=${name}]`));
const picks = box.querySelector(".picks");
const output = box.querySelector("output");
let at = 0;
let chosen = [];

// Fewer than two methods of an address are no comparison.
function readState() {
  const view = readView();
  const named = tables.findIndex((table) => table.title === view.get("runs"));
  const ranked = tables.map((table) => table.entries.filter((entry) => entry.sound).length);
  at = named >= 0 ? named : ranked.indexOf(Math.max(...ranked));
  const places = view.getAll("m").map((key) => tables[at].entries.findIndex((entry) => entry.key === key));
  chosen = [...new Set(places)].filter((place) => place >= 0).slice(0, MOST_CHOSEN);
  if (!view.has("m")) chosen = bestOf(tables[at]);
}

function writeState(changes = {}) {
  const old = readView();
  const view = new URLSearchParams();
  view.set("runs", tables[at].title);
  for (const place of chosen) view.append("m", tables[at].entries[place].key);
  if (!chosen.length) view.append("m", "");
  for (const name of ["base", "env", "cost"]) {
    const value = name in changes ? changes[name] : old.get(name);
    if (value) view.set(name, value);
  }
  history.replaceState(null, "", `#${view}`);
}

function choose(name, value) {
  writeState({ [name]: value });
  draw({ environments: name === "base", curves: name === "env", cost: name === "cost" });
}

function draw(only = null) {
  const table = tables[at];
  const view = readView();
  const environment = table.environments.indexOf(view.get("env"));
  const state = {
    base: table.entries.findIndex((entry) => entry.key === view.get("base")),
    env: environment < 0 ? "whole" : String(environment),
    cost: view.get("cost"),
  };
  for (const [name, show] of Object.entries(VIEWS)) {
    if (only && !only[name]) continue;
    const place = document.querySelector(`[data-view=${name}]`);
    const focus = place.contains(document.activeElement) ? document.activeElement.value : null;
    const section = place.closest("section");
    section.hidden = chosen.length < 2;
    place.replaceChildren(...(chosen.length < 2 ? [] : [...(name in NAMED ? [] : [legendOf(table)]), ...show(table, chosen, state, choose, tables, frontiers, regimes)]));
    if (focus !== null) (place.querySelector("input:checked") || place.querySelector("select")).focus();
  }
  const count = chosen.length;
  output.textContent = count < 2 ? `${count} chosen; choose two or more` : `${count} of ${table.entries.length} chosen`;
}

function legendOf(table) {
  return h("ul", { class: "legend" }, ...chosen.map((place) => h("li", {}, nameOf(table.entries[place]))));
}

function drawPicks() {
  const table = tables[at];
  const legend = picks.querySelector("legend");
  picks.replaceChildren(legend, ...table.entries.map((entry, place) => {
    const input = h("input", {
      type: "checkbox", "aria-label": entry.label, value: place, checked: chosen.includes(place),
      onchange: () => {
        chosen = input.checked ? [...chosen, place] : chosen.filter((each) => each !== place);
        update();
      },
    });
    const rank = entry.tier ? `${entry.tier}: ` : "";
    const marks = [entry.twice ? entry.who : "", entry.role === "method" ? "" : entry.role].filter(Boolean).join(", ");
    return h("label", { class: "pick" }, input, rank ? h("span", { class: "ends" }, rank) : null, named(entry), marks ? h("span", { class: "mark" }, marks) : null);
  }));
  filterPicks();
  limitPicks();
}

function filterPicks() {
  const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const label of picks.querySelectorAll("label")) {
    const entry = tables[at].entries[label.querySelector("input").value];
    const said = `${entry.name} ${entry.who}`.toLowerCase();
    label.hidden = !words.every((word) => said.includes(word));
  }
}

function limitPicks() {
  for (const input of picks.querySelectorAll("input")) input.disabled = !input.checked && chosen.length >= MOST_CHOSEN;
}

function update() {
  limitPicks();
  writeState();
  draw();
}

function showAll() {
  readState();
  runs.value = at;
  drawPicks();
  draw();
}

if (tables.length) {
  box.hidden = false;
  runs.append(...tables.map((table, place) => h("option", { value: place }, table.title)));
  runs.addEventListener("change", () => {
    const before = chosen.map((place) => tables[at].entries[place]);
    at = Number(runs.value);
    const { entries } = tables[at];
    const same = ({ key, name }) => {
      const exactly = entries.findIndex((entry) => entry.key === key);
      return exactly >= 0 ? exactly : entries.findIndex((entry) => entry.name === name); // by others
    };
    chosen = [...new Set(before.map(same))].filter((place) => place >= 0);
    if (chosen.length < 2) chosen = bestOf(tables[at]);
    drawPicks();
    update();
  });
  find.addEventListener("input", filterPicks);
  best.addEventListener("click", () => { chosen = bestOf(tables[at]); drawPicks(); update(); });
  none.addEventListener("click", () => { chosen = []; drawPicks(); update(); });
  window.addEventListener("hashchange", () => { if (readView().has("m")) showAll(); });
  showAll();
}
