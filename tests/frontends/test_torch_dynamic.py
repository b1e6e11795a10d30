"""Programs for all sizes: sizes that are halved, steps, images, first and last rows, masks up to a size; conditions on inputs."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.reference import evaluate
from autocomp.ir.sizes import linear
from autocomp.ir.types import Sym

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import nn  # noqa: E402

from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.frontends.torch.guards import _classes, whole_quotient  # noqa: E402
from autocomp.frontends.torch.sizes import Sizes, without_common  # noqa: E402
from tests.helpers.torch_modules import Apply  # noqa: E402

pytestmark = pytest.mark.torch
OPEN = torch.export.Dim.AUTO


def half(x):
    n = x.shape[1] // 2
    return x[:, :n] * 2, x[:, :n].sum(1)


class Images(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, padding=1, stride=2), nn.Conv2d(4, 4, 3, padding=1, stride=2)

    def forward(self, x):
        y = self.a(x).relu()
        x = self.b(y)
        return x, x.mean((2, 3)), nn.functional.max_pool2d(y, 2), nn.functional.avg_pool2d(y, 3, 3)  # halves of halves


CASES = {
    "steps": (lambda x: (x[:, ::2] + 1, x[:, 1::3].exp(), x[:, 1:-1:2].sum(1)), (2, 9), (6, 8, 33)),
    "half": (half, (2, 9), (6, 7, 33)),
    "first and last": (lambda x: (x[:, 0], x[:, -1], x[:, -2], x[:, 2]), (2, 9), (6, 7, 33)),
    "rolled": (lambda x: (x.roll(3, 1), x.roll((2, -1), (1, 0)), x.roll(-20, 1)), (2, 9), (6, 7, 33)),
    "from behind": (lambda x: (x[:, 2 - x.shape[1] :] + 1, torch.arange(x.shape[1] - 1, -1, -1.0) * x[:, :1]), (2, 9), (6, 7, 33)),
    "reduced at indices": (lambda x: x.index_reduce(1, torch.arange(x.shape[1]) % 3, x + 1, "amax"), (2, 9), (6, 7, 33)),
    "a table up to a size": (lambda x: x + torch.arange(40.0)[: x.shape[1]], (2, 9), (6, 7, 33)),
}


def compare(module, program, *xs):
    got, want = program(*xs), module(*xs)
    flat = torch.utils._pytree.tree_leaves
    for g, w in zip(flat(got), flat(want), strict=True):
        assert tuple(g.shape) == tuple(w.shape)
        np.testing.assert_allclose(np.asarray(g), w.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_that_are_rows_of_a_matrix_of_any_size(mode):
    module = nn.EmbeddingBag(9, 5, mode=mode).eval()
    drawn = lambda *shape: torch.from_numpy(np.random.default_rng(3).integers(0, 9, shape))
    dims = {0: torch.export.Dim("batch", min=2), 1: torch.export.Dim("each", min=2)}
    graph = load_torch(torch.export.export(module, (drawn(4, 3),), dynamic_shapes=(dims,)))
    for shape in ((4, 3), (2, 7)):
        compare(module, lambda x: tuple(evaluate(graph, {g.attrs["name"]: x.numpy() for g in graph.inputs}).values()), drawn(*shape))


@pytest.mark.parametrize("name", CASES)
def test_sizes_along_a_row(name):
    f, shape, sizes = CASES[name]
    module = Apply(f).eval()
    exported = torch.export.export(module, (torch.randn(shape),), dynamic_shapes=(({1: torch.export.Dim("n", min=6, max=40)},),)
                                   if name != "half" else (({1: OPEN},),))  # fmt: skip
    graph = load_torch(exported)
    for n in sizes:
        x = torch.randn(shape[0], n)
        compare(module, lambda x: tuple(evaluate(graph, {g.attrs["name"]: x.numpy() for g in graph.inputs}).values()), x)


def test_images_of_any_size_are_one_program():
    torch.manual_seed(1)
    module = Images().eval()
    exported = torch.export.export(module, (torch.randn(1, 3, 19, 22),), dynamic_shapes=({2: OPEN, 3: OPEN},))
    program = autocomp.optimize(exported, target="cpu")
    for size in ((10, 10), (11, 13), (37, 16)):
        compare(module, program, torch.randn(1, 3, *size))


def pooled(x):
    """Where largest elements lie, also where padding is as large, and the largest of uneven windows."""
    few = x.masked_fill(x < 1, -torch.inf)
    return *nn.functional.max_pool2d(few, (3, 2), (2, 1), 1, (2, 1), return_indices=True), nn.functional.adaptive_max_pool2d(x, (3, 1))


def places(x):
    """Where largest elements of adaptive windows lie, one of which has none but infinities and one NaN."""
    x = x.masked_fill(x < -1, -torch.inf)
    x[0, 0, :2], x[1, 1, -1, -1] = -torch.inf, torch.nan
    return *F.adaptive_max_pool2d(x, (3, 2), return_indices=True), *F.adaptive_max_pool2d(x.flatten(1, 2), (5, 4), return_indices=True)


def filtered(x):
    """Convolutions, also transposed and grouped ones, whose weights have open channels."""
    w = x.transpose(0, 1)[..., :3, :2].sin()  # [channels, batch, 3, 2]
    return (F.conv2d(x, w.transpose(0, 1), stride=(1, 2), padding=1), F.conv2d(x, w[:, :1], padding=1, groups=x.shape[1]),
            F.conv_transpose2d(x, w, stride=(2, 1), padding=(1, 0), dilation=(1, 2)))  # fmt: skip


def mixed_by_sample(x):
    """Weights of its own for each sample, as groups of one image."""
    b, c, h, w = x.shape
    weights = x[:, None, :, :3, :3] * torch.arange(1.0, 6.0)[:, None, None, None]
    return (nn.functional.conv2d(x.reshape(1, b * c, h, w), weights.reshape(b * 5, c, 3, 3), stride=2, padding=1, groups=b),
            torch.ones(h, w).triu(h - 3) + torch.ones(h, w).tril(-2))  # fmt: skip


@pytest.mark.parametrize("f, open_", [(pooled, {2: OPEN, 3: OPEN}), (places, {2: OPEN, 3: OPEN}), (filtered, {1: OPEN, 2: OPEN, 3: OPEN}),
                                      (mixed_by_sample, {0: OPEN, 2: OPEN})])  # fmt: skip
def test_windows_of_open_sizes(f, open_):
    """By their meaning: kernels of others are enough."""
    exported = torch.export.export(Apply(f), (torch.randn(2, 4, 8, 9),), dynamic_shapes=((open_,),))
    graph = load_torch(exported)
    program = lambda x: tuple(evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}).values())
    compare(f, program, torch.randn(3 if 0 in open_ else 2, 7 if 1 in open_ else 4, 11, 14 if 3 in open_ else 9))


class Heads(nn.Module):
    """What attention does with rows and a batch that are both open."""

    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        y = self.attend(x, x, x)[0]
        return y, y.reshape(-1, 4).softmax(0).reshape(x.shape[0], x.shape[1], 2, 4).sum(2)


class Patches(nn.Module):
    def __init__(self):
        super().__init__()
        self.cut, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4)

    def forward(self, x):
        return self.norm(self.cut(x)).flatten(2).transpose(1, 2) + 1


def windows(x):
    b, h, w, c = x.shape
    return x.reshape(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c).sum(1)


N = torch.export.Dim("n", min=1, max=16)
MERGED = {  # module, the example's shape, dynamic dimensions, other shapes
    "heads": (Heads(), (2, 5, 8), {0: OPEN, 1: OPEN}, ((3, 7, 8), (2, 2, 8))),
    "patches": (Patches(), (2, 3, 12, 16), {0: OPEN, 2: OPEN, 3: OPEN}, ((3, 3, 21, 24), (2, 3, 9, 13))),
    "windows": (Apply(windows), (2, 8, 12, 3), {0: OPEN, 1: 4 * N, 2: 4 * torch.export.Dim("m", min=1, max=16)}, ((3, 16, 8, 3),)),
    "pairs": (Apply(lambda x: x.reshape(x.shape[0], -1, 2, 3).mean(2)), (2, 6, 3), {0: OPEN, 1: 2 * N}, ((3, 10, 3), (2, 4, 3))),
}


@pytest.mark.parametrize("name", MERGED)
def test_open_dimensions_are_merged_and_split(name):
    torch.manual_seed(2)
    module, shape, open_, others = MERGED[name]
    spec = (open_,) if isinstance(module, (Heads, Patches)) else ((open_,),)
    exported = torch.export.export(module.eval(), (torch.randn(shape),), dynamic_shapes=spec)
    if name in ("heads", "windows"):  # by their meaning: kernels of the others are enough
        graph = load_torch(exported)
        program = lambda x: tuple(evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}).values())
    else:
        program = autocomp.optimize(exported, target="cpu")
    for size in (shape, *others):
        compare(module, program, torch.randn(size))


def doubled(x):
    """Two halvings whose results, doubled, are joined with what they are of."""
    half = nn.functional.avg_pool1d(x, 2)
    return torch.cat([x, nn.functional.interpolate(torch.cat([half, nn.functional.avg_pool1d(half, 2).repeat_interleave(2, -1)], 1),
                                                   scale_factor=2.0)], 1)  # fmt: skip


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("f", [lambda x: (x.reshape(2, x.shape[1] // 4, 4, -1).sum(2), x[:, ::2].exp()), lambda x: (doubled(x.mT),)])
def test_sizes_that_torch_asks_to_be_multiples(f):
    exported = torch.export.export(Apply(f), (torch.randn(2, 8, 3),), dynamic_shapes=(({1: OPEN},),))
    program, compiled = autocomp.optimize(exported, target="cpu"), torch.compile(f, backend="autocomp", dynamic=True)
    before = len(autocomp.report())
    for n in (8, 12, 40):
        compare(f, program, x := torch.randn(2, n, 3))
        compare(f, compiled, x)
    assert [(g.programs, g.stayed) for g in autocomp.report()[before:]] == [(1, [])]
    with pytest.raises(ModelError, match="in multiples of 4"):
        program(torch.randn(2, 9, 3))


def test_a_size_of_which_an_input_has_a_multiple():
    """The input's size is 2*n + 1: n is found from it, and what is no such size is refused."""
    module = Apply(lambda x: x[:, :-1].reshape(2, -1, 2).sum(2)).eval()
    exported = torch.export.export(module, (torch.randn(2, 7),), dynamic_shapes=(({1: 2 * N + 1},),))
    program = autocomp.optimize(exported, target="cpu")
    for n in (5, 7, 33):
        compare(module, program, torch.randn(2, n))
    with pytest.raises(ModelError, match="= 8, the others say 7"):
        program(torch.randn(2, 8))


def test_symbols_that_torch_takes_for_one():
    """Two inputs of n rows each are 2*n together: torch notes that their sum is twice the first."""

    class Joined(nn.Module):
        def forward(self, a, b):
            z, n = torch.cat([a, b]), a.shape[0]
            return (z @ z.t()).masked_fill(torch.eye(2 * n, dtype=torch.bool), 0.0), (z[:n] * z[n:]).sum(-1)

    n = torch.export.Dim("n", min=1, max=9)
    drawn = lambda *rows: tuple(torch.from_numpy(np.random.default_rng(7).standard_normal((k, 4)).astype(np.float32)) for k in rows)
    program = autocomp.optimize(torch.export.export(Joined(), drawn(5, 5), dynamic_shapes=({0: n}, {0: n})), "cpu", cache=False)
    for rows in (2, 5, 9):
        compare(Joined(), program, *drawn(rows, rows))
    with pytest.raises(ModelError, match="has n = 4, another input has n = 3"):
        program(*drawn(3, 4))
    with pytest.raises(ModelError, match=r"n = 10, allowed are"):
        program(*drawn(10, 10))


def test_windows_over_rows_that_repeat_at_both_ends():
    """The trend of a series: conditions on a window's place also decide reads that do not slide with it."""
    ends = lambda x: torch.cat([x[:, :1].repeat(1, 2, 1), x, x[:, -1:].repeat(1, 2, 1)], 1)
    module = Apply(lambda x: torch.nn.functional.avg_pool1d(ends(x).mT, 5, 1).mT).eval()
    exported = torch.export.export(module, (torch.randn(5, 14, 8),), dynamic_shapes=(({0: OPEN},),))
    program = autocomp.optimize(exported, target="cpu", max_schedules=1)  # which stages windows
    for n in (3, 7):
        compare(module, program, torch.randn(n, 14, 8))


def test_guards_that_make_symbols_one():
    from sympy import Eq, Ne, symbols

    class Env:
        is_unbacked_symint = staticmethod(lambda s: str(s).startswith("u"))

    s, t, r, u = symbols("s t r u0", integer=True, positive=True)
    same = lambda *guards: _classes(list(guards), Env())
    assert same(Eq(s + t, 2 * s)) == {s: (s, t), t: (s, t)}
    assert set(same(Eq(3 * t, 3 * s), Eq(r + s, t + s))) == {r, s, t}
    assert not same(Eq(s, 2 * t)) and not same(Ne(s, t)) and not same(Eq(s + 1, t)) and not same(Eq(s, u)) and not same(Eq(s * t, s * r))


def test_both_branches_of_a_condition():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x, y):
            a, b = torch.cond(x.sum() > 0, lambda x, y: (self.layer(x).sin(), y + 1), lambda x, y: (x.sqrt(), y * 2), (x, y))
            return a + 1, b

    module = Gate().eval()
    x, y = torch.rand(3, 4), torch.randn(3, 4)
    program = autocomp.optimize(torch.export.export(module, (x, y)), target="cpu")
    compare(module, program, x, y)  # the roots of the other branch are NaN, and stay there
    compare(module, program, -x, y)


def test_a_module_that_is_widened_before_its_first_run_is_refused():
    module, given = nn.EmbeddingBag(9, 5).eval(), (torch.arange(6) + 1, torch.tensor([0, 3, 3]))
    program = autocomp.optimize(module, target="cpu", example_inputs=given)
    module.double()
    with pytest.raises(ModelError, match=r"is declared f32\[9, 5\] but has float64\[9, 5\]"):
        program(*given)


class Growing(nn.Module):
    """At most n steps, until the sum of magnitudes is 50; a constant and two tensors that change places are carried too."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, n, x):
        start = (torch.zeros((), dtype=torch.int64), x, x * 2, x + 1, torch.ones(2))
        return torch.while_loop(lambda i, x, *_: (i < n) & (x.abs().sum() < 50),
                                lambda i, x, a, b, c: (i + 1, self.layer(x) * 1.9 + a, b.clone(), a.clone(), torch.full((2,), 3.0)), start)


def test_while_loops_run_as_many_steps_as_data_say():
    module = Growing().eval()
    program = autocomp.optimize(module, target="cpu", example_inputs=(torch.tensor(3), torch.randn(5, 3)))
    assert [x.steps for x in program.calls.loops.values()] == ["any number of"]
    for n in (0, 1, 2, 5, 1000):
        compare(module, program, torch.tensor(n), torch.randn(5, 3))
    with pytest.raises(UnsupportedOp, match="any number of steps: the host starts its steps"):
        autocomp.optimize(module, target="cuda:h200", example_inputs=(torch.tensor(3), torch.randn(5, 3)), cache=False)


def test_scans_and_maps_are_loops():
    from torch._higher_order_ops.map import map as mapped
    from torch._higher_order_ops.scan import scan

    class Scanned(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def step(self, h, x):
            h = torch.tanh(self.layer(h) + x)
            return h, h * 2

        def forward(self, h, xs):
            last, ys = scan(self.step, h, xs, dim=0, reverse=True)
            return last, ys, mapped(lambda x, h: torch.sin(x) @ h.T, xs, h)

    module, args = Scanned().eval(), (torch.randn(2, 3), torch.randn(7, 2, 3))
    program = autocomp.optimize(module, target="cpu", example_inputs=args)
    assert [x.trips for x in program.calls.loops.values()] == [7, 7]
    compare(module, program, *args)


def assigned(x):
    n, y = x.shape[1] // 2, x.clone()
    y[:, :n], y[:, -1] = 0, 7
    return y


def from_the_end(x, y):
    n, both = y.shape[1], torch.cat([x, y], 1)
    return both[:, -n:], both[:, :-n] + x


def each_second(x):
    y = x.clone()
    y[:, 1::2], y[:, 2:-1:3] = x[:, 1::2] * 2, 0
    return y


def filled_up(x):
    """Windows of 4 places, moved by 2: what is missing is filled up and cut off again."""
    n, y = x.shape[1], F.pad(x, (0, 0, 0, -x.shape[1] % 4))
    high = y.shape[1]
    y = y.roll(-2, 1).view(-1, high // 4, 4, 2)
    return (y - y.mean(2, keepdim=True)).reshape(-1, high, 2).roll(2, 1)[:, :n]


def moved_rows(x):
    """Of rows of 2*n - 1 distances what belongs to n places, by one row of more elements (Transformer-XL)."""
    n = x.shape[1]
    return F.pad(x, (0, 1)).flatten(1)[:, : n * (2 * n - 1)].view(-1, n, 2 * n - 1)[..., n - 1 :] + 1


def as_many_as_a_product(x):
    """Rows of n * (n + 1) places, a number that torch multiplies out where it is written so."""
    n = x.shape[2]
    return x.flatten(2).permute(2, 0, 1).reshape(-1, 3).view(n * n + n, 2, 3).softmax(0)


def test_quotients_of_products_that_are_whole_for_all_sizes():
    from sympy import Symbol
    from torch.utils._sympy.functions import FloorDiv

    s, t = (Symbol(n, positive=True, integer=True) for n in "st")
    halved = FloorDiv(FloorDiv(2 * s**2, s, evaluate=False) - 1, 2)
    assert whole_quotient(6 * s * halved + 6 * s, s**2) == 6
    assert whole_quotient(FloorDiv(s * t, s, evaluate=False) * s, t) == s
    assert whole_quotient(FloorDiv(s, 2) * t, t + 1) is None
    rows = FloorDiv(s - 3, 4)
    assert whole_quotient(rows**2, rows) == rows and whole_quotient(2 * t * rows + t, t) == 2 * rows + 1
    assert whole_quotient(rows**2 + 1, rows) is None
    assert without_common(s**2, 2 * s) == FloorDiv(s, 2) and without_common(s * t + s, 4 * s) == FloorDiv(t + 1, 4)
    assert without_common(s, 2 * t) is None and without_common(rows * s, 2 * rows) is None


def test_places_of_a_diagonal_are_as_many_as_its_rows():
    """What torch has of a trace's gradient: steps of n + 1 in n * n elements."""
    from sympy import Symbol
    from torch.utils._sympy.functions import FloorDiv

    n, least = Symbol("n", positive=True, integer=True), Sym("n", 2)
    sizes = Sizes(None, lambda expr, size: least)
    assert sizes.linear(FloorDiv(n**2 + 2 * n, n + 1), None, "") == linear(least)
    for of in (n**2 + 5 * n, n**2 + n + 3):  # 4 less than rows of n + 1, which may be 3, and 3 more
        with pytest.raises(UnsupportedOp, match="computed from symbols"):
            sizes.linear(FloorDiv(of, n + 1), None, "")


F = nn.functional
M = torch.export.Dim("m", min=6, max=40)
C = torch.export.Dim("n", min=6, max=40)  # the names of axes in the definitions of windows, once
def sampled_both_ways(x, grid, *form):
    """Samples, and what goes back to the images and to the places."""
    y = torch.ops.aten.grid_sampler_2d(x, grid, *form)
    images, places = torch.ops.aten.grid_sampler_2d_backward(y.cos(), x, grid, *form, [True, True])
    return y, images, places


def eighths(x):
    """An image filled up to multiples of 8, as restoration nets begin, halved twice, doubled and cut off again."""
    h, w = x.shape[2:]
    y = F.pad(x, (0, (8 - w % 8) % 8, 0, (8 - h % 8) % 8))
    small = F.conv2d(F.avg_pool2d(y, 2), torch.ones(16, 1, 2, 2), stride=2)
    return (y + F.pixel_shuffle(small, 4))[:, :, :h, :w]


LATER = {  # function, shapes of the examples, open dimensions of each, other shapes
    "from the middle on": (lambda x: (x[:, x.shape[1] // 2 :] * 2, x[:, -3:] + 1), [(2, 9)], [{1: OPEN}], [[(2, 12)], [(2, 7)]]),
    "as many from the end": (from_the_end, [(2, 9), (2, 5)], [{1: OPEN}, {1: OPEN}], [[(2, 4), (2, 12)]]),
    "rotated": (lambda x: torch.cat([-x.chunk(2, 1)[1], x.chunk(2, 1)[0]], 1), [(2, 10)], [{1: 2 * N}], [[(2, 4)], [(2, 16)]]),
    "parts": (lambda x: (*x.chunk(2, 1), *x.split([2, x.shape[1] - 2], 1)), [(2, 9)], [{1: OPEN}], [[(2, 12)]]),
    "padded": (lambda x: (F.pad(x, (2, 3, -1, 0)), F.pad(x, (0, (-x.shape[2]) % 4)), F.pad(x, (2, 3), mode="reflect"),
                          F.pad(x, (2, 3), mode="circular"), F.pad(x, (2, 30), mode="replicate")), [(2, 3, 9)],
               [{2: C}], [[(2, 3, 12)], [(2, 3, 7)]]),
    "written": (lambda x: (assigned(x), torch.select_scatter(x, x[:, 1], 1, 0)), [(2, 9)], [{1: OPEN}], [[(2, 12)]]),
    "turned": (lambda x: (x.flip(1), x.unfold(1, 3, 2).sum(2), x.cummax(1)[1]), [(2, 9)], [{1: M}], [[(2, 12)], [(2, 7)]]),
    "each second": (each_second, [(2, 9)], [{1: OPEN}], [[(2, 12)], [(2, 7)]]),
    "filled up": (filled_up, [(1, 9, 2)], [{1: OPEN}], [[(1, 12, 2)], [(1, 2, 2)]]),
    "as many as a product": (as_many_as_a_product, [(2, 3, 8, 9)], [{2: N, 3: N + 1}],
                             [[(2, 3, 1, 2)], [(2, 3, 12, 13)]]),
    "moved rows": (moved_rows, [(2, 9, 17)], [{1: C, 2: 2 * C - 1}], [[(2, 7, 13)]]),
    "a token in front": (lambda x: F.pad(torch.cat([x[0, :, :1, 0], x.flatten(2)[0]], 1)[:, 1:-1], (0, 2)), [(1, 3, 4, 6)],
                         [{2: OPEN, 3: OPEN}], [[(1, 3, 9, 3)], [(1, 3, 2, 2)]]),
    "on the diagonal": (lambda x: torch.diagonal_scatter(x, x[0] * 2), [(9, 9)], [{0: M, 1: M}], [[(12, 12)]]),
    "diagonal": (lambda x: x.diagonal(1), [(9, 9)], [{0: M, 1: M}], [[(12, 12)]]),
    "resized": (lambda x, y: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=y.shape[2:], mode="nearest-exact"),
                              F.interpolate(x, size=y.shape[2:], mode="bilinear"), F.interpolate(y, scale_factor=1.5, mode="bicubic"),
                              F.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True)),
                [(1, 2, 9, 8), (1, 1, 20, 7)], [{2: OPEN, 3: OPEN}, {2: OPEN, 3: OPEN}], [[(1, 2, 7, 12), (1, 1, 8, 6)]]),
    "pooled": (lambda x: (F.adaptive_avg_pool1d(x, 4), F.avg_pool1d(x, 3, 2, 1), F.avg_pool1d(x, 3, 2, 1, count_include_pad=False)),
               [(2, 3, 9)], [{2: C}], [[(2, 3, 12)], [(2, 3, 7)]]),
    "rounded up": (lambda x: (F.max_pool2d(x, 3, 2, ceil_mode=True), F.avg_pool2d(x, 2, ceil_mode=True),
                              F.avg_pool2d(x, 3, 2, 1, ceil_mode=True)),
                   [(1, 2, 17, 20)], [{2: OPEN, 3: OPEN}], [[(1, 2, 16, 9)], [(1, 2, 5, 33)]]),
    "sampled": (lambda x, grid: F.grid_sample(x, grid, align_corners=False), [(2, 3, 5, 6), (2, 4, 3, 2)], [{0: OPEN}, {0: OPEN, 1: OPEN}],
                [[(5, 3, 5, 6), (5, 9, 3, 2)]]),
    "sampled images": (lambda x, grid: [sampled_both_ways(x, grid, *form) for form in ((0, 0, True), (0, 2, False), (0, 2, True))],
                       [(2, 3, 5, 6), (2, 4, 3, 2)], [{0: OPEN, 2: OPEN, 3: OPEN}, {0: OPEN, 1: OPEN}], [[(3, 3, 7, 4), (3, 5, 3, 2)]]),
    "filled to eighths": (lambda x: eighths(x), [(1, 1, 13, 22)], [{2: OPEN, 3: OPEN}], [[(1, 1, 16, 9)], [(1, 1, 33, 24)]]),
    "mirrored to fours": (lambda x: F.pad(x, (0, (4 - x.shape[3] % 4) % 4, 0, (4 - x.shape[2] % 4) % 4), "reflect"),
                          [(1, 1, 13, 22)], [{2: OPEN, 3: OPEN}], [[(1, 1, 16, 9)], [(1, 1, 7, 24)]]),
    "cut to less": (lambda x: F.pad(x, (0, -(x.shape[1] % 4), 1, 0)).cos(), [(2, 9)], [{1: OPEN}], [[(2, 8)], [(2, 15)]]),
    "levels joined": (lambda x: torch.cat([F.max_pool2d(x, 1, s).flatten(2) for s in (2, 4, 8)], 2), [(1, 2, 21, 30)],
                      [{2: OPEN, 3: OPEN}], [[(1, 2, 17, 20)], [(1, 2, 40, 33)]]),
    "running statistics": (lambda x: torch.ops.aten._native_batch_norm_legit_functional(
        x, torch.arange(3.0), None, torch.zeros(3), torch.ones(3), True, 0.5, 1e-5)[::3],
        [(2, 3, 4, 1)], [{0: OPEN, 2: OPEN}], [[(3, 3, 7, 1)], [(5, 3, 2, 1)]]),
    "a growing cache": (lambda c, x: F.scaled_dot_product_attention(x, *[torch.cat([c, x], 2)] * 2), [(1, 2, 9, 4), (1, 2, 1, 4)],
                        [{2: C}, None], [[(1, 2, 30, 4), (1, 2, 1, 4)]]),
}  # fmt: skip


@pytest.mark.parametrize("name", LATER)
def test_modules_with_open_sizes(name):
    f, shapes, open_, others = LATER[name]
    module = Apply(f).eval()
    exported = torch.export.export(module, tuple(map(torch.randn, shapes)), dynamic_shapes=(tuple(open_),))
    if name in ("from the middle on", "rotated", "pooled", "filled up", "moved rows", "a token in front"):
        program = autocomp.optimize(exported, target="cpu")
    else:
        graph = load_torch(exported)
        program = lambda *xs: tuple(evaluate(graph, {n.attrs["name"]: x.numpy() for n, x in zip(graph.inputs, xs)}).values())
    for sizes in (shapes, *others):
        compare(module, program, *map(torch.randn, sizes))


def test_a_last_window_that_may_begin_past_the_end_is_refused():
    """Torch leaves it out: how many there are depends on the size being even."""
    module = Apply(lambda x: F.max_pool2d(x, 2, 2, 1, ceil_mode=True)).eval()
    exported = torch.export.export(module, (torch.randn(1, 2, 17, 20),), dynamic_shapes=(({2: OPEN, 3: OPEN},),))
    with pytest.raises(UnsupportedOp, match=r"rounds up sizes of f32\[1, 2, s\d+, s\d+\]: the size .* may be -1"):
        load_torch(exported)


def test_images_go_down_and_up_again():
    """Sizes 4*h and 2*h beside each other, neither of which is that of an input."""
    class Up(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up, self.join = nn.Conv1d(2, 4, 3, 2, 1), nn.ConvTranspose1d(4, 2, 2, 2), nn.Conv1d(4, 2, 3, padding=1)

        def forward(self, x):
            return self.join(torch.cat([x, self.up(self.down(x).relu())], 1))

    torch.manual_seed(3)
    module = Up().eval()
    program = autocomp.optimize(torch.export.export(module, (torch.randn(1, 2, 16),), dynamic_shapes=({2: 4 * N},)), target="cpu")
    for n in (8, 16, 20):
        compare(module, program, torch.randn(1, 2, n))


def test_windows_of_what_another_kernel_keeps_to_itself():
    """An image of 4*n + 3 by way of 2*n + 2, which is the size of nothing that is stored, to n + 1."""
    torch.manual_seed(4)
    module = nn.Sequential(nn.Conv1d(1, 4, 3, 2, 1), nn.ReLU(), nn.Conv1d(4, 4, 3, 2, 1), nn.ReLU()).eval()
    program = autocomp.optimize(torch.export.export(module, (torch.randn(2, 1, 19),), dynamic_shapes=({2: 4 * N + 3},)), target="cpu")
    for n in (7, 11, 67):
        compare(module, program, torch.randn(2, 1, n))


MINIMA = {
    "common rows": lambda a, b: a[: torch.sym_min(a.shape[0], b.shape[0])] * b[: torch.sym_min(a.shape[0], b.shape[0])],
    "the rest of each": lambda a, b: torch.cat([a[torch.sym_min(a.shape[0], b.shape[0]):], b[torch.sym_min(a.shape[0], b.shape[0]):]]),
    "padded to the longer": lambda a, b: torch.nn.functional.pad(a, (0, 0, 0, torch.sym_max(a.shape[0], b.shape[0]) - a.shape[0])),
    "pairs of the shorter": lambda a, b: a[: 2 * torch.sym_min(a.shape[0] // 2, b.shape[0])].reshape(-1, 2, 3).sum(1),
}  # fmt: skip


@pytest.mark.parametrize("name", MINIMA)
def test_sizes_that_are_the_smaller_or_the_larger_of_two(name: str):
    module = Apply(MINIMA[name]).eval()
    sizes = (("a", 2), ("b", 1))
    spec = tuple({0: torch.export.Dim(n, min=least, max=40)} for n, least in sizes)
    program = autocomp.optimize(torch.export.export(module, (torch.randn(5, 3), torch.randn(7, 3)), dynamic_shapes=(spec,)), target="cpu")
    for m, n in ((2, 1), (3, 9), (9, 3), (6, 6), (7, 40)):
        a, b = torch.randn(m, 3), torch.randn(n, 3)
        torch.testing.assert_close(program(a, b), module(a, b))


@pytest.mark.parametrize("more", [0, 1])
def test_an_input_of_a_multiple_may_be_the_least_that_its_dimension_allows(more):
    """Numbers are computed from the symbol too, which is the size of no input."""
    module = Apply(lambda x: x[more:].reshape(x.shape[0] // 2, 2).sum(1) + torch.arange(x.shape[0] // 2) / (x.shape[0] // 2))
    half = torch.export.Dim("half", min=1, max=16)
    of = 2 * half + more if more else 2 * half
    program = autocomp.optimize(torch.export.export(module, (torch.randn(8 + more),), dynamic_shapes=(({0: of},),)), target="cpu")
    for n in (2, 4, 32):
        x = torch.randn(n + more)
        torch.testing.assert_close(program(x), module(x))
    with pytest.raises(ModelError, match=f"allowed are {2 + more}..{32 + more}"):
        program(torch.randn(34 + more))


def orders(x):
    y = (x * 3).round()
    return x.topk(3, 1), y.sort(stable=True, dim=1, descending=True), x.median(1), x.nanmedian(1)[0], y.argmax(), x.topk(2, 0)[0]


def test_orders_along_an_open_dimension_are_of_any_length():
    """The first k, all of them, and what stands in the middle, of rows from the least length that k allows."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    before, compiled = len(autocomp.report()), torch.compile(orders, backend="autocomp", dynamic=True)
    for shape in ((4, 9), (7, 300), (3, 3), (33, 4)):
        x = torch.randn(shape)
        x[0, 1] = float("nan")
        for g, w in zip(torch.utils._pytree.tree_leaves(compiled(x)), torch.utils._pytree.tree_leaves(orders(x)), strict=True):
            torch.testing.assert_close(g, w, equal_nan=True)
    assert not [s for g in autocomp.report()[before:] for s in g.stayed if s.op.startswith(("aten.topk", "aten.sort", "aten.median"))]


def test_more_than_an_open_dimension_may_have_are_refused():
    n = torch.export.Dim("n", min=2, max=40)
    exported = torch.export.export(Apply(lambda x: x.sort(1)[0]).eval(), (torch.randn(2, 9),), dynamic_shapes=(({1: n},),))
    program = autocomp.optimize(exported, target="cpu")
    for n in (2, 40):
        x = torch.randn(2, n)
        torch.testing.assert_close(program(x), x.sort(1)[0])
    with pytest.raises(ModelError, match=r"k = 3 is not in 0\.\.2"):
        autocomp.optimize("graph g\ndim n in 2..40\ninput x: f32[4, n]\n%0 = topk(x, k=3, axis=1)\noutput y = %0\n", target="cpu")
