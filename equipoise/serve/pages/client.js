"use strict";
// What every page for people does: it sends its token, shows texts as texts, and says what goes wrong.

const $ = (id) => document.getElementById(id);

// The token stands after # in the address that the server printed; it leaves the address bar, and is never sent in one.
if (location.hash.length > 1) {
  sessionStorage.setItem("token", decodeURIComponent(location.hash.slice(1)));
  history.replaceState(null, "", location.pathname);
}

class Refusal extends Error {
  constructor(status, message) { super(message); this.status = status; }
}

async function call(name, body) {
  const headers = { "content-type": "application/json" };
  const token = sessionStorage.getItem("token");
  if (token) headers.authorization = "Bearer " + token;
  const reply = await fetch("/api/" + name, { method: "POST", headers, body: JSON.stringify(body), credentials: "omit" });
  const content = await reply.json();
  if (!reply.ok) throw new Refusal(reply.status, content.error.message);
  return content;
}

function say(text, bad = false) {
  $("status").textContent = text;
  $("status").classList.toggle("bad", bad);
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function message(role, text) {
  const made = element("div", "message");
  const body = element("div", "text", text);
  body.dir = "auto";
  made.append(element("span", "role", role), body);
  return made;
}

const typing = (event) => /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey;

// Until `work` is done: a server that is away or busy is asked again, a missing token is asked of the person.
async function patiently(work) {
  for (let wait = 500; ; wait = Math.min(2 * wait, 5000)) {
    try {
      return await work();
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        await newToken();
      } else if (!(error instanceof Refusal) || error.status >= 500 || error.status === 429) {
        say("The server does not answer; nothing is lost. Trying again …", true);
        await new Promise((done) => setTimeout(done, wait));
      } else {
        throw error;
      }
    }
  }
}

function newToken() {
  const form = $("token-form");
  say("This page needs the token that the server printed when it was started.", true);
  form.hidden = false;
  form.elements.token.focus();
  return new Promise((done) => {
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem("token", form.elements.token.value.trim());
      form.reset();
      form.hidden = true;
      say("");
      done();
    };
  });
}
