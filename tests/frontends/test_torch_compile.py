"""torch.compile(.., backend="autocomp"): results are torch's, gradients too; what stays with torch is said with its reason."""

from __future__ import annotations

import copy
import sys
import threading
from functools import partial
from importlib.metadata import entry_points

import pytest

import autocomp
from autocomp.errors import ModelError

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import nn  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from autocomp.frontends.torch import attention_gradients  # noqa: E402
from autocomp.torch_compile import autocomp as backend  # noqa: E402
from autocomp.torch_compile.capability import Trial  # noqa: E402
from autocomp.torch_compile.partition import groups, halves, ordered  # noqa: E402

pytestmark = [pytest.mark.torch, pytest.mark.usefixtures("fresh_dynamo")]


def compiled(f, **how):
    return torch.compile(f, backend=backend, **how)


def same(got, want):
    """Values, types, shapes and steps of two results."""
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for g, w in zip(got, want):
            same(g, w)
        return
    if not isinstance(want, torch.Tensor):
        assert got == want
        return
    assert (got.dtype, got.shape, got.requires_grad) == (want.dtype, want.shape, want.requires_grad)
    steps = lambda x: [s for n, s in zip(x.shape, x.stride()) if n > 1]
    assert 0 in want.shape or steps(got) == steps(want)
    torch.testing.assert_close(got, want, equal_nan=True)


def check(f, *args, **how):
    """f compiled gives what f gives. The report of its graphs."""
    before = len(autocomp.report())
    apart = copy.deepcopy(args)
    same(compiled(f, **how)(*args), f(*apart))
    for a, b in zip(args, apart):
        same(a, b)  # what was written into
    return no_errors(before)


def no_errors(before):
    """The graphs since then, none of which was left to torch for an error of ours."""
    graphs = autocomp.report()[before:]
    assert not [s for g in graphs for s in g.stayed if "an error in autocomp" in s.why]
    return graphs


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.Softmax(-1)).eval()


def turned(q, angles):
    """Rotary embedding as complex numbers, of which gradients go through conjugates."""
    z = torch.view_as_complex(q.reshape(*q.shape[:-1], -1, 2)) * torch.polar(torch.ones_like(angles), angles)[:, None]
    return torch.view_as_real(z).flatten(3)


def test_steps_of_optimisers_over_lists_of_tensors():
    def step(ps, gs, ms, vs):
        scale = (1 / torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gs)))).clamp(max=1)
        gs = torch._foreach_mul(gs, scale)
        ms, vs = torch._foreach_lerp(ms, gs, 0.7), torch._foreach_addcmul(torch._foreach_mul(vs, 0.9), gs, gs, value=0.1)
        below = torch._foreach_add(torch._foreach_sqrt(torch._foreach_clamp_min(vs, 0.01)), [1e-8, 1e-6])
        return torch._foreach_addcdiv(torch._foreach_sub(ps, gs, alpha=0.5), ms, below, [-0.01, -0.02]), ms, vs

    drawn = lambda: [torch.rand(3, 4), torch.rand(5)]
    (graph,) = check(step, drawn(), drawn(), drawn(), drawn())
    assert not graph.stayed and graph.programs == 1


def test_an_input_that_is_called_as_a_constant():
    """torch calls results that are kept for the way back `slice_scatter_5`; so are called constants of rows of that operator."""
    w = torch.randn(2, 1, 4, requires_grad=True)

    def f(x):
        out = []
        for _ in range(3):
            x = nn.functional.conv1d(nn.functional.pad(x, (1, 1), "circular"), w, stride=2)
            out.append(x[:, 1:])
            x = x[:, :1]
        return torch.cat([*out, x], -1)

    x = torch.randn(2, 1, 16, requires_grad=True)
    same(torch.autograd.grad(compiled(f)(x).sin().sum(), (x, w)), torch.autograd.grad(f(x).sin().sum(), (x, w)))
    assert not any(g.stayed for g in autocomp.report()[-2:])


def test_complex_numbers_inside_of_a_graph_are_ours():
    q, angles = torch.randn(2, 5, 3, 8, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    graphs = check(turned, q, angles)
    want = torch.autograd.grad(turned(q, angles).sin().sum(), (q, angles))
    same(torch.autograd.grad(compiled(turned)(q, angles).sin().sum(), (q, angles)), want)
    assert all(not g.stayed and g.programs == 1 for g in (*graphs, *autocomp.report()[-2:]))


def test_zeros_without_memory_are_zeros():
    x, z = torch.randn(3, 4), torch._efficientzerotensor((3, 4))
    same(compiled(lambda x, z: (x + z, z.cos() * 2))(x, z), (x, torch.full((3, 4), 2.0)))
    assert not autocomp.report()[-1].stayed


def test_gradients_of_second_derivatives():
    """Of tangents that are zero torch keeps tensors without memory for the way back."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))

    def f(x):
        slope = lambda p: torch.func.grad(lambda q: net(q).squeeze(-1))(p)
        return torch.func.vmap(torch.func.jacfwd(slope))(x)[:, 0, 0].sum()

    x = torch.randn(4, 2)
    got, want = (torch.autograd.grad(g(x), net[0].weight)[0] for g in (compiled(f), f))
    torch.testing.assert_close(got, want)
    assert not any("zerotensor" in s.op for g in autocomp.report()[-2:] for s in g.stayed)


def test_windows_that_torch_computes_from_numbers():
    window = lambda x: x * torch.hamming_window(6, periodic=False) * torch.kaiser_window(6, True, 9.0) + torch.hann_window(6)
    (graph,) = check(window, torch.randn(2, 6))
    assert not graph.stayed


def test_complex_numbers_of_open_sizes_lie_as_torch_s():
    f = lambda x: (torch.polar(x.exp(), x).mT, torch.polar(x.exp(), x).conj().sum(1))
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for shape in ((3, 5), (4, 2), (7, 6)):
        x = torch.randn(shape)
        same(c(x), f(x))
    (graph,) = no_errors(before)
    assert graph.programs == 1 and not graph.notes and not graph.stayed


def test_complex_numbers_come_and_go():
    def f(z, x):
        return z.mT * 2, torch.fft.rfft(x), z.abs(), torch.linalg.eigvals(torch.eye(3) * x[:3, :3]).abs().sort()[0] * z[0, 0].real

    complex64 = lambda *shape: torch.randn(*shape, dtype=torch.complex64)
    for z in (complex64(3, 4), complex64(4, 3).mT, complex64(3, 4).conj(), complex64(2, 6)[:, ::2].mT):
        (graph,) = check(f, z, torch.randn(5, 6))
        assert all("eig" in s.op for s in graph.stayed)
    check(lambda z: (z + 1, z.real), complex64(3, 4), dynamic=True)


def test_inference_is_one_program():
    m = mlp()
    with torch.no_grad():
        (graph,) = check(m, torch.randn(4, 16))
    assert (graph.kind, graph.programs, graph.stayed) == ("inference", 1, [])
    assert graph.kernels == 2
    assert "6 nodes in 1 program of 2 kernels, 0 nodes with torch" in str(graph)


def test_gradients_come_from_programs_of_both_ways():
    a = mlp()
    b = copy.deepcopy(a)
    x = torch.randn(4, 16, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    before = len(autocomp.report())
    compiled(a)(x).pow(2).sum().backward()
    b(y).pow(2).sum().backward()
    same(x.grad, y.grad)
    for p, q in zip(a.parameters(), b.parameters()):
        same(p.grad, q.grad)
    assert [(g.kind, bool(g.stayed)) for g in autocomp.report()[before:]] == [("forward", False), ("backward", False)]


def test_views_that_are_kept_for_the_way_back_cut_no_program():
    """What torch keeps lies in the memory of other results; between two products of ours it waits for nothing."""
    m = nn.Sequential(nn.Linear(8, 6), nn.Linear(6, 4), nn.Linear(4, 8)).eval()
    c, before = compiled(m, dynamic=True), len(autocomp.report())
    for sizes in ((2, 5), (3, 7)):
        x, y = (torch.randn(*sizes, 8, requires_grad=True) for _ in range(2))
        y.data.copy_(x.data)
        got, want = torch.autograd.grad(c(x).sin().sum(), (x, *m.parameters())), torch.autograd.grad(m(y).sin().sum(), (y, *m.parameters()))
        same(got, want)
    forward, backward = no_errors(before)
    assert (forward.programs, backward.programs) == (1, 1) and not forward.notes and not backward.notes


def test_gradients_through_attention_and_norms():
    """torch's decomposition of its fused attention gives no sums of exponentials, which the way back reads."""
    f = lambda q, k, v: nn.functional.layer_norm(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), (8,)).sin().sum()
    args = [torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3)]
    before = len(autocomp.report())
    got = torch.autograd.grad(compiled(f)(*args), args)
    torch.testing.assert_close(got, torch.autograd.grad(f(*args), args))
    assert not [s for g in no_errors(before) for s in g.stayed if "attention" in s.op]
    with torch.no_grad():
        (graph,) = check(f, *(x.detach() for x in args))
    assert not graph.stayed


def test_gradients_through_attention_of_queries_without_keys():
    """Of which two heads share keys."""
    q, k, v = (torch.randn(1, n, 4, 8, requires_grad=True) for n in (4, 2, 2))
    mask = torch.rand(1, 1, 4, 4) > 0.4
    mask[0, 0, 1] = False
    f = lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, mask, scale=0.3, enable_gqa=True).square().mean()
    before = len(autocomp.report())
    torch.testing.assert_close(*(torch.autograd.grad(g(q, k, v), (q, k, v)) for g in (compiled(f), f)))
    assert not [s for g in no_errors(before) for s in g.stayed if "attention" in s.op]


def test_keys_and_values_of_a_cache_that_grows_have_one_length():
    """Sizes that torch found to change from call to call are symbols of their own, and fused attention asks nothing of them."""
    f = lambda q, k, v, new: nn.functional.scaled_dot_product_attention(q, torch.cat([k, new], 2), torch.cat([v, new * 2], 2))
    fast, before = compiled(f), len(autocomp.report())
    for n in (5, 9, 12):
        q, new, k, v = (torch.randn(2, 3, m, 8) for m in (1, 1, n, n))
        same(fast(q, k, v, new), f(q, k, v, new))
    graphs = no_errors(before)
    assert len(graphs) == 2 and not [s for g in graphs for s in g.stayed]


def test_a_batch_of_as_many_as_there_are_heads():
    """torch takes the two for one symbol, of which its guard says the value as that of `s**2 // s`."""
    f = lambda q, k: torch.einsum("bthd,bshd->bhts", q, k) + torch.tensor([0.5, 0.25]).view(2, 1, 1)
    (graph,) = check(f, torch.randn(2, 3, 2, 5), torch.randn(2, 7, 2, 5), dynamic=True)
    assert not graph.stayed


def test_gradients_through_long_attention_stay_with_torch(monkeypatch):
    """Which stores no scores."""
    monkeypatch.setattr(attention_gradients, "STORED", 100)
    q = torch.randn(1, 2, 9, 4, requires_grad=True)
    f = lambda q: nn.functional.scaled_dot_product_attention(q, q, q).square().mean()
    before = len(autocomp.report())
    torch.testing.assert_close(*(torch.autograd.grad(g(q), q) for g in (compiled(f), f)))
    stayed = [s for g in no_errors(before) for s in g.stayed if "attention" in s.op]
    assert len(stayed) == 2 and all("would store 162 scores, more than 100" in s.why for s in stayed)


@pytest.mark.parametrize(("how", "masks"), [
    ({"norm_first": True, "activation": "gelu"}, {"src_key_padding_mask": torch.tensor([[False] * 5, [False, False, True, True, True]])}),
    ({}, {"src_mask": nn.Transformer.generate_square_subsequent_mask(5), "src_key_padding_mask": torch.tensor([[0.0] * 5, [-1e9] * 5])}),
], ids=["padded", "causal, a row without keys"])  # fmt: skip
def test_encoder_layers_that_are_one_operator(how, masks):
    """torch.nn has one operator for a whole layer where no gradient is asked for."""
    m, x = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True, **how).eval(), torch.randn(2, 5, 8)
    c, before = compiled(m, dynamic=False), len(autocomp.report())
    with torch.no_grad():
        same(c(x, **masks), m(x, **masks))
    (graph,) = no_errors(before)
    assert graph.programs == 1 and not graph.stayed


def test_gradients_that_go_to_one_place_of_a_row_are_choices():
    """Of a loss by classes, a largest element and a gather: torch scatters them."""
    w, x, y = torch.randn(6, 5, requires_grad=True), torch.randn(4, 6), torch.tensor([2, 0, -100, 4])

    def loss(x, w):
        scores = x @ w
        return nn.functional.cross_entropy(scores, y) + scores.max(1)[0].sum() + scores.gather(1, y.clamp(min=1)[:, None]).exp().mean()

    c, before = compiled(loss), len(autocomp.report())
    torch.testing.assert_close(*(torch.autograd.grad(f(x, w), w)[0] for f in (c, loss)))
    assert all(g.programs == 1 and not g.stayed for g in no_errors(before))


def test_operators_of_a_library_stay_with_torch():
    (graph,) = check(lambda x: (torch.linalg.eigvalsh(x.exp() + 4) * 2 + x).relu(), torch.randn(4, 4))
    assert graph.programs == 2
    assert {s.op for s in graph.stayed} == {"aten._linalg_eigh.default"}
    assert "torch calls a library for it" in str(graph)


def test_the_few_largest_are_found_in_the_program_around_them():
    """An operator whose order depends on data, where it is small enough to be written with others: a router of experts."""
    def f(x, w):
        p, i = (x @ w).softmax(-1).topk(2)
        return p / p.sum(-1, keepdim=True), w.t()[i].sum(1)

    (graph,) = check(f, torch.randn(3, 8), torch.randn(8, 6))
    assert graph.programs == 1 and not graph.stayed
    (graph,) = check(lambda x: (x * 2).topk(17)[0] + 1, torch.randn(3, 40))
    assert graph.programs == 1 and not graph.stayed


def test_longer_orders_are_found_where_the_chip_has_a_function_for_them():
    for k, feature, stays in ((17, "radix_select", False), (2048, "radix_select", False), (2049, "radix_select", False), (17, "", True)):
        graph = make_fx(partial(torch.topk, k=k), tracing_mode="fake")(torch.ones(1, 2100))
        assert bool(Trial(graph, torch.device("cpu"), (feature,)).why) == stays


def test_gradients_that_go_where_data_say_are_written_in_the_program():
    """Of a table by its rows and of a sum at indices, for any number of them."""
    table = torch.randn(30, 4, requires_grad=True)
    f = lambda table, i, x: (table[i].tanh() + x).sum(1) @ torch.zeros(4, 4).index_add(0, i[0] % 4, table[i[0]])
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for n in (6, 3, 11):
        i, x = torch.randint(0, 30, (n, n)), torch.randn(n, n, 4)
        got, want = (torch.autograd.grad(g(table, i, x).mean(), table)[0] for g in (c, f))
        torch.testing.assert_close(got, want)
    assert all(not g.stayed for g in no_errors(before))


def test_margins_count_no_class_behind_the_last_target():
    x, t = torch.randn(3, 5, requires_grad=True), torch.tensor([[0, 1, -1, 0, 2], [-1, 3, 3, 3, 3], [4, 3, 2, 1, 0]])
    check(lambda x: torch.nn.functional.multilabel_margin_loss(x, t), x)


def test_an_index_outside_is_an_error_of_the_call():
    f = compiled(lambda x, i, y: x.exp().index_add(0, i, y))
    with pytest.raises(ModelError, match="an index is outside of the tensor that it writes to"):
        f(torch.zeros(4, 3), torch.tensor([1, 4]), torch.ones(2, 3))


def test_results_that_repeat_along_an_open_size():
    """What torch reads next is expanded by as much as the call's sizes say; a number of the sizes alone is an argument."""
    f = lambda x: torch.special.bessel_j0((x.mean(0) / x.shape[0]).exp().expand(x.shape[0], 2, 6)).sin()
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for n in (5, 3, 8):
        x = torch.randn(n, 6)
        same(c(x), f(x))
    no_errors(before)


def test_results_with_gaps_along_open_sizes():
    """One program for all sizes, whose results are copied to where torch has them, also those that repeat there; steps of torch's are
    the most of 1 and a size."""
    f = lambda x: ((x + 1)[:, 1:-1], x.unfold(0, 3, 2).sum(1), (x * 2)[:, 1].view(-1, 1, 1).expand(-1, 5, 2))
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for n in (5, 9, 8):
        x = torch.randn(n, n + 2)
        got, want = c(x), f(x)
        same(got, want)
        assert [y.stride() for y in got] == [y.stride() for y in want]
    no_errors(before)
    assert [(g.programs, g.notes) for g in autocomp.report()[before:]] == [(1, [])]


def test_a_product_of_sizes_that_a_layer_reads_as_a_number():
    """An image of any size, flattened in front of a linear layer: torch views it, and the layer is ours."""
    layer = nn.Linear(12, 3).requires_grad_(False)
    f = lambda x: layer(x[:, ::2, ::2].flatten(1))
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for shape in ((5, 6, 8), (2, 5, 7)):
        same(c(x := torch.randn(shape)), f(x))
    for g in no_errors(before):
        assert all("view" in n.op or "slice" in n.op for n in g.stayed), g


def test_the_least_size_that_guards_let_through():
    """A filter of 8 behind a padding to a multiple of 4 fits, as torch asked of the size."""
    filters = nn.Conv1d(1, 3, 8, stride=4).requires_grad_(False)
    f = lambda x: filters(nn.functional.pad(x, (0, -x.shape[-1] % 4)))
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for n in (30, 21):
        same(c(x := torch.randn(2, 1, n)), f(x))
    assert not [s for g in no_errors(before) for s in g.stayed if "convolution" in s.op], no_errors(before)


def test_what_is_random_is_drawn_as_without_us():
    f = lambda x: (torch.rand_like(x) * 2 + x, torch.randn(3) + 1, torch.nn.functional.dropout(x, 0.5))
    x = torch.randn(4)
    torch.manual_seed(7)
    got = compiled(f)(x)
    torch._dynamo.reset()
    torch.manual_seed(7)
    same(got, torch.compile(f, backend="aot_eager")(x))


@pytest.mark.parametrize("f", [
    lambda x: x.t() * 2,
    lambda x: x[:, ::2] + 1,
    lambda x: (x, x + 1, x),
    lambda x: (x.view(-1), x.t(), x[1:]),
    lambda x: (x * 2).expand(3, 4, 6),
    lambda x: x.sum(),
    lambda x: (x > 0, x.argmax(1), x.double() / 3, x.to(torch.int32)),
    lambda x: (torch.ones(3), torch.arange(4), x.new_zeros(2)),
    lambda x: x[:0] * 2,
    lambda x: torch.tensor([1.0, 2.0]) + x[0, 0],
    lambda x: (x + 1).t(),
    lambda x: ((x + 1)[:, 1:3], (x * 2)[1:]),
    lambda x: x.as_strided((2, 2), (6, 1)) * 2,
    lambda x: (x * 2).as_strided((2, 2), (6, 1), 3),
], ids=range(14))  # fmt: skip
def test_forms_of_results(f):
    check(f, torch.randn(4, 6))


@pytest.mark.parametrize("x", [
    torch.randn(6, 4).t(),
    torch.randn(8, 12)[::2, ::2],
    torch.randn(4, 1).expand(4, 6),
    torch.randn(1, 1).expand(4, 6),
    torch.randn(30)[5:29].view(4, 6),
    torch.randn(4, 0),
    torch.randn(4, 1),
    torch.randn(4, 6, dtype=torch.float64),
    torch.randn(4, 6).bfloat16(),
    torch.randint(0, 9, (4, 6)),
], ids=range(10))  # fmt: skip
def test_forms_of_inputs(x):
    check(lambda x: (x * 2 + 1, x.t() + x.t(), x.sum(1)), x)


def test_channels_last_is_read_and_written_where_it_lies():
    m = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU()).to(memory_format=torch.channels_last).eval()
    with torch.no_grad():
        (graph,) = check(m, torch.randn(2, 3, 8, 8).contiguous(memory_format=torch.channels_last))
    assert not graph.stayed


def test_writes_into_inputs_and_buffers():
    def f(x, y):
        x.mul_(2)
        y[1:3] = x[:2]
        y.t_()
        return x + y.sum()

    check(f, torch.randn(4, 6), torch.randn(4, 6))

    def cache(keys, new, at):
        keys.index_copy_(1, at, new)
        return (keys * 2).sum(1)

    check(cache, torch.zeros(2, 8, 4), torch.randn(2, 1, 4), torch.tensor([3]))


def test_the_same_tensor_twice():
    x = torch.randn(4)
    f = lambda a, b: (a.add_(1), a + b)
    y = x.clone()
    same(compiled(f)(x, x), f(y, y))


def test_batch_norm_trains_and_keeps_its_statistics():
    a = nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6))
    b = copy.deepcopy(a)
    c = compiled(a)
    for _ in range(2):
        x = torch.randn(7, 5)
        same(c(x), b(x))
        a(x).sum().backward()
        b(x).sum().backward()
    for p, q in zip(a.state_dict().values(), b.state_dict().values()):
        same(p, q)


def test_a_copy_of_a_compiled_module_is_its_own():
    c = compiled(mlp())
    x = torch.randn(4, 16)
    with torch.no_grad():
        c(x)
        d = copy.deepcopy(c)
        d._orig_mod[0].weight.zero_()
        same(d(x), d._orig_mod(x))
        same(c(x), c._orig_mod(x))


def test_parameters_that_change_are_read_again():
    m = mlp()
    c, x = compiled(m), torch.randn(4, 16)
    with torch.no_grad():
        c(x)
        m[0].weight.mul_(2)
        same(c(x), m(x))
        m[0].weight.data = torch.randn(32, 16)
        same(c(x), m(x))


def test_a_break_in_the_graph(capsys):
    def f(x):
        y = x * 2
        print("in the middle")
        return y.relu() + 1

    torch._dynamo.utils.counters.clear()
    check(f, torch.randn(4))
    assert "in the middle" in capsys.readouterr().out
    (why,) = autocomp.report().breaks
    assert f"dynamo's graphs end, x 1: {why}" in str(autocomp.report()) and "`print`" in why


def test_what_dynamo_leaves_out_of_graphs_is_said():
    torch._dynamo.utils.counters.clear()
    before = len(autocomp.report())
    net, x = nn.LSTM(3, 3), torch.randn(4, 3)
    same(compiled(net)(x)[0], net(x)[0])
    assert len(autocomp.report()) == before and "RNN, GRU, or LSTM" in str(autocomp.report())


@pytest.mark.parametrize("f", [
    lambda x: x.softmax(0) * x.shape[0],
    lambda x: torch.cat([x, x])[1:] @ x.t(),
    lambda x: x.view(-1, 2, 3).sum(1) + torch.arange(x.shape[0])[:, None],
    lambda x: x.t() + 1,
    lambda x: (x[1:] - x[:-1]).sort(0)[0],
], ids=range(5))  # fmt: skip
def test_sizes_that_are_symbols(f):
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for n in (4, 2, 9, 1, 0) if f(torch.ones(3, 6)).shape[0] == 3 else (4, 2, 9, 5):
        x = torch.randn(n, 6)
        same(c(x), f(x))
    no_errors(before)


def test_sizes_that_tracing_found_equal_are_one():
    """An image that was halved, doubled and joined with itself has even sides."""
    def f(x):
        y = nn.functional.interpolate(nn.functional.avg_pool2d(x, 2), scale_factor=2)
        return torch.cat((x.relu(), y), 1).exp()

    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for sides in ((6, 4), (8, 10), (4, 12)):
        x = torch.randn(2, 3, *sides)
        same(c(x), f(x))
    (graph,) = no_errors(before)
    assert graph.programs == 1 and not graph.stayed and not graph.notes


def test_sizes_of_which_tracing_left_one_value_are_numbers():
    """Halves of a row are three wide, as a layer asks: the row has six, which torch says of n - (n + 1) // 2 and (n + 1) // 2."""
    layer = nn.Linear(3, 3)

    def f(x):
        a, b = x.chunk(2, -1)
        return torch.cat([b * layer(a).tanh(), a], -1), x.exp()

    c, before = compiled(f, dynamic=True), len(autocomp.report())
    for sizes in ((3, 5), (4, 7)):
        x = torch.randn(*sizes, 6)
        with torch.no_grad():
            same(c(x), f(x))
    (graph,) = no_errors(before)
    assert graph.programs == 1 and not graph.stayed and not graph.notes


def merged(x, w):
    """Rows of a batch and a length that are both open, merged, summed along, split again; the second result is a view of the first's."""
    rows = x.exp().reshape(-1, 4)
    sums = (rows.cumsum(0) @ w).reshape(x.shape[0], x.shape[1], -1)
    return sums.softmax(-1), rows[:, :1] * 2


def apart(x, w):
    """What stays with torch stands between, so that a program is given merged rows and another gives them."""
    rows = torch.special.bessel_j0(x.cos().reshape(-1, 4).sin())
    return (rows @ w).relu().reshape(x.shape[0], -1).softmax(-1), rows.view(x.shape)


@pytest.mark.parametrize(("f", "programs", "stay"), [(merged, 1, 0), (apart, 2, 1)])
def test_open_sizes_that_are_merged_are_read_in_programs(f, programs, stay):
    c, before = compiled(f, dynamic=True), len(autocomp.report())
    wrong = []

    def run(sizes):
        for b, s in sizes:
            x, w = torch.randn(b, s, 4), torch.randn(4, 3)
            with torch.no_grad():
                if not all(torch.allclose(g, v, atol=1e-5, rtol=1e-4) and g.stride() == v.stride() for g, v in zip(c(x, w), f(x, w))):
                    wrong.append((b, s))

    run([(2, 5), (3, 7), (16, 33)])
    threads = [threading.Thread(target=run, args=([(k % 5 + 2, k % 7 + 2) for k in range(n, n + 40)],)) for n in (0, 3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong
    (report,) = no_errors(before)
    assert report.programs == programs and sum("view" not in s.op for s in report.stayed) == stay


def test_autocast_and_short_floats():
    m, x = mlp(), torch.randn(4, 16)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        got, want = compiled(m)(x), m(x)
    assert got.dtype == want.dtype
    torch.testing.assert_close(got, want, atol=1e-2, rtol=1e-2)


def test_steps_that_are_symbols_of_tensors_that_are_copied():
    """Of the second call only the steps differ, so that these become symbols, which no size says."""
    fast = compiled(lambda x: x.exp() + x.sum())
    for x in (torch.randn(4, 6), torch.randn(8, 12)[::2, ::2], torch.randn(12, 18)[::3, ::3]):
        same(fast(x), x.exp() + x.sum())


def test_numbers_that_may_be_negative_stay_with_torch():
    before = len(autocomp.report())
    fast = compiled(lambda x, k: (x.sin() * k).cos() + 1)
    for k in (2, 3, -4):
        x = torch.randn(4, 3)
        same(fast(x, k), (x.sin() * k).cos() + 1)
    report = no_errors(before)
    assert "has any value" in str(report[-1]) and report[-1].nodes


def test_results_that_share_memory_do_so():
    def f(x):
        y = x * 2
        return y, y[1:], y.T, y.exp()

    y, rows, turned, other = compiled(f)(torch.randn(4, 3))
    same((rows, turned, other), (y[1:].clone(), y.T, y.exp()))
    y.fill_(3)
    assert (rows == 3).all() and (turned == 3).all() and not (other == 3).all()


def test_threads_call_at_once():
    m = mlp()
    c = compiled(m)
    xs = [torch.randn(4, 16) for _ in range(4)]
    wrong = []

    def many(x):
        with torch.no_grad():
            want = m(x)
            wrong.extend(1 for _ in range(50) if not torch.allclose(c(x), want, atol=1e-6))

    threads = [threading.Thread(target=many, args=(x,)) for x in xs]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_options_are_those_of_optimize():
    f, x = lambda x: x.sum(1) * 2, torch.randn(4, 6)
    check(f, x, options={"without": ["fusion/*"], "exact": True, "deadline": 30})
    torch._dynamo.reset()
    with pytest.raises(Exception, match="there is no option 'exakt'\n  next: did you mean 'exact'\\? options: allow_tf32"):
        compiled(f, options={"exakt": True})(x)
    with pytest.raises(Exception, match="mode 'max-autotune' is inductor's"):
        compiled(f, mode="max-autotune")(x)
    with pytest.raises(Exception, match="exact wants bool, got 3"):
        compiled(f, options={"exact": 3})(x)
    (graph,) = check(f, x, options={"target": "cuda:h200"})
    assert [s.why for s in graph.stayed] == ["the graph's tensors lie on cpu, the target is cuda:h200"] * 2


def test_an_error_here_leaves_the_graph_to_torch(monkeypatch, caplog):
    def broken(*_, **__):
        raise ZeroDivisionError("no")

    monkeypatch.setattr("autocomp.torch_compile.graphs.compile_model", broken)
    before = len(autocomp.report())
    x = torch.randn(4)
    same(compiled(lambda x: x.relu() + 1)(x), x.relu() + 1)
    (graph,) = autocomp.report()[before:]
    assert {s.why for s in graph.stayed} == {"an error in autocomp: ZeroDivisionError: no"}
    assert "autocomp left a graph to torch: ZeroDivisionError: no" in caplog.text


def test_what_is_refused_as_a_whole_is_cut(monkeypatch):
    from autocomp.errors import UnsupportedOp
    from autocomp.torch_compile import graphs

    compile_model = graphs.compile_model

    def few(graph, *rest, **kw):
        if any(n.op == "sin" for n in graph.nodes()):
            raise UnsupportedOp("no sines today")
        return compile_model(graph, *rest, **kw)

    monkeypatch.setattr(graphs, "compile_model", few)
    (graph,) = check(lambda x: ((x + 1).exp().sin() * 2).tanh(), torch.randn(4))
    assert [(s.op, s.why) for s in graph.stayed] == [("aten.sin.default", "no sines today")]
    assert graph.programs == 2
    assert any("cut in two: no sines today" in n for n in graph.notes)


def test_groups_are_convex_and_few():
    """Of a graph of which torch keeps a node in the middle."""
    f = lambda x: (x.sin() + torch.cos(x.sin())).exp() * x
    gm = torch.fx.symbolic_trace(f)
    kept = next(n for n in gm.graph.nodes if n.name == "cos")
    mine = lambda n: n.op in ("call_function", "call_method") and n is not kept
    found = groups(gm.graph, mine)
    assert [[n.name for n in g] for g in found] == [["sin", "sin_1"], ["add", "exp", "mul"]]
    part = {n: k for k, g in enumerate(found) for n in g}
    order = ordered(gm.graph, lambda n: part.get(n, n))
    assert [str(i) for i in order] == ["x", "0", "cos", "1", "output"]
    assert [[n.name for n in g] for g in halves(found[1])] == [["add"], ["exp", "mul"]]


def test_torch_finds_it_by_its_name():
    if "autocomp" not in entry_points(group="torch_dynamo_backends").names:
        pytest.skip("the package was installed before it had this entry point (pip install -e .)")
    assert "autocomp" in torch._dynamo.list_backends()
    same(torch.compile(lambda x: x + 1, backend="autocomp")(torch.ones(3)), torch.full((3,), 2.0))


def test_the_report_does_without_torch():
    import subprocess

    text = "import autocomp, sys; print(autocomp.report()); assert 'torch' not in sys.modules"
    said = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "nothing was compiled" in said.stdout
