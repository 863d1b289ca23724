// Recent events: newest first, a bounded number, with filters.
import { fromTemplate, setHidden, setIcon, setOptional, setText, setTitle } from "./dom.js";
import { clock, count, sentence } from "./format.js";

/** Important and routine events are kept apart, so that routine ones do not push out the others. */
const MOST_KEPT = 300;
const MOST_SHOWN = 200;

/** Events that happen all the time. Attempts of a destination are shown on its card. */
const ROUTINE = new Set([
  "connection_opened",
  "connection_closed",
  "handshake_completed",
  "connect",
  "create_stream",
  "command_ignored",
  "destination_connecting",
  "destination_reconnecting",
  "media_statistics",
  "destination_statistics",
]);

const isWarning = (event) => event.level !== "info" && event.level !== "debug";
const isRoutine = (event) => ROUTINE.has(event.event) && !isWarning(event);

const FILTERS = {
  important: (event) => !isRoutine(event),
  warnings: isWarning,
  all: () => true,
};

/** What is the same in repeated events: the time until the next attempt is not. */
const stem = (event) => event.sentence.replace(/; next attempt in [\d.]+ s$/, "");

export class EventList {
  constructor(section) {
    this.list = section.querySelector("ol");
    this.empty = section.querySelector(".empty");
    this.more = section.querySelector(".more");
    this.select = section.querySelector("select");
    this.search = section.querySelector("input[type=search]");
    this.important = [];
    this.routine = [];
    this.number = 0;
    this.select.addEventListener("change", () => this.#showAll());
    this.search.addEventListener("input", () => this.#showAll());
    this.#showAll();
  }

  /** Takes the events that the server remembers, oldest first, and keeps older ones that it no longer has. */
  load(events) {
    const oldest = events.length ? events[0].time : "9999";
    this.important = this.important.filter((event) => event.time < oldest);
    this.routine = this.routine.filter((event) => event.time < oldest);
    for (const event of events) this.#keep(event);
    this.#showAll();
  }

  add(event) {
    this.#keep(event);
    if (!this.#matches(event)) return;
    if (this.list.firstElementChild?.dataset.words === stem(event)) this.#repeat(this.list.firstElementChild, event);
    else this.list.prepend(this.#row(event));
    while (this.list.children.length > MOST_SHOWN) this.list.lastElementChild.remove();
    this.#showCounts();
  }

  #keep(event) {
    const kept = isRoutine(event) ? this.routine : this.important;
    this.number += 1;
    kept.push({ ...event, number: this.number });
    if (kept.length > MOST_KEPT) kept.shift();
  }

  #matches(event) {
    const words = this.search.value.trim().toLowerCase();
    const text = `${event.sentence} ${event.event}`.toLowerCase();
    return (FILTERS[this.select.value] ?? FILTERS.all)(event) && text.includes(words);
  }

  #showAll() {
    const events = [...this.important, ...this.routine]
      .filter((event) => this.#matches(event))
      .sort((one, other) => one.number - other.number);
    const rows = [];
    for (const event of events) {
      if (rows.at(-1)?.dataset.words === stem(event)) this.#repeat(rows.at(-1), event);
      else rows.push(this.#row(event));
    }
    this.list.replaceChildren(...rows.slice(-MOST_SHOWN).reverse());
    this.#showCounts();
  }

  #showCounts() {
    const known = this.important.length + this.routine.length;
    const shown = [...this.list.children].reduce((sum, row) => sum + Number(row.dataset.times), 0);
    setHidden(this.empty, shown > 0);
    setText(this.empty, known ? "No event matches the filter." : "Nothing has happened yet.");
    setHidden(this.more, shown === known || shown === 0);
    setText(this.more, `${count(shown)} of ${count(known)} recent events shown.`);
  }

  #row(event) {
    const { root, parts } = fromTemplate("event-row");
    const warning = isWarning(event);
    root.dataset.level = warning ? "warn" : "info";
    setIcon(parts.icon, warning ? "warning" : iconOf(event.event));
    setText(parts.level, warning ? "Warning: " : "");
    setText(parts.words, sentence(event.sentence));
    root.dataset.words = stem(event);
    root.dataset.times = "1";
    showTime(parts.time, event.time);
    return root;
  }

  /** Counts a repeated event, such as a server that is still down, in one row with the time of the last one. */
  #repeat(row, event) {
    row.dataset.times = String(Number(row.dataset.times) + 1);
    setText(row.querySelector("[data-part=words]"), sentence(event.sentence));
    setOptional(row.querySelector("[data-part=times]"), `${row.dataset.times} times`);
    showTime(row.querySelector("time"), event.time);
  }
}

function showTime(element, time) {
  setText(element, clock(time));
  element.dateTime = time;
  setTitle(element, new Date(time).toString());
}

function iconOf(name) {
  if (name === "publish_started") return "live";
  if (name === "destination_connected") return "connected";
  if (name.startsWith("recording_")) return "record";
  if (name.startsWith("play_")) return "play";
  return "info";
}
