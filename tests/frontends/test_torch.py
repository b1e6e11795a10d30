"""torch modules mean what torch computes in float64."""

from __future__ import annotations

import numpy as np
import pytest

import autocomp
from autocomp.errors import ModelError, UnsupportedOp
from autocomp.ir.reference import evaluate

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
from torch import distributions as D  # noqa: E402, N812
from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils._pytree import tree_flatten, tree_unflatten  # noqa: E402

from autocomp.frontends.torch.call import TABLE  # noqa: E402
from autocomp.frontends.torch.checks import passing  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from tests.helpers.torch_modules import Apply, means_the_same  # noqa: E402

pytestmark = pytest.mark.torch


class Block(nn.Module):
    """A pre-norm transformer block with causal attention and a gated feed-forward part."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads, self.norm, self.gain = heads, nn.LayerNorm(width), nn.RMSNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.gate, self.down = (nn.Linear(*s, bias=False) for s in ((width, 64), (width, 64), (64, width)))

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, s, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, s, w)
        x = x + self.o(a)
        h = self.gain(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Masked(nn.Module):
    """Encoder and decoder whose mask is an input: nn.Transformer asks whether its elements are a causal mask's."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)

    def forward(self, source, target, mask):
        return self.layers(source, target, tgt_mask=mask)


def conv_net():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 8, 3, groups=4), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(8, 10), nn.LogSoftmax(-1))  # fmt: skip


def views(x):
    return torch.cat([*x[:, 1:, ::2].chunk(2, -1), x.transpose(0, 1)[:2, :, :2].transpose(0, 1)], -1)


def pointwise(x, y):
    return torch.where(x > 0, x / (y * y + 1), -x).masked_fill(y > 1, 0.5) + F.softplus(x)


def inplace(x):
    y = x * 2
    y.add_(1).clamp_(-1, 1)
    return y


def written_in_place(x):
    y = x * 2
    y[:, 1] = 0
    y[0] += 2
    y.view(-1)[3] = 7
    return y


R = lambda *s: torch.randn(*s)
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 8), nn.Tanh()), lambda: (R(5, 16),)),
    "conv": (conv_net, lambda: (R(2, 3, 32, 32),)),
    "encoder": (lambda: nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, activation="gelu"), lambda: (R(2, 7, 32),)),
    "block": (Block, lambda: (R(2, 9, 32),)),
    "outputs": (lambda: Apply(lambda x: (x.sum(0), x.max(-1)[0], x.argmax(-1), x.mean(), x.var(1))), lambda: (R(4, 6),)),
    "views": (lambda: Apply(views), lambda: (R(3, 3, 8),)),
    "pointwise": (lambda: Apply(pointwise), lambda: (R(4, 5), R(5))),
    "inplace": (lambda: Apply(inplace), lambda: (R(4, 5),)),
    "embedding": (lambda: nn.Embedding(11, 6), lambda: (torch.randint(0, 11, (2, 5)),)),
    "mask": (lambda: Apply(lambda x: F.softmax(x + torch.triu(torch.full((6, 6), float("-inf")), 1), -1)), lambda: (R(2, 6, 6),)),
    "written": (lambda: Apply(written_in_place), lambda: (R(4, 5),)),
    "turned round": (lambda: Apply(lambda x: (x.flip(0, 1), x.roll((1, -1), (0, 1)), x.repeat(2, 1, 3))), lambda: (R(4, 5),)),
    "no dimension": (lambda: Apply(lambda x: (F.softmax(x, 0), x.sum(0), x.amax(-1))), lambda: (torch.randn(()),)),
    "norms": (lambda: Apply(lambda x: (x.norm(), x.norm(p=1, dim=-1), torch.linalg.vector_norm(x, float("inf"), dim=0), F.normalize(x))),
              lambda: (R(4, 5),)),
    "elu": (lambda: Apply(lambda x: (F.elu(x, 0.5), F.selu(x), F.celu(x, 0.7), F.softplus(x, 2.0, 1.0), x.abs().log10())), lambda: (R(9),)),
    "truths": (lambda: Apply(lambda x: torch.isclose(x, x + 1e-9) * 1.0), lambda: (R(9),)),
    "no bias": (lambda: Apply(lambda x: torch.addmm(x * float("nan"), x, x, beta=0.0)), lambda: (R(4, 4),)),
    "rolled": (lambda: Apply(lambda x: (x.roll(2), x.roll(-7, 1), x.roll((1, 9, 2), (0, 1, 1)), x.roll(5, 2))), lambda: (R(4, 5, 1),)),
    "no elements": (lambda: Apply(lambda x: (torch.cat([x, x]), x.flip(0))), lambda: (R(0),)),
    "indexed": (lambda: Apply(lambda x, i: (x[i], x[:, i % 3], x[i, i % 3], x[:, i[:, None], i[None] % 4], x[i, :, i % 4], x[None, i, -1],
                                            x[i[:, None], :, i[None] % 4])), lambda: (R(5, 5, 4), torch.randint(0, 5, (2,)))),
    "transformer": (lambda: Masked(), lambda: (R(2, 5, 8), R(2, 4, 8), nn.Transformer.generate_square_subsequent_mask(4))),
    "gqa": (lambda: Apply(lambda q, k: F.scaled_dot_product_attention(q, k, k, enable_gqa=True)), lambda: (R(1, 4, 5, 8), R(1, 2, 5, 8))),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_a_module_means_what_torch_computes(name):
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    module, xs = make().eval(), inputs()
    with torch.no_grad():
        want = module.double()(*(x.double() if x.is_floating_point() else x for x in xs))
        module.float()
    g = load_torch(module, xs)
    got = evaluate(g, {n.attrs["name"]: x.numpy() for n, x in zip(g.inputs, xs)})
    for w, v in zip(want if isinstance(want, tuple) else (want,), got.values()):
        np.testing.assert_allclose(v, w.numpy(), rtol=1e-5, atol=1e-6)


def test_a_module_runs_as_generated_code():
    torch.manual_seed(0)
    module, x = Block().eval(), R(2, 9, 32)
    program = autocomp.optimize(module, example_inputs=(x,), target="cpu", verify=True)
    with torch.no_grad():
        np.testing.assert_allclose(program(x), module(x).numpy(), rtol=1e-4, atol=1e-5)


def test_attention_of_a_module_is_one_kernel():
    module = Apply(lambda q, k, v: F.scaled_dot_product_attention(q, k, v)).eval()
    x = R(2, 4, 64, 16)
    assert len(autocomp.optimize(module, example_inputs=(x, x, x), target="cpu").calls.calls) == 1


def test_bfloat16_parameters():
    torch.manual_seed(0)
    module, x = nn.Linear(16, 8).eval().bfloat16(), R(4, 16).bfloat16()
    g = load_torch(module, (x,))
    got = evaluate(g, {"input": x.view(torch.int16).numpy().view("bfloat16")})
    with torch.no_grad():
        want = module.double()(x.double()).numpy()
    np.testing.assert_allclose(next(iter(got.values())), want, rtol=1e-2, atol=1e-2)


def test_dynamic_dimensions_are_symbols_with_bounds():
    batch = torch.export.Dim("batch", min=1, max=64)
    module = nn.Sequential(nn.Linear(8, 4), nn.ReLU()).eval()
    exported = torch.export.export(module, (R(5, 8),), dynamic_shapes=({0: batch},))
    g = load_torch(exported)
    (symbol,) = [d for d in g.inputs[0].type.shape if not isinstance(d, int)]
    assert (symbol.name, symbol.lo, symbol.hi) == ("batch", 1, 64)
    program = autocomp.optimize(exported, target="cpu")
    for rows in (1, 7, 64):
        x = R(rows, 8)
        with torch.no_grad():
            np.testing.assert_allclose(program(x), module(x).numpy(), rtol=1e-5, atol=1e-6)
    with pytest.raises(ModelError, match=r"'input' has batch = 65, allowed are 1\.\.64"):
        program(R(65, 8))


def test_a_scalar_has_a_dimension_to_squeeze():
    assert str(load_torch(Apply(lambda x: x.sum().squeeze((0,)) + x).eval(), (R(3),)).outputs[0][1].type) == "f32[3]"


def test_a_squeeze_of_a_dimension_that_may_be_1_is_refused():
    """torch traces it as one that is not dropped, and drops it where it is 1."""
    exported = lambda f, least: torch.export.export(
        Apply(f).eval(), (R(4, 1, 3),), dynamic_shapes=(({0: torch.export.Dim("batch", min=least, max=64)},),)
    )
    for f, least in ((lambda x: x.squeeze(), 1), (lambda x: x.squeeze((0, 1)), 0), (lambda x: x.squeeze(-3), 1)):
        with pytest.raises(UnsupportedOp, match=r"(?s)dimension 0 \('batch'\) may be 1 .*\[1\] here.*Dim\('batch', min=2\)"):
            load_torch(exported(f, least))
    for f, least in ((lambda x: x.squeeze(), 2), (lambda x: x.squeeze(1), 1)):
        assert str(load_torch(exported(f, least)).outputs[0][1].type) == "f32[batch, 3]"


def test_an_operator_without_a_row_is_refused_with_its_place():
    module = nn.Sequential(nn.Linear(4, 4), Apply(lambda x: torch.geqrf(x)[0]))
    with pytest.raises(UnsupportedOp, match=r"1 \(.*ATen operator 'aten.geqrf"):
        load_torch(module.eval(), (R(4, 4),))


@pytest.mark.parametrize(("f", "said"), [
    (lambda x: F.dropout(x, 0.5, True), "drops out 0.5 of the elements at random"),
    (lambda x: x.view(torch.int32), r"'aten.view.dtype' with these arguments gives i32\[4, 4\], its row f32\[4, 4\]"),
    (lambda x: (3, x.shape[0]), "output_0 is 3, no tensor"),
])  # fmt: skip
def test_what_would_be_another_value_is_refused(f, said):
    with pytest.raises(UnsupportedOp, match=said):
        load_torch(Apply(f).eval(), (R(4, 4),))


def test_a_form_of_a_call_that_its_row_does_not_know_is_refused(monkeypatch):
    monkeypatch.setitem(TABLE, "round", lambda c, x: c.op("round", x))
    with pytest.raises(UnsupportedOp, match=r"'aten.round.decimals' with arguments \(x\w*, decimals=1\)"):
        load_torch(Apply(lambda x: x.round(decimals=1)).eval(), (torch.zeros(4, 4),))


def test_training_mode_and_missing_examples_are_errors():
    with pytest.raises(ModelError, match="training mode"):
        load_torch(nn.Linear(2, 2), (R(1, 2),))
    with pytest.raises(ModelError, match="exported on examples"):
        load_torch(nn.Linear(2, 2).eval())


def test_variance_over_a_symbolic_dimension():
    rows = torch.export.Dim("rows", min=2, max=500)

    def exported(correction):
        f = type("Variance", (torch.nn.Module,), {"forward": lambda self, x: x.var(0, correction=correction)})()
        return torch.export.export(f, (torch.randn(5, 7),), dynamic_shapes={"x": {0: rows}})

    x = torch.randn(300, 7)
    for correction in (0, 1, 3):
        got = autocomp.optimize(exported(correction))(x.numpy())
        np.testing.assert_allclose(got, x.var(0, correction=correction).numpy(), rtol=2e-5)


SIZED = {  # functions of x: f32[b, 4] that depend on b
    "ones": lambda x: (torch.ones(x.shape[0], 4) * 2, torch.zeros(x.shape[0], 1) + x[:, :1]),
    "a sum of ones": lambda x: torch.ones(x.shape[0], 4).sum(0),
    "arange": lambda x: torch.arange(x.shape[0])[:, None] * 1.0 + x,
    "a count": lambda x: torch.arange(x.shape[0]).sum() + x,
    "full": lambda x: torch.full((x.shape[0], 3), 2.5).cumsum(0),
    "full of a size": lambda x: torch.full((x.shape[0],), x.shape[0]) + x[:, 0],
    "eye": lambda x: torch.eye(x.shape[0]),
    "a causal mask": lambda x: torch.full((x.shape[0], x.shape[0]), float("-inf")).triu(1).softmax(-1) @ x,
    "expand": lambda x: torch.tensor([0.5, 1, 2, 3])[None].expand(x.shape[0], 4).exp(),
    "a size as a number": lambda x: x * x.shape[0] + x.shape[0] % 3 + x.shape[0] // 2 + x.shape[0] ** 2 - x / x.shape[0] ** 0.5,
    "a mask by index pairs": lambda x: x[torch.arange(x.shape[0])[:, None, None], torch.arange(4)[None, None]].sum(1),
    "alpha": lambda x: torch.add(x, x, alpha=x.shape[0]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZED)
def test_what_depends_on_a_dynamic_size(name):
    module = Apply(SIZED[name]).eval()
    batch = torch.export.Dim("b", min=1, max=64)
    program = autocomp.optimize(torch.export.export(module, (R(5, 4),), dynamic_shapes=(({0: batch},),)), target="cpu")
    for n in (1, 2, 3, 7, 64):
        x = R(n, 4)
        got, want = program(x), module(x)
        for g, w in zip(*((v if isinstance(v, tuple) else (v,)) for v in (got, want)), strict=True):
            assert g.shape == w.shape
            np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)


def test_a_number_that_comes_from_no_tensor_is_refused():
    class Scaled(nn.Module):
        def forward(self, x, k):
            return x * k

    exported = torch.export.export(Scaled().eval(), (R(4), 3), dynamic_shapes=(None, torch.export.Dim.DYNAMIC))
    with pytest.raises(UnsupportedOp, match="is the size of no input"):
        load_torch(exported)


TWICE = {  # given as one object or as views of one memory: the module, its arguments as made of one tensor
    "twice": (lambda a, b: a - 2 * b, lambda x: (x, x)),
    "in containers": (lambda a, d: a - 2 * d["k"][0] * d["k"][1] + d["m"], lambda x: (x, {"k": [x, x], "m": x})),
    "views": (lambda a, b, c: a - 2 * b * c, lambda x: (x, x[:], x.view(4))),
    "overlapping": (lambda a, b: a - 2 * b, lambda x: (x[:3], x[1:])),
    "expanded": (lambda a, b: a - 2 * b, lambda x: (x[:1].expand(4), x[:1].expand(4))),
}  # fmt: skip


@pytest.mark.parametrize("name", TWICE)
def test_a_tensor_given_twice_is_two_inputs(name):
    f, given = TWICE[name]
    args = given(R(4))
    program = autocomp.optimize(Apply(f).eval(), example_inputs=args, target="cpu")
    leaves, spec = tree_flatten(args)
    other = [torch.randn(v.shape) for v in leaves]
    np.testing.assert_allclose(program(*other), f(*tree_unflatten(other, spec)).numpy(), rtol=1e-5, atol=1e-6)
    same = [other[0]] * len(other) if len({v.shape for v in leaves}) == 1 else other
    np.testing.assert_allclose(program(*same), f(*tree_unflatten(same, spec)).numpy(), rtol=1e-5, atol=1e-6)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(R(4))
        self.v = self.w
        self.register_buffer("bias", R(4))

    def forward(self, x, y):
        return x - 2 * self.w + 3 * self.v * y - self.bias


def test_a_parameter_or_buffer_passed_as_an_input_stays_an_input():
    m = Tied().eval()
    for given in ((m.w, m.bias), (m.bias, m.w), (m.v, m.w)):
        program = autocomp.optimize(m, example_inputs=given, target="cpu")
        x, y = R(4), R(4)
        with torch.no_grad():
            np.testing.assert_allclose(program(x, y), m(x, y).numpy(), rtol=1e-5, atol=1e-6)


def test_a_program_exported_on_one_tensor_twice_is_refused():
    x, f = R(4), Apply(lambda a, b: a - 2 * b).eval()
    with pytest.raises(ModelError, match=r"'xs_0' and 'xs_1' were one tensor when it was exported"):
        load_torch(torch.export.export(f, (x, x)))
    m = Tied().eval()
    with pytest.raises(ModelError, match=r"'p_w' and 'x' were one tensor"):
        load_torch(torch.export.export(m, (m.w, x)))
    load_torch(torch.export.export(f, (x[:], x[:])))  # two views are two inputs for torch too


def test_outputs_never_share_memory_with_inputs_or_each_other():
    m = Apply(lambda x, y: (x, x.view(2, 2), x[1:], y + 1, y + 1, x.t(), x)).eval()
    x, y = R(4), R(4)
    kept = x.clone()
    got = autocomp.optimize(m, example_inputs=(x, x), target="cpu")(x, y)
    with torch.no_grad():
        for g, w in zip(got, m(x, y), strict=True):
            np.testing.assert_array_equal(g, w)
    for i, g in enumerate(got):
        others = [v.clone() for k, v in enumerate(got) if k != i]
        g.fill_(float(i + 100))
        assert torch.equal(x, kept)
        assert all(torch.equal(a, b) for a, b in zip(others, (v for k, v in enumerate(got) if k != i), strict=True))


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.cache = torch.zeros(4)

    def forward(self, x):
        self.inner.cache[1:3].add_(1)
        return x + self.inner.cache


class Assigns(Counter):
    def forward(self, x):
        self.inner.cache = self.inner.cache + x
        return self.inner.cache


@pytest.mark.parametrize(("module", "said"), [
    (Counter, r"'inner.cache' is changed in place by aten.add_.Tensor"),
    (Assigns, r"the module changes itself: The tensor attribute self.inner.cache was assigned"),
])  # fmt: skip
def test_a_module_that_changes_itself_is_refused(module, said):
    with pytest.raises(UnsupportedOp, match=said) as e:
        load_torch(module().eval(), (R(4),))
    assert "take the state as an input and return the new one" in e.value.hint


class Remembers(nn.Module):
    """Makes a table from its parameters when it is first called, and reads it later."""

    def __init__(self):
        super().__init__()
        self.bias, self.tables = nn.Parameter(R(4)), {}

    def forward(self, x):
        if (n := x.shape[0]) not in self.tables:
            self.tables[n] = self.bias[:n].outer(torch.arange(3.0))
        return self.tables[n] + x[:, None]


class FromTheFirst(nn.Module):
    """Fits itself to what it is first called with."""

    scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = 1 / x.std()
        return x * self.scale


class Scribbles(nn.Module):
    """Keeps what it computes in an attribute that each call makes anew before it reads it."""

    def __init__(self):
        super().__init__()
        self.seen = torch.zeros(4)

    def forward(self, x):
        self.seen = x * 2
        return self.seen + 1


def test_what_each_call_makes_anew_is_no_state():
    x, module = R(4), Scribbles().eval()
    with pytest.warns(UserWarning, match=r"self\.seen was assigned during export"):
        graph = load_torch(module, (x,))
    (got,) = evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}).values()
    np.testing.assert_array_equal(got, x * 2 + 1)


def test_a_table_of_parameters_that_a_module_keeps_is_no_change_of_it_but_one_of_its_inputs_is():
    x, module = R(4), Remembers().eval()
    graph = load_torch(module, (x,))
    (got,) = evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()}).values()
    np.testing.assert_allclose(got, module(x).detach(), rtol=1e-5)
    with pytest.raises(UnsupportedOp, match=r"the module changes itself: The tensor attribute self\.scale was assigned"):
        load_torch(FromTheFirst().eval(), (x,))


def test_a_number_that_is_read_from_a_tensor_is_computed_with():
    means_the_same(lambda x, t: x * t.item() + (t.item() * 3 - 1), R(3), torch.tensor(2.0))
    means_the_same(lambda x, t: x + t.item(), R(3), torch.tensor(2))
    with pytest.raises(UnsupportedOp, match="how many rows output 0 has depends on data"):
        load_torch(Apply(lambda x: x[x > 0]).eval(), (R(3),))


class Follows(nn.Module):
    """Holds its parameters in a list that is assigned again whenever one of them is, as nn.LSTM does."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift = nn.Parameter(R(4)), nn.Parameter(R(4))

    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if {"scale", "shift"} <= self._parameters.keys():
            super().__setattr__("own", [self.scale, self.shift])

    def forward(self, x):
        return x * self.own[0] + self.own[1]


@pytest.mark.parametrize(("module", "x"), [
    (Follows(), R(3, 4)),
    (nn.LSTM(4, 5, 2), R(6, 3, 4)),
    (nn.GRU(4, 5, bidirectional=True), R(6, 3, 4)),
    (nn.RNN(4, 5, batch_first=True), R(3, 6, 4)),
], ids=["list", "LSTM", "GRU", "RNN"])  # fmt: skip
def test_a_module_that_holds_its_own_parameters_does_not_change_itself(module, x):
    module = module.eval()
    got = autocomp.optimize(module, example_inputs=(x,), target="cpu")(x)
    with torch.no_grad():
        want = module(x)
    for g, w in zip(*(torch.utils._pytree.tree_leaves(y) for y in (got, want)), strict=True):
        torch.testing.assert_close(g, w, rtol=1e-5, atol=1e-5)


def test_parts_by_names_of_torch_s_own_graphs():
    """torch decomposes a module's graph as a GraphModule, which has a `code` and a `graph` of its own."""

    class Coded(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("code", R(4))
            self.graph, self.meta = nn.Parameter(R(4)), nn.Linear(4, 2)

        def forward(self, x):
            return self.meta(x * self.code + self.graph)

    module, x = Coded().eval(), R(3, 4)
    graph = load_torch(module, (x,))
    (got,) = evaluate(graph, {"x": x.numpy()}).values()
    np.testing.assert_allclose(got, module(x).detach().numpy(), rtol=1e-5, atol=1e-5)


def test_what_torch_cannot_decompose_is_a_model_error(monkeypatch):
    exported = torch.export.export(Apply(torch.frac).eval(), (R(1, 2),))
    monkeypatch.setattr("autocomp.frontends.torch.exported._decompositions", lambda *_: lambda program: 1 / 0)
    with pytest.raises(ModelError, match="exported: torch cannot decompose it: division by zero"):
        load_torch(exported)


def test_a_thing_of_torch_that_is_no_model():
    with pytest.raises(ModelError, match="a Tensor of torch is no model"):
        load_torch(R(3))


def test_a_remainder_of_zero_has_the_sign_of_what_is_divided():
    f = lambda x, y: (1 / torch.remainder(x, y), 1 / (x % -3), x % 0.5)
    x, y = torch.tensor([0.0, -0.0, 6.0, -6.0, 5.5, float("inf"), float("nan")]), torch.tensor([-3.0, 3.0, -3.0, 3.0, -2.0, 2.0, 2.0])
    program = autocomp.optimize(Apply(f).eval(), example_inputs=(x, y), target="cpu")
    for got, want in zip(program(x, y), f(x, y), strict=True):
        np.testing.assert_array_equal(got, want)


MIXED = {  # of tensors of several types
    "bool against a number": (lambda x, y: (x == 2, x < 1, x == 0.5, y == x), lambda: (R(6) > 0, torch.arange(6))),
    "int8 against uint8": (lambda x, y: (x < y, x == y),
                           lambda: (torch.tensor([-1, 3], dtype=torch.int8), torch.tensor([255, 3], dtype=torch.uint8))),
    "float16 against bfloat16": (lambda x, y: (x < y, x == y),
                                 lambda: (torch.tensor([1.0005, 3.0]).half(), torch.tensor([1.0, 3.0]).bfloat16())),
    "a scalar of float64": (lambda x, y: (x == y, x < y), lambda: (torch.tensor([0.1, 0.2]), torch.tensor(0.1, dtype=torch.float64))),
    "int against a float scalar": (lambda x, y: (x < y, x > 1.5), lambda: (torch.arange(5), torch.tensor(2.5))),
    "clamp": (lambda x, y: (x.clamp(0.5, 2.5), x.clamp(max=3), torch.clamp(y, min=x)), lambda: (torch.arange(6), R(6))),
    "rounding of integers": (lambda x, y: (x.floor(), x.trunc(), x.round(), x.ceil(), x.isnan(), x.isinf(), (x + 1).reciprocal()),
                             lambda: (torch.arange(6), R(1))),
    "stack": (lambda x, y: (torch.stack([x, y]), torch.cat([x, y])), lambda: (torch.arange(6), R(6))),
    "rms_norm": (lambda x, y: (F.rms_norm(x, (4,)), F.rms_norm(y, (4,))), lambda: (R(3, 4).double() * 1e-7, R(3, 4) * 1e-3)),
}  # fmt: skip


@pytest.mark.parametrize("name", MIXED)
def test_types_are_joined_as_torch_joins_them(name):
    f, inputs = MIXED[name]
    xs = inputs()
    program = autocomp.optimize(Apply(f).eval(), example_inputs=xs, target="cpu")
    for got, want in zip(program(*xs), f(*xs), strict=True):
        assert got.dtype == want.dtype
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_powers_that_torch_takes_for_roots(dtype):
    """Of -inf and -0.0: an exponent that is a number is a root in torch, a tensor of exponents is not."""
    x = torch.tensor([float("-inf"), -0.0, 0.0, float("inf"), -1, 4, float("nan")], dtype=dtype).repeat(6)
    y = torch.full_like(x, 0.5)
    for f in (lambda x, y: x**0.5, lambda x, y: x**-0.5, lambda x, y: x.pow(y), lambda x, y: x.pow(0.25), lambda x, y: 0.5**x):
        want, got = f(x, y), autocomp.optimize(Apply(f).eval(), example_inputs=(x, y), target="cpu")(x, y)
        assert torch.equal(got.isnan(), want.isnan())
        torch.testing.assert_close(got, want, equal_nan=True)
        assert torch.equal(got[~got.isnan()].signbit(), want[~want.isnan()].signbit())


@pytest.mark.parametrize("form", ["bool", "float", "causal too"])
def test_a_query_that_may_see_no_key_gets_zeros(form):
    """As torch does, where a shorter prompt is filled up on the left; softmax alone would give NaN, which the next layer spreads."""
    torch.manual_seed(0)
    q, mask = R(2, 2, 5, 8), torch.ones(2, 1, 5, 5, dtype=torch.bool)
    mask[1, :, :, :2] = False
    mask = mask.tril() if form == "causal too" else mask
    mask[0, :, 3] = False
    given = torch.zeros(mask.shape).masked_fill(~mask, float("-inf")) if form == "float" else mask
    module = Apply(lambda q, m: F.scaled_dot_product_attention(q, q, q, m)).eval()
    program = autocomp.optimize(module, example_inputs=(q, given), target="cpu", cache=False)
    want = F.scaled_dot_product_attention(q.double(), q.double(), q.double(), given if form != "float" else given.double()).numpy()
    assert np.isfinite(want).all() and not want[0, :, 3].any()
    np.testing.assert_allclose(program(q, given), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
@pytest.mark.parametrize("correction", (0, 1))
def test_squares_of_a_variance_may_be_beyond_a_short_type(dtype, correction):
    x = (torch.arange(512).reshape(8, 64) % 37 * 20 - 300).to(dtype)
    f = Apply(lambda x: (x.var(1, correction=correction), x.std(0), torch.var_mean(x, 1)[0])).eval()
    for got, want in zip(autocomp.optimize(f, example_inputs=(x,), target="cpu")(x), f(x)):
        assert want.isfinite().all()
        torch.testing.assert_close(got, want, rtol=0.01, atol=0)


def test_parts_of_nothing():
    x = torch.ones(0, 3)
    f = Apply(lambda x: (torch.cat(x.split(1, 0)[::-1], 0), len(x.split(2)) * torch.ones(2), x.chunk(3)[2])).eval()
    for got, want in zip(autocomp.optimize(f, example_inputs=(x,), target="cpu")(x), f(x)):
        assert torch.equal(got, want)


def test_an_index_that_is_a_number_of_the_data():
    means_the_same(lambda x, i: x[(i.count_nonzero() % 3).long()], R(3), torch.ones(2))


def test_arguments_that_are_called_as_parameters_are():
    class Named(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.n, self.linear = torch.nn.Parameter(torch.full((3,), 2.0)), torch.nn.Linear(3, 3)
            self.register_buffer("x", torch.full((3,), 5.0))

        def forward(self, n, x, linear):
            return n * self.n + x * self.x + self.linear(linear)

    module, args = Named().eval(), tuple(torch.randn(3) for _ in range(3))
    program = autocomp.optimize(module, target="cpu", example_inputs=args)
    torch.testing.assert_close(program(*args), module(*args))


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_weight_that_each_call_computes_is_no_change_of_the_module():
    """torch.nn.utils.weight_norm keeps it as an attribute with a gradient, which deepcopy refuses."""
    module = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 3)), nn.utils.spectral_norm(nn.Linear(3, 2))).eval()
    x = torch.randn(5, 4)
    torch.testing.assert_close(autocomp.optimize(module, example_inputs=(x,), cache=False)(x), module(x).detach())


def test_a_branch_behind_a_loop():
    """torch exports it by reading its code alone."""
    from torch._higher_order_ops.while_loop import while_loop

    class Loop(nn.Module):
        def forward(self, x, n):
            _, y = while_loop(lambda i, y: (i < n) & (y.max() < 9), lambda i, y: (i + 1, y * 1.5), (torch.zeros((), dtype=torch.int64), x))
            return torch.cond(y.mean() > 0.8, lambda y: y.sin(), lambda y: y - 1, (y,))

    program = autocomp.optimize(Loop().eval(), example_inputs=(torch.rand(5), torch.tensor(3)), cache=False)
    for n in (0, 3, 8):
        x = torch.rand(5)
        torch.testing.assert_close(program(x, torch.tensor(n)), Loop()(x, torch.tensor(n)))


class Policy(nn.Module):
    """What a policy's head computes, by torch.distributions, which ask whether the elements of their arguments are valid."""

    def __init__(self, checked=None):
        super().__init__()
        self.checked, self.of = checked, nn.Linear(6, 8)

    def forward(self, x, action):
        mean, logits = self.of(x).split([3, 5], -1)
        normal = D.Independent(D.Normal(mean, mean.abs() + 0.1, validate_args=self.checked), 1)
        choice, tail = D.Categorical(logits=logits), D.StudentT(mean.abs() + 2, mean)
        return normal.log_prob(action), choice.log_prob(logits.argmin(-1)), choice.entropy(), tail.log_prob(action)


def test_distributions_do_not_ask_whether_their_arguments_are_valid():
    x, action = R(4, 6), R(4, 3)
    module, before = Policy().eval(), D.Distribution._validate_args  # torch.compile ends all checks, once it has been used
    program = autocomp.optimize(module, example_inputs=(x, action), cache=False)
    for got, want in zip(program(x, action), module(x, action), strict=True):
        torch.testing.assert_close(got, want)
    assert D.Distribution._validate_args == before
    with pytest.raises(ValueError, match="to satisfy the constraint"):  # in calls of torch's own
        D.Normal(x, -x.abs(), validate_args=True if not before else None)


def test_a_choice_by_elements_is_refused_with_the_line_that_asks():
    with pytest.raises(ModelError, match=r"Policy, test_torch.py:\d+ in forward `normal = .*`: torch cannot export it"):
        load_torch(Policy(checked=True).eval(), (R(4, 6), R(4, 3)))


def test_covariances_ask_no_elements():
    """ATen's own asks for the number of rows less the correction, as a tensor."""
    def f(x, n, a):
        return (torch.cov(x, correction=2), x.t().cov(fweights=n), torch.cov(x, aweights=a, fweights=n.new_ones(5), correction=2),
                torch.cov(x[0], correction=0, aweights=a), torch.corrcoef(x), x[0].corrcoef())  # fmt: skip

    means_the_same(Apply(f), R(5, 5), torch.tensor([1, 3, 2, 1, 4]), R(5).abs() + 0.1)


class Asking(nn.Module):
    """Asks of elements what raises where it is not so."""

    def __init__(self):
        super().__init__()
        self.loss = nn.GaussianNLLLoss(full=True, reduction="none")

    def forward(self, x, target, var):
        if not (x > -99).all() or not torch.isfinite(target).all():
            raise ValueError("far off")
        assert x.min().item() > -99, "far off"
        return self.loss(x, target, var), x * 2


def test_checks_of_elements_that_raise_are_left_out_with_a_warning():
    xs = R(4, 6), R(4, 6), R(4, 6).abs() + 0.1
    with pytest.warns(UserWarning, match="a check of elements is not in the program: `(if not|assert x|elif torch.any)") as said:
        program = autocomp.optimize(Asking().eval(), example_inputs=xs, cache=False)
    assert len({(w.filename, w.lineno) for w in said if "a check of elements" in str(w.message)}) == 3
    for got, want in zip(program(*xs), Asking()(*xs), strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize(("code", "way"), [
    ("if x: raise E", False), ("if not x: raise E", True), ("assert x, y", True), ("assert not x", False),
    ("if x:\n  pass\nelse: raise E", True), ("if x or y: raise E", False), ("if not (x and y): raise E", True),
    ("if f(x) > 3: raise E", False),
    ("if x: raise E\nelse: raise E", None), ("if x: y = 1", None), ("if x or not y: raise E", None), ("y = x", None),
    ("if f(1 if x else 2): raise E", None), ("if any(t for t in x if t): raise E", None), ("if f(not x): raise E", None),
    ("while x: raise E", None), ("if x: raise E\n)", None),
])  # fmt: skip
def test_what_a_check_has_to_be_for_the_code_to_go_on(code, way):
    assert passing(tuple(code.splitlines(keepends=True)), 1) is way


@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_unsigned_integers(dtype):
    of = getattr(torch, dtype)
    x = (torch.arange(12) * 5449 - 3).reshape(3, 4).to(of)  # some wrap around
    f = Apply(lambda x, i: (x.to(torch.float32) / 8, x.to(torch.int64), x.reshape(-1)[i], (x.to(torch.float64) - 2).relu().to(x.dtype),
                            torch.cat([x, x]), x == x[0]))  # fmt: skip
    xs = (x, torch.tensor([3, 0, 11]))
    got = autocomp.optimize(f.eval(), example_inputs=xs, cache=False)(*xs)
    for a, b in zip(got, f(*xs), strict=True):
        assert a.dtype == b.dtype and torch.equal(a, b)
