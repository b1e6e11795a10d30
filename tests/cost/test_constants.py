"""Prices are equations over a chip's numbers: `cost/` holds hardly a number of its own, and none that is a time or belongs to a workload.

Counted is every numeric literal of `autocomp/cost/*.py`, wherever it stands, but for 0, 1 and 2, powers of ten (units), and powers of 1024
(sizes in files of an operating system). `calibrate.py` measures and prices nothing: its loop counts are no part of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from math import inf
from pathlib import Path
from random import Random

import pytest
from autocomp.targets import load_target

from autocomp import pipeline
from autocomp.cost.chip import chip_names, shipped
from autocomp.cost.demand import demand_of
from autocomp.cost.derived import BASICS, Numbers, derived
from autocomp.errors import ChipError
from autocomp.ir.decompose import decompose
from autocomp.ir.scalar import SCALAR
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.trace import Trace
from tests.helpers.families import FAMILIES

COST = Path(__file__).parents[2] / "autocomp" / "cost"
MOST = 19
PLAIN = {"lane_clocks", "word_clocks"}  # of instructions, no latency
UNITS = {10.0**n for n in range(-12, 13)} | {1024.0**n for n in range(1, 5)}
WORKLOADS = re.compile(r"bert|gpt|llama|resnet|vit|gemm|conv|attn|attention|softmax|layer_?norm|rmsnorm|mla|w4a16|depthwise|pool", re.I)


def literals(source: str) -> Iterator[tuple[int, float]]:
    """(line, value) of each number that counts."""
    for n in ast.walk(ast.parse(source)):
        if isinstance(n, ast.Constant) and type(n.value) in (int, float) and n.value not in (0, 1, 2) and float(n.value) not in UNITS:
            yield n.lineno, n.value


def test_literals_are_counted() -> None:
    text = "A = -3\nf(x=0.5) + 2 * 1e9 - 1024\nB = (4, [5], {6: 7.5})\nC = True\nD = '8'"
    assert sorted(v for _, v in literals(text)) == [0.5, 3, 4, 5, 6, 7.5]


def test_prices_hold_under_twenty_numbers_and_none_in_seconds() -> None:
    found = [(p.name, *x) for p in sorted(COST.glob("*.py")) if p.name != "calibrate.py" for x in literals(p.read_text(encoding="utf-8"))]
    print(*found, sep="\n")
    assert len(found) <= MOST and not [x for x in found if x[-1] < 1e-3 and x[-1] != 1e-9], found


def test_no_number_is_named_after_a_workload() -> None:
    names = {*derived(), *(n for c in chip_names() for n in shipped(c).limits)}
    assert not [n for n in names if WORKLOADS.search(n)]


def test_every_derived_number_is_asked_for_and_has_a_source() -> None:
    prices = (COST.parent / "egraph" / n for n in ("room.py", "cut_prices.py"))
    text = "".join(p.read_text(encoding="utf-8") for p in (*sorted(COST.glob("*.py")), *prices))
    asked = set(re.findall(r'(?:numbers|of|n|constant)[\[(]"(\w+)"[\])]', text))
    functions = {f for fn in SCALAR for f in (fn, f"byte_{fn}", f"byte_{fn}_by_number")} | {"byte"}
    asked |= {n for f in functions for n in (f"npu_{f}", f"rounds_{f}") if n in derived()}  # `made_by`, `operations._roundings`
    formulas = {x.id for value, _ in derived().values() if isinstance(value, ast.expr) for x in ast.walk(value) if isinstance(x, ast.Name)}
    assert set(derived()) <= asked | formulas, set(derived()) - asked - formulas
    assert asked <= {*derived(), *BASICS}, asked - set(derived())
    assert formulas <= {*derived(), *BASICS, "threads", "max", "min", "round"}
    assert all(len(source) > 8 for _, source in derived().values())


def test_every_formula_has_a_value_on_every_chip_that_asks() -> None:
    for name in chip_names():
        chip = shipped(name)
        if any(m.name == "shared" for m in chip.memories):
            assert all(0 <= chip.numbers[n] < inf for n in derived()), name
            assert {n for n in derived() if not chip.numbers[n]} <= {"shared_reserved", "two_slots", "ping_pong_gap"}, name


def test_clocks_of_one_chip_are_no_other_s_default() -> None:
    """A wait counted in clocks on one chip stands in its file; others take a formula over their own latencies. Near what was measured."""
    assert {n for n, (v, _) in derived().items() if n.endswith("_clocks") and isinstance(v, float)} <= PLAIN
    h200 = shipped("h200")
    own = {n for n in derived() if n.endswith("_clocks") and n in h200.limits}
    plain = Numbers({n: h200.numbers[n] for n in (*BASICS, *h200.limits) if n not in own}, "h200")
    assert {n: plain[n] / h200.numbers[n] for n in own} == pytest.approx(dict.fromkeys(own, 1.0), abs=0.4)


def test_clocks_follow_a_chip_s_own_latencies() -> None:
    known = {"clock": 1e9, "cores": 1.0, "fma_rate": 4.0, "shared_bytes": 1e5, "lanes": 32.0, "threads": 1024.0}
    slow, fast = (Numbers({**known, "latency": x}, "x") for x in (1.2e-6, 6e-7))
    assert all(slow[n] == pytest.approx(2 * fast[n]) for n in derived() if n.endswith("_clocks") and n not in PLAIN)


def test_a_chip_s_own_number_stands_before_the_derived_one() -> None:
    known = {"latency": 6e-7, "clock": 1e9}
    assert Numbers(known, "x")["l2_clocks"] == 150
    assert Numbers({**known, "l2_clocks": 270.0}, "x")["l2_clocks"] == 270
    assert Numbers({**known, "arithmetic_clocks": 5.0}, "x")["special_clocks"] == 20


def test_a_number_that_nothing_gives_is_an_error() -> None:
    with pytest.raises(ChipError, match=r"chip x: no number 'warp_speed', which its target asks for\n  next: limits: \{warp_speed: "):
        Numbers({}, "x")["warp_speed"]


def test_neighbours_of_a_sliding_window_are_in_the_output_s_order() -> None:
    """Of `x[i2 + r1]` both axes lie along memory: which of them stands last is no matter of a set's order."""
    text = FAMILIES["depthwise"](Random(1))
    graph = decompose(pipeline.import_model(text, Trace()))
    calls, _ = pipeline.extract(graph, load_target("cpu"), load_rules(), Options(cache=False), Trace())
    kernel = calls.calls[0].kernel
    image = max(demand_of(kernel).operands, key=lambda o: o.bytes)
    outputs = {a.name for a in kernel.axes}
    assert all(r and len(r) == 2 and r[0] not in outputs and r[-1] in outputs for r in image.runs), image.runs


def test_chip_files_state_times_in_clocks_of_the_chip() -> None:
    """Of chips with a clock of their own; `unit: clocks` is kept in seconds, `1/clock` in 1/s, so that both follow the clock."""
    for path in (COST.parents[1] / "cost_models").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert path.name == "cpu.yaml" or ("unit: s," not in text and "unit: 1/s," not in text), path.name
    assert shipped("h200").limits["turn"] == pytest.approx(3e-7) and shipped("h200").limits["warp_draws"] == pytest.approx(1.8e10)
    assert shipped("h200").units["turn"] == "s" and shipped("h200").units["warp_draws"] == "1/s"
