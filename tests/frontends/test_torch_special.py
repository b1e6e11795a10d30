"""Functions of torch that no table has: Bessel's, quantiles, parts of floats, most frequent values, places, fractional pools."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812

import autocomp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch
S = torch.special
INF, NAN = float("inf"), float("nan")
SIZES = torch.cat([torch.linspace(-40, 40, 801), torch.tensor([0.0, -0.0, 1e-30, 1e-5, 87, -87, 1e4, -1e4, 1e30, NAN])])
SHARES = torch.cat([torch.linspace(0, 1, 801), torch.tensor([-0.1, 1.1, NAN, 1e-30, 1e-10, 1e-37, 1 - 6e-8, 0.1353, 0.8646])])
FUNCTIONS = {"i0": SIZES, "i0e": SIZES, "i1": SIZES, "i1e": SIZES, "erfc": SIZES, "erfcx": SIZES.clamp(min=-9), "ndtri": SHARES,
             "log_ndtr": SIZES}  # fmt: skip
ULPS = {"erfc": 80, "erfcx": 80, "log_ndtr": 200}  # of f32; the others' have 8


def meaning(f, *xs):
    graph = load_torch(Apply(f).eval(), xs)
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, xs)}).values()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_to_the_last_places(name, dtype):
    f, x = getattr(S, name), FUNCTIONS[name].to(dtype)
    (got,), want = meaning(f, x), f(x.double()).to(dtype).numpy()
    lost = 2**-24 * ULPS.get(name, 8) if dtype == torch.float32 else 1e-13
    np.testing.assert_allclose(got, want, rtol=lost, atol=1e-36 if dtype == torch.float32 else 1e-300)


def test_infinite_where_the_function_is():
    x = torch.tensor([INF, -INF])
    assert [v.tolist() for v in meaning(lambda x: (S.i0(x), S.i1(x), S.i0e(x), S.i1e(x)), x)] == [[INF, INF], [INF, -INF], [0, 0], [0, 0]]


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64], ids=["f16", "f32", "f64"])
def test_mantissas_and_exponents(dtype):
    scales = 10.0 ** torch.linspace(-320, 308, 300).double()
    ends = torch.tensor([0.0, -0.0, INF, -INF, NAN, 3, -8, 1, 0.5, 1 - 2**-24, 1e-40])
    x = torch.cat([scales * torch.linspace(1, 2, 300), ends]).to(dtype)
    got, want = meaning(lambda x: tuple(torch.frexp(x)), x), torch.frexp(x)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_array_equal(a, b.numpy())
        assert np.array_equal(np.signbit(a), np.signbit(b.numpy()))


@pytest.mark.parametrize("x", [torch.randint(0, 4, (6, 40)), torch.tensor([[3, 1, 1, 3, 2], [5, 5, 5, 2, 2], [1, 2, 3, 4, 5]]),
                               torch.tensor([[INF, INF, 1, 1, -INF, -INF], [INF] * 6, [0, -0.0, 0, 3, 3, 3]]), torch.randn(3, 4) > 0,
                               torch.randn(3, 7).half().round()])  # fmt: skip
def test_most_frequent_values(x):
    for dim, keep in ((-1, False), (0, True)):
        (value, place), (want, _) = meaning(lambda x, of=(dim, keep): tuple(torch.mode(x, *of)), x), torch.mode(x, dim, keep)
        np.testing.assert_array_equal(value, want.numpy())
        at = place if keep else np.expand_dims(place, dim)
        np.testing.assert_array_equal(np.take_along_axis(x.numpy(), at, dim).reshape(value.shape), value)


def test_no_number_is_as_frequent_as_one():
    value, _ = meaning(lambda x: tuple(torch.mode(x)), torch.tensor([[NAN, 2.0, NAN, 3, 3], [NAN] * 5]))
    np.testing.assert_array_equal(value, [3, NAN])


@pytest.mark.parametrize(("shape", "size"), [((4, 5, 3), 20), ((9,), 4), ((9,), 1), ((3, 4), 12), ((2, 2), 1), ((2, 3), 9)])
def test_places_of_what_is_not_zero(shape, size):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(5)).clamp(min=0)
    for f in (lambda x: torch.nonzero_static(x, size=size), lambda x: torch.nonzero_static(x > 0.5, size=size, fill_value=7)):
        np.testing.assert_array_equal(*meaning(f, x), f(x).numpy())


@pytest.mark.parametrize("out", [(4, 5), (1, 3), (9, 7), (5, 1), (2, 2)])
def test_pools_of_drawn_windows(out):
    g = torch.Generator().manual_seed(sum(out))
    x, u = torch.randn(2, 3, 12, 9, generator=g), torch.rand(2, 3, 2, generator=g)
    f = lambda x, u: F.fractional_max_pool2d(x, (3, 2), output_size=out, _random_samples=u, return_indices=True)
    for got, want in zip(meaning(f, x, u), f(x, u), strict=True):
        np.testing.assert_array_equal(got, want.numpy())
    x, u = torch.randn(2, 7, 12, 9, generator=g), torch.rand(1, 2, 3, generator=g)
    f = lambda x, u: F.fractional_max_pool3d(x, 2, output_size=(3, *out), _random_samples=u, return_indices=True)
    for got, want in zip(meaning(f, x, u), f(x, u), strict=True):
        np.testing.assert_array_equal(got, want.numpy())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_next_number(dtype):
    """To the last bit, in generated code: subnormal numbers, powers of two, what overflows, zeros, infinities and NaN."""
    info = torch.finfo(dtype)
    g = torch.Generator().manual_seed(0)
    power = torch.arange(int(np.log2(info.smallest_normal)) - 60, int(np.log2(info.max)) + 1).double()
    drawn = (1 + torch.rand(len(power), 3, generator=g).double()) * 2 ** power[:, None]
    x = torch.cat([2**power, drawn.flatten(), torch.tensor([0.0, info.max, INF, NAN, info.smallest_normal]).double()]).to(dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    x = torch.cat([x, -x, (x.abs().nan_to_num(0).clamp(1e-40).view(bits) - 1).view(dtype)])
    y = torch.cat([torch.full_like(x, INF), torch.full_like(x, -INF), torch.zeros_like(x), x, torch.full_like(x, NAN)])
    x = x.repeat(5)
    want = torch.nextafter(x, y)
    got = autocomp.optimize(Apply(torch.nextafter).eval(), target="cpu", example_inputs=(x, y))(x, y)
    odd = torch.isnan(want)
    assert torch.equal(torch.isnan(got), odd)
    assert torch.equal(got[~odd].view(bits), want[~odd].view(bits))


def test_compiled():
    def f(x, p, u):
        return (S.i0e(x), S.i1(x), S.ndtri(p), *torch.frexp(x), torch.mode(x.round(), 1)[0], torch.nonzero_static(x > 1, size=30),
                F.fractional_max_pool2d(x[None], 3, output_size=(4, 5), _random_samples=u))  # fmt: skip

    g = torch.Generator().manual_seed(1)
    given = (torch.randn(13, 17, generator=g) * 9, torch.rand(50, generator=g), torch.rand(1, 1, 2, generator=g))
    program = autocomp.optimize(Apply(f).eval(), target="cpu", example_inputs=given)
    for got, want in zip(program(*given), f(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=2e-6, atol=1e-6)
