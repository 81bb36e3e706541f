// Consumer groups: where they are on the source, and where they would go on at the target.

import { h, text } from "../dom.js";
import { count, moment } from "../format.js";
import { Grid } from "../grid.js";
import { flowChoice, matcher, search } from "./parts.js";

const number = (key, label, extra = {}) => ({
  key,
  label,
  value: (row) => row[key],
  show: (row) => count(row[key]),
  number: true,
  width: "112px",
  ...extra,
});

const COLUMNS = [
  { key: "group", label: "Group", value: (row) => row.group, foreign: true, kind: "topic" },
  { key: "topic", label: "Topic on the target", value: (row) => row.topic, foreign: true, rank: 1 },
  { key: "partition", label: "Part.", title: "Partition", value: (row) => row.partition, number: true, width: "62px" },
  { key: "flow", label: "Flow", value: (row) => row.flow, foreign: true, width: "120px", rank: 3 },
  number("source_offset", "Source offset", { rank: 2, title: "Committed by the group on the source" }),
  number("source_lag", "Source lag", { width: "96px", title: "What the group has not read yet on the source" }),
  number("checkpoint_offset", "Translated", {
    rank: 2,
    title: "The same position on the target, by the newest checkpoint",
  }),
  number("target_offset", "Target offset", {
    rank: 2,
    title: "Committed on the target; – where the group has none there",
  }),
  number("target_lag", "Target lag", {
    width: "96px",
    title: "What it would read on the target before it has caught up",
  }),
  {
    key: "checkpoint_ms",
    label: "Checkpoint",
    value: (row) => row.checkpoint_ms,
    show: (row) => moment(row.checkpoint_ms),
    number: true,
    width: "104px",
    rank: 3,
  },
];

export class Groups {
  wants = ["groups"];
  fills = true;

  constructor({ store }) {
    this.store = store;
    this.search = search("Search groups and topics", () => this.#narrow());
    this.flow = flowChoice(() => this.#narrow());
    this.found = h("output", { class: "muted", "aria-live": "off" });
    this.grid = new Grid({ label: "Consumer groups", columns: COLUMNS, sort: "group" });
    this.filter = null;
    this.element = h(
      "div",
      { class: "view filling" },
      h("h1", { class: "unseen" }, "Consumer groups"),
      h(
        "form",
        { class: "bar", role: "search", onsubmit: (event) => event.preventDefault() },
        this.search,
        this.flow,
        this.found,
      ),
      this.grid.element,
    );
  }

  #narrow() {
    const match = matcher(this.search.value, (row) => `${row.group} ${row.topic} ${row.source_topic}`);
    const flow = this.flow.value;
    this.filter = match || flow ? (row) => (!flow || row.flow === flow) && (!match || match(row)) : null;
    this.draw();
  }

  draw() {
    const { groups, flows } = this.store;
    this.flow.offer(flows);
    this.grid.empty(
      !groups.loaded
        ? "Asking for groups …"
        : groups.rows.size
          ? "No group is like that."
          : "No consumer groups yet. A group is shown here once a checkpoint was written for it: it must read a topic that is copied, and be chosen by the setting groups.",
    );
    this.grid.put(groups.list(), this.filter);
    text(this.found, `${count(this.grid.shown.length)} group partitions`);
  }
}
