"""Rows of torch operators that write at indices, sort and search: the imported graph is compared with torch, some as generated code too."""

from __future__ import annotations

import numpy as np
import pytest

from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

from torch.nn import functional as F  # noqa: E402, N812

import autocomp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

RNG = np.random.default_rng(3)
X = torch.from_numpy(RNG.standard_normal((4, 5, 6)).astype("f4"))
V = torch.from_numpy(RNG.standard_normal((5,)).astype("f4"))
I = torch.tensor([2, 0, 3])
J = torch.tensor([1, 4, 0])
WITH_NAN = X.clone()
WITH_NAN[0, 1, 2] = WITH_NAN[0, 1, 4] = float("nan")
SAME = torch.tensor([[3, 1, 1, 2, 3], [0, 0, 0, 0, 0]])


BAGGED = torch.tensor([1, 4, 3, 0, 3, 2, 2, 1])
FROM = torch.tensor([0, 3, 3, 5])
INF, NAN = float("inf"), float("nan")


TURNED = torch.from_numpy(np.argsort(RNG.random((4, 5, 6)), -1))
put = torch.ops.aten.index_put.default


CASES = {
    "index_put": lambda x, v: x.index_put((I, J), v[:1]),
    "index_put rows": lambda x, v: x.index_put((I,), x[:3] * 2),
    "index_put apart": lambda x, v: put(x, [I, None, J], v * torch.arange(3.0)[:, None]),
    "index_put middle": lambda x, v: put(x, [None, J, I], x[:, 0, :3]),
    "index_put sums": lambda x, v: x.index_put((torch.tensor([1, 1, 1]),), v[0], accumulate=True),
    "index_put by a mask": lambda x, v: x.index_put((x > 0,), v[0]),
    "index_put by a mask of rows": lambda x, v: x.index_put((x[:, 0, 0] > 0,), v[:1]),
    "index_put of no places": lambda x, v: x.index_put((I[:0],), x[:0]),
    "put": lambda x, v: x.put(torch.tensor([[0, -1], [7, -100]]), x[0, :2, :2]),
    "put sums": lambda x, v: x.put(torch.tensor([1, 1, -119, 3]), x[1, 0, :4], accumulate=True),
    "put nothing": lambda x, v: x.put(I[:0], v[:0]),
    "index_copy": lambda x, v: x.index_copy(1, J, x[:, :3]),
    "index_add": lambda x, v: x.index_add(-1, torch.tensor([1, 1, 0]), x[..., :3], alpha=0.5),
    "index_fill": lambda x, v: x.index_fill(2, I, 7.0),
    "scatter": lambda x, v: x.scatter(2, TURNED, x.neg()),
    "scatter fewer": lambda x, v: x.scatter(0, torch.zeros(1, 3, 2, dtype=torch.int64), x),
    "scatter a number": lambda x, v: x.scatter(1, torch.zeros(4, 1, 6, dtype=torch.int64), 2.5),
    "scatter_add": lambda x, v: x.scatter_add(1, torch.ones(4, 5, 6, dtype=torch.int64), x),
    "scatter_reduce amax": lambda x, v: x.scatter_reduce(1, torch.ones(4, 5, 6, dtype=torch.int64), x * 2, "amax"),
    "scatter_reduce prod, alone": lambda x, v: x.scatter_reduce(1, torch.ones(4, 5, 6, dtype=torch.int64), x, "prod", include_self=False),
    "slice_scatter": lambda x, v: x.slice_scatter(torch.ones(4, 2, 6), 1, 1, 3),
    "slice_scatter by steps": lambda x, v: x.slice_scatter(torch.ones(4, 5, 3), -1, 1, None, 2),
    "select_scatter": lambda x, v: x.select_scatter(v[:, None] * x[0], 0, -1),
    "diagonal_scatter": lambda x, v: x.diagonal_scatter(torch.ones(6, 3), -1, 0, 1),
    "diagonal_scatter turned": lambda x, v: x.diagonal_scatter(x[0, :, :4].contiguous(), 2, 0, 2),
    "as_strided_scatter": lambda x, v: torch.as_strided_scatter(x, x[0, :2, :3].mT, (3, 2), (9, 7), 5),
    "as_strided_scatter of all": lambda x, v: torch.as_strided_scatter(x[0], x[1].mT, (6, 5), (1, 6)),
    "assignment": lambda x, v: torch.cat([x, x]).clone().index_put_((torch.tensor(1),), x[0]),
    "sort": lambda x, v: torch.sort(x, 1),
    "sort stable": lambda x, v: torch.sort(SAME, dim=1, descending=True, stable=True),
    "argsort": lambda x, v: torch.argsort(x, 2, True),
    "sort NaN": lambda x, v: torch.sort(WITH_NAN + 0 * x, 2),
    "kthvalue": lambda x, v: torch.kthvalue(x, 3, 1, True),
    "median": lambda x, v: torch.median(x),
    "median of rows": lambda x, v: torch.median(x, 2),
    "median NaN": lambda x, v: torch.median(WITH_NAN + 0 * x, 2),
    "topk of a scalar": lambda x, v: torch.topk(v[0], 1, 0),
    "bucketize": lambda x, v: torch.bucketize(WITH_NAN + 0 * x, torch.sort(v)[0]),
    "bucketize right": lambda x, v: torch.bucketize(torch.tensor([1, 2, 3]), torch.tensor([1, 3, 5]), right=True, out_int32=True),
    "searchsorted": lambda x, v: torch.searchsorted(torch.sort(x, -1)[0], x * 0.5, side="right"),
    "cumprod": lambda x, v: torch.cumprod(x, 1),
    "scatter_reduce mean": lambda x, v: x.scatter_reduce(0, TURNED % 3, x * 2, "mean"),
    "scatter_reduce mean, alone": lambda x, v: x.scatter_reduce(0, TURNED % 3, x * 2, "mean", include_self=False),
    "scatter_reduce mean of integers": lambda x, v: SAME.scatter_reduce(1, SAME, -2 * SAME - 1, "mean"),
    "index_reduce": lambda x, v: x.index_reduce(1, torch.tensor([1, 1, 4]), x[:, 2:], "mean", include_self=False),
    "index_reduce amin": lambda x, v: x.index_reduce(-1, torch.tensor([1, 1, 4]), x[..., 3:], "amin"),
    "index_reduce of a scalar": lambda x, v: v[0].index_reduce(0, torch.tensor(0), v[1], "prod"),
    "cummax": lambda x, v: torch.cummax(WITH_NAN + 0 * x, 2),
    "cummin of equal ones": lambda x, v: torch.cummin(SAME, 1),
    "cummax of ends": lambda x, v: torch.cummax(torch.tensor([[-INF, -INF, 1.0, INF, INF]]) + 0 * v, 1),
    "cummin of truth values": lambda x, v: torch.cummin(x > 0, 0),
    "logcumsumexp": lambda x, v: torch.logcumsumexp(50 * x, 1),
    "logcumsumexp of ends": lambda x, v: torch.logcumsumexp(torch.tensor([[-INF, -INF, 1.0, INF, 2.0], [1.0, 2.0, NAN, 3.0, INF]]) + v, 1),
    "bags": lambda x, v: F.embedding_bag(BAGGED, x[0], FROM, mode="sum"),
    "bags, averaged": lambda x, v: F.embedding_bag(BAGGED, x[0], FROM, mode="mean", padding_idx=3),
    "bags, largest": lambda x, v: F.embedding_bag(BAGGED[:5], x[0], FROM, mode="max", include_last_offset=True),
    "bags, weighted": lambda x, v: F.embedding_bag(BAGGED, x[0], FROM, mode="sum", per_sample_weights=x[1, 0].repeat(2)[:8]),
    "bags, with their end": lambda x, v: F.embedding_bag(BAGGED, x[0], FROM, mode="sum", include_last_offset=True),
    "bags of one size": lambda x, v: F.embedding_bag(BAGGED.reshape(4, 2), x[0], mode="mean"),
    "as_strided": lambda x, v: x.as_strided((3, 2, 4), (7, 0, 2), 5),
    "as_strided backwards through memory": lambda x, v: (2 * v).as_strided((2, 2), (1, 2), 1),
    "unfold": lambda x, v: x.unfold(1, 3, 2),
    "histc": lambda x, v: torch.histc(torch.cat([WITH_NAN.flatten() + 0 * x.flatten(), ENDS]), 7, -1, 2),
    "histc of all": lambda x, v: torch.histc(x, 9),
    "histc of equal ones": lambda x, v: torch.histc(torch.ones(5) + 0 * v, 4),
    "diagonal": lambda x, v: torch.diagonal_copy(x, 1, 2, 0),
    "diagonal below": lambda x, v: torch.diag(x[0], -3),
    "diagonal of none": lambda x, v: torch.diagonal(x, 7, 1, 2),
    "narrow_copy": lambda x, v: torch.narrow_copy(x, 1, -3, 2),
}
ENDS = torch.tensor([-1.0, 2.0, 2.5, -INF, INF, 2 - 2**-22])


@pytest.mark.parametrize("name", CASES)
def test_the_graph_means_what_torch_does(name):
    f = CASES[name]
    want = f(X, V)
    graph = load_torch(Apply(f).eval(), (X, V))
    got = list(evaluate(graph, {n.attrs["name"]: t.numpy() for n, t in zip(graph.inputs, (X, V))},
                        float64=False).values())  # fmt: skip
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert str(g.dtype) == str(w.numpy().dtype)
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


RUN = ["index_put apart", "put sums", "put nothing", "scatter_add", "slice_scatter by steps", "diagonal_scatter turned", "sort",
       "median NaN", "unfold", "cummax", "logcumsumexp of ends", "bags, averaged", "index_reduce", "as_strided"]  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_it_runs(name):
    f = CASES[name]
    program = autocomp.optimize(Apply(f).eval(), example_inputs=(X, V))
    want, got = f(X, V), program(X, V)
    for g, w in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("f", "text"), [
    (lambda x, v: torch.fft.fft(x), "output_0 is complex"),
    (lambda x, v: x + torch.rand_like(x), "random numbers\\n  next: draw them outside and pass them as an input"),
    (lambda x, v: x.transpose(0, 1).as_strided((4,), (2,), 0), "as_strided: of a tensor that does not lie densely"),
    (lambda x, v: x[0].as_strided((8,), (9,), 0), "as_strided: reads beyond"),
])  # fmt: skip
def test_what_is_refused_says_why(f, text):
    with pytest.raises(autocomp.AutocompError, match=text):
        load_torch(Apply(f).eval(), (X, V))


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_the_last_bag_ends_at_the_last_offset(mode):
    bags = lambda index: lambda x, v: F.embedding_bag(index, x[0], FROM, mode=mode, include_last_offset=True)
    graph = load_torch(Apply(bags(BAGGED)).eval(), (X, V))
    got = evaluate(graph, {n.attrs["name"]: t.numpy() for n, t in zip(graph.inputs, (X, V))}, float64=False)
    np.testing.assert_allclose(next(iter(got.values())), bags(BAGGED[:5])(X, V).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_that_are_rows_of_a_matrix_look_at_their_own_indices_alone(mode):
    b = torch.export.Dim("b", min=1, max=40)
    at = torch.randint(0, 7, (4, 3), generator=torch.Generator().manual_seed(1))
    at[1] = 2  # a row of paddings
    f = lambda x, at: F.embedding_bag(at, x, mode=mode, padding_idx=2)
    table = torch.randn(7, 5)
    graphs = [load_torch(torch.export.export(Apply(f), (table, at), dynamic_shapes=d)) for d in (None, ((None, {0: b}),))]
    assert all(n.type.elements <= 4 * 3 * 5 for n in graphs[0].nodes() if n.type.is_static)
    for graph in graphs:
        for rows in (at, at[:1]) if graph is graphs[1] else (at,):
            got = evaluate(graph, {n.attrs["name"]: t.numpy() for n, t in zip(graph.inputs, (table, rows))})
            np.testing.assert_allclose(next(iter(got.values())), f(table, rows), rtol=1e-5, atol=1e-6)


ROWS = torch.tensor([2, 2, 7, 9], dtype=torch.int32)


@pytest.mark.parametrize(
    ("a", "b", "groups"),
    [
        ((10, 8), (4, 8, 16), lambda a, b: torch.cat([a[:2] @ b[0], a[2:7] @ b[2], a[7:9] @ b[3]])),
        ((4, 6, 8), (8, 16), lambda a, b: torch.cat([a[0] @ b[:, :2], a[2] @ b[:, 2:7], a[3] @ b[:, 7:9]], 1)),
        ((6, 16), (16, 8), lambda a, b: torch.stack([a[:, :2] @ b[:2], 0 * a @ b, a[:, 2:7] @ b[2:7], a[:, 7:9] @ b[7:9]])),
    ],
)
def test_products_of_groups_whose_ends_data_gives(a, b, groups):
    """Routing to experts: each row is multiplied by the factor of its group alone, without a copy of that factor for each row."""
    a, b = (torch.from_numpy(RNG.standard_normal(s).astype("f4")).bfloat16() for s in (a, b))
    module = Apply(lambda a, b, ends: F.grouped_mm(a, b, offs=ends))
    program = autocomp.optimize(module.eval(), example_inputs=(a, b, ROWS))
    want = groups(a.double(), b.double())
    got = program(a, b, ROWS)[tuple(slice(0, n) for n in want.shape)]
    assert float((got.double() - want).abs().max()) < 2**-7 * float(want.abs().max())
    assert len(program.kernels) <= 3 and not any(k.bound == "opaque" for k in program.kernels)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_the_inverse_of_erf(dtype):
    x = torch.cat([torch.linspace(-0.999, 0.999, 41), torch.tensor([0.0, 1.0, -1.0, 1.5, -1e-6, 0.99999])]).to(dtype)
    program = autocomp.optimize(Apply(torch.erfinv).eval(), example_inputs=(x,))
    torch.testing.assert_close(program(x), torch.erfinv(x), rtol=max(8 * torch.finfo(dtype).eps, 1e-12), atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int8, torch.uint8])
def test_greatest_common_divisors(dtype):
    """Zeros, both signs, multiples beyond the type, and the two numbers that take most steps."""
    most = {torch.int64: (7540113804746346429, 4660046610375530309), torch.int32: (1836311903, 1134903170), torch.int8: (89, 55)}
    x, y = (torch.randint(0 if dtype == torch.uint8 else -120, 120, (6, 40), dtype=dtype) for _ in range(2))
    x[0, :5] = torch.tensor([0, 0, 7, most.get(dtype, (233, 144))[0], 12])
    y[0, :5] = torch.tensor([0, 6, 0, most.get(dtype, (233, 144))[1], 18])
    module = Apply(lambda x, y: (torch.gcd(x, y), torch.gcd(x, y[:1]), torch.lcm(x, y)))
    program = autocomp.optimize(module.eval(), example_inputs=(x, y))
    assert all(map(torch.equal, program(x, y), module(x, y)))
    assert not any(k.bound == "opaque" for k in program.kernels)


def test_sizes_that_data_gives_are_refused():
    parts = Apply(lambda x, at: torch.tensor_split(x, at))
    with pytest.raises(autocomp.errors.AutocompError, match="read from a tensor"):
        load_torch(parts.eval(), (X, torch.tensor([1, 3])))


HOLDS = torch.tensor([True, False, False, True])
MORE = {
    "masked_scatter": lambda x, v: x.masked_scatter(x > 0, x.flip(0) * 2),
    "a mask with a row for each place": lambda x, v: put(x, [HOLDS], x[1:3]),
    "a mask of rows that sums": lambda x, v: put(x, [HOLDS], x[:2], True),
    "a mask with a number for each place": lambda x, v: put(v, [torch.tensor([False, True, True, False, True])], v[:3] * 3),
    "nanmedian": lambda x, v: WITH_NAN.nanmedian(2, keepdim=True),
    "nanmedian of all": lambda x, v: torch.where(x > 1, torch.nan, x).nanmedian() + v,
    "angle": lambda x, v: torch.angle(WITH_NAN) + x,
    "sign of truth": lambda x, v: torch.sign(x > 0),
    "gather of a scalar": lambda x, v: v[0].gather(0, torch.tensor([0, 0])) + x[0, 0, :2],
    "gather at a scalar": lambda x, v: v.gather(0, torch.tensor(3)) + x[0, 0],
}


@pytest.mark.parametrize("name", MORE)
def test_masks_that_are_counted(name):
    graph = load_torch(Apply(MORE[name]).eval(), (X, V))
    got = list(evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, (X, V))}, float64=False).values())
    want = MORE[name](X, V)
    for g, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        np.testing.assert_allclose(g, w.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("f", "shapes"), [
    (lambda x, i, j: torch.index_put(x, (i, j[:, None], i.T), x[0, 0, 0] * i), [(6, 5, 7), (9, 9), (9,)]),
    (lambda x, i, j: torch.index_put(x, (i, j), x[0, :9] * 2, accumulate=True), [(40, 50, 7), (9,), (9,)]),
    (lambda x, i, j: (x > 0).scatter(1, i, j > 1), [(9, 50), (9, 30), (9, 30)]),
], ids=["three indices", "two, added", "truth values"])  # fmt: skip
@pytest.mark.parametrize("target", ["cuda:h200", "maca:c500"])
def test_scatters_by_several_indices_are_kernels_on_gpus(f, shapes, target):
    """Their NumPy reference on the host would cut the program in two."""
    shape, *of = shapes
    at = [torch.randint(0, 5, s) for s in of]
    program = autocomp.optimize(Apply(f).eval(), target, example_inputs=(torch.randn(shape), *at), cache=False)
    assert not any(k.bound == "opaque" for k in program.kernels)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool])
def test_the_last_of_the_most_frequent(dtype):
    x = torch.randint(0, 3, (50, 5), generator=torch.Generator().manual_seed(1)).to(dtype)
    graph = load_torch(Apply(lambda x: torch.mode(x, 1)).eval(), (x,))
    for got, want in zip(evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}).values(), torch.mode(x, 1), strict=True):
        np.testing.assert_array_equal(got, want.numpy())
