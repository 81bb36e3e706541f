// Columns of tables. `more` is what differs between tables: width, narrow, rank, title (see grid.js).

import { count, rate, span } from "./format.js";
import { problem } from "./store.js";

export const plain = (key, label, more) => ({ key, label, value: (row) => row[key], ...more });

export const number = (key, label, show, more) =>
  plain(key, label, { show: (row) => show(row[key]), number: true, ...more });

export const partition = (more) => plain("partition", "Part.", { title: "Partition", number: true, width: "62px", ...more });

export const flow = (more) => plain("flow", "Flow", { untrusted: true, ...more });

export const state = (more) => plain("state", "State", { kind: "state", ...more });

export const lag = (more) => number("lag", "Lag", count, { title: "Source records not replicated yet", ...more });

export const behind = (more) => number("lag_seconds", "Behind", span, more);

export const recordsPerSecond = (more) => number("records_per_s", "Records/s", rate, more);

export const error = (more) =>
  plain("error", "Error", { value: (row) => problem(row) || null, untrusted: true, kind: "error", ...more });
