// Reads HLS playlists, as far as this relay writes them.

function attributes(text) {
  const found = {};
  for (const [, name, quoted, plain] of text.matchAll(/([A-Z0-9-]+)=(?:"([^"]*)"|([^,]*))/g)) {
    found[name] = quoted ?? plain;
  }
  return found;
}

function* linesOf(text) {
  for (const line of text.split(/\r?\n/)) {
    const [, tag, rest] = /^#(EXT[A-Z0-9-]*)(?::(.*))?$/.exec(line) ?? [];
    if (tag) yield [tag, rest ?? ""];
    else if (line && !line.startsWith("#")) yield ["URI", line];
  }
}

/** The variants of a multivariant playlist, the best first: [{ url, bandwidth, codecs, height }]. */
export function readVariants(text, base) {
  const variants = [];
  let next = null;
  for (const [tag, rest] of linesOf(text)) {
    if (tag === "EXT-X-STREAM-INF") next = attributes(rest);
    else if (tag === "URI" && next) {
      variants.push({
        url: new URL(rest, base).href,
        bandwidth: Number(next.BANDWIDTH) || 0,
        codecs: next.CODECS ?? "",
        height: Number((next.RESOLUTION ?? "").split("x")[1]) || 0,
      });
      next = null;
    }
  }
  return variants.sort((one, other) => other.bandwidth - one.bandwidth);
}

/**
 * A media playlist: { target, partTarget, holdBack, canBlock, canSkip, ended, segments }. Each segment has
 * { number, domain, duration, url, map, parts, complete }; a domain ends where there is a discontinuity.
 * A delta update leaves segments out, which are those of the playlist before. Returns null if that one has not all of them.
 */
export function readMedia(text, base, before = null) {
  const playlist = { target: 2, partTarget: 0, holdBack: 0, canBlock: false, canSkip: false, ended: false, segments: [] };
  const absolute = (uri) => new URL(uri, base).href;
  let number = 0;
  let domain = 0;
  let map = null;
  let parts = [];
  let duration = null;
  const segment = (url) => {
    const known = parts.reduce((sum, part) => sum + part.duration, 0);
    playlist.segments.push({ number, domain, map, parts, url, complete: url !== null, duration: duration ?? known });
    number += 1;
    parts = [];
    duration = null;
  };
  for (const [tag, rest] of linesOf(text)) {
    const named = attributes(rest);
    if (tag === "EXT-X-TARGETDURATION") playlist.target = Number(rest);
    else if (tag === "EXT-X-MEDIA-SEQUENCE") number = Number(rest);
    else if (tag === "EXT-X-DISCONTINUITY-SEQUENCE") domain = Number(rest);
    else if (tag === "EXT-X-DISCONTINUITY") domain += 1;
    else if (tag === "EXT-X-ENDLIST") playlist.ended = true;
    else if (tag === "EXT-X-SKIP") {
      const end = number + Number(named["SKIPPED-SEGMENTS"]);
      const skipped = before?.segments.filter((one) => one.complete && one.number >= number && one.number < end) ?? [];
      if (skipped.length !== end - number) return null;
      // Far from the end nobody lists or wants parts.
      playlist.segments.push(...skipped.map((one) => ({ ...one, parts: [] })));
      ({ domain, map } = skipped.at(-1));
      number = end;
    } else if (tag === "EXT-X-MAP") map = absolute(named.URI);
    else if (tag === "EXTINF") duration = Number.parseFloat(rest);
    else if (tag === "URI") segment(absolute(rest));
    else if (tag === "EXT-X-PART-INF") playlist.partTarget = Number(named["PART-TARGET"]);
    else if (tag === "EXT-X-SERVER-CONTROL") {
      playlist.canBlock = named["CAN-BLOCK-RELOAD"] === "YES";
      playlist.canSkip = "CAN-SKIP-UNTIL" in named;
      playlist.holdBack = Number(named["PART-HOLD-BACK"]) || 0;
    } else if (tag === "EXT-X-PART") {
      parts.push({ url: absolute(named.URI), duration: Number(named.DURATION), independent: named.INDEPENDENT === "YES" });
    }
  }
  if (parts.length) segment(null);
  return playlist;
}
