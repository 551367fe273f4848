"use strict";
// Draws the page's figures in its colours and pages through its matches. Texts only ever become text nodes.

(() => {
  const root = document.documentElement;

  // ---- figures -----------------------------------------------------------------------------------------------

  const css = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

  // "@blue/0.2" -> the theme's blue at that opacity
  function colour(token) {
    const [name, opacity] = token.slice(1).split("/");
    const hex = css(name);
    if (!opacity) return hex;
    const [r, g, b] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    return `rgba(${r},${g},${b},${opacity})`;
  }

  // A copy with theme tokens filled in, but only under keys that hold colours: data may begin with "@" too.
  function themed(value, key = "") {
    if (typeof value === "string") return /color$/.test(key) && value.startsWith("@") ? colour(value) : value;
    if (Array.isArray(value)) {
      if (key === "colorscale") return value.map(([at, token]) => [at, colour(token)]);
      return value.map((item) => themed(item, key));
    }
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, themed(item, name)]));
  }

  const figures = JSON.parse(document.getElementById("figures").textContent);

  function draw(paper = false) {
    for (const place of document.querySelectorAll(".chart")) {
      const figure = figures[Number(place.dataset.figure)];
      const width = paper ? (place.closest("figure.wide") ? 660 : 320) : undefined;
      charts.draw(place, themed(figure), css, width);
    }
  }

  if (figures.length) {
    draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
    let widths = 0;
    addEventListener("resize", () => {
      clearTimeout(widths);
      widths = setTimeout(() => draw(), 120);
    });
    const printing = (paper) => () => {
      root.toggleAttribute("data-print", paper);
      draw(paper);
    };
    addEventListener("beforeprint", printing(true));
    addEventListener("afterprint", printing(false));
  }

  // ---- matches -----------------------------------------------------------------------------------------------

  const PAGE = 20;
  const whole = (n) => n.toLocaleString("en");
  const plain = (score) => String(Math.round(score * 1e4) / 1e4);

  function make(tag, name, ...children) {
    const element = document.createElement(tag);
    if (name) element.className = name;
    element.append(...children.filter((child) => child !== ""));
    return element;
  }

  // The text as nodes, with every occurrence of `needle` marked.
  function marked(text, needle) {
    if (!needle) return [text];
    const lower = text.toLowerCase();
    if (lower.length !== text.length) return [text];
    const nodes = [];
    let from = 0;
    for (let at = lower.indexOf(needle); at >= 0; at = lower.indexOf(needle, from)) {
      nodes.push(text.slice(from, at), make("mark", "", text.slice(at, at + needle.length)));
      from = at + needle.length;
    }
    nodes.push(text.slice(from));
    return nodes;
  }

  function words(text, more, needle) {
    const shown = text ? make("p", "text folded", ...marked(text, needle)) : make("p", "text empty", "(empty)");
    shown.dir = "auto";
    const parts = [shown];
    if (more) parts.push(make("p", "more", `… and ${whole(more)} more characters, in the ledger`));
    return parts;
  }

  // Folding is only for texts that are long: known once the text is on the page.
  function unfold(card) {
    for (const text of card.querySelectorAll(".text.folded")) {
      if (text.scrollHeight <= text.clientHeight + 24) {
        text.classList.remove("folded");
        continue;
      }
      const button = make("button", "unfold", "Show all");
      button.type = "button";
      button.addEventListener("click", () => {
        button.textContent = text.classList.toggle("folded") ? "Show all" : "Show less";
      });
      text.after(button);
    }
  }

  // A part of an answer under its name: a text, or a small table whose first row names the columns.
  function part(item, needle) {
    const line = (cells, tag) => make("tr", "", ...cells.map((cell, i) => make(i ? tag : "th", "", cell || " ")));
    const [head, ...rows] = item.rows;
    const table = head && make("table", "", make("thead", "", line(head, "th")), make("tbody", "", ...rows.map((row) => line(row, "td"))));
    return make("div", "part", make("div", "role", ...marked(item.name, needle)), ...(head ? [table] : words(item.text, item.more, needle)));
  }

  // A player's thoughts before its answer, closed until they are asked for or hold what is searched.
  function thoughts(item, needle) {
    const block = make("details", "thoughts", make("summary", "", `thoughts (${whole(item.text.length + item.more)} characters)`), ...words(item.text, item.more, needle));
    block.open = Boolean(needle) && item.text.toLowerCase().includes(needle);
    return block;
  }

  function answer(row, best, needle) {
    const score = row.score === null ? make("span", "score none", "not judged") : make("span", "score", plain(row.score));
    return make(
      "div", row.score !== null && row.score === best ? "answer best" : "answer",
      make("h4", "", make("span", "", row.player), score),
      row.thoughts ? thoughts(row.thoughts, needle) : "",
      ...(row.parts ? row.parts.map((item) => part(item, needle)) : words(row.text, row.more, needle)),
      row.note ? make("p", "verdict", ...marked(row.note, needle)) : "",
    );
  }

  function card(row, needle) {
    const best = row.low === row.high ? null : row.high;
    return make(
      "article", "card",
      make("h3", "", row.generation === null ? "" : make("span", "badge", `generation ${row.generation}`), make("span", "badge", row.split), make("span", "id", ...marked(row.id, needle))),
      ...row.prompt.map((message) => make("div", "prompt", make("div", "role", message.role), ...words(message.text, message.more, needle))),
      make("div", "answers", ...row.answers.map((item) => answer(item, best, needle))),
      row.reason ? make("p", "verdict", row.judged ? "Judge: " : "Not judged: ", ...marked(row.reason, needle)) : "",
    );
  }

  function prepare(row) {
    const scores = row.answers.map((item) => item.score).filter((score) => score !== null);
    row.high = scores.length ? Math.max(...scores) : null;
    row.low = scores.length ? Math.min(...scores) : null;
    row.judged = scores.length > 0;
    row.compared = scores.length > 1;
  }

  // Everything that can be searched, made at the first search.
  function haystack(row) {
    row.text ??= [row.id, row.reason, ...row.prompt.map((message) => message.text),
      ...row.answers.flatMap((item) => [item.player, item.text, item.note, item.thoughts?.text ?? "", ...(item.parts ?? []).flatMap((p) => [p.name, p.text])])].join("\n").toLowerCase();
    return row.text;
  }

  const VERDICTS = {
    judged: (row) => row.judged,
    unjudged: (row) => !row.judged,
    apart: (row) => row.compared && row.low < row.high,
    tied: (row) => row.compared && row.low === row.high,
  };
  // Matches without the number that is sorted by come last, whichever way.
  const ORDERS = {
    best: (row) => row.high ?? -Infinity,
    worst: (row) => (row.high === null ? -Infinity : -row.high),
    gap: (row) => (row.compared ? row.high - row.low : -Infinity),
  };

  function browse(browser) {
    const { rows, total } = JSON.parse(browser.querySelector("script").textContent);
    const form = browser.querySelector("form");
    const [list, status] = [browser.querySelector(".cards"), browser.querySelector(".shown")];
    const pager = browser.querySelector(".pager");
    let [found, page, needle] = [rows, 0, ""];
    rows.forEach(prepare);

    for (const name of ["generation", "split"]) {
      const values = [...new Set(rows.map((row) => row[name]))].sort((a, b) => (a > b ? 1 : a < b ? -1 : 0));
      for (const value of values) form.elements[name].add(new Option(value, value));
      form.elements[name].closest("label").hidden = values.length < 2;
    }

    function show() {
      const start = page * PAGE;
      const cards = found.slice(start, start + PAGE).map((row) => card(row, needle));
      list.replaceChildren(...cards);
      cards.forEach(unfold);
      const range = found.length ? `${whole(start + 1)}–${whole(start + cards.length)} of ${whole(found.length)}` : "None";
      const sample = total > rows.length ? `a sample of ${whole(rows.length)} of the run's ${whole(total)} matches` : `all ${whole(rows.length)} matches of the run`;
      status.textContent = `${range} shown, from ${browser.dataset.source ?? sample}.`;
      pager.hidden = found.length <= PAGE;
      pager.querySelector("span").textContent = `page ${whole(page + 1)} of ${whole(Math.max(Math.ceil(found.length / PAGE), 1))}`;
      pager.querySelector("[name=previous]").disabled = page === 0;
      pager.querySelector("[name=next]").disabled = start + PAGE >= found.length;
    }

    function filter() {
      const value = Object.fromEntries(new FormData(form));
      const [low, high] = [value.low === "" ? -Infinity : Number(value.low), value.high === "" ? Infinity : Number(value.high)];
      const bounded = value.low !== "" || value.high !== "";
      needle = value.text.trim().toLowerCase();
      found = rows.filter((row) =>
        (!value.generation || String(row.generation) === value.generation) && (!value.split || row.split === value.split) &&
        (!value.verdict || VERDICTS[value.verdict](row)) && (!bounded || (row.judged && row.high >= low && row.high <= high)) &&
        (!needle || haystack(row).includes(needle)));
      const order = ORDERS[value.order];
      if (order) found = found.toSorted((a, b) => (order(b) === order(a) ? 0 : order(b) - order(a)));
      page = 0;
      show();
    }

    let waiting = 0;
    form.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(filter, 120);
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const [name, step] of [["previous", -1], ["next", 1]]) {
      pager.querySelector(`[name=${name}]`).addEventListener("click", () => {
        page += step;
        show();
        browser.scrollIntoView();
      });
    }
    browser.closest("details")?.addEventListener("toggle", show); // what is long shows only once it is on the page
    filter();
  }

  document.querySelectorAll(".browser").forEach(browse);
})();
