// The control for epsilon. Everything that it shows was computed when the report was written; the
// script only chooses among it. Without scripts, the table below the control has the same numbers.
"use strict";

const page = document.getElementById("levels");

function start(data) {
  const slider = document.getElementById("epsilon");
  const share = document.getElementById("share");
  const text = document.getElementById("level-text");
  const rows = document.querySelectorAll("#level-table tbody tr");

  // The points that stand for a limit, one in each panel; none where there is no guarantee.
  function points(place) {
    const groups = document.querySelectorAll("#level-chart g[class*='points']");
    return [...groups].map((group) => group.children[data[place].point]).filter(Boolean);
  }

  function show() {
    const place = Number(slider.value);
    share.textContent = data[place].share;
    text.textContent = data[place].text;
    slider.setAttribute("aria-valuetext", data[place].share);
    for (const old of document.querySelectorAll("#level-chart .is-chosen, #level-table .is-chosen")) {
      old.classList.remove("is-chosen");
    }
    for (const chosen of [rows[place], ...points(place)]) {
      chosen.classList.add("is-chosen");
    }
  }

  slider.addEventListener("input", show);
  document.getElementById("promised").addEventListener("click", () => {
    slider.value = slider.defaultValue;
    show();
    slider.focus();
  });
  document.getElementById("control").hidden = false;
  show();
}

if (page) {
  start(JSON.parse(page.textContent));
}

const printer = document.getElementById("print");
printer.hidden = false;
printer.addEventListener("click", () => window.print());
