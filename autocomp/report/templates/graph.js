"use strict";
// The interactive graph page. Pure functions first (layout, folding, search), which tests run without a browser; then what draws.

const BOX = { w: 240, h: 46, gapX: 26, gapY: 46 };
const FIRST = 24; // boxes that a view shows at first, at most, where groups can be folded
const CHARS = 37; // of a line in a box

const cut = (text, n = CHARS) => (text.length <= n ? text : text.slice(0, n - 1) + "…");
const seconds = (s) => (s >= 1 ? s.toPrecision(3) + " s" : s >= 1e-3 ? (s * 1e3).toPrecision(3) + " ms" : s >= 1e-6 ? (s * 1e6).toPrecision(3) + " us" : Math.round(s * 1e9) + " ns");
const bytes = (n) => (n >= 1 << 20 ? (n / (1 << 20)).toPrecision(3) + " MB" : n >= 1024 ? (n / 1024).toPrecision(3) + " KB" : n + " B");

// ---- scenes: items (in dataflow order) with parents, groups, edges
function kernelScene(data) {
  const items = [], groups = {}, edges = [], made = {};
  for (const [name, type] of Object.entries(data.inputs)) {
    made[name] = "in:" + name;
    items.push({ id: made[name], parent: null, title: name, second: type, kind: "plain", words: "input " + name });
  }
  const parent = {};
  let at = 0;
  data.layers.forEach((layer, k) => {
    if (layer.times > 1) {
      const id = "layers:" + k;
      groups[id] = { id, parent: null, title: layer.name || "repeated kernels", second: `${layer.times} times ${layer.length} kernel${layer.length > 1 ? "s" : ""}` };
      for (let t = 0; t < layer.times; t++) {
        let inside = id;
        if (layer.length > 1) {
          inside = `${id}:${t}`;
          groups[inside] = { id: inside, parent: id, title: layer.names[t] || `layer ${t + 1}`, second: `${layer.length} kernels, ${t + 1} of ${layer.times}` };
        }
        for (let j = 0; j < layer.length; j++) parent[at + t * layer.length + j] = inside;
      }
    }
    at += layer.length * layer.times;
  });
  data.calls.forEach((c, i) => {
    const k = data.kernels[c.kernel] || {};
    items.push({ id: "call:" + i, parent: parent[i] || null, title: c.name || c.kernel, second: `${c.name ? c.kernel + ", " : ""}${k.time || ""}, ${k.bound || ""}`, kind: k.kind || "X", seconds: k.seconds || 0,
      words: [c.kernel, c.name, ...(k.ops || []), ...c.rules].join(" ") });
    for (const [t, type] of c.stores) made[t] = "call:" + i;
    for (const [t, type] of c.reads) if (made[t] && made[t] !== "call:" + i) edges.push({ from: made[t], to: "call:" + i, text: type, title: `${t}: ${type}` });
  });
  for (const o of data.outputs) {
    items.push({ id: "out:" + o.name, parent: null, title: o.name, second: o.type, kind: "plain", words: "output " + o.name });
    if (made[o.tensor]) edges.push({ from: made[o.tensor], to: "out:" + o.name, text: o.type, title: `${o.tensor}: ${o.type}` });
  }
  return { items, groups, edges };
}

function pathOf(place) {
  const module = /^(.+) \(\w+\)$/.exec(place);
  const text = module ? module[1] : place;
  const steps = text.split(/[./]/).filter((x) => x);
  return module ? steps : /:\d+$/.test(text) ? [text] : steps.slice(0, -1);
}

function modelScene(data) {
  const items = [], edges = [], seen = new Set();
  const nameless = data.nodes.every((n) => !n.place); // a graph as text: folded by the kernels that compute it
  const kernels = nameless ? kernelScene(data) : { items: [], groups: {} };
  const groups = kernels.groups;
  for (const x of kernels.items.filter((x) => x.id.startsWith("call:"))) groups["kernel:" + x.id.slice(5)] = { id: "kernel:" + x.id.slice(5), parent: x.parent, title: x.title, second: "", n: 0 };
  const put = (steps, call) => {
    if (nameless) {
      for (let p = call === undefined ? null : "kernel:" + call; p; p = groups[p].parent) groups[p].n = (groups[p].n || 0) + 1;
      return call === undefined ? null : "kernel:" + call;
    }
    let above = null;
    steps.forEach((step, i) => {
      const id = "module:" + steps.slice(0, i + 1).join("/");
      groups[id] = groups[id] || { id, parent: above, title: steps.slice(0, i + 1).join("."), second: "", n: 0 };
      groups[id].n++;
      above = id;
    });
    return above;
  };
  data.nodes.forEach((n, i) => {
    for (const name of n.from) {
      if (!seen.has(name)) items.push({ id: "in:" + name, parent: null, title: name, second: data.inputs[name] || "", kind: "plain", words: "input " + name });
      seen.add(name);
      edges.push({ from: "in:" + name, to: "node:" + i, text: "", title: name });
    }
    items.push({ id: "node:" + i, parent: put(pathOf(n.place), n.calls[0]), title: n.op, second: n.type + (n.place ? ", " + n.place : ""), kind: n.calls.length ? "call" : "plain", call: n.calls[0], words: [n.op, n.place].join(" ") });
    for (const r of n.reads) edges.push({ from: "node:" + r, to: "node:" + i, text: data.nodes[r].type, title: data.nodes[r].type });
  });
  const single = (id) => id !== null && (groups[id].n || 0) < 2;
  for (const x of [...items, ...Object.values(groups)]) while (x.parent !== undefined && single(x.parent)) x.parent = groups[x.parent].parent;
  for (const g of Object.values(groups)) { g.second = `${g.n} operations`; if ((g.n || 0) < 2) delete groups[g.id]; }
  return { items, groups, edges };
}

// The boxes that are seen: items and closed groups, in order; `of` maps an item to its box.
function seen(scene, open) {
  const of = {}, boxes = new Map();
  for (const x of scene.items) {
    let box = x.id;
    for (let p = x.parent; p; p = scene.groups[p].parent) if (!open.has(p)) box = p;
    of[x.id] = box;
    if (!boxes.has(box)) boxes.set(box, box === x.id ? x : scene.groups[box]);
  }
  const edges = new Map();
  for (const e of scene.edges) {
    const a = of[e.from], b = of[e.to];
    if (a === b || !a || !b) continue;
    const key = a + "\n" + b;
    if (!edges.has(key)) edges.set(key, { from: a, to: b, text: e.text, titles: [] });
    edges.get(key).titles.push(e.title);
  }
  return { boxes: [...boxes.values()], of, edges: [...edges.values()] };
}

// Groups to open at first: the outermost with most inside, as long as the boxes stay few.
function firstOpen(scene, most = FIRST) {
  const open = new Set();
  for (;;) {
    const boxes = seen(scene, open).boxes.filter((b) => scene.groups[b.id]);
    const inside = (g) => seen(scene, new Set([...open, g])).boxes.length;
    const small = boxes.map((b) => [inside(b.id), b.id]).filter(([n]) => n <= most).sort((a, b) => b[0] - a[0]);
    if (!small.length || scene.items.length > 4000) return open;
    open.add(small[0][1]);
  }
}

// Positions with at least a gap between neighbours, as near to what is wished as can be (pool adjacent violators).
function placed(wish, sizes, gap) {
  const offset = [0];
  for (let i = 1; i < wish.length; i++) offset[i] = offset[i - 1] + (sizes[i - 1] + sizes[i]) / 2 + gap;
  const blocks = [];
  wish.forEach((w, i) => {
    blocks.push([w - offset[i], 1]);
    while (blocks.length > 1 && blocks[blocks.length - 2][0] >= blocks[blocks.length - 1][0]) {
      const [v, n] = blocks.pop(), last = blocks[blocks.length - 1];
      last[0] = (last[0] * last[1] + v * n) / (last[1] + n);
      last[1] += n;
    }
  });
  const out = [];
  for (const [v, n] of blocks) for (let j = 0; j < n; j++) out.push(v + offset[out.length]);
  return out;
}

// Levels by longest path, order by barycentres, long edges through points of their own: {at: id -> {x, y} (centres), lines: [points]}.
function layered(ids, edges, box = BOX) {
  const index = new Map(ids.map((id, i) => [id, i]));
  const forward = edges.filter((e) => index.get(e.from) < index.get(e.to));
  const level = ids.map(() => 0);
  const bySource = ids.map(() => []), byTarget = ids.map(() => []);
  for (const e of forward) { bySource[index.get(e.from)].push(index.get(e.to)); byTarget[index.get(e.to)].push(index.get(e.from)); }
  ids.forEach((_, i) => { for (const j of bySource[i]) level[j] = Math.max(level[j], level[i] + 1); });
  for (let i = ids.length - 1; i >= 0; i--) if (!byTarget[i].length && bySource[i].length) level[i] = Math.min(...bySource[i].map((j) => level[j])) - 1;
  const nodes = ids.map((id, i) => ({ level: level[i], w: box.w, up: [], down: [] }));
  const chains = new Map();
  for (const e of forward) {
    let a = index.get(e.from);
    const b = index.get(e.to), chain = [];
    for (let l = level[a] + 1; l < level[b]; l++) {
      const k = nodes.push({ level: l, w: 8, up: [a], down: [] }) - 1;
      nodes[a].down.push(k);
      chain.push(k);
      a = k;
    }
    nodes[a].down.push(b);
    nodes[b].up.push(a);
    chains.set(e, chain);
  }
  const rows = [];
  nodes.forEach((n, i) => (rows[n.level] = rows[n.level] || []).push(i));
  const rank = nodes.map(() => 0);
  rows.forEach((row) => row.forEach((i, k) => (rank[i] = k)));
  const mean = (list, f) => list.reduce((s, j) => s + f(j), 0) / list.length;
  for (let sweep = 0; sweep < 8; sweep++) {
    const side = sweep % 2 ? "down" : "up";
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const key = new Map(row.map((i) => [i, nodes[i][side].length ? mean(nodes[i][side], (j) => rank[j] / Math.max(1, rows[nodes[j].level].length)) : rank[i] / Math.max(1, row.length)]));
      row.sort((a, b) => key.get(a) - key.get(b) || rank[a] - rank[b]);
      row.forEach((i, k) => (rank[i] = k));
    }
  }
  const x = nodes.map(() => 0);
  for (const row of rows) placed(row.map(() => 0), row.map((i) => nodes[i].w), box.gapX).forEach((v, k) => (x[row[k]] = v));
  for (let sweep = 0; sweep < 12; sweep++)
    for (const row of sweep % 2 ? [...rows].reverse() : rows) {
      const wish = row.map((i) => {
        const side = nodes[i][sweep % 2 ? "down" : "up"];
        return side.length ? mean(side, (j) => x[j]) : x[i];
      });
      placed(wish, row.map((i) => nodes[i].w), box.gapX).forEach((v, k) => (x[row[k]] = v));
    }
  const y = (l) => l * (box.h + box.gapY);
  const at = {};
  ids.forEach((id, i) => (at[id] = { x: x[i], y: y(level[i]) }));
  const lines = edges.map((e) => {
    const a = at[e.from], b = at[e.to];
    if (!chains.has(e)) return [[a.x + box.w / 2, a.y], [a.x + box.w / 2 + 30, (a.y + b.y) / 2], [b.x + box.w / 2, b.y]];
    return [[a.x, a.y + box.h / 2], ...chains.get(e).map((k) => [x[k], y(nodes[k].level)]), [b.x, b.y - box.h / 2]];
  });
  return { at, lines };
}

function curve(points) {
  let d = `M${points[0][0].toFixed(1)},${points[0][1].toFixed(1)}`;
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], m = (y0 + y1) / 2;
    d += ` C${x0.toFixed(1)},${m.toFixed(1)} ${x1.toFixed(1)},${m.toFixed(1)} ${x1.toFixed(1)},${y1.toFixed(1)}`;
  }
  return d;
}

function search(scenes, text) {
  const words = text.toLowerCase().split(/\s+/).filter((w) => w);
  const out = [];
  for (const [view, scene] of Object.entries(scenes))
    for (const x of scene.items) {
      const all = `${x.title} ${x.second} ${x.words}`.toLowerCase();
      if (words.length && words.every((w) => all.includes(w))) out.push({ view, id: x.id, title: x.title });
    }
  return out;
}

if (typeof document === "undefined") module.exports = { kernelScene, modelScene, seen, firstOpen, placed, layered, search, pathOf, curve, BOX };
else start(JSON.parse(document.getElementById("data").textContent));

// ---- drawing
function start(data) {
  const $ = (id) => document.getElementById(id);
  const picture = $("picture"), panel = $("panel"), page = $("page"), NS = "http://www.w3.org/2000/svg";
  const COLOUR = { E: "#e8f1fb", S: "#e5f6ea", N: "#d9f2ee", C: "#fdeedd", K: "#f9e3c8", O: "#fbe2e2", X: "#eeeeee", R: "#efe6fa" };
  const scenes = { kernels: kernelScene(data), model: modelScene(data) };
  const open = { kernels: firstOpen(scenes.kernels), model: firstOpen(scenes.model) };
  const pages = { rules: rulesPage, memory: memoryPage, prices: pricesPage };
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
  const colour = (b) => (b.kind === "call" ? `hsl(${(b.call * 47) % 360} 65% 88%)` : COLOUR[b.kind]);

  function draw() {
    const scene = scenes[view];
    shown = seen(scene, open[view]);
    places = layered(shown.boxes.map((b) => b.id), shown.edges);
    picture.replaceChildren();
    const world = make("g", { id: "world" });
    shown.edges.forEach((e, i) => {
      const path = make("path", { d: curve(places.lines[i]), class: "edge", "data-from": e.from, "data-to": e.to });
      path.append(make("title", {}, e.titles.slice(0, 12).join("\n")));
      world.append(path);
      if (view === "kernels" && shown.edges.length < 200) {
        const middle = places.lines[i][Math.floor((places.lines[i].length - 1) / 2)], next = places.lines[i][Math.floor((places.lines[i].length - 1) / 2) + 1];
        world.append(make("text", { class: "label", x: ((middle[0] + next[0]) / 2).toFixed(1), y: ((middle[1] + next[1]) / 2 + 3).toFixed(1), "text-anchor": "middle" }, cut(label(e), 44)));
      }
    });
    for (const b of shown.boxes) {
      const { x, y } = places.at[b.id], group = !!scene.groups[b.id];
      const g = make("g", { class: "box" + (group ? " group" : "") + (group || b.kind === "plain" ? " plain" : ""), "data-id": b.id, tabindex: 0, role: "button", transform: `translate(${(x - BOX.w / 2).toFixed(1)},${(y - BOX.h / 2).toFixed(1)})`, "aria-label": `${b.title}, ${b.second}${group ? ", folded, Enter opens" : ""}` });
      const rect = make("rect", { width: BOX.w, height: BOX.h, rx: 6 });
      if (colour(b)) rect.style.fill = colour(b);
      g.append(make("title", {}, `${b.title}\n${b.second}`), rect, make("text", { x: 8, y: 19, "font-weight": "bold" }, cut((group ? "+ " : "") + b.title, 34)), make("text", { x: 8, y: 36, class: "second", "font-size": 11 }, cut(b.second, 40)));
      world.append(g);
    }
    picture.append(world);
    mark();
    move();
  }
  const label = (e) => {
    const rules = e.to.startsWith("call:") ? [...new Set(data.calls[+e.to.slice(5)].rules.map((r) => r.split(":")[0]))].filter((r) => r.includes("/")) : [];
    return e.text + (rules.length ? "  " + rules[0] + (rules.length > 1 ? ` +${rules.length - 1}` : "") : "");
  };
  function mark() {
    for (const g of picture.querySelectorAll(".box")) { g.classList.toggle("picked", g.dataset.id === picked); g.classList.toggle("hit", hits.has(g.dataset.id)); }
    for (const p of picture.querySelectorAll(".edge")) p.classList.toggle("near", p.dataset.from === picked || p.dataset.to === picked);
  }
  function move() { const w = picture.firstChild; if (w) w.setAttribute("transform", `translate(${camera.x},${camera.y}) scale(${camera.k})`); }
  function fit() {
    const xs = Object.values(places.at), r = picture.getBoundingClientRect();
    if (!xs.length) return;
    const x0 = Math.min(...xs.map((p) => p.x)) - BOX.w / 2 - 20, x1 = Math.max(...xs.map((p) => p.x)) + BOX.w / 2 + 20;
    const y0 = Math.min(...xs.map((p) => p.y)) - BOX.h / 2 - 20, y1 = Math.max(...xs.map((p) => p.y)) + BOX.h / 2 + 20;
    camera.k = Math.min(1.2, r.width / (x1 - x0), Math.max(r.height / (y1 - y0), 0.35));
    camera.x = r.width / 2 - (camera.k * (x0 + x1)) / 2;
    camera.y = Math.max(r.height / 2 - (camera.k * (y0 + y1)) / 2, -camera.k * y0);
    if ((y1 - y0) * camera.k > r.height) camera.y = -camera.k * y0;
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
    for (const b of document.querySelectorAll("nav button")) b.setAttribute("aria-selected", String(b.dataset.view === v));
    const isPage = v in pages;
    picture.style.display = isPage ? "none" : "";
    page.hidden = !isPage;
    picked = null;
    if (isPage) { page.replaceChildren(...pages[v]()); overview(); return; }
    draw();
    fit();
    overview();
  }

  // ---- the panel
  const list = (items) => { const ul = el("ul", undefined, { class: "plain" }); for (const i of items) { const li = el("li"); li.append(typeof i === "string" ? i : i); ul.append(li); } return ul; };
  const link = (text, id, where) => { const a = el("a", text, { tabindex: 0, role: "link" }); a.onclick = () => show(id, where); a.onkeydown = (ev) => { if (ev.key === "Enter") show(id, where); }; return a; };
  const more = (title, text) => { const d = el("details"); d.append(el("summary", title), el("pre", text)); return d; };
  function overview() {
    const n = data.calls.length;
    panel.replaceChildren(el("h2", data.title), el("p", `${n} kernel${n === 1 ? "" : "s"}, ${Object.keys(data.kernels).length} distinct, predicted ${seconds(data.predicted)}`), ...data.remarks.map((r) => el("p", r)));
    const repeats = data.layers.filter((l) => l.times > 1);
    if (repeats.length) panel.append(el("h3", "Layers that repeat"), list(repeats.map((l) => `${l.name}: the same ${l.length} kernel${l.length > 1 ? "s" : ""}, ${l.times} times`)));
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
    if (n.reads.length) panel.append(el("h3", "Reads"), list(n.reads.map((r) => link(`${data.nodes[r].op} ${data.nodes[r].type}`, "node:" + r, "model"))));
  }
  function callPanel(i) {
    const c = data.calls[i], k = data.kernels[c.kernel] || { ops: [], lost: [], given: [] };
    panel.replaceChildren(el("h2", c.name || c.kernel), el("p", `kernel ${c.kernel}, call ${i + 1} of ${data.calls.length}${k.calls > 1 ? `, one of ${k.calls} calls` : ""}`),
      el("p", `predicted ${k.time || "?"}, bound by ${k.bound || "?"}${k.roofline ? `, ${Math.round(100 * k.roofline)} % of the roofline` : ""}`));
    const mine = data.nodes.map((n, j) => [n, j]).filter(([n]) => n.calls.includes(i));
    panel.append(el("h3", "Of the model"), mine.length ? list(mine.slice(0, 40).map(([n, j]) => link(`${n.op}${n.place ? ", " + n.place : ""}`, "node:" + j, "model"))) : el("p", "nothing that the model has by itself"));
    panel.append(el("h3", "Schedule"), el("p", k.schedule || ""), list(k.given));
    if (k.candidates) panel.append(el("p", `chosen among ${k.candidates} legal schedules${k.rule ? ", made by " + k.rule : ""}`));
    if (k.lost.length) panel.append(el("h3", "Schedules that lost"), list(k.lost));
    panel.append(el("h3", "Made by"), list(c.rules.length ? c.rules : ["the model's own operations"]));
    for (const [t] of c.stores) {
      const s = data.stored[t];
      if (!s) continue;
      panel.append(el("h3", `Forms of ${t} in the e-graph`), list(s.forms.map((f) => `${f.chosen ? "chosen: " : ""}${f.op} (${f.rule})`)));
      if (s.others.length) panel.append(el("h3", `Other kernels for ${t}, ${s.others_in_all} in all`), list(s.others.map((o) => `${seconds(o.seconds)} itself, ${seconds(o.flow)} with its share of what it reads (chosen: ${seconds(s.flow)}): ${o.ops.join(" ")}; reads ${o.reads.join(", ")}`)));
    }
    panel.append(el("h3", "Reads"), list(c.reads.map(([t, type, m]) => (m >= 0 ? link(`${t}: ${type}`, "call:" + m, "kernels") : `${t}: ${type}`))), el("h3", "Stores"), list(c.stores.map(([t, type]) => `${t}: ${type}`)));
    if (k.body) panel.append(more("Body", k.body));
    if (k.source) panel.append(more("Source", k.source));
  }

  // ---- tables and the memory plan
  function table(head, rows) {
    const t = el("table"), tr = el("tr");
    for (const h of head) tr.append(el("th", h, { scope: "col" }));
    t.append(tr);
    for (const r of rows) { const line = el("tr"); for (const v of r) line.append(v instanceof Node ? v : el("td", String(v), typeof v === "number" ? { class: "n" } : {})); t.append(line); }
    return t;
  }
  function rulesPage() {
    return [el("h2", "Rules that fired or were refused"), table(["rule", "phase", "fired", "refused", "commonest reason"], data.rules.map((r) => [r.rule, r.phase, r.fired, r.refused, cut(r.why, 160)])),
      el("h2", "Growth by phase"), table(["phase", "terms after it", "fired", "time"], data.phases.map((p) => [p.name, p.terms ?? "", p.fired ?? "", seconds(p.seconds)]))];
  }
  function pricesPage() {
    const rows = Object.entries(data.kernels).map(([name, k]) => [name, k]).sort((a, b) => b[1].seconds * b[1].calls - a[1].seconds * a[1].calls);
    return [el("h2", "Kernels by their part of the predicted time"), table(["kernel", "calls", "each", "part", "bound", "of roofline", "schedule"], rows.map(([n, k]) => [n, k.calls, k.time, `${((100 * k.seconds * k.calls) / (data.predicted || 1)).toFixed(1)} %`, k.bound, k.roofline ? Math.round(100 * k.roofline) + " %" : "", k.schedule])),
      el("h2", "Stages of the compilation"), table(["stage", "time"], data.stages.map((s) => [s.name, seconds(s.seconds)]))];
  }
  function memoryPage() {
    const m = data.memory, W = 900, H = 420, calls = Math.max(1, data.calls.length);
    const s = make("svg", { viewBox: `0 0 ${W + 60} ${H + 40}`, width: W + 60, height: H + 40, role: "img", "aria-label": `intermediate tensors in an arena of ${bytes(m.bytes)}` });
    m.tensors.forEach(([name, at, size, first, last], i) => {
      const g = make("g");
      g.append(make("title", {}, `${name}: ${bytes(size)} at ${at}, calls ${first + 1} to ${last + 1}`), make("rect", { x: 50 + (W * first) / calls, y: 10 + (H * at) / (m.bytes || 1), width: Math.max(1, (W * (last - first + 1)) / calls - 1), height: Math.max(1, (H * size) / (m.bytes || 1) - 0.5), fill: `hsl(${(i * 67) % 360} 55% 70%)` }));
      s.append(g);
    });
    s.append(make("text", { x: 0, y: 16, "font-size": 11, fill: "currentColor" }, "0"), make("text", { x: 0, y: H + 10, "font-size": 11, fill: "currentColor" }, bytes(m.bytes)), make("text", { x: 50, y: H + 28, "font-size": 11, fill: "currentColor" }, `calls 1 to ${data.calls.length}, in order`));
    return [el("h2", `Intermediate tensors share ${bytes(m.bytes)}`), s, table(["tensor", "offset", "bytes", "first call", "last call"], m.tensors.map(([n, at, size, a, b]) => [n, at, size, a + 1, b + 1]))];
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
    mark();
  });
  for (const b of document.querySelectorAll("nav button")) b.onclick = () => setView(b.dataset.view);
  $("fit").onclick = fit;
  $("fold").onclick = () => { if (view in pages) return; open[view].clear(); draw(); fit(); };
  $("theme").onclick = () => { const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches; document.documentElement.dataset.theme = dark ? "light" : "dark"; };
  setView("kernels");
}
