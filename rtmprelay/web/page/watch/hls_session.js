// Plays one media playlist through Media Source Extensions: parts are appended as they appear at the live edge, whole
// segments further back.
import { firstDecodeTime, timescales } from "./mp4_times.js";
import { readMedia, readVariants } from "./hls_playlist.js";
import { Timeline } from "./hls_timeline.js";

export const Source = window.ManagedMediaSource ?? window.MediaSource;

/** Seconds that are kept behind and loaded ahead of what is shown. */
const BEHIND = 30;
const AHEAD = 20;

/** Seconds more than the hold back after which playing is faster, and after which it jumps. */
const LATE = 0.35;
const VERY_LATE = 4;

/** Milliseconds without anything new after which the publisher is taken to be away. */
const SILENT_MS = 3000;

/** Milliseconds between looks for a stream that has ended. */
const RETRY_MS = 2000;

const TICK_MS = 100;

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
const event = (target, name) => new Promise((resolve) => target.addEventListener(name, resolve, { once: true }));

/** What was being played is no longer there: the player begins anew. */
export class Gone extends Error {}

/** One media source, from the first playlist to the end of the stream or an error. */
export class HlsSession {
  constructor(player, variant) {
    this.player = player;
    this.video = player.video;
    this.variant = variant;
    this.timeline = new Timeline();
    this.abort = new AbortController();
    this.place = null;
    this.map = null;
    this.scales = null;
    this.offsets = new Map();
    this.loading = null;
    this.wake = () => {};
    this.edge = null;
    this.newAt = performance.now();
    this.stalled = false;
    this.started = false;
    this.throughput = null;
    this.over = false;
  }

  close() {
    this.abort.abort();
    this.loading?.abort();
    this.wake();
  }

  async run() {
    const { signal } = this.abort;
    await this.#attach(signal);
    const timer = setInterval(() => this.#tick(), TICK_MS);
    const waiting = () => (this.stalled ||= this.started);
    this.video.addEventListener("waiting", waiting, { signal });
    try {
      await Promise.race([this.#readPlaylists(), this.#load(), event(signal, "abort")]);
    } finally {
      clearInterval(timer);
    }
  }

  async #attach(signal) {
    this.source = new Source();
    const address = URL.createObjectURL(this.source);
    signal.addEventListener("abort", () => URL.revokeObjectURL(address));
    this.video.disableRemotePlayback = true;
    this.video.src = address;
    await event(this.source, "sourceopen");
    this.source.duration = Infinity;
    this.buffer = this.source.addSourceBuffer(`video/mp4; codecs="${this.variant.codecs}"`);
  }

  // -- playlists ---------------------------------------------------------------------------------------------------

  async #readPlaylists() {
    const { signal } = this.abort;
    while (!signal.aborted) {
      const url = new URL(this.variant.url);
      if (this.timeline.playlist) {
        for (const [name, value] of Object.entries(this.timeline.reloadQuery)) url.searchParams.set(name, value);
      }
      const asked = performance.now();
      const answer = await fetch(url, { signal, headers: this.#told(), cache: "no-store" });
      if (!answer.ok) throw new Gone(`playlist ${answer.status}`);
      const [, before] = this.timeline.window;
      const playlist = readMedia(await answer.text(), url, this.timeline.playlist);
      if (playlist === null || !this.timeline.update(playlist)) throw new Gone("another playlist");
      const now = performance.now();
      const [, end] = this.timeline.window;
      if (end > before || this.edge === null) {
        this.newAt = now;
        // The newest picture arrived at the relay at about this time, or before.
        this.edge = Math.max(this.edge ?? -Infinity, end - now / 1000);
      }
      this.wake();
      if (playlist.ended) return void (await this.#untilOver());
      const pause = playlist.canBlock ? 0 : (playlist.partTarget || playlist.target) * 1000;
      if (end === before || pause) await sleep(Math.max(pause, 250 - (now - asked)));
    }
  }

  /** The stream has ended: play what is left, then look for the next one. Who comes after the end sees nothing of it. */
  async #untilOver() {
    const [, end] = this.timeline.window;
    this.over = this.place === null;
    const isLeft = () => this.video.currentTime < end - 0.5 && (this.#nextItem() !== null || this.#ahead() > 0.2);
    while (!this.abort.signal.aborted && !this.over && isLeft()) await sleep(500);
    this.over = true;
    this.player.onState("ended", "The stream has ended. If it returns, it begins here by itself.");
    while (!this.abort.signal.aborted) {
      await sleep(RETRY_MS);
      const answer = await fetch(this.player.url, { cache: "no-store" });
      if (!answer.ok) continue;
      const [variant] = readVariants(await answer.text(), answer.url);
      const media = variant && (await fetch(variant.url, { cache: "no-store" }));
      if (media?.ok && !readMedia(await media.text(), variant.url).ended) {
        this.player.atEdge = true;
        throw new Gone("a new stream");
      }
    }
  }

  /** What the relay writes into its event log: stalls, start, throughput (CTA-5004). */
  #told() {
    const status = this.stalled ? "bs" : "";
    this.stalled = false;
    const request = [this.throughput && `mtp=${this.throughput}`, !this.started && "su"].filter(Boolean).join(",");
    return { ...(status && { "CMCD-Status": status }), ...(request && { "CMCD-Request": request }) };
  }

  // -- media -------------------------------------------------------------------------------------------------------

  async #load() {
    const { signal } = this.abort;
    for (;;) {
      const item = this.#nextItem();
      if (signal.aborted) return;
      if (item === null) {
        await new Promise((resolve) => (this.wake = resolve));
        continue;
      }
      const { place } = this;
      this.loading = new AbortController();
      try {
        const bytes = await this.#bytesOf(item.url);
        if (item.segment.map !== this.map) await this.#begin(item.segment);
        await this.#append(bytes, item);
        if (this.place === place) this.place = item.next;
        this.#begun();
      } catch (error) {
        if (signal.aborted) return;
        // A seek ends a download that nobody needs any more.
        if (error.name !== "AbortError") throw error;
      }
    }
  }

  #nextItem() {
    const { timeline, video } = this;
    if (!timeline.playlist?.segments.length || this.over) return null;
    if (this.place === null) this.#start();
    if (this.#ahead() > AHEAD) return null;
    return video.error ? null : timeline.itemAt(this.place);
  }

  #ahead() {
    const { buffered, currentTime } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= currentTime + 0.1 && buffered.end(index) > currentTime) {
        return buffered.end(index) - currentTime;
      }
    }
    return 0;
  }

  #start() {
    const [begin, end] = this.timeline.window;
    this.target = Math.max(begin, end - this.timeline.holdBack);
    this.place = this.timeline.placeOf(this.target);
  }

  /** The first media is there: show it. */
  #begun() {
    const { video } = this;
    if (this.target === null || !video.buffered.length) return;
    const begin = video.buffered.start(0);
    const end = video.buffered.end(video.buffered.length - 1);
    if (this.target > end) return;
    video.currentTime = Math.max(begin, this.target);
    this.target = null;
    video.play().catch(() => this.player.onBlocked?.());
  }

  async #bytesOf(url) {
    const began = performance.now();
    const answer = await fetch(url, { signal: this.loading.signal });
    if (!answer.ok) throw new Gone(`media ${answer.status}`);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const seconds = (performance.now() - began) / 1000;
    // Parts that are awaited arrive as fast as they are made, which is no measure.
    if (bytes.length > 50_000) this.throughput = Math.round((bytes.length * 8) / 1000 / Math.max(seconds, 0.001) / 100) * 100;
    return bytes;
  }

  /** Another decoder configuration begins. */
  async #begin({ map }) {
    const bytes = await this.#bytesOf(map);
    this.scales = timescales(bytes);
    await this.#appended(bytes);
    this.map = map;
  }

  async #append(bytes, { segment, start }) {
    let offset = this.offsets.get(segment.domain);
    if (offset === undefined) {
      const time = firstDecodeTime(bytes, this.scales);
      offset = start - (time ?? start);
      this.offsets.set(segment.domain, offset);
    }
    if (this.buffer.timestampOffset !== offset) this.buffer.timestampOffset = offset;
    await this.#appended(bytes);
    const { currentTime } = this.video;
    if (this.buffer.buffered.length && this.buffer.buffered.start(0) < currentTime - 2 * BEHIND) {
      this.buffer.remove(0, currentTime - BEHIND);
      await event(this.buffer, "updateend");
    }
  }

  async #appended(bytes) {
    try {
      this.buffer.appendBuffer(bytes);
    } catch (error) {
      if (error.name !== "QuotaExceededError") throw error;
      this.buffer.remove(0, Math.max(0.1, this.video.currentTime - 1));
      await event(this.buffer, "updateend");
      this.buffer.appendBuffer(bytes);
    }
    await event(this.buffer, "updateend");
  }

  // -- time --------------------------------------------------------------------------------------------------------

  get latency() {
    if (this.edge === null || !this.started) return null;
    return Math.max(0, this.edge + performance.now() / 1000 - this.video.currentTime);
  }

  seek(time) {
    if (!this.timeline.playlist) return;
    const [begin, end] = this.timeline.window;
    const wanted = Math.min(Math.max(time, begin), Math.max(begin, end - this.timeline.holdBack));
    const { buffered } = this.video;
    for (let index = 0; index < buffered.length; index += 1) {
      if (buffered.start(index) <= wanted && wanted < buffered.end(index) - 0.3) {
        this.video.currentTime = wanted;
        this.#resume(buffered.end(index));
        return;
      }
    }
    this.place = this.timeline.placeOf(wanted);
    this.video.currentTime = wanted;
    this.loading?.abort();
    this.wake();
  }

  /** Go on loading where the buffered range ends. */
  #resume(end) {
    this.place = this.timeline.placeOf(Math.max(0, end - 0.05));
    this.loading?.abort();
    this.wake();
  }

  goLive() {
    if (!this.timeline.playlist) return;
    const [, end] = this.timeline.window;
    this.seek(end - this.timeline.holdBack);
    this.video.play().catch(() => {});
  }

  /** Keep near the live edge, over small holes, and tell how it goes. */
  #tick() {
    const { video, timeline, player } = this;
    if (video.error) return this.close();
    this.wake();
    if (!timeline.playlist) return;
    if (video.readyState >= HTMLMediaElement.HAVE_FUTURE_DATA && this.target === null) this.started = true;
    this.#skipHole();
    const [begin] = timeline.window;
    if (this.started && video.currentTime < begin - 1) this.seek(begin);
    if (player.atEdge && this.started && !video.paused && !timeline.playlist.ended) this.#keepUp();
    else video.playbackRate = 1;
    if (this.over || (timeline.playlist.ended && video.currentTime > timeline.window[1] - 0.6)) return;
    const silent = performance.now() - this.newAt > Math.max(SILENT_MS, timeline.playlist.target * 1000 + 1000);
    if (!this.started) player.onState("loading", "Loading…");
    else if (silent && this.#ahead() < 0.2) player.onState("waiting", "The publisher is away. It goes on by itself.");
    else player.onState("playing", "");
  }

  #skipHole() {
    const { video } = this;
    const { buffered, currentTime } = video;
    if (video.seeking || video.paused || this.#ahead() > 0.05) return;
    for (let index = 0; index < buffered.length; index += 1) {
      const start = buffered.start(index);
      if (start > currentTime && start < currentTime + 1) {
        video.currentTime = start + 0.01;
        return;
      }
    }
  }

  #keepUp() {
    const { video } = this;
    const late = (this.latency ?? 0) - this.timeline.holdBack;
    const ahead = this.#ahead();
    if (late > VERY_LATE && ahead > this.timeline.holdBack) {
      const { buffered } = video;
      video.currentTime = buffered.end(buffered.length - 1) - this.timeline.holdBack;
    } else if (late > LATE && ahead > this.timeline.holdBack / 2) video.playbackRate = late > 1 ? 1.1 : 1.04;
    else if (late < LATE / 2) video.playbackRate = 1;
  }
}
