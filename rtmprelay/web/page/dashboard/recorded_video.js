// Plays a recording from its HLS playlist through Media Source Extensions: loads what is about to be shown, and jumps.
import { readMedia } from "./hls_playlist.js";
import { PlaybackError } from "./live_video.js";
import { readHeader } from "./mp4_codecs.js";

const Source = window.ManagedMediaSource ?? window.MediaSource;

/** Seconds that are loaded ahead of what is shown, and kept of what was shown. */
const AHEAD = 30;
const BEHIND = 30;

/** Milliseconds between looks for what to load next, and between readings of the playlist of a recording that grows. */
const LOOK_EVERY_MS = 250;
const RELOAD_EVERY_MS = 5000;

const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));
const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

async function load(url, signal) {
  let answer;
  try {
    answer = await fetch(url, { signal });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new PlaybackError("The relay could not be reached.");
  }
  if (answer.ok) return answer;
  const body = await answer.json().catch(() => null);
  throw new PlaybackError(body?.error?.message ?? `The relay answered ${answer.status} ${answer.statusText}.`);
}

class Recording {
  constructor(video, url, signal) {
    this.video = video;
    this.url = url;
    this.signal = signal;
    /** [begin, end, url] of each segment, in seconds. */
    this.segments = [];
    this.loaded = new Set();
    this.ended = false;
    this.readAt = 0;
  }

  async readPlaylist() {
    const answer = await load(this.url, this.signal);
    const playlist = readMedia(await answer.text(), answer.url);
    let at = 0;
    this.segments = playlist.segments.map(({ duration, url }) => [at, (at += duration), url]);
    this.duration = at;
    this.ended = playlist.ended;
    this.readAt = Date.now();
    this.map = playlist.segments[0]?.map ?? null;
    return playlist;
  }

  async run() {
    await this.readPlaylist();
    if (this.map === null) throw new PlaybackError("There is nothing in this recording yet.");
    const header = new Uint8Array(await (await load(this.map, this.signal)).arrayBuffer());
    const { codecs } = readHeader(header);
    const type = `video/mp4; codecs="${codecs.join(", ")}"`;
    if (!Source?.isTypeSupported(type)) {
      throw new PlaybackError(`This browser cannot play the codec of this recording (${codecs.join(", ")}). Download it, and VLC can.`);
    }
    await this.#attach(type);
    await this.#append(header);
    this.video.play().catch(() => {});
    while (!this.signal.aborted) await this.#step();
  }

  async #attach(type) {
    const { video, signal } = this;
    this.source = new Source();
    const address = URL.createObjectURL(this.source);
    signal.addEventListener("abort", () => URL.revokeObjectURL(address));
    video.disableRemotePlayback = true;
    video.src = address;
    await event(this.source, "sourceopen");
    signal.throwIfAborted();
    this.source.duration = this.duration;
    this.buffer = this.source.addSourceBuffer(type);
    this.buffer.addEventListener("error", () => (this.broken = true));
  }

  async #step() {
    if (this.broken || this.video.error) throw new PlaybackError("The browser could not decode the recording.");
    if (!this.ended && Date.now() - this.readAt > RELOAD_EVERY_MS) await this.#readMore();
    const number = this.#next();
    if (number === null) {
      await Promise.race([sleep(LOOK_EVERY_MS), event(this.video, "seeking")]);
      return;
    }
    await this.#forgetOld();
    const bytes = await (await load(this.segments[number][2], this.signal)).arrayBuffer();
    await this.#append(bytes);
    this.loaded.add(number);
    const isLast = number === this.segments.length - 1;
    if (isLast && this.ended && this.source.readyState === "open") this.source.endOfStream();
  }

  /** The segment to load now; null if enough is there. */
  #next() {
    const time = this.video.currentTime;
    for (const [number, [begin, end]] of this.segments.entries()) {
      if (end <= time + 0.05) continue;
      if (begin > time + AHEAD) return null;
      if (!this.loaded.has(number)) return number;
    }
    return null;
  }

  async #readMore() {
    const before = this.duration;
    await this.readPlaylist();
    if (this.duration > before && !this.buffer.updating) this.source.duration = this.duration;
  }

  async #append(bytes) {
    this.buffer.appendBuffer(bytes);
    await event(this.buffer, "updateend");
    this.signal.throwIfAborted();
  }

  /** Removes what is far from what is shown. */
  async #forgetOld() {
    const { buffer, video } = this;
    const [from, to] = [video.currentTime - BEHIND, video.currentTime + 2 * AHEAD];
    for (const number of [...this.loaded]) {
      const [begin, end] = this.segments[number];
      if (end > from && begin < to) continue;
      this.loaded.delete(number);
      buffer.remove(begin, end);
      await event(buffer, "updateend");
      this.signal.throwIfAborted();
    }
  }
}

/** Plays the recording with this playlist until the signal is aborted. Throws a PlaybackError if it cannot. */
export async function playRecording(video, url, signal) {
  try {
    if (!Source && video.canPlayType("application/vnd.apple.mpegurl")) {
      video.src = url;
      await event(signal, "abort");
    } else {
      await new Recording(video, url, signal).run();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    if (signal.aborted) {
      video.removeAttribute("src");
      video.load();
    }
  }
}
