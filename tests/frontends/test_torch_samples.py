"""Resampling, functions beyond the scalar table, norms and sums of products of torch mean what torch computes in float64."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import autocomp
from autocomp.errors import AutocompError, UnsupportedOp
from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch.nn import functional as F  # noqa: E402, N812

from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch


def drawn(*shape):
    return torch.from_numpy(np.random.default_rng(5).standard_normal(shape).astype(np.float32))


RESIZED = {
    "nearest": dict(size=(5, 12)), "nearest by factors": dict(scale_factor=(1.7, 0.6)),
    "nearest-exact": dict(size=(9, 3), mode="nearest-exact"),
    "bilinear": dict(size=(9, 4), mode="bilinear"), "corners": dict(size=(9, 4), mode="bilinear", align_corners=True),
    "by a factor": dict(scale_factor=1.7, mode="bilinear"),
    "recomputed": dict(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
    "bicubic": dict(size=(11, 4), mode="bicubic"),
    "bicubic corners": dict(scale_factor=2.3, mode="bicubic", align_corners=True),
    "area": dict(size=(4, 3), mode="area"),
}  # fmt: skip


@pytest.mark.parametrize("case", RESIZED)
def test_resizing(case):
    means_the_same(lambda x: F.interpolate(x, **RESIZED[case]), drawn(2, 3, 6, 7))


def test_resizing_lines_and_boxes():
    means_the_same(lambda x: F.interpolate(x, 11, mode="linear"), drawn(2, 3, 6))
    means_the_same(lambda x: F.interpolate(x, (3, 5, 8), mode="trilinear", align_corners=True), drawn(1, 2, 4, 3, 6))
    means_the_same(lambda x: F.interpolate(x, scale_factor=2), drawn(1, 2, 2, 3, 2))


ODD = [0.0, -0.0, 1.0, -2.5, float("inf"), -float("inf"), float("nan"), 3e38]


@pytest.mark.parametrize("f", [torch.atan2, torch.hypot, torch.fmax, torch.fmin], ids=lambda f: f.__name__)
def test_two_operands_that_are_odd(f):
    a, b = (torch.tensor(v) for v in zip(*product(ODD, ODD)))
    means_the_same(f, a, b, float64=False, zeros=f not in (torch.fmax, torch.fmin))  # which of two zeros is open


def test_signs():
    a, b = (torch.tensor(v) for v in zip(*product(ODD, ODD[:-2])))
    means_the_same(torch.copysign, a, b)
    means_the_same(torch.signbit, b)
    means_the_same(torch.signbit, torch.tensor([-1, 0, 3]))


def test_the_tail_of_erf_keeps_its_digits():
    x = torch.linspace(-4, 9, 200)
    graph = load_torch(Apply(torch.erfc).eval(), (x,))
    got = evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}, float64=False)
    np.testing.assert_allclose(next(iter(got.values())), torch.erfc(x.double()).numpy(), rtol=3e-5)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3.5, float("inf"), -float("inf")])
def test_norms(order):
    x, y = drawn(3, 4, 5), drawn(3, 6, 5)
    means_the_same(lambda x: torch.linalg.vector_norm(x, order, dim=(0, 2), keepdim=True), x)
    means_the_same(lambda x: torch.dist(x, x + 1, order), x)
    if order >= 0:
        means_the_same(lambda x, y: torch.cdist(x, y, order), x, y)


def test_norms_of_halves_are_summed_in_f32():
    x = torch.full((8,), 300.0, dtype=torch.float16)
    means_the_same(torch.linalg.vector_norm, x, float64=False)


@pytest.mark.parametrize("order", [0, 0.5, 2, 3, -2, float("inf")])
@pytest.mark.parametrize("x", [torch.full((3, 1), 1e30), torch.tensor(-1e30), torch.zeros(1, 1)])
def test_norms_of_one_element_are_its_magnitude(x, order):
    """Whose square is an infinity in f32."""
    means_the_same(lambda x: torch.linalg.vector_norm(x, order, dim=-1 if x.dim() else None), x, float64=False)
    means_the_same(lambda x: torch.dist(x.flatten()[:1], -x.flatten()[:1], order), x, float64=False)


def test_cosines_of_one_element_are_its_sign():
    x = torch.tensor([[1e26], [-3.0]])
    means_the_same(lambda x: F.cosine_similarity(x.bfloat16(), -x.bfloat16(), -1).float(), x, float64=False)


def test_products_and_moments():
    a, b, v = drawn(3, 4, 5), drawn(3, 5, 6), drawn(5)
    means_the_same(lambda x, a, b: torch.addbmm(x, a, b, beta=0.5, alpha=2), drawn(4, 6), a, b)
    means_the_same(lambda x, a, v: torch.addmv(x, a[0], v, beta=0), torch.full((4,), float("nan")), a, v)
    means_the_same(lambda a, w: F.bilinear(a, a, w), a, drawn(2, 5, 5))
    means_the_same(lambda x: torch.std_mean(x, (0, 2), correction=2), a)
    means_the_same(lambda x: torch.round(x, decimals=1), a)
    means_the_same(lambda x: x.max(0), torch.tensor(3.0))


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align", [False, True])
def test_images_at_places(mode, padding, align):
    x, grid = drawn(2, 3, 5, 6), 1.5 * drawn(2, 4, 3, 2)
    means_the_same(lambda x, grid: F.grid_sample(x, grid, mode, padding, align), x, grid, zeros=False)


def test_boxes_at_places_of_a_rotation():
    turned = lambda x, t: F.grid_sample(x, F.affine_grid(t, [2, 2, 3, 4, 5], align_corners=False), align_corners=False)
    means_the_same(turned, drawn(2, 2, 4, 3, 5), drawn(2, 3, 4), zeros=False)


def test_what_is_not_finite_is_read_only_where_it_lies():
    x, grid = drawn(1, 1, 4, 4), torch.tensor([[[[-0.9, -0.9], [3.0, 3.0], [0.9, 0.9]]]])
    x[0, 0, 0, 0], x[0, 0, 3, 3] = float("inf"), float("nan")
    means_the_same(lambda x, g: F.grid_sample(x, g, align_corners=False), x, grid, zeros=False)


def test_extremes_of_truth_values():
    x = torch.tensor([[True, False, True], [False, False, False]])
    means_the_same(lambda x: x.max(1), x, zeros=False)
    means_the_same(lambda x: x.min(1, keepdim=True), x, zeros=False)
    means_the_same(lambda x: (x.max(), x.min(), x.amax(0), x.amin(0)), x, zeros=False)


def test_the_gamma_family():
    x = torch.cat([torch.tensor([0.0, -0.0, -1.0, -3.0, 1.0, 2.0, 1e-7, 40.5, 1e30]), 6 * drawn(200), torch.linspace(-2.999, -2.001, 20)])
    ends = torch.tensor([float("inf"), -float("inf"), float("nan")])
    means_the_same(torch.lgamma, torch.cat([x, ends]), zeros=False)  # at 1 and 2 it is 0 up to rounding
    means_the_same(torch.digamma, x)
    means_the_same(lambda x: torch.polygamma(1, x), x[x.floor() != x])
    means_the_same(lambda x: torch.polygamma(0, x), x)
    with pytest.raises(UnsupportedOp, match="derivative 3 of digamma"):
        load_torch(Apply(lambda x: torch.polygamma(3, x)).eval(), (x,))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_several_targets(reduction):
    t = torch.tensor([[0, 1, -1, 0, 2], [-1, 3, 3, 3, 3], [4, 3, 2, 1, 0]])
    means_the_same(lambda x, t: F.multilabel_margin_loss(x, t, reduction=reduction), drawn(3, 5), t)


def test_tails_of_the_error_function():
    x = torch.cat([6 * drawn(60), torch.tensor([0.0, -0.0, 20.0, 1e5, -12.0, float("inf"), -float("inf"), float("nan")])])
    means_the_same(lambda x: (torch.special.erfcx(x.clamp(min=-9)), torch.special.log_ndtr(x)), x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bf16", "f16"])
def test_factors_that_short_floats_do_not_hold_are_not_rounded(dtype):
    """1.02 is 1.0234 in bf16: each result would be 0.3 % too large."""
    x = drawn(500).to(dtype)
    f = lambda x: (x * 1.02, x / 1.02, 1.02 / x, x * 4099, x + 0.3333, 0.3333 - x)  # on CPUs the terms are
    program = autocomp.optimize(Apply(f).eval(), target="cpu", example_inputs=(x,))
    for got, want in zip(program(x), f(x), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=0, atol=0)


def test_views_as_tensors_of_their_own():
    x = drawn(3, 4)
    copies = torch.ops.aten
    means_the_same(lambda x: (copies.view_copy(x, [4, 3]), copies.permute_copy(x, [1, 0]), copies.as_strided_copy(x, [2, 2], [4, 1], 1)), x)
    means_the_same(lambda x: tuple(copies.unbind_copy(x, 1)), x)
    means_the_same(lambda x: x.sum().index_select(0, torch.tensor([0])), x)


def test_sparse_tensors_are_refused_by_their_layout():
    class Product(torch.nn.Module):
        def forward(self, a, b):
            return a @ b

    a = torch.eye(3).to_sparse_csr()
    with pytest.raises(AutocompError, match=r"laid out as torch.sparse_csr|torch.export"):
        load_torch(Product().eval(), (a, torch.ones(3, 2)))
