"""Ops that run through their reference: types that they take are computed, all others are refused with a reason, at import."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from autocomp.errors import ModelError
from autocomp.ir.builder import make_op
from autocomp.ir.node import make
from autocomp.ir.ops import OPS
from autocomp.ir.ops.loops import NAME as LOOP
from autocomp.ir.types import F32, I64, TensorType

OPAQUE = [name for name, op in OPS.items() if op.opaque and name != LOOP]  # its own: test_loops.py


def attributes(rng: Random, op: str) -> dict:
    choices = {"axis": range(-1, 4), "k": range(-1, 5), "largest": (True, False), "part": ("values", "indices"),
               "size": range(4), "dtype": ("f32", "f64", "f16", "i32"), "reduction": ("none", "add", "mul", "max", "min"),
               "shape": ((), (1,), (2,), (0,), (1, 2), (2, 3))}  # fmt: skip
    return {name: rng.choice(list(choices[name])) for name in OPS[op].attrs}


def shape(rng: Random) -> tuple[int, ...]:
    return tuple(rng.choice((0, 1, 1, 2, 2, 3)) for _ in range(rng.randrange(4)))


@pytest.mark.parametrize("op", OPAQUE)
def test_what_an_op_takes_it_computes(op):
    rng, taken = Random(op), 0
    for trial in range(8000):
        shapes = [shape(rng) for _ in range(OPS[op].arity[1])]
        if rng.random() < 0.5 and len(shapes) == 3:  # alike, as they mostly are
            shapes[2] = shapes[1] if op == "scatter_elements" else shapes[1][:-1] + shapes[0][sum(shapes[1][-1:]) :]
        index = 0 if op == "sum_at" else 1
        if op == "sum_at" and rng.random() < 0.5:
            shapes[0] = shapes[1]
        types = [TensorType(I64 if k == index else F32, s) for k, s in enumerate(shapes)]
        given = attributes(rng, op)
        try:
            n = make_op(op, tuple(make("input", (), t, {"name": f"x{trial}_{k}"}) for k, t in enumerate(types)), given)
        except ModelError as e:
            assert e.what and e.where
            continue
        taken += 1
        values = [np.zeros(t.shape, t.dtype.numpy) for t in types]
        try:
            out = OPS[op].reference(values, n.attrs, n.type)
        except ModelError as e:
            assert "outside" in e.what  # of an index: by values, not by types
            continue
        assert out.shape == n.type.shape, (shapes, given)
    assert taken > 60
