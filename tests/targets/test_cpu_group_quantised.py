"""Products with weights of four bits in groups along the depth (w4a16), drawn around the sizes at which kernels change their form."""

from __future__ import annotations

import random

import numpy as np
import pytest

import autocomp
from autocomp.ir.builder import Builder
from autocomp.ir.node import Graph, Node
from autocomp.ir.types import BF16, F16, F32, I8, U8, DType, TensorType

pytestmark = pytest.mark.usefixtures("quick_builds")


def product(rows: int, columns: int, depth: int, group: int, zeros: bool, dtype: DType, form: str) -> Graph:
    """x [rows, depth] by weights [columns, depth]: (q - zero) * scale, one zero and one scale for `group` elements of depth. `form`: two
    fields a byte, neighbours ("pairs") or the row's two halves ("halves"), or a byte each ("bytes"). A last group may be cut off."""
    b = Builder("w4a16")
    groups = -(-depth // group)
    padded = groups * group
    x = b.input("x", TensorType(dtype, (rows, depth)))
    if form == "bytes":
        w = b.op("cast", b.input("q", TensorType(I8, (columns, padded))), to=dtype.name)
    else:
        q = b.input("q", TensorType(U8, (columns, padded // 2)))
        low, high = (b.op("cast", b.op(op, q, b.const(n, U8)), to=dtype.name) for op, n in (("bitand", 15), ("shr", 4)))
        one = lambda v: b.op("reshape", v, shape=[columns, padded // 2, 1])
        w = b.op("concat", one(low), one(high), axis=2) if form == "pairs" else b.op("concat", low, high, axis=1)
    each = lambda v: b.op("reshape", v, shape=[columns, groups, 1])
    per: list[Node] = [each(b.input(n, TensorType(dtype, (columns, groups)))) for n in ("s", *(("z",) if zeros else ()))]
    w = b.op("sub", b.op("reshape", w, shape=[columns, groups, group]), per[1] if zeros else b.const(8.0, dtype))
    w = b.op("reshape", b.op("mul", w, per[0]), shape=[columns, padded])
    if padded != depth:
        w = b.op("slice", w, starts=[0, 0], limits=[columns, depth], steps=[1, 1])
    b.output("y", b.op("matmul", x, b.op("transpose", w, perm=[1, 0])))
    return b.graph()


def drawn(seed: int) -> dict[str, object]:
    rng = random.Random(seed)
    group = rng.choice([16, 32, 48, 64, 96, 128, 256])
    return {
        "rows": rng.choice([1, 2, 3, 5, 8, 16, 17, 31, 64, 100, 256]),
        "columns": rng.choice([1, 7, 16, 33, 64, 96, 200]),
        "depth": group * rng.choice([1, 2, 3, 5, 8]) - rng.choice([0, 0, 0, 1, 3, 7]),
        "group": group,
        "zeros": rng.random() < 0.5,
        "dtype": rng.choice([F16, F16, BF16, F32]),
        "form": rng.choice(["pairs", "pairs", "halves", "bytes"]),
    }


@pytest.mark.parametrize("rows", [1, 16])
def test_groups_of_128(rows):
    """One group a step of the loop over the depth: its axis has one step a tile."""
    program = autocomp.optimize(product(rows, 64, 256, 128, rows == 1, F16, "pairs"), verify=True, cache=False)
    assert any(k.startswith("matmul") for k in program.printed)


@pytest.mark.parametrize("seed", range(8))
def test_a_family(seed):
    case = drawn(seed)
    print(f"seed {seed}: {case}")
    autocomp.optimize(product(**case), verify=True, cache=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("right", [True, False])
def test_a_scale_keeps_a_product_of_halves_in_range(right):
    """8 * 127 * 512 is more than f16 holds, a thousandth of it is not: the scale may not wait until the product is rounded."""
    b = Builder("scaled")
    if right:
        x, w = b.input("x", TensorType(F16, (4, 512))), b.input("w", TensorType(I8, (512, 16)))
        y = b.op("matmul", x, b.op("mul", b.op("cast", w, to="f16"), b.input("s", TensorType(F16, (16,)))))
        given = np.full((4, 512), 8, np.float16), np.full((512, 16), 127, np.int8), np.full(16, 1e-3, np.float16)
    else:
        x, w = b.input("x", TensorType(I8, (4, 512))), b.input("w", TensorType(F16, (512, 16)))
        y = b.op("matmul", b.op("mul", b.op("cast", x, to="f16"), b.input("s", TensorType(F16, (4, 1)))), w)
        given = np.full((4, 512), 127, np.int8), np.full((512, 16), 8, np.float16), np.full((4, 1), 1e-3, np.float16)
    b.output("y", y)
    found = np.asarray(autocomp.optimize(b.graph(), target="cpu")(*given))
    np.testing.assert_allclose(found.astype(np.float64), 8 * 127 * 512 * 1e-3, rtol=0.01)
