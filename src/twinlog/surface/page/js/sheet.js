// One topic, partition by partition, over whatever was shown before: why it lags, where it stands on both sides.

import { h, mark, name, only, text } from "./dom.js";
import { count, latency, moment, NONE, rate, size, span } from "./format.js";
import { Grid } from "./grid.js";
import { sign, topicKey, trouble } from "./store.js";
import { happening } from "./views/parts.js";

const offset = (value) => (value === null || value === undefined || value < 0 ? null : value);

const COLUMNS = [
  { key: "partition", label: "Part.", title: "Partition", value: (row) => row.partition, number: true, width: "62px" },
  { key: "state", label: "State", value: (row) => row.state, width: "96px", kind: "state" },
  {
    key: "lag",
    label: "Lag",
    value: (row) => row.lag,
    show: (row) => count(row.lag),
    number: true,
    width: "92px",
    title: "Records on the source that are not on the target yet",
  },
  {
    key: "lag_seconds",
    label: "Behind",
    value: (row) => row.lag_seconds,
    show: (row) => span(row.lag_seconds),
    number: true,
    width: "76px",
  },
  {
    key: "position",
    label: "Source offset",
    value: (row) => offset(row.position),
    show: (row) => count(offset(row.position)),
    number: true,
    width: "124px",
    rank: 2,
    title: "The next record of the source that will be copied",
  },
  {
    key: "end",
    label: "Source end",
    value: (row) => offset(row.end),
    show: (row) => count(offset(row.end)),
    number: true,
    width: "124px",
    rank: 2,
  },
  {
    key: "target",
    label: "Target offset",
    value: (row) => offset(row.target),
    show: (row) => count(offset(row.target)),
    number: true,
    width: "124px",
    rank: 2,
    title: "Where the next record goes on the target",
  },
  {
    key: "records_per_s",
    label: "Records/s",
    value: (row) => row.records_per_s,
    show: (row) => rate(row.records_per_s),
    number: true,
    width: "90px",
    rank: 2,
  },
  {
    key: "latency_ms",
    label: "Latency",
    value: (row) => row.latency_ms,
    show: (row) => (row.latency_ms ? latency(row.latency_ms) : NONE),
    number: true,
    width: "90px",
    rank: 3,
    title: "From the record's time to the target's acknowledgement, last seen",
  },
  {
    key: "lane",
    label: "Lane",
    value: (row) => row.lane,
    width: "76px",
    rank: 3,
    title: "fast: batches pass as they are. rebuild: each record is read and written anew",
  },
  {
    key: "task",
    label: "Task",
    value: (row) => row.task,
    show: (row) => (row.task < 0 ? NONE : `${row.task}${row.executor ? ` on ${row.executor}` : ""}`),
    width: "150px",
    rank: 3,
  },
  { key: "error", label: "Error", value: (row) => trouble(row) || null, rank: 1, foreign: true, kind: "error" },
];

export class Sheet {
  constructor(placeOf, { store }) {
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
      empty: "Asking for its partitions …",
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
    placeOf.append(this.element);
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
    this.mark.set(row ? sign(row) : "unknown");
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
      ["Speed", `${rate(row.records_per_s)} rec/s, ${size(row.bytes_per_s)}/s`],
      ["Copied", `${count(row.records)} records, ${size(row.bytes)}`],
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
      : [row && !row.lag ? "Nothing lags: every partition has caught up." : "Nothing is known to be wrong."];
    if (words.join("\n") === this.told) return;
    this.told = words.join("\n");
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
              ? h("p", { class: "muted" }, `and ${count(found.length - 100)} more in the view of groups`)
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
                  name(happening(event), "span"),
                ),
              ),
            ),
          ]
        : [],
    );
  }
}

// Events name a partition as topic-number.
function of(event, topic) {
  return event.topic === topic || (event.partition ?? "").toString().replace(/-\d+$/, "") === topic;
}
