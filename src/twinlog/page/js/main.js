// Entry point: routing, polling, and the offline banner.

import { attribute, h, mark, only, text } from "./dom.js";
import { counted, span, time } from "./format.js";
import { HttpError, Loop, requestJson } from "./net.js";
import { Sheet } from "./sheet.js";
import { needsAttention, Store } from "./store.js";
import { Connectors } from "./views/connectors.js";
import { Events } from "./views/events.js";
import { Flow } from "./views/flow.js";
import { Groups } from "./views/groups.js";
import { Lost } from "./views/lost.js";
import { Overview } from "./views/overview.js";
import { Plan } from "./views/plan.js";
import { Topics } from "./views/topics.js";

const store = new Store();
const element = (id) => document.getElementById(id);
const main = element("main");

const TABS = [
  ["", "Overview"],
  ["topics", "Topics"],
  ["groups", "Groups"],
  ["events", "Events"],
  ["lost", "Lost ranges"],
  ["plan", "Plan"],
  ["connectors", "Connectors"],
];
const VIEWS = {
  "": Overview,
  flow: Flow,
  topics: Topics,
  groups: Groups,
  events: Events,
  lost: Lost,
  plan: Plan,
  connectors: Connectors,
};
const views = new Map(); // created on first use, kept with their input
const context = { store, refresh: () => loop.now(), redraw: () => draw() };
const sheet = new Sheet(element("sheet-container"), context);
let shown = null;
let before = "#/topics"; // shown again when the sheet is closed

window.twinlog = { updates: 0, lastUpdateMs: 0, worstUpdateMs: 0, lastPaintMs: 0, store };

// Routing

function route(event) {
  const left = event ? new URL(event.oldURL).hash : "";
  if (event && !left.startsWith("#/topic/")) before = left || "#/";
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [head, ...rest] = path.split("/").map(decoded);
  const parameters = new URLSearchParams(query);
  if (head === "topic" && rest.length === 2) {
    if (!shown) show("topics", [], parameters);
    if (store.topic?.flow !== rest[0] || store.topic?.topic !== rest[1]) store.selectTopic(rest[0], rest[1]);
    sheet.open(() => {
      location.hash = before;
    });
  } else {
    sheet.close();
    store.selectTopic(null);
    show(VIEWS[head] ? head : "", rest, parameters);
  }
  if (loop.started) loop.now();
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function show(name, rest, parameters) {
  if (!views.has(name)) views.set(name, new VIEWS[name](context));
  const view = views.get(name);
  const other = shown !== view;
  shown = view;
  view.enter?.(rest, parameters);
  const current = name === "flow" ? "" : name;
  for (const link of element("tabs").querySelectorAll("a"))
    attribute(link, "aria-current", link.dataset.tab === current ? "page" : null);
  element("tabs").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.title = `${TABS.find(([tab]) => tab === current)?.[1] ?? "Twinlog"} · Twinlog`;
  if (store.flows) draw();
  if (other) main.scrollTop = 0;
}

function draw() {
  if (!shown || !store.flows) return;
  attribute(main, "class", shown.fills ? "fills" : null);
  only(main, [shown.element]);
  shown.draw();
  sheet.draw();
  badges();
}

// Polling

async function poll() {
  const wants = new Set([...(shown?.wants ?? []), ...(store.topic ? ["groups", "events"] : [])]);
  const query = (parameters) => new URLSearchParams(parameters).toString();
  const selected = store.topic;
  const requests = {
    flows: requestJson("/twinlog/flows"),
    topics: requestJson(`/twinlog/topics?${query({ since: store.topics.version })}`),
    events: requestJson(`/twinlog/events?${query({ since: store.events.version })}`),
    lost: requestJson(`/twinlog/lost?${query({ since: store.lost.version })}`),
    groups: wants.has("groups") ? requestJson(`/twinlog/groups?${query({ since: store.groups.version })}`) : null,
    history: wants.has("history") ? requestJson(`/twinlog/history?${query({ since: store.history.since() })}`) : null,
    partitions: selected
      ? requestJson(
          `/twinlog/partitions?${query({ flow: selected.flow, topic: selected.topic, since: selected.table.version })}`,
        ).catch(errorResult)
      : null,
    connectors: wants.has("connectors") ? requestJson("/connectors?expand=status&expand=info").catch(errorResult) : null,
  };
  const names = Object.keys(requests);
  const responses = await Promise.all(Object.values(requests));
  const found = Object.fromEntries(responses.map((response, at) => [names[at], response]));
  performance.mark("twinlog-update");
  const began = performance.now();
  apply(found, selected);
  try {
    draw();
  } catch (error) {
    console.error(error); // a bug of the web UI, not a connection problem
  }
  measure(began);
}

// An error response is a response: the server is online.
function errorResult(error) {
  if (error instanceof HttpError) return { httpError: error };
  throw error;
}

function apply(found, selected) {
  const levels = new Map((store.flows ?? []).map((flow) => [flow.name, flow.health.level]));
  if (store.boot && store.boot !== found.flows.boot) store.history.boot = "";
  store.overview(found.flows);
  store.topics.apply(found.topics);
  store.events.apply(found.events);
  store.lost.apply(found.lost);
  if (found.groups) store.groups.apply(found.groups);
  if (found.history) store.history.apply(found.history);
  if (found.connectors) store.connectors = found.connectors;
  if (found.partitions && selected === store.topic) {
    const { httpError } = found.partitions;
    selected.missing = httpError ? httpError.message : "";
    if (!httpError) {
      selected.table.apply(found.partitions);
      selected.remote = found.partitions.remote;
      selected.why = found.partitions.why;
    }
  }
  const news = store.flows.filter((flow) => levels.size && levels.get(flow.name) !== flow.health.level);
  if (news.length) text(element("news"), news.map((flow) => `${flow.name} is ${flow.health.level}`).join(", "));
}

function measure(began) {
  const spent = performance.now() - began;
  performance.measure("twinlog-update", "twinlog-update");
  performance.clearMarks("twinlog-update");
  Object.assign(window.twinlog, {
    updates: window.twinlog.updates + 1,
    lastUpdateMs: spent,
    worstUpdateMs: Math.max(window.twinlog.worstUpdateMs, spent),
    rows: store.topics.rows.size,
  });
  document.body.dataset.updates = String(window.twinlog.updates);
  requestAnimationFrame(() => setTimeout(() => (window.twinlog.lastPaintMs = performance.now() - began)));
}

// Header

function badges() {
  let attention = 0;
  for (const row of store.topics.rows.values()) if (needsAttention(row)) attention += 1;
  store.attention = attention;
  const numbers = { topics: attention, lost: store.lost.items.length };
  for (const link of element("tabs").querySelectorAll("a")) {
    const number = numbers[link.dataset.tab] ?? 0;
    const badge = link.querySelector(".badge");
    badge.hidden = !number;
    text(badge, number ? String(number) : "");
    attribute(
      badge,
      "aria-label",
      number
        ? link.dataset.tab === "topics"
          ? `${counted(number, "topic")} ${number === 1 ? "needs" : "need"} attention`
          : counted(number, "lost range")
        : null,
    );
  }
}

function link(state) {
  const banner = element("offline");
  attribute(document.body, "data-link", state.online ? "online" : "offline");
  text(element("link-text"), state.online ? "Live" : "Offline");
  clearInterval(link.timer);
  if (state.online) {
    banner.hidden = true;
    return;
  }
  const wait = h("span", { "aria-hidden": "true" });
  const showWait = () =>
    text(
      wait,
      ` Retrying${state.retryAt > Date.now() + 1000 ? ` in ${span((state.retryAt - Date.now()) / 1000)}` : ""} …`,
    );
  const reason = state.error instanceof HttpError ? `Error: ${state.error.message}.` : "";
  const last = store.flows ? "The last known state is shown below." : "No state received yet.";
  banner.hidden = false;
  const words = `No response from Twinlog since ${time(state.since)}. ${last} ${reason}`;
  if (banner.firstChild?.textContent !== words)
    banner.replaceChildren(
      h("span", {}, words),
      h("button", { type: "button", onclick: () => loop.now() }, "Retry now"),
    );
  banner.querySelector("[aria-hidden]")?.remove();
  banner.firstChild.after(wait);
  showWait();
  link.timer = setInterval(showWait, 1000);
}

function keys(event) {
  if (
    event.key !== "/" ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)
  )
    return;
  const search = (sheet.isOpen ? element("sheet-container") : main).querySelector("input[type=search]");
  if (!search) return;
  event.preventDefault();
  search.focus();
  search.select();
}

function theme() {
  const select = element("theme");
  select.value = document.documentElement.dataset.theme;
  select.addEventListener("change", () => {
    document.documentElement.dataset.theme = select.value;
    try {
      localStorage.setItem("twinlog-theme", select.value);
    } catch {
      // not stored: applies until the page is closed
    }
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

const loop = new Loop({ poll, interval: () => store.pollMs, onLink: link });
element("tabs").append(
  ...TABS.map(([tab, label]) =>
    h("a", { href: `#/${tab}`, "data-tab": tab }, label, h("span", { class: "badge", hidden: true })),
  ),
);
addEventListener("hashchange", route);
addEventListener("keydown", keys);
element("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the URL fragment is the route
  main.focus();
});
theme();
route();
loop.started = true;
loop.now();
