// Plays HLS with what the browser has itself, where it has no Media Source Extensions.

const RETRY_MS = 3000;

/** Has the same members as `HlsPlayer`, as far as a browser's own player can have them. */
export class NativePlayer {
  constructor(video, url, onState) {
    this.video = video;
    this.url = url;
    this.onState = onState;
    this.variants = [];
    this.atEdge = true;
    this.timer = null;
    video.addEventListener("playing", () => onState("playing", ""));
    video.addEventListener("waiting", () => onState("waiting", "Waiting for the stream…"));
    video.addEventListener("ended", () => this.#again("ended", "The stream has ended. If it returns, it begins here by itself."));
    video.addEventListener("error", () => this.#again("offline", "This stream is not live now. It begins here by itself."));
  }

  run() {
    this.video.src = this.url;
    this.video.play().catch(() => this.onBlocked?.());
  }

  #again(state, words) {
    this.onState(state, words);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.run(), RETRY_MS);
  }

  stop() {
    clearTimeout(this.timer);
    this.video.removeAttribute("src");
    this.video.load();
  }

  choose() {}

  get window() {
    const { seekable } = this.video;
    return seekable.length ? [seekable.start(0), seekable.end(seekable.length - 1)] : null;
  }

  get latency() {
    const range = this.window;
    return range && Math.max(0, range[1] - this.video.currentTime);
  }

  seek(time) {
    this.atEdge = false;
    this.video.currentTime = time;
  }

  goLive() {
    this.atEdge = true;
    const range = this.window;
    if (range) this.video.currentTime = range[1];
    this.video.play().catch(() => {});
  }
}
