"use strict";
// The conversation is kept here and goes with every question; answers arrive as lines of JSON, piece by piece.
(() => {
  const { base } = JSON.parse(document.getElementById("facts").textContent);
  const field = id => document.getElementById(id);
  const list = field("turns"), form = field("form"), question = field("question"), send = field("send");
  let turns = [], running = null;

  function add(className, text) {
    const li = document.createElement("li");
    li.className = "written " + className;
    list.append(mathematics.write(li, text));
    li.scrollIntoView({ block: "end" });
    return li;
  }

  // Lines of JSON from a response, as they come.
  async function* lines(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ; ) {
      const { done, value } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n");
      rest = parts.pop();
      for (const part of parts) yield JSON.parse(part);
    }
  }

  async function ask(text) {
    add("question", text);
    const li = add("answer", "");
    li.setAttribute("aria-busy", "true");
    const before = turns; // another list once the conversation is forgotten
    let said = base ? text : ""; // a base model goes on with the text
    running = new AbortController();
    send.textContent = "Stop";
    try {
      const body = JSON.stringify({ turns: before, question: text }), headers = { "Content-Type": "application/json" };
      const response = await fetch("/answer", { method: "POST", headers, body, signal: running.signal });
      if (!response.ok) throw new Error(`the server answered ${response.status}`);
      for await (const line of lines(response)) {
        if (line.error) throw new Error(line.error);
        mathematics.write(li, (said += line.text ?? ""));
        li.scrollIntoView({ block: "end" });
      }
    } catch (error) {
      if (error.name !== "AbortError") add("problem", error.message);
    }
    li.removeAttribute("aria-busy");
    if (said) before.push({ question: text, answer: said });
    else li.remove();
    running = null;
    send.textContent = "Ask";
  }

  form.addEventListener("submit", event => {
    event.preventDefault();
    if (running) return running.abort();
    const text = question.value.trim();
    if (!text) return;
    question.value = "";
    ask(text);
  });
  question.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!running) form.requestSubmit();
  });
  field("new").addEventListener("click", () => {
    running?.abort();
    turns = [];
    list.replaceChildren();
    question.focus();
  });
  question.focus();
})();
