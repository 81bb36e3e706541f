// The last known state, and how answers become a part of it. Draws nothing.

export class Table {
  constructor(key) {
    this.key = key;
    this.version = "";
    this.rows = new Map();
    this.loaded = false;
  }

  apply(answer) {
    if (answer.full) this.rows = new Map();
    const { columns } = answer;
    for (const values of answer.rows) {
      const row = {};
      for (let at = 0; at < columns.length; at++) row[columns[at]] = values[at];
      row.key = this.key(row);
      this.rows.set(row.key, row);
    }
    this.version = answer.version;
    this.loaded = true;
    return answer.full || answer.rows.length > 0;
  }

  list() {
    return [...this.rows.values()];
  }
}

export class Feed {
  constructor(limit = 2000) {
    this.limit = limit;
    this.version = "";
    this.items = []; // newest first
    this.loaded = false;
    this.counter = 0;
  }

  apply(answer) {
    if (answer.full) this.items = [];
    for (const item of answer.items) item.key = ++this.counter;
    if (answer.items.length) {
      const when = (item) => item.time ?? item.time_ms ?? 0;
      this.items = [...answer.items, ...this.items]
        .sort((one, other) => when(other) - when(one) || other.key - one.key)
        .slice(0, this.limit);
    }
    this.version = answer.version;
    this.loaded = true;
    return answer.full || answer.items.length > 0;
  }
}

export class History {
  constructor() {
    this.boot = "";
    this.flows = new Map();
  }

  // Flows are heard of at different times: some points may come later than newer ones of others.
  since() {
    let newest = 0;
    for (const points of this.flows.values()) if (points.length) newest = Math.max(newest, points.at(-1)[0]);
    return Math.max(0, newest - 30);
  }

  apply(answer) {
    if (answer.boot !== this.boot) this.flows = new Map();
    this.boot = answer.boot;
    for (const name of [...this.flows.keys()]) if (!(name in answer.flows)) this.flows.delete(name);
    for (const [name, points] of Object.entries(answer.flows)) {
      const known = this.flows.get(name) ?? [];
      const last = known.length ? known.at(-1)[0] : 0;
      known.push(...points.filter((point) => point[0] > last));
      if (known.length > 1500) known.splice(0, known.length - 1500);
      this.flows.set(name, known);
    }
  }
}

export function topicKey(flow, topic) {
  return `${flow}\n${topic}`;
}

export class Store {
  constructor() {
    this.boot = "";
    this.flows = null; // null: nothing was heard yet
    this.time = 0; // of the server
    this.again = 2000;
    this.hasPlan = false;
    this.topics = new Table((row) => topicKey(row.flow, row.topic));
    this.groups = new Table((row) => `${row.flow}\n${row.group}\n${row.topic}\n${row.partition}`);
    this.events = new Feed();
    this.lost = new Feed();
    this.history = new History();
    this.topic = null; // the one that is looked at: {flow, topic, remote, why, table, missing}
  }

  overview(answer) {
    this.boot = answer.boot;
    this.flows = answer.flows;
    this.time = answer.time_ms;
    this.again = answer.again_ms;
    this.hasPlan = answer.plan;
  }

  flow(name) {
    return this.flows?.find((each) => each.name === name) ?? null;
  }

  look(flow, topic) {
    this.topic =
      flow === null
        ? null
        : { flow, topic, remote: "", why: [], missing: "", table: new Table((row) => row.partition) };
  }

  get level() {
    const levels = (this.flows ?? []).map((flow) => flow.health.level);
    return ["broken", "lagging", "healthy"].find((level) => levels.includes(level)) ?? "unknown";
  }
}

// How a flow is shown: one that is paused or just starting is not ill, but nobody should take it for one that copies.
export function mood(flow) {
  const { level } = flow.health;
  return level === "healthy" && !["running", "finished"].includes(flow.state) ? "unknown" : level;
}

// In one or two words: how far behind a flow is. Before its tasks have spoken, nobody knows.
export function standing(flow, behind) {
  if (flow.lag) return behind;
  if (!flow.partitions) return "no report yet";
  if (flow.health.level !== "healthy") return flow.health.level;
  return flow.state === "running" ? "caught up" : "was caught up"; // nobody looks at the source's end meanwhile
}

// A topic that has caught up may still have lost something on the way.
export function sign(row) {
  return row.level === "healthy" && row.lost > 0 ? "lost" : row.level;
}

export function needsAttention(row) {
  return sign(row) !== "healthy";
}

// Why a topic or a partition does not go on, in short.
export function trouble(row) {
  return row.error || row.waits || "";
}
