// The last minutes of one value, with the time of each sample.

/** How many seconds a plot shows. */
export const WINDOW = 300;

/** Samples farther apart than this many intervals have a gap between them. */
const GAP = 3.5;

const LIMIT = 2 * WINDOW;

export class Series {
  constructor(interval = 1) {
    this.interval = interval;
    this.times = [];
    this.values = [];
  }

  /** Takes the history of the server, oldest first and up to the time `end`, and keeps older samples. */
  load(values, end, interval) {
    this.interval = interval;
    const begin = end - (values.length - 0.5) * interval;
    while (this.times.length && this.times.at(-1) >= begin) {
      this.times.pop();
      this.values.pop();
    }
    values.forEach((value, index) => {
      this.times.push(end - (values.length - 1 - index) * interval);
      this.values.push(value ?? null);
    });
    this.#forget(end);
  }

  /** Adds one sample; null means that there was nothing to measure. */
  push(time, value) {
    // Delayed messages arrive together: the last one counts.
    if (this.times.length && time - this.times.at(-1) < this.interval / 4) {
      this.values[this.values.length - 1] = value ?? null;
      return;
    }
    this.times.push(time);
    this.values.push(value ?? null);
    this.#forget(time);
  }

  #forget(now) {
    let old = 0;
    while (old < this.times.length && (this.times[old] < now - WINDOW - 5 || this.times.length - old > LIMIT)) {
      old += 1;
    }
    if (old) {
      this.times.splice(0, old);
      this.values.splice(0, old);
    }
  }

  /** The stretches without gaps since a time, as lists of [time, value]. */
  stretches(since) {
    const all = [];
    let current = null;
    for (let index = 0; index < this.times.length; index += 1) {
      const time = this.times[index];
      const value = this.values[index];
      if (time < since || value === null) {
        current = null;
        continue;
      }
      if (current === null || time - current.at(-1)[0] > GAP * this.interval) {
        current = [];
        all.push(current);
      }
      current.push([time, value]);
    }
    return all;
  }

  /** The sample nearest to a time: [time, value], where value is null in a gap; null if there is none. */
  nearest(time) {
    let best = null;
    for (let index = 0; index < this.times.length; index += 1) {
      const distance = Math.abs(this.times[index] - time);
      if (best === null || distance < best.distance) best = { distance, index };
    }
    if (best === null) return null;
    if (best.distance > GAP * this.interval) return [time, null];
    return [this.times[best.index], this.values[best.index]];
  }

  /** Whether there was a value other than zero since a time. */
  hasData(since) {
    for (let index = this.times.length - 1; index >= 0 && this.times[index] >= since; index -= 1) {
      if (this.values[index]) return true;
    }
    return false;
  }

  /** Least, average and most since a time, or null without samples. */
  summary(since) {
    const values = this.stretches(since).flatMap((stretch) => stretch.map(([, value]) => value));
    if (!values.length) return null;
    const sum = values.reduce((one, other) => one + other, 0);
    return { least: Math.min(...values), average: sum / values.length, most: Math.max(...values) };
  }
}
