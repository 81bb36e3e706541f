// Overview: all flows, and topics that need attention.

import { h, LEVELS, mark, name, only, breakable, text } from "../dom.js";
import { count, counted, moment, short, span } from "../format.js";
import { FlowMap } from "../map.js";
import { iconLevel, needsAttention, problem } from "../store.js";
import { Charts, FlowCard, flowHref, eventText, topicHref } from "./parts.js";

const WORST = 8;

export class Overview {
  wants = ["history"];

  constructor({ store, redraw }) {
    this.store = store;
    this.mark = mark("unknown");
    this.verdict = h("h1", {});
    this.second = h("p", { class: "muted" });
    this.map = new FlowMap({ href: flowHref });
    this.charts = new Charts(store, redraw);
    this.cards = new Map();
    this.flows = h("div", { class: "cards" });
    this.attention = h("ul", { class: "worst" });
    this.more = h("p", { class: "more" });
    this.events = h("ul", { class: "events" });
    this.none = h(
      "div",
      { class: "empty tall" },
      h("p", {}, "No flows yet."),
      h(
        "p",
        { class: "muted" },
        "A flow is shown here once it is configured and started.",
      ),
    );
    this.some = h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "split" },
        section("Topology", this.map.element, "wide"),
        h(
          "div",
          { class: "stack side" },
          section("Needs attention", h("div", {}, this.attention, this.more)),
          section("Latest events", this.events),
        ),
      ),
      section("Over the last hour", this.charts.element),
      section("Flows", this.flows, "bare"),
    );
    this.body = h("div", {});
    this.element = h(
      "div",
      { class: "view stack" },
      h("div", { class: "verdict" }, this.mark, h("div", {}, this.verdict, this.second)),
      this.body,
    );
  }

  draw() {
    const { store } = this;
    const { flows } = store;
    only(this.body, [flows.length ? this.some : this.none]);
    this.#verdict(flows);
    if (!flows.length) return;
    this.map.draw(flows);
    this.charts.draw(flows);
    this.#cards(flows);
    this.#attention();
    this.#events();
  }

  #verdict(flows) {
    const { level } = this.store;
    this.mark.set(level);
    const bad = flows.filter((flow) => flow.health.level === level);
    const names =
      bad
        .slice(0, 3)
        .map((flow) => flow.name)
        .join(", ") + (bad.length > 3 ? ` and ${bad.length - 3} more` : "");
    const one = flows.length === 1;
    const words = !flows.length
      ? ["Nothing to show yet"]
      : one
        ? [names, ` is ${level}`]
        : level === "healthy"
          ? [flows.length === 2 ? "Both flows are healthy" : `All ${flows.length} flows are healthy`]
          : [`${counted(bad.length, "flow")} of ${flows.length} ${bad.length === 1 ? "is" : "are"} ${level}: `, names];
    if (this.verdict.textContent !== words.join(""))
      this.verdict.replaceChildren(...words.flatMap((part) => (part === names ? breakable(part) : part)));
    const lag = flows.reduce((sum, flow) => sum + flow.lag, 0);
    const known = flows.some((flow) => flow.partitions);
    const late = Math.max(0, ...flows.map((flow) => flow.lag_seconds ?? 0));
    const speed = flows.reduce((sum, flow) => sum + flow.records_per_s, 0);
    const still = flows.filter((flow) => flow.state !== "running").map((flow) => `${flow.name} is ${flow.state}`);
    const summary = [
      lag
        ? `${counted(lag, "record")} behind${late >= 1 ? `, up to ${span(late)}` : ""}`
        : !known
          ? "no task has reported yet"
          : still.length
            ? "no lag in the last report"
            : "everything has caught up",
      `${short(Math.round(speed))} ${Math.round(speed) === 1 ? "record/s" : "records/s"} replicated`,
      ...still.slice(0, 3),
    ].join("; ");
    text(
      this.second,
      flows.length ? `${summary[0].toUpperCase()}${summary.slice(1)}.` : "Connected to Twinlog; no flows are configured.",
    );
  }

  #cards(flows) {
    for (const flow of flows) {
      if (!this.cards.has(flow.name)) this.cards.set(flow.name, new FlowCard());
      this.cards.get(flow.name).draw(flow, this.store.time);
    }
    const order = [...flows].sort((one, other) => LEVELS[one.health.level] - LEVELS[other.health.level]);
    only(
      this.flows,
      order.map((flow) => this.cards.get(flow.name).element),
    );
  }

  #attention() {
    const rows = this.store.topics.list().filter(needsAttention);
    rows.sort(
      (one, other) =>
        LEVELS[iconLevel(one)] - LEVELS[iconLevel(other)] || other.lag - one.lag || other.lost - one.lost,
    );
    const shown = rows.slice(0, WORST);
    const content = JSON.stringify([
      shown.map((row) => [row.key, row.level, row.lag, row.error, row.waits, row.lost]),
      rows.length,
      this.store.topics.loaded,
    ]);
    if (content === this.renderedAttention) return;
    this.renderedAttention = content;
    this.attention.replaceChildren(
      ...shown.map((row) =>
        h(
          "li",
          {},
          mark(iconLevel(row)),
          h(
            "div",
            {},
            h("a", { href: topicHref(row.flow, row.topic), title: row.topic }, name(row.topic)),
            h("p", { class: "muted" }, why(row)),
          ),
        ),
      ),
    );
    const more = rows.length - shown.length;
    this.more.replaceChildren(
      ...(rows.length
        ? [
            h(
              "a",
              { href: "#/topics?attention=1" },
              more > 0 ? `All ${count(rows.length)} topics that need attention` : "Show them in the table",
            ),
          ]
        : [h("span", { class: "all-clear" }, mark("healthy"), "No topic needs attention.")]),
    );
  }

  #events() {
    const shown = this.store.events.items.slice(0, 6);
    const keys = JSON.stringify(shown.map((event) => event.key));
    if (keys === this.renderedEvents) return;
    this.renderedEvents = keys;
    this.events.replaceChildren(
      ...(shown.length
        ? shown.map((event) =>
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

function why(row) {
  const parts = [row.flow];
  if (problem(row)) parts.push(problem(row));
  else if (row.state !== "running") parts.push(row.state);
  if (row.lag) parts.push(`${short(row.lag)} behind${row.lag_seconds >= 1 ? `, ${span(row.lag_seconds)}` : ""}`);
  if (row.lost) parts.push(`${count(row.lost)} lost`);
  return parts.join(" · ");
}

function section(title, content, kind = "") {
  const id = `part-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h("section", { class: `panel ${kind}`, "aria-labelledby": id }, h("h2", { id }, title), content);
}
