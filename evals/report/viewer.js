"use strict";
// The viewer: a list that holds only the rows in sight, and the chosen answer or rollout with its formulas drawn.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const names = JSON.parse(document.getElementById("names").textContent); // benchmarks and checkpoints as one says them
  const ROW = 62, SPARE = 8; // pixels a row, as in report.css; rows drawn beyond the edge of sight
  const STRONG = 2; // an advantage of this size has the strongest colour
  const field = id => document.getElementById(id);
  const list = field("list"), rows = field("rows"), shown = field("shown");
  let kind = data.answers.length ? "answers" : "rollouts", found = [], chosen = null, at = 0;

  function element(tag, text, className) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (className) e.className = className;
    return e;
  }
  const number = (x, digits = 2) => (x > 0 ? "+" : x < 0 ? "−" : "") + Math.abs(x).toFixed(digits);
  const verdict = s => s.r ? "✓ right" : "✗ wrong";
  const place = s => kind === "answers"
    ? `${names[s.b]} ${s.i} · ${names[s.c]}, ${s.m}` : `step ${s.p} · advantage ${number(s.d)}`;

  // ---- which rows
  function filtered() {
    const value = id => field(id).value, words = value("search").trim().toLowerCase();
    const [b, c, m, v, p] = ["benchmark", "checkpoint", "mode", "verdict", "step"].map(value);
    const answers = kind === "answers";
    return data[kind].filter(s =>
      (!v || s.r === (v === "right")) &&
      (answers ? (!b || s.b === b) && (!c || s.c === c) && (!m || s.m === m) : !p || s.p === Number(p)) &&
      (!words || (s.words ??= (data.questions[s.q] + "\n" + s.t).toLowerCase()).includes(words)));
  }
  function refresh() {
    for (const e of document.querySelectorAll(".controls [data-kind]")) e.hidden = e.dataset.kind !== kind;
    found = filtered();
    const right = found.filter(s => s.r).length;
    const share = found.length ? `, ${(100 * right / found.length).toFixed(1)}% right` : "";
    field("count").textContent = `${found.length.toLocaleString("en")} found${share}`;
    rows.style.height = found.length * ROW + "px";
    list.scrollTop = 0;
    choose(0);
  }

  // ---- the list
  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - SPARE);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + SPARE);
    const inSight = [];
    for (let i = first; i < last; i++) inSight.push(row(found[i], i));
    rows.replaceChildren(...inSight);
    const active = rows.querySelector("[aria-selected=true]");
    if (active) list.setAttribute("aria-activedescendant", active.id);
    else list.removeAttribute("aria-activedescendant");
  }
  function row(s, i) {
    const e = element("div", undefined, "row"), about = element("span");
    e.id = "row-" + i;
    e.style.top = i * ROW + "px";
    for (const [key, value] of [["role", "option"], ["aria-selected", i === at], ["aria-setsize", found.length], ["aria-posinset", i + 1]])
      e.setAttribute(key, value);
    about.append(element("b", verdict(s), s.r ? "right" : "wrong"), ` · ${place(s)} · ${s.a === null ? "no answer" : "answer " + s.a}`);
    e.append(element("span", data.questions[s.q].slice(0, 160)), about);
    e.addEventListener("click", () => choose(i));
    return e;
  }
  function choose(i) {
    at = i;
    show(found[i] ?? null);
    if (i * ROW < list.scrollTop) list.scrollTop = i * ROW;
    else if ((i + 1) * ROW > list.scrollTop + list.clientHeight) list.scrollTop = (i + 1) * ROW - list.clientHeight;
    draw();
  }
  list.addEventListener("keydown", event => {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -at, End: found.length - 1 - at }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    choose(Math.max(0, Math.min(found.length - 1, at + step)));
  });
  let waiting = false;
  list.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(() => { waiting = false; draw(); });
    waiting = true;
  });

  // ---- the chosen one
  function show(s) {
    chosen = s;
    shown.scrollTop = 0;
    shown.setAttribute("aria-label", s ? "Chosen: " + place(s) : "Nothing chosen");
    if (!s) return shown.replaceChildren(element("p", "Nothing found.", "soft"));
    const title = element("h3", place(s) + " · ");
    title.append(element("span", verdict(s), s.r ? "right" : "wrong"));
    shown.replaceChildren(title, element("h4", "Question"), text(data.questions[s.q]),
      element("h4", kind === "answers" ? "Answer" : "Output"), output(s), facts(s), element("h4", heading(s)), others(s));
  }
  function text(written, className = "") {
    const drawn = field("drawn").checked;
    return mathematics.write(element("div", undefined, "written " + className + (drawn ? "" : " source")), written, drawn);
  }
  // Outcome supervision gives every token of an output one advantage, process supervision every token of a step.
  function output(s) {
    if (kind === "answers") return text(s.t || "(nothing)", "output");
    const box = element("div", undefined, "written output" + (field("drawn").checked ? "" : " source"));
    for (const [written, advantage] of s.s ?? [[s.t, s.d]]) {
      const span = mathematics.write(element("span", undefined, "advantage"), written.replace(/\n+$/, ""), field("drawn").checked);
      span.style.setProperty("--tint", advantage < 0 ? "var(--minus)" : "var(--plus)");
      span.style.setProperty("--share", Math.min(1, Math.abs(advantage) / STRONG) * 60 + "%");
      span.title = "advantage " + number(advantage, 4);
      box.append(span, element("sup", number(advantage)), /\n+$/.exec(written)?.[0] ?? "");
    }
    return box;
  }
  // An answer is LaTeX without dollars round it.
  const formula = answer => /\\[a-z]/i.test(answer) && !/\$|\\\(|\\boxed/.test(answer) ? `\\(${answer}\\)` : answer;
  function facts(s) {
    const told = [["Gold answer", s.g], ["Answer found", s.a ?? "none"], ["Tokens", s.n + (s.f === "length" ? ", cut off" : "")]];
    if (kind === "rollouts") told.push(["Reward", s.w], ["Advantage", s.s ? "by step" : number(s.d, 4) + ", every token"]);
    const dl = element("dl", undefined, "facts");
    for (const [name, value] of told) {
      const pair = document.createElement("div");
      pair.append(element("dt", name), mathematics.write(element("dd"), formula(String(value))));
      dl.append(pair);
    }
    return dl;
  }
  const heading = s => kind === "answers" ? "All answers to this question" : "Its group";
  function others(s) {
    const same = data[kind].filter(o => o.q === s.q && (kind === "answers" ? o.b === s.b : o.h === s.h));
    const ul = element("ul", undefined, "others");
    for (const o of same) {
      const button = element("button"), li = element("li");
      button.append(element("span", o.r ? "✓" : "✗", o.r ? "right" : "wrong"),
        kind === "answers" ? ` ${names[o.c]}, ${o.m}: ${o.a ?? "no answer"}` : ` ${o.a ?? "no answer"}, ${number(o.d)}`);
      button.setAttribute("aria-current", o === s);
      button.addEventListener("click", () => found.includes(o) ? choose(found.indexOf(o)) : show(o));
      li.append(button);
      ul.append(li);
    }
    return ul;
  }

  // ---- controls
  for (const id of ["benchmark", "checkpoint", "mode", "verdict", "step"]) field(id).addEventListener("input", refresh);
  let typed;
  field("search").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(refresh, 120); });
  field("drawn").addEventListener("input", () => show(chosen));
  for (const radio of document.getElementsByName("kind")) {
    radio.checked = radio.value === kind;
    radio.addEventListener("input", () => { kind = radio.value; refresh(); });
  }
  const theme = field("theme"), dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  theme.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? (dark() ? "dark" : "light");
    document.documentElement.dataset.theme = now === "dark" ? "light" : "dark";
  });
  refresh();
})();
