// Connectors from Connect's REST API, with actions.

import { attribute, h, mark, only, breakable, text } from "../dom.js";
import { requestJson, HttpError } from "../net.js";

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
    consequence: "Replication stops until it is resumed. No records are lost while the source retains them.",
  },
  resume: { label: "Resume", method: "PUT", path: "resume", consequence: "It resumes from its last position." },
  restart: {
    label: "Restart",
    method: "POST",
    path: "restart?includeTasks=true&onlyFailed=false",
    consequence: "Its tasks restart, and resume from their last positions.",
  },
};

export class Connectors {
  wants = ["connectors"];

  constructor({ store, refresh }) {
    this.store = store;
    this.refresh = refresh;
    this.forbidden = new Map(); // action -> reason
    this.note = h("p", { class: "notice", role: "status", hidden: true });
    this.cards = new Map();
    this.list = h("div", { class: "cards" });
    this.nothing = h("p", { class: "empty tall" });
    this.question = h("h2", { id: "confirm-title" });
    this.words = h("p", {});
    this.yes = h("button", { type: "submit", value: "yes", class: "main" });
    this.dialog = h(
      "dialog",
      { class: "confirm", "aria-labelledby": "confirm-title" },
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
        h("p", { class: "muted" }, "As in Connect's REST API at /connectors."),
      ),
      this.note,
      this.list,
      this.nothing,
      this.dialog,
    );
  }

  draw() {
    const all = this.store.connectors;
    const httpError = all?.httpError;
    const names = all && !httpError ? Object.keys(all).sort() : [];
    this.nothing.hidden = names.length > 0;
    text(
      this.nothing,
      httpError
        ? httpError.message
        : all
          ? "No connectors. Create them with Connect's REST API: POST /connectors."
          : "Loading connectors …",
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
      h("h2", {}, card.mark, h("bdi", { class: "names" }, breakable(connector)), card.state),
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
    const content = JSON.stringify([status?.connector?.trace, tasks]);
    if (content !== card.content) {
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
      card.content = content;
    }
    const applicable = {
      pause: state === "RUNNING",
      resume: state === "PAUSED" || state === "STOPPED",
      restart: state !== "STOPPED",
    };
    for (const [action, button] of Object.entries(card.buttons)) {
      button.disabled = this.forbidden.has(action) || !applicable[action];
      attribute(button, "title", this.forbidden.get(action) ?? null);
    }
  }

  #act(action, connector) {
    const { label, consequence } = ACTIONS[action];
    text(this.question, `${label} ${connector}?`);
    text(this.words, consequence);
    text(this.yes, label);
    this.dialog.returnValue = "no";
    this.dialog.onclose = () => this.dialog.returnValue === "yes" && this.#send(action, connector);
    this.dialog.showModal();
  }

  async #send(action, connector) {
    const { method, path, label } = ACTIONS[action];
    this.note.hidden = false;
    try {
      await requestJson(`/connectors/${encodeURIComponent(connector)}/${path}`, { method });
      this.#notify(`${label}: request for ${connector} accepted.`, false);
    } catch (error) {
      if (error instanceof HttpError && error.status === 403) this.forbidden.set(action, error.message);
      this.#notify(`${label}: ${connector}: ${error.message}`, true);
    }
    this.draw();
    this.refresh();
  }

  #notify(words, bad) {
    attribute(this.note, "class", bad ? "notice bad" : "notice");
    text(this.note, words);
  }
}
