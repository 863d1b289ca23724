// Where the segments of a playlist are on the page's timeline, and what is to be loaded next.

/** Remembers where each segment begins, in seconds, while playlists come and go. */
export class Timeline {
  constructor() {
    this.playlist = null;
    this.starts = new Map();
  }

  /** Take a newer playlist. Returns false if it does not continue the one before. */
  update(playlist) {
    const [first] = playlist.segments;
    let start = 0;
    if (this.playlist && first) {
      start = this.starts.get(first.number);
      if (start === undefined) return false;
    }
    for (const segment of playlist.segments) {
      this.starts.set(segment.number, start);
      start += segment.duration;
    }
    this.starts.set((playlist.segments.at(-1)?.number ?? -1) + 1, start);
    for (const number of this.starts.keys()) {
      if (first && number < first.number) this.starts.delete(number);
    }
    this.playlist = playlist;
    return true;
  }

  /** What can be watched: [begin, end]. */
  get window() {
    const segments = this.playlist?.segments ?? [];
    if (!segments.length) return [0, 0];
    const last = segments.at(-1);
    return [this.starts.get(segments[0].number), this.starts.get(last.number) + last.duration];
  }

  /** The distance from the end at which a player has enough to go on. */
  get holdBack() {
    const { holdBack, target, ended } = this.playlist;
    return ended ? 0 : holdBack || 3 * target;
  }

  /** Where loading begins to show what is at a time: the last place before it that decoding can begin at. */
  placeOf(time) {
    const { segments } = this.playlist;
    let found = { number: segments[0].number, part: 0 };
    for (const segment of segments) {
      let begin = this.starts.get(segment.number);
      if (begin > time) break;
      found = { number: segment.number, part: 0 };
      segment.parts.forEach((part, index) => {
        if (part.independent && begin <= time) found = { number: segment.number, part: index };
        begin += part.duration;
      });
    }
    return found;
  }

  /** What to load at a place: { url, start, segment, next }, or null if it is not there yet. */
  itemAt({ number, part }) {
    const { segments } = this.playlist;
    if (!segments.length) return null;
    if (number < segments[0].number) return this.itemAt({ number: segments[0].number, part: 0 });
    const segment = segments.find((one) => one.number === number);
    if (!segment) return null;
    const start = this.starts.get(number);
    const whole = { url: segment.url, start, segment, next: { number: number + 1, part: 0 } };
    if (segment.complete && (part === 0 || !segment.parts.length)) return whole;
    if (part < segment.parts.length) {
      const before = segment.parts.slice(0, part).reduce((sum, one) => sum + one.duration, 0);
      return { url: segment.parts[part].url, start: start + before, segment, next: { number, part: part + 1 } };
    }
    return segment.complete ? this.itemAt({ number: number + 1, part: 0 }) : null;
  }

  /** The directives that wait for what comes after this playlist. */
  get reloadQuery() {
    const { segments, canBlock, canSkip, partTarget } = this.playlist;
    const last = segments.at(-1);
    if (!canBlock || !last) return {};
    const number = last.complete ? last.number + 1 : last.number;
    const part = partTarget ? { _HLS_part: last.complete ? 0 : last.parts.length } : {};
    return { _HLS_msn: number, ...part, ...(canSkip && { _HLS_skip: "YES" }) };
  }
}
