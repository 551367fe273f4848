// Shows runs as they go on. Only what has changed is drawn anew.
(() => {
  const EVERY = 3000;
  const cards = [];
  let whole = null;

  function card(number) {
    const made = {
      drawn: "", root: element("section", "run"), title: element("h2"), folder: element("p", "role"), state: element("p"),
      bar: element("progress"), left: element("p", "role"), facts: element("dl", "facts"), curves: element("div", "curves"),
      matches: element("details"), list: element("div"), report: element("button", "", "Whole report"),
    };
    made.report.type = "button";
    made.report.addEventListener("click", () => { whole = number; load(); });
    made.matches.append(element("summary", "", "Last matches"), made.list);
    made.root.append(made.title, made.folder, made.state, made.bar, made.left, made.facts, made.curves, made.matches, made.report);
    $("runs").append(made.root);
    return made;
  }

  function draw(made, run) {
    const text = JSON.stringify(run);
    if (made.drawn === text) return;
    made.drawn = text;
    made.folder.textContent = run.folder;
    made.state.textContent = run.error || run.state;
    made.state.classList.toggle("bad", Boolean(run.error));
    if (run.error) return;
    made.title.textContent = run.name;
    made.title.dir = "auto";
    made.bar.max = 1;
    made.bar.value = run.share;
    made.bar.setAttribute("aria-label", `done of ${run.name}`);
    made.left.textContent = run.left ? `about ${run.left} left` : "";
    made.facts.replaceChildren(...run.facts.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]));
    made.curves.replaceChildren(...run.curves.map(curve));
    made.list.replaceChildren(...run.matches.map(match));
  }

  function match(each) {
    const made = element("div", "card");
    made.append(element("h3", "", each.title), ...each.chat.map((part) => message(part.role, part.text)));
    return made;
  }

  function svg(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function curve({ name, points }) {
    const [width, height, edge] = [240, 70, 6];
    const xs = points.map((point) => point[0]), ys = points.map((point) => point[1]);
    const place = (value, values, from, to) => {
      const low = Math.min(...values), high = Math.max(...values);
      return high > low ? from + (to - from) * (value - low) / (high - low) : (from + to) / 2;
    };
    const at = points.map(([x, y]) => [place(x, xs, edge, width - edge), place(y, ys, height - edge, edge)]);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name} over the generations` });
    drawing.append(svg("polyline", { points: at.map((point) => point.map((n) => n.toFixed(1)).join(",")).join(" "), class: "line" }));
    const [x, y] = at[at.length - 1];
    drawing.append(svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: 3, class: "dot" }));
    const made = element("figure", "small");
    const last = ys[ys.length - 1], first = ys[0];
    made.append(element("figcaption", "", `${name}: ${last.toPrecision(3)}`), drawing, element("span", "role", `from ${first.toPrecision(3)}, generation ${xs[0]} to ${xs[xs.length - 1]}`));
    return made;
  }

  async function load() {
    say("The report is being made …");
    try {
      const reply = await patiently(() => call("report", { run: whole }));
      const top = $("report").contentWindow?.scrollY || 0;
      $("report").onload = () => $("report").contentWindow.scrollTo(0, top);
      $("report").srcdoc = reply.html;
      $("whole-title").textContent = `Report of ${cards[whole].title.textContent}`;
      const opened = $("whole").hidden;
      $("whole").hidden = false;
      if (opened) $("whole-title").focus();
      say("");
    } catch (error) {
      say(error.message, true);
    }
  }

  $("renew").addEventListener("click", load);
  $("shut").addEventListener("click", () => {
    $("whole").hidden = true;
    $("report").srcdoc = "";
    cards[whole].report.focus();
  });

  async function look() {
    for (;;) {
      if (!document.hidden) {
        try {
          const runs = await patiently(() => call("live", {}));
          if ($("status").classList.contains("bad")) say("");
          runs.forEach((run, number) => draw(cards[number] ??= card(number), run));
        } catch (error) {
          say(error.message, true);
        }
      }
      await new Promise((done) => setTimeout(done, EVERY));
    }
  }
  look();
})();
