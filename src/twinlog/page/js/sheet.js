// A topic with its partitions, as a dialog: why it lags, and its offsets on both clusters.

import * as columns from "./columns.js";
import { h, mark, name, only, text } from "./dom.js";
import { count, latency, moment, NONE, rate, size, span } from "./format.js";
import { Grid } from "./grid.js";
import { iconLevel, topicKey } from "./store.js";
import { eventText } from "./views/parts.js";

// Unknown offsets are negative.
const known = (value) => (value === null || value === undefined || value < 0 ? null : value);
const offset = (key, label, more) => ({
  key,
  label,
  value: (row) => known(row[key]),
  show: (row) => count(known(row[key])),
  number: true,
  width: "124px",
  rank: 2,
  ...more,
});

const COLUMNS = [
  columns.partition(),
  columns.state({ width: "96px" }),
  columns.lag({ width: "92px" }),
  columns.behind({ width: "76px" }),
  offset("position", "Source offset", { title: "Next source offset to replicate" }),
  offset("end", "Source end"),
  offset("target", "Target offset", { title: "Next offset on the target" }),
  columns.recordsPerSecond({ width: "90px", rank: 2 }),
  columns.number("latency_ms", "Latency", (value) => (value ? latency(value) : NONE), {
    width: "90px",
    rank: 3,
    title: "From the record's timestamp to the target's acknowledgement; last value",
  }),
  columns.plain("lane", "Path", {
    width: "76px",
    rank: 3,
    title: "fast: batches are forwarded unchanged. rebuild: records are decoded and encoded again",
  }),
  columns.plain("task", "Task", {
    show: (row) => (row.task < 0 ? NONE : `${row.task}${row.executor ? ` on ${row.executor}` : ""}`),
    width: "150px",
    rank: 3,
  }),
  columns.error({ rank: 1 }),
];

export class Sheet {
  constructor(container, { store }) {
    this.store = store;
    this.title = h("h2", { id: "sheet-title" });
    this.mark = mark("unknown");
    this.where = h("p", { class: "muted names" });
    this.facts = h("dl", { class: "facts" });
    this.why = h("ul", { class: "why" });
    this.grid = new Grid({
      label: "Partitions",
      columns: COLUMNS,
      sort: "lag",
      descending: true,
      empty: "Loading partitions …",
    });
    this.errors = h("div", { class: "errors" });
    this.groups = h("div", {});
    this.events = h("div", {});
    this.missing = h("p", { class: "notice", hidden: true });
    this.parts = [
      h("section", { "aria-labelledby": "sheet-why" }, h("h3", { id: "sheet-why" }, "Why"), this.why),
      h(
        "section",
        { "aria-labelledby": "sheet-partitions" },
        h("h3", { id: "sheet-partitions" }, "Partitions"),
        this.grid.element,
      ),
    ];
    const close = h(
      "button",
      { type: "button", class: "close", "aria-label": "Close", onclick: () => this.element.close() },
      "Close",
    );
    this.content = h("div", { class: "sheet-body" }, this.missing, this.facts, ...this.parts, this.groups, this.events);
    this.element = h(
      "dialog",
      {
        class: "sheet",
        "aria-labelledby": "sheet-title",
        onclose: () => this.closed?.(),
        onclick: (event) => event.target === this.element && this.element.close(),
      },
      h("header", {}, this.mark, h("div", { class: "titles" }, this.title, this.where), close),
      this.content,
    );
    container.append(this.element);
  }

  get isOpen() {
    return this.element.open;
  }

  open(closed) {
    this.closed = closed;
    if (this.element.open) return;
    this.element.showModal();
    this.content.scrollTop = 0;
    this.grid.table.focus({ preventScroll: true });
    this.draw();
  }

  close() {
    this.closed = null;
    if (this.element.open) this.element.close();
  }

  draw() {
    const { topic } = this.store;
    if (!topic || !this.element.open) return;
    const row = this.store.topics.rows.get(topicKey(topic.flow, topic.topic));
    text(this.title, topic.topic);
    text(this.where, `${topic.flow}${topic.remote ? ` · on the target: ${topic.remote}` : ""}`);
    this.mark.set(row ? iconLevel(row) : "unknown");
    this.missing.hidden = !topic.missing;
    text(this.missing, topic.missing);
    for (const part of this.parts) part.hidden = Boolean(topic.missing);
    this.facts.hidden = !row;
    if (row) this.#facts(row);
    this.#why(topic, row);
    const partitions = topic.table.list();
    this.grid.element.style.setProperty("--rows", String(Math.min(Math.max(partitions.length, 1), 12)));
    this.grid.put(partitions);
    this.#groups(topic);
    this.#events(topic);
  }

  #facts(row) {
    const facts = [
      ["State", row.state],
      ["Lag", `${count(row.lag)} records`],
      ["Behind", span(row.lag_seconds)],
      ["Throughput", `${rate(row.records_per_s)} rec/s, ${size(row.bytes_per_s)}/s`],
      ["Replicated", `${count(row.records)} records, ${size(row.bytes)}`],
      ["Lost", row.lost ? `${count(row.lost)} records` : "none"],
    ];
    this.facts.replaceChildren(
      ...facts.map(([label, value]) =>
        h("div", {}, h("dt", {}, label), h("dd", { class: label === "Lost" && row.lost ? "bad" : null }, value)),
      ),
    );
  }

  #why(topic, row) {
    const words = topic.why.length
      ? topic.why
      : [row && !row.lag ? "No lag: all partitions have caught up." : "No problems found."];
    if (words.join("\n") === this.renderedWhy) return;
    this.renderedWhy = words.join("\n");
    this.why.replaceChildren(...words.map((each) => h("li", {}, name(each))));
  }

  #groups(topic) {
    const found = this.store.groups
      .list()
      .filter((row) => row.flow === topic.flow && (row.topic === topic.remote || row.source_topic === topic.topic));
    const lines = found
      .slice(0, 100)
      .map((row) =>
        h(
          "tr",
          {},
          name(row.group, "td"),
          h("td", { class: "number" }, String(row.partition)),
          h("td", { class: "number" }, count(row.source_offset)),
          h("td", { class: "number" }, count(row.source_lag)),
          h("td", { class: "number" }, count(row.target_offset ?? row.checkpoint_offset)),
          h("td", { class: "number" }, count(row.target_lag)),
        ),
      );
    const heads = ["Group", "Partition", "Source offset", "Source lag", "Target offset", "Target lag"];
    only(
      this.groups,
      found.length
        ? [
            h("h3", {}, "Consumer groups"),
            h(
              "div",
              { class: "scroll" },
              h(
                "table",
                { class: "plain" },
                h(
                  "thead",
                  {},
                  h(
                    "tr",
                    {},
                    heads.map((label, at) => h("th", { scope: "col", class: at ? "number" : null }, label)),
                  ),
                ),
                h("tbody", {}, lines),
              ),
            ),
            found.length > 100
              ? h("p", { class: "muted" }, `and ${count(found.length - 100)} more in Groups`)
              : null,
          ]
        : [],
    );
  }

  #events(topic) {
    const mine = this.store.events.items
      .filter((event) => event.flow === topic.flow && of(event, topic.topic))
      .slice(0, 20);
    only(
      this.events,
      mine.length
        ? [
            h("h3", {}, "Events"),
            h(
              "ul",
              { class: "events" },
              mine.map((event) =>
                h(
                  "li",
                  {},
                  h("time", {}, moment(event.time)),
                  h("span", { class: "kind" }, event.kind),
                  name(eventText(event), "span"),
                ),
              ),
            ),
          ]
        : [],
    );
  }
}

// An event's partition is topic-number.
function of(event, topic) {
  return event.topic === topic || (event.partition ?? "").toString().replace(/-\d+$/, "") === topic;
}
