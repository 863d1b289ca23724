// All streams, and for a while those that have ended, so that an operator sees what is missing.
import { CardList } from "./dom.js";
import { sentence } from "./format.js";
import { StreamCard } from "./stream_card.js";

/** How long a stream that has ended is still shown. */
const REMEMBERED_MS = 10 * 60 * 1000;
const MAX_REMEMBERED = 20;

/** What an event tells of a stream that has ended. */
function endedStream({ stream: key, duration, bytes, messages }) {
  const cut = key.lastIndexOf("/");
  const path = `/${key.split("/").map(encodeURIComponent).join("/")}`;
  return {
    key,
    app: key.slice(0, Math.max(0, cut)),
    name: key.slice(cut + 1),
    live: false,
    publisher: null,
    duration: duration ?? null,
    video: null,
    audio: null,
    bitrate_kbps: null,
    fps: null,
    gop_seconds: null,
    keyframe_interval: null,
    players: 0,
    messages_in: messages ?? 0,
    bytes_in: bytes ?? 0,
    bytes_out: 0,
    messages_dropped: 0,
    dropped_by_reason: {},
    recording: null,
    destinations: [],
    media: { flv: `${path}.flv`, mp4: `${path}.mp4`, hls: null, page: null },
  };
}

export class Streams {
  constructor(container, histories, page) {
    this.ended = new Map();
    this.last = new Map();
    this.reasons = new Map();
    this.list = new CardList(container, (key) => {
      const card = new StreamCard(key, histories.of(key), page);
      card.parts.dismiss.addEventListener("click", () => {
        this.ended.delete(key);
        this.#show();
      });
      return card;
    });
  }

  get cards() {
    return this.list.cards;
  }

  get hasEnded() {
    return this.ended.size > 0;
  }

  /** Notes why a publisher stopped, before the stream is gone. */
  stopped(event) {
    this.reasons.set(event.stream, { at: Date.now(), words: sentence(event.reason) });
  }

  /** Shows streams that ended before this page was opened, by the events of their ends. */
  remember(events) {
    for (const event of events) {
      const at = new Date(event.time).getTime();
      if (Date.now() - at > REMEMBERED_MS || this.last.has(event.stream)) continue;
      this.ended.set(event.stream, { stream: endedStream(event), ended: { at, words: sentence(event.reason) } });
    }
  }

  /** @param streams the streams of the server, a map from key to stream */
  update(streams) {
    const now = Date.now();
    for (const [key, stream] of this.last) {
      if (!streams.has(key) && stream.live) {
        const known = this.reasons.get(key);
        this.ended.set(key, { stream, ended: known ?? { at: now, words: "" } });
      }
    }
    for (const [key, { ended }] of this.ended) {
      if (streams.has(key) || now - ended.at > REMEMBERED_MS) this.ended.delete(key);
    }
    while (this.ended.size > MAX_REMEMBERED) this.ended.delete(this.ended.keys().next().value);
    for (const [key, { at }] of this.reasons) if (now - at > 5000) this.reasons.delete(key);
    this.last = streams;
    this.#show();
  }

  #show() {
    const shown = new Map(this.ended);
    for (const [key, stream] of this.last) shown.set(key, { stream, ended: null });
    this.list.update(shown);
  }
}
