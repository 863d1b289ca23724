// The dialog in which a destination is added or changed, with presets for platforms and a test.
import { CheckBox } from "./check_steps.js";
import { ChangeError } from "./control.js";
import { setHidden, setText } from "./dom.js";
import { isPresetUrl, PLACEHOLDER, presetOf, PRESETS } from "./presets.js";

const KEY_WORDS = "Without a key, the stream is published under its own name.";

/** Fields that decide where a connection goes. */
const ADDRESSED = ["url", "backup", "stream_key", "verify"];

const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);

export class DestinationForm {
  constructor(dialog, control) {
    this.dialog = dialog;
    this.control = control;
    this.form = dialog.querySelector("form");
    this.check = new CheckBox(dialog.querySelector(".check-box"));
    /** The settings before the change; null for a new destination. */
    this.before = null;
    const { preset } = this.form.elements;
    preset.append(...PRESETS.map(({ id, name }) => new Option(name, id)));
    preset.addEventListener("change", () => this.#usePreset(presetOf(preset.value)));
    this.#part("test").addEventListener("click", () => this.#test());
    dialog.addEventListener("close", () => this.check.clear());
    this.form.addEventListener("input", () => this.check.clear());
  }

  #part(name) {
    return this.dialog.querySelector(`[data-part=${name}]`);
  }

  openNew() {
    this.before = null;
    this.#label("Add destination", "Add", null);
    this.#advise(null);
    setHidden(this.#part("presetLine"), false);
    setHidden(this.#part("lastingLine"), false);
    setText(this.#part("lastingWords"), "Keep after restart");
    this.dialog.showModal();
  }

  /** @param lasting whether it is in the configuration file */
  async openEdit(name, lasting) {
    const settings = await this.control.settingsOf(name);
    this.before = settings;
    this.#label(`Change ${name}`, "Save", settings);
    this.#advise(null);
    setHidden(this.#part("presetLine"), true);
    setHidden(this.#part("lastingLine"), !lasting);
    setText(this.#part("lastingWords"), "Change it in the configuration file too");
    const { elements } = this.form;
    elements.name.value = settings.name;
    elements.url.value = settings.url;
    elements.match.value = settings.match === "*" ? "" : settings.match;
    elements.backup.value = settings.backup.join(" ");
    elements.max_retries.value = settings.max_retries || "";
    elements.linger.value = settings.linger;
    elements.verify.checked = settings.verify;
    elements.lasting.checked = lasting;
    this.dialog.showModal();
    elements.url.focus();
  }

  #label(title, action, settings) {
    setText(this.dialog.querySelector("h2"), title);
    setText(this.form.querySelector("[type=submit]"), action);
    const { elements } = this.form;
    elements.name.readOnly = settings !== null;
    setHidden(this.#part("nameLine"), settings !== null);
    elements.stream_key.placeholder = settings?.has_key ? "Unchanged" : "";
    setText(this.#part("keyWords"), settings?.has_key ? "Leave it empty to keep the key. Another server needs it again." : KEY_WORDS);
  }

  #advise(preset) {
    const { elements } = this.form;
    setText(this.#part("urlAdvice"), preset ? preset.advice : "");
    setHidden(this.#part("urlAdvice"), !preset);
    if (this.before === null) setText(this.#part("keyWords"), preset ? preset.key : KEY_WORDS);
    elements.backup.placeholder = preset?.backup ?? "";
  }

  #usePreset(preset) {
    const { elements } = this.form;
    const names = PRESETS.map(({ name }) => name);
    if (!elements.url.value || isPresetUrl(elements.url.value)) elements.url.value = preset?.url ?? "";
    if (!elements.name.value || names.includes(elements.name.value)) {
      elements.name.value = preset && preset.id !== "relay" ? preset.name : "";
    }
    this.#advise(preset);
    const at = elements.url.value.indexOf(PLACEHOLDER);
    if (at < 0) return;
    elements.url.focus();
    elements.url.setSelectionRange(at, at + PLACEHOLDER.length);
  }

  /** What is filled in, as the API has it; a change has only what differs. */
  #fields() {
    const { elements } = this.form;
    const value = (name) => elements[name].value.trim();
    const { before } = this;
    const fields = {
      url: value("url"),
      match: value("match") || "*",
      backup: value("backup").split(/\s+/).filter(Boolean),
      max_retries: Number(value("max_retries")),
      linger: value("linger") === "" ? 10 : Number(value("linger")),
      verify: elements.verify.checked,
    };
    if (fields.url.includes(PLACEHOLDER)) throw new ChangeError(`Put the name of your server in place of ${PLACEHOLDER}.`);
    const usual = before ?? { match: "*", backup: [], max_retries: 0, linger: 10, verify: true };
    for (const name of Object.keys(fields)) if (same(fields[name], usual[name])) delete fields[name];
    if (value("stream_key")) {
      fields.stream_key = value("stream_key");
      // In the file the old key may be a part of the address.
      if (before && elements.lasting.checked) fields.url ??= before.url;
    }
    return fields;
  }

  /** Adds the destination, or changes it. */
  async submit() {
    const fields = this.#fields();
    const lasting = this.form.elements.lasting.checked;
    if (this.before === null) {
      await this.control.addDestination({ name: this.form.elements.name.value.trim(), ...fields, lasting });
    } else if (Object.keys(fields).length) {
      await this.control.changeDestination(this.before.name, { ...fields, lasting });
    }
  }

  #test() {
    const { before } = this;
    this.check.show(async () => {
      const fields = this.#fields();
      if (before && !ADDRESSED.some((name) => name in fields)) return this.control.checkDestination(before.name);
      if (before?.has_key && !("stream_key" in fields)) throw new ChangeError("Enter the stream key to test another address.");
      const { url = before?.url, backup = before?.backup ?? [], verify = before?.verify ?? true, stream_key } = fields;
      if (!url) throw new ChangeError("Enter an address first.");
      return this.control.checkEntry({ url, backup, verify, ...(stream_key ? { stream_key } : {}) });
    });
  }
}
