// The live tail: asks for new rows every moment, keeps the last of them, and counts what is not shown.
// While it is paused, or its page is not open, it asks for nothing; it then goes on where it was.
"use strict";

(() => {
  const MOST_ROWS = 1000;
  const ROWS_AT_ONCE = 50;
  const REST_MS = 500;
  const BUSY_REST_MS = 1000; // of a topic of which nobody could read all
  const RETRY_MS = 2000;
  let tail = null;

  class Tail {
    constructor(main, body) {
      this.main = main;
      this.body = body;
      this.starts = body.dataset.starts;
      this.state = main.querySelector("#tail-state");
      this.gaps = main.querySelector("#tail-gaps");
      this.button = main.querySelector("#pause");
      this.came = 0;
      this.skipped = 0;
      this.unfit = 0;
      this.isPaused = false;
      this.ending = new AbortController();
      this.button.hidden = false;
      this.button.addEventListener("click", () => this.toggle());
      this.later(REST_MS);
    }

    end() {
      clearTimeout(this.timer);
      this.ending.abort();
    }

    toggle() {
      this.isPaused = !this.isPaused;
      this.button.textContent = this.isPaused ? "Go on" : "Pause";
      clearTimeout(this.timer);
      this.tell();
      if (!this.isPaused && !this.isAsking) this.ask();
    }

    later(ms) {
      this.timer = setTimeout(() => this.ask(), ms);
    }

    async ask() {
      let rest = REST_MS;
      this.isAsking = true;
      try {
        const url = new URL(this.body.dataset.tail, location.href);
        url.searchParams.set("starts", this.starts);
        url.searchParams.set("rows", ROWS_AT_ONCE);
        const answer = await fetch(url, { signal: this.ending.signal });
        if (!answer.ok) throw new Error(await sentence(answer));
        const news = await answer.json();
        this.add(news);
        if (news.skipped) rest = BUSY_REST_MS;
      } catch (error) {
        if (this.ending.signal.aborted) return;
        rest = RETRY_MS;
        const what = error instanceof TypeError ? "This address does not answer" : error.message;
        this.say([`${what}. Trying again ...`]);
      }
      this.isAsking = false;
      if (!this.isPaused) this.later(rest);
    }

    add(news) {
      this.starts = news.starts;
      this.came += news.shown;
      this.skipped += news.skipped;
      this.unfit += news.unfit;
      if (news.html) {
        const rows = document.createElement("template");
        rows.innerHTML = news.html;
        this.body.prepend(rows.content);
        while (this.body.rows.length > MOST_ROWS) this.body.lastElementChild.remove();
      }
      this.say(news.gaps);
      this.tell();
    }

    tell() {
      const parts = [`${this.came.toLocaleString("en")} came`];
      parts.push(`${this.skipped.toLocaleString("en")} skipped`);
      if (this.unfit) parts.push(`${this.unfit.toLocaleString("en")} did not fit`);
      if (this.isPaused) parts.push("paused");
      this.state.textContent = parts.join(", ");
      Object.assign(this.body.dataset, { came: this.came, skipped: this.skipped, unfit: this.unfit });
    }

    say(sentences) {
      this.gaps.replaceChildren(
        ...sentences.map((each) => Object.assign(document.createElement("li"), { textContent: each })),
      );
      this.gaps.hidden = !sentences.length;
    }
  }

  async function sentence(answer) {
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const said = page.querySelector(".notice.refused li");
    return said ? said.textContent : `No answer (${answer.status})`;
  }

  function begin(main) {
    if (tail) tail.end();
    const body = main.querySelector("[data-tail]");
    tail = body ? new Tail(main, body) : null;
  }

  document.addEventListener("console:page", (event) => begin(event.detail));
  document.addEventListener("keydown", (event) => {
    if (event.key !== "p" || event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (tail && !event.target.matches("input, select, textarea")) tail.toggle();
  });
  begin(document.getElementById("main"));
})();
