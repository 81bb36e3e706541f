// The last known state, updated by responses. Without rendering.

export class Table {
  constructor(key) {
    this.key = key;
    this.version = "";
    this.rows = new Map();
    this.loaded = false;
  }

  apply(response) {
    if (response.full) this.rows = new Map();
    const { columns } = response;
    for (const values of response.rows) {
      const row = {};
      for (let at = 0; at < columns.length; at++) row[columns[at]] = values[at];
      row.key = this.key(row);
      this.rows.set(row.key, row);
    }
    this.version = response.version;
    this.loaded = true;
    return response.full || response.rows.length > 0;
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

  apply(response) {
    if (response.full) this.items = [];
    for (const item of response.items) item.key = ++this.counter;
    if (response.items.length) {
      const when = (item) => item.time ?? item.time_ms ?? 0;
      this.items = [...response.items, ...this.items]
        .sort((one, other) => when(other) - when(one) || other.key - one.key)
        .slice(0, this.limit);
    }
    this.version = response.version;
    this.loaded = true;
    return response.full || response.items.length > 0;
  }
}

export class History {
  constructor() {
    this.boot = "";
    this.flows = new Map();
  }

  // Flows report at different times, so points may arrive after newer ones of other flows.
  since() {
    let newest = 0;
    for (const points of this.flows.values()) if (points.length) newest = Math.max(newest, points.at(-1)[0]);
    return Math.max(0, newest - 30);
  }

  apply(response) {
    if (response.boot !== this.boot) this.flows = new Map();
    this.boot = response.boot;
    for (const name of [...this.flows.keys()]) if (!(name in response.flows)) this.flows.delete(name);
    for (const [name, points] of Object.entries(response.flows)) {
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
    this.flows = null; // null: no response yet
    this.time = 0; // of the server
    this.pollMs = 2000;
    this.hasPlan = false;
    this.topics = new Table((row) => topicKey(row.flow, row.topic));
    this.groups = new Table((row) => `${row.flow}\n${row.group}\n${row.topic}\n${row.partition}`);
    this.events = new Feed();
    this.lost = new Feed();
    this.history = new History();
    this.topic = null; // the open topic: {flow, topic, remote, why, table, missing}
  }

  overview(response) {
    this.boot = response.boot;
    this.flows = response.flows;
    this.time = response.time_ms;
    this.pollMs = response.again_ms;
    this.hasPlan = response.plan;
  }

  flow(name) {
    return this.flows?.find((each) => each.name === name) ?? null;
  }

  selectTopic(flow, topic) {
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

// The level shown for a flow: paused or starting flows are not broken, but must not look healthy either.
export function displayLevel(flow) {
  const { level } = flow.health;
  return level === "healthy" && !["running", "finished"].includes(flow.state) ? "unknown" : level;
}

// A flow's lag in one or two words; unknown before its tasks report.
export function lagSummary(flow, behind) {
  if (flow.lag) return behind;
  if (!flow.partitions) return "no report yet";
  if (flow.health.level !== "healthy") return flow.health.level;
  return flow.state === "running" ? "caught up" : "was caught up"; // the source's end is not read meanwhile
}

// A topic that has caught up may still have lost records.
export function iconLevel(row) {
  return row.level === "healthy" && row.lost > 0 ? "lost" : row.level;
}

export function needsAttention(row) {
  return iconLevel(row) !== "healthy";
}

// Why a topic or partition makes no progress, in short.
export function problem(row) {
  return row.error || row.waits || "";
}
