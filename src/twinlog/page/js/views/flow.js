// A flow: status and reasons, charts, topics, events.

import { h, mark, name, only, text } from "../dom.js";
import { count, counted, moment, size } from "../format.js";
import { Charts, facts, eventText, list } from "./parts.js";
import { displayLevel } from "../store.js";
import { topicTable } from "./topics.js";

export class Flow {
  wants = ["history"];

  constructor({ store, redraw }) {
    this.store = store;
    this.mark = mark("unknown");
    this.title = h("h1", {});
    this.second = h("p", { class: "muted" });
    this.why = h("ul", { class: "why" });
    this.error = h("p", { class: "notice bad", hidden: true });
    this.facts = h("dl", { class: "facts" });
    this.totals = h("dl", { class: "facts" });
    this.executors = h("ul", { class: "plain-list" });
    this.charts = new Charts(store, redraw);
    this.grid = topicTable("Topics of this flow", { flow: false });
    this.events = h("ul", { class: "events" });
    this.allTopics = h("a", {}, "Search all topics");
    const part = (label, ...content) =>
      h("section", { class: "panel", "aria-label": label }, h("h2", {}, label), ...content);
    this.some = h(
      "div",
      { class: "stack" },
      part("Status", this.error, this.why, this.facts),
      part("Over the last hour", this.charts.element),
      h(
        "section",
        { class: "panel", "aria-label": "Topics" },
        h("h2", {}, "Topics ", this.allTopics),
        this.grid.element,
      ),
      h(
        "div",
        { class: "split even" },
        part("Latest events", this.events),
        part("Since the start of this run", this.totals, h("h3", {}, "Tasks"), this.executors),
      ),
    );
    this.none = h("p", { class: "empty tall" }, "Flow not found.");
    this.body = h("div", {});
    this.element = h(
      "div",
      { class: "view stack" },
      h("p", { class: "crumbs" }, h("a", { href: "#/" }, "Overview")),
      h("div", { class: "verdict" }, this.mark, h("div", {}, this.title, this.second)),
      this.body,
    );
  }

  enter([flow = ""]) {
    this.name = flow;
  }

  draw() {
    const flow = this.store.flow(this.name);
    text(this.title, this.name);
    this.mark.set(flow ? displayLevel(flow) : "unknown", flow?.health.level);
    only(this.body, [flow ? this.some : this.none]);
    text(
      this.second,
      flow
        ? `${flow.health.level}, ${flow.state} · epoch ${count(flow.epoch)} · started ${counted(flow.starts, "time")}`
        : "",
    );
    if (!flow) return;
    this.error.hidden = !flow.error;
    text(this.error, flow.error);
    const { reasons } = flow.health;
    this.why.replaceChildren(
      ...(reasons.length ? reasons : ["No problems found."]).map((reason) =>
        h("li", {}, name(reason)),
      ),
    );
    this.facts.replaceChildren(...list(facts(flow, this.store.time)));
    const { counters } = flow;
    this.totals.replaceChildren(
      ...list([
        ["Replicated", `${counted(counters.records, "record")}, ${size(counters.bytes)}`],
        ["Lost", count(counters.lost)],
        ["Rejected by the target", count(counters.skipped)],
        ["Rebuilt", count(counters.rebuilt)],
        ["Written by other producers", count(counters.foreign)],
        ["Possible duplicates", count(counters.duplicates)],
        ["Recoveries", count(counters.recoveries)],
        ["Stalls", count(counters.stalls)],
      ]),
    );
    const tasks = Object.entries(flow.executors);
    this.executors.replaceChildren(
      ...(tasks.length
        ? tasks.map(([task, where]) => h("li", {}, `${task} on ${where}`))
        : [h("li", { class: "muted" }, "No task has reported yet.")]),
    );
    this.charts.draw([flow]);
    this.allTopics.setAttribute("href", `#/topics?flow=${encodeURIComponent(flow.name)}`);
    const topics = this.store.topics.list().filter((row) => row.flow === flow.name);
    this.grid.element.style.setProperty("--rows", String(Math.min(Math.max(topics.length, 2), 8)));
    this.grid.put(topics);
    const events = this.store.events.items.filter((event) => event.flow === flow.name).slice(0, 12);
    this.events.replaceChildren(
      ...(events.length
        ? events.map((event) =>
            h(
              "li",
              {},
              h("time", {}, moment(event.time)),
              h("span", { class: "kind" }, event.kind),
              name(eventText(event), "span"),
            ),
          )
        : [h("li", { class: "muted" }, "No events.")]),
    );
  }
}
