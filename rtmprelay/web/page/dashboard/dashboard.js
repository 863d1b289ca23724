// The page: shows what the feed of the server delivers.
import { ClusterTable } from "./cluster_table.js";
import { Control } from "./control.js";
import { DestinationCard, isProblem, stateOf } from "./destination_card.js";
import { Dialogs } from "./dialogs.js";
import { CardList, copyButton, setData, setHidden, setIcon, setText, setTitle } from "./dom.js";
import { EventList } from "./event_list.js";
import { Feed } from "./feed.js";
import * as format from "./format.js";
import { Machine } from "./machine.js";
import { drawVisiblePlots, forgetColours } from "./plot.js";
import { PullCard } from "./pull_card.js";
import { Recordings } from "./recordings.js";
import { Series } from "./series.js";
import { Streams } from "./streams.js";
import { ViewBar } from "./view_bar.js";

const byId = (id) => document.getElementById(id);
const seconds = () => Date.now() / 1000;

/** The rates of all streams, or of all destinations. */
class Histories {
  #all = new Map();
  interval = 1;

  of(key) {
    if (!this.#all.has(key)) this.#all.set(key, new Series(this.interval));
    return this.#all.get(key);
  }

  load(lists, interval) {
    this.interval = interval;
    for (const [key, values] of Object.entries(lists ?? {})) this.of(key).load(values, seconds(), interval);
  }

  /** Adds one sample to each. The histories of others are dropped unless their `keys` are still shown. */
  push(rates, keys) {
    const now = seconds();
    for (const [key, rate] of rates) this.of(key).push(now, rate);
    for (const key of this.#all.keys()) if (!rates.has(key) && !keys.has(key)) this.#all.delete(key);
  }
}

class Page {
  constructor() {
    this.hello = null;
    this.destinationData = new Map();
    this.streamData = new Map();
    this.control = new Control(() => this.#controlsChanged());
    this.dialogs = new Dialogs(this.control);
    this.streamRates = new Histories();
    this.destinationRates = new Histories();
    this.streams = new Streams(byId("stream-cards"), this.streamRates, this);
    this.destinations = new CardList(
      byId("destination-cards"),
      (name) => new DestinationCard(name, this.destinationRates.of(name), this),
    );
    this.pulls = new CardList(byId("pull-cards"), (name) => new PullCard(name));
    this.cluster = new ClusterTable(byId("cluster"));
    this.events = new EventList(byId("events"));
    this.machine = new Machine(byId("machine"));
    this.recordings = new Recordings(byId("recordings"), byId("play-dialog"), this.control);
    this.viewBar = new ViewBar(this.streams, this.destinations);
    this.feed = new Feed("events", {
      hello: (data) => this.#helloReceived(data),
      status: (data) => this.#statusReceived(data),
      event: (data) => this.#eventReceived(data),
      changed: (state) => this.#connectionChanged(state),
    });
    this.#listen();
    this.#controlsChanged();
    this.feed.start();
    setInterval(() => this.#tick(), 1000);
  }

  #listen() {
    byId("unlock").addEventListener("click", () => {
      if (this.control.unlocked) this.control.lock();
      else this.dialogs.askForToken(this.hello?.changes_allowed ?? true);
    });
    byId("add-destination").addEventListener("click", () => this.dialogs.add());
    byId("retry").addEventListener("click", () => this.feed.retryNow());
    document.addEventListener("themechange", forgetColours);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forgetColours);
    for (const button of document.querySelectorAll("[data-copy]")) {
      copyButton(button, () => byId(button.dataset.copy).textContent);
    }
  }

  // -- called by the cards -----------------------------------------------------------------------------------

  confirm(question) {
    this.dialogs.confirm(question);
  }

  /** Opens the settings of a destination. */
  edit(name, lasting) {
    return this.dialogs.edit(name, lasting);
  }

  /** The messages a second of these streams, on average; null if none of them is known. */
  messageRate(keys) {
    const known = keys.map((key) => this.streamData.get(key)).filter((stream) => stream?.duration > 1 && stream.messages_in);
    if (!known.length) return null;
    return known.reduce((sum, stream) => sum + stream.messages_in / stream.duration, 0) / known.length;
  }

  /** The state of a destination. */
  stateOf(name) {
    return stateOf(this.destinationData.get(name));
  }

  /** The address for publishing and playing, as seen from this browser. */
  rtmpUrl(app, name) {
    return `${this.#rtmpServer()}/${app ? `${app}/` : ""}${name}`;
  }

  #rtmpServer() {
    const listener = this.hello?.rtmp?.[0];
    const [scheme, port] = listener ? [listener.scheme, listener.port] : ["rtmp", 1935];
    const usual = scheme === "rtmps" ? 443 : 1935;
    return `${scheme}://${location.hostname}${port === usual ? "" : `:${port}`}`;
  }

  // -- messages of the server --------------------------------------------------------------------------------

  #helloReceived(hello) {
    // After an upgrade the page is still the old version. An open dialog is not interrupted.
    if (this.hello && this.hello.version !== hello.version && !document.querySelector("dialog[open]")) location.reload();
    this.hello = hello;
    setText(byId("version"), hello.version);
    this.streamRates.load(hello.history?.streams, hello.history?.interval ?? 1);
    this.destinationRates.load(hello.history?.destinations, hello.history?.interval ?? 1);
    this.machine.load(hello.history?.machine, hello.history?.interval ?? 1);
    this.events.load(hello.events ?? []);
    this.streams.remember(hello.ended ?? []);
    this.recordings.changed();
    setText(byId("publish-server"), `${this.#rtmpServer()}/live`);
    setText(
      byId("publish-command"),
      `ffmpeg -re -i film.mp4 -c copy -f flv ${this.#rtmpServer()}/live/test`,
    );
    this.control.checkAgain();
    if (!hello.changes_allowed && this.control.unlocked) this.control.lock();
  }

  #statusReceived(status) {
    const streams = new Map(Object.entries(status.streams));
    const destinations = new Map(Object.entries(status.destinations));
    this.destinationData = destinations;
    this.streamData = streams;
    this.streams.update(streams);
    this.destinations.update(destinations);
    const pulls = new Map(Object.entries(status.pulls ?? {}));
    this.pulls.update(pulls);
    setHidden(byId("pulls"), pulls.size === 0);
    this.cluster.update(status.cluster);
    const rate = (entry) => entry.bitrate_kbps;
    this.streamRates.push(mapValues(streams, rate), this.streams.cards);
    this.destinationRates.push(mapValues(destinations, rate), this.destinations.cards);
    this.machine.update(status.health.machine);
    this.#showTotals(status.health, [...streams.values()], [...destinations.values()]);
    this.viewBar.update();
    drawVisiblePlots();
    this.drawnAt = Date.now();
    setData(document.body, "loaded", "yes");
  }

  #eventReceived(event) {
    this.events.add(event);
    if (event.event === "publish_stopped") this.streams.stopped(event);
    if (event.event.startsWith("recording_")) this.recordings.changed();
  }

  #showWarnings(health) {
    const refused = health.refused_addresses.map(
      (each) => `${each.address} was refused ${format.count(each.refused)} times (limit: ${each.limit}): ${each.advice}`,
    );
    const sentences = [...health.warnings, ...refused];
    setHidden(byId("warnings"), sentences.length === 0);
    setText(byId("warnings-text"), sentences.join(" – "));
  }

  #showTotals(health, streams, destinations) {
    this.#showWarnings(health);
    const live = streams.filter((stream) => stream.live);
    const failing = destinations.filter(isProblem).length;
    const enabled = destinations.filter((destination) => destination.enabled).length;
    const sum = (list) => list.reduce((total, entry) => total + (entry.bitrate_kbps ?? 0), 0);
    setText(byId("total-streams"), format.count(live.length));
    setText(byId("total-players"), format.count(health.players));
    this.#showRate("total-in", sum(live));
    this.#showRate("total-out", sum(destinations));
    setText(byId("total-connected"), format.count(health.connected_destinations));
    setText(byId("total-destinations"), `of ${format.count(enabled)}${failing ? "" : " connected"}`);
    setHidden(byId("total-failing"), failing === 0);
    setText(byId("total-failing"), `${format.count(failing)} failing`);
    this.#showDropped(health, streams);
    setText(byId("uptime"), format.duration(health.uptime));
    setText(byId("stream-count"), format.count(live.length));
    setText(byId("destination-count"), format.count(destinations.length));
    setHidden(byId("no-streams"), this.streams.cards.size > 0);
    setHidden(byId("no-destinations"), destinations.length > 0);
    const title = failing ? `⚠ ${failing} failing` : live.length ? `${live.length} live` : "No stream";
    if (document.title !== `${title} – rtmprelay`) document.title = `${title} – rtmprelay`;
  }

  /** What destinations and players did not get, as time. */
  #showDropped(health, streams) {
    const dropped = health.total_messages_dropped + streams.reduce((all, each) => all + each.messages_dropped, 0);
    this.perSecond = this.messageRate([...this.streamData.keys()]) ?? this.perSecond;
    setText(byId("total-dropped"), format.lost(dropped, this.perSecond));
    setTitle(byId("total-dropped"), `${format.counted(dropped, "message")}, of all destinations and players together`);
  }

  #showRate(id, kbps) {
    const [number, unit] = format.bitrateParts(kbps);
    setText(byId(id), number);
    setText(byId(`${id}-unit`), unit);
  }

  // -- the page itself --------------------------------------------------------------------------------------

  #connectionChanged(state) {
    const words = { connecting: "Connecting…", live: "Connected", lost: "Reconnecting…" };
    setData(document.body, "connection", state.name);
    setIcon(byId("connection-icon"), { connecting: "connecting", live: "connected", lost: "error" }[state.name]);
    setText(byId("connection-word"), words[state.name]);
    setHidden(byId("banner"), state.name !== "lost");
    if (state.name === "lost") {
      const since = format.clock(state.since);
      setText(byId("banner-words"), `No connection to the relay since ${since}. This page shows the state at that time.`);
      const advice = "Is rtmprelay running, and is this computer's network up?";
      setText(byId("banner-reason"), state.reason ? format.sentence(state.reason) : advice);
    }
    this.#showCountdown(state);
  }

  #showCountdown(state) {
    const left = state.retryAt === null ? 0 : (state.retryAt - Date.now()) / 1000;
    setText(byId("banner-countdown"), left > 0 ? `Trying again in ${format.span(left)}.` : "Trying now…");
  }

  /** Once a second, even without messages: plots and countdowns move on. */
  #tick() {
    if (this.feed.state.name === "lost") this.#showCountdown(this.feed.state);
    if (document.hidden || Date.now() - (this.drawnAt ?? 0) < 1400) return;
    for (const card of this.destinations.cards.values()) card.tick(Date.now());
    drawVisiblePlots();
  }

  #controlsChanged() {
    const { unlocked } = this.control;
    setText(byId("unlock").querySelector("span"), unlocked ? "Lock changes" : "Unlock changes");
    setIcon(byId("unlock").querySelector("svg"), unlocked ? "unlocked" : "locked");
    setHidden(byId("add-destination"), !unlocked);
    setData(document.body, "changes", unlocked ? "unlocked" : "locked");
    for (const card of [...this.streams.cards.values(), ...this.destinations.cards.values()]) card.updateControls();
  }
}

function mapValues(map, value) {
  return new Map([...map].map(([key, entry]) => [key, value(entry)]));
}

new Page();
