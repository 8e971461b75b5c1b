// Brings the dashboard to life: shows the view that the address names, and asks for news.
const SHOWN = { overview: overviewView, runs: runsView, curves: curvesView, failures: failuresView, videos: videosView, compare: compareView };
const views = {};
for (const [name, make] of Object.entries(SHOWN)) views[name] = make(document.getElementById(`view-${name}`));

function viewName() {
  const name = location.hash.slice(1).split("=")[0];
  return name in views ? name : "overview";
}

function say(text) {
  const line = document.getElementById("connection");
  if (line.textContent !== text) line.textContent = text;
  line.hidden = !text;
}

function loseConnection(error) {
  known.lost = error instanceof TypeError ? "No answer: the dashboard has ended. Start the command again, and open its new address." : `The dashboard answers: ${error.message}`;
  say(known.lost);
}

function showFacts() {
  const counts = new Map(STATES.map((state) => [state, 0]));
  for (const run of known.runs.values()) counts.set(run.state, counts.get(run.state) + 1);
  const items = STATES.filter((state) => counts.get(state)).map((state) =>
    h("li", {}, h("strong", { class: state === "failed" ? "bad" : "" }, counts.get(state).toLocaleString("en")), ` ${state}`));
  const { eta_s: eta, exact, active } = known.outlook;
  if (eta) items.push(h("li", {}, `${exact ? "about" : "at least"} ${lasting(eta)} left`));
  const open = counts.get("interrupted") + counts.get("waiting") + counts.get("running");
  if (open && known.complete && !active && !counts.get("running")) items.push(h("li", {}, "no process is working on them"));
  document.getElementById("facts").replaceChildren(...items);
  say(known.missing ? "The results folder is no longer there." : known.complete ? "" : "Reading results …");
}

async function show() {
  const name = viewName();
  for (const each of Object.keys(views)) document.getElementById(`view-${each}`).hidden = each !== name;
  for (const link of document.querySelectorAll("nav a"))
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  showFacts();
  await views[name]();
}

async function poll() {
  if (!document.hidden) {
    try {
      await askForRuns();
      await show();
      known.lost = "";
    } catch (error) {
      loseConnection(error);
    }
  }
  setTimeout(poll, known.complete || known.lost ? POLL_MS : POLL_MS / 20);
}

startTheme();
const dialog = document.getElementById("run");
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});
window.addEventListener("hashchange", () => show().catch(loseConnection));
poll();
