"""Calls of a CPU program on inputs that are as it reads them take a short way; all others give what the long way gives, or its refusal."""

from __future__ import annotations

import shutil
import threading

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError

pytestmark = pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on PATH")
OPEN = "graph g\ndim n in 1..100\ninput x: f32[n, 3]\ninput y: f32[3]\n%0 = mul(x, y)\n%1 = exp(%0)\noutput a = %1\noutput b = %0\n"
X = np.random.default_rng(0).standard_normal((6, 5)).astype("f4")


@pytest.fixture(scope="module")
def program():
    return autocomp.optimize(lambda x, y: (x - y, x * y), example_inputs=(X, X), threads=1)


@pytest.fixture
def ways(monkeypatch):
    """How many calls took the long way."""
    from autocomp.runtime.host import HostExecutor

    seen, run = [], HostExecutor.run
    monkeypatch.setattr(HostExecutor, "run", lambda self, feed: seen.append(1) or run(self, feed))
    return seen


def read_only(x):
    y = x.copy()
    y.flags.writeable = False
    return y


def test_every_byte_of_a_bool_but_0_is_true():
    """As NumPy takes a view of bytes; in vectors and in what is left of them."""
    text = "input c: bool[21]\ninput d: bool[21]\n%0 = cast(c, to=\"i32\")\n%1 = reduce_sum(%0, axes=[0])\n%2 = eq(c, d)\n%3 = and(c, d)"
    program = autocomp.optimize(f"graph g\n{text}\noutput a = %0\noutput b = %1\noutput e = %2\noutput f = %3\n", cache=False)
    c, d = ((np.arange(21, dtype="u1") * k % 7).view(bool) for k in (1, 3))
    a, b, e, f = program(c, d)
    c, d = c.view("u1") != 0, d.view("u1") != 0
    np.testing.assert_array_equal(a, c)
    assert b == c.sum()
    np.testing.assert_array_equal(e, c == d)
    np.testing.assert_array_equal(f, c & d)


def unaligned(x):
    raw = np.zeros(x.nbytes + 1, np.uint8)
    y = raw[1:].view(x.dtype).reshape(x.shape)
    y[...] = x
    return y


@pytest.mark.parametrize(("make", "short"), [
    (lambda x: x.copy(), True), (read_only, True), (unaligned, False), (lambda x: np.asfortranarray(x), False), (lambda x: x[::-1], False),
    (lambda x: np.repeat(x, 2, 1)[:, ::2], False), (lambda x: x.tolist() and np.ma.array(x), False),
], ids=["plain", "read-only", "unaligned", "fortran", "backwards", "gaps", "subclass"])  # fmt: skip
def test_arrays(program, ways, make, short):
    a, b = make(X), make(X + 1)
    got = program(a, b)
    assert bool(ways) is not short
    for one, want in zip(got, (a - b, a * b), strict=True):
        assert type(one) is np.ndarray
        np.testing.assert_array_equal(one, want)


def test_the_same_array_twice_and_results_that_are_kept(program):
    kept = [program(X + k, X + k) for k in range(4)]
    for k, (zero, square) in enumerate(kept):
        assert not zero.any()
        np.testing.assert_array_equal(square, (X + k) ** 2)


@pytest.mark.parametrize("wrong", [X.astype("f8"), X.T.copy(), X[0], X.astype(">f4"), np.zeros((0, 5), "f4")])
def test_what_is_wrong_is_refused_as_ever(program, wrong):
    program(X, X)
    with pytest.raises(ModelError, match=r"wants f32\[6, 5\], got"):
        program(X, wrong)
    with pytest.raises(ModelError, match="takes 2 inputs"):
        program(X)


def test_tensors_of_torch(program, ways):
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    for _ in range(2):  # the second one by what the first has found
        assert all(map(torch.equal, program(x, x + 1), (x - (x + 1), x * (x + 1))))
    assert not ways and program.executor.plain.__qualname__ == "Plain._for_torch.<locals>.call"
    negative = torch.complex(torch.zeros(6, 5), x).conj().imag
    assert negative.is_neg()
    for odd, want in ((negative, -x), (x.T.contiguous().T, x), (torch.nn.Parameter(x, requires_grad=False), x)):
        assert torch.equal(program(odd, x)[1], want * x)
    assert len(ways) == 3
    assert torch.equal(program(x, X)[0], x - x), "one of each"
    with pytest.raises(ModelError, match="NumPy cannot read"):
        program(x.clone().requires_grad_(), x)
    for other in (x.to_sparse(), x.to("meta")):
        with pytest.raises(ModelError):
            program(other, x)
    assert torch.vmap(lambda y: y * 2)(x).equal(x * 2)
    with pytest.raises(ModelError, match="NumPy cannot read"):
        torch.vmap(lambda y: program(y, y))(torch.stack([x, x]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "bool", "int64", "uint8"])
def test_types(ways, dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(-6, 6).abs().reshape(3, 4).to(getattr(torch, dtype))
    module = type("Turned", (torch.nn.Module,), {"forward": lambda self, x: x.T.contiguous()})().eval()
    program = autocomp.optimize(module, example_inputs=(x,), threads=1)
    ways.clear()
    got = program(x)
    assert not ways
    assert got.dtype == x.dtype
    assert torch.equal(got, x.T)


@pytest.mark.parametrize("n", [7, 30_000, 300_001])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_results_of_any_size_are_the_callers_own(ways, n, dtype):
    torch = pytest.importorskip("torch")
    x = torch.arange(n).to(getattr(torch, dtype))
    module = type("Negative", (torch.nn.Module,), {"forward": lambda self, x: (-x, x > 3)})().eval()
    program = autocomp.optimize(module, example_inputs=(x,), threads=1)
    ways.clear()
    kept = [program(x + k) for k in range(3)]
    with torch.device("meta"):
        kept.append(program(x))
    assert not ways
    for (a, b), y in zip(kept, (x, x + 1, x + 2, x), strict=True):
        assert a.device.type == "cpu"
        assert torch.equal(a, -y) and torch.equal(b, y > 3)


def test_tensors_of_torch_of_open_sizes(ways, monkeypatch):
    """Sizes that were called before take what that call has found, frames included; those kept are few."""
    torch = pytest.importorskip("torch")
    from autocomp.runtime.plain import LAYOUTS, Plain

    program = autocomp.optimize(OPEN, threads=1)
    y, found, made = torch.arange(3.0), [], Plain._made_ready
    monkeypatch.setattr(Plain, "_made_ready", lambda self, e, args, shapes: found.append(shapes) or made(self, e, args, shapes))
    for n in (4, 1, 7, 4, 100, 7, *range(1, LAYOUTS + 2), LAYOUTS + 1):
        x = torch.full((n, 3), n / 50)
        a, b = program(x, y)
        torch.testing.assert_close(a, (x * y).exp())
        assert torch.equal(b, x * y)
        assert program.executor.plain.__qualname__ == "Plain._for_torch.<locals>.call"
    assert not ways and len(found) == LAYOUTS + 2
    for bad in (torch.zeros(101, 3), torch.zeros(0, 3), torch.zeros(4, 2), torch.zeros(3)):
        with pytest.raises(ModelError):
            program(bad, y)


def test_open_sizes(ways):
    program = autocomp.optimize(OPEN, threads=1)
    y = np.arange(3, dtype="f4")
    for n in (4, 1, 7, 4, 100, 7):
        x = np.full((n, 3), n / 50, "f4")
        a, b = program(x, y)
        np.testing.assert_allclose(a, np.exp(x * y), rtol=1e-6)
        np.testing.assert_array_equal(b, x * y)
    assert not ways
    for bad in (np.zeros((101, 3), "f4"), np.zeros((0, 3), "f4"), np.zeros((4, 2), "f4")):
        with pytest.raises(ModelError):
            program(bad, y)


def test_calls_at_once_have_frames_of_their_own():
    rng = np.random.default_rng(1)
    w = rng.standard_normal((40, 40)).astype("f4")
    program = autocomp.optimize(lambda x, w: np.tanh(x @ w) @ w, example_inputs=(w, w), threads=1)
    feeds = [rng.standard_normal((40, 40)).astype("f4") for _ in range(4)]
    want, wrong = [program(x, w).tobytes() for x in feeds], []

    def work(k: int) -> None:
        wrong.extend([k] * sum(program(feeds[k], w).tobytes() != want[k] for _ in range(300)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(60)
    assert not wrong


def test_verify_fills_what_it_runs_on(program):
    program(X, X)
    assert program.verify()
