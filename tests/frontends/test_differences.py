"""docs/differences.md: what differs from NumPy on purpose, one test a line."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def compiled(fn, *args):
    program = autocomp.optimize(fn, example_inputs=args, target="cpu")
    return program(*args)


def test_short_floats_are_summed_wider():
    x = np.full(4096, 1.0009765625, np.float16)
    assert abs(float(compiled(lambda x: x.cumsum()[-1:].sum() * 0 + x.sum(dtype="f2"), x)) - 4100) <= 4


def test_the_sign_of_nan_is_not_kept():
    x = np.array([-np.nan, np.nan, -1], np.float32)
    signs, copied = compiled(lambda x: (np.signbit(x), np.copysign(2, x)), x)
    np.testing.assert_array_equal(signs, [False, False, True])
    np.testing.assert_array_equal(copied, [2, 2, -2])


def test_either_zero_is_the_larger():
    x, y = np.array([0.0, -0.0], np.float32), np.array([-0.0, 0.0], np.float32)
    np.testing.assert_array_equal(compiled(lambda x, y: np.maximum(x, y), x, y), [0, 0])
    np.testing.assert_array_equal(compiled(lambda x: np.sort(x), np.array([0.0, 1, -0.0, -1], np.float32)), [-1, 0, 0, 1])


def test_activations_where_they_cancel_or_vanish():
    graph = """graph g
    input x: f32[4]
    %0 = gelu(x)
    %1 = sigmoid(x)
    %2 = silu(x)
    output g = %0
    output s = %1
    output t = %2
    """
    x = np.array([-10, -100, -88, -4], np.float32)
    got = autocomp.optimize(graph, target="cpu").run({"x": x})
    np.testing.assert_allclose(got["g"], [0, 0, 0, -1.2668e-4], atol=2e-6)
    np.testing.assert_allclose(got["s"], 1 / (1 + np.exp(-x.astype("f8"))), rtol=1e-6, atol=1.2e-38)
    np.testing.assert_allclose(got["t"], x / (1 + np.exp(-x.astype("f8"))), rtol=1e-6, atol=1.2e-38)


def test_floats_beyond_an_integers_range_are_numpys_on_x86():
    x = np.array([1e10, -1e10, np.nan, np.inf, -np.inf, 2.9], np.float32)
    fn = lambda x: (x.astype("i4"), x.astype("i8"))
    for got, want in zip(compiled(fn, x), ([-(2**31)] * 5 + [2], [10**10, -(10**10)] + [-(2**63)] * 3 + [2])):
        np.testing.assert_array_equal(got, want)


def test_integer_division_by_zero_and_wide_shifts():
    x, y = np.array([7, -7, 0], np.int32), np.array([0, 0, 0], np.int32)
    q, r, left, right = compiled(lambda x, y: (x // y, x % y, x << (y + 40), x >> (y + 40)), x, y)
    for got, want in ((q, 0), (r, 0), (left, 0), (right, [0, -1, 0])):
        np.testing.assert_array_equal(got, np.broadcast_to(want, 3))


def test_negative_powers_of_integers():
    x = np.array([1, -1, 2, 0, -3], np.int32)
    np.testing.assert_array_equal(compiled(lambda x, n: x**n, x, np.array([-3] * 5, np.int32)), [1, -1, 0, 0, 0])
    with pytest.raises(AutocompError, match="an integer to the power of -1"):
        compiled(lambda x: x**-1, x)


def test_reciprocal_of_the_integer_zero():
    for kind in ("i1", "i4", "u8"):
        np.testing.assert_array_equal(compiled(np.reciprocal, np.array([0, 1, 2], kind)), [0, 1, 0])


def test_numbers_that_do_not_fit_are_refused_in_where():
    x = np.array([1, 2], np.uint8)
    with pytest.raises(AutocompError, match="-1 does not fit the u8"):
        compiled(lambda x: np.where(x > 1, x, -1), x)


def test_bf16_stays_itself_where_numpy_has_none():
    x = np.ones((2, 2), ml_dtypes.bfloat16)
    for fn in (np.linalg.norm, lambda x: np.clip(x, 0, 1), np.nan_to_num, lambda x: np.einsum("ij->j", x)):
        assert compiled(fn, x).dtype == ml_dtypes.bfloat16
    assert compiled(lambda x: x * 0.5, x).dtype == (x * 0.5).dtype  # f32 before ml_dtypes 0.7


def test_indices_out_of_range():
    x = np.arange(4.0)
    np.testing.assert_array_equal(compiled(lambda x, i: np.take(x, i), x, np.array([0, 9])), [0, 3])
    with pytest.raises(AutocompError):
        compiled(lambda x: x[[0, 9]], x)


def test_what_is_returned():
    x = np.arange(3.0)
    assert isinstance(compiled(lambda x: {"b": x, "a": -x}, x), tuple)
    assert isinstance(compiled(lambda x: (x + 1,), x), np.ndarray)
    assert [np.asarray(v).dtype.kind for v in compiled(lambda x: (x, 3, np.arange(2)), x)] == ["f", "i", "i"]


def test_in_place_operators_change_every_name_and_no_view():
    x = np.arange(6.0).reshape(2, 3)

    def names(x):
        y = x.copy()
        z = y
        z += 1
        w = (x * 2).astype("f4")
        w *= x
        return y, w, x

    for got, want in zip(compiled(names, x), names(x.copy())):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)

    def of_a_view(x):
        y = x[0]
        y += 10
        return x

    def under_a_view(x):
        h = x * 2
        y = h.T
        h += 1
        return y

    def to_an_integer(x):
        y = x.astype("i4")
        y += 0.5
        return y

    views = "of which there are views"
    for fn, text in ((of_a_view, views), (under_a_view, views), (to_an_integer, "does not go into")):
        with pytest.raises(AutocompError, match=text):
            compiled(fn, x)


def test_in_place_operators_leave_arguments_alone():
    x = np.arange(3.0)

    def fn(x):
        x += 1
        return x

    np.testing.assert_array_equal(compiled(fn, x), [1, 2, 3])
    np.testing.assert_array_equal(x, [0, 1, 2])


def test_an_infinity_times_zero_is_nan_in_every_product():
    x, w = np.array([[1.0], [np.inf], [np.nan]], "f4"), np.zeros(1, "f4")
    for fn in (lambda x, w: np.tensordot(x, w, 1), lambda x, w: np.dot(x, w), lambda x, w: x @ w):
        np.testing.assert_array_equal(compiled(fn, x, w), [0, np.nan, np.nan])


def test_weights_that_are_no_numbers_meet_the_zeros_of_a_padding():
    torch = pytest.importorskip("torch")
    x, w = torch.ones(1, 2, 5), torch.ones(2, 1, 3)
    w[0, 0, 1] = np.inf
    for layer, theirs in ((torch.nn.ConvTranspose1d(2, 1, 3, bias=False), 0), (torch.nn.Conv1d(1, 2, 3, padding=2, bias=False), None)):
        layer.eval().weight = torch.nn.Parameter(w, requires_grad=False)
        a = x if theirs == 0 else x[:, :1]
        with torch.no_grad():
            want = layer(a).numpy()
        y = np.asarray(autocomp.optimize(layer, example_inputs=(a,))(a))
        assert theirs is None or np.isnan(want).sum() == theirs
        assert np.isnan(y).any() and (np.isnan(y) | (y == want)).all()


def test_equal_elements_are_in_the_order_of_their_indices():
    torch = pytest.importorskip("torch")
    orders = lambda self, x: (x.topk(2)[1], x.sort(descending=True)[1], x.argsort())
    module = type("First", (torch.nn.Module,), {"forward": orders})().eval()
    x = torch.tensor([[np.nan, 1, np.nan, np.nan], [2, 2, 1, 2]])
    first, falling, rising = autocomp.optimize(module, example_inputs=(x,))(x)
    assert first.tolist() == [[0, 2], [0, 1]]
    assert falling.tolist() == [[0, 2, 3, 1], [0, 1, 3, 2]]
    assert rising.tolist() == [[1, 0, 2, 3], [2, 0, 1, 3]]


def test_transforms_of_an_infinity_are_no_numbers_in_its_row_alone():
    torch = pytest.importorskip("torch")
    module = type("Rows", (torch.nn.Module,), {"forward": lambda self, x: torch.view_as_real(torch.fft.rfft(x))})().eval()
    x = torch.arange(12.0).reshape(2, 6)
    x[0, 1] = np.inf
    y, want = autocomp.optimize(module, example_inputs=(x,))(x), module(x)
    assert not y[0].isfinite().any(-1).any()
    torch.testing.assert_close(y[1], want[1], rtol=1e-5, atol=1e-5)
