"""Rows of ATen's gradients of convolutions and pools, and of sums of overlapping windows, mean what torch computes in float64."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from autocomp.errors import ModelError, UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch
aten = torch.ops.aten


def drawn(*shape):
    return torch.from_numpy(np.random.default_rng(3).standard_normal(shape).astype(np.float32))


def inner(w, x):
    """A function of a tensor's elements, summed."""
    return ((x @ w).sin() * w.tanh().sum()).square().sum()


def wanted(f, *xs):
    """A function's gradient with respect to its first argument by torch's tape, inside of the module."""
    w = xs[0].detach().requires_grad_()
    return torch.autograd.grad(f(w, *xs[1:]), w)[0]


T = torch.func
TRANSFORMS = {
    "grad": lambda w, x: T.grad(inner)(w, x),
    "of each row": lambda w, x: T.vmap(T.grad(inner), (None, 0))(w, x),
    "jacrev": lambda w, x: T.jacrev(lambda w: (x @ w).sin())(w),
    "jacfwd": lambda w, x: T.jacfwd(lambda w: (x @ w).sin() * w.sum())(w),
    "hessian": lambda w, x: T.hessian(inner)(w, x),
    "hessian of each row": lambda w, x: T.vmap(T.hessian(lambda v: ((v @ w).tanh() * w.sum(0)).sum()))(x),
    "hessian and vector": lambda w, x: T.jvp(lambda v: T.grad(inner)(v, x), (w,), (w.cos(),)),
    "vjp": lambda w, x: T.vjp(lambda w: (x @ w).softmax(0), w)[1](x[:, 0])[0],
    "mapped twice": lambda w, x: T.vmap(T.vmap(torch.dot, (None, 0)), (0, None))(x, x + w),
    "autograd.grad": lambda w, x: wanted(inner, w, x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_that_the_module_takes_itself(name):
    means_the_same(TRANSFORMS[name], drawn(4), drawn(3, 4), atol=1e-4)


class Steps(torch.nn.Module):
    """A step of Newton's method over a buffer; `keep`: what it does with its gradient besides."""

    def __init__(self, keep):
        super().__init__()
        self.keep, self.calls = keep, 0
        self.register_buffer("last", drawn(4))

    def forward(self, w, x):
        g = T.grad(inner)(w, x)
        self.keep(self, g)
        return {"step": w - g / (1 + self.last.square())}


def test_a_module_that_takes_gradients_keeps_its_structure_and_changes_nothing():
    x, w = drawn(3, 4), drawn(4)
    module = Steps(lambda m, g: None).eval()
    assert load_torch(module, (w, x)).structure.result is not None
    both = Apply(lambda w, x: [{"of": T.grad(inner)(w, x), "rest": ([w * 2], 3)}])
    made = load_torch(both.eval(), (w, x)).structure.results([w, w])
    assert [type(v) for v in (made, made[0], made[0]["rest"], made[0]["rest"][0])] == [list, dict, tuple, list] and made[0]["rest"][1] == 3
    own = dict(vars(module))
    for keep in (lambda m, g: setattr(m, "calls", 1), lambda m, g: setattr(m, "of", g), lambda m, g: m.last.add_(g)):
        with pytest.raises(UnsupportedOp, match="change"):
            load_torch(Steps(keep).eval(), (w, x))
    assert vars(module) == own


def test_an_exported_program_that_takes_gradients_is_refused():
    exported = torch.export.export(Apply(T.grad(inner)), (drawn(4), drawn(3, 4)))
    with pytest.raises(UnsupportedOp, match=r"torch\.func"):
        load_torch(exported)


def test_a_choice_by_an_element_of_a_gradient_is_refused():
    with pytest.raises(ModelError, match="torch cannot export it"):
        load_torch(Apply(lambda w, x: w if T.grad(inner)(w, x)[0] > 0 else -w).eval(), (drawn(4), drawn(3, 4)))


# stride, padding, dilation, groups, padding of the output of a transposed one
FORMS = [(2, 1, 1, 2, 1), (3, 2, 2, 1, 2), (1, 0, 3, 1, 2)]


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
def test_gradients_of_convolutions(form, transposed):
    stride, padding, dilation, groups, more = form
    x, w = drawn(2, 4, 11, 9), drawn(4, 8 // groups, 3, 2) if transposed else drawn(8, 4 // groups, 3, 2)
    rest = [stride] * 2, [padding] * 2, [dilation] * 2, transposed, [more * transposed] * 2, groups
    y = aten.convolution(x, w, None, *rest)
    means_the_same(lambda g, x, w: aten.convolution_backward(g, x, w, [8], *rest, [True] * 3), drawn(*y.shape), x, w, atol=1e-4)


def test_gradients_of_convolutions_that_are_asked_for():
    x, w, g = drawn(2, 3, 8), drawn(4, 3, 3), drawn(2, 4, 6)
    f = lambda g, x, w: aten.convolution_backward(g, x, w, [4], [1], [0], [1], False, [0], 1, [False, True, False])[1]
    means_the_same(f, g, x, w, atol=1e-4)
    assert sum(n.op in ("conv", "conv_transpose") for n in load_torch(Apply(f).eval(), (g, x, w)).nodes()) == 1


def test_gradients_of_convolutions_of_no_images():
    f = lambda g, x, w: aten.convolution_backward(g, x, w, [4], [1], [0], [1], False, [0], 1, [True, True, True])
    means_the_same(f, drawn(0, 4, 6), drawn(0, 3, 8), drawn(4, 3, 3))


POOLS = [(3, 2, 1, 1, True), (3, 1, 1, 2, False), (2, 3, 0, 1, False)]


@pytest.mark.parametrize("form", POOLS, ids=str)
def test_gradients_of_pools(form):
    k, s, p, d, up = form
    x = drawn(2, 3, 9, 8)
    y, at = aten.max_pool2d_with_indices(x, [k, k], [s, s], [p, p], [d, d], up)
    back = aten.max_pool2d_with_indices_backward
    means_the_same(lambda g, x, at: back(g, x, [k, k], [s, s], [p, p], [d, d], up, at), drawn(*y.shape), x, at)
    for counts in ((True, None), (False, None), (True, 3)):
        y = aten.avg_pool2d(x, [k, k], [s, s], [p, p], up, *counts)
        means_the_same(lambda g, x, c=counts: aten.avg_pool2d_backward(g, x, [k, k], [s, s], [p, p], up, *c), drawn(*y.shape), x)
    columns = aten.im2col(x, [k, k], [d, d], [p, p], [s, s])
    means_the_same(lambda y: aten.col2im(y, [9, 8], [k, k], [d, d], [p, p], [s, s]), drawn(*columns.shape))


@pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, 4), (9, 8), (10, 3)], ids=str)
def test_gradients_of_adaptive_pools(size):
    means_the_same(lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), drawn(2, 3, *size), drawn(2, 3, 9, 8))


@pytest.mark.parametrize("size", [(3, 5), (10, 3)], ids=str)
def test_gradients_of_largest_elements_of_adaptive_pools(size):
    x = drawn(2, 3, 9, 8)
    y, at = aten.adaptive_max_pool2d(x, size)
    means_the_same(lambda g, x, at: aten.adaptive_max_pool2d_backward(g, x, at), drawn(*y.shape), x, at)


@pytest.mark.parametrize("dim", [0, 2])
def test_gradients_of_normed_weights(dim):
    v = drawn(3, 4, 5)
    g = drawn(3, 1, 1) if dim == 0 else drawn(1, 1, 5)
    norms = v.norm(dim=[k for k in range(3) if k != dim], keepdim=True)
    means_the_same(lambda w, v, g, n: aten._weight_norm_interface_backward(w, v, g, n, dim), drawn(3, 4, 5), v, g, norms, zeros=False)


GRIDS = [(0, 0, True), (0, 1, False), (0, 2, True), (0, 2, False), (1, 2, True)]


@pytest.mark.parametrize("form", GRIDS, ids=str)
def test_gradients_of_samples_at_a_grid(form):
    """Of places inside, outside, far outside (mirrored several times)."""
    x, grid, g = drawn(2, 3, 4, 5), drawn(2, 3, 2, 2) * 3, drawn(2, 3, 3, 2)
    means_the_same(lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, *form, [True, True]), g, x, grid, zeros=False, atol=1e-4)
    x, grid, g = drawn(2, 2, 3, 4, 2), drawn(2, 2, 1, 2, 3), drawn(2, 2, 2, 1, 2)
    means_the_same(lambda g, x, grid: aten.grid_sampler_3d_backward(g, x, grid, *form, [True, True]), g, x, grid, zeros=False, atol=1e-4)


def test_gradients_of_samples_by_sixteen_neighbours_are_refused():
    f = Apply(lambda g, x, grid: aten.grid_sampler_2d_backward(g, x, grid, 2, 0, True, [True, True])[0])
    with pytest.raises(UnsupportedOp, match="grid_sampler_2d_backward: is the way back of 16 neighbours of each place"):
        load_torch(f.eval(), (drawn(1, 2, 3, 3), drawn(1, 2, 4, 4), drawn(1, 3, 3, 2)))


@pytest.mark.parametrize("order", [0.0, 1.0, 2.0, 3.0, float("inf")])
def test_gradients_of_distances(order):
    x, y = drawn(2, 4, 3), drawn(2, 5, 3)
    x[1, 2] = y[1, 0]  # a distance of 0 has no way to go
    far = torch.cdist(x, y, order)
    means_the_same(lambda g, x, y, far: aten._cdist_backward(g, x, y, order, far), drawn(2, 4, 5), x, y, far)


@pytest.mark.parametrize("form", [("1d", (2, 1)), ("2d", (0, 3, 2, 0)), ("2d", (-1, 2, 1, -2)), ("3d", (1, 0, 2, 1, 3, 3))], ids=str)
def test_gradients_of_edges_that_are_repeated(form):
    kind, pad = form
    pad_, back = (getattr(aten, f"replication_pad{kind}{end}") for end in ("", "_backward"))
    x = drawn(*(2, 3, 4, 5)[: 3 if kind == "1d" else 4], *((1,) if kind == "3d" else ()))
    means_the_same(lambda g, x: back(g, x, pad), drawn(*pad_(x, pad).shape), x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_network_of_convolutions_trains_without_torch_s_kernels(dynamic):
    import autocomp

    net = torch.nn.Sequential(torch.nn.Conv1d(2, 4, 3, stride=2), torch.nn.Tanh(), torch.nn.Conv1d(4, 3, 2))
    compiled, before = torch.compile(net, backend="autocomp", dynamic=dynamic), len(autocomp.report())
    for sizes in ((2, 11), (3, 15))[: 1 + dynamic]:
        x = drawn(sizes[0], 2, sizes[1])
        want = torch.autograd.grad(net(x).square().sum(), net.parameters())
        got = torch.autograd.grad(compiled(x).square().sum(), net.parameters())
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)
    graphs = autocomp.report()[before:]
    assert "backward" in [g.kind for g in graphs] and not any("convolution" in s.op for g in graphs for s in g.stayed)


def of_open_sizes(f, x, *fixed, axes):
    """The graph of f(x, *fixed) computes what f does at several sizes of x along `axes`."""
    dims = {a: torch.export.Dim(f"d{a}", min=8 if a else 2, max=40) for a in axes}
    graph = load_torch(torch.export.export(Apply(f).eval(), (x, *fixed), dynamic_shapes={"xs": (dims, *[None] * len(fixed))}))
    for more in (0, 1, 4):
        x = drawn(*(n + more + a if a in axes else n for a, n in enumerate(x.shape)))
        want = f(*(v.double() for v in (x, *fixed)))
        got = evaluate(graph, {n.attrs["name"]: v.numpy() for n, v in zip(graph.inputs, (x, *fixed))})
        for g, w in zip(got.values(), want, strict=True):
            np.testing.assert_allclose(g, w.numpy(), rtol=1e-4, atol=1e-4)
            assert g.shape == tuple(w.shape)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("transposed", [False, True], ids=["plain", "transposed"])
def test_gradients_of_convolutions_over_open_sizes(form, transposed):
    stride, padding, dilation, groups, more = form
    w = drawn(4, 8 // groups, 3, 2) if transposed else drawn(8, 4 // groups, 3, 2)
    rest = [stride] * 2, [padding] * 2, [dilation] * 2, transposed, [more * transposed] * 2, groups
    f = lambda x, w: aten.convolution_backward(aten.convolution(x, w, None, *rest).cos(), x, w, [8], *rest, [True] * 3)
    of_open_sizes(f, drawn(3, 4, 11, 9), w, axes=(0, 2))


def test_gradients_of_pools_over_open_batches():
    k, s, p, d = [3, 3], [2, 2], [1, 1], [1, 1]

    def f(x):
        y, at = aten.max_pool2d_with_indices(x, k, s, p, d)
        return (aten.max_pool2d_with_indices_backward(y.cos(), x, k, s, p, d, False, at),
                aten.avg_pool2d_backward(y.sin(), x, k, s, p, False, True, None),
                aten._adaptive_avg_pool2d_backward(y, x), aten.col2im(aten.im2col(x, k, d, p, s), [9, 8], k, d, p, s))  # fmt: skip

    of_open_sizes(f, drawn(3, 2, 9, 8), axes=(0,))


def test_gradients_by_weights_of_open_sizes_are_refused():
    f = Apply(lambda g, x, w: aten.convolution_backward(g, x, w, [4], [1], [0], [1], False, [0], 1, [True] * 3)[0]).eval()
    many = {0: torch.export.Dim("many", min=2, max=9)}
    program = torch.export.export(f, (drawn(3, 4, 6), drawn(3, 3, 8), drawn(4, 3, 3)), dynamic_shapes={"xs": ({1: many[0]}, None, many)})
    with pytest.raises(UnsupportedOp, match="is the gradient by f32"):
        load_torch(program)


@pytest.mark.parametrize(("last", "padding"), [(False, -1), (True, 3)])
@pytest.mark.parametrize("mode", [0, 1, 2])
def test_gradients_of_bags(mode, last, padding):
    """Bags of three, none, two and three rows, the last offset given or not, a row that is left out or not."""
    index, offsets = torch.tensor([4, 1, 4, 0, 3, 3, 8, 3]), torch.tensor([0, 3, 3, 5, 8][: 4 + last])

    def both(table, g, scale=False):
        y, *kept = aten._embedding_bag(table, index, offsets, False, mode, False, None, last, padding)
        return y, aten._embedding_bag_backward(g, index, offsets, *kept, 9, scale, mode, False, None, padding)

    means_the_same(both, drawn(9, 2), drawn(4, 2), zeros=False)
    with pytest.raises(UnsupportedOp, match=r"in bags from .*, scaled by how often they stand"):
        load_torch(Apply(lambda t, g: both(t, g, True)[1]).eval(), (drawn(9, 2), drawn(4, 2)))


@pytest.mark.parametrize("padding", [-1, 3])
def test_gradients_of_weights_in_bags(padding):
    index, offsets = torch.tensor([4, 1, 4, 0, 3, 3, 8, 3]), torch.tensor([0, 3, 3, 5])

    def f(table, weights, g):
        of_bag = aten._embedding_bag(table, index, offsets, False, 0, False, weights, False, padding)[1]
        return aten._embedding_bag_per_sample_weights_backward(g, table, index, offsets, of_bag, 0, padding)

    means_the_same(f, drawn(9, 2), drawn(8), drawn(4, 2), zeros=False)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_gradients_of_margins(reduction):
    x, t = drawn(3, 5), torch.tensor([[0, 1, -1, 0, 2], [-1, 3, 3, 3, 3], [4, 3, 2, 1, 4]])

    def f(x, g):
        is_target = aten.multilabel_margin_loss_forward(x, t, reduction)[1]
        return aten.multilabel_margin_loss_backward(g, x, t, reduction, is_target)

    means_the_same(f, x, drawn(3) if reduction == 0 else drawn(1)[0], zeros=False)


@pytest.mark.parametrize("training", [True, False])
def test_gradients_of_drawn_slopes(training):
    f = lambda g, x, s: aten.rrelu_with_noise_backward(g, x, s, 0.1, 0.3, training, False)
    means_the_same(f, drawn(9), -2 * drawn(9), 3 * drawn(9))
