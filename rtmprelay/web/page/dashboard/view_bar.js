// For many cards: find some by their names, show only those with problems, show all of them small.
import { setHidden } from "./dom.js";
import { isProblem } from "./destination_card.js";

/** From how many cards on the bar is of use, and from how many cards are small unless somebody chose otherwise. */
const SHOW_FROM = 7;
const COMPACT_FROM = 16;

const PLACE = "rtmprelay.compact";

function remembered() {
  try {
    return localStorage.getItem(PLACE);
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
      localStorage.setItem(PLACE, this.chosen);
    } catch {
      // It holds until the page is closed, then.
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

  /** Cards came, went or changed. */
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
