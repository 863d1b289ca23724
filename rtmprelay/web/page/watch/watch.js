// The page on which people watch a stream.
import { HlsPlayer, canPlayParts } from "./hls_player.js";
import { NativePlayer } from "./native_player.js";

const part = (id) => document.getElementById(id);
const video = part("video");
const stage = part("stage");
const notice = part("notice");
const status = part("status");
const seek = part("seek");

const UPDATE_MS = 250;
const STEP = 5;

/** The stream is named by the address of the page: /APP/NAME/. */
const root = new URL("..", import.meta.url).pathname;
const name = decodeURIComponent(location.pathname.slice(root.length).replace(/\/+$/, ""));
part("name").textContent = name.split("/").at(-1);
document.title = name;

let state = "loading";
let dragging = false;

const WORDS = {
  loading: "Loading…",
  playing: "Live",
  waiting: "Waiting",
  offline: "Not live",
  ended: "Ended",
  failed: "Cannot be played",
};

function onState(next, words) {
  state = next;
  if (status.dataset.state !== next) {
    status.dataset.state = next;
    status.textContent = WORDS[next];
  }
  // A viewer of an older part need not know that nothing new comes.
  const shown = next !== "playing" && next !== "loading" && words;
  notice.hidden = !shown;
  if (shown && notice.textContent !== words) notice.textContent = words;
}

const url = new URL(`index.m3u8${location.search}`, location.href).href;
const Player = canPlayParts || !video.canPlayType("application/vnd.apple.mpegurl") ? HlsPlayer : NativePlayer;
const player = new Player(video, url, onState);

// Browsers let a page begin with sound only if people have used it before.
player.onBlocked = () => {
  video.muted = true;
  part("unmute").hidden = false;
  video.play().catch(() => {});
};

// -- controls ------------------------------------------------------------------------------------------------------

const icon = (button, symbol) => button.querySelector("use").setAttribute("href", `#icon-${symbol}`);

function togglePlay() {
  if (video.paused) {
    video.play().catch(() => {});
  } else {
    video.pause();
    player.atEdge = false;
  }
}

function toggleMute() {
  video.muted = !video.muted;
  part("unmute").hidden = true;
}

function toggleFull() {
  if (document.fullscreenElement) document.exitFullscreen();
  else if (stage.requestFullscreen) stage.requestFullscreen();
  // A phone of Apple shows only the video itself in full screen.
  else video.webkitEnterFullscreen?.();
}

part("play").addEventListener("click", togglePlay);
part("mute").addEventListener("click", toggleMute);
part("unmute").addEventListener("click", toggleMute);
part("full").addEventListener("click", toggleFull);
part("live").addEventListener("click", () => player.goLive());
video.addEventListener("click", togglePlay);
seek.addEventListener("pointerdown", () => (dragging = true));
seek.addEventListener("pointerup", () => (dragging = false));
seek.addEventListener("change", () => {
  dragging = false;
  const [, end] = player.window ?? [0, 0];
  const time = Number(seek.value);
  if (time > end - 3) player.goLive();
  else player.seek(time);
});
part("quality").addEventListener("change", (change) => player.choose(Number(change.target.value)));

document.addEventListener("keydown", (key) => {
  if (key.ctrlKey || key.metaKey || key.altKey || /^(INPUT|SELECT|BUTTON)$/.test(key.target.tagName)) return;
  const actions = {
    " ": togglePlay,
    m: toggleMute,
    f: toggleFull,
    l: () => player.goLive(),
    ArrowLeft: () => player.seek(video.currentTime - STEP),
    ArrowRight: () => player.seek(video.currentTime + STEP),
  };
  const action = actions[key.key];
  if (!action) return;
  key.preventDefault();
  action();
});

function showQualities() {
  const quality = part("quality");
  const { variants } = player;
  quality.hidden = variants.length < 2;
  if (quality.hidden || quality.options.length === variants.length) return;
  quality.replaceChildren(
    ...variants.map(({ height, bandwidth }, index) => {
      const rate = `${(bandwidth / 1e6).toFixed(1)} Mbit/s`;
      return new Option(height ? `${height}p · ${rate}` : rate, String(index));
    }),
  );
}

function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [minutes, rest] = [Math.floor(whole / 60), String(whole % 60).padStart(2, "0")];
  return `${minutes}:${rest}`;
}

function update() {
  icon(part("play"), video.paused ? "play" : "pause");
  part("play").setAttribute("aria-label", video.paused ? "Play" : "Pause");
  icon(part("mute"), video.muted ? "muted" : "sound");
  part("mute").setAttribute("aria-label", video.muted ? "Unmute" : "Mute");
  showQualities();
  const range = player.window;
  const { latency } = player;
  const live = part("live");
  seek.disabled = live.disabled = range === null;
  const atEdge = player.atEdge && state === "playing" && latency !== null;
  live.dataset.at = atEdge ? "edge" : "behind";
  const behind = latency === null ? "Live" : player.atEdge ? `Live · ${latency.toFixed(1)} s` : `−${clock(latency)}`;
  part("latency").textContent = behind;
  if (range === null || dragging) return;
  [seek.min, seek.max] = range;
  seek.value = video.currentTime;
  seek.setAttribute("aria-valuetext", player.atEdge ? "live" : `${clock(latency ?? 0)} behind live`);
}

setInterval(update, UPDATE_MS);
update();
player.run();
