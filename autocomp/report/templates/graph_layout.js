"use strict";
// The interactive graph page, what it shows where: scenes, folding, layout, search. Pure functions, which tests run without a browser.

const BOX = { w: 240, h: 46, gapX: 26, gapY: 46 };
const FIRST = 24; // boxes that a view shows at first, at most, where groups can be folded
const CHARS = 37; // of a line in a box

const cut = (text, n = CHARS) => (text.length <= n ? text : text.slice(0, n - 1) + "…");
const seconds = (s) => (s >= 1 ? s.toPrecision(3) + " s" : s >= 1e-3 ? (s * 1e3).toPrecision(3) + " ms" : s >= 1e-6 ? (s * 1e6).toPrecision(3) + " us" : Math.round(s * 1e9) + " ns");
const bytes = (n) => (n >= 1 << 20 ? (n / (1 << 20)).toPrecision(3) + " MB" : n >= 1024 ? (n / 1024).toPrecision(3) + " KB" : n + " B");

// ---- scenes: items (in dataflow order) with parents, groups, edges
function kernelScene(data) {
  const items = [], groups = {}, edges = [], carried = [], made = {};
  for (const [name, type] of Object.entries(data.inputs)) {
    made[name] = "in:" + name;
    items.push({ id: made[name], parent: null, title: name, second: type, kind: "plain", words: "input " + name });
  }
  const parent = {};
  let at = 0;
  data.layers.forEach((layer, k) => {
    if (layer.times > 1) {
      const id = "layers:" + k, many = layer.length > 1, s = many ? "s" : "";
      const between = (a, b) => (a && a !== b ? `${a} to ${b}` : a);
      groups[id] = { id, parent: null, title: layer.name || "repeated layers", second: `${layer.times} times the same ${layer.length} kernel${s}` };
      if (many && layer.times > 2) groups[id + ":rest"] = { id: id + ":rest", parent: id, title: between(layer.names[1], layer.names[layer.times - 1]) || `layers 2 to ${layer.times}`, second: `${layer.times - 1} times the same ${layer.length} kernels` };
      for (let t = 0; t < layer.times; t++) {
        let inside = id;
        if (many) {
          inside = `${id}:${t}`;
          const alike = layer.names[0] && layer.names[0] === layer.names[layer.times - 1] && layer.times > 1;
          groups[inside] = { id: inside, parent: t && layer.times > 2 ? id + ":rest" : id, title: (!alike && layer.names[t]) || `layer ${t + 1}`, second: `${layer.length} kernels, ${t + 1} of ${layer.times}` };
        }
        for (let j = 0; j < layer.length; j++) parent[at + t * layer.length + j] = inside;
      }
    }
    at += layer.length * layer.times;
  });
  data.calls.forEach((c, i) => {
    const k = data.kernels[c.kernel] || {};
    items.push({ id: "call:" + i, parent: parent[i] || null, title: c.name || c.kernel, second: `${c.name ? c.kernel + ", " : ""}${k.time || ""}, ${k.bound || ""}${c.loop ? `, each of ${c.trips} steps of ${c.loop}` : ""}`, kind: k.kind || "X", seconds: k.seconds || 0,
      words: [c.kernel, c.name, ...(k.ops || []), ...c.rules].join(" ") });
    for (const [t, type] of c.stores) made[t] = "call:" + i;
    for (const [t, type, m] of c.reads) {
      const from = m >= 0 ? "call:" + m : made[t];
      if (from && from !== "call:" + i) edges.push({ from, to: "call:" + i, text: type, title: `${t}: ${type}` });
    }
    for (const [t, type, m] of c.carried || []) carried.push({ from: "call:" + m, to: "call:" + i, text: "next step: " + type, title: `to the next step of ${c.loop}: ${t}: ${type}` });
  });
  for (const o of data.outputs) {
    items.push({ id: "out:" + o.name, parent: null, title: o.name, second: o.type, kind: "plain", words: "output " + o.name });
    if (made[o.tensor]) edges.push({ from: made[o.tensor], to: "out:" + o.name, text: o.type, title: `${o.tensor}: ${o.type}` });
  }
  return { items, groups, edges, carried };
}

// The modules around a node. A traced line is none: what a loop runs several times is not one part of the model.
function pathOf(place) {
  const module = /^(.+) \(\w+\)$/.exec(place);
  const text = module ? module[1] : place;
  const steps = text.split(/[./]/).filter((x) => x);
  return module ? steps : /:\d+$/.test(text) ? [] : steps.slice(0, -1);
}

// The modules of each node. What is computed from parameters alone stands where all that read it stand: weights that modules share are in
// none of them, or each of these would be in front of itself.
function pathsOf(nodes) {
  const paths = nodes.map((n) => pathOf(n.place)), fixed = [], readers = nodes.map(() => []);
  nodes.forEach((n, i) => { fixed[i] = !n.from.length && n.reads.every((r) => fixed[r]); for (const r of n.reads) readers[r].push(i); });
  const common = (a, b) => a.slice(0, a.findIndex((x, k) => x !== b[k]) < 0 ? a.length : a.findIndex((x, k) => x !== b[k]));
  for (let i = nodes.length - 1; i >= 0; i--) if (fixed[i] && readers[i].length) paths[i] = readers[i].map((j) => paths[j]).reduce(common);
  return paths;
}

function modelScene(data) {
  const items = [], edges = [], seen = new Set();
  const paths = pathsOf(data.nodes);
  const nameless = data.nodes.every((n) => pathOf(n.place).length === 0); // no modules: folded by the kernels that compute them
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
    items.push({ id: "node:" + i, parent: put(paths[i], n.calls[0]), title: n.op, second: n.type + (n.place ? ", " + n.place : ""), kind: n.calls.length ? "call" : "plain", call: n.calls[0], words: [n.op, n.place].join(" ") });
    for (const r of n.reads) edges.push({ from: "node:" + r, to: "node:" + i, text: data.nodes[r].type, title: data.nodes[r].type });
  });
  const single = (id) => id !== null && (groups[id].n || 0) < 2;
  for (const x of [...items, ...Object.values(groups)]) while (x.parent !== undefined && single(x.parent)) x.parent = groups[x.parent].parent;
  for (const g of Object.values(groups)) { g.second = `${g.n} operations`; if ((g.n || 0) < 2) delete groups[g.id]; }
  return { items, groups, edges };
}

// The boxes that are seen: items and closed groups, in order; `of` maps an item to its box. `carried`: what a loop's step hands to the next.
function seen(scene, open) {
  const of = {}, boxes = new Map();
  for (const x of scene.items) {
    let box = x.id;
    for (let p = x.parent; p; p = scene.groups[p].parent) if (!open.has(p)) box = p;
    of[x.id] = box;
    if (!boxes.has(box)) boxes.set(box, box === x.id ? x : scene.groups[box]);
  }
  const between = (list, own) => {
    const edges = new Map();
    for (const e of list || []) {
      const a = of[e.from], b = of[e.to];
      if ((a === b && !own) || !a || !b) continue;
      const key = a + "\n" + b;
      if (!edges.has(key)) edges.set(key, { from: a, to: b, text: e.text, titles: [] });
      edges.get(key).titles.push(e.title);
    }
    return [...edges.values()];
  };
  return { boxes: [...boxes.values()], of, edges: between(scene.edges, false), carried: between(scene.carried, true) };
}

// Groups to open at first: the outermost, level by level, as long as the boxes stay few; of a level that is too much, its first ones.
function firstOpen(scene, most = FIRST) {
  const open = new Set();
  const depth = (id) => { let n = 0; for (let p = scene.groups[id].parent; p; p = scene.groups[p].parent) n++; return n; };
  for (let tries = 0; tries < 200; tries++) {
    const boxes = seen(scene, open).boxes.filter((b) => scene.groups[b.id] && !b.id.endsWith(":rest"));
    const next = boxes.map((b, i) => [depth(b.id), i, b.id]).sort((a, b) => a[0] - b[0] || a[1] - b[1]).find(([, , id]) => seen(scene, new Set([...open, id])).boxes.length <= most);
    if (!next || scene.items.length > 4000) return open;
    open.add(next[2]);
  }
  return open;
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

// Levels by longest path, order by barycentres, long edges through points of their own; a picture that is higher than the window (`shape`:
// its width and height) goes on in columns, cut where few edges cross. {at: id -> {x, y, level, column} (centres), paths: an edge's
// path, ends: where it leaves and enters, width, height, columns}.
function layered(ids, edges, box = BOX, shape = null) {
  ids = inOrder(ids, edges);
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
    const b = index.get(e.to), chain = [a];
    for (let l = level[a] + 1; l < level[b]; l++) {
      const k = nodes.push({ level: l, w: 8, up: [a], down: [] }) - 1;
      nodes[a].down.push(k);
      chain.push(k);
      a = k;
    }
    nodes[a].down.push(b);
    nodes[b].up.push(a);
    chains.set(e, [...chain, b]);
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
  const cuts = inColumns(nodes, rows, x, box, shape);
  const step = box.h + box.gapY, bottom = Math.max(...cuts.map((c) => c.last - c.first + 1)) * step;
  const column = (l) => cuts.findIndex((c) => l <= c.last);
  const X = (i) => x[i] + cuts[column(nodes[i].level)].shift;
  const Y = (i) => (nodes[i].level - cuts[column(nodes[i].level)].first) * step;
  const at = {};
  ids.forEach((id, i) => (at[id] = { x: X(i), y: Y(i), level: level[i], column: column(level[i]) }));
  const lane = cuts.map(() => 0), paths = [], ends = [], upright = [];
  for (const e of edges) {
    const a = at[e.from], b = at[e.to], chain = chains.get(e);
    if (!chain) { // against the order: a cycle of folded groups
      paths.push(curve([[a.x + box.w / 2, a.y], [a.x + box.w / 2 + 30, (a.y + b.y) / 2], [b.x + box.w / 2, b.y]]));
      ends.push([[a.x + box.w / 2, a.y], [b.x + box.w / 2, b.y]]);
      continue;
    }
    let d = "", points = [[a.x, a.y + box.h / 2]];
    for (let k = 1; k < chain.length; k++) {
      const end = k === chain.length - 1, from = column(nodes[chain[k - 1]].level), to = column(nodes[chain[k]].level);
      const next = [X(chain[k]), end ? b.y - box.h / 2 : Y(chain[k])];
      if (from !== to) {
        d += (d ? " " : "") + curve(points, d === "") + " " + around(points[points.length - 1], next, cuts[from].right + 10 + 7 * lane[from], bottom - box.gapY - box.h / 2 + 22 + 5 * lane[from], -box.h / 2 - 24 - 5 * lane[from]);
        const gap = cuts[from].right + 10 + 7 * lane[from];
        upright.push([gap - 2, -box.h / 2 - 30, gap + 2, bottom]);
        lane[from]++;
        points = [next];
      } else points.push(next);
      if (!end) upright.push([next[0] - 2, next[1] - step / 2, next[0] + 2, next[1] + step / 2]);
    }
    paths.push(d + (points.length > 1 ? (d ? " " : "") + curve(points, d === "") : ""));
    ends.push([[a.x, a.y + box.h / 2], [b.x, b.y - box.h / 2]]);
  }
  return { at, paths, ends, upright, columns: cuts.length };
}

// What a step hands to the next, past the right sides of the boxes between: its path, where its label may
// stand, and its upright part.
function backwards(edges, at, box = BOX) {
  const spots = Object.values(at), n = (v) => v.toFixed(1);
  return edges.map((e, k) => {
    const a = at[e.from], b = at[e.to], own = e.from === e.to, [y0, y1] = own ? [a.y, a.y - box.h / 3] : [a.y + box.h / 3, b.y];
    const passed = spots.filter((p) => p.column === a.column && p.y >= Math.min(y0, y1) - box.h && p.y <= Math.max(y0, y1) + box.h);
    const side = (own ? a.x : Math.max(b.x, ...passed.map((p) => p.x))) + box.w / 2 + (own ? 18 : 22 + 6 * k), r = Math.min(8, Math.abs(y0 - y1) / 2), up = y1 < y0 ? r : -r;
    const path = `M${n(a.x + box.w / 2)},${n(y0)} L${n(side - r)},${n(y0)} Q${n(side)},${n(y0)} ${n(side)},${n(y0 - up)} L${n(side)},${n(y1 + up)} Q${n(side)},${n(y1)} ${n(side - r)},${n(y1)} L${n(b.x + box.w / 2)},${n(y1)}`;
    const label = [[side + 5, (y0 + y1) / 2 + 4, "start"], [a.x + box.w / 2, a.y + box.h / 2 + 14, "end"], [a.x + box.w / 2, a.y - box.h / 2 - 6, "end"]];
    return { path, label, upright: [side - 2, Math.min(y0, y1), side + 2, Math.max(y0, y1)] };
  });
}

// Boxes so that edges go forward, as near to their own order as can be; where folded groups make a cycle, some edge goes back.
function inOrder(ids, edges) {
  const waits = new Map(ids.map((id) => [id, new Set()])), after = new Map(ids.map((id) => [id, []]));
  for (const e of edges) if (e.from !== e.to && !waits.get(e.to).has(e.from)) { waits.get(e.to).add(e.from); after.get(e.from).push(e.to); }
  const left = new Set(ids), out = [], rank = new Map(ids.map((id, i) => [id, i]));
  let ready = ids.filter((id) => !waits.get(id).size);
  while (left.size) {
    const next = ready.length ? ready.reduce((a, b) => (rank.get(b) < rank.get(a) ? b : a)) : left.values().next().value;
    ready = ready.filter((id) => id !== next);
    left.delete(next);
    out.push(next);
    for (const b of after.get(next)) { waits.get(b).delete(next); if (left.has(b) && !waits.get(b).size && !ready.includes(b)) ready.push(b); }
  }
  return out;
}

// Levels as columns: [{first, last, shift (of x), right}], as many as make the picture largest in the window.
function inColumns(nodes, rows, x, box, shape) {
  const L = rows.length, step = box.h + box.gapY;
  const crossing = rows.map(() => new Set());
  nodes.forEach((n, i) => { for (const j of n.down) crossing[nodes[j].level].add(i); });
  const extent = (first, last) => {
    let lo = Infinity, hi = -Infinity;
    for (let l = first; l <= last; l++) for (const i of rows[l]) { lo = Math.min(lo, x[i] - nodes[i].w / 2); hi = Math.max(hi, x[i] + nodes[i].w / 2); }
    return [lo, hi];
  };
  let best = null;
  for (let c = 1; c <= (shape ? Math.min(8, L) : 1); c++) {
    const out = [];
    let width = 0, first = 0;
    for (let k = 0; k < c && first < L; k++) {
      let last = L - 1;
      if (k < c - 1) {
        const ideal = Math.min(L - 1, Math.round(first + (L - first) / (c - k)) - 1), slack = Math.max(1, Math.round(L / c / 5));
        last = ideal;
        for (let l = Math.max(first, ideal - slack); l <= Math.min(L - 2, ideal + slack); l++)
          if (crossing[l + 1].size < crossing[Math.min(L - 1, last + 1)].size || (crossing[l + 1].size === crossing[Math.min(L - 1, last + 1)].size && Math.abs(l - ideal) < Math.abs(last - ideal))) last = l;
      }
      const [lo, hi] = extent(first, last), gutter = last < L - 1 ? 30 + 7 * [...crossing[last + 1]].reduce((n, i) => n + nodes[i].down.length, 0) : 0;
      out.push({ first, last, shift: width - lo, right: width + hi - lo });
      width += hi - lo + gutter;
      first = last + 1;
    }
    const height = Math.max(...out.map((o) => o.last - o.first + 1)) * step;
    const scale = shape ? Math.min(1.2, shape.w / (width + 40), shape.h / (height + 40)) : 1;
    if (!best || scale > best.scale * 1.08) best = { scale, out };
  }
  return best.out;
}

function curve(points, starts = true) {
  let d = starts ? `M${points[0][0].toFixed(1)},${points[0][1].toFixed(1)}` : "";
  for (let i = 1; i < points.length; i++) {
    const [x0, y0] = points[i - 1], [x1, y1] = points[i], m = (y0 + y1) / 2;
    d += ` C${x0.toFixed(1)},${m.toFixed(1)} ${x1.toFixed(1)},${m.toFixed(1)} ${x1.toFixed(1)},${y1.toFixed(1)}`;
  }
  return d.trim();
}

// From the end of a column to the beginning of the next: down to `low`, up between them at `gap`, along `high`, down.
function around([x0, y0], [x1, y1], gap, low, high) {
  const r = 8, n = (v) => v.toFixed(1);
  return `L${n(x0)},${n(low - r)} Q${n(x0)},${n(low)} ${n(x0 + r)},${n(low)} L${n(gap - r)},${n(low)} Q${n(gap)},${n(low)} ${n(gap)},${n(low - r)} ` +
    `L${n(gap)},${n(high + r)} Q${n(gap)},${n(high)} ${n(gap + r)},${n(high)} L${n(x1 - r)},${n(high)} Q${n(x1)},${n(high)} ${n(x1)},${n(high + r)} L${n(x1)},${n(y1)}`;
}

// Where each label stands: the first of its places where it touches neither a box nor a label before it nor a line that goes by, else one
// where it crosses a line; none where there is no room. labels: [{text, width, places: [[x, y, anchor]]}], others: [[x0, y0, x1, y1]].
function labelled(labels, boxes, lines = [], height = 11) {
  const cell = 300;
  let grid = new Map();
  const cells = ([x0, y0, x1, y1], f) => { for (let i = Math.floor(x0 / cell); i <= Math.floor(x1 / cell); i++) for (let j = Math.floor(y0 / cell); j <= Math.floor(y1 / cell); j++) f(i + "," + j); };
  const put = (r) => cells(r, (k) => { if (!grid.has(k)) grid.set(k, []); grid.get(k).push(r); });
  const free = (r) => { let ok = true; cells(r, (k) => { for (const b of grid.get(k) || []) if (r[0] < b[2] && b[0] < r[2] && r[1] < b[3] && b[1] < r[3]) ok = false; }); return ok; };
  boxes.forEach(put);
  const hard = grid;
  grid = new Map();
  lines.forEach(put);
  const passing = grid;
  return labels.map((l) => {
    for (const crossing of [false, true])
      for (const [x, y, anchor] of l.places) {
        const left = anchor === "start" ? x : x - l.width, r = [left, y - height + 2, left + l.width, y + 2];
        grid = passing;
        if (!crossing && !free(r)) continue;
        grid = hard;
        if (free(r)) { put(r); return { x, y, anchor }; }
      }
    return null;
  });
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

if (typeof document === "undefined") module.exports = { kernelScene, modelScene, seen, firstOpen, placed, inOrder, layered, backwards, labelled, search, pathOf, curve, BOX };
