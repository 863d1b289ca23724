// One destination.
import { CheckBox } from "./check_steps.js";
import { fromTemplate, setChips, setData, setHidden, setIcon, setOptional, setText, setTitle } from "./dom.js";
import * as format from "./format.js";
import { Plot } from "./plot.js";

const WORDS = {
  connected: "Connected",
  connecting: "Connecting",
  error: "Failing",
  given_up: "Given up",
  idle: "Idle",
  disabled: "Disabled",
};

const KINDS_OF_ERROR = {
  network: "Network problem",
  refused: "Refused by the server",
  protocol: "Protocol problem",
};

/** The state of a destination for its colour and icon, and the word for it. */
export function stateOf(destination) {
  if (!destination) return { state: "idle", words: "Unknown" };
  const state = destination.status === "error" && destination.given_up ? "given_up" : destination.status;
  return { state: state in WORDS ? state : "idle", words: WORDS[state] ?? format.sentence(state) };
}

export const isProblem = (destination) => destination.status === "error" || destination.given_up;

export class DestinationCard {
  constructor(name, series, page) {
    this.name = name;
    this.page = page;
    const { root, parts } = fromTemplate("destination-card");
    this.root = root;
    this.parts = parts;
    root.dataset.key = name;
    this.plot = new Plot(parts.plot, series, `Send rate to ${name}`);
    this.controls = null;
    this.updatedAt = 0;
  }

  close() {
    this.plot.close();
  }

  update(destination) {
    const { parts } = this;
    this.destination = destination;
    this.updatedAt = Date.now();
    const { state, words } = stateOf(destination);
    setText(parts.name, destination.name);
    setTitle(parts.title, destination.name);
    setTitle(parts.url, destination.url);
    setData(this.root, "state", state);
    setData(parts.badge, "state", state);
    setIcon(parts.badgeIcon, state);
    setText(parts.badgeWord, words);
    setText(parts.duration, state === "connected" ? format.duration(destination.connected_duration) : "");
    setText(parts.url, destination.url);
    const [rate, unit] = format.bitrateParts(state === "connected" ? destination.bitrate_kbps : null);
    setText(parts.rate, rate);
    setText(parts.unit, unit);
    this.#updateQuiet(destination, state);
    this.#updateProblem(destination, state);
    this.tick(this.updatedAt);
    this.#updateFacts(destination);
    this.#updateStreams(destination);
    this.updateControls();
  }

  /** A destination that is idle and has nothing to show takes little room. */
  #updateQuiet(destination, state) {
    const { parts } = this;
    const hasPlot = state === "connected" || this.plot.hasData;
    setHidden(parts.rateBox, !hasPlot);
    setHidden(parts.plot, !hasPlot);
    setHidden(parts.facts, !hasPlot && !destination.messages_sent && !destination.messages_dropped);
    setData(this.root, "quiet", !hasPlot && (state === "idle" || state === "disabled") ? "yes" : "no");
  }

  #updateProblem(destination, state) {
    const { parts } = this;
    const failing = state === "error" || state === "given_up";
    const error = destination.last_error;
    setHidden(parts.problem, !error);
    setData(parts.problem, "level", failing ? "bad" : "quiet");
    setIcon(parts.problemIcon, failing ? "error" : "info");
    const kind = KINDS_OF_ERROR[destination.error_class] ?? "Problem";
    setText(parts.problemKind, `${failing ? kind : "Last problem"}:`);
    setText(parts.problemWords, format.sentence(error));
  }

  /** Counts down to the next attempt, even between two messages. */
  tick(now) {
    const destination = this.destination;
    let words = null;
    if (destination.given_up) words = "No more attempts until the next stream starts.";
    else if (destination.next_attempt_in !== null && destination.next_attempt_in !== undefined) {
      const left = destination.next_attempt_in - (now - this.updatedAt) / 1000;
      words = left > 0.5 ? `Next attempt in ${format.span(left)}.` : "Trying now…";
    }
    setOptional(this.parts.next, words);
    if (words !== null) setHidden(this.parts.problem, false);
  }

  #updateFacts(destination) {
    const { parts } = this;
    setText(parts.sent, format.bytes(destination.bytes_sent));
    setOptional(parts.sentNote, format.counted(destination.messages_sent, "frame"));
    // Streams that have ended have no rate any more: the last one is good enough.
    this.perSecond = this.page.messageRate((destination.outlets ?? []).map(({ stream }) => stream)) ?? this.perSecond;
    setText(parts.dropped, format.lost(destination.messages_dropped, this.perSecond));
    setTitle(parts.dropped, format.counted(destination.messages_dropped, "frame"));
    setOptional(parts.droppedNote, format.lossWords(destination.dropped_by_reason) || null);
    setData(parts.droppedNote, "level", destination.messages_dropped ? "warn" : "");
    setText(parts.queued, format.count(destination.messages_queued));
    setOptional(parts.queuedNote, destination.messages_queued ? "frames waiting" : "empty");
    setText(parts.reconnects, format.count(destination.reconnect_count));
    const since = destination.connect_time ? `since ${format.clock(destination.connect_time)}` : null;
    const attempts = destination.failures ?? 0;
    const failed = attempts ? format.counted(attempts, "failed attempt") : null;
    setOptional(parts.reconnectsNote, destination.connected_duration === null ? failed : since);
  }

  #updateStreams(destination) {
    const { parts } = this;
    const outlets = destination.outlets ?? [];
    setChips(
      parts.streams,
      outlets.map((outlet) => {
        const { state, words } = stateOf(outlet);
        const held = outlet.lingering ? " (waiting for its publisher to return)" : "";
        return [outlet.stream, state, `${outlet.stream}: ${words}${held}`];
      }),
    );
    const streams = destination.match === "*" ? "all streams" : destination.match;
    setText(parts.match, outlets.length ? "" : `Gets ${streams}`);
    setTitle(parts.streams, `Gets ${streams}`);
  }

  /** Adds the buttons that change something once the page is unlocked. */
  updateControls() {
    const { root } = this;
    if (!this.page.control.unlocked) {
      this.controls?.root.remove();
      return;
    }
    this.controls ??= this.#makeControls();
    if (!this.controls.root.isConnected) root.append(this.controls.root);
    const { enabled } = this.destination;
    setText(this.controls.parts.enable.querySelector("span"), enabled ? "Disable" : "Enable");
    setIcon(this.controls.parts.enable.querySelector("svg"), enabled ? "pause" : "play");
    const effect = enabled ? "Stop sending to it" : "Send to it again";
    setTitle(this.controls.parts.enable, `${effect}, until the relay is restarted`);
    this.controls.parts.reconnect.disabled = !enabled || this.destination.status === "idle";
    const sending = (this.destination.outlets ?? []).some(({ status }) => status === "connected" || status === "connecting");
    this.controls.parts.test.disabled = sending;
    const test = sending ? "It is sending now: a second publish with the same key could end the broadcast" : "Connect and ask to publish, without sending anything";
    setTitle(this.controls.parts.test, test);
  }

  #makeControls() {
    const controls = fromTemplate("destination-controls");
    const { enable, reconnect, edit, test, remove } = controls.parts;
    const check = new CheckBox(controls.root.querySelector(".check-box"));
    edit.addEventListener("click", () => this.#run(edit, () => this.page.edit(this.name, this.destination.lasting)));
    test.addEventListener("click", async () => {
      test.disabled = true;
      await check.show(() => this.page.control.checkDestination(this.name));
      this.updateControls();
    });
    enable.addEventListener("click", () =>
      this.#run(enable, () => this.page.control.setEnabled(this.name, !this.destination.enabled)),
    );
    reconnect.addEventListener("click", () => this.#run(reconnect, () => this.page.control.reconnect(this.name)));
    remove.addEventListener("click", () => this.#remove());
    return controls;
  }

  async #run(button, change) {
    const { message } = this.controls.parts;
    setText(message, "");
    button.disabled = true;
    try {
      await change();
    } catch (error) {
      setText(message, error.message);
    } finally {
      button.disabled = false;
    }
  }

  #remove() {
    const { lasting } = this.destination;
    this.page.confirm({
      title: "Remove this destination?",
      words: `Nothing more is sent to ${this.name}, and its counters are lost. To add it again you need its stream key.`,
      option: lasting ? "Remove it from the configuration file too" : null,
      action: "Remove",
      run: (checked) => this.page.control.removeDestination(this.name, lasting && checked),
    });
  }
}
