// One stream.
import { copyButton, fromTemplate, setChips, setData, setHidden, setIcon, setOptional, setText, setTitle } from "./dom.js";
import * as format from "./format.js";
import { PlayersPanel } from "./players_panel.js";
import { Plot } from "./plot.js";
import { Preview } from "./preview.js";
import { Thumbnail } from "./thumbnails.js";

/** Platforms recommend a keyframe every 2 s, and accept up to 4 s. */
const LONG_KEYFRAME_INTERVAL = 4.5;

/** Below this share of the declared frame rate, frames are missing. */
const LOW_FRAME_RATE = 0.9;

const absolute = (path) => new URL(path.replace(/^\/+/, ""), document.baseURI).href;

export class StreamCard {
  /** @param page the page, for rtmpUrl, stateOf, confirm and control */
  constructor(key, series, page) {
    this.key = key;
    this.page = page;
    this.stream = null;
    const { root, parts } = fromTemplate("stream-card");
    this.root = root;
    this.parts = parts;
    root.dataset.key = key;
    this.plot = new Plot(parts.plot, series, `Bitrate of ${key}`);
    this.preview = new Preview(parts, () => absolute(this.stream.media.mp4));
    parts.preview.addEventListener("click", () => this.preview.toggle());
    parts.thumb.addEventListener("click", () => parts.preview.hidden || this.preview.toggle());
    this.players = new PlayersPanel(parts.playersBox, key, page);
    parts.playersButton.addEventListener("click", () => this.#togglePlayers());
    this.thumbnail = new Thumbnail(root, parts.thumb, () => this.#stillUrl());
    setText(parts.thumbWords, `Preview of ${key}`);
    parts.links.addEventListener("click", () => this.#toggleLinks());
    copyButton(parts.copyRtmp, () => parts.rtmpLink.textContent);
    copyButton(parts.copyPage, () => parts.pageLink.href);
    copyButton(parts.copyHls, () => parts.hlsLink.href);
    copyButton(parts.copyFlv, () => parts.flvLink.href);
    copyButton(parts.copyMp4, () => parts.mp4Link.href);
  }

  close() {
    this.preview.close();
    this.players.close();
    this.thumbnail.close();
    this.plot.close();
  }

  /** The address of the latest picture; null while there is none, or the preview shows more. */
  #stillUrl() {
    const shown = this.stream?.live && this.stream.video && !this.ended && !this.preview.isOpen;
    return shown ? absolute(this.stream.media.mp4.replace(/mp4$/, "still")) : null;
  }

  #togglePlayers() {
    this.players.toggle();
    this.parts.playersButton.setAttribute("aria-expanded", String(this.players.isOpen));
  }

  #toggleLinks() {
    const { linkBox, links } = this.parts;
    linkBox.hidden = !linkBox.hidden;
    links.setAttribute("aria-expanded", String(!linkBox.hidden));
  }

  /** @param ended when and why the stream ended, if it has: { at, words } */
  update({ stream, ended }) {
    const { parts } = this;
    this.stream = stream;
    this.ended = ended;
    setText(parts.app, stream.app ? `${stream.app}/` : "");
    setText(parts.name, stream.name);
    setTitle(parts.title, this.key);
    this.#updateBadge(stream, ended);
    const media = [format.videoWords(stream.video), format.audioWords(stream.audio)].filter(Boolean);
    setText(parts.media, media.join(" · ") || (stream.live ? "No media yet" : "No publisher"));
    const [rate, unit] = format.bitrateParts(stream.live && !ended ? stream.bitrate_kbps : null);
    setText(parts.rate, rate);
    setText(parts.unit, unit);
    const active = stream.live && !ended;
    const quiet = !active && !this.plot.hasData;
    setData(this.root, "quiet", quiet ? "yes" : "no");
    for (const part of [parts.rateBox, parts.plot, parts.facts]) setHidden(part, quiet);
    // A sum without one of its parts would look like the whole.
    const all = [stream.video, stream.audio].filter(Boolean).map((media) => media.declared_bitrate_kbps);
    const declared = all.every(Boolean) ? all.reduce((sum, kbps) => sum + kbps, 0) : 0;
    setOptional(parts.declared, declared ? `declared ${format.bitrate(declared)}` : null);
    this.#updateFacts(stream);
    this.#updateRecording(stream.recording);
    setHidden(parts.destinations, !stream.destinations?.length);
    setChips(parts.destinations, (stream.destinations ?? []).map((name) => this.#destinationChip(name)));
    this.#updateLinks(stream);
    this.updateControls();
    if (ended && this.preview.isOpen) this.preview.close();
    setHidden(parts.preview, Boolean(ended) || !stream.live);
    const watched = !ended && stream.players > 0;
    if (!watched && this.players.isOpen && ended) this.#togglePlayers();
    setHidden(parts.playersButton, !watched && !this.players.isOpen);
    setText(parts.playersButton.querySelector("span"), format.counted(stream.players, "player"));
  }

  #updateBadge(stream, ended) {
    const { parts } = this;
    const state = ended ? "ended" : stream.live ? "live" : "waiting";
    setData(this.root, "state", state);
    setData(parts.badge, "state", state);
    setIcon(parts.badgeIcon, state);
    setText(parts.badgeWord, { ended: "Ended", live: "Live", waiting: "Waiting" }[state]);
    setText(parts.duration, state === "live" ? format.duration(stream.duration) : "");
    setTitle(parts.badge, state === "live" ? `Since ${format.clock(stream.started_at)}` : "");
    const words = ended
      ? `Ended at ${format.clock(ended.at)}. ${ended.words}`
      : state === "waiting"
        ? `${format.counted(stream.players, "player waits", "players wait")} for a publisher.`
        : null;
    setOptional(parts.note, words);
    setHidden(parts.dismiss, !ended);
  }

  #updateFacts(stream) {
    const { parts } = this;
    const declared = stream.video?.fps;
    const measured = stream.fps;
    const fps = measured === null ? format.NOTHING : `${format.frameRate(measured)} fps`;
    setText(parts.fps, stream.video ? fps : "no video");
    const low = declared && measured !== null && measured < declared * LOW_FRAME_RATE;
    setOptional(parts.fpsNote, declared ? `${low ? "low: " : ""}${format.frameRate(declared)} declared` : null);
    setData(parts.fpsNote, "level", low ? "warn" : "");
    setText(parts.keyframes, stream.keyframe_interval === null ? format.NOTHING : format.seconds(stream.keyframe_interval));
    const long = stream.keyframe_interval > LONG_KEYFRAME_INTERVAL;
    const gop = stream.gop_seconds === null ? null : `GOP now ${format.seconds(stream.gop_seconds)}`;
    setOptional(parts.keyframesNote, long ? "long: platforms recommend 2 s" : gop);
    setData(parts.keyframesNote, "level", long ? "warn" : "");
    setText(parts.players, format.count(stream.players));
    setOptional(parts.playersNote, stream.bytes_out ? `${format.bytes(stream.bytes_out)} sent` : null);
    setText(parts.received, format.bytes(stream.bytes_in));
    setOptional(parts.receivedNote, stream.publisher ? `from ${stream.publisher.address}` : null);
    setText(parts.dropped, format.lost(stream.messages_dropped, this.page.messageRate([this.key])));
    setTitle(parts.dropped, `${format.counted(stream.messages_dropped, "message")}, of all players together`);
    setOptional(parts.droppedNote, format.lossWords(stream.dropped_by_reason) || null);
    setData(parts.droppedNote, "level", stream.messages_dropped ? "warn" : "");
  }

  #updateRecording(recording) {
    const { parts } = this;
    const state = recording?.state ?? "off";
    const words = { recording: "Recording", waiting: "Waiting", failing: "Failing", off: "Off" };
    setText(parts.recording, words[state] ?? state);
    setData(parts.recording, "state", state);
    const file = recording?.path ? `${format.duration(recording.duration)} · ${format.bytes(recording.bytes)}` : null;
    const failing = state === "failing";
    setOptional(parts.recordingNote, failing ? format.sentence(recording.last_error ?? "it cannot be written") : file);
    setData(parts.recordingNote, "level", failing ? "bad" : "");
    setTitle(parts.recordingNote, recording?.path ?? "");
  }

  #destinationChip(name) {
    const { state, words } = this.page.stateOf(name);
    return [name, state, `${name}: ${words}`];
  }

  #updateLinks(stream) {
    const { parts } = this;
    const rtmp = this.page.rtmpUrl(stream.app, stream.name);
    const addresses = [
      [parts.rtmpLink, rtmp, rtmp],
      [parts.pageLink, absolute(stream.media.page ?? "")],
      [parts.hlsLink, absolute(stream.media.hls ?? "")],
      [parts.flvLink, absolute(stream.media.flv)],
      [parts.mp4Link, absolute(stream.media.mp4)],
    ];
    setHidden(parts.pageLine, !stream.media.page);
    setHidden(parts.hlsLine, !stream.media.hls);
    for (const [link, address] of addresses) {
      setText(link, address);
      if (link.getAttribute("href") !== address) link.setAttribute("href", address);
    }
  }

  /** Adds the buttons that change something once the page is unlocked. */
  updateControls() {
    const shown = this.page.control.unlocked && this.stream.live && this.stream.publisher !== null;
    const { actions } = this.parts;
    if (!shown) {
      this.kickButton?.remove();
      this.recordButton?.remove();
      return;
    }
    if (!this.kickButton?.isConnected) {
      actions.append((this.recordButton ??= this.#makeRecordButton()), (this.kickButton ??= this.#makeKickButton()));
    }
    const recorded = this.stream.recording !== null;
    setText(this.recordButton.querySelector("span"), recorded ? "Stop recording" : "Record");
    setIcon(this.recordButton.querySelector("svg"), recorded ? "stop" : "record");
  }

  #makeRecordButton() {
    const { root } = fromTemplate("record-button");
    root.addEventListener("click", async () => {
      root.disabled = true;
      setText(this.parts.message, "");
      try {
        await this.page.control.record(this.key, this.stream.recording === null);
      } catch (error) {
        setText(this.parts.message, error.message);
      } finally {
        root.disabled = false;
      }
    });
    return root;
  }

  #makeKickButton() {
    const { root } = fromTemplate("kick-button");
    root.addEventListener("click", () =>
      this.page.confirm({
        title: "Disconnect the publisher?",
        words: `The encoder of ${this.key} is disconnected, and its viewers lose the picture. Most encoders reconnect by themselves after a few seconds.`,
        action: "Disconnect",
        run: () => this.page.control.kick(this.key),
      }),
    );
    return root;
  }
}
