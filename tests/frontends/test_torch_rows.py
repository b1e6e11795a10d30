"""Rows of the torch front end that users' modules asked for: quantisation in training, antialiasing, triangles, repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402, N812

from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.export import load_torch, to_numpy  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch
R = torch.randn
E4M3 = torch.float8_e4m3fn
OF_TENSORS = torch.fake_quantize_per_tensor_affine
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "of a tensor": (lambda x: OF_TENSORS(x, 0.1, 3, -8, 7), (R(40),)),
    "of no number": (lambda x: OF_TENSORS(x, 0.1, 3, -8, 7), (torch.tensor([float("nan"), float("inf"), -1e30, 0.05, 0.15, -0.05]),)),
    "of halves": (lambda x: OF_TENSORS(x, 0.1, 3, -8, 7), (R(40).half(),)),
    "by tensors": (lambda x, s, z: OF_TENSORS(x, s, z, 0, 255), (R(40), torch.tensor(0.02), torch.tensor(100, dtype=torch.int32))),
    "of channels": (lambda x, s, z: torch.fake_quantize_per_channel_affine(x, s, z, 1, -128, 127),
                    (R(3, 4, 5), torch.rand(4) + 0.1, torch.arange(4, dtype=torch.int32))),
    "floats of 8 bits": (lambda x: (x.to(E4M3).float() * 2, x.to(torch.float8_e5m2).float(), x.to(E4M3).half().float()), (R(7, 33) * 100,)),
    "slopes that nobody draws": (lambda x: (F.rrelu(x), F.rrelu(x, 0.1, 0.7)), (R(5, 7),)),
    "triangles": (lambda x: (x[torch.tril_indices(4, 5, 1).unbind()], x[torch.triu_indices(4, 5, -1).unbind()]), (R(4, 5),)),
    "pads by its own elements": (
        lambda x: (*(F.pad(x, (3, 1, 0, 2), mode=m) for m in ("reflect", "replicate", "circular")),
                   F.pad(x, (-2, 3, 0, 0), mode="circular"), F.pad(x[0], (7, 7), mode="circular"),
                   F.pad(x[0], (2, 30), mode="replicate"), F.pad(x[0], (-1, 2), mode="reflect")),
        (R(2, 3, 5, 7),)),
    "fused": (lambda x, y: (torch.ops.prims.fma(x, y, x), torch.addcdiv(x, y, y.exp(), value=0.5)), (R(4, 5), R(5, 4).mT)),
    "resizes nothing": (lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, (3, 5), mode="bilinear", antialias=True)),
                        (R(0, 3, 4, 4),)),
    "repeats": (lambda x, r: x.repeat_interleave(r, 1, output_size=6), (R(2, 4), torch.tensor([1, 0, 3, 2]))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rows(name: str) -> None:
    f, xs = CASES[name]
    means_the_same(f, *xs, float64=False, zeros=False)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(3, 5), (11, 4), (20, 7)])
def test_antialiased_resizing(mode: str, size: tuple[int, int]) -> None:
    x = R(2, 3, 11, 7)
    resized = lambda x, corners=False: F.interpolate(x, size=size, mode=mode, antialias=True, align_corners=corners)
    means_the_same(resized, x)
    means_the_same(lambda x: resized(x, True), x)
    x[0, 0, 3, 4], x[1, 1, 5, 5] = float("nan"), float("inf")
    means_the_same(resized, x, float64=False, zeros=False)  # spreads as far as windows reach


def test_antialiased_resizing_by_factors() -> None:
    means_the_same(lambda x: F.interpolate(x, scale_factor=(0.4, 1.7), mode="bicubic", antialias=True), R(1, 2, 11, 9))


def test_repeats_of_unknown_length_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match=r"a number that is read from a tensor|how many elements"):
        load_torch(Apply(lambda x, r: x.repeat_interleave(r)).eval(), (R(3), torch.tensor([1, 2, 1])))


def test_scaled_products_of_8_bits() -> None:
    class Product(torch.nn.Module):
        def forward(self, a, b, s, t, bias):
            return torch._scaled_mm(a, b.t(), s, t, bias, out_dtype=torch.bfloat16)

    a, b, bias = R(32, 64).to(E4M3), R(48, 64).to(E4M3), R(48).bfloat16()
    rows, columns = torch.rand(32, 1) + 0.5, torch.rand(1, 48) + 0.5
    for s, t in ((torch.tensor(0.7), torch.tensor(1.3)), (rows, columns)):
        xs = (a, b, s, t, bias)
        (got,) = evaluate(load_torch(Product().eval(), xs), {n: to_numpy(x) for n, x in zip(("a", "b", "s", "t", "bias"), xs)}).values()
        want = (a.double() @ b.double().t()) * s * t + bias.double()
        np.testing.assert_allclose(got.astype("f8"), want.numpy(), rtol=2**-7, atol=0.01)
    with pytest.raises(UnsupportedOp, match="a result of f8e4m3"):
        load_torch(Apply(lambda a, b, s: torch._scaled_mm(a, b.t(), s, s, out_dtype=E4M3)).eval(), (a, b, torch.tensor(0.7)))
