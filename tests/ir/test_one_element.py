"""A reduction over one element is what its monoid makes of that element, never the element; over none, the identity's value."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.egraph.bodies import tidy
from autocomp.frontends.text import parse
from autocomp.ir.affine import aff
from autocomp.ir.body import Axis, Index, Load, Reduce, postorder
from autocomp.ir.body_meaning import evaluate
from autocomp.ir.kernel import Arg, Kernel, Store
from autocomp.ir.monoid_terms import finish, lift
from autocomp.ir.monoids import MONOIDS
from autocomp.ir.reference import evaluate as reference
from autocomp.ir.types import BOOL, F64, I64, TensorType

PARTS = [(m.name, part) for m in MONOIDS.values() for part in ("", *(m.states if len(m.states) > 1 else ()))]


def reduction(name: str, part: str, extent: int) -> Kernel:
    """out[i] = the monoid (or a part of its state) over r of in0[i, r] (and in1[i, r])."""
    m, dtype = MONOIDS[name], BOOL if name in ("any", "all") else F64
    at = (aff("i0"), aff("r0"))
    kinds = {o: I64 if o == "i" else dtype for o in m.operands}
    operands = tuple(Index(I64, aff("r0")) if o == "i" else Load(kinds[o], f"in{k}", at) for k, o in enumerate(m.operands))
    result = I64 if (part or m.finish) == "i" else dtype
    value = Reduce(result, name, (Axis("r0", extent),), operands, part)
    args = tuple(Arg(f"in{k}", TensorType(kinds[o], (6, extent))) for k, o in enumerate(m.operands) if o != "i")
    return Kernel("k", "R", (Axis("i0", 6),), args, (Arg("out0", TensorType(result, (6,))),), (Store("out0", (aff("i0"),), value),), "")


def values(name: str, extent: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    v = rng.standard_normal((6, extent)) * 3
    return {"in0": v > 0 if name in ("any", "all") else v,
            "in1": np.ones((6, extent)) if name.endswith("_counted") else rng.standard_normal((6, extent))}  # fmt: skip


@pytest.mark.parametrize(("name", "part"), PARTS)
def test_one_element_is_lifted_and_finished(name, part):
    k, x, m = reduction(name, part, 1), values(name, 1), MONOIDS[name]
    state = lift(m, {"v": x["in0"][:, 0], "w": x["in1"][:, 0], "k": x["in1"][:, 0], "i": np.zeros(6, np.int64)})
    want = state[part] if part else finish(m, state)
    (store,) = k.stores
    (value,) = tidy((store.value,))
    assert not any(isinstance(e, Reduce) for e in postorder(value))
    for whole in (k, Kernel(k.name, k.kind, k.axes, k.inputs, k.outputs, (Store("out0", store.index, value),), "")):
        np.testing.assert_array_equal(evaluate(whole, x, {})["out0"], want)


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["welford", "softmax_weighted", "max_sumexp"])
def test_what_is_kept_relative_to_no_number_is_none(name, special):
    """As the sums that these were rewritten from: x - mean(x) and x - max(x) are NaN."""
    k = reduction(name, "", 1)
    (value,) = tidy((k.stores[0].value,))
    k = Kernel(k.name, k.kind, k.axes, k.inputs, k.outputs, (Store("out0", (aff("i0"),), value),), "")
    assert np.isnan(evaluate(k, {"in0": np.full((6, 1), special), "in1": np.ones((6, 1))}, {})["out0"]).all()


OPS = {
    "sum": "reduce_sum(x, axes=[1])", "prod": "reduce_prod(x, axes=[1])", "max": "reduce_max(x, axes=[1])",
    "min": "reduce_min(x, axes=[1])", "any": "reduce_any(%b, axes=[1])", "all": "reduce_all(%b, axes=[1])",
    "argmax": "reduce_argmax(x, axes=[1])", "argmin": "reduce_argmin(x, axes=[1])",
    "max_sumexp": "max_sumexp(x, axes=[1], part='l')", "max_of": "max_sumexp(x, axes=[1], part='m')",
    "welford": "welford(x, axes=[1], part='var')",
    "softmax": "softmax(x, axes=[1])", "log_softmax": "log_softmax(x, axes=[1])", "mean": "reduce_mean(x, axes=[1])",
    "layer_norm": "layer_norm(x, %one, %one, axes=[1], eps=1e-5)", "rms_norm": "rms_norm(x, %one, axes=[1], eps=1e-5)",
    "attention": "softmax_weighted_sum(x, v)",
}  # fmt: skip
EMPTY = {"sum", "prod", "any", "all", "max", "min", "mean", "softmax", "log_softmax"}


@pytest.mark.parametrize("extent", [0, 1, 2])
def test_compiled_reductions_over_none_one_and_two(extent):
    """Every op that reduces, in one program: what lies around a reduction is fused with it."""
    names = [n for n in OPS if extent or n in EMPTY]
    text = (f"graph g\ninput x: f32[3, {extent}]\ninput v: f32[{extent}, 4]\n%b = gt(x, const(0.0, f32))\n"
            f"%one = broadcast(const(1.5, f32), shape=[{extent}])\n")  # fmt: skip
    text += "".join(f"%{n} = {OPS[n]}\noutput {n} = %{n}\n" for n in names)
    rng = np.random.default_rng(extent)
    feed = {"x": rng.standard_normal((3, extent)).astype("f4") * 3, "v": rng.standard_normal((extent, 4)).astype("f4")}
    got, want = autocomp.optimize(text, target="cpu").run(feed), reference(parse(text), feed)
    for n in names:
        np.testing.assert_allclose(got[n], want[n], rtol=1e-5, atol=1e-6, err_msg=n)


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (1, 1), (2, 1, 1)])
def test_variance_over_one_element_is_zero(shape):
    x = np.random.default_rng(1).standard_normal(shape).astype("f4") * 3
    for axis in range(len(shape)):
        program = autocomp.optimize(lambda x, axis=axis: (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + 1e-5),
                                    example_inputs=(x,), target="cpu")  # fmt: skip
        want = (x - x.mean(axis, keepdims=True)) / np.sqrt(x.var(axis, keepdims=True) + np.float32(1e-5))
        np.testing.assert_allclose(program(x), want, rtol=1e-4, atol=1e-5)
