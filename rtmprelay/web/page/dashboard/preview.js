// The preview of a stream on its card.
import { setData, setIcon, setText } from "./dom.js";
import { sentence } from "./format.js";
import { distance, playLive } from "./live_video.js";

/** A browser opens at most six connections to a server, and the page needs some itself. */
const MAX_OPEN = 3;

const RETRY_MS = [500, 1000, 2000, 4000];

const open = [];

export class Preview {
  /** @param parts the card's: previewBox, previewVideo, previewNote, previewInfo, preview (the button) */
  constructor(parts, url) {
    this.parts = parts;
    this.url = url;
    this.abort = null;
    this.onVisibility = () => this.#visibilityChanged();
  }

  get isOpen() {
    return !this.parts.previewBox.hidden;
  }

  toggle() {
    if (this.isOpen) this.close();
    else this.open();
  }

  open() {
    const { previewBox, preview } = this.parts;
    if (open.length >= MAX_OPEN) open[0].close();
    open.push(this);
    previewBox.hidden = false;
    preview.setAttribute("aria-expanded", "true");
    this.#label("Close", "close");
    document.addEventListener("visibilitychange", this.onVisibility);
    this.#start();
  }

  close() {
    if (!this.isOpen) return;
    const { previewBox, preview } = this.parts;
    open.splice(open.indexOf(this), 1);
    document.removeEventListener("visibilitychange", this.onVisibility);
    this.#stop();
    previewBox.hidden = true;
    preview.setAttribute("aria-expanded", "false");
    this.#label("Preview", "play");
  }

  #label(words, icon) {
    setText(this.parts.preview.querySelector("span"), words);
    setIcon(this.parts.preview.querySelector("svg"), icon);
  }

  #visibilityChanged() {
    if (document.hidden) {
      this.#stop();
      this.#note("Paused while this page is hidden.", "quiet");
    } else {
      this.#start();
    }
  }

  #stop() {
    this.abort?.abort();
    this.abort = null;
    setText(this.parts.previewInfo, "");
  }

  #note(words, kind) {
    setText(this.parts.previewNote, words);
    setData(this.parts.previewBox, "kind", kind);
  }

  /** Plays, and starts again after interruptions, until the preview is closed. */
  async #start() {
    this.#stop();
    const abort = new AbortController();
    this.abort = abort;
    for (let failures = 0; !abort.signal.aborted; failures += 1) {
      this.#note("Loading…", "quiet");
      const begun = Date.now();
      let words = "The stream has ended. Waiting for it to return…";
      try {
        await playLive(this.parts.previewVideo, this.url(), abort.signal, () => this.#progress());
      } catch (error) {
        words = sentence(error.message);
        if (!error.retry) {
          if (!abort.signal.aborted) this.#note(`${words} VLC or ffplay can, with a link from “Links”.`, "error");
          return;
        }
      }
      if (abort.signal.aborted) return;
      if (Date.now() - begun > 10_000) failures = 0;
      this.#note(words, "quiet");
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS[Math.min(failures, RETRY_MS.length - 1)]));
    }
  }

  #progress() {
    const { previewVideo: video, previewInfo } = this.parts;
    if (video.readyState < HTMLMediaElement.HAVE_CURRENT_DATA) return;
    this.#note("", "playing");
    const behind = distance(video).toFixed(1);
    const size = video.videoWidth ? `${video.videoWidth}×${video.videoHeight} · ` : "";
    setText(previewInfo, video.paused ? `${size}paused` : `${size}${behind} s buffered`);
  }
}
