// Reads the header of an MP4 for what a browser needs before it plays: the codecs, and where the header ends.

import { boxes, find } from "./mp4_boxes.js";

const hex = (value, digits = 2) => value.toString(16).padStart(digits, "0");

/** "avc1.64001f": profile, constraints and level, the first bytes of the configuration. */
function avc(type, bytes, from) {
  return `${type}.${hex(bytes[from + 1])}${hex(bytes[from + 2])}${hex(bytes[from + 3])}`;
}

/** "hvc1.1.6.L93.b0", as ISO/IEC 14496-15 annex E.3 writes it. */
function hevc(type, bytes, from) {
  const space = ["", "A", "B", "C"][bytes[from + 1] >> 6];
  const tier = bytes[from + 1] & 0x20 ? "H" : "L";
  const view = new DataView(bytes.buffer, bytes.byteOffset + from);
  let flags = view.getUint32(2);
  let reversed = 0;
  for (let bit = 0; bit < 32; bit += 1) {
    reversed = ((reversed << 1) | (flags & 1)) >>> 0;
    flags >>>= 1;
  }
  const constraints = [...bytes.subarray(from + 6, from + 12)];
  while (constraints.length && constraints.at(-1) === 0) constraints.pop();
  const level = bytes[from + 12];
  const profile = `${space}${bytes[from + 1] & 0x1f}`;
  return [type, profile, reversed.toString(16), `${tier}${level}`, ...constraints.map((value) => value.toString(16))].join(".");
}

/** "av01.0.08M.08". */
function av1(bytes, from) {
  const profile = bytes[from + 1] >> 5;
  const level = bytes[from + 1] & 0x1f;
  const tier = bytes[from + 2] & 0x80 ? "H" : "M";
  const highDepth = bytes[from + 2] & 0x40;
  const twelve = bytes[from + 2] & 0x20;
  const depth = highDepth ? (profile === 2 && twelve ? 12 : 10) : 8;
  return `av01.${profile}.${String(level).padStart(2, "0")}${tier}.${String(depth).padStart(2, "0")}`;
}

/** "vp09.00.31.08". */
function vp9(bytes, from) {
  const [profile, level, depth] = [bytes[from + 4], bytes[from + 5], bytes[from + 6] >> 4];
  return `vp09.${[profile, level, depth].map((value) => String(value).padStart(2, "0")).join(".")}`;
}

/** "mp4a.40.2": the object type of the stream, then that of its AAC. */
function mp4a(bytes, from, to) {
  let at = from + 4;
  const header = () => {
    const tag = bytes[at];
    at += 1;
    let size = 0;
    let byte;
    do {
      byte = bytes[at];
      at += 1;
      size = (size << 7) | (byte & 0x7f);
    } while (byte & 0x80 && at < to);
    return [tag, size];
  };
  let kind = null;
  while (at < to) {
    const [tag, size] = header();
    if (tag === 3) {
      const flags = bytes[at + 2];
      at += 3 + (flags & 0x80 ? 2 : 0) + (flags & 0x20 ? 2 : 0);
    } else if (tag === 4) {
      kind = bytes[at];
      at += 13;
    } else if (tag === 5 && kind === 0x40) {
      const first = bytes[at] >> 3;
      const object = first === 31 ? 32 + (((bytes[at] & 7) << 3) | (bytes[at + 1] >> 5)) : first;
      return `mp4a.40.${object}`;
    } else {
      at += size;
    }
  }
  return kind === null ? "mp4a.40.2" : `mp4a.${hex(kind)}`;
}

/** Bytes of a sample entry before the boxes in it. */
const VIDEO_ENTRY = 78;
const AUDIO_ENTRY = 28;

const SIMPLE = { Opus: "opus", fLaC: "flac", "ac-3": "ac-3", "ec-3": "ec-3", ".mp3": "mp3" };

function codecOf(bytes, type, from, to) {
  const inside = (box, skip) => find(bytes, from + skip, to, box);
  if (type === "avc1" || type === "avc3") return avc(type, bytes, inside("avcC", VIDEO_ENTRY)[0]);
  if (type === "hvc1" || type === "hev1") return hevc(type, bytes, inside("hvcC", VIDEO_ENTRY)[0]);
  if (type === "av01") return av1(bytes, inside("av1C", VIDEO_ENTRY)[0]);
  if (type === "vp09") return vp9(bytes, inside("vpcC", VIDEO_ENTRY)[0]);
  if (type === "mp4a") return mp4a(bytes, ...inside("esds", AUDIO_ENTRY));
  return SIMPLE[type] ?? type;
}

/**
 * The header at the beginning of an MP4, or null if it is not complete yet:
 * { length, codecs }, with codecs in the form of `MediaSource.isTypeSupported`.
 */
export function readHeader(bytes) {
  for (const [type, from, to] of boxes(bytes, 0, bytes.length)) {
    if (type !== "moov") continue;
    const codecs = [];
    for (const [name, begin, end] of boxes(bytes, from, to)) {
      if (name !== "trak") continue;
      const samples = find(bytes, begin, end, "mdia", "minf", "stbl", "stsd");
      if (samples === null) continue;
      const [entry] = boxes(bytes, samples[0] + 8, samples[1]);
      if (entry) codecs.push(codecOf(bytes, ...entry));
    }
    return { length: to, codecs };
  }
  return null;
}
