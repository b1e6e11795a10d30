"""Cholesky, QR, LU, exponentials, triangular systems, inverses, solutions and determinants: loops, against torch in float64."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import autocomp  # noqa: E402
from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402


class Called(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, *xs):
        return self.f(*xs)


def matrices(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(3))


def positive(a):
    return a @ a.mT + torch.eye(a.shape[-1])


LA, ATEN = torch.linalg, torch.ops.aten


def rotation(a):
    u, _, v = LA.svd(a)
    turned = LA.det(u @ v)
    return u @ torch.diag_embed(torch.stack([torch.ones_like(turned), torch.ones_like(turned), turned], -1)) @ v


CASES = {
    "cholesky": (lambda a: (LA.cholesky(positive(a)), LA.cholesky(positive(a), upper=True)), [(5, 5)]),
    "cholesky of a batch": (lambda a: torch.linalg.cholesky(positive(a)), [(2, 3, 4, 4)]),
    "by a factor": (lambda a, b: (torch.cholesky_solve(b, LA.cholesky(positive(a))), torch.cholesky_inverse(LA.cholesky(positive(a))),
                                  torch.cholesky_solve(b, LA.cholesky(positive(a), upper=True), upper=True)), [(2, 4, 4), (2, 4, 3)]),
    "triangular": (lambda a, b: (LA.solve_triangular(a.tril() + 3 * torch.eye(5), b, upper=False),
                                 LA.solve_triangular(a.triu() + 3 * torch.eye(5), b, upper=True),
                                 LA.solve_triangular(a, b, upper=True, unitriangular=True),
                                 LA.solve_triangular(a + 3 * torch.eye(5), b.mT, upper=False, left=False)), [(5, 5), (5, 3)]),
    "inverse": (LA.inv, [(7, 7)]),
    "inverse of a batch": (LA.inv, [(3, 4, 4)]),
    "inverse that swaps rows": (lambda a: LA.inv(a * (1 - torch.eye(4))), [(4, 4)]),
    "solution": (lambda a, b: (LA.solve(a, b), LA.solve(a.mT, b.mT, left=False)), [(5, 5), (5, 3)]),
    "solution of a vector": (LA.solve, [(6, 6), (6,)]),
    "batches of one side": (lambda a, b: (LA.solve(a, b), LA.solve(a[0], b[0].expand(3, 4, 4)), LA.solve(a, b[0, 0, :, 0]),
                                          LA.solve_triangular(a[0] + 3 * torch.eye(4), b, upper=True), LA.solve(a, b.mT, left=False),
                                          torch.cholesky_solve(b[0], LA.cholesky(positive(a)))), [(3, 4, 4), (2, 1, 4, 4)]),
    "determinant": (lambda a: (LA.det(a), *LA.slogdet(a), LA.det(a[:1, :1])), [(5, 5)]),
    "determinant of a singular matrix": (lambda a: (LA.det(a * 0), *LA.slogdet(a * 0), LA.det(a * torch.tensor([1.0, 0, 1])),
                                                    LA.det(a[:1].expand(3, 3))), [(3, 3)]),
    "crossed": (lambda a, b: (LA.cross(a, b), LA.cross(a[:1], b, dim=-1), LA.cross(a[:3].mT, b[:1, :3], dim=1), torch.cross(a.mT, b.mT, 0)),
                [(4, 3), (4, 3)]),
    "Q and R": (lambda a: (*LA.qr(a), *LA.qr(a.mT), *LA.qr(a, mode="complete"), LA.qr(a, mode="r")[1], *LA.qr(a[..., :1, :1])),
                [(2, 5, 3)]),
    "Q and R of columns that are 0 or large": (lambda a: (*LA.qr(a * torch.tensor([1.0, 0, 1])), *LA.qr(a * 0),
                                                          *(x / f for x, f in zip(LA.qr(a * 1e25), (1, 1e25)))), [(4, 3)]),
    "L and U": (lambda a: (*LA.lu(a), *LA.lu(a.mT), *LA.lu_factor(a), *torch.lu_unpack(*LA.lu_factor(a)),
                           *LA.lu(a * torch.tensor([1.0, 0, 1]))),
                [(2, 5, 3)]),
    "solutions by L and U": (lambda a, b: tuple(LA.lu_solve(*LA.lu_factor(a), b if left else b.mT, left=left, adjoint=turned)
                                                for left in (True, False) for turned in (False, True)), [(2, 5, 5), (2, 5, 3)]),
    "batches of solutions by L and U": (lambda a, b: LA.lu_solve(*LA.lu_factor(a), b), [(4, 4), (2, 3, 4, 2)]),
    "triangular as it was called": (lambda a, b: (torch.triangular_solve(b, a + 3 * torch.eye(4))[0],
                                                  torch.triangular_solve(b, a + 3 * torch.eye(4), upper=False, transpose=True)[0]),
                                    [(4, 4), (4, 2)]),
    "exponential": (lambda a: (torch.matrix_exp(a), torch.matrix_exp(a * 0), torch.matrix_exp(a - a.mT), torch.matrix_exp(a[:1, :1])),
                    [(4, 4)]),
    "exponentials of a batch": (lambda a: torch.matrix_exp(a * torch.tensor([0.01, 1, 5]).view(3, 1, 1)), [(2, 3, 3, 3)]),
    "exponential of what is large": (lambda a: torch.matrix_exp(torch.triu(a, 1) * 1e4) / 1e8, [(3, 3)]),
    "which column has no pivot": (lambda a: (
        *LA.cholesky_ex(positive(a)), LA.cholesky_ex(positive(a) - torch.tensor([0.0, 9, 99]).view(3, 1, 1) * torch.eye(4)).info,
        LA.cholesky_ex(torch.diag(torch.tensor([4.0, 1, 0, 1])))[1], *LA.inv_ex(a), LA.inv_ex(a * 0)[1], *LA.solve_ex(a, a[:, :1].mT),
        LA.solve_ex(a[0] * torch.tensor([1.0, 1, 0, 1]), a[0]).info, *LA.lu_factor_ex(a[..., :2]), *LA.lu_factor_ex(a[..., :2, :]),
        LA.lu_factor_ex(a * torch.tensor([1.0, 0, 1, 1])).info, LA.lu_factor_ex(a[0] * 0)[2]), [(3, 4, 4)]),
    "eigenvalues": (lambda a: (LA.eigvalsh(a), LA.eigvalsh(a + a.mT, UPLO="U"), LA.eigvalsh(a * 0), LA.eigvalsh(a[..., :1, :1]),
                               LA.eigvalsh(torch.ones(3, 3) + 0 * a[0, :1, :1]), LA.eigvalsh(a * 1e30) / 1e30, LA.eigvalsh(a[:, :4, :4])),
                    [(2, 5, 5)]),
    "eigenvectors": (lambda a: tuple(x for w, v in [LA.eigh(a)] for x in (w, v @ torch.diag_embed(w) @ v.mT, v.mT @ v, v.abs())),
                     [(3, 6, 6)]),
    "singular values": (lambda a: (LA.svdvals(a), LA.svdvals(a.mT), LA.svdvals(a * 0), LA.svdvals(a[..., :1]), LA.svdvals(a[..., :1, :]),
                                   LA.svdvals(a[..., :2] @ a[..., :2].mT), LA.svdvals(a * 1e-30) * 1e30, LA.matrix_norm(a, 2),
                                   LA.matrix_norm(a, "nuc"), LA.cond(a), LA.matrix_rank(a[..., :2] @ a[..., :2].mT)), [(2, 5, 3)]),
    "singular vectors": (lambda a: tuple(
        x for m in (a, a.mT, a[..., :1], a[..., :2] @ a[..., :2].mT, a * 0) for full in (False, True)
        for u, s, v in [LA.svd(m, full_matrices=full)] for k in [s.shape[-1]]
        for x in (u[..., :k] @ torch.diag_embed(s) @ v[..., :k, :], u.mT @ u, v @ v.mT)), [(2, 5, 3)]),
    "the nearest rotation": (lambda a: rotation(a), [(2, 3, 3)]),
    "pseudo-inverses": (lambda a: (LA.pinv(a), LA.pinv(a.mT), LA.pinv(a[..., :2] @ a[..., :2].mT, rtol=1e-4), torch.pinverse(a[0]),
                                   LA.pinv(a[..., :3, :] + a[..., :3, :].mT, hermitian=True), LA.pinv(a, atol=1.0), LA.pinv(a * 0)),
                        [(2, 5, 3)]),
    "what is kept for the way back": (lambda a, b: (
        *ATEN._linalg_det(a), *ATEN._linalg_det(a.mT), *ATEN._linalg_det(a[1:]), *ATEN._linalg_slogdet(a), *ATEN._linalg_slogdet(a.mT),
        *ATEN._linalg_solve_ex(a, b), *ATEN._linalg_solve_ex(a.mT, b.mT, left=False), *ATEN._linalg_solve_ex(a[0], b)),
                                      [(3, 4, 4), (3, 4, 2)]),
    "determinants of a batch": (lambda a: (LA.det(a), torch.logdet(positive(a))), [(3, 2, 2)]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_each_means_what_torch_s_means(name):
    f, shapes = CASES[name]
    given = [matrices(*s) for s in shapes]
    with torch.no_grad():
        want = f(*(x.double() for x in given))
    graph = load_torch(Called(f).eval(), tuple(given))
    got = evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, given)})
    for x, w in zip(got.values(), want if isinstance(want, tuple) else (want,), strict=True):
        torch.testing.assert_close(torch.as_tensor(x).double(), w.double(), rtol=2e-4, atol=2e-4)
        assert w.dtype.is_floating_point or torch.as_tensor(x).dtype == w.dtype


def test_compiled():
    module, given = Called(lambda a, b: (LA.cholesky(positive(a)), LA.solve(a, b), LA.det(a))).eval(), (matrices(9, 9), matrices(9, 2))
    program = autocomp.optimize(module, target="cpu", example_inputs=given)
    assert len(program.calls.loops) == 3
    for got, want in zip(program(*given), module(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-3, atol=1e-3)


def test_factors_compiled():
    module = Called(lambda a, b: (*LA.qr(a), *LA.lu(a), LA.lu_solve(*LA.lu_factor(a), b), torch.matrix_exp(a))).eval()
    given = (matrices(7, 7), matrices(7, 2))
    program = autocomp.optimize(module, target="cpu", example_inputs=given)
    for got, want in zip(program(*given), module(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-3, atol=1e-3)


def test_the_nearest_rotation_compiled():
    def f(a, b):
        return rotation(a.mT @ b), LA.eigvalsh(a.mT @ a), LA.pinv(a)

    given = (matrices(2, 7, 3), matrices(2, 7, 3) + 0.3)
    program = autocomp.optimize(Called(f).eval(), target="cpu", example_inputs=given)
    for got, want in zip(program(*given), f(*(x.double() for x in given)), strict=True):
        torch.testing.assert_close(torch.as_tensor(got).double(), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [9, 24])
def test_spectra_of_larger_matrices(n):
    """Sweeps end where nothing is left to turn: graded, clustered and random values."""
    q, _ = LA.qr(matrices(n, n).double())
    spectra = torch.stack([10.0 ** -torch.arange(n), torch.arange(n) // 4 / n, (torch.arange(n) > n // 2) + 0.0, matrices(n)]).double()
    given = q @ torch.diag_embed(spectra) @ q.mT
    graph = load_torch(Called(lambda a: (*LA.eigh(a), LA.svdvals(a))).eval(), (given,))
    w, v, s = (torch.as_tensor(x) for x in evaluate(graph, {graph.inputs[0].attrs["name"]: given.numpy()}).values())
    torch.testing.assert_close(w, spectra.sort(-1).values, rtol=0, atol=1e-13)
    torch.testing.assert_close(v @ torch.diag_embed(w) @ v.mT, given, rtol=0, atol=1e-13)
    torch.testing.assert_close(s, spectra.abs().sort(-1, descending=True).values, rtol=0, atol=1e-13)


def test_an_exponential_without_right_digits_is_no_number():
    graph = load_torch(Called(torch.matrix_exp).eval(), (matrices(2, 2),))
    for by in (1e12, float("inf"), float("nan")):
        (got,) = evaluate(graph, {graph.inputs[0].attrs["name"]: np.full((2, 2), by, "f4")}).values()
        assert np.isnan(got).all()


def test_what_is_refused():
    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(Called(LA.inv).eval(), (matrices(3, 3),), dynamic_shapes=(({0: n, 1: n},),))
    with pytest.raises(UnsupportedOp, match=r"f32\[n, n\][^$]*matrices are square, not empty, of known size"):
        load_torch(exported)
