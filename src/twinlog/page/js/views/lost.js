// Ranges of source offsets that were not replicated, with the reason.

import * as columns from "../columns.js";
import { h, text } from "../dom.js";
import { count, counted, moment } from "../format.js";
import { Grid } from "../grid.js";
import { matcher, search, topicHref } from "./parts.js";

const lostOffsets = (row) => row.last - row.first + 1;

const COLUMNS = [
  columns.plain("time_ms", "Time", { show: (row) => moment(row.time_ms), width: "132px", rank: 1 }),
  columns.plain("topic", "Topic", { untrusted: true, kind: "topic" }),
  columns.partition(),
  columns.number("first", "First", count, { width: "116px", rank: 1 }),
  columns.number("last", "Last", count, { width: "116px", rank: 2 }),
  {
    key: "offsets",
    label: "Offsets",
    value: lostOffsets,
    show: (row) => count(lostOffsets(row)),
    number: true,
    width: "92px",
    narrow: "84px",
  },
  columns.plain("reason", "Reason", { untrusted: true, kind: "long", rank: 1 }),
  columns.flow({ width: "120px", rank: 3 }),
];

export class Lost {
  fills = true;

  constructor({ store }) {
    this.store = store;
    this.search = search("Search topics and reasons", () => this.#narrow());
    this.found = h("output", { class: "muted", "aria-live": "off" });
    this.grid = new Grid({
      label: "Lost ranges",
      columns: COLUMNS,
      sort: "time_ms",
      descending: true,
      open: (row) => {
        location.hash = topicHref(row.flow, row.topic);
      },
    });
    this.filter = null;
    this.element = h(
      "div",
      { class: "view filling" },
      h("h1", { class: "visually-hidden" }, "Lost ranges"),
      h("form", { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() }, this.search, this.found),
      this.grid.element,
    );
  }

  #narrow() {
    this.filter = matcher(this.search.value, (row) => `${row.topic} ${row.reason} ${row.flow}`);
    this.draw();
  }

  draw() {
    const { lost } = this.store;
    this.grid.empty(
      !lost.loaded
        ? "Loading lost ranges …"
        : lost.items.length
          ? "No matching ranges."
          : "No lost ranges: no selected source record was deleted before it was replicated.",
    );
    this.grid.put(lost.items, this.filter);
    text(this.found, counted(this.grid.shown.length, "range"));
  }
}
