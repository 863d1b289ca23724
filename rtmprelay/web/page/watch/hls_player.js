// Plays a stream as HLS through Media Source Extensions, and begins anew whenever it has to.
import { Gone, HlsSession, Source } from "./hls_session.js";
import { readVariants } from "./hls_playlist.js";

export const canPlayParts = Boolean(Source);

/** Milliseconds between attempts to find the stream. */
const RETRY_MS = 2000;

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * Plays the stream whose multivariant playlist is at `url`, and begins anew whenever it has to, until `stop`.
 * `onState` is called with "loading", "playing", "waiting", "offline", "ended" or "failed", and words for people.
 */
export class HlsPlayer {
  constructor(video, url, onState) {
    this.video = video;
    this.url = url;
    this.onState = onState;
    this.variants = [];
    this.chosen = null;
    this.atEdge = true;
    this.session = null;
    this.stopped = false;
  }

  async run() {
    while (!this.stopped) {
      try {
        const answer = await fetch(this.url, { cache: "no-store" });
        if (answer.ok) await this.#play(await answer.text(), answer.url);
        else if (answer.status === 401 || answer.status === 403) {
          this.onState("failed", "You are not permitted to watch this stream.");
        } else if (answer.status === 404 || answer.status === 410) {
          this.onState("offline", "This stream is not live now. It begins here by itself.");
        } else {
          this.onState("offline", "The server is busy. This page asks again.");
        }
      } catch (error) {
        if (!(error instanceof Gone)) this.onState("offline", "The server cannot be reached. This page asks again.");
      }
      if (!this.stopped) await sleep(RETRY_MS);
    }
  }

  stop() {
    this.stopped = true;
    this.session?.close();
  }

  /** Watch another quality; null lets the page choose. */
  choose(index) {
    this.chosen = index;
    this.session?.close();
  }

  async #play(text, base) {
    const supported = ({ codecs }) => !codecs || Source.isTypeSupported(`video/mp4; codecs="${codecs}"`);
    const all = readVariants(text, base);
    this.variants = all.filter(supported);
    if (!this.variants.length) {
      const names = all.map(({ codecs }) => codecs).join(", ") || "none";
      this.onState("failed", `This browser cannot play the codecs of this stream (${names}).`);
      return;
    }
    const variant = this.variants[this.chosen ?? 0] ?? this.variants[0];
    this.session = new HlsSession(this, variant);
    try {
      await this.session.run();
    } finally {
      this.session.close();
      this.session = null;
    }
  }

  // -- for the page ------------------------------------------------------------------------------------------------

  /** What can be watched: [begin, end] in the time of the video; null while nothing is known. */
  get window() {
    return this.session?.timeline.playlist ? this.session.timeline.window : null;
  }

  /** Seconds from the newest picture that the relay has to the one that is shown; null while it is not known. */
  get latency() {
    return this.session?.latency ?? null;
  }

  seek(time) {
    this.atEdge = false;
    this.session?.seek(time);
  }

  goLive() {
    this.atEdge = true;
    this.session?.goLive();
  }
}
