"""`compare`: what may stand on a side, measured in turns, with correctness and a verdict."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.errors import AutocompError, RuleError
from autocomp.options import Options
from autocomp.report import trial
from autocomp.report.compare import parts_of
from autocomp.report.device_sides import check_call, launch_of, timer
from autocomp.report.roofline import Point, Series, roofline
from autocomp.report.saved import prepare_saved
from autocomp.report.sides import Given
from autocomp.report.two_sides import two_sides
from autocomp.runtime.inputs import random_inputs
from autocomp.runtime.rounds import in_turns
from tests.cli.test_cli import run
from tests.helpers.browser import browser

MODEL = """graph gemm
input x: f32[24, 32]
param w: f32[32, 40] = random(1)
%0 = matmul(x, w)
%1 = relu(%0)
output y = %1
"""
C = """void gemm(const float* x, const float* w, float* y) {
  for (int i = 0; i < 24; i++) for (int j = 0; j < 40; j++) {
    float s = 0; for (int k = 0; k < 32; k++) s += x[i*32+k] * w[k*40+j];
    y[i*40+j] = s > 0 ? s : 0;
  }
}
"""
OTHERS = """void two(const float* x, float* y) { y[0] = x[0]; }
void sized(const float* x, const float* w, float* y, long n) { y[n] = x[0] + w[0]; }
void number(const float* x, long n, float* y) { y[n] = x[0]; }
"""
PYTHON = """import numpy as np
def gemm(x, w):
    return np.maximum(x @ w, 0)
def wrong(x, w):
    return x @ w
def other(x, v):
    return x
def narrow(x):
    return x
"""
RULE = """- name: mine/never-wins
  phase: algebra
  lhs: relu(?x)
  rhs: max(?x, 0)
  where: [is_float(?x)]
  why: a test
  examples:
    - {x: "f32[3]"}
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sides")
    for name, text in (("m.txt", MODEL), ("k.c", C), ("o.c", OTHERS), ("k.py", PYTHON), ("r.yaml", RULE)):
        (folder / name).write_text(text)
    return folder


def test_a_kernel_by_hand_in_c_is_measured_beside_the_program(here):
    report, page, saved = here / "ab.md", here / "ab.html", here / "runs"
    saved.mkdir()
    text, _ = run("compare", "plain", f"{here}/k.c:gemm", "--model", f"{here}/m.txt", "--report", str(report))
    lines = text.splitlines()
    start = lambda word: next(x for x in lines if x.startswith(word))
    assert "medians of 20 rounds in turns, cold caches" in start("measured: A ")
    assert "order statistics" in start("A / B: ") and start("verdict: ").removeprefix("verdict: ").startswith(("B is ", "no "))
    assert "worst element y[" in start("correctness of A") and "float64 says" in start("correctness of B")
    assert "cores" in start("environment: ")
    assert "verdict: " in report.read_text() and "k.c" in report.read_text()
    run("compare", f"{here}/m.txt", f"{here}/k.c:gemm", "--report", str(saved / "1.json"))
    data = json.loads((saved / "1.json").read_text())
    for side in (data["a"], data["b"]):  # a row never contradicts its total
        assert sum(k["measured"] * k["calls"] for k in side["kernels"]) == pytest.approx(side["measured"])
    assert data["trial"]["rounds"] == 20 and data["trial"]["right"] == [True, True] and len(data["trial"]["seconds"][0]) == 20
    assert run("compare", "--history", str(saved))[0].startswith("1.json: ")
    run("compare", f"{here}/m.txt", f"{here}/r.yaml", "--model", f"{here}/m.txt", "--report", str(page))
    html = page.read_text()
    assert "<li>ceilings of this run: " in html and "B/s copied" in html
    assert "<li>verdict: " in html and 'class="measured-roof"' in html and html.count(": all of it: ") == 2
    with browser() as b:  # looked at: bars of both intervals, one plot with both sides, sources beside each other
        b.open(page)
        assert b.log() == [] and b.run("return document.documentElement.scrollWidth <= window.innerWidth")
        assert b.run("return [...document.querySelectorAll('.bars rect')].every((r) => r.getBoundingClientRect().width > 0)")
        b.run("for (const d of document.querySelectorAll('details')) d.open = true")
        assert b.run("return document.querySelectorAll('.diff .add').length") > 0


@pytest.mark.parametrize(("apart", "calls", "whole", "want"), [
    ([44.7], [1], 32.9, [32.9]),  # one kernel is the whole program
    ([30.0, 20.0, 10.0], [1, 2, 1], 60.0, [25.0, 15.0, 5.0]),  # each launch by itself took 5 more
    ([30.0, 6.0], [1, 1], 20.0, [30 * 20 / 36, 6 * 20 / 36]),  # 8 more would leave nothing of the second
    ([30.0, 20.0], [1, 1], 75.0, [45.0, 30.0]),
])  # fmt: skip
def test_times_of_kernels_are_parts_of_the_total(apart, calls, whole, want):
    rows = [{"kernel": "k", "calls": n, "measured": t, "roofline": 6.0 / t} for t, n in zip(apart, calls, strict=True)]
    found = parts_of(rows, whole)
    assert [r["measured"] for r in found] == pytest.approx(want)
    assert [r["roofline"] for r in found] == pytest.approx([6.0 / t for t in want])


def test_a_kernel_by_hand_is_found_from_the_folder_of_the_call(here, monkeypatch):
    monkeypatch.chdir(here)  # the compiler runs in a folder of its own
    assert "verdict: " in run("compare", "plain", "k.c:gemm", "--model", "m.txt")[0]


def test_a_wrong_kernel_gets_no_verdict_about_times(here):
    for report in ("w.json", "w.html", "w.md"):
        text, _ = run("compare", f"{here}/k.py:wrong", "plain", "--model", f"{here}/m.txt", "--report", str(here / report), code=3)
        assert "verdict: A computes something else: no verdict about times" in text
        assert "measured" not in text and "A / B:" not in text and "times slower" not in text
        assert "no verdict about times" in (here / report).read_text()
    data = json.loads((here / "w.json").read_text())
    assert data["trial"]["right"] == [False, True] and "seconds" not in data["trial"]
    assert data["a"]["measured"] is None and data["b"]["measured"] is None
    assert "verdict: A computes" not in run("compare", f"{here}/k.py:gemm", "plain", "--model", f"{here}/m.txt")[0]


def test_targets_and_schedules_are_sides(here):
    data = json.loads(run("compare", "cuda:h200", "cuda:a100", "--model", f"{here}/m.txt", "--json")[0])
    assert [data[s]["target"] for s in "ab"] == ["cuda:h200", "cuda:a100"] and data["trial"] is None
    data = json.loads(run("compare", "plain", "matmul_relu=tile i0 8, i1 40, r0 32", "--model", f"{here}/m.txt", "--json")[0])
    assert data["b"]["kernels"][0]["schedule"].startswith("tile i0 8") and data["trial"]["right"] == [True, True]


@pytest.mark.parametrize(("sides", "said"), [
    (["plain", "plain"], "is no folder of a saved program, and no model is given for it"),
    (["k.c:gem", "plain"], "has no function 'gem'"),
    (["o.c:two", "plain"], "does not take 3 pointers (x, w, y): "),
    (["o.c:sized", "plain"], "does not take 3 pointers (x, w, y): "),
    (["o.c:number", "plain"], "does not take 3 pointers (x, w, y): "),
    (["k.py:gem", "plain"], "cannot be used: AttributeError"),
    (["k.py:other", "plain"], "takes 'v', which the model has not"),
    (["k.py:narrow", "plain"], "makes 'y' of shape [24, 32]"),
    (["nowhere.c:f", "plain"], "cannot be read"),
    (["plain"], "two sides, or --history DIR"),
])  # fmt: skip
def test_sides_that_are_none_are_refused(here, sides, said):
    model = [] if sides == ["plain", "plain"] else ["--model", f"{here}/m.txt"]
    asked = [f"{here}/{s}" if ":" in s else s for s in sides]
    code = 2 if len(sides) == 1 else 1
    assert said in " ".join(run("compare", *asked, *model, code=code)[1].split())


def test_a_folder_without_runs_is_refused(tmp_path):
    assert "holds no measured comparison" in run("compare", "--history", str(tmp_path), code=1)[1]


# ---- saved folders that run
@pytest.fixture(scope="module")
def saved(here):
    for name, more in (("fused", []), ("apart", ["--without", "fusion/*"])):
        run("optimize", f"{here}/m.txt", "--no-verify", "-o", str(here / name), *more)
    return here


def test_saved_programs_run_where_that_is_asked_for(saved):
    sides = [f"{saved}/fused", f"{saved}/apart", "--model", f"{saved}/m.txt"]
    data = json.loads(run("compare", *sides, "--run-folders", "--json")[0])
    assert data["trial"]["right"] == [True, True] and data["trial"]["rounds"] == 20
    assert [len(data[s]["kernels"]) for s in "ab"] == [1, 2]
    assert json.loads(run("compare", *sides, "--json")[0])["trial"] is None  # nothing of a folder runs by itself
    assert "not measured: saved folders run with --run-folders --model MODEL" in run("compare", *sides)[0]
    assert "not measured: no side says what the inputs are; give the model" in run("compare", *sides[:2], "--run-folders")[0]


def test_a_folder_beside_a_program_and_one_that_computes_something_else(saved):
    data = json.loads(run("compare", f"{saved}/m.txt", f"{saved}/apart", "--run-folders", "--json")[0])
    assert data["trial"]["right"] == [True, True]
    (saved / "n.txt").write_text(MODEL.replace("random(1)", "random(2)"))
    text, _ = run("compare", f"{saved}/n.txt", f"{saved}/apart", "--run-folders", code=3)
    assert "verdict: B computes something else: no verdict about times" in text


@pytest.mark.parametrize(("change", "said"), [
    (lambda m: m.update(target="maca"), "only those of CPUs run from a folder"),
    (lambda m: m["kernels"][0].update(bound="opaque"), "runs through its reference"),
    (lambda m: m.update(orders={"x": [1, 0]}), "another order of their dimensions"),
    (lambda m: m["tensors"]["x"].update(type="f32[N, 32]"), "no type of known sizes"),
    (lambda m: m["tensors"]["x"].update(slot=7), "table of pointers has holes"),
    (lambda m: m["sources"].append("../m.txt"), "is no file of this folder"),
    (lambda m: m["tensors"]["x"].update(type="f32[24, 33]"), "'x' has 3072 bytes, the folder's tensor 3168"),
    (lambda m: m["tensors"]["x"].update(type=f"f32[{1 << 50}]"), "not enough memory"),
])  # fmt: skip
def test_folders_that_cannot_run_are_refused_with_the_reason(saved, tmp_path, change, said):
    folder = shutil.copytree(saved / "fused", tmp_path / "f")
    m = json.loads((folder / "manifest.json").read_text())
    change(m)
    (folder / "manifest.json").write_text(json.dumps(m))
    with pytest.raises(AutocompError) as e:
        graph = autocomp.optimize(MODEL, verify=False).graph
        prepare_saved(folder)(graph, random_inputs(graph, seed=0))
    assert said in str(e.value)


def test_a_mistake_in_a_file_of_rules_is_said_before_a_program_is_built(here):
    (here / "bad.yaml").write_text("- name: a/b\n  phase: algebra\n  lhs: exp(?x\n  rhs: ?x\n")
    build = lambda *_: pytest.fail("a program is built")
    with pytest.raises(RuleError, match=r"bad\.yaml:3:14"):
        two_sides("plain", f"{here}/bad.yaml", build, f"{here}/m.txt", Options(), "cpu", 3)


# ---- sides on a CUDA device: what can be said without one
CUDA = 'extern "C" __global__ void gemm(const float* x, const float* w, float* y) { y[blockIdx.x * 40 + threadIdx.x] = x[0] * w[0]; }'


def test_a_kernel_of_cuda_says_how_it_is_launched():
    assert launch_of("gemm<<<64,256>>>") == ("gemm", (64,), 256, 0)
    assert launch_of("gemm<<<(8, 64), 128, 49152>>>") == ("gemm", (8, 64), 128, 49152)
    for text in ("gemm", "gemm<<<64>>>", "gemm<<<0,256>>>", "gemm<<<(1,2,3,4),256>>>", "gemm<<<64,256>>", "<<<64,256>>>"):
        with pytest.raises(AutocompError, match="does not say how it is launched"):
            launch_of(text)


def test_a_kernel_of_cuda_is_a_side_of_a_cuda_target(here):
    (here / "k.cu").write_text(CUDA)
    side = f"{here}/k.cu:gemm<<<24,40>>>"
    data = json.loads(run("compare", "plain", side, "--model", f"{here}/m.txt", "--target", "cuda:h200", "--json")[0])
    assert data["b"]["target"] == "by hand" and data["a"]["target"] == "cuda:h200"
    assert "is for a CUDA device" in run("compare", "plain", side, "--model", f"{here}/m.txt", code=1)[1]
    wrong = run("compare", "plain", f"{here}/k.cu:gem<<<24,40>>>", "--model", f"{here}/m.txt", "--target", "cuda:h200", code=1)[1]
    assert "has no kernel 'extern" in wrong


@pytest.mark.parametrize("other", ["float* x, float* y", "float* x, float* w, float* y, int n", "float* x, long w, float* y"])
def test_a_kernel_of_cuda_that_takes_other_arguments_is_refused(other):
    toolchain = load_target("cuda:h200").toolchain
    if why := toolchain.missing():
        pytest.skip(why)
    check_call(Path("k.cu"), CUDA, "gemm", ("x", "w", "y"), toolchain)
    with pytest.raises(AutocompError, match=r"k.cu:gemm: does not take 3 pointers \(x, w, y\)\n.*inputs, then parameters, then outputs"):
        check_call(Path("k.cu"), f'extern "C" __global__ void gemm({other}) {{ y[0] = x[0]; }}', "gemm", ("x", "w", "y"), toolchain)


class _Device:
    """As much of torch as the timer uses, with a clock that counts calls."""

    def __init__(self):
        self.cuda, self.now, self.said = self, 0.0, []

    def zeros(self, n, device):
        return self

    def add_(self, x):
        self.now += 5.0

    def _sleep(self, clocks):
        self.now += 1.0

    def synchronize(self):
        self.said.append("waited")

    def Event(self, enable_timing):
        device = self

        class Event:
            def record(self):
                self.at = device.now

            def elapsed_time(self, other):
                return other.at - self.at

        return Event()


def test_a_time_of_a_device_is_that_of_the_call_alone():
    device = _Device()
    timed = timer(device)

    def call():
        device.now += 2.0

    assert timed(call) == pytest.approx(2e-3)  # neither what clears the cache nor the head start
    rounds = in_turns(call, lambda: (call(), call()), rounds=20, timed=timed)
    assert rounds.ratio.median == pytest.approx(0.5) and rounds.verdict == "B is 2.00 to 2.00 times slower"
    assert len(device.said) == 1 + 2 * 23


def test_programs_of_a_device_are_timed_there_or_not_at_all(monkeypatch):
    """By the clock of the host with NumPy's arrays, 32 us of kernels were 2.7 ms of copies (`explain --without`)."""
    device, graph = _Device(), SimpleNamespace(inputs=(), computed=())
    monkeypatch.setattr(trial, "torch_on_device", lambda: device)
    program = SimpleNamespace(target=SimpleNamespace(name="cuda"))

    def takes(milliseconds):
        def call():
            device.now += milliseconds

        return lambda graph, feed: call

    monkeypatch.setattr(trial, "random_inputs", lambda graph, seed: {})
    a, b = (Given(str(t), program, prepare=takes(t), device=True) for t in (2.0, 4.0))
    assert trial.times_of(a, b, graph).ratio.median == pytest.approx(0.5)
    assert trial.times_of(a, replace(b, device=False), graph) is None
    assert trial.times_of(a, replace(b, prepare=None), graph) is None


@pytest.mark.parametrize(("rate", "bandwidth"), [(1e11, 1e10), (1e11, 3e8), (1e9, 1e13)])
def test_the_ceilings_of_a_busy_machine_are_drawn_too(rate, bandwidth):
    """A copy beside other work is slow: where the two ceilings meet then lies beside the plot."""
    one = Series("A", "red", (Point("k", 4.0, 2e10, 1e10, 1e-5),))
    drawn = roofline(load_target("cpu").chip, [one], measured=(rate, bandwidth))
    (line,) = re.findall(r'class="measured-roof" points="([^"]*)"', drawn)
    assert len(line.split()) >= 2


@pytest.mark.parametrize(("load", "device", "said"), [("0.9", {}, False), ("3.9", {}, False), ("8.4", {}, True), ("?", {}, False),
                                                      ("8.4", {"device": "a card"}, False)])  # fmt: skip
def test_a_busy_machine_is_said_beside_the_verdict(load, device, said):
    """Threads that wait for each other wait for cores too: beside a loop on one thread, a parallel kernel looks slow by the load alone."""
    rounds = in_turns(lambda: None, lambda: None, 20, cold=False)
    tried = trial.Trial(rounds, ("", ""), (True, True), {"cores": "2", "load": load, **device})
    assert any(line.startswith("caution: a load of 8.4 on 2 cores") for line in tried.lines()) == said


def test_sides_of_a_named_dimension_are_measured(tmp_path):
    (tmp_path / "n.txt").write_text("graph g\ndim N in 1..64\ninput x: f32[N, 8]\n%0 = exp(x)\noutput y = %0\n")
    said, _ = run("compare", str(tmp_path / "n.txt"), str(tmp_path / "n.txt"))
    assert "float64 says" in said
