// What happened: new topics, retries, recoveries, losses. The newest first.

import { h, text } from "../dom.js";
import { count, counted, moment } from "../format.js";
import { Grid } from "../grid.js";
import { flowChoice, happening, matcher, search } from "./parts.js";

// Events of whole topics count topics, and most count nothing.
const records = (row) => (row.partition && row.amount ? row.amount : null);

const COLUMNS = [
  {
    key: "time",
    label: "Time",
    value: (row) => row.time,
    show: (row) => moment(row.time),
    width: "132px",
    narrow: "78px",
  },
  { key: "partition", label: "Partition", value: (row) => row.partition ?? null, foreign: true, width: "18%", rank: 1 },
  { key: "kind", label: "Kind", value: (row) => row.kind, width: "112px", narrow: "86px", kind: "kind" },
  { key: "text", label: "What happened", value: (row) => row.text, foreign: true, kind: "long" },
  { key: "flow", label: "Flow", value: (row) => row.flow, foreign: true, width: "130px", rank: 2 },
  {
    key: "amount",
    label: "Records",
    value: records,
    show: (row) => (records(row) === null ? "" : count(row.amount)),
    number: true,
    width: "92px",
    rank: 3,
  },
];

export class Events {
  fills = true;

  constructor({ store }) {
    this.store = store;
    this.search = search("Search events", () => this.#narrow());
    this.flow = flowChoice(() => this.#narrow());
    this.kind = h(
      "select",
      { "aria-label": "Kind", onchange: () => this.#narrow() },
      h("option", { value: "" }, "All kinds"),
    );
    this.found = h("output", { class: "muted", "aria-live": "off" });
    this.detail = h("p", { class: "detail", role: "status" });
    this.grid = new Grid({
      label: "Events",
      columns: COLUMNS,
      sort: "time",
      descending: true,
      open: (row) => this.#tell(row),
    });
    this.filter = null;
    this.element = h(
      "div",
      { class: "view filling" },
      h("h1", { class: "unseen" }, "Events"),
      h(
        "form",
        { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() },
        this.search,
        this.flow,
        this.kind,
        this.found,
      ),
      this.grid.element,
      this.detail,
    );
  }

  #tell(row) {
    text(this.detail, `${moment(row.time)} ${row.flow} ${row.kind}: ${happening(row)}`);
  }

  #narrow() {
    const match = matcher(this.search.value, (row) => `${row.kind} ${row.text} ${row.partition ?? ""}`);
    const flow = this.flow.value;
    const kind = this.kind.value;
    this.filter =
      match || flow || kind
        ? (row) => (!flow || row.flow === flow) && (!kind || row.kind === kind) && (!match || match(row))
        : null;
    this.draw();
  }

  draw() {
    const { events, flows } = this.store;
    this.flow.offer(flows);
    const kinds = [...new Set(events.items.map((event) => event.kind))].sort();
    if (kinds.join() !== this.kinds) {
      const { value } = this.kind;
      this.kind.replaceChildren(this.kind.options[0], ...kinds.map((kind) => h("option", { value: kind }, kind)));
      this.kind.value = kinds.includes(value) ? value : "";
      this.kinds = kinds.join();
    }
    this.grid.empty(
      !events.loaded
        ? "Asking for events …"
        : events.items.length
          ? "No event is like that."
          : "Nothing has happened since this run began: no new topic, no retry, nothing lost.",
    );
    this.grid.put(events.items, this.filter);
    text(this.found, counted(this.grid.shown.length, "event"));
  }
}
