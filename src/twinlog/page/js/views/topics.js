// All topics of all flows, with search, sorting and filters.

import * as columns from "../columns.js";
import { attribute, h, LEVELS, mark, text } from "../dom.js";
import { count, counted, size } from "../format.js";
import { Grid, marked } from "../grid.js";
import { iconLevel, needsAttention, problem } from "../store.js";
import { flowChoice, matcher, search, topicHref } from "./parts.js";

const openTopic = (row) => {
  location.hash = topicHref(row.flow, row.topic);
};

// The name; on phones, where most columns are hidden, with the problem below it.
function named() {
  const title = h("span", { dir: "auto" });
  const second = h("small", { dir: "auto" });
  const element = h("div", { class: "named" }, title, second);
  element.setRow = (row) => {
    text(title, row.topic);
    attribute(title, "title", row.topic);
    text(second, needsAttention(row) ? reason(row) : "");
  };
  return element;
}

function reason(row) {
  return problem(row) || (row.state === "running" ? "" : row.state) || (row.lost ? `${count(row.lost)} lost` : "");
}

const columnsOf = (flow) => [
  {
    key: "level",
    label: "",
    title: "Health",
    value: (row) => LEVELS[iconLevel(row)],
    then: (one, other) => other.lag - one.lag,
    node: marked(mark, iconLevel),
    width: "34px",
    kind: "sign",
  },
  columns.plain("topic", "Topic", { node: named, untrusted: true, kind: "topic" }),
  ...(flow ? [columns.flow({ width: "150px", rank: 2 })] : []),
  columns.number("partitions", "Partitions", count, { width: "92px", rank: 3 }),
  columns.lag({ width: "104px", narrow: "82px" }),
  columns.behind({ width: "80px", narrow: "70px" }),
  columns.recordsPerSecond({ width: "92px", rank: 1 }),
  columns.number("bytes_per_s", "Bytes/s", size, { width: "88px", rank: 3 }),
  columns.number("lost", "Lost", (value) => (value ? count(value) : ""), { width: "80px", rank: 2, kind: "lost" }),
  columns.state({ width: "100px", rank: 1 }),
  columns.error({ rank: 2, width: "22%" }),
];

export function topicTable(label, { flow = true, changed } = {}) {
  return new Grid({
    label,
    columns: columnsOf(flow),
    sort: "level", // the worst first, then by lag
    open: openTopic,
    empty: "No topics.",
    changed,
  });
}

export class Topics {
  fills = true;

  constructor({ store, refresh }) {
    this.store = store;
    this.refresh = refresh;
    this.search = search("Search topics", () => this.#narrow());
    this.flow = flowChoice(() => this.#narrow());
    this.attention = h("input", { type: "checkbox", onchange: () => this.#narrow() });
    this.found = h("output", { class: "muted", "aria-live": "off" });
    this.count = h("span", { class: "muted" });
    this.grid = topicTable("Topics");
    this.element = h(
      "div",
      { class: "view filling" },
      h("h1", { class: "visually-hidden" }, "Topics"),
      h(
        "form",
        { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() },
        this.search,
        this.flow,
        h("label", { class: "check" }, this.attention, h("span", {}, "Needs attention")),
        this.found,
      ),
      this.grid.element,
    );
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown" || event.key === "Enter") {
        this.grid.table.focus();
        event.preventDefault();
      }
    });
  }

  enter(_rest, parameters) {
    if (parameters.has("attention")) this.attention.checked = parameters.get("attention") === "1";
    if (parameters.has("q")) this.search.value = parameters.get("q");
    if (parameters.has("flow")) {
      this.flow.offer(this.store.flows ?? []);
      this.flow.value = parameters.get("flow");
    }
    this.#filter();
  }

  #filter() {
    const match = matcher(this.search.value, (row) => `${row.topic} ${row.remote}`);
    const flow = this.flow.value;
    const attention = this.attention.checked;
    this.filter =
      match || flow || attention
        ? (row) => (!flow || row.flow === flow) && (!attention || needsAttention(row)) && (!match || match(row))
        : null;
  }

  #narrow() {
    const parameters = new URLSearchParams();
    if (this.search.value) parameters.set("q", this.search.value);
    if (this.flow.value) parameters.set("flow", this.flow.value);
    if (this.attention.checked) parameters.set("attention", "1");
    history.replaceState(null, "", `#/topics${parameters.size ? `?${parameters}` : ""}`);
    this.#filter();
    this.grid.element.scrollTop = 0;
    this.draw();
  }

  draw() {
    this.flow.offer(this.store.flows);
    this.grid.empty(this.#nothing());
    this.grid.put(this.store.topics.list(), this.filter);
    const all = this.store.topics.rows.size;
    const shown = this.grid.shown.length;
    text(this.found, shown === all ? counted(all, "topic") : `${count(shown)} of ${counted(all, "topic")}`);
    attribute(this.grid.element, "aria-busy", this.store.topics.loaded ? null : "true");
  }

  #nothing() {
    if (!this.store.topics.loaded) return "Loading topics …";
    if (!this.store.topics.rows.size)
      return "No topics yet. Replicated topics are shown once tasks report them; Plan lists the selected topics.";
    if (this.attention.checked)
      return this.search.value ? "No matching topic needs attention." : "No topic needs attention.";
    return this.search.value
      ? "No replicated topic matches. Plan lists excluded topics and the reasons."
      : "No matching topics.";
  }
}
