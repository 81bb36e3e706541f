// Polls the server; while it does not respond, at increasing intervals.

const TIMEOUT_MS = 15_000;
const FIRST_RETRY_MS = 1000;
const MAX_RETRY_MS = 30_000;

export class HttpError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function requestJson(path, { method = "GET", timeout = TIMEOUT_MS } = {}) {
  const response = await fetch(path, {
    method,
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(timeout),
    cache: "no-store",
  });
  const body = await response.text();
  if (response.ok) return body ? JSON.parse(body) : null;
  let message = `HTTP ${response.status}`;
  try {
    message = JSON.parse(body).message ?? message;
  } catch {
    // not from Twinlog, perhaps from a proxy
  }
  throw new HttpError(response.status, message);
}

export class Loop {
  constructor({ poll, interval, onLink }) {
    this.poll = poll; // requests everything that is shown
    this.interval = interval;
    this.onLink = onLink;
    this.failures = 0;
    this.since = 0;
    this.timer = 0;
    this.running = false;
    this.wanted = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(this.timer) : this.now()));
    addEventListener("online", () => this.now());
  }

  async now() {
    clearTimeout(this.timer);
    if (this.running) {
      this.wanted = true;
      return;
    }
    this.running = true;
    this.wanted = false;
    let wait;
    try {
      await this.poll();
      this.failures = 0;
      this.onLink({ online: true });
      wait = this.interval();
    } catch (error) {
      if (!this.failures) this.since = Date.now();
      wait = Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.min(this.failures, 10)) * (0.8 + 0.4 * Math.random());
      this.failures += 1;
      this.onLink({ online: false, since: this.since, retryAt: Date.now() + wait, error });
    }
    this.running = false;
    if (this.wanted) this.now();
    else if (!document.hidden) this.timer = setTimeout(() => this.now(), wait);
  }
}
