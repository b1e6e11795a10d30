"""Reductions in parts: every monoid's states through memory and back, odd lengths, printed kernels on the CPU model, and when it pays."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.cost.roles import roles_of
from autocomp.cost.work import Cost
from autocomp.egraph.parts import merged, split_calls
from autocomp.errors import UnsupportedOp
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Const, Expr, Index, Load, Map, Reduce
from autocomp.ir.body_meaning import evaluate
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.parts import COUNTED, _counts, pieces, together, why_not_parts
from autocomp.ir.schedule import Schedule
from autocomp.ir.types import F32, I64, TensorType
from autocomp.runtime.program import build_program
from autocomp.simulate.simt_model import ModelExecutor, ModelFailure
from autocomp.tile.derive import derive
from autocomp.tile.meaning import run
from tests.helpers import fresh
from tests.helpers.device_graphs import attention, gemm, graph
from tests.helpers.repeats import repeats
from tests.helpers.schedules import by_hand

ROWS, LONG = 3, 1009
FREE = Cost(0.0, "nothing", ())


def folded(monoid: str, part: str = "", rows: int = ROWS, length: int = LONG) -> Kernel:
    """out[i] = exp(0.125 * monoid over r of x[i, r]) (of weights w[r, j] too where the monoid has them)."""
    x = Load(F32, "in0", (aff("i0"), aff("r0")))
    inputs = [Arg("in0", TensorType(F32, (rows, length)))]
    axes = [Axis("i0", rows)]
    operands: tuple[Expr, ...] = (x,)
    if monoid in ("argmax", "argmin"):
        operands = (x, Index(I64, aff("r0")))
    if monoid == "softmax_weighted":
        inputs.append(Arg("in1", TensorType(F32, (length, 5))))
        axes.append(Axis("i1", 5))
        operands = (x, Load(F32, "in1", (aff("r0"), aff("i1"))))
    dtype = I64 if monoid.startswith("arg") else F32
    value: Expr = Reduce(dtype, monoid, (Axis("r0", length),), operands, part)
    if dtype == F32:
        value = Map(F32, "mul", (value, Const(F32, 0.125)))
    out = Arg("out0", TensorType(dtype, tuple(a.extent for a in axes)))
    return Kernel(f"{monoid}_{part}", "S", tuple(axes), tuple(inputs), (out,), (Store("out0", tuple(aff(a.name) for a in axes), value),),
                  f"{monoid} {part} {rows} {length}")  # fmt: skip


def arrays_of(k: Kernel) -> dict[str, np.ndarray]:
    rng = fresh.rng()
    return {a.name: rng.standard_normal(a.type.shape).astype("f4") for a in k.inputs}


FOLDS = [("sum", ""), ("prod", ""), ("max", ""), ("min", ""), ("argmax", ""), ("argmin", ""), ("argmax", "m"), ("max_sumexp", ""),
         ("max_sumexp", "m"), ("softmax_weighted", ""), ("softmax_weighted", "l"), ("welford", ""), ("welford", "s")]  # fmt: skip


def test_kernels_of_a_split_are_made_once():
    """What admits a schedule prints its kernels, and whoever builds them later takes these texts."""
    split = Schedule(split=("r0", 4))
    first, again = (pieces(folded("sum"), split) for _ in range(2))
    assert all(a is b for (a, _), (b, _) in zip(first, again, strict=True))


@pytest.mark.parametrize(("monoid", "part"), FOLDS)
@pytest.mark.parametrize("parts", [2, 7, 64])
def test_combined_states_are_the_whole(monoid, part, parts):
    """In NumPy's meaning of the two kernels, for lengths that parts do not divide."""
    k = folded(monoid, part)
    (first, s), (join, _) = pieces(k, by_hand({"i0": 1}, split=("r0", parts)))
    assert s.split is None and dict(s.tile)["r0_part"] == 1
    arrays = arrays_of(k)
    states = evaluate(first, arrays)
    assert all(v.shape[0] <= parts for v in states.values())
    np.testing.assert_allclose(evaluate(join, arrays | states)["out0"], evaluate(k, arrays)["out0"], rtol=1e-12)


@pytest.mark.parametrize("monoid", sorted(COUNTED))
@pytest.mark.parametrize("tile", [{}, {"r0": 16}])
@pytest.mark.parametrize("directives", [(), ("thread_partials",)])
def test_tiles_of_a_part_count_only_elements_that_there_are(monoid, tile, directives):
    """Whole tiles of the last part lie past the end: as many as their axes have would be too many."""
    k = folded(monoid)
    (first, s), (join, _) = pieces(k, Schedule.make({"i0": 1, **tile}, split=("r0", 7), directives=directives))
    arrays = arrays_of(k)
    states = run(derive(first, s), arrays)
    np.testing.assert_allclose(evaluate(join, arrays | states)["out0"], evaluate(k, arrays)["out0"], rtol=1e-9)


def test_monoids_that_count_their_elements_can_be_told_which_there_are():
    """Or their parts would have to be equal ones."""
    assert {m.name for m in MONOIDS.values() if _counts(m)} == COUNTED.keys()
    for name, told in COUNTED.items():
        assert MONOIDS[told].states == MONOIDS[name].states and MONOIDS[told].modules == MONOIDS[name].modules


def test_a_part_that_a_mask_empties_holds_nothing():
    """Its maximum is -inf and its sums are what exp(-inf - -inf) left: they are not read."""
    k = folded("softmax_weighted", length=64)
    arrays = arrays_of(k)
    arrays["in0"][:, :16] = -np.inf
    (first, _), (join, _) = pieces(k, by_hand({}, split=("r0", 4)))
    states = evaluate(first, arrays)
    for a in first.outputs[1:]:
        states[a.name][0] = np.nan
    np.testing.assert_allclose(evaluate(join, arrays | states)["out0"], evaluate(k, arrays)["out0"], rtol=1e-12)


def test_what_has_no_parts_is_refused_with_the_reason():
    k = folded("welford", length=1009)
    with pytest.raises(UnsupportedOp, match="nothing is reduced over r7"):
        pieces(k, by_hand({}, split=("r7", 4)))
    inner = Reduce(F32, "max", (Axis("r0", 64),), (Load(F32, "in0", (aff("i0"), aff("r0"))),))
    outer = Reduce(F32, "sum", (Axis("r0", 64),), (Map(F32, "sub", (Load(F32, "in0", (aff("i0"), aff("r0"))), inner)),))
    twice = Kernel("twice", "S", (Axis("i0", 3),), (), (), (Store("out0", (aff("i0"),), outer),), "twice")
    assert why_not_parts(twice, "r0") == "a reduction over r0 needs the result of another one over it"


def two_folds(length: int = LONG, needed: bool = False) -> Kernel:
    """out[i, j] = exp(x[i, j] - max_r x[i, r]) / sum_q exp(x[i, q]), the sum of exp(x[i, q] - max_r x[i, r]) where `needed`."""
    at = lambda a: Load(F32, "in0", (aff("i0"), aff(a)))
    most = Reduce(F32, "max", (Axis("r0", length),), (at("r0"),))
    weight = Map(F32, "exp", (Map(F32, "sub", (at("r1"), most)),)) if needed else Map(F32, "exp", (at("r1"),))
    total = Reduce(F32, "sum", (Axis("r1", length),), (weight,))
    value = Map(F32, "div", (Map(F32, "exp", (Map(F32, "sub", (at("i1"), most)),)), total))
    axes, t = (Axis("i0", ROWS), Axis("i1", length)), TensorType(F32, (ROWS, length))
    return Kernel("two", "N", axes, (Arg("in0", t),), (Arg("out0", t),), (Store("out0", (aff("i0"), aff("i1")), value),), f"two {needed}")


@pytest.mark.parametrize("parts", [2, 7])
def test_reductions_that_do_not_need_each_other_share_their_parts(parts):
    k = two_folds()
    assert roles_of(k).split == "r0"
    (first, s), (join, _) = pieces(k, by_hand({"i0": 1, "i1": 64, "r0": 64, "r1": 64}, split=("r0", parts)))
    assert s.tile == (("i0", 1), ("r0", 64), ("r0_part", 1)) and len(first.outputs) == 2
    arrays = arrays_of(k)
    np.testing.assert_allclose(evaluate(join, arrays | evaluate(first, arrays))["out0"], evaluate(k, arrays)["out0"], rtol=1e-12)


def test_a_reduction_that_needs_another_keeps_its_axis():
    k = two_folds(needed=True)
    assert together(k, "r0") is k and not roles_of(k).split


# ---- printed
def in_parts(text: str, target: str, schedule: Schedule):
    """The program of one kernel under this very schedule."""
    p = autocomp.optimize(text, target=target)
    whole = merged(p.calls)
    (call,) = whole.calls
    calls, schedules = split_calls(whole, {call.kernel.signature: (schedule, FREE)}, p.target.chip)
    return build_program(calls, schedules, p.target, p.options, p.trace)


def check(program, model, folder):
    executor = program.executor = ModelExecutor(program, folder, model)
    for late in (True, False):
        executor.late = late
        seed = fresh.seed()
        try:
            program.verify(seed=seed)
        except autocomp.VerificationError as e:
            raise ModelFailure(f"seed {seed}, late {late}: {e}") from None


SUM = graph({"x": "f32[3, 4099]", "b": "f32[3]"}, "%0 = reduce_sum(x, axes=[1])\n%1 = sub(%0, b)")
COLUMNS = graph({"x": "f16[1030, 70]"}, "%0 = exp(x)\n%1 = reduce_max(%0, axes=[0])")
PAIR = graph({"x": "f16[2, 5000]"}, "%c = cast(x, to='f32')\n%0 = reduce_max(%c, axes=[1], keepdims=True)\n"
             "%1 = max_sumexp(%c, axes=[1], keepdims=True, part='l')\n%2 = sub(%c, %0)\n%3 = exp(%2)\n%4 = div(%3, %1)")
SCALAR = graph({"x": "f32[40001]"}, "%0 = reduce_sum(x, axes=[0])")
PRINTED = {
    "rows": (SUM, by_hand({"i0": 1, "r0": 512}, threads=64, split=("r0", 3), join=(("i0", 1), ("threads", 64)))),
    "columns": (COLUMNS, by_hand({"i0": 32, "r0": 64}, threads=128, split=("r0", 5), join=(("i0", 32), ("threads", 64)))),
    "scalar": (SCALAR, by_hand({"r0": 1024}, threads=64, split=("r0", 9), join=(("threads", 64),))),
    "two folds": (PAIR, by_hand({"i0": 1, "i1": 512, "r0": 512, "r1": 512}, threads=64, split=("r0", 3),
                                      join=(("i0", 1), ("i1", 512), ("threads", 64)))),
    "gemm": (gemm(72, 40, 1000), by_hand({"i0": 32, "i1": 32, "r0": 32}, threads=64, stages=2, split=("r0", 3),
                                               join=(("i0", 8), ("i1", 32), ("threads", 64)))),
    "attention": (attention(1, 2, 4, 64, keys=515), by_hand({"i0": 1, "i1": 16, "i2": 64, "r1": 32}, threads=32, stages=2,
                                                                  split=("r1", 4), join=(("i0", 1), ("i1", 4), ("threads", 64)))),
}  # fmt: skip


@pytest.mark.parametrize("target", ["cuda:a100", repeats("maca:c500", of="cuda:a100, whose parts it shares")])
@pytest.mark.parametrize("name", PRINTED)
def test_printed_in_parts(name, target, model, tmp_path):
    text, schedule = PRINTED[name]
    if target.startswith("maca"):
        schedule = Schedule(**{**vars(schedule), "threads": max(64, schedule.threads)})
    program = in_parts(text, target, schedule)
    assert len(program.calls.calls) == 2
    check(program, model, tmp_path)


def test_the_same_bits_every_run(model, tmp_path):
    """The order of combination is the printed one: a second run gives the same bits."""
    program = in_parts(*PRINTED["scalar"][:1], "cuda:a100", PRINTED["scalar"][1])
    program.executor = ModelExecutor(program, tmp_path, model)
    x = fresh.rng().standard_normal(40001).astype("f4")
    first = program.run({"x": x})["out"]
    program.executor.late = False
    assert first.tobytes() == program.run({"x": x})["out"].tobytes()


# ---- chosen
def test_parts_are_chosen_where_blocks_are_few():
    few = autocomp.optimize(graph({"x": "f32[16777216]"}, "%0 = reduce_sum(x, axes=[0])"), target="cuda:h200")
    assert [k.name for k in few.kernels] == ["reduce_sum_part", "reduce_sum_join"]
    many = autocomp.optimize(graph({"x": "f32[8192, 4096]"}, "%0 = reduce_sum(x, axes=[1])"), target="cuda:h200")
    assert len(many.kernels) == 1
    assert [c.kernel.name for c in merged(few.calls).calls] == ["reduce_sum"]
    assert len(merged(few.calls).tensors) == 2
    without = autocomp.optimize(graph({"x": "f32[16777216]"}, "%0 = reduce_sum(x, axes=[0])"), target="cuda:h200",
                                without=["scheduling/gpu-split-k"])  # fmt: skip
    assert without.predicted > 10 * few.predicted


@pytest.mark.parametrize("op", [repeats("softmax(x, axes=[1])", of="layer_norm"), "layer_norm(x, g, b, axes=[1])"])
def test_few_long_rows_take_the_forms_whose_reductions_have_parts(op):
    """A row in dependent reductions stays with one block or cluster; the one-pass forms need one launch more."""
    def program(rows: int, row: int, **more: object) -> autocomp.Program:
        inputs = {"x": f"f16[{rows}, {row}]"} | ({} if "soft" in op else dict.fromkeys("gb", f"f16[{row}]"))
        return autocomp.optimize(graph(inputs, f"%0 = {op}"), target="cuda:h200", **more)
    long = program(1, 1 << 20)
    assert [k.name.split("_")[-1] for k in long.kernels] == ["part", "join"]
    assert program(1, 1 << 20, without=["scheduling/gpu-split-k"]).predicted > 5 * long.predicted
    assert [len(program(*shape).kernels) for shape in ((16384, 4096), (4, 4096))] == [1, 1]
    (shared,) = program(8, 65536).kernels  # the blocks of a cluster count as blocks: of 4 or 8 they are 32 or 64 for 8 rows
    assert "cluster " in str(shared.schedule)
