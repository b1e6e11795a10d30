"""Tile programs that are written by hand: printed as schedules are, compared with the kernel that they replace, run alone."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from autocomp.targets import load_target

import autocomp
from autocomp.egraph.choose import candidates
from autocomp.errors import AutocompError, DoesNotFit, ModelError, UnsupportedOp, VerificationError
from autocomp.frontends.text import parse as parse_graph
from autocomp.ir.parts import pieces
from autocomp.ir.schedule import Schedule
from autocomp.ir.schedule_text import parse as parse_schedule
from autocomp.ir.schedule_text import show as show_schedule
from autocomp.options import Options
from autocomp.rewrite import load_rules
from autocomp.tile.derive import derive
from autocomp.tile.text import show
from autocomp.tune.written import read, with_program
from tests.helpers import fresh
from tests.helpers.command_line import call
from tests.helpers.covers import cover_of
from tests.helpers.device_graphs import gemm
from tests.helpers.families import FAMILIES
from tests.helpers.goldens import OTHERS, SMALL
from tests.helpers.repeats import repeating

MODEL = "graph g\ninput x: f32[100, 300]\n%0 = softmax(x, axes=[1])\noutput y = %0\n"
SOFTMAX = """kernel softmax(in0: f32[i0:100, i1:300]) -> out0: f32[i0:100, i1:300]
axes i0=100 i1=300
tile i0=4
grid i0
  in0_t: f32[i0, i1] fragment = copy in0
  m: f32[i0] fragment = reduce max i1 in0_t
  e: f32[i0, i1] fragment = map exp(in0_t - m)
  s: f32[i0] fragment = reduce add i1 e
  y: f32[i0, i1] fragment = map e / s
  store out0 = y
"""


def by_hand(kernel, schedule, short=False):
    """What a person would write for a kernel under a schedule: the program, and the clauses that it does not say."""
    rest = replace(schedule, tile=(), order=(), split=None, join=())
    clauses = show_schedule(rest)
    return f"schedule {clauses}\n" * (rest != Schedule()) + show(derive(kernel, schedule, short=short))


def same(target, kernel, schedule):
    """The kernel's text printed from the schedule and from the program's text."""
    short = target.name in ("cuda", "maca")  # places of largest elements in 32 bits, as GPUs derive them
    s, p = read(by_hand(kernel, schedule, short))
    assert show(p) == show(derive(kernel, schedule, short=short))
    assert target.emit(with_program(kernel, p), s).text == target.emit(kernel, schedule).text


WRITTEN = sorted({**SMALL, **OTHERS})


def on_another(golden: str) -> str:
    """The same graph for MACA, where one for an A100 is on another chip too; "" where there is none."""
    twin = f"maca/{golden.removeprefix('cuda/').partition('.')[0]}.maca"
    return twin if golden.endswith(".a100.cu") and twin in WRITTEN else ""


@pytest.mark.parametrize("golden", repeating(WRITTEN, {g: on_another(g) for g in WRITTEN if on_another(g)}))
def test_a_golden_kernel_printed_from_its_text_is_the_golden(golden):
    program = {**SMALL, **OTHERS}[golden]()
    schedules = {k.name: k.schedule for k in program.kernels}
    for c in program.calls.calls:
        if c.kernel.signature and not c.kernel.opaque and c.kernel.kind not in "XR":
            same(program.target, c.kernel, parse_schedule(schedules[c.kernel.name]))


@pytest.mark.parametrize("spec", ["cuda:h200", "maca:c500"])
def test_drawn_kernels_under_drawn_schedules_print_alike_from_their_text(spec):
    target, printed = load_target(spec), 0
    for form in ("product", "attention", "row_reduction", "column_reduction"):
        rng = Random(f"{fresh.seed()} {form}")
        kernel = cover_of(parse_graph(FAMILIES[form](rng)), target.chip.name).calls[0].kernel
        found = candidates(kernel, load_rules(), target.chip, Options())
        for c in rng.sample(found, min(4, len(found))):
            for k, s in pieces(kernel, c.schedule):
                try:
                    target.emit(k, s)
                except (DoesNotFit, UnsupportedOp):
                    continue
                same(target, k, s)
                printed += 1
    assert printed > 4


def name(target="cpu"):
    return autocomp.optimize(MODEL, target=target).kernels[0].name


def test_a_program_takes_the_place_of_a_kernel():
    k = name()
    program = autocomp.optimize(MODEL, schedule={k: SOFTMAX}, verify=True)
    assert "given: the schedule" in program.explain(why=k) and "tile i0=4" in program.source()
    again = autocomp.optimize(MODEL, schedule={k: SOFTMAX})  # from the cache
    x = np.random.default_rng(2).standard_normal((100, 300)).astype("f4")
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(again(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    k = name("cuda:h200")
    assert "tile i0=4" in autocomp.optimize(MODEL, target="cuda:h200", schedule={k: "schedule threads 64\n" + SOFTMAX}).source()


@pytest.mark.parametrize(("old", "new", "kind", "said"), [
    ("map e / s", "map e * s", VerificationError, "out0 has .* where .* is right"),
    ("max i1 in0_t\n", "max i1 in0_t\n  m = map m * 0.5\n", VerificationError, None),
    ("f32[i0, i1] fragment = map e / s", "f16[i0, i1] fragment = map e / s", VerificationError, "computed in its own types"),
    ("in0_t - m", "in0_t + m", VerificationError, "overflows in out0 on inputs 32 times as large"),
    ("max i1", "min i1", VerificationError, "overflows in out0"),
    ("map e / s", "map e / z", ModelError, "line 9:37: unknown value 'z'"),
    ("max i1", "max i7", ModelError, "line 6:3: in0_t has no axis 'i7'"),
    ("i1:300]) ->", "i1:300] of in0[100, 300] at [i0, i1 + 1]) ->", ModelError, "line 1:1: .* goes from 1 to 300 in a dimension of 300"),
    ("in0: f32", "in0: f16", ModelError, "input in0 is f32.*, not f16"),
    ("out0", "out1", ModelError, "it has no output 'out1'"),
    ("(in0: f32", "(const in0: f32", ModelError, "input in0 is no constant"),
    ("  store out0 = y\n", "", ModelError, "output 'out0' is never stored"),
    ("kernel softmax", "schedule tile i0 8\nkernel softmax", ModelError, "line 1:1: tile is said by the program below"),
    ("kernel softmax", "schedule thread 8\nkernel softmax", AutocompError, "did you mean 'threads'"),
])  # fmt: skip
def test_a_wrong_program_is_refused(old, new, kind, said):
    k, text = name(), SOFTMAX.replace(old, new)
    if said is None:  # softmax does not depend on what is taken off
        autocomp.optimize(MODEL, schedule={k: text}, verify=True)
        return
    with pytest.raises(kind) as refused:
        autocomp.optimize(MODEL, schedule={k: text})
    refused.match(said)


def test_a_result_that_depends_on_the_order_of_tiles_is_refused():
    model = "graph g\ninput x: f32[8, 16]\n%0 = max(x, axes=[1])\noutput y = %0\n"
    text = """kernel k(in0: f32[i:8, r:16]) -> out0: f32[i:8]
axes i=8 r=16
tile r=4
grid r
  x: f32[i, r] fragment = copy in0
  m: f32[i] fragment = reduce max r x
  store out0 = m
"""
    model = model.replace("max(x, axes=[1])", "reduce_max(x, axes=[1])")
    (k,) = autocomp.optimize(model).kernels
    with pytest.raises(ModelError, match=r"'out0': the element .dimension 0 0. is written more than once, by iterations r 4 apart"):
        autocomp.optimize(model, schedule={k.name: text})


SUM = """kernel total(in0: f32[i:10, r:10]) -> out0: f32[i:10]
axes i=10 r=10
tile i=4 r=5
grid i
  acc: f32[i] fragment = fill 0.0
  serial r
    x: f32[i, r] fragment = copy in0
    acc += reduce add r x
  store out0 = acc
"""
WAVE = """kernel wave(in0: f32[i:64]) -> out0: f32[i:64]
axes i=64
tile i=16
grid i
  x: f32[i] fragment = copy in0
  store out0 = x
"""


@pytest.mark.parametrize(("text", "edits", "said"), [
    (SUM, {"serial": "parallel"}, "acc is read and written by every iteration of `parallel r`.* distance .r 5."),
    (SUM, {"serial": "parallel", "reduce add": "reduce max"}, "acc is read and written by every iteration"),
    (SUM, {"serial": "parallel", "acc +=": "acc ="}, "acc is read behind `parallel r`"),
    (SUM, {"grid i\n": "grid i, r\n", "  serial r\n": "", "    ": "  "}, "'out0': .* is written more than once, by iterations r 5 apart"),
    (SUM, {"r=5": "r=4", "copy in0": "copy in0\n    x = map x + 1.0"}, "past the end of r it folds what is not masked"),
    (SUM, {"reduce add": "reduce sub"}, "there is no reduction 'sub'"),
    (SUM, {"serial r": "serial r until=i+0"}, "'out0' depends on until, when or from=end"),
    (SUM, {"acc += reduce add r x": "m: f32[i] fragment = reduce add r x\n    acc = map acc * 0.5 + m", "serial r": "serial r from=end"},
     "'out0' depends on until, when or from=end"),
    (WAVE, {"grid": "a: f32[i] fragment = fill 0.0\ngrid", "= x": "= a"}, "beside a grid"),
    (WAVE, {"grid": "a: f32[i] fragment = fill 0.0\nserial", "= x": "= a"}, "a goes along i, of which a tile has 16 of 64"),
    (WAVE, {"(in0: f32[i:64]": "(in0: f32[i:64] of in0[63] at [i + 1] where 63 - i >= 0 else 0.0"},
     "iteration .i=62. reads or writes .63."),
    (WAVE, {"(in0: f32[i:64]": "(p: f32[i:64] of out0[64] at [i - 1] where i - 1 >= 0 else 0.0", "copy in0": "copy p"}, "p reads 'out0'"),
    (WAVE, {"-> out0: f32[i:64]": "-> out0: f32[i:64] of out0[32] at [floor((i)/2)]"},
     "is written more than once, by iterations i 1 apart"),
    (WAVE, {"  store out0 = x\n": "  y: f32[] fragment = fill 1.0\n  store out0 = y\n"}, "out0 has axis i, which y has not"),
    (WAVE, {"-> out0: f32": "-> out0: i8"}, "x is f32, out0 is i8"),
    (WAVE, {"store out0 = x": "y: f32[i] fragment = copy x\n  store out0 = y"}, "no input 'x' to copy"),
])  # fmt: skip
@pytest.mark.parametrize("target", ["cpu", "cuda:h200", "ascend:910b1"])
def test_what_depends_on_an_order_or_leaves_its_buffer_is_refused(target, text, edits, said):
    for old, new in edits.items():
        assert old in text
        text = text.replace(old, new)
    with pytest.raises((ModelError, VerificationError), match=said):
        autocomp.kernel(text, target)


def test_values_that_are_made_anew_on_a_cpu():
    """A name that two copies give is the one before each of its uses; bodies of `when` run, and what only told them is not printed."""
    text = """kernel anew(a: f32[i:20], b: f32[i:20]) -> o: f32[i:20]
axes i=20
tile i=6
grid i
  x: f32[i] fragment = copy a
  y: f32[i] fragment = map x * 0.5
  z: i32[i] fragment = map cast(i32, y)
  x = copy b
  m: f32[i] fragment = map x + 0.0
  when of=m above=9.0
    y = map y + max(x - 9.0, 0.0)
  w: f32[i] fragment = map x * y + cast(f32, z)
  store o = w
"""
    a, b = np.random.default_rng(4).uniform(2, 8, (2, 20)).astype("f4")
    np.testing.assert_allclose(autocomp.kernel(text, verify=True)(a, b), b * (a * np.float32(0.5)) + np.trunc(a / 2), rtol=1e-6)
    view = "o: f32[i:20] of o[20] at [i] where 18 - i >= 0 else 0.0"
    whole = text.replace("o: f32[i:20]", f"{view}, {view.replace('o:', 'p:').replace('18 - i', 'i - 19')}")
    with pytest.raises(UnsupportedOp, match="o is stored under a guard"):
        autocomp.kernel(whole + "  store p = w\n")


def test_large_kernels_are_compared_in_windows():
    k = autocomp.optimize(gemm(1024, 1024, 1024), target="cuda:h200")
    (call_,), (info,) = k.calls.calls, k.kernels
    text = by_hand(call_.kernel, parse_schedule(info.schedule))
    assert "wgmma" in autocomp.optimize(gemm(1024, 1024, 1024), target="cuda:h200", schedule={info.name: text}).source()
    with pytest.raises(VerificationError):
        autocomp.optimize(gemm(1024, 1024, 1024), target="cuda:h200", schedule={info.name: text.replace("fill 0.0", "fill 0.5")})


def test_a_program_alone():
    program = autocomp.kernel(SOFTMAX, verify=True)
    x = np.random.default_rng(3).standard_normal((100, 300)).astype("f4")
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(program(x), e / e.sum(1, keepdims=True), rtol=1e-5)
    assert "__global__" in autocomp.kernel(SOFTMAX, "cuda:h200").source()
    with pytest.raises(ModelError, match="line 9:37: unknown value 'z'"):
        autocomp.kernel(SOFTMAX.replace("e / s", "e / z"))
    with pytest.raises(ModelError, match=r"'out0': the element .dimension 0 0, dimension 1 1. is never written"):
        autocomp.kernel(SOFTMAX.replace("out0: f32[i0:100, i1:300]", "out0: f32[i0:100, i1:300] of out0[100, 600] at [i0, 2*i1]"))
    with pytest.raises(ModelError, match="a loop of -1 stages"):
        autocomp.kernel(SOFTMAX.replace("grid i0", "grid i0 stages=-1"))
    with pytest.raises(ModelError, match="sizes known at run time only"):
        autocomp.kernel(SOFTMAX.replace("i0:100", "i0:N").replace("i0=100", "i0=N"))
    with pytest.raises(DoesNotFit):
        autocomp.kernel(SOFTMAX.replace("300", "300000"), "cuda:h200")


def test_several_outputs():
    text = SOFTMAX.replace("-> out0: f32[i0:100, i1:300]", "-> out0: f32[i0:100, i1:300], top: f32[i0:100]") + "  store top = m\n"
    y, top = autocomp.kernel(text, verify=True)(x := np.random.default_rng(3).standard_normal((100, 300)).astype("f4"))
    np.testing.assert_array_equal(top, x.max(1))
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)


def test_on_the_command_line(tmp_path):
    (tmp_path / "m.txt").write_text(MODEL)
    (tmp_path / "mine.tile").write_text(SOFTMAX)
    k = name()
    code, out, _ = call("explain", str(tmp_path / "m.txt"), "--schedule", f"{k}={tmp_path / 'mine.tile'}", "--why", k)
    assert code == 0 and "given: the schedule" in out
    code, _, err = call("explain", str(tmp_path / "m.txt"), "--schedule", f"{k}={tmp_path / 'no.tile'}", "--why", k)
    assert code == 2 and "no.tile" in err


def test_a_program_by_hand_does_not_write_over_what_it_may_read():
    model = "graph g\ninput x: f32[64]\ninput c: bool[64]\ninput n: f32[64]\n%0 = where(c, n, x)\noutput y = %0\n"
    (k,) = autocomp.optimize(model, donate=["x"]).kernels
    text = show(derive(autocomp.optimize(model).calls.calls[0].kernel, Schedule()))
    autocomp.optimize(model, schedule={k.name: text})
    with pytest.raises(UnsupportedOp, match="written by hand, and may read what it has written"):
        autocomp.optimize(model, schedule={k.name: text}, donate=["x"])
