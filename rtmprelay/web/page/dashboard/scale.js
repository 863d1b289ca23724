// The vertical scale of a plot: a few round numbers.

/** Ticks in kbit/s from 0 to above the largest value, and the unit for their labels. */
export function scaleFor(most) {
  // A little room above, so that the line does not touch the edge.
  const needed = Math.max(most * 1.08, 10);
  const power = 10 ** Math.floor(Math.log10(needed / 2));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((each) => needed / each <= 3);
  const ticks = [];
  for (let number = 0; ; number += 1) {
    ticks.push(number * step);
    if (number * step >= needed) break;
  }
  const top = ticks.at(-1);
  const [divisor, unit] =
    top >= 1_000_000 ? [1_000_000, "Gbit/s"] : top >= 1000 ? [1000, "Mbit/s"] : [1, "kbit/s"];
  return { top, ticks, unit, labels: ticks.map((tick) => String(Number((tick / divisor).toPrecision(4)))) };
}
