// Components shared by several views.

import { attribute, h, mark, name, text } from "../dom.js";
import { ago, count, counted, latency, NONE, rate, short, size, span } from "../format.js";
import { Chart, Legend } from "../chart.js";
import { displayLevel, lagSummary } from "../store.js";

export const flowHref = (flow) => `#/flow/${encodeURIComponent(flow)}`;
export const topicHref = (flow, topic) => `#/topic/${encodeURIComponent(flow)}/${encodeURIComponent(topic)}`;

// The text of an event, preceded by its partition unless the text contains it.
export function eventText(event) {
  const { partition, text: words } = event;
  return partition && !words.includes(partition) ? `${partition}: ${words}` : words;
}

// A search field; rows must contain all words. "/" focuses it, Escape clears it.
export function search(label, changed) {
  const field = h("input", {
    type: "search",
    placeholder: matchMedia("(hover: hover)").matches ? `${label}   /` : label,
    "aria-label": label,
    autocomplete: "off",
    spellcheck: "false",
    oninput: changed,
    onkeydown: (event) => {
      if (event.key !== "Escape") return;
      if (field.value) {
        field.value = "";
        changed();
      } else field.blur();
      event.stopPropagation();
      event.preventDefault();
    },
  });
  return field;
}

export function matcher(words, fields) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (!wanted.length) return null;
  return (row) => {
    const all = fields(row).toLowerCase();
    return wanted.every((word) => all.includes(word));
  };
}

// A selection of one or all flows, kept up to date.
export function flowChoice(changed) {
  const choice = h("select", { "aria-label": "Flow", onchange: changed }, h("option", { value: "" }, "All flows"));
  choice.offer = (flows) => {
    const names = flows.map((flow) => flow.name);
    const offered = [...choice.options].slice(1).map((option) => option.value);
    if (names.join("\n") === offered.join("\n")) return;
    const value = choice.value;
    choice.replaceChildren(choice.options[0], ...names.map((each) => h("option", { value: each }, each)));
    choice.value = names.includes(value) ? value : "";
  };
  return choice;
}

export function facts(flow, now) {
  const executors = new Set(Object.values(flow.executors));
  return [
    ["Behind", lagSummary(flow, span(flow.lag_seconds))],
    ["Lag", counted(flow.lag, "record")],
    ["Throughput", `${rate(flow.records_per_s)} rec/s, ${size(flow.bytes_per_s)}/s`],
    [
      "Latency",
      flow.latency_p50_ms === null
        ? NONE
        : `${latency(flow.latency_p50_ms)} median, ${latency(flow.latency_p99_ms)} p99`,
    ],
    ["Partitions", count(flow.partitions)],
    [
      "Tasks",
      `${count(flow.tasks)}${executors.size ? ` in ${executors.size === 1 ? "1 process" : `${executors.size} processes`}` : ""}`,
    ],
    ["Heartbeat", flow.heartbeat_ms ? ago(flow.heartbeat_ms, now) : "none"],
    ["Checkpoint", flow.checkpoint_ms ? ago(flow.checkpoint_ms, now) : "none"],
  ];
}

export function list(pairs) {
  return pairs.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)));
}

// A flow in a few lines: status, reasons, and figures.
export class FlowCard {
  constructor() {
    this.mark = mark("unknown");
    this.link = h("a", {});
    this.state = h("span", { class: "state" });
    this.why = h("ul", { class: "why" });
    this.facts = h("dl", { class: "facts small" });
    this.element = h("article", { class: "card" }, h("h3", {}, this.mark, this.link, this.state), this.why, this.facts);
  }

  draw(flow, now) {
    const { level, reasons } = flow.health;
    attribute(this.element, "class", `card ${displayLevel(flow)}`);
    this.mark.set(displayLevel(flow), level);
    attribute(this.link, "href", flowHref(flow.name));
    text(this.link, flow.name);
    text(this.state, flow.state === "running" ? level : `${level}, ${flow.state}`);
    const content = reasons.join("\n");
    if (content !== this.renderedReasons) this.why.replaceChildren(...reasons.slice(0, 4).map((reason) => h("li", {}, name(reason))));
    this.renderedReasons = content;
    this.why.hidden = !reasons.length;
    const pairs = facts(flow, now);
    if (!this.facts.children.length) this.facts.append(...list(pairs));
    pairs.forEach(([, value], at) => text(this.facts.children[at].lastChild, value));
  }
}

// Lag in records and in time, and throughput, with one legend.
export class Charts {
  constructor(store, redraw) {
    this.store = store;
    this.off = new Set();
    const pick = (at) => this.legend.pick(at);
    this.charts = [
      new Chart({ title: "Lag, records", field: 1, show: short, least: 10, pick }),
      new Chart({ title: "Lag, time", field: 2, show: span, least: 10, pick }),
      new Chart({ title: "Records per second", field: 3, show: (value) => rate(value), least: 10, pick }),
      new Chart({ title: "Bytes per second", field: 4, show: (value) => size(value), least: 1000, pick }),
    ];
    this.legend = new Legend({
      values: (flow, at) => this.#value(flow, at),
      toggle: (flow) => {
        if (!this.off.delete(flow)) this.off.add(flow);
        redraw();
      },
    });
    this.element = h(
      "div",
      { class: "charts-box" },
      this.legend.element,
      h(
        "div",
        { class: "charts" },
        this.charts.map((chart) => chart.element),
      ),
    );
  }

  #value(flow, at) {
    const points = this.store.history.flows.get(flow) ?? [];
    const point = at === null ? points.at(-1) : points.findLast((each) => each[0] <= at + 3);
    if (!point) return "";
    return `${short(point[1])} behind${point[2] >= 1 ? `, ${span(point[2])}` : ""}, ${rate(point[3])} rec/s`;
  }

  draw(flows) {
    const places = new Map(this.store.flows.map((flow, at) => [flow.name, at]));
    const lines = flows.map((flow) => ({
      name: flow.name,
      points: this.store.history.flows.get(flow.name),
      at: places.get(flow.name),
      off: this.off.has(flow.name),
    }));
    this.legend.draw(lines);
    for (const chart of this.charts) chart.draw(lines, this.store.time);
  }
}
