// Reads the event stream of the server, and reconnects when it breaks.

const DELAYS = [1, 2, 3, 5, 5, 10];

/** Messages come every second; after this many seconds without one the connection counts as lost. */
const SILENCE = 8;

/**
 * Calls `hello`, `status` and `event` with the messages of the server, and `changed` with the state of the connection:
 * { name: "connecting" | "live" | "lost", since, retryAt, reason }, times in milliseconds.
 */
export class Feed {
  constructor(url, handlers) {
    this.url = url;
    this.handlers = handlers;
    this.failures = 0;
    this.state = { name: "connecting", since: Date.now(), retryAt: null, reason: null };
    window.addEventListener("online", () => this.retryNow());
    document.addEventListener("visibilitychange", () => document.hidden || this.retryNow());
  }

  start() {
    clearTimeout(this.timer);
    this.#setState({ retryAt: null });
    this.source = new EventSource(this.url);
    this.source.addEventListener("error", () => this.#failed());
    for (const kind of ["hello", "status", "event"]) {
      this.source.addEventListener(kind, (message) => this.#received(kind, message.data));
    }
    this.#watch();
  }

  /** Reconnects now, if it is waiting for the next attempt. */
  retryNow() {
    if (this.state.name === "lost" && this.state.retryAt !== null) this.start();
  }

  #received(kind, text) {
    this.#watch();
    const data = JSON.parse(text);
    if (this.state.name !== "live" && kind === "hello") {
      this.failures = 0;
      this.#setState({ name: "live", since: Date.now(), reason: null });
    }
    this.handlers[kind](data);
  }

  #watch() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.#failed("The relay has sent nothing for a while."), SILENCE * 1000);
  }

  async #failed(reason = null) {
    // The browser closes the source when the response is not an event stream: then the server sent an error.
    const refused = this.source.readyState === EventSource.CLOSED;
    this.source.close();
    clearTimeout(this.watchdog);
    clearTimeout(this.timer);
    const delay = DELAYS[Math.min(this.failures, DELAYS.length - 1)] * 1000;
    this.failures += 1;
    this.timer = setTimeout(() => this.start(), delay);
    const since = this.state.name === "lost" ? this.state.since : Date.now();
    this.#setState({ name: "lost", since, retryAt: Date.now() + delay, reason });
    if (refused) {
      const words = await this.#askWhy();
      if (words && this.state.name === "lost") this.#setState({ reason: words });
    }
  }

  async #askWhy() {
    const abort = new AbortController();
    try {
      const answer = await fetch(this.url, { signal: abort.signal, cache: "no-store" });
      if (answer.ok) return null;
      const body = await answer.json().catch(() => null);
      return body?.error?.message ?? `The server answered ${answer.status} ${answer.statusText}.`;
    } catch {
      return null;
    } finally {
      abort.abort();
    }
  }

  #setState(change) {
    this.state = { ...this.state, ...change };
    this.handlers.changed(this.state);
  }
}
