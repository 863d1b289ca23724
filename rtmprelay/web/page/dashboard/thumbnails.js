// Small pictures of the streams. The relay sends the latest keyframe as it is, and the browser decodes it: one stream at
// a time, only for cards that can be seen, and none while the page is hidden.

/** Milliseconds for which a picture is good, and between looks for one that is not. */
const GOOD_FOR_MS = 30_000;
const LOOK_EVERY_MS = 1500;

/** Milliseconds that loading and decoding may take each, and failures in a row after which a stream is left alone. */
const DECODE_MS = 5000;
const MOST_FAILURES = 3;

const visible = new Set();
const byElement = new WeakMap();

const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const thumbnail = byElement.get(entry.target);
    if (entry.isIntersecting) visible.add(thumbnail);
    else visible.delete(thumbnail);
  }
});

/** The first picture of an MP4, as a video element that shows it. */
async function decoded(blob) {
  const video = document.createElement("video");
  const address = URL.createObjectURL(blob);
  video.muted = true;
  video.preload = "auto";
  try {
    await new Promise((resolve, reject) => {
      video.addEventListener("loadeddata", resolve, { once: true });
      video.addEventListener("error", () => reject(new Error("this browser does not know the codec")), { once: true });
      setTimeout(() => reject(new Error("it takes too long")), DECODE_MS);
      video.src = address;
    });
    return await createImageBitmap(video);
  } finally {
    video.removeAttribute("src");
    video.load();
    URL.revokeObjectURL(address);
  }
}

export class Thumbnail {
  /** @param button the element with the canvas; `url` returns the address of the picture, or null while there is none */
  constructor(card, button, url) {
    this.card = card;
    this.button = button;
    this.canvas = button.querySelector("canvas");
    this.url = url;
    this.dueAt = 0;
    this.failures = 0;
    byElement.set(card, this);
    watcher.observe(card);
  }

  close() {
    watcher.unobserve(this.card);
    visible.delete(this);
  }

  async refresh() {
    this.dueAt = Date.now() + GOOD_FOR_MS;
    const url = this.url();
    if (url === null || this.failures >= MOST_FAILURES) return;
    try {
      const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(DECODE_MS) });
      // There is no picture yet.
      if (answer.status === 204) this.dueAt = Date.now() + GOOD_FOR_MS / 6;
      else if (answer.ok) await this.#draw(await answer.blob());
      // Those who may not play the stream get no picture of it either.
      else if (answer.status === 401 || answer.status === 403) this.failures = MOST_FAILURES;
    } catch {
      this.failures += 1;
    }
  }

  async #draw(blob) {
    const picture = await decoded(blob);
    const { canvas } = this;
    canvas.width = 320;
    canvas.height = Math.max(1, Math.round((320 * picture.height) / picture.width));
    canvas.getContext("2d").drawImage(picture, 0, 0, canvas.width, canvas.height);
    picture.close();
    this.failures = 0;
    this.button.hidden = false;
  }
}

/** The pictures that are to be loaded at a time, the oldest first. */
export function due(now) {
  if (document.hidden) return [];
  return [...visible].filter((one) => one.dueAt <= now).sort((one, other) => one.dueAt - other.dueAt);
}

let working = false;

setInterval(async () => {
  const [next] = working ? [] : due(Date.now());
  if (!next) return;
  working = true;
  await next.refresh();
  working = false;
}, LOOK_EVERY_MS);
