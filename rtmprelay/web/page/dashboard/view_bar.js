// For many cards: search by name, show only problems, make cards small.
import { setHidden } from "./dom.js";
import { isProblem } from "./destination_card.js";

/** The number of cards from which the bar is shown, and from which cards are small by default. */
const SHOW_FROM = 7;
const COMPACT_FROM = 16;

const STORAGE_KEY = "rtmprelay.compact";

function remembered() {
  try {
    return localStorage.getItem(STORAGE_KEY);
  } catch {
    return null;
  }
}

export class ViewBar {
  constructor(streams, destinations) {
    this.streams = streams;
    this.destinations = destinations;
    this.bar = document.getElementById("view-bar");
    this.search = this.bar.querySelector("input[type=search]");
    this.problems = this.bar.querySelector("input[name=problems]");
    this.compact = this.bar.querySelector("input[name=compact]");
    this.nothing = document.getElementById("nothing-found");
    this.chosen = remembered();
    this.search.addEventListener("input", () => this.#filter());
    this.problems.addEventListener("change", () => this.#filter());
    this.compact.addEventListener("change", () => this.#choose());
    document.getElementById("total-failing").addEventListener("click", () => this.#showProblems());
  }

  #choose() {
    this.chosen = this.compact.checked ? "yes" : "no";
    try {
      localStorage.setItem(STORAGE_KEY, this.chosen);
    } catch {
      // Without storage the choice holds until the page is closed.
    }
    this.update();
  }

  #showProblems() {
    for (const card of this.destinations.cards.values()) {
      if (isProblem(card.destination)) {
        card.root.scrollIntoView({ block: "center" });
        card.root.focus();
        return;
      }
    }
  }

  /** Updates the bar after cards were added, removed or changed. */
  update() {
    const number = this.streams.cards.size + this.destinations.cards.size;
    setHidden(this.bar, number < SHOW_FROM && !this.search.value && !this.problems.checked);
    const compact = this.chosen === null ? number >= COMPACT_FROM : this.chosen === "yes";
    this.compact.checked = compact;
    document.body.classList.toggle("compact", compact && number >= SHOW_FROM);
    this.#filter();
  }

  #filter() {
    const words = this.search.value.trim().toLowerCase();
    const onlyProblems = this.problems.checked;
    let shown = 0;
    const show = (card, key, matches) => {
      const visible = matches && key.toLowerCase().includes(words);
      setHidden(card.root, !visible);
      if (visible) shown += 1;
    };
    for (const [key, card] of this.streams.cards) show(card, key, !onlyProblems || card.root.dataset.state === "ended");
    for (const [name, card] of this.destinations.cards) show(card, name, !onlyProblems || isProblem(card.destination));
    const filtered = words !== "" || onlyProblems;
    setHidden(this.nothing, !filtered || shown > 0);
  }
}
