"""Attention of few queries over long keys, as people write it: one kernel that reads keys and values once (and one that combines parts),
right on odd lengths, on rows whose first keys are masked, and on rows without a key."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.cost.work import Cost
from autocomp.egraph.parts import merged, split_calls
from autocomp.runtime.program import build_program
from autocomp.simulate.simt_model import ModelExecutor
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import repeating
from tests.helpers.schedules import by_hand

STORED = {"f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16)}


def decode(form: str, batch: int, own: int, group: int, rows: int, keys: int, width: int, mask: str = "", dtype: str = "f16") -> str:
    """softmax(q k^T / 8, masked) v where `group` heads of q read one head of k and v.

    form: "repeat" copies each head of k and v `group` times, "broadcast" lets NumPy's rule do so, "rows" takes the heads of a group as rows
    of one product, "bmm" has batch and heads as one axis before each product and apart for the softmax, as exporters write it.
    mask: "add" a tensor of zeros and -inf, "where" one of truth values, "length" the number of keys of each sequence.
    """
    heads, lines = own * group, []
    inputs = {"q": f"{dtype}[{batch}, {heads}, {rows}, {width}]"} | {x: f"{dtype}[{batch}, {own}, {keys}, {width}]" for x in "kv"}
    scores = [batch, heads, rows, keys]
    if form in ("repeat", "bmm"):
        for x in "kv":
            lines += [f"%{x}1 = reshape({x}, shape=[{batch}, {own}, 1, {keys}, {width}])",
                      f"%{x}2 = broadcast(%{x}1, shape=[{batch}, {own}, {group}, {keys}, {width}])",
                      f"%{x} = reshape(%{x}2, shape=[{batch}, {heads}, {keys}, {width}])"]  # fmt: skip
    elif form == "broadcast":
        lines += [f"%{x} = reshape({x}, shape=[{batch}, {own}, 1, {keys}, {width}])" for x in "kv"]
        lines.append(f"%q = reshape(q, shape=[{batch}, {own}, {group}, {rows}, {width}])")
        scores = [batch, own, group, rows, keys]
    else:
        lines.append(f"%q = reshape(q, shape=[{batch}, {own}, {group * rows}, {width}])")
        scores = [batch, own, group * rows, keys]
    q, (k, v) = "%q" if form in ("broadcast", "rows") else "q", ("k", "v") if form == "rows" else ("%k", "%v")
    n = len(scores)
    lines.append(f"%t = transpose({k}, perm={[*range(n - 2), n - 1, n - 2]})")
    if form == "bmm":
        lines += [f"%qb = reshape(q, shape=[{batch * heads}, {rows}, {width}])",
                  f"%tb = reshape(%t, shape=[{batch * heads}, {width}, {keys}])",
                  "%sb = matmul(%qb, %tb)", f"%s0 = reshape(%sb, shape={scores})"]  # fmt: skip
    else:
        lines.append(f"%s0 = matmul({q}, %t)")
    lines.append(f"%s = mul(%s0, const(0.125, {dtype}))")
    ones = [1] * (n - 2)
    if mask == "add":
        inputs["mask"] = f"{dtype}[{', '.join(map(str, [batch, *ones, keys]))}]"
        lines.append("%m = add(%s, mask)")
    elif mask == "where":
        inputs["mask"] = f"bool[{', '.join(map(str, [batch, *ones, keys]))}]"
        lines.append(f"%m = where(mask, %s, const(-inf, {dtype}))")
    elif mask == "length":
        inputs["mask"] = f"i32[{', '.join(map(str, [batch, *ones, 1]))}]"
        lines += [f"%i = iota(shape={[*ones, 1, keys]}, axis={n - 1}, dtype=\"i32\")", "%g = lt(%i, mask)",
                  f"%m = where(%g, %s, const(-inf, {dtype}))"]  # fmt: skip
    lines.append(f"%p = softmax({'%m' if mask else '%s'}, axes=[{n - 1}])")
    if form == "bmm":
        lines += [f"%pb = reshape(%p, shape=[{batch * heads}, {rows}, {keys}])",
                  f"%vb = reshape(%v, shape=[{batch * heads}, {keys}, {width}])", "%o = matmul(%pb, %vb)"]  # fmt: skip
    else:
        lines.append(f"%o = matmul(%p, {v})")
    return graph(inputs, "\n".join(lines))


def once(program: Any) -> bool:
    """Whether every kernel input of the size of k is k or v themselves, each read by one kernel."""
    shapes = {n.attrs["name"]: n.type.elements for n in program.graph.inputs}
    read = [t for c in program.calls.calls for a, t in c.args.items() if any(i.name == a for i in c.kernel.inputs)]
    made = [t for c in program.calls.calls for a, t in c.args.items() if any(o.name == a for o in c.kernel.outputs)]
    small = all(program.calls.tensors[t].elements < shapes["k"] for t in made)
    return small and read.count("k") == 1 and read.count("v") == 1


@pytest.mark.parametrize(
    ("form", "mask", "batch", "rows", "keys"),
    repeating([("repeat", "", 1, 1, 8192), ("repeat", "length", 8, 1, 8192), ("repeat", "where", 64, 1, 2048),
               ("repeat", "where", 1, 1, 131072), ("broadcast", "add", 8, 1, 8192), ("broadcast", "length", 4, 3, 4099),
               ("rows", "", 64, 1, 2048), ("rows", "add", 1, 8, 8192), ("bmm", "where", 8, 1, 8192), ("bmm", "", 4, 3, 4099)],
              {("repeat", "where", 64, 1, 2048): "fewer rows, more keys", ("repeat", "", 1, 1, 8192): "rows",
               ("bmm", "", 4, 3, 4099): "the same with a mask"}),
)  # fmt: skip
def test_keys_and_values_are_read_once(form, mask, batch, rows, keys):
    """However the heads of a group and the mask are written: nothing of the size of the scores or of the repeated keys is stored."""
    program = autocomp.optimize(decode(form, batch, 8, 4, rows, keys, 128, mask), target="cuda:h200")
    assert len(program.calls.calls) <= 2, [c.kernel.name for c in program.calls.calls]
    assert once(program)


# ---- printed
def in_parts(text: str, target: str, parts: int, wave: int) -> Any:
    """The program with its keys in tiles of 32, done in parts by single waves."""
    p = autocomp.optimize(text, target=target)
    whole = merged(p.calls)
    (call,) = whole.calls
    k = call.kernel
    tile = dict.fromkeys((a.name for a in k.axes), 1) | {a.name: int(a.extent) for a in k.axes[-2:]}
    join = (*((a.name, 1) for a in k.axes[:-2]), (k.axes[-2].name, 4), ("threads", 64)) if parts else ()
    schedule = by_hand({**tile, "r1": 32}, threads=wave, stages=2, split=("r1", parts) if parts else None, join=join)
    calls, schedules = split_calls(whole, {k.signature: (schedule, Cost(0.0, "", ()))}, p.target.chip)
    return build_program(calls, schedules, p.target, p.options, p.trace)


def feed_of(program: Any, kind: str, mask: str) -> dict[str, np.ndarray]:
    """Random; keys that each sequence sees: "left" not the first 70, "right" not the last 70, "none" of the last sequence no one."""
    rng = fresh.rng()
    feed: dict[str, np.ndarray] = {}
    for n in program.graph.inputs:
        feed[n.attrs["name"]] = rng.standard_normal(n.type.shape).astype(STORED.get(n.type.dtype.name, np.dtype("f4")))
    keys = feed["k"].shape[2]
    at = np.arange(keys)
    sees = np.broadcast_to({"left": at >= 70, "right": at < keys - 70, "none": at < 50}[kind], (len(feed["k"]), keys)).copy()
    if kind == "none":
        sees[-1] = False
    if mask:
        shape = next(n.type.shape for n in program.graph.inputs if n.attrs["name"] == "mask")
        if mask == "length":
            feed["mask"] = sees.sum(-1).astype("i4").reshape(shape)
        else:
            feed["mask"] = sees.reshape(shape) if mask == "where" else np.where(sees, 0.0, -np.inf).astype(feed["q"].dtype).reshape(shape)
    feed["sees"] = sees
    return feed


def reference(feed: dict[str, np.ndarray], masked: bool) -> np.ndarray:
    q, k, v = (feed[x].astype("f8") for x in "qkv")
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * 0.125
    if masked:
        s = np.where(feed["sees"][:, None, None], s, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(s - s.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


CASES = [("repeat", "where", "left", 4, "f16"), ("broadcast", "add", "left", 0, "f16"), ("rows", "add", "none", 4, "bf16"),
         ("bmm", "length", "none", 4, "f16"), ("repeat", "length", "right", 4, "f16"), ("bmm", "where", "none", 0, "bf16")]  # fmt: skip


@pytest.mark.parametrize(("target", "form", "mask", "kind", "parts", "dtype"),
                         [("cuda:h200", *c) for c in CASES] + [("cuda:a100", *CASES[2]), ("maca:c500", *CASES[0])])  # fmt: skip
def test_printed(target, form, mask, kind, parts, dtype, model, tmp_path):
    """A tile, or a whole part, without a key that is seen changes nothing; a row without one is NaN, as in the plain softmax."""
    rows = 1 if parts else 3
    text = decode(form, 2, 2, 4, rows, 515 if parts else 197, 64, mask, dtype)
    program = in_parts(text, target, parts, 64 if target.startswith("maca") else 32)
    assert len(program.calls.calls) == (2 if parts else 1)
    feed = feed_of(program, kind, mask)
    want = reference(feed, bool(mask))
    assert np.isnan(want).any() == (kind == "none")
    given = {n: x for n, x in feed.items() if n != "sees"}
    tolerance = 4e-3 if dtype == "f16" else 3e-2
    for late in (True, False):
        (got,) = ModelExecutor(program, tmp_path, model, late).run(given).values()
        np.testing.assert_allclose(got.astype("f8").reshape(want.shape), want, rtol=tolerance, atol=tolerance)
