// Changes the page in place and only where something differs, so that nothing flickers, and focus and selection stay.
// Data enters the page only as text.

/** Sets the text of an element that has no other content. */
export function setText(element, text) {
  const words = String(text);
  const first = element.firstChild;
  if (first === null) element.append(words);
  else if (first.data !== words) first.data = words;
}

export function setHidden(element, hidden) {
  if (element.hidden !== hidden) element.hidden = hidden;
}

export function setData(element, name, value) {
  if (element.dataset[name] !== value) element.dataset[name] = value;
}

export function setTitle(element, text) {
  if (element.title !== text) element.title = text;
}

/** Sets a text, or hides the element if there is none. */
export function setOptional(element, text) {
  setHidden(element, !text);
  setText(element, text ?? "");
}

/** A copy of a template, and its parts by their `data-part`. */
export function fromTemplate(id) {
  const root = document.getElementById(id).content.firstElementChild.cloneNode(true);
  const parts = {};
  for (const element of root.querySelectorAll("[data-part]")) parts[element.dataset.part] = element;
  return { root, parts };
}

/** Shows one of the icons of the page. */
export function setIcon(svg, name) {
  const use = svg.firstElementChild;
  const target = `#icon-${name}`;
  if (use.getAttribute("href") !== target) use.setAttribute("href", target);
}

const ORDER = new Intl.Collator("en", { numeric: true });

/** Cards by key, in the order of their keys, so that a card stays in its place. */
export class CardList {
  constructor(container, make) {
    this.container = container;
    this.make = make;
    this.cards = new Map();
  }

  /** Shows exactly the cards of `entries`, a map from key to data. */
  update(entries) {
    for (const [key, card] of this.cards) {
      if (!entries.has(key)) {
        this.cards.delete(key);
        card.close();
        card.root.remove();
      }
    }
    for (const [key, data] of entries) {
      let card = this.cards.get(key);
      if (card === undefined) {
        card = this.make(key);
        this.#insert(key, card);
      }
      card.update(data);
    }
  }

  #insert(key, card) {
    let next = null;
    for (const other of this.cards.keys()) {
      if (ORDER.compare(other, key) > 0 && (next === null || ORDER.compare(other, next) < 0)) next = other;
    }
    this.container.insertBefore(card.root, next === null ? null : this.cards.get(next).root);
    this.cards.set(key, card);
  }
}

/** Chips (small labels) in a list, one for each [text, state, title]; existing elements are reused. */
export function setChips(list, chips) {
  while (list.children.length > chips.length) list.lastElementChild.remove();
  while (list.children.length < chips.length) list.append(fromTemplate("chip").root);
  chips.forEach(([text, state, title], index) => {
    const chip = list.children[index];
    setText(chip.querySelector("bdi"), text);
    setData(chip, "state", state);
    setIcon(chip.querySelector("svg"), state);
    setTitle(chip, title);
  });
}

/** Copies a text. A page without a secure origin has no `navigator.clipboard`, only `execCommand`. */
export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      // `execCommand` may still be allowed.
    }
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "offscreen";
  (document.querySelector("dialog[open]") ?? document.body).append(field);
  const before = document.activeElement;
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  before?.focus();
  return copied;
}

/** Makes a button copy what `text()` returns, and confirm it. */
export function copyButton(button, text) {
  const label = button.querySelector("span") ?? button;
  const words = label.textContent;
  let timer = null;
  button.addEventListener("click", async () => {
    setText(label, (await copyText(text())) ? "Copied" : "Not allowed");
    clearTimeout(timer);
    timer = setTimeout(() => setText(label, words), 1500);
  });
}
