// Finds boxes in an MP4.

const text = (bytes, at) => String.fromCharCode(...bytes.subarray(at, at + 4));

/** The boxes of a range: [type, begin of content, end]. Stops at an incomplete one. */
export function* boxes(bytes, begin, end) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = begin;
  while (at + 8 <= end) {
    let size = view.getUint32(at);
    let content = at + 8;
    if (size === 1 && at + 16 <= end) {
      size = Number(view.getBigUint64(at + 8));
      content = at + 16;
    }
    if (size < content - at || at + size > end) return;
    yield [text(bytes, at + 4), content, at + size];
    at += size;
  }
}

/** Where the content of the first box on a path of types begins and ends; null if there is none. */
export function find(bytes, begin, end, ...path) {
  const [wanted, ...rest] = path;
  for (const [type, from, to] of boxes(bytes, begin, end)) {
    if (type === wanted) return rest.length ? find(bytes, from, to, ...rest) : [from, to];
  }
  return null;
}
