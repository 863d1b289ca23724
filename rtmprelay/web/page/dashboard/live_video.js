// Plays a live MP4 in a video element, near its live edge. It uses Media Source Extensions where the browser has them:
// a plain `src` lags seconds behind, stalls, and cannot seek in a stream without an end.
import { readHeader } from "./mp4_codecs.js";

const Source = window.ManagedMediaSource ?? window.MediaSource;

/** Bytes that wait for the decoder; more means that it has stopped. */
const LARGEST_BACKLOG = 16 * 1024 * 1024;
const LARGEST_HEADER = 1024 * 1024;

/** Seconds of played video that are kept. */
const PAST = 15;

/** Distances from the live edge in seconds: where playing starts, and how much farther it catches up or skips. */
const TARGET = 0.6;
const LARGEST_TARGET = 4;
const CATCH_UP = 0.8;
const SKIP = 4;

/** After this long without a stall it moves a little nearer to the live edge. */
const RELAX_MS = 20_000;

/** A stream that cannot be played; the message is shown to people. */
export class PlaybackError extends Error {
  constructor(message, retry) {
    super(message);
    this.retry = retry;
  }
}

/** Seconds between the current picture of a video and the newest one. */
export function distance(video) {
  const { buffered } = video;
  return buffered.length ? Math.max(0, buffered.end(buffered.length - 1) - video.currentTime) : 0;
}

/** Keeps a video near its live edge: it plays faster when it is late, and skips when it is very late. */
class LiveEdge {
  constructor(video) {
    this.video = video;
    this.target = TARGET;
    this.started = false;
    this.changedAt = Date.now();
  }

  /** The video stalled without data: keep a larger distance. */
  starved() {
    if (this.started) this.#setTarget(this.target + 0.4);
  }

  #setTarget(seconds) {
    this.target = Math.min(LARGEST_TARGET, Math.max(TARGET, seconds));
    this.changedAt = Date.now();
  }

  update() {
    if (Date.now() - this.changedAt > RELAX_MS) this.#setTarget(this.target - 0.2);
    const { video, target } = this;
    const { buffered } = video;
    if (!buffered.length) return;
    const end = buffered.end(buffered.length - 1);
    const begin = buffered.start(buffered.length - 1);
    const late = end - video.currentTime;
    if (!this.started) {
      this.started = true;
      video.currentTime = Math.max(begin, end - target);
      return;
    }
    if (video.paused || video.seeking) return;
    if (late > target + SKIP || late < 0 || video.currentTime < begin - 0.1) {
      video.currentTime = Math.max(begin, end - target);
      video.playbackRate = 1;
    } else if (late > target + CATCH_UP) {
      video.playbackRate = 1.15;
    } else if (late < target / 2) {
      // With so little data the next delay would stall the video.
      video.playbackRate = 0.9;
    } else if (video.playbackRate > 1 ? late < target + 0.2 : late > target) {
      video.playbackRate = 1;
    }
  }
}

/** Appends bytes to a source buffer, one piece after the other, and removes what was played. */
class Feeder {
  constructor(video, source, buffer) {
    this.video = video;
    this.source = source;
    this.buffer = buffer;
    this.waiting = [];
    this.size = 0;
    this.failed = null;
    buffer.addEventListener("updateend", () => this.#next());
    buffer.addEventListener("error", () => (this.failed = "The browser could not decode the stream."));
  }

  add(bytes) {
    this.waiting.push(bytes);
    this.size += bytes.length;
    if (this.size > LARGEST_BACKLOG) this.failed = "The browser cannot keep up with the stream.";
    this.#next();
  }

  #next() {
    const { buffer, video, source } = this;
    if (buffer.updating || this.failed || source.readyState !== "open") return;
    try {
      const old = this.#old();
      if (old) {
        buffer.remove(...old);
      } else if (this.waiting.length) {
        const bytes = this.#joined();
        buffer.appendBuffer(bytes);
      }
    } catch (error) {
      this.failed = `The browser does not accept more of the stream (${error.name}).`;
    }
  }

  /** The range to remove: what was played, and all but the last seconds while the video is paused. */
  #old() {
    const { buffered } = this.buffer;
    if (!buffered.length) return null;
    const begin = buffered.start(0);
    const keep = this.video.paused ? buffered.end(buffered.length - 1) : this.video.currentTime;
    return keep - begin > 2 * PAST ? [begin, keep - PAST] : null;
  }

  #joined() {
    const all = this.waiting.length === 1 ? this.waiting[0] : new Uint8Array(this.size);
    if (this.waiting.length > 1) {
      let at = 0;
      for (const bytes of this.waiting) {
        all.set(bytes, at);
        at += bytes.length;
      }
    }
    this.waiting = [];
    this.size = 0;
    return all;
  }
}

const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));

async function open(url, signal) {
  let answer;
  try {
    answer = await fetch(url, { signal, cache: "no-store" });
  } catch (error) {
    if (signal.aborted) throw error;
    throw new PlaybackError("The relay could not be reached.", true);
  }
  if (answer.ok) return answer.body.getReader();
  const body = await answer.json().catch(() => null);
  const words = body?.error?.message ?? `The relay answered ${answer.status} ${answer.statusText}.`;
  throw new PlaybackError(words, answer.status === 404 || answer.status >= 500);
}

/** Reads to the end of the header, and returns its codecs and all bytes so far. */
async function begin(reader) {
  let bytes = new Uint8Array();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) throw new PlaybackError("The stream ended before its first picture.", true);
    const joined = new Uint8Array(bytes.length + value.length);
    joined.set(bytes);
    joined.set(value, bytes.length);
    bytes = joined;
    let header = null;
    try {
      header = readHeader(bytes);
    } catch {
      throw new PlaybackError("The relay sent an MP4 that this page cannot read.", false);
    }
    if (header) return { codecs: header.codecs, bytes };
    if (bytes.length > LARGEST_HEADER) throw new PlaybackError("The relay did not send an MP4.", false);
  }
}

async function attach(video, type, signal) {
  const source = new Source();
  const address = URL.createObjectURL(source);
  signal.addEventListener("abort", () => URL.revokeObjectURL(address));
  video.disableRemotePlayback = true;
  video.src = address;
  await event(source, "sourceopen");
  signal.throwIfAborted();
  source.duration = Infinity;
  return [source, source.addSourceBuffer(type)];
}

async function playFed(video, url, signal, onProgress) {
  const reader = await open(url, signal);
  const { codecs, bytes } = await begin(reader);
  const type = `video/mp4; codecs="${codecs.join(", ")}"`;
  if (!Source.isTypeSupported(type)) {
    const unknown = codecs.filter((codec) => !Source.isTypeSupported(`video/mp4; codecs="${codec}"`));
    const names = (unknown.length ? unknown : codecs).join(", ");
    throw new PlaybackError(`This browser cannot play the codec of this stream (${names}).`, false);
  }
  const [source, buffer] = await attach(video, type, signal);
  const feeder = new Feeder(video, source, buffer);
  const edge = new LiveEdge(video);
  const starved = () => edge.starved();
  video.addEventListener("waiting", starved, { signal });
  video.addEventListener("play", () => (edge.started = false), { signal });
  feeder.add(bytes);
  video.play().catch(() => {});
  for (;;) {
    const { done, value } = await reader.read();
    if (feeder.failed) throw new PlaybackError(feeder.failed, true);
    if (video.error) throw new PlaybackError(`The browser stopped playing: ${video.error.message}`, true);
    if (done) return;
    feeder.add(value);
    edge.update();
    onProgress();
  }
}

/** Plays with a plain `src`, in browsers without Media Source Extensions. */
async function playPlain(video, url, signal, onProgress) {
  video.src = url;
  video.addEventListener("timeupdate", onProgress, { signal });
  video.play().catch(() => {});
  const first = await Promise.race([event(video, "error"), event(video, "ended"), event(signal, "abort")]);
  if (first.type !== "error") return;
  const cannot = video.error?.code === MediaError.MEDIA_ERR_SRC_NOT_SUPPORTED;
  throw new PlaybackError(
    cannot ? "This browser cannot play the codec of this stream." : "The browser stopped playing.",
    !cannot,
  );
}

/**
 * Plays until the stream ends or the signal is aborted; nothing is downloaded after that.
 * Throws a PlaybackError if it cannot.
 */
export async function playLive(video, url, signal, onProgress) {
  const abort = new AbortController();
  const stop = () => abort.abort();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await (Source ? playFed : playPlain)(video, url, abort.signal, onProgress);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    stop();
    video.removeAttribute("src");
    video.load();
  }
}
