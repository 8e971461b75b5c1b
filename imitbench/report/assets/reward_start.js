// Brings the page of a reward to life.
startTheme();
document.querySelectorAll("table.sortable").forEach(makeSortable);
