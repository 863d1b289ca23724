// The recordings in the folder of the relay: the newest first, to play and to download. Read when something changes.
import { fromTemplate, setData, setHidden, setOptional, setText, setTitle } from "./dom.js";
import * as format from "./format.js";
import { playRecording } from "./recorded_video.js";

/** Recordings that are shown at first, and how many more with each click. */
const FIRST = 8;
const MORE = 40;

/** Milliseconds between readings while something is being recorded, and after an event. */
const EVERY_MS = 15_000;
const SOON_MS = 1000;

const pathOf = (name) => `recordings/${encodeURIComponent(name)}`;

export class Recordings {
  constructor(section, dialog, control) {
    this.section = section;
    this.list = section.querySelector("ul");
    this.search = section.querySelector("input[type=search]");
    this.more = section.querySelector("[data-part=more]");
    this.empty = section.querySelector(".empty");
    this.control = control;
    this.player = new RecordingPlayer(dialog);
    this.files = [];
    this.shown = FIRST;
    this.timer = null;
    this.search.addEventListener("input", () => this.#show());
    this.more.addEventListener("click", () => {
      this.shown += MORE;
      this.#show();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.#due(0));
  }

  /** Something was recorded, or the page has just connected. */
  changed() {
    this.#due(SOON_MS);
  }

  #due(delay) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#refresh(), delay);
  }

  async #refresh() {
    if (document.hidden) return;
    let files = null;
    try {
      ({ files } = await this.control.recordings());
    } catch {
      // The page says in other places that the relay cannot be reached.
      return;
    }
    setHidden(this.section, files === null);
    setHidden(document.getElementById("recordings-link"), files === null);
    this.files = files ?? [];
    this.#show();
    if (this.files.some(({ growing }) => growing)) this.#due(EVERY_MS);
  }

  #show() {
    const words = this.search.value.trim().toLowerCase();
    const matching = this.files.filter(({ name, stream }) => `${stream ?? ""} ${name}`.toLowerCase().includes(words));
    const rows = matching.slice(0, this.shown);
    while (this.list.children.length > rows.length) this.list.lastElementChild.remove();
    rows.forEach((file, index) => this.#row(index, file));
    setText(document.getElementById("recording-count"), format.count(this.files.length));
    setHidden(this.search, this.files.length <= FIRST);
    setHidden(this.more, matching.length <= rows.length);
    setText(this.more, `Show more (${format.count(matching.length - rows.length)})`);
    setHidden(this.empty, rows.length > 0);
    setText(this.empty, this.files.length ? "No recording matches." : "Nothing is recorded yet.");
  }

  #row(index, file) {
    if (index === this.list.children.length) this.#append();
    const row = this.list.children[index];
    const { parts } = row;
    row.file = file;
    const title = file.stream ?? file.name;
    setData(row, "growing", file.growing ? "yes" : "no");
    setText(parts.title, title);
    setTitle(parts.title, file.name);
    setText(parts.when, file.started ? format.clock(file.started) : "");
    const length = file.growing ? "recording now" : format.duration(file.duration);
    setText(parts.facts, `${length} · ${format.bytes(file.size)}`);
    setText(parts.playFor, ` ${title}, ${parts.when.textContent}`);
    setText(parts.downloadFor, ` ${title}, ${parts.when.textContent}`);
    const address = `${pathOf(file.name)}/download`;
    if (parts.download.getAttribute("href") !== address) parts.download.setAttribute("href", address);
    setOptional(parts.badge, file.growing ? "Recording" : null);
  }

  #append() {
    const { root, parts } = fromTemplate("recording-row");
    root.parts = parts;
    parts.play.addEventListener("click", () => this.player.open(root.file));
    this.list.append(root);
  }
}

class RecordingPlayer {
  constructor(dialog) {
    this.dialog = dialog;
    this.video = dialog.querySelector("video");
    this.note = dialog.querySelector("[role=status]");
    this.abort = null;
    dialog.addEventListener("close", () => this.abort?.abort());
  }

  async open(file) {
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    setText(this.dialog.querySelector("h2"), file.stream ?? file.name);
    setText(this.dialog.querySelector("[data-part=name]"), file.name);
    const download = this.dialog.querySelector("a[download]");
    download.setAttribute("href", `${pathOf(file.name)}/download`);
    setText(this.note, "");
    this.dialog.showModal();
    try {
      await playRecording(this.video, new URL(`${pathOf(file.name)}/index.m3u8`, document.baseURI).href, abort.signal);
    } catch (error) {
      if (!abort.signal.aborted) setText(this.note, format.sentence(error.message));
    }
  }
}
