// Charts of flows over time, with synchronized cursors.

import { attribute, h, text } from "./dom.js";
import { time } from "./format.js";

const STEP = 5; // approximate seconds between points
const GAP = 4; // missing steps before the line is interrupted
const HOUR = 3600;
const MIN_RANGE = 600; // seconds shown at least
const COLOURS = 8;

// One line style per flow, the same in every chart: a colour, and dashes once colours are used up.
export function style(at) {
  return { colour: `--line${(at % COLOURS) + 1}`, dash: [[], [8, 4], [2, 3]][Math.floor(at / COLOURS) % 3] };
}

function css(variable) {
  return getComputedStyle(document.documentElement).getPropertyValue(variable).trim();
}

export class Chart {
  // field: index into a point of the history
  constructor({ title, field, show, least, pick = () => {} }) {
    this.least = least; // minimum of the y axis maximum, so that 0 is a line at the bottom
    this.field = field;
    this.show = show;
    this.pick = pick;
    this.title = title;
    this.plot = null;
    this.shape = "";
    this.place = h("div", { class: "plot" });
    this.note = h("p", { class: "empty small" }, "No data yet.");
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, title), this.place, this.note);
    new ResizeObserver(() => this.#resize()).observe(this.place);
  }

  // lines: [{name, points, at, off}]
  draw(lines, now) {
    const known = lines.filter((line) => line.points?.length);
    this.note.hidden = known.length > 0;
    this.place.hidden = !known.length;
    if (!known.length) return;
    const { times, values } = align(known, this.field, now);
    this.data = [times, ...values];
    const shape = JSON.stringify([
      known.map((line) => [line.name, line.at, line.off]),
      document.documentElement.dataset.theme,
      matchMedia("(prefers-color-scheme: dark)").matches,
    ]);
    if (this.plot && shape === this.shape) this.plot.setData(this.data);
    else this.#make(known, shape);
    attribute(this.place, "role", "img");
    attribute(this.place, "aria-label", this.#summary(known));
  }

  #summary(lines) {
    const summaries = lines.slice(0, 6).map((line) => {
      const values = line.points.map((point) => point[this.field]).filter((value) => value !== null);
      return values.length
        ? `${line.name}: now ${this.show(values.at(-1))}, maximum ${this.show(Math.max(...values))}`
        : `${line.name}: no data`;
    });
    return `${this.title}. ${summaries.join("; ")}${lines.length > 6 ? `; and ${lines.length - 6} more flows` : ""}`;
  }

  #make(lines, shape) {
    this.plot?.destroy();
    this.shape = shape;
    const axis = {
      stroke: css("--muted"),
      grid: { stroke: css("--rule"), width: 1 },
      ticks: { show: false },
      font: `11px ${css("--sans")}`,
    };
    const options = {
      width: Math.max(this.place.clientWidth, 200),
      height: 190,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: { sync: { key: "twinlog" }, drag: { setScale: false, x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { range: () => this.#range() },
        y: { range: (_plot, _low, high) => [0, Math.max(this.least, (high ?? 0) * 1.08)] },
      },
      series: [
        {},
        ...lines.map((line) => ({
          label: line.name,
          stroke: css(style(line.at).colour),
          dash: style(line.at).dash,
          width: 1.75,
          show: !line.off,
          spanGaps: false,
          points: { show: false },
        })),
      ],
      axes: [
        { ...axis, values: (_plot, ticks) => ticks.map((tick) => time(tick * 1000).slice(0, 5)), space: 60, size: 26 },
        { ...axis, values: (_plot, ticks) => ticks.map((tick) => this.show(tick)), size: 62, space: 32 },
      ],
      hooks: {
        setCursor: [
          (plot) =>
            this.pick(plot.cursor.idx === null || plot.cursor.idx === undefined ? null : plot.data[0][plot.cursor.idx]),
        ],
      },
    };
    this.plot = new window.uPlot(options, this.data, this.place);
  }

  #range() {
    const [times] = this.data;
    const last = times.at(-1);
    return [Math.max(last - HOUR, Math.min(times[0], last - MIN_RANGE)), last];
  }

  #resize() {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: 190 });
  }
}

// Flows have points at different times, about every five seconds: aligns them to common times.
export function align(lines, field, now) {
  const last = Math.round(now / 1000 / STEP) * STEP;
  let first = last;
  for (const line of lines) first = Math.min(first, line.points[0][0]);
  first = Math.max(Math.round(first / STEP) * STEP, last - HOUR);
  const count = Math.max(1, (last - first) / STEP + 1);
  const times = Array.from({ length: count }, (_, at) => first + at * STEP);
  const values = lines.map((line) => {
    const row = new Array(count).fill(null);
    for (const point of line.points) {
      const at = Math.round((point[0] - first) / STEP);
      if (at >= 0 && at < count) row[at] = point[field];
    }
    let since = GAP;
    for (let at = 0; at < count; at++) {
      if (row[at] !== null) since = 0;
      else if (++since < GAP && at) row[at] = row[at - 1];
    }
    return row;
  });
  return { times, values };
}

// The legend of all charts; shows the values at the cursor.
export class Legend {
  constructor({ values, toggle }) {
    this.values = values; // (flow name, time or null) -> text
    this.toggle = toggle;
    this.when = h("span", { class: "muted" }, "now");
    this.list = h("ul", { class: "legend" });
    this.element = h("div", { class: "legend-box" }, this.list);
    this.entries = new Map();
    this.at = null;
  }

  draw(lines) {
    const names = lines.map((line) => line.name);
    if (names.join("\n") !== [...this.entries.keys()].join("\n")) {
      this.entries = new Map(lines.map((line) => [line.name, this.#entry(line)]));
      this.list.replaceChildren(...[...this.entries.values()].map((entry) => entry.item));
    }
    for (const line of lines) {
      const entry = this.entries.get(line.name);
      attribute(entry.button, "aria-pressed", line.off ? "false" : "true");
      text(entry.value, this.values(line.name, this.at));
    }
  }

  #entry(line) {
    const { colour, dash } = style(line.at);
    const canvas = h("span", {
      class: `swatch ${dash.length ? (dash[0] > 4 ? "dashed" : "dotted") : ""}`,
      "aria-hidden": "true",
    });
    canvas.style.setProperty("--swatch", `var(${colour})`);
    const value = h("span", { class: "value" });
    const button = h(
      "button",
      {
        type: "button",
        "aria-pressed": "true",
        title: "Show or hide this flow's lines",
        onclick: () => this.toggle(line.name),
      },
      canvas,
      h("bdi", {}, line.name),
      value,
    );
    return { item: h("li", {}, button), button, value };
  }

  pick(at) {
    this.at = at;
    for (const [name, entry] of this.entries) text(entry.value, this.values(name, at));
  }
}
