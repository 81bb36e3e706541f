// Map of clusters and flows, fitted to the available width.

import { attribute, h, mark, s, text } from "./dom.js";
import { rate, short, span } from "./format.js";
import { displayLevel, lagSummary } from "./store.js";

const NODE = { width: 132, height: 44 };
const LABEL = { width: 160, height: 40 };
const NARROW = 620;
const RUNG = { width: 236, node: 30, label: 28, height: 72 }; // of the ladder drawn on narrow screens
const FEW = 4; // with so few flows, labels need no name

export class FlowMap {
  constructor({ href }) {
    this.href = href;
    this.svg = s("svg", { class: "map", role: "group", "aria-label": "Clusters and flows" });
    this.element = h("div", { class: "map-box" }, this.svg);
    this.shape = "";
    this.edges = new Map();
    this.flows = [];
    new ResizeObserver(() => this.draw(this.flows)).observe(this.element);
  }

  draw(flows) {
    this.flows = flows;
    const width = this.element.clientWidth;
    if (!width || !flows.length) return;
    const shape = JSON.stringify([width, flows.map((flow) => [flow.name, flow.source, flow.target])]);
    if (shape !== this.shape) this.#layout(flows, width);
    this.shape = shape;
    for (const flow of flows) this.#live(flow);
  }

  #live(flow) {
    const edge = this.edges.get(flow.name);
    const level = displayLevel(flow);
    attribute(edge.link, "class", `edge ${level}`);
    attribute(edge.line, "class", `line ${level}`);
    attribute(
      edge.line,
      "stroke-width",
      flow.records_per_s > 0 ? Math.min(4.5, 1.5 + Math.log10(1 + flow.records_per_s) / 2) : 1.5,
    );
    attribute(edge.line, "marker-end", `url(#tip-${level})`);
    edge.mark.set(level);
    const speed = flow.state === "running" ? `${rate(flow.records_per_s)} rec/s` : flow.state;
    const lag = lagSummary(
      flow,
      `${short(flow.lag)} behind${flow.lag_seconds >= 1 ? `, ${span(flow.lag_seconds)}` : ""}`,
    );
    const lines = this.narrow
      ? [`${speed} · ${lag}`, ""]
      : this.flows.length > FEW
        ? [cut(flow.name, 17), flow.lag ? lag : `${speed.replace(" rec/s", "/s")}, ${lag}`]
        : [speed, lag];
    text(edge.first, lines[0]);
    text(edge.second, lines[1]);
    attribute(
      edge.link,
      "aria-label",
      `${flow.source} to ${flow.target}, ${flow.health.level}: ${lines.join(" ").trim()}${flow.name.includes(" ") ? `, ${flow.name}` : ""}`,
    );
  }

  #layout(flows, width) {
    this.narrow = width < NARROW;
    const { nodes, curves, labels, height } = this.narrow ? ladder(flows, width) : graph(flows, width);
    attribute(this.svg, "width", width);
    attribute(this.svg, "height", height);
    attribute(this.svg, "viewBox", `0 0 ${width} ${height}`);
    const tips = s(
      "defs",
      {},
      ["healthy", "lagging", "broken", "unknown"].map((level) =>
        s(
          "marker",
          {
            id: `tip-${level}`,
            class: `tip ${level}`,
            viewBox: "0 0 10 10",
            refX: 9,
            refY: 5,
            markerWidth: 11,
            markerHeight: 11,
            markerUnits: "userSpaceOnUse",
            orient: "auto",
          },
          s("path", { d: "M0 0 10 5 0 10Z" }),
        ),
      ),
    );
    this.edges = new Map(flows.map((flow, at) => [flow.name, this.#edge(flow, curves[at].path, labels[at])]));
    const edges = [...this.edges.values()];
    this.svg.replaceChildren(tips, ...edges.map((edge) => edge.line), ...nodes, ...edges.map((edge) => edge.link));
  }

  #edge(flow, path, at) {
    const line = s("path", { class: "line", d: path });
    const box = this.narrow ? { width: RUNG.width, height: RUNG.label } : LABEL;
    const left = at.x - box.width / 2;
    const sign = mark("unknown");
    for (const [key, value] of Object.entries({ x: left + 8, y: at.y - 8, "aria-hidden": "true" }))
      attribute(sign, key, value);
    const first = s("text", { x: left + 31, y: at.y + (this.narrow ? 4 : -3) });
    const second = s("text", { x: left + 31, y: at.y + 13, class: "second" });
    const link = s(
      "a",
      { href: this.href(flow.name) },
      s("title", {}, flow.name),
      s("rect", { x: left, y: at.y - box.height / 2, ...box, rx: 8 }),
      sign,
      first,
      second,
    );
    link.addEventListener("pointerenter", () => line.classList.add("hover"));
    link.addEventListener("pointerleave", () => line.classList.remove("hover"));
    return { line, link, mark: sign, first, second };
  }
}

function cut(name, most) {
  const letters = [...name];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : name;
}

function node(name, at, { width, height } = NODE) {
  const shown = cut(name, Math.floor((width - 10) / 8));
  return s(
    "g",
    { class: "node" },
    s("title", {}, name),
    s("rect", { x: at.x - width / 2, y: at.y - height / 2, width, height, rx: 9 }),
    s("text", { x: at.x, y: at.y + 5, "text-anchor": "middle" }, shown),
  );
}

// On narrow screens: flows below each other, each with its two clusters.
function ladder(flows, width) {
  const box = { width: (width - 56) / 2, height: RUNG.node };
  const rows = flows.map((_flow, at) => RUNG.height * at + RUNG.node / 2 + 1);
  return {
    height: RUNG.height * flows.length - 6,
    nodes: flows.flatMap((flow, at) => [
      node(flow.source, { x: box.width / 2 + 1, y: rows[at] }, box),
      node(flow.target, { x: width - box.width / 2 - 1, y: rows[at] }, box),
    ]),
    curves: rows.map((y) => ({ path: `M${box.width + 4} ${y}H${width - box.width - 5}` })),
    labels: rows.map((y) => ({ x: width / 2, y: y + RUNG.node / 2 + RUNG.label / 2 + 4 })),
  };
}

function graph(flows, width) {
  const names = [...new Set(flows.flatMap((flow) => [flow.source, flow.target]))];
  const { places, height } = layout(names, flows, width);
  const curves = bend(flows, places);
  const labels = separate(placeLabels(curves, [...places.values()]), [...places.values()], width, height);
  return { height, curves, labels, nodes: names.map((name) => node(name, places.get(name))) };
}

// Two clusters next to each other; otherwise a hub in the middle of a ring, or a ring.
function layout(names, flows, width) {
  const places = new Map();
  const middle = width / 2;
  if (names.length <= 2) {
    const height = Math.max(190, 70 + 60 * flows.length);
    names.forEach((name, at) =>
      places.set(name, { x: at ? width - NODE.width / 2 - 24 : NODE.width / 2 + 24, y: height / 2 }),
    );
    return { places, height };
  }
  const touching = (name) => flows.filter((flow) => flow.source === name || flow.target === name).length;
  const hub = names.length > 3 ? names.find((name) => touching(name) === flows.length) : undefined;
  const ring = names.filter((name) => name !== hub);
  const height = Math.min(760, Math.max(320, 70 * ring.length, 46 * flows.length));
  const turn = ring.length % 2 ? -Math.PI / 2 : -Math.PI / 2 - Math.PI / ring.length;
  const points = ring
    .map((_name, at) => turn + (2 * Math.PI * at) / ring.length)
    .map((angle) => ({ x: Math.cos(angle), y: Math.sin(angle) }));
  const fit = (axis, from, to) => {
    const least = Math.min(...points.map((point) => point[axis]));
    const most = Math.max(...points.map((point) => point[axis]));
    for (const point of points) point[axis] = from + ((point[axis] - least) / (most - least)) * (to - from);
  };
  fit("x", NODE.width / 2 + 8, width - NODE.width / 2 - 8);
  fit("y", NODE.height / 2 + 8, height - NODE.height / 2 - 8);
  ring.forEach((name, at) => places.set(name, points[at]));
  if (hub !== undefined) places.set(hub, { x: middle, y: height / 2 });
  return { places, height };
}

// Flows between the same two clusters curve apart, each to its own right.
function bend(flows, places) {
  const pairs = new Map();
  return flows.map((flow) => {
    const key = [flow.source, flow.target].sort().join("\n");
    const parallel = flows.filter((other) => [other.source, other.target].sort().join("\n") === key);
    const which = pairs.get(key) ?? 0;
    pairs.set(key, which + 1);
    const [one, two] = [flow.source, flow.target].sort();
    const from = places.get(one);
    const to = places.get(two);
    const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
    const away =
      parallel.length === 1
        ? 0
        : (which - (parallel.length - 1) / 2) * (Math.abs(to.x - from.x) > Math.abs(to.y - from.y) ? 104 : 196);
    const control = {
      x: (from.x + to.x) / 2 - ((to.y - from.y) / length) * away,
      y: (from.y + to.y) / 2 + ((to.x - from.x) / length) * away,
    };
    const start = edgeOf(places.get(flow.source), control, 2);
    const end = edgeOf(places.get(flow.target), control, 4);
    const point = (t) => ({
      x: (1 - t) ** 2 * start.x + 2 * t * (1 - t) * control.x + t * t * end.x,
      y: (1 - t) ** 2 * start.y + 2 * t * (1 - t) * control.y + t * t * end.y,
    });
    return { path: `M${start.x} ${start.y}Q${control.x} ${control.y} ${end.x} ${end.y}`, point };
  });
}

// The point where the line from a node's centre leaves its box.
function edgeOf(node, towards, gap) {
  const x = towards.x - node.x;
  const y = towards.y - node.y;
  const share = Math.min(
    (NODE.width / 2 + gap) / (Math.abs(x) || 1e-9),
    (NODE.height / 2 + gap) / (Math.abs(y) || 1e-9),
  );
  return { x: node.x + x * share, y: node.y + y * share };
}

// Puts each label on its arrow, where it overlaps least with nodes and other labels.
function placeLabels(curves, nodes) {
  const labels = [];
  const overlap = (one, other, width, height) =>
    Math.max(0, width - Math.abs(one.x - other.x)) * Math.max(0, height - Math.abs(one.y - other.y));
  for (const { point } of curves) {
    const cost = (at) =>
      nodes.reduce(
        (sum, node) =>
          sum + overlap(at, node, (LABEL.width + NODE.width) / 2 + 4, (LABEL.height + NODE.height) / 2 + 4),
        0,
      ) + labels.reduce((sum, label) => sum + overlap(at, label, LABEL.width + 4, LABEL.height + 4), 0);
    const tried = [0.5, 0.42, 0.58, 0.34, 0.66, 0.26, 0.74].map((t) => ({ at: point(t), t }));
    tried.sort((one, other) => cost(one.at) - cost(other.at) || Math.abs(one.t - 0.5) - Math.abs(other.t - 0.5));
    labels.push(tried[0].at);
  }
  return labels;
}

// Pushes labels apart that still overlap.
function separate(wanted, nodes, width, height) {
  const labels = wanted.map((at) => ({ ...at }));
  const apart = (one, other, w, hgt, both) => {
    const x = w - Math.abs(one.x - other.x);
    const y = hgt - Math.abs(one.y - other.y);
    if (x <= 0 || y <= 0) return false;
    const sideways = x < y;
    const way = sideways ? (one.x <= other.x ? -1 : 1) : one.y <= other.y ? -1 : 1;
    const by = ((sideways ? x : y) / (both ? 2 : 1)) * way;
    one[sideways ? "x" : "y"] += by;
    if (both) other[sideways ? "x" : "y"] -= by;
    return true;
  };
  for (let round = 0; round < 120; round++) {
    let moved = false;
    labels.forEach((label, at) => {
      for (const node of nodes)
        moved =
          apart(label, node, (LABEL.width + NODE.width) / 2 + 6, (LABEL.height + NODE.height) / 2 + 6, false) || moved;
      for (const other of labels.slice(at + 1))
        moved = apart(label, other, LABEL.width + 6, LABEL.height + 6, true) || moved;
      label.x = Math.min(Math.max(label.x, LABEL.width / 2 + 1), width - LABEL.width / 2 - 1);
      label.y = Math.min(Math.max(label.y, LABEL.height / 2 + 1), height - LABEL.height / 2 - 1);
    });
    if (!moved) break;
  }
  return labels;
}
