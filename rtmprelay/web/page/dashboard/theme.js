// Sets light or dark before anything is painted. A module would run too late.
(() => {
  const CHOICES = ["auto", "light", "dark"];

  function remembered() {
    try {
      const choice = localStorage.getItem("rtmprelay.theme");
      return CHOICES.includes(choice) ? choice : "auto";
    } catch {
      return "auto";
    }
  }

  function apply(choice) {
    document.documentElement.dataset.theme = choice;
  }

  apply(remembered());

  document.addEventListener("DOMContentLoaded", () => {
    for (const radio of document.querySelectorAll("input[name=theme]")) {
      radio.checked = radio.value === remembered();
      radio.addEventListener("change", () => {
        apply(radio.value);
        try {
          localStorage.setItem("rtmprelay.theme", radio.value);
        } catch {
          // Without storage the choice holds until the page is closed.
        }
        document.dispatchEvent(new Event("themechange"));
      });
    }
  });
})();
