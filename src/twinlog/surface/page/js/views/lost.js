// Source offsets that never reached the target, and why.

import { h, text } from "../dom.js";
import { count, counted, moment } from "../format.js";
import { Grid } from "../grid.js";
import { matcher, search, topicHref } from "./parts.js";

const COLUMNS = [
  {
    key: "time_ms",
    label: "Time",
    value: (row) => row.time_ms,
    show: (row) => moment(row.time_ms),
    width: "132px",
    rank: 1,
  },
  { key: "topic", label: "Topic", value: (row) => row.topic, foreign: true, kind: "topic" },
  { key: "partition", label: "Part.", title: "Partition", value: (row) => row.partition, number: true, width: "62px" },
  {
    key: "first",
    label: "First",
    value: (row) => row.first,
    show: (row) => count(row.first),
    number: true,
    width: "116px",
    rank: 1,
  },
  {
    key: "last",
    label: "Last",
    value: (row) => row.last,
    show: (row) => count(row.last),
    number: true,
    width: "116px",
    rank: 1,
  },
  {
    key: "offsets",
    label: "Offsets",
    value: (row) => row.last - row.first + 1,
    show: (row) => count(row.last - row.first + 1),
    number: true,
    width: "92px",
    narrow: "84px",
  },
  { key: "reason", label: "Reason", value: (row) => row.reason, foreign: true, kind: "long", rank: 1 },
  { key: "flow", label: "Flow", value: (row) => row.flow, foreign: true, width: "120px", rank: 3 },
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
      h("h1", { class: "unseen" }, "Lost ranges"),
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
        ? "Asking for lost ranges …"
        : lost.items.length
          ? "No range is like that."
          : "Nothing is lost: every record of the source that was to be copied is on the target, or on its way.",
    );
    this.grid.put(lost.items, this.filter);
    text(this.found, counted(this.grid.shown.length, "range"));
  }
}
