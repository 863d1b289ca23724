// A plot of the last five minutes on a canvas: crisp on every screen, with gaps where nothing was measured, and drawn
// only while it is visible.
import { bitrate, clock, NOTHING, span } from "./format.js";
import { scaleFor } from "./scale.js";
import { WINDOW } from "./series.js";

const FONT_SIZE = 11;
const LINE_HEIGHT = 15;
/** Plots that are less high have fewer labels. */
const SMALL = 56;
/** Pixels between two time labels. */
const APART = 8;

/** The plots that are visible now. */
const visible = new Set();
const byElement = new WeakMap();

const watcher = new IntersectionObserver(
  (entries) => {
    for (const entry of entries) {
      const plot = byElement.get(entry.target);
      if (entry.isIntersecting) {
        visible.add(plot);
        plot.draw();
      } else {
        visible.delete(plot);
      }
    }
  },
  { rootMargin: "80px" },
);

const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) byElement.get(entry.target)?.resize(entry.contentRect);
});

/** Draws the visible plots. */
export function drawVisiblePlots(now) {
  if (document.hidden) return;
  for (const plot of visible) plot.draw(now);
}

let palette = null;
/** Counts changes of the theme. */
let theme = 0;

/** The colours of the theme, from the style sheet. */
function colours() {
  if (palette === null) {
    const probe = document.getElementById("plot-colours");
    const colour = (name) => getComputedStyle(probe.querySelector(`.${name}`)).color;
    palette = { grid: colour("grid"), label: colour("label"), card: colour("card"), font: getComputedStyle(probe).fontFamily };
  }
  return palette;
}

/** Reads the colours again, after the theme has changed. */
export function forgetColours() {
  palette = null;
  theme += 1;
  drawVisiblePlots();
}

const seconds = () => Date.now() / 1000;

export class Plot {
  /** @param figure an element with a canvas and an `output` in it */
  constructor(figure, series, title) {
    this.figure = figure;
    this.canvas = figure.querySelector("canvas");
    this.readout = figure.querySelector("output");
    this.series = series;
    this.title = title;
    this.colour = null;
    this.theme = null;
    this.pointer = null;
    this.width = 0;
    this.height = 0;
    this.described = 0;
    byElement.set(figure, this);
    watcher.observe(figure);
    sizes.observe(figure);
    this.#listen();
  }

  /** Stops drawing. */
  close() {
    watcher.unobserve(this.figure);
    sizes.unobserve(this.figure);
    visible.delete(this);
  }

  /** Whether there is anything to draw. */
  get hasData() {
    return this.series.hasData(seconds() - WINDOW);
  }

  resize({ width, height }) {
    this.width = width;
    this.height = height;
    if (visible.has(this)) this.draw();
  }

  #listen() {
    const { canvas } = this;
    const follow = (event) => {
      const box = canvas.getBoundingClientRect();
      this.#point(this.now - WINDOW + ((event.clientX - box.left - this.left) / this.plotWidth) * WINDOW);
    };
    canvas.addEventListener("pointermove", follow);
    canvas.addEventListener("pointerdown", follow);
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("blur", () => this.#point(null));
    canvas.addEventListener("keydown", (event) => {
      const steps = { ArrowLeft: -5, ArrowRight: 5, Home: -WINDOW, End: WINDOW };
      if (event.key === "Escape") this.#point(null);
      if (!(event.key in steps)) return;
      event.preventDefault();
      const from = this.pointer === null ? this.now : this.now - this.pointer;
      this.#point(Math.min(this.now, Math.max(this.now - WINDOW, from + steps[event.key])));
    });
  }

  /** Shows the value at a time. The read-out keeps its distance from now as time passes. */
  #point(time) {
    this.pointer = time === null ? null : Math.min(WINDOW, Math.max(0, this.now - time));
    this.draw();
  }

  draw(now = seconds()) {
    const ratio = window.devicePixelRatio || 1;
    const { canvas, width, height } = this;
    if (!width || !height) return;
    this.now = now;
    const [pixelWidth, pixelHeight] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== pixelWidth || canvas.height !== pixelHeight) {
      canvas.width = pixelWidth;
      canvas.height = pixelHeight;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const stretches = this.series.stretches(now - WINDOW);
    const most = Math.max(0, ...stretches.map((stretch) => Math.max(...stretch.map(([, value]) => value))));
    this.#drawAxes(context, stretches.length ? scaleFor(most) : null, 1 / ratio);
    this.#drawLine(context, stretches);
    this.#drawPointer(context);
    this.#describe();
  }

  #x = (time) => this.left + this.plotWidth * (1 - (this.now - time) / WINDOW);
  #y = (value) => this.bottom - (this.bottom - this.ceiling) * (value / this.top);

  #drawAxes(context, scale, hairline) {
    const { grid, label, font } = colours();
    context.font = `${FONT_SIZE}px ${font}`;
    const labels = scale ? scale.labels : ["0"];
    const widest = Math.max(...labels.map((text) => context.measureText(text).width));
    this.left = Math.ceil(widest) + 8;
    this.plotWidth = Math.max(1, this.width - this.left - 4);
    this.ceiling = LINE_HEIGHT + 3;
    this.bottom = this.height - LINE_HEIGHT - 3;
    this.top = scale ? scale.top : 1;
    context.fillStyle = label;
    context.strokeStyle = grid;
    context.lineWidth = Math.max(1, hairline);
    context.textBaseline = "middle";
    context.textAlign = "right";
    const small = this.bottom - this.ceiling < SMALL;
    (scale ? scale.ticks : [0]).forEach((tick, index) => {
      if (small && index && index < labels.length - 1) return;
      const y = Math.round(this.#y(tick)) + 0.5;
      context.fillText(labels[index], this.left - 6, y);
      context.beginPath();
      context.moveTo(this.left, y);
      context.lineTo(this.width - 4, y);
      context.stroke();
    });
    context.textAlign = "left";
    if (scale) context.fillText(scale.unit, 0, FONT_SIZE / 2 + 1);
    this.#drawTimes(context);
    if (!scale) {
      context.textAlign = "center";
      const text = "No data in the last 5 minutes";
      context.fillText(text, this.left + this.plotWidth / 2, (this.ceiling + this.bottom) / 2);
    }
  }

  #drawTimes(context) {
    const y = this.height - FONT_SIZE / 2 - 1;
    const widthOf = (text) => context.measureText(text).width + APART;
    const minute = this.plotWidth / 5;
    const room = minute - context.measureText("0").width / 2;
    const [long, short] = ["5 min ago", "5 min"];
    const first = widthOf(long) > room && widthOf(short) <= room ? short : long;
    context.textAlign = "left";
    context.fillText(first, this.left, y);
    context.textAlign = "center";
    // All of these labels or none.
    if (widthOf(first) <= room) for (const ago of [4, 3, 2, 1]) context.fillText(`${ago}`, this.left + minute * (5 - ago), y);
    context.textAlign = "right";
    context.fillText("now", this.width, y);
  }

  #drawLine(context, stretches) {
    if (this.theme !== theme) this.colour = getComputedStyle(this.canvas).color;
    this.theme = theme;
    context.strokeStyle = this.colour;
    context.fillStyle = this.colour;
    context.lineJoin = "round";
    context.lineCap = "round";
    context.save();
    context.beginPath();
    context.rect(this.left, 0, this.width - this.left, this.height);
    context.clip();
    for (const stretch of stretches) {
      const path = new Path2D();
      for (const [time, value] of stretch) path.lineTo(this.#x(time), this.#y(value));
      const area = new Path2D(path);
      area.lineTo(this.#x(stretch.at(-1)[0]), this.bottom);
      area.lineTo(this.#x(stretch[0][0]), this.bottom);
      context.globalAlpha = 0.14;
      context.fill(area);
      context.globalAlpha = 1;
      context.lineWidth = 1.75;
      // A single sample has no length, so only its round cap is visible.
      if (stretch.length === 1) path.lineTo(this.#x(stretch[0][0]) + 0.01, this.#y(stretch[0][1]));
      context.stroke(path);
    }
    context.restore();
  }

  #drawPointer(context) {
    const { readout } = this;
    readout.hidden = this.pointer === null;
    if (this.pointer === null) return;
    const wanted = this.now - this.pointer;
    const [time, value] = this.series.nearest(wanted) ?? [wanted, null];
    const x = this.#x(Math.min(this.now, Math.max(this.now - WINDOW, time)));
    context.strokeStyle = colours().label;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(Math.round(x) + 0.5, this.ceiling - 4);
    context.lineTo(Math.round(x) + 0.5, this.bottom);
    context.stroke();
    if (value !== null) {
      context.fillStyle = this.colour;
      context.strokeStyle = colours().card;
      context.lineWidth = 2;
      context.beginPath();
      context.arc(x, this.#y(value), 4, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
    }
    const words = `${value === null ? "no data" : bitrate(value)} · ${clock(time * 1000)}`;
    if (readout.textContent !== words) readout.textContent = words;
    const room = this.width - readout.offsetWidth;
    readout.style.left = `${Math.max(0, Math.min(room, x - readout.offsetWidth / 2))}px`;
  }

  /** Updates the description for screen readers, but not every second, which would disturb. */
  #describe() {
    if (this.now - this.described < 10) return;
    this.described = this.now;
    const summary = this.series.summary(this.now - WINDOW);
    const words = summary
      ? `between ${bitrate(summary.least)} and ${bitrate(summary.most)}, ${bitrate(summary.average)} on average`
      : NOTHING;
    this.canvas.setAttribute("aria-label", `${this.title}, last ${span(WINDOW)}: ${words}`);
  }
}
