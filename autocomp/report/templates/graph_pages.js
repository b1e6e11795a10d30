// The pages beside the pictures: a kernel's loops with what depends on what, other covers, rules, memory, prices. Each gives elements.
function graphPages(data, { el, make, loops, again }) {
  const LINE = 17, CHAR = 6.7; // of the code in a picture of loops

  function table(head, rows, caption) {
    const t = el("table"), tr = el("tr");
    if (caption) t.append(el("caption", caption));
    for (const h of head) tr.append(el("th", h, { scope: "col" }));
    t.append(tr);
    for (const r of rows) { const line = el("tr"); for (const v of r) { const td = v instanceof Node ? el("td") : el("td", String(v), typeof v === "number" ? { class: "n" } : {}); if (v instanceof Node) td.append(v); line.append(td); } t.append(line); }
    return t;
  }
  function bar(part, text) { // a bar of a share of 0 to 1
    const s = make("svg", { width: 90, height: 12, role: "img", "aria-label": text });
    s.append(make("rect", { x: 0, y: 1, width: Math.max(1, 88 * part).toFixed(1), height: 10, class: "bar" }), make("title", {}, text));
    return s;
  }

  // ---- loops
  // Lines of code with an arrow from each statement to those that must run behind it, at the right.
  function code(lines, arrows, label) {
    const at = {}, own = (l) => arrows.filter((a) => l.statement && a.from === l.statement && a.to === l.statement).map((a) => ` (${a.distance.join(", ")})`).join("");
    const width = Math.max(...lines.map((l) => l.text.length + own(l).length)) * CHAR + 10;
    lines.forEach((l, i) => { if (l.statement) at[l.statement] = i; });
    const here = arrows.filter((a) => a.from in at && a.to in at).sort((a, b) => Math.abs(at[a.from] - at[a.to]) - Math.abs(at[b.from] - at[b.to]));
    const room = 30 + here.length * 16, s = make("svg", { width: width + room, height: lines.length * LINE + 12, class: "code", role: "img", "aria-label": `${label}: ${lines.map((l) => l.text.trim()).join("; ")}` });
    lines.forEach((l, i) => {
      const text = make("text", { x: 4 + CHAR * (l.text.length - l.text.trimStart().length), y: 16 + i * LINE, class: l.statement ? "statement" : "loop" }, l.text.trim());
      if (own(l)) text.append(make("tspan", { class: "distance", dx: 6 }, own(l).trim()));
      s.append(text);
    });
    const used = {};
    here.forEach((a, n) => {
      const y0 = 12 + at[a.from] * LINE, y1 = 12 + at[a.to] * LINE, g = make("g", { class: "dependence " + a.kind, "data-from": a.from, "data-to": a.to });
      const x = width + 18 + (here.filter((b, m) => m < n && b.from !== b.to).length + 1) * 14;
      g.append(make("title", {}, `${a.kind}: ${a.from} before ${a.to}${a.distance.length ? `, distance (${a.distance.join(", ")})` : ""}`));
      const slot = (i) => { used[i] = (used[i] || 0) + 1; return (used[i] - 1) * 3; };
      if (a.from === a.to) g.append(make("path", { d: `M${width},${y0 - 4} h11 v8 h-9`, "marker-end": "url(#tip)" }));
      else { const p = y0 + slot(at[a.from]), q = y1 - 4 + slot(at[a.to] + 0.5); g.append(make("path", { d: `M${width},${p} H${x} V${q} H${width + 2}`, "marker-end": "url(#tip)" })); }
      s.append(g);
    });
    const tip = make("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto" }), defs = make("defs");
    tip.append(make("path", { d: "M0,0 L8,4 L0,8 z", class: "head" }));
    defs.append(tip);
    s.prepend(defs);
    return s;
  }
  // The two iterations of a refusal, as points of a lattice over the (at most two) axes that say most; of two statements, a lattice each.
  function points([a, b]) {
    const one = a.statement === b.statement, of = (p) => Object.fromEntries(p.at), A = of(a), B = of(b);
    const names = [...new Set([...a.at, ...b.at].map(([n]) => n))];
    const differs = (n) => A[n] !== B[n];
    const axes = [...names].sort((m, n) => differs(n) - differs(m)).slice(0, 2);
    const most = axes.map((n) => Math.max(A[n] || 0, B[n] || 0) + 2), step = 22, cell = (k) => Math.min(most[k] || 1, 9);
    const [wide, high] = [cell(0) * step, cell(1) * step];
    const s = make("svg", { width: (one ? 1 : 2) * (wide + 70) + 60, height: high + 30, class: "lattice", role: "img", "aria-label": `${a.statement} ${JSON.stringify(a.at)} before ${b.statement} ${JSON.stringify(b.at)}` });
    const place = (p, P, n) => [34 + (one ? 0 : n) * (wide + 70) + Math.min(P[axes[0]] ?? 0, 8) * step, 26 + Math.min(P[axes[1]] ?? 0, 8) * step];
    for (const n of one ? [0] : [0, 1]) {
      const x0 = 34 + n * (wide + 70), P = n ? B : A, has = (k) => axes[k] !== undefined && (one || P[axes[k]] !== undefined);
      s.append(make("text", { x: x0 - 8, y: 12, class: "axis" }, `${(n ? b : a).statement}${has(0) ? `, ${axes[0]} to the right` : ""}${has(1) ? `, ${axes[1]} down` : ""}`));
      for (let i = 0; i < (has(0) ? cell(0) : 1); i++) for (let j = 0; j < (has(1) ? cell(1) : 1); j++) s.append(make("circle", { cx: x0 + i * step, cy: 26 + j * step, r: 2.5, class: "iteration" }));
    }
    const [x0, y0] = place(a, A, 0), [x1, y1] = place(b, B, 1), far = Math.hypot(x1 - x0, y1 - y0) || 1, cut = 7 / far;
    s.append(make("circle", { cx: x0, cy: y0, r: 6, class: "earlier" }), make("circle", { cx: x1, cy: y1, r: 6, class: "later" }));
    if (far > 14) s.append(make("path", { d: `M${x0 + (x1 - x0) * cut},${y0 + (y1 - y0) * cut} L${x1 - (x1 - x0) * cut},${y1 - (y1 - y0) * cut}`, class: "must", "marker-end": "url(#tip)" }));
    return s;
  }
  function loopsPage() {
    const names = Object.keys(data.kernels).filter((k) => data.kernels[k].nest), chosen = loops();
    if (!names.length) return [el("h2", "Loops"), el("p", "No kernel of this program has loops of its own.")];
    const pick = el("select", undefined, { "aria-label": "kernel", id: "kernel" });
    for (const n of names) pick.append(el("option", n, n === chosen ? { selected: "" } : {}));
    pick.onchange = () => { loops(pick.value); again(); };
    const k = data.kernels[chosen], { before, after, arrows, moves } = k.nest, head = el("p", "Kernel ");
    head.append(pick, ` ${k.time}, bound by ${k.bound}; schedule: ${k.schedule || "none"}`);
    const side = (title, child, note) => { const d = el("div", undefined, { class: "side" }); d.append(el("h3", title), child); if (note) d.append(el("p", note, { class: "soft" })); return d; };
    const both = el("div", undefined, { class: "sides" });
    both.append(side("As the kernel means it: I begins a reduction, U folds one element into it, S stores", code(before, arrows, "loops before")));
    if (after.length) both.append(side("As the schedule runs it", code(after, arrows, "loops after")));
    if (k.tile) both.append(side("The tile program", el("pre", k.tile)));
    const rows = moves.map((m) => { const d = el("div"); d.append(el("span", m.text)); if (m.points.length) d.append(el("br"), points(m.points)); return [m.move, m.ok ? "legal" : "refused", d]; });
    return [el("h2", "Loops, dependences and moves"), head,
      el("p", "Arrows: the statement at the tip must run after the one at the other end. An arrow from a statement to itself: iterations that wait for each other, in brackets how far apart, an axis each (* where that varies). Solid: reads what was written; dashed: overwrites what was read; dotted: overwrites what was written.", { class: "soft" }),
      both, el("h2", "May this move be made?"), table(["move", "answer", "why"], rows)];
  }

  // ---- other covers
  function coversPage() {
    const { named, others, all } = data.covers, best = named.length ? named[0][1] : 0;
    const more = (t) => (best && t !== best ? (t / best - 1 >= 0 ? "+" : "") + ((t / best - 1) * 100).toFixed(Math.abs(t / best - 1) < 0.0995 ? 2 : 0) + " %" : "");
    const most = Math.max(best, ...named.map((n) => n[1]));
    return [el("h2", "Other choices of kernels, by what the cover counts for them"),
      table(["choice", "kernels", "price", "beside the chosen", ""], named.map(([n, t, k]) => [n, k ?? "", seconds(t), more(t), bar(t / (most || 1), seconds(t))])),
      el("p", "A cover counts each body before it has a schedule; the predicted time of the program is that of the schedules.", { class: "soft" }),
      el("h2", `One tensor by another kernel, the rest as it is: the nearest of ${all || 0}`),
      table(["tensor of", "its kernel would compute", "and read", "all kernels", "beside the chosen"], others.map((o) => [o.tensor, o.ops.join(" ") || "nothing: it would read it as it lies", o.reads.join(", "), seconds(o.total), more(o.total)]))];
  }

  // ---- rules, prices, memory
  function rulesPage() {
    const grown = data.rules.filter((r) => r.terms || r.seconds), most = Math.max(1, ...grown.map((r) => r.terms)), time = Math.max(1e-9, ...grown.map((r) => r.seconds));
    grown.sort((a, b) => b.terms - a.terms || b.seconds - a.seconds);
    const out = [el("h2", "Growth by phase"), table(["phase", "terms after it", "fired", "time"], data.phases.map((p) => [p.name, p.terms ?? "", p.fired ?? "", seconds(p.seconds)]))];
    if (grown.length) out.push(el("h2", "Growth by rule"), table(["rule", "phase", "matches", "fired", "terms made", "", "time", ""], grown.map((r) => [r.rule, r.phase, r.matches, r.fired, r.terms, bar(r.terms / most, `${r.terms} terms`), seconds(r.seconds), bar(r.seconds / time, seconds(r.seconds))])));
    return [...out, el("h2", "Rules that fired or were refused"), table(["rule", "phase", "fired", "refused", "commonest reason"], data.rules.map((r) => [r.rule, r.phase, r.fired, r.refused, cut(r.why, 160)]))];
  }
  function pricesPage() {
    const rows = Object.entries(data.kernels).sort((a, b) => b[1].seconds * b[1].calls - a[1].seconds * a[1].calls), most = Math.max(1e-12, ...rows.map(([, k]) => k.seconds * k.calls));
    const part = (k) => `${((100 * k.seconds * k.calls) / (data.predicted || 1)).toFixed(1)} %`;
    return [el("h2", "Kernels by their part of the predicted time"), table(["kernel", "calls", "each", "part", "", "bound", "of roofline", "schedule"], rows.map(([n, k]) => [n, k.calls, k.time, part(k), bar((k.seconds * k.calls) / most, part(k)), k.bound, k.roofline ? Math.round(100 * k.roofline) + " %" : "", k.schedule])),
      el("h2", "Stages of the compilation"), table(["stage", "time"], data.stages.map((s) => [s.name, seconds(s.seconds)]))];
  }
  function memoryPage() {
    const m = data.memory, W = 820, H = 400, calls = Math.max(1, data.calls.length);
    const s = make("svg", { viewBox: `0 0 ${W + 70} ${H + 40}`, class: "wide", role: "img", "aria-label": `intermediate tensors in an arena of ${bytes(m.bytes)}` });
    m.tensors.forEach(([name, at, size, first, last], i) => {
      const g = make("g"), x = 60 + (W * first) / calls, w = Math.max(1, (W * (last - first + 1)) / calls - 1), y = 10 + (H * at) / (m.bytes || 1), h = Math.max(1, (H * size) / (m.bytes || 1) - 0.5);
      g.append(make("title", {}, `${name}: ${bytes(size)} at ${at}, calls ${first + 1} to ${last + 1}`), make("rect", { x, y, width: w, height: h, fill: `hsl(${(i * 67) % 360} 55% 70%)` }));
      if (w > name.length * 7 + 6 && h > 14) g.append(make("text", { x: x + 3, y: y + 12, "font-size": 10, fill: "#17212b" }, name));
      s.append(g);
    });
    s.append(make("text", { x: 54, y: 18, "font-size": 11, "text-anchor": "end", fill: "currentColor" }, "0"), make("text", { x: 54, y: H + 12, "font-size": 11, "text-anchor": "end", fill: "currentColor" }, bytes(m.bytes)), make("text", { x: 60, y: H + 30, "font-size": 11, fill: "currentColor" }, `calls 1 to ${data.calls.length}, from left to right`));
    const rows = [...m.tensors].sort((a, b) => a[3] - b[3] || a[1] - b[1]);
    return [el("h2", `Intermediate tensors share ${bytes(m.bytes)}`), s, table(["tensor", "offset", "bytes", "first call", "last call"], rows.map(([n, at, size, a, b]) => [n, at, size, a + 1, b + 1]))];
  }
  return { loops: loopsPage, covers: coversPage, rules: rulesPage, memory: memoryPage, prices: pricesPage };
}
