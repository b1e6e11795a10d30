"""Views of views: composing access maps through isl means what evaluating them one after the other means."""

from __future__ import annotations

from math import prod

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import autocomp
from autocomp.ir.affine import aff
from autocomp.ir.body import Load, Read, postorder
from autocomp.ir.builder import checked_attrs
from autocomp.ir.ops import OPS
from autocomp.ir.types import I64, TensorType
from autocomp.loops.access import minimal_guard, simplest

FILL = -1


@st.composite
def view(draw, shape):
    """(op, attributes) of a view of an array of `shape`, at most 400 elements large."""
    kind = draw(st.sampled_from(["transpose", "reshape", "slice", "pad", "tile", "broadcast"]))
    if kind == "transpose":
        return kind, {"perm": tuple(draw(st.permutations(range(len(shape)))))}
    if kind == "reshape":
        rest, new = prod(shape), []
        while rest > 1 and len(new) < 3:
            d = draw(st.sampled_from([k for k in range(1, rest + 1) if rest % k == 0]))
            new, rest = [*new, d], rest // d
        return kind, {"shape": (*new, rest)}
    if kind == "slice":
        spans = []
        for d in shape:
            step = draw(st.sampled_from([1, 1, 2, 3, -1, -2]))
            start = draw(st.integers(0, d - 1))
            count = draw(st.integers(1, ((d - 1 - start) // step if step > 0 else start // -step) + 1))
            spans.append((start, start + step * count if step > 0 else max(-1, start + step * count), step))
        starts, limits, steps = zip(*spans, strict=True)
        return kind, {"starts": starts, "limits": limits, "steps": steps}
    if kind == "pad":
        amounts = [draw(st.tuples(st.integers(-(d // 3), 2), st.integers(-(d // 3), 2))) for d in shape]
        return kind, {"lo": tuple(a for a, _ in amounts), "hi": tuple(b for _, b in amounts), "value": FILL}
    if kind == "tile":
        return kind, {"repeats": tuple(draw(st.integers(1, 3)) if prod(shape) < 50 else 1 for _ in shape)}
    lead = (draw(st.integers(1, 3)),) if prod(shape) < 100 and len(shape) < 4 else ()
    return kind, {"shape": (*lead, *shape)}


@st.composite
def chains(draw):
    """A shape and two to four views, each of the result of the one before."""
    first = shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    out = []
    for _ in range(draw(st.integers(2, 4))):
        op, attrs = draw(view(shape))
        attrs = checked_attrs(op, attrs)
        new = OPS[op].infer((TensorType(I64, shape),), attrs)
        if new.elements > 400:
            break
        out.append((op, attrs, TensorType(I64, shape), new))
        shape = new.shape
    return first, out


def meaning(op, attrs, old, new):
    c = OPS[op].comprehension((old,), attrs, new)
    assert isinstance(c.value, Read)
    return c


def look_up(values, index, guard, grid):
    """values[index(grid)] where every guard holds, FILL elsewhere."""
    inside = np.ones(grid.shape[1:], bool)
    env = {f"i{k}": g for k, g in enumerate(grid)}
    for g in guard:
        inside &= np.broadcast_to(g.eval(env), inside.shape) >= 0
    at = tuple(np.where(inside, np.broadcast_to(i.eval(env), inside.shape), 0) for i in index)
    return np.where(inside, values[at], FILL)


def composed(index, guard, view, extents):
    """View of a view: what `index` and `guard` over old axes mean where `view` gives these axes over new ones."""
    inner = {f"i{k}": i for k, i in enumerate(view.index)}
    kept = minimal_guard((*(g.substitute(inner) for g in guard), *view.guard), extents)
    return tuple(simplest(i.substitute(inner), kept, extents) for i in index), kept


def test_kernels_read_views_of_views_in_their_simplest_form():
    views = "%0 = tile(x, repeats=[2, 2])\n%1 = tile(%0, repeats=[1, 3])\n%2 = reshape(%1, shape=[6, 4, 6])"
    graph = f"graph g\ninput x: f32[3, 4]\n{views}\n%3 = exp(%2)\noutput y = %3\n"
    (call,) = autocomp.optimize(graph).calls.calls
    (load,) = [e for e in postorder(call.kernel.stores[0].value) if isinstance(e, Load)]
    assert [str(i) for i in load.index][1] == "((2*i2 + i3) mod 4)"


@settings(max_examples=120, deadline=None)
@given(chains())
def test_composed_through_isl_is_one_after_the_other(chain):
    shape, views = chain
    x = np.arange(prod(shape)).reshape(shape)
    index, guard, extents = tuple(aff(f"i{k}") for k in range(len(shape))), (), tuple((f"i{k}", d) for k, d in enumerate(shape))
    step = numpy = x
    for op, attrs, old, new in views:
        c = meaning(op, attrs, old, new)
        extents = tuple((a.name, a.extent) for a in c.axes)
        index, guard = composed(index, guard, c.value, extents)
        grid = np.indices(new.shape)
        step = look_up(step, c.value.index, c.value.guard, grid)
        numpy = OPS[op].reference((numpy,), attrs, new)
        np.testing.assert_array_equal(step, numpy)
        np.testing.assert_array_equal(look_up(x, index, guard, grid), step)


def test_a_wrong_composition_is_noticed():
    """transpose of [2, 3] read as a reshape: the same cells, at other points."""
    x = np.arange(6).reshape(2, 3)
    p = aff("i0")
    index, guard = composed((aff("i1"), aff("i0")), (), Read(I64, 0, (p // 2, p % 2)), (("i0", 6),))
    got = look_up(x, index, guard, np.indices((6,)))
    np.testing.assert_array_equal(got, x.T.reshape(6))
    assert not np.array_equal(got, x.reshape(6))
