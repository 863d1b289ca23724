// Shows how a destination was tried out: each step with its time, or why it failed.
import { fromTemplate, setData, setHidden, setIcon, setOptional, setText } from "./dom.js";
import { sentence } from "./format.js";

const STEPS = {
  dns: "Find the server (DNS)",
  tcp: "Connect (TCP)",
  tls: "Encrypt (TLS)",
  handshake: "Begin RTMP (handshake)",
  connect: "Open the application (connect)",
  publish: "Ask to publish",
  stays: "Stay connected for a second",
};

const milliseconds = (seconds) => `${Math.round(seconds * 1000)} ms`;

function row(step) {
  const { root, parts } = fromTemplate("check-step");
  const failed = step.problem !== null;
  setData(root, "state", failed ? "error" : "connected");
  setIcon(parts.icon, failed ? "error" : "connected");
  setText(parts.name, STEPS[step.name] ?? step.name);
  setText(parts.result, failed ? "Failed: " : "Done: ");
  setText(parts.time, milliseconds(step.seconds));
  setOptional(parts.words, failed ? sentence(step.problem) : step.detail);
  return root;
}

/** The box with the result of a check. */
export class CheckBox {
  constructor(box) {
    this.box = box;
    this.words = box.querySelector("p");
    this.list = box.querySelector("ol");
    this.number = 0;
  }

  clear() {
    this.number += 1;
    setHidden(this.box, true);
    this.list.replaceChildren();
  }

  /** Waits for a check and shows it, unless another one was begun. */
  async show(check) {
    this.clear();
    const { number } = this;
    setHidden(this.box, false);
    setData(this.box, "state", "connecting");
    setText(this.words, "Trying… This connects, asks to publish and sends nothing. It may take half a minute.");
    let answer;
    try {
      answer = await check();
    } catch (error) {
      if (number === this.number) this.#say("error", error.message);
      return;
    }
    if (number !== this.number) return;
    for (const address of answer.addresses) {
      if (answer.addresses.length > 1) {
        const title = document.createElement("li");
        title.className = "address";
        title.textContent = address.address;
        this.list.append(title);
      }
      this.list.append(...address.steps.map(row));
    }
    const all = "It works: the server would take a stream.";
    this.#say(answer.succeeded ? "connected" : "error", answer.succeeded ? all : "It does not work yet.");
  }

  #say(state, words) {
    setData(this.box, "state", state);
    setText(this.words, words);
  }
}
