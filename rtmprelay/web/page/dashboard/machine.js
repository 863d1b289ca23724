// What the relay uses of its machine: CPU, memory and disks, with the last five minutes of the first two.
import { setData, setHidden, setText, setTitle } from "./dom.js";
import * as format from "./format.js";
import { Series, WINDOW } from "./series.js";

/** Below this share of a disk the page warns. */
const LITTLE = 0.1;

const seconds = () => Date.now() / 1000;

/** A line without axes, as high as `most` or as its largest value. */
function drawLine(canvas, series, most) {
  const ratio = window.devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  if (!width || !height) return;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const now = seconds();
  const stretches = series.stretches(now - WINDOW);
  const top = Math.max(most, ...stretches.flatMap((stretch) => stretch.map(([, value]) => value))) * 1.1;
  context.strokeStyle = context.fillStyle = getComputedStyle(canvas).color;
  context.lineWidth = 1.5;
  context.lineJoin = "round";
  for (const stretch of stretches) {
    const line = new Path2D();
    const at = ([time, value]) => [width * (1 - (now - time) / WINDOW), height - 1 - (height - 2) * (value / top)];
    for (const sample of stretch) line.lineTo(...at(sample));
    const area = new Path2D(line);
    area.lineTo(at(stretch.at(-1))[0], height);
    area.lineTo(at(stretch[0])[0], height);
    context.globalAlpha = 0.14;
    context.fill(area);
    context.globalAlpha = 1;
    context.stroke(line);
  }
}

export class Machine {
  constructor(section) {
    this.section = section;
    this.part = (name) => section.querySelector(`[data-part=${name}]`);
    this.cpu = new Series(1);
    this.memory = new Series(1);
  }

  load(history, interval) {
    if (!history) return;
    this.cpu.load(history.cpu_percent, seconds(), interval);
    this.memory.load(history.memory_bytes, seconds(), interval);
  }

  update(machine) {
    setHidden(this.section, !machine);
    if (!machine) return;
    const now = seconds();
    this.cpu.push(now, machine.cpu_percent);
    this.memory.push(now, machine.memory_bytes);
    const percent = machine.cpu_percent;
    setText(this.part("cpu"), percent === null ? format.NOTHING : `${percent.toFixed(percent < 9.95 ? 1 : 0)} %`);
    setText(this.part("cpuNote"), machine.cores === 1 ? "of its core" : `of one of ${machine.cores} cores`);
    setText(this.part("memory"), format.bytes(machine.memory_bytes));
    setText(this.part("memoryNote"), `of ${format.bytes(machine.memory_size)}`);
    this.#updateDisks(machine.disks);
    this.draw();
  }

  #updateDisks(disks) {
    const share = (disk) => disk.free / (disk.size || 1);
    const words = (disk) => `${disk.used_for.join(", ")}: ${format.bytes(disk.free)} of ${format.bytes(disk.size)} free`;
    const fullest = [...disks].sort((one, other) => share(one) - share(other))[0];
    setHidden(this.part("diskTile"), !fullest);
    if (!fullest) return;
    setText(this.part("disk"), format.bytes(fullest.free));
    setText(this.part("diskNote"), `free of ${format.bytes(fullest.size)}`);
    setText(this.part("diskName"), `Disk: ${fullest.used_for.join(", ")}`);
    setTitle(this.part("diskTile"), disks.map(words).join("\n"));
    const used = Math.round(100 * (1 - share(fullest)));
    const bar = this.part("diskBar");
    setData(bar, "level", share(fullest) < LITTLE ? "bad" : "");
    bar.setAttribute("aria-valuenow", String(used));
    bar.firstElementChild.style.width = `${used}%`;
  }

  draw() {
    if (document.hidden || this.section.hidden) return;
    drawLine(this.part("cpuPlot"), this.cpu, 10);
    drawLine(this.part("memoryPlot"), this.memory, 1);
  }
}
