// Connectors as Connect's REST API has them, with what may be done to them.

import { attribute, h, mark, only, pieces, text } from "../dom.js";
import { ask, Refused } from "../net.js";

const LEVELS = {
  RUNNING: "healthy",
  PAUSED: "lagging",
  STOPPED: "lagging",
  UNASSIGNED: "lagging",
  RESTARTING: "lagging",
  FAILED: "broken",
};
const ACTIONS = {
  pause: {
    label: "Pause",
    method: "PUT",
    path: "pause",
    sure: "It copies nothing until it is resumed. Nothing is lost as long as the source keeps its records.",
  },
  resume: { label: "Resume", method: "PUT", path: "resume", sure: "It goes on where it was." },
  restart: {
    label: "Restart",
    method: "POST",
    path: "restart?includeTasks=true&onlyFailed=false",
    sure: "Its tasks stop and start again, and go on where they were.",
  },
};

export class Connectors {
  wants = ["connectors"];

  constructor({ store, refresh }) {
    this.store = store;
    this.refresh = refresh;
    this.closed = new Map(); // action -> why nobody may do it here
    this.note = h("p", { class: "notice", role: "status", hidden: true });
    this.cards = new Map();
    this.list = h("div", { class: "cards" });
    this.nothing = h("p", { class: "empty tall" });
    this.question = h("h2", { id: "sure-title" });
    this.words = h("p", {});
    this.yes = h("button", { type: "submit", value: "yes", class: "main" });
    this.dialog = h(
      "dialog",
      { class: "sure", "aria-labelledby": "sure-title" },
      h(
        "form",
        { method: "dialog" },
        this.question,
        this.words,
        h("div", { class: "buttons" }, h("button", { type: "submit", value: "no" }, "Cancel"), this.yes),
      ),
    );
    this.element = h(
      "div",
      { class: "view stack" },
      h(
        "div",
        {},
        h("h1", {}, "Connectors"),
        h("p", { class: "muted" }, "The same as Connect's REST API shows at /connectors."),
      ),
      this.note,
      this.list,
      this.nothing,
      this.dialog,
    );
  }

  draw() {
    const all = this.store.connectors;
    const refused = all?.refused;
    const names = all && !refused ? Object.keys(all).sort() : [];
    this.nothing.hidden = names.length > 0;
    text(
      this.nothing,
      refused
        ? refused.message
        : all
          ? "No connectors. They are made by Connect's REST API: POST /connectors, or by the tools that use it."
          : "Asking for connectors …",
    );
    for (const each of names) {
      if (!this.cards.has(each)) this.cards.set(each, this.#card(each));
      this.#show(this.cards.get(each), all[each]);
    }
    only(
      this.list,
      names.map((each) => this.cards.get(each).element),
    );
  }

  #card(connector) {
    const card = {
      mark: mark("unknown"),
      state: h("span", { class: "state" }),
      kind: h("p", { class: "muted names" }),
      tasks: h("ul", { class: "plain-list" }),
      buttons: {},
    };
    for (const [action, { label }] of Object.entries(ACTIONS)) {
      card.buttons[action] = h(
        "button",
        { type: "button", "aria-label": `${label} ${connector}`, onclick: () => this.#act(action, connector) },
        label,
      );
    }
    card.element = h(
      "article",
      { class: "card" },
      h("h2", {}, card.mark, h("bdi", { class: "names" }, pieces(connector)), card.state),
      card.kind,
      card.tasks,
      h("div", { class: "buttons" }, Object.values(card.buttons)),
    );
    return card;
  }

  #show(card, { info, status }) {
    const state = status?.connector?.state ?? "UNASSIGNED";
    const tasks = status?.tasks ?? [];
    const failed = tasks.filter((task) => task.state === "FAILED");
    const level = failed.length ? "broken" : (LEVELS[state] ?? "unknown");
    card.mark.set(level, state);
    attribute(card.element, "class", `card ${level}`);
    text(card.state, state);
    text(
      card.kind,
      `${(info?.config?.["connector.class"] ?? "").split(".").at(-1)} on ${status?.connector?.worker_id ?? "no worker"}`,
    );
    const told = JSON.stringify([status?.connector?.trace, tasks]);
    if (told !== card.told) {
      const lines = tasks.map((task) =>
        h(
          "li",
          {},
          `Task ${task.id}: ${task.state} on ${task.worker_id}`,
          task.trace ? h("pre", {}, task.trace) : null,
        ),
      );
      if (status?.connector?.trace) lines.unshift(h("li", {}, h("pre", {}, status.connector.trace)));
      card.tasks.replaceChildren(...(lines.length ? lines : [h("li", { class: "muted" }, "No tasks.")]));
      card.told = told;
    }
    const sense = {
      pause: state === "RUNNING",
      resume: state === "PAUSED" || state === "STOPPED",
      restart: state !== "STOPPED",
    };
    for (const [action, button] of Object.entries(card.buttons)) {
      button.disabled = this.closed.has(action) || !sense[action];
      attribute(button, "title", this.closed.get(action) ?? null);
    }
  }

  #act(action, connector) {
    const { label, sure } = ACTIONS[action];
    text(this.question, `${label} ${connector}?`);
    text(this.words, sure);
    text(this.yes, label);
    this.dialog.returnValue = "no";
    this.dialog.onclose = () => this.dialog.returnValue === "yes" && this.#send(action, connector);
    this.dialog.showModal();
  }

  async #send(action, connector) {
    const { method, path, label } = ACTIONS[action];
    this.note.hidden = false;
    try {
      await ask(`/connectors/${encodeURIComponent(connector)}/${path}`, { method });
      this.#tell(`${label}: ${connector} was told.`, false);
    } catch (error) {
      if (error instanceof Refused && error.status === 403) this.closed.set(action, error.message);
      this.#tell(`${label}: ${connector}: ${error.message}`, true);
    }
    this.draw();
    this.refresh();
  }

  #tell(words, bad) {
    attribute(this.note, "class", bad ? "notice bad" : "notice");
    text(this.note, words);
  }
}
