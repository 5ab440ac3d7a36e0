"use strict";
// Text with LaTeX in it as nodes of the document. Text stays text: nothing is ever parsed as HTML, and KaTeX is told
// to trust nothing (no links, no images, no attributes) and to expand little.
const mathematics = (() => {
  const LONGEST = 3000; // characters of one formula; longer ones stay text
  const OPTIONS = { throwOnError: true, strict: "ignore", trust: false, maxSize: 20, maxExpand: 200 };
  // A single dollar opens before something that is no space and closes after such, not before a digit: prices stay text.
  const FORMULA = /\\\$|\$\$([\s\S]+?)\$\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$(?!\s)((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|\\boxed\s*\{/g;

  // The place after the brace that closes the one before `start`, or -1.
  function closing(text, start) {
    for (let i = start, depth = 1; i < text.length; i++) {
      if (text[i] === "\\") i++;
      else if (text[i] === "{") depth++;
      else if (text[i] === "}" && --depth === 0) return i + 1;
    }
    return -1;
  }

  // [{text}] and [{tex, display, text}] in the order of `text`.
  function pieces(text) {
    const found = [];
    let from = 0;
    FORMULA.lastIndex = 0;
    for (let match; (match = FORMULA.exec(text)); ) {
      let [all, dollars, brackets, parentheses, dollar] = match;
      let tex = dollars ?? brackets ?? parentheses ?? dollar;
      if (all.startsWith("\\boxed")) {
        const end = closing(text, FORMULA.lastIndex);
        if (end < 0) continue;
        tex = all = text.slice(match.index, end);
        FORMULA.lastIndex = end;
      }
      if (tex === undefined || tex.length > LONGEST) continue;
      if (match.index > from) found.push({ text: text.slice(from, match.index) });
      found.push({ tex, text: all, display: dollars !== undefined || brackets !== undefined });
      from = FORMULA.lastIndex;
    }
    if (from < text.length) found.push({ text: text.slice(from) });
    return found;
  }

  function node(piece) {
    if (piece.tex === undefined) return document.createTextNode(piece.text);
    const span = document.createElement("span");
    if (piece.display) span.className = "display";
    try {
      katex.render(piece.tex, span, { ...OPTIONS, displayMode: piece.display });
    } catch {
      span.textContent = piece.text; // not LaTeX that KaTeX can read
    }
    return span;
  }

  return {
    pieces,
    // Replace what `element` holds with `text`, its formulas drawn; as it was written when `drawn` is false.
    write(element, text, drawn = true) {
      element.replaceChildren(...(drawn ? pieces(text).map(node) : [document.createTextNode(text)]));
      return element;
    },
  };
})();
