// Brings the page to life.
const data = JSON.parse(document.getElementById("data").textContent);

startTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
document.querySelectorAll("input[data-filter]").forEach(startFilter);

// A dialog closes on a click beside it, too.
const dialog = document.getElementById("run");
dialog.addEventListener("click", (event) => {
  if (event.target === dialog) dialog.close();
});

for (const details of document.querySelectorAll("details.environment")) {
  details.addEventListener("toggle", () => {
    const box = details.querySelector(".drill");
    if (!details.open || box.dataset.drawn) return;
    box.dataset.drawn = "yes";
    drill(box);
  });
}

function openTarget() {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.matches("details.environment")) target.open = true;
}

window.addEventListener("hashchange", openTarget);
document.addEventListener("click", (event) => {
  const link = event.target.closest && event.target.closest('a[href^="#"]');
  if (link && link.hash === location.hash) openTarget();
});
openTarget();
