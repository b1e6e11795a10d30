"""The nets can fail: a wrong result, a traceback, a crash and a hang are each noticed, shrunk, kept, and found in the record again."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks.fuzz.graphs import Case, check, draw, smaller
from benchmarks.fuzz.harness import Run, generators
from benchmarks.fuzz.record import Record, version

ROOT = Path(__file__).resolve().parents[2]
PLANTED = '''
"""Numbers; those over forty fail, each in its way."""
import os, signal, time
from benchmarks.fuzz.verdict import RIGHT, Verdict

NAME = "planted"

class Case(int):
    def text(self):
        return f"the number {int(self)}"

def draw(seed):
    return Case(seed)

def check(n):
    if n > 40:
        kind = n % 4
        if kind == 0:
            return Verdict("wrong", f"{n} is too large")
        if kind == 1:
            raise KeyError(n)
        if kind == 2:
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)
    return Verdict("refused", "odd") if n % 2 else RIGHT

def smaller(n):
    yield from (Case(n - 40), Case(n - 8), Case(n - 4))
'''


@pytest.fixture
def planted(tmp_path, monkeypatch):
    place = tmp_path / "benchmarks" / "fuzz"
    place.mkdir(parents=True)
    (place / "planted.py").write_text(PLANTED)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path / "out"


def test_failures_of_every_kind_are_booked_shrunk_and_kept(planted):
    said: list[str] = []
    run = Run(planted, jobs=1, limit=0.4, say=said.append)
    planted.mkdir()
    assert run.cases(("planted", s) for s in (6, 7, 60, 61, 62, 63)) == 4
    record = Record(planted / "record.sqlite")
    counts = record.counts(version())["planted"]
    assert counts == {"right": 1, "refused": 1, "wrong": 1, "traceback": 1, "crash": 1, "hang": 1}
    assert record.failed("planted") == {60, 61, 62, 63}
    assert "SIGSEGV" in next(s for s in said if s.startswith("CRASH"))
    texts = {k: (planted / f"planted-{k}.txt").read_text() for k in (60, 61, 62, 63)}
    assert all("# python -m benchmarks.fuzz.harness planted --replay" in t for t in texts.values())
    assert texts[60].endswith("the number 44\n")  # 60 - 8 - 8, the least that fails alike
    assert texts[62].endswith("the number 42\n")
    assert "time.sleep" in texts[63] or "check" in texts[63]  # the stack where it hung
    assert "KeyError" in texts[61]


def test_a_run_goes_on_where_it_was_stopped(planted):
    planted.mkdir()
    command = [sys.executable, "-m", "benchmarks.fuzz.harness", "graphs", "--count", "3", "--jobs", "1", "--folder", str(planted)]
    first = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert first.returncode == 0, first.stdout + first.stderr
    assert len(Record(planted / "record.sqlite").seeds("graphs", version())) == 3
    again = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert again.returncode == 0
    assert "graphs                             3          3" in again.stdout


@pytest.fixture
def few_models_of_the_suite(monkeypatch):
    """Two of the onnx package's models, beside one too large and one without a model: to make all takes its reference 7 s, and
    tests/frontends/test_onnx_suite.py makes them."""
    seeds, node = import_module("benchmarks.fuzz.onnx_seeds"), import_module("onnx.helper")
    made = [seeds.mlp(), None, seeds.control(), seeds.mlp()]
    made[-1].graph.node.extend(node.make_node("Neg", ["x"], [f"more{i}"]) for i in range(seeds.LARGEST // 8))
    load = lambda kind: [SimpleNamespace(model=m) for m in made if kind == "node"]
    monkeypatch.setattr("onnx.backend.test.loader.load_model_tests", load)
    seeds.suite.cache_clear()
    yield [m.SerializeToString() for m in (made[0], made[2])]
    seeds.suite.cache_clear()


def test_every_generator_keeps_to_the_form(few_models_of_the_suite):
    names = generators()
    assert "graphs" in names
    if not find_spec("torch"):
        names.remove("torch_functions")
    for name in names:
        g = import_module(f"benchmarks.fuzz.{name}")
        assert g.__doc__, name
        assert all(callable(getattr(g, x, None)) for x in ("draw", "check", "smaller")), name
        assert g.draw(3).text() == g.draw(3).text(), name


def test_seeds_of_hostile_models_are_the_small_ones_of_the_suite(few_models_of_the_suite):
    assert list(import_module("benchmarks.fuzz.onnx_seeds").suite()) == few_models_of_the_suite


def test_graphs_are_shrunk_to_the_node_that_fails():
    """Whatever holds a tanh is wrong: the smallest such graph has that node and its leaf."""
    case = next(c for c in map(draw, range(100)) if any(n.op == "tanh" for n in c.graph.nodes()) and len(c.graph.nodes()) > 8)
    while less := next((c for c in smaller(case) if any(n.op == "tanh" for n in c.graph.nodes())), None):
        case = less
    assert len(case.graph.nodes()) == 2, case.text()
    assert check(Case(case.graph)).kind == "right"
