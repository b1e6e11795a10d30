"""The interactive graph page: its data are those of the program, names cannot leave their place, and the layout is sound."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.types import F32, TensorType
from autocomp.report import templates
from autocomp.report.graphview import write_graph
from examples.models import bert
from tests.helpers.browser import browser
from tests.helpers.loop_graphs import handed_on

BOXES = """
const page = require(process.argv[1]), data = JSON.parse(require("fs").readFileSync(process.argv[2]));
const out = {};
for (const [view, scene] of [["kernels", page.kernelScene(data)], ["model", page.modelScene(data)]]) {
  const states = { first: page.firstOpen(scene), closed: new Set(), all: new Set(Object.keys(scene.groups)) };
  out[view] = { items: scene.items.length };
  for (const [name, open] of Object.entries(states)) {
    const s = page.seen(scene, open), window = name === "all" ? null : { w: 900, h: 600 };
    const at = page.layered(s.boxes.map((b) => b.id), s.edges, page.BOX, window).at;
    out[view][name] = { boxes: s.boxes.map((b) => ({ id: b.id, title: b.title, ...at[b.id] })), edges: s.edges.map((e) => [e.from, e.to]) };
  }
}
out.box = page.BOX;
out.found = page.search({ kernels: page.kernelScene(data) }, process.argv[3]).map((f) => f.id);
console.log(JSON.stringify(out));
"""


def page(program, path):
    """(text of the page, its data)."""
    text = write_graph(program, path).read_text()
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return text, json.loads(data)


def layout(data, tmp_path, query):
    if shutil.which("node") is None:
        pytest.skip("no node to run the page's script")
    (tmp_path / "data.json").write_text(json.dumps(data))
    (tmp_path / "graph.js").write_text(templates.asset("graph_layout.js"))
    done = subprocess.run(["node", "-e", BOXES, str(tmp_path / "graph.js"), str(tmp_path / "data.json"), query], capture_output=True,
                          text=True, timeout=60, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_page_has_the_program(deep, tmp_path):
    text, data = page(deep, tmp_path / "g.html")
    assert len(data["calls"]) == len(deep.calls.calls)
    assert sum(x["length"] * x["times"] for x in data["layers"]) == len(data["calls"])
    assert any(x["times"] >= 4 for x in data["layers"])
    computed = {i for n, node in enumerate(data["nodes"]) for i in node["calls"]}
    assert computed == set(range(len(data["calls"])))  # each kernel computes something that the model has
    stored = {t for c in data["calls"] for t, _ in c["stores"]}
    assert stored <= data["stored"].keys()
    assert any(s["others"] for s in data["stored"].values()) and all(any(f["chosen"] for f in data["stored"][t]["forms"]) for t in stored)
    for t in data["stored"].values():
        assert all(o["seconds"] > 0 and o["reads"] for o in t["others"])
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text  # nothing is fetched


def test_a_page_of_bert_base_is_small_and_opens_at_once(tmp_path):
    program = autocomp.optimize(bert(12, seq=128, hidden=768, heads=12, inner=3072), verify=False)
    path = write_graph(program, tmp_path / "g.html")
    assert path.stat().st_size < 2 << 20
    with browser() as b:
        assert min(b.open(path) for _ in range(3)) < 2 and b.log() == []


@pytest.mark.parametrize("view", ["kernels", "model"])
def test_boxes_are_apart_and_every_item_is_in_one(deep, tmp_path, view):
    _, data = page(deep, tmp_path / "g.html")
    out = layout(data, tmp_path, "softmax")
    w, h = out["box"]["w"], out["box"]["h"]
    for state, most in (("first", 60), ("closed", 60), ("all", None)):
        boxes = out[view][state]["boxes"]
        assert most is None or len(boxes) <= most
        for i, a in enumerate(boxes):
            assert not [b["id"] for b in boxes[:i] if abs(a["x"] - b["x"]) < w and abs(a["y"] - b["y"]) < h]
        ids = [b["id"] for b in boxes]
        assert len(set(ids)) == len(ids)
        assert {x for e in out[view][state]["edges"] for x in e} <= set(ids)
        level = {b["id"]: (b["column"], b["level"], b["y"]) for b in boxes}
        assert state == "closed" or all(level[a] < level[b] for a, b in out[view][state]["edges"])  # down, along the data, column by column
    assert len(out[view]["all"]["boxes"]) == out[view]["items"]
    assert out["found"] and all("softmax" in data["calls"][int(f[5:])]["kernel"] for f in out["found"])


def test_names_stay_text(tmp_path):
    b = Builder("</script><img src=x>")
    x = b.input("x", TensorType(F32, (8,)))
    y = b.op("exp", x)
    b.locations[y] = "node 0 '</script><script>alert(1)</script>' (Exp)"
    b.output("y", y)
    text, data = page(autocomp.optimize(b.graph()), tmp_path / "g.html")
    assert data["nodes"][0]["place"] == "</script><script>alert(1)</script>"
    assert text.count("</script>") == 2 and "<img" not in text


def test_symbolic_sizes_and_opaque_kernels_have_pages(tmp_path):
    def fn(x):
        return np.sort(np.exp(x), axis=-1)

    program = autocomp.optimize(fn, example_inputs=(np.zeros((3, 5), "f4"),))
    assert page(program, tmp_path / "g.html")[1]["calls"]


def test_what_a_step_reads_of_the_one_before(tmp_path):
    """A tensor that lies where a call of the step before stored; the pictures for scripts have it too."""
    program = autocomp.optimize(handed_on(), target="cuda:h200")
    _, data = page(program, tmp_path / "g.html")
    assert [[(t, maker) for t, _, maker in c.get("carried", [])] for c in data["calls"]] == [
        [("loop0/carry 0", 2)], [], [("loop0/carry 1", 2)],
    ]  # fmt: skip
    text = write_graph(program, tmp_path / "g.dot").read_text()
    assert '"k2" -> "k0" [style=dashed, constraint=false, label="next step: f32[4, 64]"];' in text
