// A person's seat in a match. The moves are kept here, so that a match goes on after the server was restarted.
(() => {
  const SITTING = "equipoise match", NAME = "equipoise player";
  let busy = false;

  const player = () => localStorage.getItem(NAME) || "";
  const sitting = () => JSON.parse(localStorage.getItem(SITTING) || '{"match":"","moves":[]}');

  function work(begins) {
    busy = begins;
    $("match").setAttribute("aria-busy", busy);
    for (const button of document.querySelectorAll("#move-form button")) button.disabled = begins;
    if (begins) say("The others are moving …");
  }

  async function ask(name, more) {
    work(true);
    try {
      show(await patiently(() => call(name, { name: player(), ...sitting(), ...more })));
      return true;
    } catch (error) {
      say(error.message, true);
      return false;
    } finally {
      work(false);
    }
  }

  async function begin() {
    $("match").hidden = true;
    if (!player()) {
      $("name-form").hidden = false;
      $("name-form").elements.player.focus();
      return;
    }
    $("as").textContent = `You play as ${player()}.`;
    $("rename").hidden = false;
    if (!await ask("begin", {})) {
      localStorage.removeItem(SITTING);
      $("name-form").hidden = false;
    }
  }

  function show(reply) {
    localStorage.setItem(SITTING, JSON.stringify(reply.over ? { match: "", moves: [] } : { match: reply.match, moves: reply.moves }));
    say(reply.over ? "The match is over, and recorded." : "");
    $("place").textContent = `${reply.game}: you are ${reply.seat}`;
    $("chat").replaceChildren(...reply.chat.map((each) => message(each.role, each.text)));
    $("move-form").hidden = reply.over;
    $("after").hidden = !reply.over;
    $("scores").hidden = !reply.over;
    const actions = reply.actions || [];
    $("actions").hidden = actions.length === 0;
    $("writing").hidden = actions.length > 0;
    $("hint").hidden = reply.over || actions.length > 0;
    $("actions").replaceChildren(...actions.map((action) => {
      const button = element("button", "", action);
      button.type = "button";
      button.addEventListener("click", () => move(action));
      return button;
    }));
    if (reply.over) $("scores").replaceChildren(...scores(reply));
    $("warning").textContent = reply.warning;
    if (reply.warning && reply.moves.length === 0) cover(true);
    $("match").hidden = false;
    ((reply.over ? $("again") : actions.length ? $("actions").firstChild : $("text"))).focus();
  }

  function scores(reply) {
    const rows = reply.scores.map(([seat, ...values]) => element("p", "", `${seat}: ${values.map(([name, value]) => `${name} ${value}`).join(", ")}`));
    if (reply.reason) rows.push(element("p", "", `not judged: ${reply.reason}`));
    return rows;
  }

  function cover(covered) {
    $("covered").hidden = !covered;
    $("open").hidden = covered;
    if (covered) $("uncover").focus();
  }

  async function move(text) {
    if (busy || !text.trim()) return;
    if (await ask("move", { text })) $("text").value = "";
  }

  $("move-form").addEventListener("submit", (event) => {
    event.preventDefault();
    move($("text").value);
  });
  $("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      move($("text").value);
    }
  });
  $("again").addEventListener("click", begin);
  $("uncover").addEventListener("click", () => { cover(false); $("text").focus(); });
  $("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    localStorage.setItem(NAME, event.target.elements.player.value.trim());
    event.target.hidden = true;
    begin();
  });
  $("rename").addEventListener("click", () => {
    localStorage.removeItem(NAME);
    localStorage.removeItem(SITTING);
    begin();
  });
  begin();
})();
