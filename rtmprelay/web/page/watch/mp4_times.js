// Reads times in fragmented MP4: the ticks a second of each track, and when a fragment begins.

import { boxes, find } from "./mp4_boxes.js";

/** Ticks a second by the number of the track. */
export function timescales(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const found = new Map();
  const moov = find(bytes, 0, bytes.length, "moov");
  if (!moov) return found;
  for (const [type, from, to] of boxes(bytes, ...moov)) {
    const track = type === "trak" && find(bytes, from, to, "tkhd");
    const media = type === "trak" && find(bytes, from, to, "mdia", "mdhd");
    if (!track || !media) continue;
    // Version 1 has longer times before the fields.
    const long = bytes[track[0]] === 1;
    found.set(view.getUint32(track[0] + (long ? 20 : 12)), view.getUint32(media[0] + (bytes[media[0]] === 1 ? 20 : 12)));
  }
  return found;
}

/** The decode time at which the first fragment begins, in seconds; null if there is none. */
export function firstDecodeTime(bytes, scales) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const moof = find(bytes, 0, bytes.length, "moof");
  if (!moof) return null;
  let earliest = null;
  for (const [type, from, to] of boxes(bytes, ...moof)) {
    const header = type === "traf" && find(bytes, from, to, "tfhd");
    const time = type === "traf" && find(bytes, from, to, "tfdt");
    if (!header || !time) continue;
    const scale = scales.get(view.getUint32(header[0] + 4));
    const ticks = bytes[time[0]] === 1 ? Number(view.getBigUint64(time[0] + 4)) : view.getUint32(time[0] + 4);
    const seconds = scale ? ticks / scale : null;
    if (seconds !== null && (earliest === null || seconds < earliest)) earliest = seconds;
  }
  return earliest;
}
