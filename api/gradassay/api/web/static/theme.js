// Before anything is drawn: the theme that was chosen, and that scripts run.
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  let chosen = null;
  try {
    chosen = localStorage.getItem("gradassay-theme");
  } catch {
    // Storage may be forbidden; the system's theme is used then.
  }
  if (chosen === "light" || chosen === "dark") root.dataset.theme = chosen;
})();
