// Light, dark, or what the system says; the choice is kept where the browser allows it.
const THEME = "imitbench-theme";

function stored() {
  try {
    return localStorage.getItem(THEME) || "";
  } catch {
    return "";
  }
}

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  try {
    localStorage.setItem(THEME, theme);
  } catch {
    // Pages without storage keep the choice until they are closed.
  }
}

function startTheme() {
  const picker = document.getElementById("theme");
  picker.value = stored();
  setTheme(picker.value);
  picker.addEventListener("change", () => setTheme(picker.value));
}
