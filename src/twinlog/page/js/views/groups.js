// Consumer groups: their offsets on the source, and where they would resume on the target.

import * as columns from "../columns.js";
import { attribute, h, text } from "../dom.js";
import { count, moment } from "../format.js";
import { Grid } from "../grid.js";
import { flowChoice, matcher, search } from "./parts.js";

const offset = (key, label, more) => columns.number(key, label, count, { width: "112px", rank: 2, ...more });
const lag = (key, label, more) => columns.number(key, label, count, { width: "96px", ...more });

// The group; on phones, where those columns are hidden, with topic and partition below it.
function named() {
  const title = h("span", { dir: "auto" });
  const second = h("small", { dir: "auto", class: "plain" });
  const element = h("div", { class: "named" }, title, second);
  element.setRow = (row) => {
    text(title, row.group);
    attribute(title, "title", row.group);
    text(second, `${row.topic}-${row.partition}`);
  };
  return element;
}

const COLUMNS = [
  columns.plain("group", "Group", { node: named, untrusted: true, kind: "topic" }),
  columns.plain("topic", "Topic on the target", { untrusted: true, rank: 1 }),
  columns.partition({ rank: 1 }),
  columns.flow({ width: "120px", rank: 3 }),
  offset("source_offset", "Source offset", { title: "Committed by the group on the source" }),
  lag("source_lag", "Source lag", { title: "Records that the group has not read yet on the source" }),
  offset("checkpoint_offset", "Translated", { title: "The same position on the target, from the newest checkpoint" }),
  offset("target_offset", "Target offset", { title: "Committed on the target; – if there is none" }),
  lag("target_lag", "Target lag", { title: "Records that the group has not read yet on the target" }),
  columns.number("checkpoint_ms", "Checkpoint", moment, { width: "104px", rank: 3 }),
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
      h("h1", { class: "visually-hidden" }, "Consumer groups"),
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
        ? "Loading groups …"
        : groups.rows.size
          ? "No matching groups."
          : "No consumer groups yet. A group is shown once it has a checkpoint: it must consume a replicated topic, and be selected by the setting groups.",
    );
    this.grid.put(groups.list(), this.filter);
    text(this.found, `${count(this.grid.shown.length)} group partitions`);
  }
}
