// Starts the page: which view is shown, when the server is asked, what is told when it is gone.

import { attribute, h, mark, only, text } from "./dom.js";
import { counted, span, time } from "./format.js";
import { ask, Loop, Refused } from "./net.js";
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
const MADE = {
  "": Overview,
  flow: Flow,
  topics: Topics,
  groups: Groups,
  events: Events,
  lost: Lost,
  plan: Plan,
  connectors: Connectors,
};
const views = new Map(); // made when first seen, kept with what was typed into them
const context = { store, refresh: () => loop.now(), redraw: () => draw() };
const sheet = new Sheet(element("sheet-place"), context);
let shown = null;
let before = "#/topics"; // where one comes back to when the sheet is closed

window.twinlog = { updates: 0, lastUpdateMs: 0, worstUpdateMs: 0, lastPaintMs: 0, store };

// Which view

function route(event) {
  const left = event ? new URL(event.oldURL).hash : "";
  if (event && !left.startsWith("#/topic/")) before = left || "#/";
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [head, ...rest] = path.split("/").map(decoded);
  const parameters = new URLSearchParams(query);
  if (head === "topic" && rest.length === 2) {
    if (!shown) show("topics", [], parameters);
    if (store.topic?.flow !== rest[0] || store.topic?.topic !== rest[1]) store.look(rest[0], rest[1]);
    sheet.open(() => {
      location.hash = before;
    });
  } else {
    sheet.close();
    store.look(null);
    show(MADE[head] ? head : "", rest, parameters);
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
  if (!views.has(name)) views.set(name, new MADE[name](context));
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

// Asking

async function round() {
  const wants = new Set([...(shown?.wants ?? []), ...(store.topic ? ["groups", "events"] : [])]);
  const query = (parameters) => new URLSearchParams(parameters).toString();
  const looked = store.topic;
  const asked = {
    flows: ask("/twinlog/flows"),
    topics: ask(`/twinlog/topics?${query({ since: store.topics.version })}`),
    events: ask(`/twinlog/events?${query({ since: store.events.version })}`),
    lost: ask(`/twinlog/lost?${query({ since: store.lost.version })}`),
    groups: wants.has("groups") ? ask(`/twinlog/groups?${query({ since: store.groups.version })}`) : null,
    history: wants.has("history") ? ask(`/twinlog/history?${query({ since: store.history.since() })}`) : null,
    partitions: looked
      ? ask(
          `/twinlog/partitions?${query({ flow: looked.flow, topic: looked.topic, since: looked.table.version })}`,
        ).catch(absent)
      : null,
    connectors: wants.has("connectors") ? ask("/connectors?expand=status&expand=info").catch(absent) : null,
  };
  const names = Object.keys(asked);
  const found = Object.fromEntries((await Promise.all(Object.values(asked))).map((answer, at) => [names[at], answer]));
  performance.mark("twinlog-update");
  const began = performance.now();
  apply(found, looked);
  try {
    draw();
  } catch (error) {
    console.error(error); // a mistake of the page's: the server is there
  }
  measure(began);
}

// An answer that says no is an answer: the server is there.
function absent(error) {
  if (error instanceof Refused) return { refused: error };
  throw error;
}

function apply(found, looked) {
  const was = new Map((store.flows ?? []).map((flow) => [flow.name, flow.health.level]));
  if (store.boot && store.boot !== found.flows.boot) store.history.boot = "";
  store.overview(found.flows);
  store.topics.apply(found.topics);
  store.events.apply(found.events);
  store.lost.apply(found.lost);
  if (found.groups) store.groups.apply(found.groups);
  if (found.history) store.history.apply(found.history);
  if (found.connectors) store.connectors = found.connectors;
  if (found.partitions && looked === store.topic) {
    const { refused } = found.partitions;
    looked.missing = refused ? refused.message : "";
    if (!refused) {
      looked.table.apply(found.partitions);
      looked.remote = found.partitions.remote;
      looked.why = found.partitions.why;
    }
  }
  const news = store.flows.filter((flow) => was.size && was.get(flow.name) !== flow.health.level);
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

// What stands around the view

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
          ? `${counted(number, "topic")} to be looked at`
          : counted(number, "lost range")
        : null,
    );
  }
}

function link(state) {
  const place = element("gone");
  attribute(document.body, "data-link", state.alive ? "alive" : "gone");
  text(element("link-text"), state.alive ? "Live" : "No answer");
  clearInterval(link.timer);
  if (state.alive) {
    place.hidden = true;
    return;
  }
  const wait = h("span", { "aria-hidden": "true" });
  const tell = () =>
    text(
      wait,
      ` Trying again${state.again > Date.now() + 1000 ? ` in ${span((state.again - Date.now()) / 1000)}` : ""} …`,
    );
  const reason = state.error instanceof Refused ? `It said: ${state.error.message}.` : "";
  const last = store.flows ? "Below is the last state that was heard." : "Nothing was heard yet.";
  place.hidden = false;
  const words = `Twinlog does not answer since ${time(state.since)}. ${last} ${reason}`;
  if (place.firstChild?.textContent !== words)
    place.replaceChildren(h("span", {}, words), h("button", { type: "button", onclick: () => loop.now() }, "Try now"));
  place.querySelector("[aria-hidden]")?.remove();
  place.firstChild.after(wait);
  tell();
  link.timer = setInterval(tell, 1000);
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
  const search = (sheet.isOpen ? element("sheet-place") : main).querySelector("input[type=search]");
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
      // kept until the page is closed
    }
    draw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
}

const loop = new Loop({ round, interval: () => store.again, onLink: link });
element("tabs").append(
  ...TABS.map(([tab, label]) =>
    h("a", { href: `#/${tab}`, "data-tab": tab }, label, h("span", { class: "badge", hidden: true })),
  ),
);
addEventListener("hashchange", route);
addEventListener("keydown", keys);
element("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind # names the view
  main.focus();
});
theme();
route();
loop.started = true;
loop.now();
