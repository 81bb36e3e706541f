// Asks the server, again and again: soon while it answers, ever more rarely while it does not.

const PATIENCE = 15_000;
const FIRST = 1000;
const LONGEST = 30_000;

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function ask(path, { method = "GET", patience = PATIENCE } = {}) {
  const answer = await fetch(path, {
    method,
    headers: { accept: "application/json" },
    signal: AbortSignal.timeout(patience),
    cache: "no-store",
  });
  const body = await answer.text();
  if (answer.ok) return body ? JSON.parse(body) : null;
  let message = `HTTP ${answer.status}`;
  try {
    message = JSON.parse(body).message ?? message;
  } catch {
    // not one of ours: a proxy between, perhaps
  }
  throw new Refused(answer.status, message);
}

export class Loop {
  constructor({ round, interval, onLink }) {
    this.round = round; // asks for everything that is shown
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
      await this.round();
      this.failures = 0;
      this.onLink({ alive: true });
      wait = this.interval();
    } catch (error) {
      if (!this.failures) this.since = Date.now();
      wait = Math.min(LONGEST, FIRST * 2 ** Math.min(this.failures, 10)) * (0.8 + 0.4 * Math.random());
      this.failures += 1;
      this.onLink({ alive: false, since: this.since, again: Date.now() + wait, error });
    }
    this.running = false;
    if (this.wanted) this.now();
    else if (!document.hidden) this.timer = setTimeout(() => this.now(), wait);
  }
}
