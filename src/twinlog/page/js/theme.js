// Runs before the first paint, to avoid a flash of the wrong theme; so it is not a module.
"use strict";
(() => {
  let theme = "auto";
  try {
    theme = localStorage.getItem("twinlog-theme") || "auto";
  } catch {
    // no storage: use the system's theme
  }
  document.documentElement.dataset.theme = theme;
})();
