"""A time-iterated stencil from end to end: refused when tiled as written, found skewed, tiled, run, and correct."""

from __future__ import annotations

import ctypes
import operator as op
import re
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.cpu.recurrence import PRELUDE, print_recurrence

import autocomp
from autocomp.cost.chip import load_chip
from autocomp.cost.recurrence import choose_recurrence, recurrence_time
from autocomp.egraph.cover import cover
from autocomp.egraph.saturate import saturate
from autocomp.errors import IllegalTransform, UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Load, Read, rewrite
from autocomp.ir.builder import Builder
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.node import Attrs
from autocomp.ir.ops import OPS
from autocomp.ir.reference import evaluate
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse, show
from autocomp.ir.types import F32, Sym, TensorType
from autocomp.loops import legality, schedules
from autocomp.loops.bounds import check_kernel_graph_accesses
from autocomp.loops.codegen import Calc, Formula, If, Loop, Num, Run, Tree, Var, generate
from autocomp.loops.recurrences import band_of, recurrence_nest, require_recurrence, step_names
from autocomp.loops.schedules import legal, ring_of, scheduled_recurrence
from autocomp.loops.search import Matrix, Moves, parallel, recurrence_schedules, tilable
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.rewrite.load import parse_rules
from autocomp.rewrite.rule import Rule
from autocomp.trace import Trace
from tests.helpers.nests import brute_force, carried, scan, stencil, timed

INCLUDE = files("autocomp.targets").joinpath("cpu", "include")
SKEW = ((1, 0), (1, 1))
NAIVE = Schedule.make({"t": 8, "i0": 16})
TILED = Schedule.make({"t": 8, "i0": 16}, skew=SKEW)
WAVEFRONT = replace(TILED, parallel=("i0",))
ALL = Moves(True, True, True, (1, 2))


def run(kernel: Kernel, schedule: Schedule, folder: Path, *inputs: np.ndarray) -> np.ndarray:
    """Print, compile with the system's C compiler, run."""
    source = print_recurrence(kernel, schedule)
    (folder / "k.c").write_text(PRELUDE + source.text)
    so = folder / f"k{len(list(folder.iterdir()))}.so"
    flags = ["-O2", "-fopenmp", "-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", f"-I{INCLUDE}"]
    subprocess.run(["gcc", *flags, "-o", so, folder / "k.c", "-lm"], check=True)
    out = np.full(kernel.outputs[0].type.shape, np.nan, np.float32)
    scratch = np.full(source.scratch_bytes, 255, np.uint8)
    getattr(ctypes.CDLL(str(so)), source.name)(*(x.ctypes.data_as(ctypes.c_void_p) for x in (*inputs, out, scratch)))
    return out


def reference(x: np.ndarray, w: np.ndarray, steps: int) -> np.ndarray:
    x, w = x.astype(np.float64), w.astype(np.float64)
    inner = tuple(slice(1, -1) for _ in x.shape)
    for _ in range(steps):
        new = x.copy()
        new[inner] = sum(w[tap] * x[tuple(slice(k, n - 2 + k) for k, n in zip(tap, x.shape, strict=True))]
                         for tap in np.ndindex(*w.shape))
        x = new
    return x


def data(kernel: Kernel) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.random(kernel.inputs[0].type.shape, np.float32)
    w = rng.random(kernel.inputs[1].type.shape, np.float32)
    return x, w / w.sum()


def test_accepted_as_written_and_parallel_over_space() -> None:
    assert legal(stencil(100, 20), Schedule())
    assert legal(stencil(100, 20), Schedule(parallel=("i0",)))
    assert not legal(stencil(100, 20), Schedule(parallel=("t",)))


def test_refused_tiled_naively_with_two_iterations() -> None:
    answer = legal(stencil(100, 20), NAIVE)
    assert not answer
    text = r"step\[t=0, i0=16\] must run before step\[t=1, i0=15\]: write then read of state\[1, 16\]"
    assert re.search(text, str(answer.witness))
    with pytest.raises(IllegalTransform, match="must run before"):
        print_recurrence(stencil(100, 20), NAIVE)


def test_skewed_tiled_and_wavefront_schedules_are_legal_on_two_planes() -> None:
    for s in (TILED, WAVEFRONT):
        assert legal(stencil(100, 20), s)
        assert ring_of(stencil(100, 20), s) == 2


def test_a_ring_that_is_too_small_is_noticed() -> None:
    """Interchanging after the skew is legal with every state kept, but not on two planes."""
    swapped = Schedule(skew=((2, 1), (1, 0)))
    kernel = stencil(40, 12)
    assert legal(kernel, swapped)
    wide = Schedule(skew=((1, 1), (1, 0)))
    assert legal(kernel, wide)
    for s in (swapped, wide):
        planes = ring_of(kernel, s)
        nest = recurrence_nest(stencil(7, 4), planes or 2)
        for step in schedules.recurrence_steps(stencil(7, 4), s):
            nest = step.apply(nest)
        assert brute_force(nest) == (planes is not None)


def test_search_finds_the_skew_first_and_only_if_rules_allow() -> None:
    nest = recurrence_nest(stencil(100, 20))
    found = tilable(nest, ("t", "i0"), ALL, step_names(nest))
    assert found.verdict.ok
    assert found.moves == ("skew",)
    assert found.matrix == SKEW
    assert "must run before" in str(found.refused)
    none = tilable(nest, ("t", "i0"), Moves(), step_names(nest))
    assert not none.verdict.ok
    assert "must run before" in str(none.verdict)
    assert not tilable(nest, ("t", "i0"), Moves(interchange=True, reverse=True), step_names(nest)).verdict.ok


def test_search_in_order_of_priority() -> None:
    """Skew first, then interchange, then reversal; what is not allowed is not found."""
    serial_inner, seidel = carried(0, 1), carried(1, -1)
    swap, backwards = Moves(interchange=True), Moves(reverse=True)
    assert parallel(serial_inner, ("i", "j"), "j", replace(swap, reverse=True)).moves == ("interchange",)
    wave = parallel(seidel, ("i", "j"), "i", Moves(skew=True, factors=(1, 2)))
    assert wave.moves == ("skew",)
    assert wave.verdict.ok
    assert tilable(seidel, ("i", "j"), backwards).moves == ("reverse",)
    assert tilable(seidel, ("i", "j"), ALL).moves == ("skew",)
    assert not tilable(seidel, ("i", "j"), swap).verdict.ok
    assert parallel(seidel, ("i", "j"), "j", ALL).matrix == ()


@pytest.mark.parametrize("schedule", [Schedule(), Schedule(parallel=("i0",)), TILED, WAVEFRONT, Schedule(skew=((2, 1), (1, 0))),
                                      Schedule.make({"t": 7, "i0": 13}, skew=((1, 0), (2, 1)))], ids=str)
def test_runs_and_is_right(schedule: Schedule, tmp_path: Path) -> None:
    kernel = stencil(203, 31)
    x, w = data(kernel)
    np.testing.assert_allclose(run(kernel, schedule, tmp_path, x, w), reference(x, w, 31), atol=3e-6)


def test_two_dimensions_skewed_and_tiled(tmp_path: Path) -> None:
    kernel = stencil(37, 9, rank=2)
    nest = recurrence_nest(kernel)
    found = tilable(nest, ("t", "i0", "i1"), ALL, step_names(nest))
    assert found.matrix == ((1, 0, 0), (1, 1, 0), (1, 0, 1))
    x, w = data(kernel)
    s = Schedule.make({"t": 4, "i0": 8, "i1": 16}, skew=found.matrix, parallel=("i0",))
    assert legal(kernel, s)
    np.testing.assert_allclose(run(kernel, s, tmp_path, x, w), reference(x, w, 9), atol=3e-6)


def test_scan_keeps_every_state_and_runs(tmp_path: Path) -> None:
    kernel = scan(50, 13)
    assert ring_of(kernel, Schedule()) is None
    x = np.random.default_rng(1).random((50, 13), np.float32)
    np.testing.assert_allclose(run(kernel, Schedule(parallel=("b",)), tmp_path, x), np.cumsum(x, 0, np.float64), atol=1e-4)


def test_a_lying_judge_turns_the_result_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Legality carries load: with the judge saying yes to everything, the naive tiling runs and the numbers are wrong."""
    kernel = stencil(203, 31)
    x, w = data(kernel)
    schedules.forget()
    monkeypatch.setattr(legality, "violations", lambda nest, order, loop: None)
    try:
        wrong = run(kernel, NAIVE, tmp_path, x, w)
    finally:
        monkeypatch.undo()
        schedules.forget()
    assert not np.allclose(wrong, reference(x, w, 31), atol=1e-3)
    assert not legal(kernel, NAIVE)


def test_generated_loops_run_every_instance_once_in_order() -> None:
    for kernel, schedule in ((stencil(11, 7), WAVEFRONT), (stencil(6, 3, 2), Schedule(skew=((1, 0, 0), (1, 1, 0), (1, 0, 1)))),
                             (stencil(11, 7), Schedule.make({"t": 3, "i0": 4}, skew=SKEW))):
        nest = scheduled_recurrence(kernel, schedule)
        want = [(s.name, tuple(p[a] for a in s.names)) for s, p, _, _ in sorted(timed(nest), key=lambda x: x[3])]
        assert list(walk(generate(nest), {})) == want


def walk(trees: tuple[Tree, ...], env: dict[str, int]):  # type: ignore[no-untyped-def]
    for t in trees:
        if isinstance(t, Run):
            yield t.statement, tuple(value(f, env) for f in t.at)
        elif isinstance(t, If):
            yield from walk(t.body if value(t.condition, env) else t.other, env)
        else:
            assert isinstance(t, Loop)
            v = value(t.first, env)
            while value(t.condition, {**env, t.var: v}):
                yield from walk(t.body, {**env, t.var: v})
                v += value(t.step, env)


def value(f: Formula, env: dict[str, int]) -> int:
    if isinstance(f, Num):
        return f.value
    if isinstance(f, Var):
        return env[f.name]
    assert isinstance(f, Calc)
    x = [value(a, env) for a in f.args]
    if f.op in ("neg", "min", "max", "select"):
        return {"neg": lambda: -x[0], "min": lambda: min(x), "max": lambda: max(x),
                "select": lambda: x[1] if x[0] else x[2]}[f.op]()
    python = {"floordiv": "//", "div": "//", "mod": "%"}.get(f.op, f.op)
    return int(OPERATORS[python](*x))


OPERATORS = {"+": op.add, "-": op.sub, "*": op.mul, "//": op.floordiv, "%": op.mod, "==": op.eq, "<": op.lt, "<=": op.le,
             ">": op.gt, ">=": op.ge, "and": lambda a, b: a and b, "or": lambda a, b: a or b}


def test_schedules_from_no_rules_are_untiled() -> None:
    options, found = recurrence_schedules(stencil(100, 20), ())
    assert [*options] == [Schedule(), Schedule(parallel=("i0",))]
    assert found is None


def test_refusals() -> None:
    kernel = stencil(20, 4)
    rec = kernel.stores[0].value
    n = Sym("N", 4, 100)
    wide = replace(rec, axes=(Axis("i0", n),))  # type: ignore[call-arg]
    symbolic = replace(kernel, axes=(Axis("i0", n),), stores=(replace(kernel.stores[0], value=wide),))
    with pytest.raises(UnsupportedOp, match="symbolic dimension N"):
        print_recurrence(symbolic, Schedule())


def test_the_ops_own_meaning_runs_skewed_and_tiled(tmp_path: Path) -> None:
    """From the op table's entry to numbers: comprehension, search by the shipped rules, loops, C, result."""
    kernel, attrs = stencil_op_kernel(301, 40)
    options, found = recurrence_schedules(kernel, shipped("skewing"))
    assert found is not None
    assert found.moves == ("skew",)
    tiled = next(s for s in options if s.tile and s.parallel)
    small = replace(tiled, tile=(("t", 8), ("s0", 32)))
    assert "?" not in print_recurrence(kernel, small).text, "the interior runs without a test"
    x = np.random.default_rng(3).random(301, np.float32)
    want = OPS["stencil"].reference((x.astype(np.float64),), attrs, kernel.outputs[0].type)
    np.testing.assert_allclose(run(kernel, small, tmp_path, x), want, atol=3e-6)


@pytest.mark.parametrize(("offsets", "order"), [
    ([[0, -1], [0, 0], [0, 2]], ((0, 1, 0), (1, 0, 0), (0, 0, 1))),  # rows that know nothing of each other
    ([[0, 1, -1], [0, 0, 0]], ((0, 1, 0, 0), (1, 0, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1))),  # planes
    ([[0, 0, -1], [0, 0, 1]], ((0, 1, 0, 0), (0, 0, 1, 0), (1, 0, 0, 0), (0, 0, 0, 1))),  # rows of planes
    ([[-1, 0], [0, 0]], ()), ([[0, -1], [1, 0]], ()),  # the other axis has to stay innermost; both are read across
])  # fmt: skip
def test_loops_that_no_step_reads_across_go_outside_of_time(offsets: list[list[int]], order: Matrix) -> None:
    shape = (9, 7, 21)[-len(offsets[0]):]
    weights = [1 / len(offsets)] * len(offsets)
    text = (f"graph g\ninput a: f32{list(shape)}\n%0 = stencil(a, offsets={offsets}, weights={weights}, steps=6)\noutput y = %0\n")
    program = autocomp.optimize(text, target="cpu", cache=False)
    rules = load_rules()
    (kernel,) = (c.kernel for c in program.calls.calls)
    options, _ = recurrence_schedules(kernel, rules)
    turned, kernel_time = [s for s, by in options.items() if by == "skewing/interchange"], band_of(require_recurrence(kernel))[0]
    assert turned == ([Schedule(skew=order), Schedule(skew=order, parallel=(kernel_time,))] if order else [])
    assert {s.skew for s in recurrence_schedules(kernel, rules.without(["skewing/interchange"]))[0]}.isdisjoint({order} - {()})
    x = np.random.default_rng(2).random(shape, np.float32)
    for s in turned:
        assert ring_of(kernel, s) == 2
        under = autocomp.optimize(text, target="cpu", cache=False, schedule={kernel.name: show(s)})
        np.testing.assert_allclose(under(x), evaluate(program.graph, {"a": x})["y"], atol=3e-6)
    if turned:
        assert not legal(kernel, replace(turned[1], skew=()))


def test_rows_outside_of_time_are_near_for_all_steps(priced_for_a_xeon: None) -> None:
    """A state of 64 MB by rows of 4 KB: memory sees it once, and its two cores meet once."""
    text = "graph g\ninput a: f32[16000, 1000]\n%0 = stencil(a, offsets=[[0, -1], [0, 1]], weights=[0.5, 0.5], steps=50)\noutput y = %0\n"
    program = autocomp.optimize(text, target="cpu", cache=False, threads=2)
    (kernel,) = (c.kernel for c in program.calls.calls)
    assert "made by\n    skewing/interchange: the schedule" in program.explain(why=kernel.name)
    chosen, chip = parse(program.kernels[0].schedule), program.target.chip
    by = dict(recurrence_time(kernel, chosen, chip).parts), dict(recurrence_time(kernel, Schedule(parallel=chosen.parallel), chip).parts)
    assert chosen.skew and by[0]["launch"] * 49 < by[1]["launch"] and sum(by[0].values()) < 0.5 * sum(by[1].values())


def test_without_the_skewing_rule_nothing_is_tiled() -> None:
    kernel, _ = stencil_op_kernel(301, 40)
    rules = [r for r in shipped("skewing") if r.name not in ("skewing/skew", "skewing/reverse")]
    options, found = recurrence_schedules(kernel, rules)
    assert not any(s.tile for s in options)
    assert found is not None
    assert "must run before" in str(found.verdict)


SKEWS = """- name: mine/skew
  phase: scheduling
  match: "recurrence(time: ?steps, space: ?n)"
  choose: {by: [1, 2]}
  where: [?n >= 100]
  rhs: "skew(time: ?steps, space: ?n, factor: ?by)"
- name: mine/tiles
  phase: tiling
  match: "recurrence(time: ?steps, space: ?n)"
  choose: {few: [4, 8], many: [16, 64, 512]}
  where: [?many <= ?n, fits(l1, 4 * ?many), ?few != 8, legal(tile, time, space)]
  rhs: "tile(time: ?few, space: ?many)"
"""


def test_the_conditions_of_rules_about_recurrences_hold_whatever_their_names_are() -> None:
    kernel, _ = stencil_op_kernel(301, 40)
    rules, trace = parse_rules(SKEWS, "mine.yaml"), Trace()
    fits = {"fits": lambda level, needed: needed <= 100}
    tiled = {s.tile for s in recurrence_schedules(kernel, rules)[0] if s.tile}
    assert tiled == {(("s0", s), ("t", t)) for s in (16, 64, 512) for t in (4, 8)}, "nothing was asked"
    schedules: list[Schedule] = []
    with pytest.MonkeyPatch.context() as m:
        m.setattr("autocomp.cost.recurrence.recurrence_time", lambda k, s, chip: schedules.append(s) or recurrence_time(k, s, chip))
        choose_recurrence(kernel, rules, load_chip("cpu"), trace, fits)
    assert {s.tile for s in schedules if s.tile} == {(("s0", 16), ("t", 4))}
    said = {(e.name, e.data["reason"]) for e in trace.of("reject") if "reason" in e.data}
    assert ("mine/tiles", "?many <= ?n is false: ?many is 512, ?n is 301") in said
    assert ("mine/tiles", "?few != 8 is false: ?few is 8") in said
    small, _ = stencil_op_kernel(90, 40)
    assert not choose_recurrence(small, rules, load_chip("cpu"), trace, fits)[0].tile
    assert ("mine/skew", "?n >= 100 is false: ?n is 90") in {(e.name, e.data.get("reason")) for e in trace.of("reject")}


def shipped(name: str) -> list[Rule]:
    root = Path(__file__).parents[2] / "rules"
    return parse_rules((root / f"{name}.yaml").read_text(), f"rules/{name}.yaml")


def stencil_op_kernel(n: int, steps: int) -> tuple[Kernel, Attrs]:
    """The op's comprehension as a kernel of its own."""
    attrs = Attrs({"offsets": (-1, 0, 1), "weights": (0.25, 0.5, 0.25), "steps": steps})
    t = TensorType(F32, (n,))
    comp = OPS["stencil"].comprehension((t,), attrs, t)  # type: ignore[misc]
    value = rewrite(comp.value, lambda e: Load(e.dtype, "in0", e.index, e.guard, e.fill) if isinstance(e, Read) else e)
    store = Store("out0", tuple(aff(a.name) for a in comp.axes), value)
    return Kernel("stencil_op", "R", comp.axes, (Arg("in0", t),), (Arg("out0", t),), (store,), f"op {n} {steps}"), attrs


def test_from_a_graph_to_numbers(tmp_path: Path) -> None:
    """Graph, saturation, cover, the schedule that the cost model takes, C, result; the refusal is in the trace."""
    b = Builder("heat")
    source = b.input("x", TensorType(F32, (100_000,)))
    b.output("y", b.op("stencil", source, offsets=(-1, 0, 1), weights=(0.25, 0.5, 0.25), steps=40))
    graph, rules, chip, trace = b.graph(), load_rules(), load_chip("cpu"), Trace()
    calls = cover(saturate(graph, rules, Options(), trace), rules, chip, Options(), trace)
    check_kernel_graph_accesses(calls)
    (kernel,) = (c.kernel for c in calls.calls)
    schedule, cost = choose_recurrence(kernel, rules, chip, trace)
    assert schedule.skew == SKEW
    assert cost.seconds < recurrence_time(kernel, Schedule(), chip).seconds
    assert any("must run before" in e.data["why"] for e in trace.of("reject") if e.name == "tiling/recurrence")
    x = np.random.default_rng(5).random(100_000, np.float32)
    np.testing.assert_allclose(run(kernel, schedule, tmp_path, x), evaluate(graph, {"x": x})["y"], atol=3e-6)
    plain, _ = choose_recurrence(kernel, rules.without(["skewing/skew", "skewing/reverse"]), chip)
    assert not plain.tile
