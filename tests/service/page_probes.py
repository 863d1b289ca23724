"""Scripts and actions for tests of the dashboard."""

from __future__ import annotations

from tests.service import fake_relay_http as fake
from tests.service.browser import Browser, until
from tests.service.fake_relay_http import FakeRelay

#: Text with less contrast than WCAG AA requires: 4.5 to 1, or 3 to 1 for large text.
FAINT_TEXT = """
const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
const context = canvas.getContext("2d", { willReadFrequently: true });
const paint = (colours) => {
  context.clearRect(0, 0, 1, 1);
  for (const colour of colours) { context.fillStyle = colour; context.fillRect(0, 0, 1, 1); }
  return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
};
const light = (rgb) => {
  const [r, g, b] = rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const disabled = element.closest(":disabled, [data-state=disabled], [data-state=idle], .symbols, .offscreen, .preview");
  if (!own || disabled || !element.checkVisibility({ visibilityProperty: true })) continue;
  const behind = [];
  for (let each = element; each; each = each.parentElement) behind.unshift(getComputedStyle(each).backgroundColor);
  const style = getComputedStyle(element);
  const [text, back] = [light(paint([...behind, style.color])), light(paint(behind))];
  const contrast = (Math.max(text, back) + 0.05) / (Math.min(text, back) + 0.05);
  const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
  if (contrast < (large ? 3 : 4.5)) found.push(`${element.textContent.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
}
return found;
"""


#: Elements that reach beyond their card and are cut off, unless they are shortened on purpose.
CUT_OFF = """
const found = [];
for (const card of document.querySelectorAll(".card")) {
  const edge = card.getBoundingClientRect().right;
  for (const element of card.querySelectorAll("*")) {
    let shortened = false;
    for (let each = element.parentElement; each !== card; each = each.parentElement) {
      shortened ||= getComputedStyle(each).overflowX !== "visible";
    }
    const { right } = element.getBoundingClientRect();
    if (!shortened && right > edge) found.push(`${element.className} ${right - edge}`);
  }
}
return found;
"""


#: The time labels of a plot that is made so wide, and those that overlap.
CROWDED_LABELS = """
const written = [];
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const { width } = this.measureText(text);
  const left = { left: x, center: x - width / 2, right: x - width }[this.textAlign];
  written.push({ text, y, left, right: left + width });
  return write.call(this, text, x, y);
};
const plot = document.querySelector(".plot canvas").parentElement;
plot.style.width = `${arguments[0]}px`;
return new Promise((resolve) => new ResizeObserver(() => setTimeout(resolve, 50)).observe(plot)).then(() => {
  CanvasRenderingContext2D.prototype.fillText = write;
  const times = written.filter(({ y }) => y === Math.max(...written.map((each) => each.y)));
  const crowded = times.filter((each, index) => index && each.left < times[index - 1].right + 4);
  return [times.map(({ text }) => text), crowded.map(({ text }) => text)];
});
"""


def show(browser: Browser, relay: FakeRelay) -> None:
    """Open the page and wait until it shows data. Each relay has its own port, so the browser remembers nothing."""
    browser.open(relay.url)
    until(lambda: browser.run("return document.body.dataset.loaded"), "the first status")


def unlock(browser: Browser, token: str = fake.TOKEN) -> None:
    """Enter a token."""
    browser.click("#unlock")
    browser.type("#unlock-dialog [name=token]", token)
    browser.click("#unlock-dialog [type=submit]")


def wait_for_text(browser: Browser, selector: str, wanted: str) -> None:
    """Wait until an element shows a text."""
    until(lambda: browser.text(selector) == wanted, f"{selector}: {wanted}")


def overflow(browser: Browser) -> int:
    """By how many pixels the page is wider than the window."""
    return int(
        browser.run(
            "const { scrollWidth, clientWidth } = document.documentElement; return scrollWidth - clientWidth"
        )
    )


def nameless(browser: Browser) -> list[str]:
    """The roles of controls without a name for screen readers."""
    tree = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    controls = ("button", "link", "textbox", "searchbox", "checkbox", "radio", "combobox", "image")
    return [
        node["role"]["value"]
        for node in tree
        if not node["ignored"] and node["role"]["value"] in controls and not node["name"]["value"]
    ]
