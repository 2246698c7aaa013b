// What a browser adds to the pages of the console: it changes pages without loading them whole, looks
// again by itself, finds while one types, and takes keys. Every page works without it.
//
// Other scripts hear "console:page" on the document, with the new <main>, whenever a page was shown.
"use strict";

(() => {
  const RETRY_MS = 2000;
  const TYPING_MS = 250;
  const root = document.documentElement;
  let turn = 0; // of page changes: an answer to an older one is dropped
  let looking = 0; // timer of the next look
  let typing = 0;
  let prefix = false; // whether a g was typed just now

  // ---- pages

  const isOwn = (url) => url.origin === location.origin && !/^\/(static|api|metrics|livez|readyz)\b/.test(url.pathname);

  async function visit(url, how) {
    const mine = ++turn;
    clearTimeout(looking);
    let answer;
    try {
      answer = await fetch(url, { headers: { Accept: "text/html" } });
      if (!(answer.headers.get("content-type") || "").startsWith("text/html")) {
        if (mine === turn) location.assign(url);
        return;
      }
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (mine !== turn) return;
      if (how === "push") history.pushState(null, "", answer.url);
      if (how === "replace") history.replaceState(null, "", answer.url);
      show(page, how);
    } catch (error) {
      if (mine !== turn) return;
      away(url, how);
    }
  }

  function away(url, how) {
    const line = document.getElementById("away");
    line.textContent = "This address does not answer. Trying again ...";
    line.hidden = false;
    looking = setTimeout(() => visit(url, how), RETRY_MS);
  }

  function show(page, how) {
    document.getElementById("away").hidden = true;
    const old = document.getElementById("main");
    const main = page.getElementById("main");
    if (!main) return;
    const kept = focusIn(old);
    if (how === "look") keepOpen(old, main);
    old.replaceWith(document.adoptNode(main));
    document.title = page.title;
    for (const link of document.querySelectorAll("header nav a")) {
      const other = page.querySelector(`header nav a[href="${link.getAttribute("href")}"]`);
      if (other && other.hasAttribute("aria-current")) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    if (how === "push") {
      scrollTo(0, 0);
      main.focus({ preventScroll: true });
      main.classList.add("changed");
    } else restore(kept);
    shown(main);
  }

  function focusIn(main) {
    const at = document.activeElement;
    if (!at || !at.id || !main.contains(at)) return null;
    const isText = at.matches("input[type=search], input[type=text], input:not([type]), textarea");
    return { id: at.id, value: at.value, start: isText ? at.selectionStart : null, end: isText ? at.selectionEnd : null };
  }

  function restore(kept) {
    const at = kept && document.getElementById(kept.id);
    if (!at) return;
    at.focus({ preventScroll: true });
    if (kept.start === null) return;
    at.value = kept.value; // typed on meanwhile
    at.setSelectionRange(kept.start, kept.end);
  }

  function keepOpen(old, main) {
    for (const details of old.querySelectorAll("details[id][open]")) {
      const same = main.querySelector(`#${CSS.escape(details.id)}`);
      if (same) same.open = true;
    }
  }

  function shown(main) {
    for (const time of main.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      if (!isNaN(at)) time.title = at.toLocaleString();
    }
    for (const button of main.querySelectorAll("[data-copy]")) button.hidden = false;
    lookLater(main);
    document.dispatchEvent(new CustomEvent("console:page", { detail: main }));
  }

  // ---- looking again

  function lookLater(main) {
    clearTimeout(looking);
    const seconds = Number(main.dataset.refresh);
    if (seconds) looking = setTimeout(() => look(main), seconds * 1000);
  }

  function look(main) {
    const at = document.activeElement;
    const isAtWork =
      document.hidden ||
      (main.contains(at) && at.matches("input, select, textarea")) ||
      document.querySelector("dialog[open]") ||
      String(getSelection()) !== "";
    if (isAtWork) lookLater(main);
    else visit(withoutNote(), "look");
  }

  function withoutNote() {
    const url = new URL(location.href);
    url.searchParams.delete("noted");
    return url.href;
  }

  // ---- links and forms

  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const copy = event.target.closest("[data-copy]");
    if (copy) return void copyOf(copy);
    const link = event.target.closest("a[href]");
    if (!link || link.target || link.hasAttribute("download") || link.getAttribute("href").startsWith("#")) return;
    const url = new URL(link.href);
    if (!isOwn(url)) return;
    event.preventDefault();
    visit(url.href, "push");
  });

  const addressOf = (form) => {
    const url = new URL(form.action);
    url.search = "";
    for (const [name, value] of new FormData(form)) if (value !== "") url.searchParams.append(name, value);
    return url.href;
  };

  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || form.method !== "get") return;
    event.preventDefault();
    clearTimeout(typing);
    visit(addressOf(form), "push");
  });

  document.addEventListener("input", (event) => {
    const form = event.target.form;
    if (!form || !form.hasAttribute("data-live")) return;
    clearTimeout(typing);
    typing = setTimeout(() => visit(addressOf(form), "replace"), TYPING_MS);
  });

  addEventListener("popstate", () => visit(location.href, "back"));
  if (new URL(location.href).searchParams.has("noted")) history.replaceState(null, "", withoutNote());

  // ---- copying

  async function textOf(place) {
    if (place.startsWith("/")) {
      const answer = await fetch(place).catch(() => null);
      return answer && answer.ok ? answer.text() : null;
    }
    const from = document.querySelector(place);
    return from && ("value" in from ? from.value : from.textContent);
  }

  async function copyOf(button) {
    const text = await textOf(button.dataset.copy);
    if (text === null) return;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const field = document.createElement("textarea");
      field.value = text;
      document.body.append(field);
      field.select();
      document.execCommand("copy"); // without TLS there is no other way
      field.remove();
    }
    const label = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = label), 1500);
  }

  // ---- keys

  const isTyping = (at) => at.matches("input:not([type=checkbox]), select, textarea") || at.isContentEditable;

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const at = document.activeElement;
    if (event.key === "Escape" && at && isTyping(at)) return void at.blur();
    if (at && isTyping(at)) return;
    if (prefix) {
      prefix = false;
      const link = document.querySelector(`header a[data-key="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        visit(link.href, "push");
      }
    } else if (event.key === "g") prefix = true;
    else if (event.key === "/") {
      const field = document.querySelector("[data-find]");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    } else if (event.key === "?") document.getElementById("keys").showModal();
  });

  // ---- light and dark

  const THEMES = ["", "light", "dark"];
  const theme = document.getElementById("theme");
  const NAMES = { "": "Auto", light: "Light", dark: "Dark" };

  function setTheme(name) {
    if (name) root.dataset.theme = name;
    else delete root.dataset.theme;
    const age = name ? 31536000 : 0;
    document.cookie = `kbroker_theme=${name}; path=/; max-age=${age}; SameSite=Strict`;
    theme.textContent = `Theme: ${NAMES[name]}`;
  }

  theme.textContent = `Theme: ${NAMES[root.dataset.theme || ""]}`;
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const at = THEMES.indexOf(root.dataset.theme || "");
    setTheme(THEMES[(at + 1) % THEMES.length]);
  });

  shown(document.getElementById("main"));
})();
