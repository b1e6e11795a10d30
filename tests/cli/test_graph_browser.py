"""The graph page in headless Chromium: it opens quickly, nothing overlaps, text stays in its box, clicks and keys do what the page says."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.report.graphview import write_graph
from tests.helpers.browser import browser
from tests.helpers.loop_graphs import handed_on

# Rectangles in the page of all boxes, the texts in them, and labels of edges.
SHAPES = """
const of = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
const boxes = [...document.querySelectorAll(".box")];
return { boxes: boxes.map((b) => ({ id: b.dataset.id, at: of(b.querySelector("rect")), texts: [...b.querySelectorAll("text")].map(of) })),
         labels: [...document.querySelectorAll("text.label")].map(of) };
"""
LOOPS = """
const of = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; };
return [...document.querySelectorAll("svg.code")].map((s) => ({ at: of(s), lines: [...s.querySelectorAll("text")].map(of),
  arrows: [...s.querySelectorAll(".dependence path")].map(of),
  said: [...s.querySelectorAll(".dependence")].map((g) => [g.dataset.from, g.dataset.to]) }));
"""
AREA = "const r = document.getElementById('picture').getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom];"
REFUSED = "return [...document.querySelectorAll('tr')].filter((r) => r.innerText.includes('refused')).map((r) => r.innerText)"
# Texts whose contrast with what is behind them is below 4.5 (WCAG 2.2, 1.4.3), with both colours.
FAINT = """
const rgb = (c) => (c.match(/[\\d.]+/g) || []).map(Number), light = (c) => { const [r, g, b] = rgb(c).map((v) => { v /= 255; return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const solid = (c) => c && c !== "none" && !(rgb(c).length === 4 && rgb(c)[3] === 0);
const behind = (e) => { for (let x = e; x; x = x.parentElement) { const s = getComputedStyle(x), r = x !== e && x.tagName === "g" && x.querySelector(":scope > rect"); if (r) return getComputedStyle(r).fill; if (!(x instanceof SVGElement) && solid(s.backgroundColor)) return s.backgroundColor; } return "rgb(255,255,255)"; };
const out = [];
for (const e of document.querySelectorAll("body *")) {
  if (!e.getClientRects().length || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || ["TITLE", "SCRIPT", "OPTION"].includes(e.tagName.toUpperCase())) continue;
  const s = getComputedStyle(e), a = light(e instanceof SVGElement ? s.fill : s.color), b = light(behind(e)), c = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (c < 4.5) out.push([e.tagName, e.textContent.slice(0, 30), c, e instanceof SVGElement ? s.fill : s.color, behind(e)]);
}
return out;
"""  # noqa: E501
TABS = ("kernels", "model", "loops", "covers", "rules", "memory", "prices")


def apart(a, b, slack=1.0):
    """Whether two rectangles touch by no more than `slack` pixels."""
    return a[2] <= b[0] + slack or b[2] <= a[0] + slack or a[3] <= b[1] + slack or b[3] <= a[1] + slack


def inside(a, b, slack=1.0):
    return a[0] >= b[0] - slack and a[1] >= b[1] - slack and a[2] <= b[2] + slack and a[3] <= b[3] + slack


@pytest.fixture(scope="module")
def chromium():
    with browser() as b:
        yield b


@pytest.fixture(scope="module")
def path(chromium, deep, tmp_path_factory):
    return write_graph(deep, tmp_path_factory.mktemp("page") / "g.html")


def check_picture(chromium):
    shapes = chromium.run(SHAPES)
    boxes = shapes["boxes"]
    assert boxes
    for i, b in enumerate(boxes):
        assert all(inside(t, b["at"]) for t in b["texts"]), b
        assert all(apart(b["at"], other["at"]) for other in boxes[:i])
    for i, label in enumerate(shapes["labels"]):
        assert all(apart(label, b["at"], 2) for b in boxes) and all(apart(label, other, 2) for other in shapes["labels"][:i])
    return shapes


def test_it_opens_within_two_seconds(chromium, path):
    assert min(chromium.open(path) for _ in range(3)) < 2
    assert chromium.log() == []


def test_pictures_are_readable_folded_and_open(chromium, path):
    chromium.open(path)
    for view in ("kernels", "model"):
        chromium.click(f"#tab-{view}")
        first = check_picture(chromium)
        assert len(first["boxes"]) <= 24 and first["labels"]
        area = chromium.run(AREA)
        assert all(inside(b["at"], area) for b in first["boxes"])  # the whole of it is seen at first
        for _ in range(12):  # open all, outermost first
            closed = chromium.run("const g = document.querySelector('.box.group'); if (g) g.focus(); return !!g;")
            if not closed:
                break
            chromium.press("Enter")
            check_picture(chromium)
        assert len(chromium.run(SHAPES)["boxes"]) > len(first["boxes"])
        chromium.click("#fold")
        assert len(chromium.run(SHAPES)["boxes"]) < len(first["boxes"])
    assert chromium.log() == []


def test_what_a_step_hands_to_the_next_goes_back_dashed(chromium, tmp_path):
    chromium.open(write_graph(autocomp.optimize(handed_on(), target="cuda:h200"), tmp_path / "g.html"))
    arrows = "return [...document.querySelectorAll('.edge.carried')].map"
    drawn = chromium.run(arrows + "((p) => [p.dataset.from, p.dataset.to, getComputedStyle(p).strokeDasharray])")
    assert [x[:2] for x in drawn] == [["call:2", "call:0"], ["call:2", "call:2"]]
    assert all(dashes not in ("none", "") for *_, dashes in drawn)
    said = chromium.run("return [...document.querySelectorAll('text.label')].map((t) => t.textContent)")
    assert said.count("next step: f32[4, 64]") == 2
    boxes = check_picture(chromium)["boxes"]
    way = chromium.run(arrows + "((p) => { const r = p.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })[0]")
    between = [b["at"] for b in boxes if way[1] < b["at"][3] and b["at"][1] < way[3]]
    assert way[2] > max(b[2] for b in between), "it goes past the boxes between, not through them"
    label = chromium.run("return document.querySelector(arguments[0]).getAttribute('aria-label')", ".box[data-id='call:0']")
    assert "reads of the step before reduce_max" in label
    chromium.click(".box[data-id='call:0']")
    assert "Reads of the step before" in chromium.run("return document.getElementById('panel').innerText")
    assert chromium.log() == []


def test_weights_that_modules_share_are_in_none_of_them(chromium, path):
    """A weight has one name and several readers: in the group of one of them it would stand in front of what that group waits for."""
    chromium.open(path)
    first = (("transpose", "b.1.att (w)", []), ("reshape", "b.0.up (w)", []), ("matmul", "b.0.att (w)", [0], "x"))
    rows = (*first, ("add", "b.0.att (w)", [2]), ("matmul", "b.0.up (w)", [3, 1]), ("exp", "b.0.up (e)", [4]),
            ("matmul", "b.1.att (w)", [0, 5]), ("add", "b.1.att (w)", [6]))  # fmt: skip
    nodes = [{"op": op, "type": "f32[4]", "place": place, "reads": reads, "from": given, "calls": [0]} for op, place, reads, *given in rows]
    data = {"nodes": nodes, "inputs": {"x": "f32[4]"}, "outputs": [], "calls": [], "kernels": {}, "layers": []}
    parents = chromium.run("return modelScene(arguments[0]).items.filter((x) => x.id.startsWith('node:')).map((x) => x.parent)", data)
    assert parents == ["module:b", "module:b/0/up", *["module:b/0/att"] * 2, *["module:b/0/up"] * 2, *["module:b/1/att"] * 2]


def test_clicks_and_keys(chromium, path):
    chromium.open(path)
    chromium.click(".box[data-id^='call:']")
    picked = chromium.run("return document.querySelector('.box.picked').dataset.id")
    text = chromium.run("return document.getElementById('panel').innerText")
    assert picked.startswith("call:") and "Schedule" in text and "Forms of" in text and "bound by" in text
    chromium.press("ArrowDown")
    assert chromium.run("return document.querySelector('.box.picked').dataset.id") != picked
    chromium.press("/", "softmax")
    assert chromium.run("return document.activeElement.id") == "search"
    assert chromium.run("return document.querySelectorAll('#found li').length") > 0
    chromium.click("#found button")
    found = chromium.run("return document.querySelector('.box.picked').getAttribute('aria-label')")
    assert "softmax" in found
    chromium.press("Escape")  # folds the layer that it is in
    assert chromium.run("return document.querySelector('.box.picked').classList.contains('group')")
    for role in ("[role=tab]", ".box[role=button][tabindex='0'][aria-label]", "[role=status]", "#picture[aria-label]"):
        assert chromium.run("return document.querySelector(arguments[0]) !== null", role)
    ground = lambda: chromium.run("return getComputedStyle(document.body).backgroundColor")
    boxes = lambda: chromium.run("return [...document.querySelectorAll('.box rect')].map((r) => getComputedStyle(r).fill)")
    before, colours = ground(), boxes()
    chromium.click("#theme")
    assert ground() != before
    assert all(a != b for a, b in zip(colours, boxes(), strict=True)), "boxes follow the theme"
    assert chromium.log() == []


def test_every_view_has_its_content(chromium, path):
    chromium.open(path)
    for view in TABS:
        chromium.click(f"#tab-{view}")
        assert chromium.run("return document.querySelector('nav [aria-selected=true]').dataset.view") == view
        assert chromium.run("return document.documentElement.scrollWidth <= window.innerWidth")
    chromium.click("#tab-covers")
    assert "the fewest operations in each kernel" in chromium.run("return document.getElementById('page').innerText")
    chromium.click("#tab-loops")
    for name in chromium.run("return [...document.querySelectorAll('#kernel option')].map((o) => o.value)"):
        chromium.run("const k = document.getElementById('kernel'); k.value = arguments[0]; k.onchange();", name)
        for s in chromium.run(LOOPS):
            assert all(inside(x, s["at"]) for x in (*s["lines"], *s["arrows"]))
            assert all(apart(a, b) for i, a in enumerate(s["lines"]) for b in s["lines"][:i])
            assert all(apart(a, b, 2) for a in s["arrows"] for b in s["lines"])
    assert ["U0", "U0"] in chromium.run(LOOPS)[0]["said"]
    refused = chromium.run(REFUSED)
    assert any("parallel r0" in r and "must run before" in r for r in refused)
    assert chromium.run("return document.querySelectorAll('.lattice .later').length") == len(refused)
    assert chromium.log() == []


def test_a_screen_reader_is_told_roles_names_and_states(chromium, path):
    chromium.open(path)
    for view in TABS:
        chromium.click(f"#tab-{view}")
        told = chromium.accessible()
        assert [n["name"] for n in told if n["role"] == "tab" and n["selected"]] == [chromium.run(
            "return document.getElementById(arguments[0]).textContent", f"tab-{view}")]
        named = ("button", "tab", "searchbox", "combobox", "link", "table", "tabpanel", "tablist", "image", "img", "group", "heading")
        assert not [n for n in told if (n["role"] in named or n.get("focusable")) and not n["name"]]
        assert {"banner", "main", "status", "tabpanel"} <= {n["role"] for n in told}
        assert next(n["level"] for n in told if n["role"] == "heading") == 1
    chromium.click("#tab-kernels")
    boxes = [n for n in chromium.accessible() if n["role"] == "button" and " reads " in n["name"]]
    assert len(boxes) >= 3 and any(n.get("expanded") is False and "folded, Enter opens" in n["name"] for n in boxes)
    chromium.click(".box[data-id^='call:']")
    said = chromium.run("return document.getElementById('said').textContent")
    assert said.partition(" is selected")[0] == chromium.run("return document.querySelector('#panel h2').textContent") != said


def test_everything_is_reached_by_keys_in_the_order_of_the_picture(chromium, path):
    chromium.open(path)
    seen = []
    while not seen or seen[-1] != "panel":
        chromium.press("Tab")
        seen.append(chromium.run("const e = document.activeElement; return e.id || e.dataset.id || e.tagName"))
        assert len(seen) < 60, seen
    boxes = chromium.run("return [...document.querySelectorAll('.box')].map((b) => b.dataset.id)")
    assert seen == ["tab-kernels", "search", "fit", "fold", "theme", *boxes, "panel"]
    chromium.run("document.getElementById('tab-kernels').focus()")
    for view in (*TABS[1:], TABS[0]):
        chromium.press("ArrowRight")
        assert chromium.run("return document.activeElement.dataset.view") == view
        assert chromium.run("return document.querySelector('nav [aria-selected=true]').dataset.view") == view


def test_text_has_contrast_in_light_and_dark_and_narrow_windows_cut_nothing(path):
    for dark in (False, True):
        with browser(width=500, dark=dark) as b:
            b.open(path)
            for view in TABS:
                b.click(f"#tab-{view}")
                assert b.run(FAINT) == [] and b.run("return document.documentElement.scrollWidth <= window.innerWidth")
