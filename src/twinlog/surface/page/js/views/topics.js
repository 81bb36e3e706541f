// All topics of all flows: searched, sorted, narrowed to those that need attention.

import { attribute, h, LEVELS, mark, text } from "../dom.js";
import { count, counted, rate, size, span } from "../format.js";
import { Grid, marked } from "../grid.js";
import { needsAttention, sign, trouble } from "../store.js";
import { flowChoice, matcher, search, topicHref } from "./parts.js";

const openTopic = (row) => {
  location.hash = topicHref(row.flow, row.topic);
};

// The name, and on a phone, which has no room for more columns, a small line with what is wrong.
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
  return trouble(row) || (row.state === "running" ? "" : row.state) || (row.lost ? `${count(row.lost)} lost` : "");
}

function columns(flow) {
  return [
    {
      key: "level",
      label: "",
      title: "Health",
      value: (row) => LEVELS[sign(row)],
      then: (one, other) => other.lag - one.lag,
      node: marked(mark, sign),
      width: "34px",
      kind: "sign",
    },
    { key: "topic", label: "Topic", value: (row) => row.topic, node: named, foreign: true, kind: "topic" },
    ...(flow ? [{ key: "flow", label: "Flow", value: (row) => row.flow, width: "150px", rank: 2, foreign: true }] : []),
    {
      key: "partitions",
      label: "Partitions",
      value: (row) => row.partitions,
      show: (row) => count(row.partitions),
      number: true,
      width: "92px",
      rank: 3,
    },
    {
      key: "lag",
      label: "Lag",
      value: (row) => row.lag,
      show: (row) => count(row.lag),
      number: true,
      width: "104px",
      narrow: "82px",
      title: "Records on the source that are not on the target yet",
    },
    {
      key: "lag_seconds",
      label: "Behind",
      value: (row) => row.lag_seconds,
      show: (row) => span(row.lag_seconds),
      number: true,
      width: "80px",
      narrow: "70px",
    },
    {
      key: "records_per_s",
      label: "Records/s",
      value: (row) => row.records_per_s,
      show: (row) => rate(row.records_per_s),
      number: true,
      width: "92px",
      rank: 1,
    },
    {
      key: "bytes_per_s",
      label: "Bytes/s",
      value: (row) => row.bytes_per_s,
      show: (row) => size(row.bytes_per_s),
      number: true,
      width: "88px",
      rank: 3,
    },
    {
      key: "lost",
      label: "Lost",
      value: (row) => row.lost,
      show: (row) => (row.lost ? count(row.lost) : ""),
      number: true,
      width: "80px",
      rank: 2,
      kind: "lost",
    },
    { key: "state", label: "State", value: (row) => row.state, width: "100px", rank: 1, kind: "state" },
    {
      key: "error",
      label: "Error",
      value: (row) => trouble(row) || null,
      rank: 2,
      foreign: true,
      kind: "error",
      width: "22%",
    },
  ];
}

export function topicTable(label, { flow = true, changed } = {}) {
  return new Grid({
    label,
    columns: columns(flow),
    sort: "level", // the worst first, and among them those that lag most
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
      h("h1", { class: "unseen" }, "Topics"),
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
    if (!this.store.topics.loaded) return "Asking for topics …";
    if (!this.store.topics.rows.size)
      return "No topics yet. Those that a flow copies are shown here as soon as its tasks report them; the view Plan tells which they will be.";
    if (this.attention.checked)
      return this.search.value ? "No topic like that needs attention." : "Nothing needs attention.";
    return this.search.value
      ? "No replicated topic has that name. Plan lists what is left out, and why."
      : "No topic is like that.";
  }
}
