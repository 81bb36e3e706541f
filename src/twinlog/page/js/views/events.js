// Events: new topics, retries, recoveries, losses. Newest first.

import * as columns from "../columns.js";
import { h, text } from "../dom.js";
import { count, counted, moment } from "../format.js";
import { Grid } from "../grid.js";
import { flowChoice, eventText, matcher, search } from "./parts.js";

// Only events of a partition count records.
const records = (row) => (row.partition && row.amount ? row.amount : null);

const COLUMNS = [
  columns.plain("time", "Time", { show: (row) => moment(row.time), width: "132px", narrow: "78px" }),
  { key: "partition", label: "Partition", value: (row) => row.partition ?? null, untrusted: true, width: "18%", rank: 1 },
  columns.plain("kind", "Kind", { width: "112px", narrow: "86px", kind: "kind" }),
  columns.plain("text", "Event", { untrusted: true, kind: "long" }),
  columns.flow({ width: "130px", rank: 2 }),
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
      open: (row) => this.#showDetail(row),
    });
    this.filter = null;
    this.element = h(
      "div",
      { class: "view filling" },
      h("h1", { class: "visually-hidden" }, "Events"),
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

  #showDetail(row) {
    text(this.detail, `${moment(row.time)} ${row.flow} ${row.kind}: ${eventText(row)}`);
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
        ? "Loading events …"
        : events.items.length
          ? "No matching events."
          : "No events since the start of this run.",
    );
    this.grid.put(events.items, this.filter);
    text(this.found, counted(this.grid.shown.length, "event"));
  }
}
