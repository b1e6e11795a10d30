// The interactive graph page: what draws, and what answers the mouse and the keys. Behind graph_layout.js.

if (typeof document !== "undefined") start(JSON.parse(document.getElementById("data").textContent));

function start(data) {
  const $ = (id) => document.getElementById(id);
  const picture = $("picture"), panel = $("panel"), page = $("page"), NS = "http://www.w3.org/2000/svg";
  const HUE = { E: 212, S: 141, N: 170, C: 33, K: 24, O: 0, R: 267 };  // of a form's boxes; X has none: it is grey
  const scenes = { kernels: kernelScene(data), model: modelScene(data) };
  const open = { kernels: firstOpen(scenes.kernels), model: firstOpen(scenes.model) };
  let view = "kernels", picked = null, shown = null, places = null, hits = new Set(), camera = { x: 0, y: 0, k: 1 };
  const make = (tag, attrs = {}, text) => {
    const e = document.createElementNS(NS, tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const el = (tag, text, attrs = {}) => {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    return e;
  };
  let loopsOf = Object.keys(data.kernels).find((k) => data.kernels[k].nest);
  const pages = graphPages(data, { el, make, list: (items) => list(items), loops: (name) => (name ? (loopsOf = name) : loopsOf), again: () => setView(view) });
  const hue = (b) => (b.kind === "call" ? (b.call * 47) % 360 : HUE[b.kind]);

  const pen = document.createElement("canvas").getContext("2d");
  const FONT = { title: "bold 13px Helvetica,Arial,sans-serif", second: "11px Helvetica,Arial,sans-serif", label: "10px Helvetica,Arial,sans-serif" };
  const width = (text, font) => { pen.font = FONT[font]; return pen.measureText(text).width; };
  function fitted(text, font, room) { // the text, or what of it has room
    if (width(text, font) <= room) return text;
    let low = 0, high = text.length;
    while (low < high) { const m = (low + high + 1) >> 1; if (width(text.slice(0, m) + "…", font) <= room) low = m; else high = m - 1; }
    return text.slice(0, low) + "…";
  }

  function draw() {
    const scene = scenes[view], window = picture.getBoundingClientRect();
    shown = seen(scene, open[view]);
    places = layered(shown.boxes.map((b) => b.id), shown.edges, BOX, { w: window.width, h: window.height });
    picture.replaceChildren();
    const arrow = make("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" }), defs = make("defs");
    arrow.append(make("path", { d: "M0,0 L8,4 L0,8 z", class: "head" }));
    defs.append(arrow);
    const world = make("g", { id: "world" });
    shown.edges.forEach((e, i) => {
      const path = make("path", { d: places.paths[i], class: "edge", "data-from": e.from, "data-to": e.to, "marker-end": "url(#arrow)", "aria-hidden": true });
      path.append(make("title", {}, e.titles.slice(0, 12).join("\n")));
      world.append(path);
    });
    const back = backwards(shown.carried, places.at);
    shown.carried.forEach((e, i) => {
      const path = make("path", { d: back[i].path, class: "edge carried", "data-from": e.from, "data-to": e.to, "marker-end": "url(#arrow)", "aria-hidden": true });
      path.append(make("title", {}, e.titles.join("\n")));
      world.append(path);
    });
    const half = { w: BOX.w / 2, h: BOX.h / 2 };
    if (shown.edges.length < 400) {
      const handed = shown.carried.map((e, i) => { const text = fitted(e.text + (e.titles.length > 1 ? ` and ${e.titles.length - 1} more` : ""), "label", 200); return { text, width: width(text, "label"), places: back[i].label }; });
      const labels = [...handed, ...labelsOf(shown.edges)], boxes = Object.values(places.at).map((p) => [p.x - half.w, p.y - half.h, p.x + half.w, p.y + half.h]);
      labelled(labels, boxes, [...places.upright, ...back.map((b) => b.upright)]).forEach((p, i) => { if (p) world.append(make("text", { class: "label", "aria-hidden": true, x: p.x.toFixed(1), y: p.y.toFixed(1), "text-anchor": p.anchor }, labels[i].text)); });
    }
    const title = Object.fromEntries(shown.boxes.map((b) => [b.id, b.title]));
    const sources = (edges, id) => [...new Set(edges.filter((e) => e.to === id).map((e) => title[e.from]))].join(" and ");
    const reads = (id) => { const from = sources(shown.edges, id), before = sources(shown.carried, id); return (from && `, reads ${from}`) + (before && `, reads of the step before ${before}`); };
    for (const b of shown.boxes) {
      const { x, y } = places.at[b.id], group = !!scene.groups[b.id];
      const g = make("g", { class: "box" + (group ? " group" : "") + (group || b.kind === "plain" ? " plain" : ""), "data-id": b.id, tabindex: 0, role: "button", transform: `translate(${(x - half.w).toFixed(1)},${(y - half.h).toFixed(1)})`, "aria-label": `${b.title}, ${b.second}${reads(b.id)}${group ? ", folded, Enter opens" : ""}`, ...(group ? { "aria-expanded": false } : {}) });
      const rect = make("rect", { width: BOX.w, height: BOX.h, rx: 6 });
      if (hue(b) !== undefined) { g.style.setProperty("--hue", hue(b)); g.classList.add("tinted"); }
      g.append(make("title", {}, `${b.title}\n${b.second}`), rect, make("text", { x: 8, y: 19, class: "first" }, fitted((group ? "+ " : "") + b.title, "title", BOX.w - 16)), make("text", { x: 8, y: 36, class: "second" }, fitted(b.second, "second", BOX.w - 16)));
      world.append(g);
    }
    picture.append(defs, world);
    mark();
    move();
  }
  // What a box stores, once behind it; the rules that made a kernel, once in front of it.
  function labelsOf(edges) {
    const out = [], said = new Set();
    edges.forEach((e, i) => {
      const [[x0, y0], [x1, y1]] = places.ends[i];
      const add = (key, text, x, y) => { if (text && !said.has(key + text)) { said.add(key + text); const t = fitted(text, "label", 200); out.push({ text: t, width: width(t, "label"), places: [[x + 6, y, "start"], [x - 6, y, "end"]] }); } };
      add("<" + e.from, e.text, x0, y0 + 14);
      add(">" + e.to, view === "kernels" ? rulesOf(e) : "", x1, y1 - 10);
    });
    return out;
  }
  function rulesOf(e) {
    const rules = e.to.startsWith("call:") ? [...new Set(data.calls[+e.to.slice(5)].rules.map((r) => r.split(":")[0]))].filter((r) => r.includes("/")) : [];
    return rules.length ? rules[0] + (rules.length > 1 ? ` +${rules.length - 1}` : "") : "";
  }
  function mark() {
    for (const g of picture.querySelectorAll(".box")) { g.classList.toggle("picked", g.dataset.id === picked); if (g.dataset.id === picked) g.setAttribute("aria-current", "true"); else g.removeAttribute("aria-current"); g.classList.toggle("hit", hits.has(g.dataset.id)); }
    for (const p of picture.querySelectorAll(".edge")) p.classList.toggle("near", p.dataset.from === picked || p.dataset.to === picked);
  }
  function move() { const w = $("world"); if (w) w.setAttribute("transform", `translate(${camera.x},${camera.y}) scale(${camera.k})`); }
  function fit() { // all of it where it can be read, else its beginning
    const all = Object.values(places.at), r = picture.getBoundingClientRect();
    if (!all.length) return;
    const b = $("world").getBBox(), x0 = b.x - 12, x1 = b.x + b.width + 12, y0 = b.y - 12, y1 = b.y + b.height + 12; // with the edges around columns
    const whole = Math.min(r.width / (x1 - x0), r.height / (y1 - y0));
    camera.k = Math.min(1.2, Math.max(whole, 0.5));
    camera.x = (x1 - x0) * camera.k > r.width ? -camera.k * x0 : r.width / 2 - (camera.k * (x0 + x1)) / 2;
    camera.y = (y1 - y0) * camera.k > r.height ? -camera.k * y0 : r.height / 2 - (camera.k * (y0 + y1)) / 2;
    move();
  }
  function centre(id) {
    const p = places.at[id], r = picture.getBoundingClientRect();
    if (!p) return;
    camera.k = Math.max(camera.k, 0.7);
    camera.x = r.width / 2 - camera.k * p.x;
    camera.y = r.height / 2 - camera.k * p.y;
    move();
  }
  function toggle(id, on) {
    const keep = places.at[id] && { x: camera.x + camera.k * places.at[id].x, y: camera.y + camera.k * places.at[id].y };
    if (on) open[view].add(id); else open[view].delete(id);
    draw();
    const box = on ? shown.boxes.find((b) => scenes[view].groups[b.id] ? scenes[view].groups[b.id].parent === id : b.parent === id) : { id };
    if (box && keep && places.at[box.id]) { camera.x = keep.x - camera.k * places.at[box.id].x; camera.y = keep.y - camera.k * places.at[box.id].y; move(); }
    if (box) pick(box.id, true);
  }
  function pick(id, focus) {
    picked = id;
    mark();
    details(id);
    named(panel);
    $("said").textContent = `${panel.querySelector("h2").textContent} is selected; ${panel.querySelectorAll("h3").length} parts of details`;
    const g = picture.querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (focus && g) g.focus({ preventScroll: true });
  }
  function show(id, where) { // from a link or a hit: its groups are opened first
    if (where !== view) setView(where);
    const x = scenes[view].items.find((i) => i.id === id);
    for (let p = x && x.parent; p; p = scenes[view].groups[p].parent) open[view].add(p);
    draw();
    pick(id, true);
    centre(id);
  }
  function setView(v) {
    view = v;
    for (const b of document.querySelectorAll("nav button")) { const on = b.dataset.view === v; b.setAttribute("aria-selected", String(on)); b.tabIndex = on ? 0 : -1; }
    $("view").setAttribute("aria-labelledby", `tab-${v}`);
    const isPage = v in pages;
    picture.style.display = isPage ? "none" : "";
    page.hidden = !isPage;
    picked = null;
    panel.hidden = isPage;
    if (isPage) { page.replaceChildren(...pages[v]()); page.scrollTop = 0; named(page); return; }
    draw();
    fit();
    overview();
  }
  function named(within) { // a table is called what the heading before it says
    for (const t of within.querySelectorAll("table")) { let h = t; while (h && !/^H[23]$/.test(h.tagName)) h = h.previousElementSibling; if (h) t.setAttribute("aria-label", h.textContent); }
  }

  // ---- the panel
  const list = (items) => { const ul = el("ul", undefined, { class: "plain" }); for (const i of items) { const li = el("li"); li.append(typeof i === "string" ? i : i); ul.append(li); } return ul; };
  const link = (text, id, where) => { const a = el("a", text, { tabindex: 0, role: "link" }); a.onclick = () => show(id, where); a.onkeydown = (ev) => { if (ev.key === "Enter") show(id, where); }; return a; };
  const more = (title, text) => { const d = el("details"); d.append(el("summary", title), el("pre", text)); return d; };
  function overview() {
    const n = data.calls.length;
    panel.replaceChildren(el("h2", data.title), el("p", `${n} kernel${n === 1 ? "" : "s"}, ${Object.keys(data.kernels).length} distinct, predicted ${seconds(data.predicted)}`), ...data.remarks.map((r) => el("p", r)));
    const repeats = data.layers.filter((l) => l.times > 1);
    if (repeats.length) panel.append(el("h3", "Layers that repeat"), list(repeats.map((l) => `${l.name || "layers without names"}: the same ${l.length} kernel${l.length > 1 ? "s" : ""}, ${l.times} times`)));
  }
  function details(id) {
    const [what, rest] = [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)];
    if (what === "call") return callPanel(+rest);
    if (what === "node") return nodePanel(+rest);
    if (scenes[view].groups[id]) return groupPanel(id);
    panel.replaceChildren(el("h2", rest), el("p", what === "in" ? `input ${data.inputs[rest] || ""}` : "output"));
  }
  function groupPanel(id) {
    const g = scenes[view].groups[id], inside = scenes[view].items.filter((x) => { for (let p = x.parent; p; p = scenes[view].groups[p].parent) if (p === id) return true; return false; });
    const b = el("button", "Open (Enter)");
    b.onclick = () => toggle(id, true);
    const sum = inside.reduce((s, x) => s + (x.seconds || 0), 0);
    panel.replaceChildren(el("h2", g.title), el("p", g.second + (sum ? `, predicted ${seconds(sum)} together` : "")), b, list(inside.slice(0, 60).map((x) => link(`${x.title} (${x.second})`, x.id, view))));
  }
  function nodePanel(i) {
    const n = data.nodes[i];
    panel.replaceChildren(el("h2", n.op), el("p", n.type), el("p", n.place || "(the model gives it no name)"), el("h3", "Computed by"));
    panel.append(n.calls.length ? list(n.calls.map((c) => link(`${data.calls[c].kernel}: ${data.calls[c].name}`, "call:" + c, "kernels"))) : el("p", "no kernel: it is computed once from parameters, or nothing needs it as it is"));
    n.calls.forEach((c) => forms(data.calls[c]));
    if (n.reads.length) panel.append(el("h3", "Reads"), list(n.reads.map((r) => link(`${data.nodes[r].op} ${data.nodes[r].type}`, "node:" + r, "model"))));
  }
  function forms(c) { // what the e-graph holds for the tensors that a call stores: forms with their rules, other kernels with their prices
    for (const [t] of c.stores) {
      const s = data.stored[t];
      if (!s) continue;
      panel.append(el("h3", `Forms of ${t} in the e-graph`), list(s.forms.map((f) => `${f.chosen ? "chosen: " : ""}${f.op} (${f.rule})`)));
      if (s.others.length) panel.append(el("h3", `Other kernels for ${t}, ${s.others_in_all} in all`), list(s.others.map((o) => `${seconds(o.seconds)} itself, ${seconds(o.flow)} with its share of what it reads (chosen: ${seconds(s.flow)}): ${o.ops.join(" ") || "no operation"}; reads ${o.reads.join(", ")}`)));
    }
  }
  function callPanel(i) {
    const c = data.calls[i], k = data.kernels[c.kernel] || { ops: [], lost: [], given: [] };
    panel.replaceChildren(el("h2", c.name || c.kernel), el("p", `kernel ${c.kernel}, call ${i + 1} of ${data.calls.length}${k.calls > 1 ? `, one of ${k.calls} calls` : ""}`),
      el("p", `predicted ${k.time || "?"}, bound by ${k.bound || "?"}${k.roofline ? `, ${Math.round(100 * k.roofline)} % of the roofline` : ""}`));
    const terms = (k.terms || []).filter(([, s]) => s > 0).sort((a, b) => b[1] - a[1]);
    if (terms.length) {
      const t = el("table", undefined, { class: "terms" });
      for (const [name, s] of terms) { const tr = el("tr"), td = el("td"), bar = make("svg", { width: 120, height: 10, role: "img", "aria-label": seconds(s) }); bar.append(make("rect", { width: Math.max(1, (118 * s) / terms[0][1]).toFixed(1), height: 9, class: "bar" })); td.append(bar); tr.append(el("td", name), td, el("td", seconds(s), { class: "n" })); t.append(tr); }
      panel.append(el("h3", "What the price is made of"), t);
    }
    const mine = data.nodes.map((n, j) => [n, j]).filter(([n]) => n.calls.includes(i));
    panel.append(el("h3", "Of the model"), mine.length ? list(mine.slice(0, 40).map(([n, j]) => link(`${n.op}${n.place ? ", " + n.place : ""}`, "node:" + j, "model"))) : el("p", "nothing that the model has by itself"));
    panel.append(el("h3", "Schedule"), el("p", k.schedule || ""), list(k.given));
    if (k.candidates) panel.append(el("p", `chosen among ${k.candidates} legal schedules${k.rule ? ", made by " + k.rule : ""}`));
    if (k.lost.length) panel.append(el("h3", "Schedules that lost"), list(k.lost));
    panel.append(el("h3", "Made by"), list(c.rules.length ? c.rules : ["the model's own operations"]));
    forms(c);
    if (c.carried) panel.append(el("h3", "Reads of the step before"), list(c.carried.map(([t, type, m]) => link(`${t}: ${type}, made by ${data.calls[m].name || data.calls[m].kernel}`, "call:" + m, "kernels"))));
    panel.append(el("h3", "Reads"), list(c.reads.map(([t, type, m]) => (m >= 0 ? link(`${t}: ${type}`, "call:" + m, "kernels") : `${t}: ${type}`))), el("h3", "Stores"), list(c.stores.map(([t, type]) => `${t}: ${type}`)));
    if (k.nest) { const b = el("button", "Loops and dependences"); b.onclick = () => { loopsOf = c.kernel; setView("loops"); }; panel.append(el("h3", "Loops"), b); }
    if (k.tile) panel.append(more("Tile program", k.tile));
    if (k.body) panel.append(more("Body", k.body));
    if (k.source) panel.append(more("Source", k.source));
  }

  // ---- events
  picture.addEventListener("wheel", (e) => {
    e.preventDefault();
    const r = picture.getBoundingClientRect(), f = Math.exp(-e.deltaY * 0.0015), x = e.clientX - r.left, y = e.clientY - r.top;
    const k = Math.min(4, Math.max(0.03, camera.k * f));
    camera.x = x - ((x - camera.x) * k) / camera.k;
    camera.y = y - ((y - camera.y) * k) / camera.k;
    camera.k = k;
    move();
  }, { passive: false });
  let drag = null;
  picture.addEventListener("pointerdown", (e) => { drag = { x: e.clientX - camera.x, y: e.clientY - camera.y, moved: false, px: e.clientX, py: e.clientY }; });
  window.addEventListener("pointermove", (e) => { if (!drag) return; if (Math.hypot(e.clientX - drag.px, e.clientY - drag.py) > 4) drag.moved = true; if (drag.moved) { camera.x = e.clientX - drag.x; camera.y = e.clientY - drag.y; move(); } });
  window.addEventListener("pointerup", (e) => {
    const was = drag;
    drag = null;
    if (!was || was.moved) return;
    const g = e.target.closest && e.target.closest(".box");
    if (g) (scenes[view].groups[g.dataset.id] && picked === g.dataset.id ? toggle(g.dataset.id, true) : pick(g.dataset.id, true));
  });
  picture.addEventListener("dblclick", (e) => { const g = e.target.closest(".box"); if (g && scenes[view].groups[g.dataset.id]) toggle(g.dataset.id, true); });
  document.addEventListener("keydown", (e) => {
    if (e.target.tagName === "INPUT") { if (e.key === "Escape") e.target.blur(); return; }
    if (e.key === "/") { e.preventDefault(); $("search").focus(); return; }
    if (view in pages) return;
    if (e.key === "0") fit();
    if (e.key === "+" || e.key === "-") { camera.k *= e.key === "+" ? 1.2 : 1 / 1.2; move(); }
    const id = e.target.dataset && e.target.dataset.id;
    if (!id) return;
    const near = { ArrowDown: shown.edges.filter((x) => x.from === id).map((x) => x.to), ArrowUp: shown.edges.filter((x) => x.to === id).map((x) => x.from) }[e.key];
    if (near && near.length) { e.preventDefault(); pick(near[0], true); centre(near[0]); }
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") {
      const p = places.at[id], row = shown.boxes.filter((b) => places.at[b.id].y === p.y).sort((a, b) => places.at[a.id].x - places.at[b.id].x), k = row.findIndex((b) => b.id === id) + (e.key === "ArrowRight" ? 1 : -1);
      if (row[k]) { e.preventDefault(); pick(row[k].id, true); centre(row[k].id); }
    }
    if (e.key === "Enter" || e.key === " ") { e.preventDefault(); if (scenes[view].groups[id]) toggle(id, true); else pick(id, true); }
    if (e.key === "Escape") { const x = scenes[view].groups[id] || scenes[view].items.find((i) => i.id === id); if (x && x.parent) toggle(x.parent, false); }
  });
  $("search").addEventListener("input", (e) => {
    const found = search(scenes, e.target.value);
    hits = new Set(found.filter((f) => f.view === view).map((f) => (shown && shown.of[f.id]) || f.id));
    $("found").replaceChildren(...found.slice(0, 24).map((f) => { const li = el("li"), b = el("button", `${cut(f.title, 50)} (${f.view})`); b.onclick = () => show(f.id, f.view); li.append(b); return li; }),
      ...(found.length > 24 ? [el("li", `and ${found.length - 24} more`)] : e.target.value && !found.length ? [el("li", "nothing found")] : []));
    if (e.target.value) $("said").textContent = found.length ? `${found.length} found` : "nothing found";
    mark();
  });
  const tabs = [...document.querySelectorAll("nav button")];
  for (const b of tabs) b.onclick = () => setView(b.dataset.view);
  document.querySelector("nav").onkeydown = (e) => { // arrows go along the views
    const k = { ArrowRight: 1, ArrowLeft: -1 }[e.key], next = k && tabs[(tabs.findIndex((b) => b.dataset.view === view) + k + tabs.length) % tabs.length];
    if (next) { e.preventDefault(); setView(next.dataset.view); next.focus(); }
  };
  $("fit").onclick = () => { if (view in pages) return; draw(); fit(); };
  $("fold").onclick = () => { if (view in pages) return; open[view].clear(); draw(); fit(); };
  $("theme").onclick = () => { const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; document.documentElement.dataset.theme = dark ? "light" : "dark"; };
  setView("kernels");
}
