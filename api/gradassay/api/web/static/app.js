// Keyboard, theme, copying and messages. Every page works without this file.
(() => {
  const root = document.documentElement;

  // Theme
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const announceTheme = () => document.dispatchEvent(new CustomEvent("gradassay:theme"));
  const switchTheme = () => {
    const current = root.dataset.theme ?? (dark.matches ? "dark" : "light");
    root.dataset.theme = current === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("gradassay-theme", root.dataset.theme);
    } catch {
      // Without storage the choice lasts as long as the page.
    }
    announceTheme();
  };
  dark.addEventListener("change", announceTheme);

  document.querySelector("nav.main [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

  // Entries: j and k move, Enter opens, a and r open the form of the entry
  let current = null;
  const entries = () => [...document.querySelectorAll("[data-entry]")].filter((entry) => entry.offsetParent !== null);
  const select = (entry) => {
    current?.removeAttribute("aria-current");
    current = entry;
    entry.setAttribute("aria-current", "true");
    entry.focus({ preventScroll: true });
    entry.scrollIntoView({ block: "nearest" });
  };
  const move = (step) => {
    const all = entries();
    if (!all.length) return;
    const index = all.indexOf(current);
    select(all[index < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, index + step))]);
  };
  const scope = () => (current?.isConnected ? current : document);
  const open = (selector) => {
    const form = scope().querySelector(selector);
    if (!form) return false;
    for (const other of document.querySelectorAll("details[data-accept][open], details[data-reject][open]")) {
      if (other !== form) other.open = false;
    }
    form.open = true;
    form.scrollIntoView({ block: "nearest" });
    form.querySelector("textarea, input:not([type=hidden])")?.focus();
    return true;
  };
  const follow = () => {
    const link = current?.isConnected ? current.querySelector("a[data-open]") : null;
    link?.click();
    return Boolean(link);
  };
  const search = () => {
    const field = document.querySelector("[data-search]") ?? document.querySelector("form.filters select");
    field?.focus();
    field?.select?.();
    return Boolean(field);
  };
  const help = () => document.getElementById("help").showModal();

  const keys = {
    j: () => move(1),
    k: () => move(-1),
    a: () => open("details[data-accept]"),
    r: () => open("details[data-reject]"),
    "/": search,
    "?": help,
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key === "Escape") {
      const form = event.target.closest("details[open]");
      if (form) {
        form.open = false;
        form.querySelector("summary").focus();
      } else if (typing) {
        typing.blur();
      }
      return;
    }
    if (typing) return;
    if (event.key === "Enter" && event.target === current) {
      if (follow()) event.preventDefault();
      return;
    }
    if (!Object.hasOwn(keys, event.key)) return;
    if (keys[event.key]() !== false) event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    const entry = event.target.closest("[data-entry]");
    if (!entry || entry === current) return;
    current?.removeAttribute("aria-current");
    current = entry;
    entry.setAttribute("aria-current", "true");
  });

  // Buttons
  const copy = async (button) => {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Without a secure context there is no clipboard: select the text beside the button instead.
      const code = button.parentElement.querySelector("code");
      if (code) getSelection().selectAllChildren(code);
      return;
    }
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if ("themeSwitch" in button.dataset) switchTheme();
    if ("help" in button.dataset) help();
    if ("copy" in button.dataset) copy(button);
  });

  // What htmx could not load
  const trouble = (text) => {
    const box = document.getElementById("trouble");
    box.textContent = text;
    box.hidden = false;
    box.scrollIntoView({ block: "nearest" });
  };
  document.addEventListener("htmx:responseError", (event) => {
    trouble(`The service answered ${event.detail.xhr.status}. Load the page again to see why.`);
  });
  document.addEventListener("htmx:sendError", () => trouble("The service does not answer. Is it still running?"));
  document.addEventListener("htmx:afterSwap", () => (document.getElementById("trouble").hidden = true));
})();
