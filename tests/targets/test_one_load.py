"""A choice between elements of one tensor is one load (directive `one_load`): rolls, halves that change places, joined slices."""

from __future__ import annotations

import re
from random import Random

import numpy as np
import pytest

import autocomp
from autocomp.ir.affine import aff
from autocomp.ir.body import Load, postorder
from autocomp.ir.body_meaning import evaluate
from autocomp.loops.one_load import one_load, place
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph

RULE = "directives/one-load"


def joined(x: str, cuts: list[tuple[int, int]], axis: int, shape: tuple[int, int], name: str = "s") -> str:
    """Lines that join slices of a matrix along an axis, as %name."""
    span = lambda a, b: [(0, n) if k != axis else (a, b) for k, n in enumerate(shape)]
    lines = []
    for k, (a, b) in enumerate(cuts):
        starts, limits = (list(v) for v in zip(*span(a, b), strict=True))
        lines.append(f"%{name}{k} = slice({x}, starts={starts}, limits={limits}, steps=[1, 1])")
    return "\n".join([*lines, f"%{name} = concat({', '.join(f'%{name}{k}' for k in range(len(cuts)))}, axis={axis})"])


def rolled(n: int, m: int, by: tuple[int, int]) -> str:
    """Four corners of x that change places, and x."""
    lines = []
    for k, (top, bottom) in enumerate(((n - by[0], n), (0, n - by[0]))):
        for side, (left, right) in zip("lr", ((m - by[1], m), (0, m - by[1])), strict=True):
            lines.append(f"%{side}{k} = slice(x, starts=[{top}, {left}], limits=[{bottom}, {right}], steps=[1, 1])")
        lines.append(f"%row{k} = concat(%l{k}, %r{k}, axis=1)")
    return "\n".join([*lines, "%all = concat(%row0, %row1, axis=0)", "%out = add(%all, x)"])


def turned_halves(n: int, m: int) -> str:
    part = lambda name, a, b: f"%{name} = slice(x, starts=[0, {a}], limits=[{n}, {b}], steps=[1, 1])"
    return "\n".join([part("a", m // 2, m), part("b", 0, m // 2), "%c = neg(%a)", "%d = concat(%c, %b, axis=1)", "%out = mul(%d, x)"])


def roll(x: np.ndarray) -> np.ndarray:
    return np.roll(x, (3, 5), (0, 1)) + x


def halves(x: np.ndarray) -> np.ndarray:
    a, b = np.split(x, 2, axis=1)
    return np.concatenate([-b, a], axis=1) * x


CASES = {
    "roll": (70, 149, "f32", rolled(70, 149, (3, 5)), roll),
    "roll by vectors": (70, 160, "f16", rolled(70, 160, (3, 8)), lambda x: np.roll(x, (3, 8), (0, 1)) + x),
    "turned halves": (70, 96, "f16", turned_halves(70, 96), halves),
    "three cuts": (33, 61, "f32", joined("x", [(40, 61), (10, 30), (0, 25)], 1, (33, 61)) + "\n%out = neg(%s)",
                   lambda x: -np.concatenate([x[:, 40:], x[:, 10:30], x[:, :25]], 1)),
    "comes around": (33, 61, "f32", "%a = pad_wrap(x, lo=[3, 5], hi=[2, 61])\n%out = neg(%a)",
                     lambda x: -np.pad(x, ((3, 2), (5, 61)), "wrap")),
}  # fmt: skip


def loads(text: str) -> int:
    """Loads of a printed kernel, each in a loop over a thread's registers."""
    return len(re.findall(r"\bac_load(?:_\w+)?<", text.partition("*/")[2]))


@pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")
@pytest.mark.parametrize(("name", "target"), [*((n, "cuda:h200") for n in CASES), ("roll", "maca:c500")])
def test_one_load_gives_what_the_choice_gave(name, target, model, tmp_path):
    n, m, dtype, body, meaning = CASES[name]
    program = autocomp.optimize(graph({"x": f"{dtype}[{n}, {m}]"}, body), target=target)
    (kernel,), (text,) = program.kernels, program.sources.values()
    assert "one_load" in kernel.schedule
    assert loads(text) == 1 + name.startswith(("roll", "turned"))  # x itself
    program.executor = ModelExecutor(program, tmp_path, model)
    x = fresh.rng().standard_normal((n, m)).astype({"f16": "f2", "f32": "f4"}[dtype])
    got = program.run({"x": x})["out"].astype("f8")
    np.testing.assert_allclose(got, meaning(x.astype("f8")), rtol=2e-3 if dtype == "f16" else 1e-6)


def test_halves_whose_borders_are_whole_vectors_are_read_in_vectors():
    (text,) = autocomp.optimize(graph({"x": "f16[4096, 96]"}, turned_halves(4096, 96)), target="cuda:h200").sources.values()
    assert "ac_wrapped(" in text and set(re.findall(r"\bac_load(?:_\w+)?<(\d+)>", text)) == {"8"}
    (text,) = autocomp.optimize(graph({"x": "f16[4096, 90]"}, turned_halves(4096, 90)), target="cuda:h200").sources.values()
    assert "1" in re.findall(r"\bac_load(?:_\w+)?<(\d+)>", text)  # 45 is no border of a vector


def test_without_the_rule_every_side_is_a_load_and_takes_longer():
    text = graph({"x": "f16[6400, 749]"}, rolled(6400, 749, (3, 5)))
    whole, apart = (autocomp.optimize(text, target="cuda:h200", cache=False, without=w) for w in ((), (RULE,)))
    assert [sum(map(loads, p.sources.values())) for p in (whole, apart)] == [2, 5]
    assert whole.kernels[0].predicted < apart.kernels[0].predicted
    (said,) = [e for e in whole.trace.of("directive") if e.data["directive"] == "one_load"]
    assert said.name == RULE and said.data["used"] and said.data["saves"] > 0


@pytest.mark.parametrize(("test", "a", "b", "found"), [
    (aff(4) - "i", aff("i") + 744, aff("i") - 5, "((i + 744) mod 749)"),
    (aff("i") - 48, aff("i") - 48, aff("i") + 48, "((i + 48) mod 96)"),
    (aff(2) - "i", aff("i") + 7, aff("i") + 3, "-4*floor((i + 1021)/1024) + i + 7"),
    (aff(2) - "i", aff("i"), aff("j"), "None"),
])  # fmt: skip
def test_places_that_lie_apart_by_a_constant(test, a, b, found):
    extents = {"i": 96 if "48" in str(test) else 749, "j": 8}
    assert str(place(test, a, b, extents)) == found


def test_the_place_is_that_of_the_side_that_is_taken():
    r = Random(fresh.seed())
    for _ in range(300):
        n = r.randrange(1, 40)
        test = (aff("i") * r.choice((1, -1, 2)) + r.randrange(-45, 45))
        a, b = (aff("i") * 2 + r.randrange(-60, 60) for _ in range(2))
        at = {"i": np.arange(n)}
        got = place(test, a, b, {"i": n})
        assert got is not None
        np.testing.assert_array_equal(got.eval(at) + 0 * at["i"], np.where(test.eval(at) >= 0, a.eval(at), b.eval(at)))


def test_kernels_mean_the_same_and_stay_in_their_tensors():
    """Slices of slices, joined along both axes; borders between them."""
    r = Random(fresh.seed())
    for _ in range(6):
        shape, lines, x = (r.randrange(3, 30), r.randrange(3, 30)), [], "x"
        first = shape
        for step in range(3):
            axis = r.randrange(2)
            cuts = [(a, r.randrange(a + 1, shape[axis] + 1)) for a in (r.randrange(shape[axis]) for _ in range(2))]
            lines.append(joined(x, cuts, axis, shape, f"v{step}_"))
            shape = tuple(n if k != axis else sum(b - a for a, b in cuts) for k, n in enumerate(shape))
            x = f"%v{step}_"
        text = graph({"x": f"f32[{first[0]}, {first[1]}]"}, "\n".join([*lines, f"%out = neg({x})"]))
        program = autocomp.optimize(text, target="cuda:h200")
        (kernel,) = (c.kernel for c in program.calls.calls)
        new = one_load(kernel)
        assert len({e for s in new.stores for e in postorder(s.value) if isinstance(e, Load)}) == 1
        x_ = {kernel.inputs[0].name: fresh.rng().standard_normal(kernel.inputs[0].type.shape).astype("f4")}
        np.testing.assert_array_equal(*(evaluate(k, x_, {})[kernel.outputs[0].name] for k in (kernel, new)))


def test_a_copy_whose_lanes_are_neighbours_in_memory_needs_no_shared_memory():
    body = "%out = pad(x, lo=[4, 3], hi=[3, 4], value=0.0)"
    (text,) = autocomp.optimize(graph({"x": "f32[6899, 2216]"}, body), target="cuda:h200").sources.values()
    assert "smem" not in text
