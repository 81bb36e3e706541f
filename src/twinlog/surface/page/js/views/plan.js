// What `twinlog plan` says: what the flows would change on their clusters. Asked for by hand, since it takes seconds.

import { h, mark, name } from "../dom.js";
import { count, counted, size, time } from "../format.js";
import { ask } from "../net.js";

const SOME = 50;
const PATIENCE = 300_000;

export class Plan {
  constructor({ store }) {
    this.store = store;
    this.button = h("button", { type: "button", class: "main", onclick: () => this.#look() }, "Look at the clusters");
    this.when = h(
      "p",
      { class: "muted", role: "status" },
      "Compares both clusters of each flow with its configuration: what would be created, changed, granted, and what is missing. It changes nothing.",
    );
    this.content = h("div", { class: "stack" });
    this.element = h(
      "div",
      { class: "view stack" },
      h("div", { class: "bar" }, h("div", {}, h("h1", {}, "Plan"), this.when), this.button),
      this.content,
    );
  }

  draw() {
    const here = this.store.hasPlan;
    this.button.hidden = !here;
    if (!here)
      this.when.textContent = "No plan can be had from this process; the command twinlog plan CONFIG shows it.";
  }

  async #look() {
    if (this.button.disabled) return;
    this.button.disabled = true;
    this.when.textContent = "Looking at both clusters of each flow; this takes some seconds …";
    try {
      const plan = await ask("/twinlog/plan", { patience: PATIENCE });
      this.content.replaceChildren(...plan.flows.map(flowPlan));
      this.when.textContent = plan.flows.length
        ? `As of ${time(Date.now())}. Nothing was changed.`
        : "No flow is configured.";
    } catch (error) {
      this.when.textContent = "The clusters could not be looked at.";
      this.content.replaceChildren(h("p", { class: "notice bad" }, name(error.message)));
    }
    this.button.disabled = false;
    this.button.textContent = "Look again";
  }
}

function flowPlan(plan) {
  const grows = plan.there.filter((topic) => topic.grows);
  const parts = [
    part("To be looked at", plan.problems, (text) => line("!", name(text)), { open: true, level: "lagging" }),
    part("Permissions that are missing", plan.missing_rights, missing, { open: true, level: "broken" }),
    part(
      `Topics that would be created on ${plan.target}`,
      plan.created,
      (topic) =>
        line(
          "+",
          name(topic.remote, "b"),
          ` from ${topic.topic}, ${parts_(topic.partitions)}, ${replicas(topic.replication_factor)}${waits(topic)}${configs(topic.configs)}`,
        ),
      { open: true },
    ),
    part(
      "Topics that would get more partitions",
      grows,
      (topic) => line("~", name(topic.remote, "b"), ` ${count(topic.remote_partitions)} → ${count(topic.partitions)}`),
      { open: true },
    ),
    part(
      "Topic configs that would change",
      plan.configs,
      (config) => line("~", name(config.remote, "b"), ` ${config.name}: ${value(config.now)} → ${value(config.then)}`),
      { open: true },
    ),
    part(
      "ACLs that would be granted",
      plan.acls,
      (acl) =>
        line("+", name(acl.principal, "b"), ` ${acl.permission} ${acl.operation} on ${acl.name} from ${acl.host}`),
      { open: true },
    ),
    part(
      "Topics beside the records that would be created",
      plan.beside_the_records,
      (topic) =>
        line(
          "+",
          name(topic.topic, "b"),
          ` on ${topic.cluster}, ${parts_(topic.partitions)}, ${replicas(topic.replication_factor)}`,
        ),
      { open: true },
    ),
    part(`Topics that are on ${plan.target} already`, plan.there, (topic) =>
      line("=", name(topic.remote, "b"), ` from ${topic.topic}, ${parts_(topic.partitions)}${waits(topic)}`),
    ),
    part("Consumer groups whose offsets would be translated", plan.groups, (group) => line("=", name(group))),
    ...plan.groups_left_out.map((each) =>
      part(`Groups left out: ${each.reason}`, each.names, (group) => line("-", name(group))),
    ),
    ...plan.left_out.map((each) =>
      part(`Topics left out: ${each.reason}`, each.names, (topic) => line("-", name(topic))),
    ),
  ].filter(Boolean);
  const changes =
    plan.created.length + grows.length + plan.configs.length + plan.acls.length + plan.beside_the_records.length;
  const level = plan.missing_rights.length ? "broken" : plan.problems.length ? "lagging" : "healthy";
  const words = changes ? `${counted(changes, "change")} would be made` : "nothing would be changed";
  return h(
    "section",
    { class: "panel plan" },
    h("h2", {}, mark(level), name(plan.flow)),
    h(
      "p",
      { class: "muted" },
      `${words}; ${plan.records ? `${counted(plan.records, "record")} wait to be copied` : "no records wait"}${plan.bytes_about ? `, about ${size(plan.bytes_about)}` : ""}.`,
    ),
    ...parts,
  );
}

function part(title, items, show, { open = false, level = "" } = {}) {
  if (!items.length) return null;
  const list = h("ul", { class: "diff" });
  const more = h("button", { type: "button" });
  let at = 0;
  const next = () => {
    list.append(...items.slice(at, at + (at ? 500 : SOME)).map(show));
    at = list.children.length;
    more.hidden = at >= items.length;
    more.textContent = `Show more of ${count(items.length - at)}`;
  };
  more.addEventListener("click", next);
  next();
  return h(
    "details",
    { open, class: level },
    h("summary", {}, name(title), h("span", { class: "badge plain" }, count(items.length))),
    list,
    more,
  );
}

const SIGNS = { "+": "add", "~": "change", "-": "omit", "!": "note", "=": "same" };
const WORDS = { "+": "added: ", "~": "changed: ", "-": "left out: ", "!": "", "=": "" };

function line(sign, ...content) {
  return h(
    "li",
    { class: SIGNS[sign] },
    h("span", { class: "sign", "aria-hidden": "true" }, sign),
    h("span", {}, h("span", { class: "unseen" }, WORDS[sign]), ...content),
  );
}

function missing(lack) {
  const on =
    lack.resources
      .map((resource) => resource.name || resource.kind)
      .slice(0, 5)
      .join(", ") + (lack.resources.length > 5 ? ` and ${lack.resources.length - 5} more` : "");
  return line(
    "!",
    `${lack.cluster}: ${lack.operations.join(", ")} on `,
    name(on),
    ` (${lack.purposes.join(", ")})`,
    h("pre", {}, h("code", {}, lack.remedy)),
  );
}

const value = (each) => (each === null || each === undefined ? "not set" : each === "" ? '""' : each);
const parts_ = (number) => (number < 0 ? "the broker's number of partitions" : counted(number, "partition"));
const replicas = (number) => (number < 0 ? "the broker's number of replicas" : counted(number, "replica"));
const waits = (topic) => (topic.records ? `, ${counted(topic.records, "record")} wait` : "");
const configs = (all) =>
  Object.keys(all).length
    ? `; ${Object.entries(all)
        .map(([key, each]) => `${key}=${each}`)
        .join(" ")}`
    : "";
