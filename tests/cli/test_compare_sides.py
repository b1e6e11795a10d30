"""`compare`: what may stand on a side, measured in turns, with correctness and a verdict."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_cli import run

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
    for name, text in (("m.txt", MODEL), ("k.c", C), ("k.py", PYTHON), ("r.yaml", RULE)):
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
    assert data["trial"]["rounds"] == 20 and data["trial"]["right"] == [True, True] and len(data["trial"]["seconds"][0]) == 20
    assert run("compare", "--history", str(saved))[0].startswith("1.json: ")
    run("compare", f"{here}/m.txt", f"{here}/r.yaml", "--model", f"{here}/m.txt", "--report", str(page))
    assert "<li>verdict: " in page.read_text()


def test_a_wrong_kernel_gets_no_verdict_about_times(here):
    text, _ = run("compare", f"{here}/k.py:wrong", "plain", "--model", f"{here}/m.txt")
    assert "verdict: A computes something else: no verdict about times" in text
    assert "verdict: A computes" not in run("compare", f"{here}/k.py:gemm", "plain", "--model", f"{here}/m.txt")[0]


def test_targets_and_schedules_are_sides(here):
    data = json.loads(run("compare", "cuda:h200", "cuda:a100", "--model", f"{here}/m.txt", "--json")[0])
    assert [data[s]["target"] for s in "ab"] == ["cuda:h200", "cuda:a100"] and data["trial"] is None
    data = json.loads(run("compare", "plain", "matmul_relu=tile i0 8, i1 40, r0 32", "--model", f"{here}/m.txt", "--json")[0])
    assert data["b"]["kernels"][0]["schedule"].startswith("tile i0 8") and data["trial"]["right"] == [True, True]


@pytest.mark.parametrize(("sides", "said"), [
    (["plain", "plain"], "is no folder of a saved program, and no model is given for it"),
    (["k.c:gem", "plain"], "has no function 'gem'"),
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
