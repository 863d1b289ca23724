// The dialogs: entering the token, adding or changing a destination, and confirming a change.
import { DestinationForm } from "./destination_form.js";
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

export class Dialogs {
  constructor(control) {
    this.unlockDialog = byId("unlock-dialog");
    this.lockedDialog = byId("locked-dialog");
    this.addDialog = byId("add-dialog");
    this.confirmDialog = byId("confirm-dialog");
    for (const dialog of document.querySelectorAll("dialog")) prepare(dialog);
    for (const button of document.querySelectorAll("[data-show-password]")) showPassword(button);
    onSubmit(this.unlockDialog, (form) => control.unlock(form.elements.token.value.trim()));
    this.destinationForm = new DestinationForm(this.addDialog, control);
    onSubmit(this.addDialog, () => this.destinationForm.submit());
    onSubmit(this.confirmDialog, (form) => this.question.run(form.elements.option.checked));
  }

  /** Asks for the token, or explains how to start the server with one. */
  askForToken(changesAllowed) {
    (changesAllowed ? this.unlockDialog : this.lockedDialog).showModal();
  }

  add() {
    this.destinationForm.openNew();
  }

  /** Opens the settings of a destination. Throws if they cannot be read. */
  edit(name, lasting) {
    return this.destinationForm.openEdit(name, lasting);
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
