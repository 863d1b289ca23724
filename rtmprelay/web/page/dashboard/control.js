// Changes: the token, and requests that carry it.
import { sentence } from "./format.js";

const STORAGE_KEY = "rtmprelay.token";

/** How long the server may take to respond. */
const TIMEOUT_MS = 10_000;
/** The same for trying out a destination, which the relay does for 30 seconds at most. */
const CHECK_TIMEOUT_MS = 40_000;

/** A change that failed; the message is shown to people. */
export class ChangeError extends Error {}

function stored() {
  try {
    return sessionStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

function store(token) {
  try {
    if (token === null) sessionStorage.removeItem(STORAGE_KEY);
    else sessionStorage.setItem(STORAGE_KEY, token);
  } catch {
    // Without storage the page keeps it in memory.
  }
}

async function send(method, path, token, body, timeout = TIMEOUT_MS) {
  const headers = { Accept: "application/json", ...(token === null ? {} : { Authorization: `Bearer ${token}` }) };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      signal: AbortSignal.timeout(timeout),
    });
  } catch (error) {
    throw new ChangeError(
      error.name === "TimeoutError"
        ? `The relay did not answer within ${timeout / 1000} seconds. Look at the list before you try again.`
        : "The relay could not be reached. Is it running, and is this computer online?",
    );
  }
  const value = await answer.json().catch(() => null);
  if (!answer.ok) {
    const words = value?.error?.message ?? `The relay answered ${answer.status} ${answer.statusText}.`;
    throw Object.assign(new ChangeError(sentence(words)), { status: answer.status });
  }
  return value;
}

const part = encodeURIComponent;
const pathOf = (key) => key.split("/").map(part).join("/");

/** Makes changes, once there is a token. Calls `onChange` when the page is unlocked or locked. */
export class Control {
  constructor(onChange) {
    this.token = stored();
    this.onChange = onChange;
  }

  get unlocked() {
    return this.token !== null;
  }

  /** Keeps a token if the server accepts it. */
  async unlock(token) {
    // A header cannot contain anything else.
    if (!/^[\x21-\x7e]+$/.test(token)) throw new ChangeError("A token has only letters, digits and punctuation, and no spaces.");
    const answer = await send("GET", "control", token);
    if (!answer?.changes_allowed) throw new ChangeError("The relay was started without a token: it accepts no changes.");
    if (!answer.authorized) throw new ChangeError("This is not the relay's token.");
    this.token = token;
    store(token);
    this.onChange();
  }

  lock() {
    this.token = null;
    store(null);
    this.onChange();
  }

  /** Forgets a stored token that is no longer valid. */
  async checkAgain() {
    if (!this.unlocked) return;
    try {
      const answer = await send("GET", "control", this.token);
      if (!answer?.authorized) this.lock();
    } catch (error) {
      if (error.status === 401 || error.status === 403) this.lock();
    }
  }

  async #change(method, path, body, timeout) {
    try {
      return await send(method, path, this.token, body, timeout);
    } catch (error) {
      if (error.status === 401) this.lock();
      throw error;
    }
  }

  addDestination(settings) {
    return this.#change("POST", "destinations", settings);
  }

  removeDestination(name, lasting) {
    return this.#change("DELETE", `destinations/${part(name)}${lasting ? "?lasting=true" : ""}`);
  }

  setEnabled(name, enabled) {
    return this.#change("PATCH", `destinations/${part(name)}`, { enabled });
  }

  changeDestination(name, fields) {
    return this.#change("PATCH", `destinations/${part(name)}`, fields);
  }

  checkDestination(name) {
    return this.#change("POST", `destinations/${part(name)}/check`, undefined, CHECK_TIMEOUT_MS);
  }

  /** Tries a destination out that is not there yet. */
  checkEntry(entry) {
    return this.#change("POST", "check", entry, CHECK_TIMEOUT_MS);
  }

  reconnect(name) {
    return this.#change("POST", `destinations/${part(name)}/reconnect`);
  }

  kick(key) {
    return this.#change("DELETE", `streams/${pathOf(key)}/publisher`);
  }

  record(key, wanted) {
    return this.#change(wanted ? "POST" : "DELETE", `streams/${pathOf(key)}/recording`);
  }

  endPlay(connection) {
    return this.#change("DELETE", `players/${part(connection)}`);
  }

  // -- what is read when somebody asks; it needs no token of this page ----------------------------------------

  settingsOf(name) {
    return send("GET", `destinations/${part(name)}/settings`, this.token);
  }

  playersOf(key) {
    return send("GET", `players?stream=${part(key)}`, this.token);
  }

  recordings() {
    return send("GET", "recordings", this.token);
  }
}
