"""Complex numbers of torch's as pairs of real tensors, and Fourier transforms as products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import autocomp  # noqa: E402
from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch
R = torch.randn
Z = lambda a, b: torch.complex(a, b)


def _rotary(x: Any, at: Any) -> Any:
    """Llama's own: neighbours are the parts of a number that is turned."""
    turns = torch.polar(torch.ones_like(at), at)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, None]).flatten(-2)


def _written(a: Any, b: Any) -> Any:
    y = torch.zeros(3, 6, dtype=Z(a, b).dtype)
    y[:, 1:5] = Z(a, b)
    return torch.view_as_real(y)


TWO: dict[str, Callable[..., Any]] = {
    "parts": lambda a, b: (Z(a, b).real, Z(a, b).imag, Z(a, b).conj().imag + 0, torch.view_as_real(Z(a, b))),
    "sizes": lambda a, b: (Z(a, b).abs(), Z(a, b).angle()),
    "sums": lambda a, b: torch.view_as_real(Z(a, b) + 2 * Z(b, a) - a + 1.5j),
    "alpha": lambda a, b: torch.view_as_real(torch.sub(Z(a, b), Z(b, a), alpha=3)),
    "products": lambda a, b: torch.view_as_real(Z(a, b) * Z(b, a) * a * 2),
    "imaginary": lambda a, b: torch.view_as_real(Z(a, b) * 1j),
    "quotients": lambda a, b: torch.view_as_real(Z(a, b) / Z(b, a) / b + 1 / Z(a, a)),
    "exponential": lambda a, b: torch.view_as_real(torch.exp(Z(a, b))),
    "matrices": lambda a, b: torch.view_as_real(Z(a, b) @ Z(b, a).mT),
    "einsum": lambda a, b: torch.view_as_real(torch.einsum("ij,kj->ik", Z(a, b), Z(b, b))),
    "crossed": lambda a, b: torch.view_as_real(torch.linalg.cross(Z(a, b)[:, :3], Z(b, a)[:1, :3])),
    "joined": lambda a, b: torch.view_as_real(torch.cat([Z(a, b), Z(b, a).flip(0)], 1)[:, ::2].sum(0)),
    "chosen": lambda a, b: torch.view_as_real(torch.where(a > 0, Z(a, b), a)),
    "chosen from a number": lambda a, b: torch.view_as_real(
        torch.where(a > 0, Z(a, b), torch.ops.aten.scalar_tensor(2 - 1j, dtype=Z(a, b).dtype))),
    "padded": lambda a, b: torch.view_as_real(torch.nn.functional.pad(Z(a, b), (1, 2))),
    "written": _written,
    "compared": lambda a, b: (Z(a, b) == Z(a, a), Z(a, b) != Z(a, b)),
    "split": lambda a, b: [torch.view_as_real(p.contiguous()) for p in Z(a, b).split(2, 1)],
}  # fmt: skip


@pytest.mark.parametrize("name", TWO)
def test_arithmetic(name: str) -> None:
    means_the_same(TWO[name], R(3, 4), R(3, 4), zeros=False)


FUNCTIONS = {"log": torch.log, "sqrt": torch.sqrt, "sin": torch.sin, "cos": torch.cos, "square": lambda z: z**2,
             "cube below": lambda z: z**-3, "root": lambda z: z**0.3}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    odd = [] if "below" in name or name == "log" else [(0.0, 0.0), (-4.0, 0.0), (-4.0, -0.0), (9.0, 0.0), (1e-9, 1e-3)]
    odd = odd[: len(odd) if name == "sqrt" else 1]  # a root of what lies on the cut is that of one side
    a, b = (torch.cat([R(12), torch.tensor([v[k] for v in odd])]) for k in (0, 1))
    means_the_same(lambda a, b: torch.view_as_real(FUNCTIONS[name](Z(a, b))), a, b, zeros=False)


def test_powers_of_other_kinds_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match="pow"):
        load_torch(Apply(lambda a: torch.view_as_real(Z(a, a) ** Z(a, a))).eval(), (R(3),))


def test_numbers_beyond_the_range_of_their_squares_are_divided() -> None:
    means_the_same(lambda a: torch.view_as_real(Z(a, a) / Z(a, 2 * a)), torch.tensor([1e30, 1e-30]), float64=False)


def test_rotary_embedding_as_llama_has_it_is_compiled() -> None:
    x, at = R(2, 5, 3, 8), R(5, 4)
    program = autocomp.optimize(Apply(_rotary).eval(), example_inputs=(x, at), target="cpu")
    np.testing.assert_allclose(program(x, at), _rotary(x, at), atol=1e-5)
    assert len(program.kernels) <= 2


def test_a_complex_buffer_is_two_parameters() -> None:
    class Turned(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(5, 4), R(5, 4)))

        def forward(self, x: Any) -> Any:
            return torch.view_as_real(torch.view_as_complex(x) * self.turns)

    module, x = Turned().eval(), R(5, 4, 2)
    program = autocomp.optimize(module, example_inputs=(x,), target="cpu")
    np.testing.assert_allclose(program(x), module(x), atol=1e-5)


LENGTHS = (1, 7, 67, 96)


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_lengths(n: int) -> None:
    real = lambda x: torch.view_as_real(torch.fft.fft(Z(x, x.flip(0))))
    means_the_same(real, R(2, n), zeros=False, atol=1e-4)
    means_the_same(lambda x: (torch.fft.rfft(x).real, torch.fft.rfft(x).imag), R(2, n), zeros=False, atol=1e-4)
    means_the_same(lambda x: torch.fft.irfft(torch.fft.rfft(x) * 0.5, n=n), R(2, n), zeros=False)
    means_the_same(lambda x: torch.view_as_real(torch.fft.ifft(Z(x, 2 * x), norm="ortho")), R(n), zeros=False)


def test_transforms_of_several_dimensions() -> None:
    x = R(2, 6, 10)
    means_the_same(lambda x: torch.fft.fft2(x).real, x, zeros=False, atol=1e-4)
    means_the_same(lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), s=(6, 10), norm="ortho"), x, zeros=False)
    means_the_same(lambda x: torch.fft.rfft(x, dim=0, n=5).abs(), x, zeros=False)
    means_the_same(lambda x: torch.fft.irfft(torch.complex(x, x), n=12), x, zeros=False)
    means_the_same(lambda x: torch.fft.fftshift(torch.fft.fftn(x, dim=(0, 2))).imag, x, zeros=False, atol=1e-4)


def test_a_spectrogram_and_its_way_back() -> None:
    window = torch.hann_window(16)
    spectrum = lambda x: torch.stft(x, 16, 4, window=window.to(x.dtype), return_complex=True)
    means_the_same(lambda x: spectrum(x).abs(), R(2, 64), zeros=False, atol=1e-4)
    means_the_same(lambda x: torch.istft(spectrum(x), 16, 4, window=window.to(x.dtype)), R(2, 64), zeros=False, atol=1e-4)


def test_complex_inputs_and_results_are_refused() -> None:
    x = Z(R(3), R(3))
    with pytest.raises(UnsupportedOp, match="the input 'xs_0' is complex"):
        load_torch(Apply(lambda x: x.abs()).eval(), (x,))
    with pytest.raises(UnsupportedOp, match="output_0 is complex"):
        load_torch(Apply(lambda x: torch.fft.fft(x)).eval(), (R(3),))
    with pytest.raises(UnsupportedOp, match="'tan' on complex numbers"):
        load_torch(Apply(lambda x: torch.tan(Z(x, x)).real).eval(), (R(3),))


def test_transforms_of_open_sizes_are_refused_by_their_dimensions() -> None:
    exported = torch.export.export(Apply(lambda x: torch.fft.ifft(torch.fft.fft(Z(x, x), dim=0), dim=1).real), (R(4, 6),),
                                   dynamic_shapes=(({1: torch.export.Dim.AUTO},),))  # fmt: skip
    with pytest.raises(UnsupportedOp, match=r"_fft_c2c: transforms dimensions \[1\]"):
        load_torch(exported)


def test_the_way_back_through_a_complex_number_of_python():
    x, y = (torch.tensor([0.5, -2.0], requires_grad=True) for _ in range(2))
    f = lambda i: ((1j * i) * (0.5 + 1j * i)).imag + (1j * i).imag
    f(x).sum().backward()
    torch.compile(f, backend="autocomp")(y).sum().backward()
    torch.testing.assert_close(y.grad, x.grad)
