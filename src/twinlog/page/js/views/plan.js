// The output of `twinlog plan`: what flows would change on their clusters. On request, as it takes seconds.

import { h, mark, name } from "../dom.js";
import { count, counted, size, time } from "../format.js";
import { requestJson } from "../net.js";

const FIRST_ITEMS = 50;
const TIMEOUT_MS = 300_000;

export class Plan {
  constructor({ store }) {
    this.store = store;
    this.button = h("button", { type: "button", class: "main", onclick: () => this.#query() }, "Query the clusters");
    this.when = h(
      "p",
      { class: "muted", role: "status" },
      "Compares the configuration of each flow with both clusters: what would be created, changed and granted, and what is missing. Read-only.",
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
    const available = this.store.hasPlan;
    this.button.hidden = !available;
    if (!available)
      this.when.textContent = "Not available in this process; run twinlog plan CONFIG.";
  }

  async #query() {
    if (this.button.disabled) return;
    this.button.disabled = true;
    this.when.textContent = "Querying both clusters of each flow; this takes some seconds …";
    try {
      const plan = await requestJson("/twinlog/plan", { timeout: TIMEOUT_MS });
      this.content.replaceChildren(...plan.flows.map(flowPlan));
      this.when.textContent = plan.flows.length
        ? `As of ${time(Date.now())}. Nothing was changed.`
        : "No flows are configured.";
    } catch (error) {
      this.when.textContent = "The clusters could not be queried.";
      this.content.replaceChildren(h("p", { class: "notice bad" }, name(error.message)));
    }
    this.button.disabled = false;
    this.button.textContent = "Query again";
  }
}

function flowPlan(plan) {
  const grows = plan.there.filter((topic) => topic.grows);
  const parts = [
    part("Problems", plan.problems, (text) => line("!", name(text)), { open: true, level: "lagging" }),
    part("Missing permissions", plan.missing_rights, missing, { open: true, level: "broken" }),
    part(
      `Topics to create on ${plan.target}`,
      plan.created,
      (topic) =>
        line(
          "+",
          name(topic.remote, "b"),
          ` from ${topic.topic}, ${partitions(topic.partitions)}, ${replicas(topic.replication_factor)}${backlog(topic)}${configs(topic.configs)}`,
        ),
      { open: true },
    ),
    part(
      "Topics to extend with partitions",
      grows,
      (topic) => line("~", name(topic.remote, "b"), ` ${count(topic.remote_partitions)} → ${count(topic.partitions)}`),
      { open: true },
    ),
    part(
      "Topic configs to change",
      plan.configs,
      (config) => line("~", name(config.remote, "b"), ` ${config.name}: ${value(config.now)} → ${value(config.then)}`),
      { open: true },
    ),
    part(
      "ACLs to create",
      plan.acls,
      (acl) =>
        line("+", name(acl.principal, "b"), ` ${acl.permission} ${acl.operation} on ${acl.name} from ${acl.host}`),
      { open: true },
    ),
    part(
      "Internal topics to create",
      plan.beside_the_records,
      (topic) =>
        line(
          "+",
          name(topic.topic, "b"),
          ` on ${topic.cluster}, ${partitions(topic.partitions)}, ${replicas(topic.replication_factor)}`,
        ),
      { open: true },
    ),
    part(`Topics already on ${plan.target}`, plan.there, (topic) =>
      line("=", name(topic.remote, "b"), ` from ${topic.topic}, ${partitions(topic.partitions)}${backlog(topic)}`),
    ),
    part("Consumer groups to sync", plan.groups, (group) => line("=", name(group))),
    ...plan.groups_left_out.map((each) =>
      part(`Excluded groups: ${each.reason}`, each.names, (group) => line("-", name(group))),
    ),
    ...plan.left_out.map((each) =>
      part(`Excluded topics: ${each.reason}`, each.names, (topic) => line("-", name(topic))),
    ),
  ].filter(Boolean);
  const changes =
    plan.created.length + grows.length + plan.configs.length + plan.acls.length + plan.beside_the_records.length;
  const level = plan.missing_rights.length ? "broken" : plan.problems.length ? "lagging" : "healthy";
  const words = changes ? counted(changes, "change") : "no changes";
  return h(
    "section",
    { class: "panel plan" },
    h("h2", {}, mark(level), name(plan.flow)),
    h(
      "p",
      { class: "muted" },
      `${words}; ${plan.records ? `${counted(plan.records, "record")} to replicate` : "no records to replicate"}${plan.bytes_about ? `, about ${size(plan.bytes_about)}` : ""}.`,
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
    list.append(...items.slice(at, at + (at ? 500 : FIRST_ITEMS)).map(show));
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
const WORDS = { "+": "added: ", "~": "changed: ", "-": "excluded: ", "!": "", "=": "" };

function line(sign, ...content) {
  return h(
    "li",
    { class: SIGNS[sign] },
    h("span", { class: "sign", "aria-hidden": "true" }, sign),
    h("span", {}, h("span", { class: "visually-hidden" }, WORDS[sign]), ...content),
  );
}

function missing(permission) {
  const on =
    permission.resources
      .map((resource) => resource.name || resource.kind)
      .slice(0, 5)
      .join(", ") + (permission.resources.length > 5 ? ` and ${permission.resources.length - 5} more` : "");
  return line(
    "!",
    `${permission.cluster}: ${permission.operations.join(", ")} on `,
    name(on),
    ` (${permission.purposes.join(", ")})`,
    h("pre", {}, h("code", {}, permission.remedy)),
  );
}

const value = (each) => (each === null || each === undefined ? "not set" : each === "" ? '""' : each);
const partitions = (number) => (number < 0 ? "default number of partitions" : counted(number, "partition"));
const replicas = (number) => (number < 0 ? "default number of replicas" : counted(number, "replica"));
const backlog = (topic) => (topic.records ? `, ${counted(topic.records, "record")} to replicate` : "");
const configs = (all) =>
  Object.keys(all).length
    ? `; ${Object.entries(all)
        .map(([key, each]) => `${key}=${each}`)
        .join(" ")}`
    : "";
