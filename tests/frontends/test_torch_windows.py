"""Convolutions, pools and norms of torch mean what torch computes in float64."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch.nn import functional as F  # noqa: E402, N812

import autocomp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch


def drawn(*shape):
    rng = np.random.default_rng(3)
    return torch.from_numpy(rng.standard_normal(shape).astype(np.float32))


WINDOWS = {
    "transposed 1d": (lambda x, w: F.conv_transpose1d(x, w, stride=3, padding=1, output_padding=2), (2, 4, 7), (4, 3, 4)),
    "transposed 2d, groups": (lambda x, w: F.conv_transpose2d(x, w, stride=(2, 3), groups=2, dilation=2), (2, 4, 5, 6), (4, 3, 3, 2)),
    "transposed 3d": (lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=1), (1, 2, 3, 4, 3), (2, 2, 3, 3, 3)),
    "3d": (lambda x, w: F.conv3d(x, w, stride=2, groups=2, padding=(0, 1, 2)), (1, 4, 5, 6, 7), (4, 2, 2, 3, 3)),
    "1d, same": (lambda x, w: F.conv1d(x, w, padding="same", dilation=3), (2, 3, 9), (4, 3, 4)),
    "max, rounded up": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (2, 3, 8, 9)),
    "max 1d": (lambda x: F.max_pool1d(x, 3, 2, dilation=2, return_indices=True), (3, 10)),
    "max 3d": (lambda x: F.max_pool3d(x, (2, 3, 1), 2, return_indices=True, ceil_mode=True), (1, 2, 5, 5, 5)),
    "average, rounded up": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 8, 6)),
    "average, pads not counted": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 3, 8, 6)),
    "average by a divisor": (lambda x: F.avg_pool3d(x, 2, 1, 1, divisor_override=5), (1, 2, 3, 4, 3)),
    "adaptive average": (lambda x: F.adaptive_avg_pool2d(x, (5, 3)), (2, 3, 7, 8)),
    "adaptive average 3d": (lambda x: F.adaptive_avg_pool3d(x, (5, None, 2)), (2, 7, 4, 5)),
    "adaptive max": (lambda x: F.adaptive_max_pool2d(x, (5, 3), return_indices=True), (2, 3, 7, 8)),
    "adaptive max, more than there are": (lambda x: F.adaptive_max_pool1d(x, 9, return_indices=True), (2, 3, 5)),
    "group norm": (lambda x, w, b: F.group_norm(x, 2, w, b), (2, 4, 3, 5), (4,), (4,)),
    "instance norm": (lambda x: F.instance_norm(x), (2, 3, 4, 5)),
    "local response norm": (lambda x: F.local_response_norm(x, 3), (2, 5, 4, 4)),
    "batch norm of the batch": (lambda x: F.batch_norm(x, None, None, training=True), (4, 3, 5)),
}


@pytest.mark.parametrize("case", WINDOWS)
def test_windows_and_norms(case):
    f, *shapes = WINDOWS[case]
    means_the_same(f, *(drawn(*s) for s in shapes))


INTEGERS = {
    "transposed, groups": (lambda x, w, b: F.conv_transpose1d(x, w, b, 2, 1, 1, 2, 2), (2, 4, 9), (4, 3, 3), (6,)),
    "averages round toward zero": (lambda x: F.avg_pool1d(x, 3, 2, 1), (2, 4, 9)),
    "rounded up": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), (2, 3, 8, 6)),
    "pads not counted": (lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 3, 8, 6)),
    "by a divisor": (lambda x: F.avg_pool2d(x, 2, 1, 1, divisor_override=5), (3, 8, 6)),
}


@pytest.mark.parametrize("case", INTEGERS)
def test_windows_of_integers_are_exact(case):
    f, *shapes = INTEGERS[case]
    bits = 55 if len(shapes) == 1 else 29  # no float64 holds the sums
    xs = [torch.from_numpy(np.random.default_rng(len(case)).integers(-(2**bits), 2**bits, s)) for s in shapes]
    graph = load_torch(Apply(f).eval(), tuple(xs))
    (meant,) = evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, xs)}, float64=False).values()
    got = autocomp.optimize(graph)(*(x.numpy() for x in xs))
    assert got.dtype == np.int64 and np.array_equal(got, f(*xs).numpy()) and np.array_equal(meant, got)


def test_of_equal_elements_the_first_is_the_largest_of_a_window():
    x = torch.zeros(1, 2, 6, 6)
    means_the_same(lambda x: F.max_pool2d(x, 3, 2, return_indices=True), x)
    means_the_same(lambda x: F.adaptive_max_pool2d(x, 4, return_indices=True), x)


def test_what_is_not_finite_stays_in_its_windows():
    x = drawn(1, 2, 7, 7)
    x[0, 0, 3, 3], x[0, 1, 0, 6] = float("nan"), float("inf")
    means_the_same(lambda x: F.adaptive_avg_pool2d(x, 3), x)
    means_the_same(lambda x: F.adaptive_max_pool2d(x, 3), x)
    means_the_same(lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True), x)


# kernel, stride, padding, dilation: overlapping, with gaps, dilated by no multiple of the stride, windows that end early
FOLDS = [((3, 2), (1, 2), (1, 0), (1, 1)), ((2, 3), (3, 4), (0, 2), (1, 1)), ((3, 4), (2, 3), (2, 1), (3, 2)),
         ((4, 1), (2, 1), (0, 0), (2, 3))]  # fmt: skip


@pytest.mark.parametrize("form", FOLDS, ids=str)
def test_folds_are_sums_of_padded_slices(form):
    k, s, p, d = form
    columns = F.unfold(drawn(2, 3, 11, 9), k, d, p, s)
    f = lambda x: F.fold(x, (11, 9), k, d, p, s)
    means_the_same(f, columns)
    ops = {n.op for n in load_torch(Apply(f).eval(), (columns,)).nodes()}
    assert ops <= {"input", "const", "reshape", "transpose", "slice", "pad", "add"}, ops


def test_folds_of_images_of_any_size():
    f = Apply(lambda x: F.fold(F.unfold(x, (3, 2), padding=1, stride=(1, 2)), x.shape[-2:], (3, 2), padding=1, stride=(1, 2))).eval()
    sizes = {0: torch.export.Dim("n", min=1, max=4), 2: torch.export.Dim("h", min=3, max=32)}
    program = autocomp.optimize(torch.export.export(f, (drawn(2, 3, 9, 8),), dynamic_shapes=((sizes,),)), cache=False)
    for shape in ((1, 3, 3, 8), (4, 3, 32, 8), (2, 3, 10, 8)):
        x = drawn(*shape)
        torch.testing.assert_close(program(x), f(x))
