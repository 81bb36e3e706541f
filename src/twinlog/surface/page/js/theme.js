// Before anything is drawn, so that the page does not flash. Not a module for that reason.
"use strict";
(() => {
  let wish = "auto";
  try {
    wish = localStorage.getItem("twinlog-theme") || "auto";
  } catch {
    // a browser that keeps nothing: the system's colours
  }
  document.documentElement.dataset.theme = wish;
})();
