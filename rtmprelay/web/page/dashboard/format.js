// Formats numbers, times and words for people. All functions are pure.

export const NOTHING = "–";

const GROUPED = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** Three significant figures: 0.84, 6.12, 61.2, 612. */
function threeFigures(value) {
  const decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return value.toFixed(decimals);
}

/** The number and the unit of a rate, which are shown in different sizes. */
export function bitrateParts(kbps) {
  if (!isNumber(kbps)) return [NOTHING, ""];
  if (kbps < 999.5) return [kbps < 9.95 && kbps > 0 ? kbps.toFixed(1) : kbps.toFixed(0), "kbit/s"];
  if (kbps < 999_500) return [threeFigures(kbps / 1000), "Mbit/s"];
  return [threeFigures(kbps / 1_000_000), "Gbit/s"];
}

export function bitrate(kbps) {
  return bitrateParts(kbps).join(" ").trim();
}

export function bytes(count) {
  if (!isNumber(count)) return NOTHING;
  const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
  let unit = 0;
  while (count >= 999.5 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return `${unit === 0 ? count.toFixed(0) : threeFigures(count)} ${units[unit]}`;
}

export function count(value) {
  return isNumber(value) ? GROUPED.format(value) : NOTHING;
}

/** "1 player", "2 players". */
export function counted(value, one, many = `${one}s`) {
  return `${count(value)} ${value === 1 ? one : many}`;
}

const two = (value) => String(value).padStart(2, "0");

/** 0:42, 12:05, 1:02:33, 2 d 03:04:05. */
export function duration(seconds) {
  if (!isNumber(seconds) || seconds < 0) return NOTHING;
  const whole = Math.floor(seconds);
  const [days, hours, minutes, rest] = [
    Math.floor(whole / 86400),
    Math.floor(whole / 3600) % 24,
    Math.floor(whole / 60) % 60,
    whole % 60,
  ];
  if (days) return `${count(days)} d ${two(hours)}:${two(minutes)}:${two(rest)}`;
  if (hours) return `${hours}:${two(minutes)}:${two(rest)}`;
  return `${minutes}:${two(rest)}`;
}

/** A length of time for a sentence: "4 s", "1 min 05 s", "2 h 10 min". */
export function span(seconds) {
  if (!isNumber(seconds)) return NOTHING;
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${two(Math.floor(whole / 60) % 60)} min`;
  return `${Math.floor(whole / 86400)} days`;
}

/** Seconds with one decimal: "2.0 s". */
export function seconds(value) {
  return isNumber(value) ? `${value.toFixed(value < 99.95 ? 1 : 0)} s` : NOTHING;
}

/** The time of day, with the date unless it is today. `time` is any argument of Date. */
export function clock(time, now = Date.now()) {
  const date = new Date(time);
  if (time === null || time === undefined || Number.isNaN(date.getTime())) return NOTHING;
  const sameDay = date.toDateString() === new Date(now).toDateString();
  return sameDay ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

/** Frames per second, without trailing zeros: 25, 29.97, 59.9. */
export function frameRate(value) {
  return isNumber(value) ? String(Number(value.toFixed(value < 100 ? 2 : 0))) : NOTHING;
}

const SHORT_CODECS = { "H.264 AVC": "H.264", "H.265 HEVC": "H.265", "H.266 VVC": "H.266" };

const shortCodec = (name) => SHORT_CODECS[name] ?? name;

function channels(number) {
  const names = { 1: "mono", 2: "stereo", 6: "5.1", 8: "7.1" };
  return names[number] ?? `${number} channels`;
}

/** Such as "H.264 1920×1080": only what is known. */
export function videoWords(video) {
  if (!video) return null;
  const size = video.width && video.height ? `${video.width}×${video.height}` : null;
  return [video.codec ? shortCodec(video.codec) : "Video", size].filter(Boolean).join(" ");
}

export function audioWords(audio) {
  if (!audio) return null;
  const rate = isNumber(audio.sample_rate) ? `${Number((audio.sample_rate / 1000).toFixed(2))} kHz` : null;
  return [audio.codec ?? "Audio", rate, isNumber(audio.channels) ? channels(audio.channels) : null]
    .filter(Boolean)
    .join(" ");
}

const DROP_REASONS = {
  queue_full: "receiver too slow",
  waiting_for_keyframe: "waiting for a keyframe",
  paused: "paused by the player",
  not_wanted: "not wanted by the player",
  not_connected: "not connected",
  closed: "connection closed",
  too_large: "too large",
};

/** How much was dropped and why, largest first: "180 receiver too slow, 34 not connected". */
export function dropWords(byReason) {
  return Object.entries(byReason ?? {})
    .filter(([, number]) => number > 0)
    .sort((one, other) => other[1] - one[1])
    .map(([reason, number]) => `${count(number)} ${DROP_REASONS[reason] ?? reason.replaceAll("_", " ")}`)
    .join(", ");
}

/** What was lost as time, which says more than messages: "1 min 05 s"; messages where their rate is not known. */
export function lost(messages, perSecond) {
  if (!isNumber(messages)) return NOTHING;
  if (messages === 0) return "0";
  if (!perSecond) return counted(messages, "frame");
  const time = messages / perSecond;
  return time < 9.95 ? `${Math.max(0.1, time).toFixed(1)} s` : span(time);
}

/** Each reason for a loss, largest first: "receiver too slow", or with the number of messages of each if there are several. */
export function lossWords(byReason) {
  const reasons = Object.entries(byReason ?? {}).filter(([, number]) => number > 0);
  return reasons.length === 1 ? DROP_REASONS[reasons[0][0]] ?? reasons[0][0].replaceAll("_", " ") : dropWords(byReason);
}

/** Makes words a sentence: with a capital letter and a full stop. */
export function sentence(words) {
  const text = String(words ?? "").trim();
  if (!text) return "";
  const [first] = text;
  // The name of the program is always lower case.
  const begun = text.startsWith("rtmprelay") ? text : first.toUpperCase() + text.slice(first.length);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
