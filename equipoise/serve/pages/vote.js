// Asks a person about two answers at a time. A vote is kept here until the server has it.
(() => {
  const PENDING = "equipoise vote", NAME = "equipoise voter";
  const skipped = [];
  let shown = null, busy = false;

  const voter = () => localStorage.getItem(NAME) || "";

  function work(begins) {
    busy = begins;
    $("question").setAttribute("aria-busy", busy);
  }

  function hide() {
    $("question").hidden = true;
    shown = null;
  }

  function counts(reply) {
    const all = reply.all === undefined ? "" : `; ${reply.all} by everybody`;
    $("keys").hidden = reply.votes === 0;  // they are of use to whoever has seen a question
    $("counts").textContent = `${reply.votes} votes of yours are kept${all}`;
  }

  async function begin() {
    hide();
    if (!voter()) {
      $("name-form").hidden = false;
      $("name-form").elements.voter.focus();
      return;
    }
    $("as").textContent = `You vote as ${voter()}.`;
    $("rename").hidden = false;
    work(true);
    try {
      await send();
      await next();
    } catch (error) {
      say(error.message, true);
      $("name-form").hidden = false;  // the name may be to blame
    }
    work(false);
  }

  async function guarded(work) {
    try {
      await work();
    } catch (error) {
      say(error.message, true);
    }
  }

  async function next() {
    const reply = await patiently(() => call("question", { voter: voter(), skipped }));
    counts(reply);
    $("about").textContent = reply.about;
    $("about").hidden = false;
    shown = reply.question;
    if (shown === null) {
      hide();
      say("Thank you. There is nothing left to ask you.");
      return;
    }
    say("");
    $("chat").replaceChildren(...shown.chat.map((each) => message(each.role, each.text)));
    $("left").textContent = shown.left.text;
    $("right").textContent = shown.right.text;
    $("left").scrollTop = $("right").scrollTop = 0;
    $("reason").value = "";
    $("warning").textContent = shown.warning;
    cover(shown.warning !== "");
    $("question").hidden = false;
    scrollTo(0, 0);
    $("title").focus({ preventScroll: true });
  }

  function cover(covered) {
    $("covered").hidden = !covered;
    $("chat").hidden = $("answers").hidden = $("vote-form").hidden = covered;
    if (covered) $("uncover").focus();
  }

  // What is pending is sent until the server has it; the server counts it once, however often it comes.
  async function send() {
    const pending = localStorage.getItem(PENDING);
    if (!pending) return;
    try {
      counts(await patiently(() => call("vote", JSON.parse(pending))));
      localStorage.removeItem(PENDING);
    } catch (error) {
      localStorage.removeItem(PENDING);  // the server will never take it, and says why
      throw error;
    }
  }

  async function choose(choice) {
    if (busy || shown === null || !$("covered").hidden) return;
    work(true);
    const place = ({ match, seat }) => ({ match, seat });
    const vote = { voter: voter(), left: place(shown.left), right: place(shown.right), choice, reason: $("reason").value };
    localStorage.setItem(PENDING, JSON.stringify(vote));
    await guarded(async () => {
      await send();
      await next();
    });
    work(false);
  }

  async function skip() {
    if (busy || shown === null) return;
    work(true);
    skipped.push(shown.id);
    await guarded(next);
    work(false);
  }

  for (const button of document.querySelectorAll("[data-choice]")) {
    button.addEventListener("click", () => choose(button.dataset.choice));
  }
  $("skip").addEventListener("click", skip);
  $("uncover").addEventListener("click", () => { cover(false); $("title").focus(); });
  $("vote-form").addEventListener("submit", (event) => event.preventDefault());
  $("name-form").addEventListener("submit", (event) => {
    event.preventDefault();
    localStorage.setItem(NAME, event.target.elements.voter.value.trim());
    event.target.hidden = true;
    begin();
  });
  $("rename").addEventListener("click", () => {
    localStorage.removeItem(NAME);
    begin();
  });
  const keys = { a: "left", arrowleft: "left", b: "right", arrowright: "right", t: "tie", x: "both_bad" };
  document.addEventListener("keydown", (event) => {
    if (typing(event) || event.repeat || shown === null) return;
    const key = event.key.toLowerCase();
    if (keys[key]) choose(keys[key]);
    else if (key === "s") skip();
    else return;
    event.preventDefault();
  });
  begin();
})();
