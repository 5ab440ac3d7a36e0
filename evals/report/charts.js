"use strict";
// Under the pointer a line chart says its values: the nearest point of the x axis, and every line's value there.
(() => {
  const told = document.createElement("div");
  told.id = "told";
  told.hidden = true;
  told.setAttribute("aria-hidden", "true"); // the tables say the same
  document.body.append(told);
  const points = line => [...line.points].map(p => [p.x, p.y]);
  const near = (line, x) => points(line).reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));

  function tell(svg, event) {
    // where the axes lie in the drawing (left, right, bottom, top) and the values at their ends
    const [left, right, bottom, top, x0, x1, y0, y1] = svg.dataset.axes.split(" ").map(Number);
    const box = svg.getBoundingClientRect(), width = svg.viewBox.baseVal.width;
    const lines = [...svg.querySelectorAll("polyline")];
    const x = near(lines[0], ((event.clientX - box.left) / box.width) * width)[0];
    const position = x0 + ((x - left) / (right - left || 1)) * (x1 - x0);
    const [log, name] = svg.dataset.x.startsWith("log ") ? [true, svg.dataset.x.slice(4)] : [false, svg.dataset.x];
    told.replaceChildren(`${name} ${Math.round(log ? 2 ** position : position).toLocaleString("en")}`);
    for (const line of lines) {
      const y = near(line, x)[1], value = y0 + ((y - bottom) / (top - bottom)) * (y1 - y0);
      const row = document.createElement("div"), colour = document.createElement("i");
      colour.style.background = line.dataset.color;
      row.append(colour, `${line.dataset.name}: ${Number(value.toPrecision(3))}`);
      told.append(row);
    }
    told.hidden = false;
    told.style.left = Math.min(event.clientX + 14, innerWidth - told.offsetWidth - 8) + "px";
    told.style.top = Math.min(event.clientY + 14, innerHeight - told.offsetHeight - 8) + "px";
  }

  for (const svg of document.querySelectorAll("svg[data-axes]")) {
    svg.addEventListener("pointermove", event => tell(svg, event));
    svg.addEventListener("pointerleave", () => (told.hidden = true));
  }
})();
