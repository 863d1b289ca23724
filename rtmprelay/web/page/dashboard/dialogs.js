// The dialogs: entering the token, adding a destination, and confirming a change.
import { setHidden, setText } from "./dom.js";

const byId = (id) => document.getElementById(id);

/** Closes a dialog on its cancel buttons and on a click beside it, and clears its form. */
function prepare(dialog) {
  for (const button of dialog.querySelectorAll("[data-close]")) button.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    // The target of a click on the backdrop is the dialog itself.
    if (event.target === dialog && !dialog.querySelector("form")?.dataset.typed) dialog.close();
  });
  dialog.addEventListener("close", () => {
    const form = dialog.querySelector("form");
    form?.reset();
    if (form) delete form.dataset.typed;
    const error = dialog.querySelector("[role=alert]");
    if (error) setText(error, "");
  });
  dialog.querySelector("form")?.addEventListener("input", (event) => (event.currentTarget.dataset.typed = "yes"));
}

/** Makes a change when the form is sent: closes the dialog, or shows the error. */
function onSubmit(dialog, change) {
  const form = dialog.querySelector("form");
  const error = dialog.querySelector("[role=alert]");
  const send = form.querySelector("[type=submit]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    setText(error, "");
    send.disabled = true;
    try {
      await change(form);
      dialog.close();
    } catch (problem) {
      setText(error, problem.message);
    } finally {
      send.disabled = false;
    }
  });
}

function showPassword(button) {
  const field = button.previousElementSibling;
  button.addEventListener("click", () => {
    const shown = field.type === "password";
    field.type = shown ? "text" : "password";
    button.setAttribute("aria-pressed", String(shown));
    setText(button, shown ? "Hide" : "Show");
  });
  field.form.addEventListener("reset", () => {
    field.type = "password";
    button.setAttribute("aria-pressed", "false");
    setText(button, "Show");
  });
}

/** The fields of a new destination for the API: only those that are filled in. */
function destinationOf(form) {
  const value = (name) => form.elements[name].value.trim();
  const settings = { name: value("name"), url: value("url"), lasting: form.elements.lasting.checked };
  if (value("stream_key")) settings.stream_key = value("stream_key");
  if (value("match")) settings.match = value("match");
  if (value("max_retries")) settings.max_retries = Number(value("max_retries"));
  if (value("linger")) settings.linger = Number(value("linger"));
  if (!form.elements.verify.checked) settings.verify = false;
  return settings;
}

export class Dialogs {
  constructor(control) {
    this.unlockDialog = byId("unlock-dialog");
    this.lockedDialog = byId("locked-dialog");
    this.addDialog = byId("add-dialog");
    this.confirmDialog = byId("confirm-dialog");
    for (const dialog of document.querySelectorAll("dialog")) prepare(dialog);
    for (const button of document.querySelectorAll("[data-show-password]")) showPassword(button);
    onSubmit(this.unlockDialog, (form) => control.unlock(form.elements.token.value.trim()));
    onSubmit(this.addDialog, (form) => control.addDestination(destinationOf(form)));
    onSubmit(this.confirmDialog, (form) => this.question.run(form.elements.option.checked));
  }

  /** Asks for the token, or explains how to start the server with one. */
  askForToken(changesAllowed) {
    (changesAllowed ? this.unlockDialog : this.lockedDialog).showModal();
  }

  add() {
    this.addDialog.showModal();
  }

  /** Asks for confirmation: { title, words, option, action, run }. */
  confirm(question) {
    this.question = question;
    const dialog = this.confirmDialog;
    const [title, words, option] = ["h2", "p", ".option"].map((selector) => dialog.querySelector(selector));
    setText(title, question.title);
    setText(words, question.words);
    setHidden(option, !question.option);
    setText(option.querySelector("span"), question.option ?? "");
    setText(dialog.querySelector("[type=submit]"), question.action);
    dialog.showModal();
  }
}
