"""torch's RNN, GRU and LSTM are loops: equal to torch in float64, open batches."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import autocomp  # noqa: E402
from autocomp.errors import UnsupportedOp  # noqa: E402
from autocomp.frontends.torch.call import Call  # noqa: E402
from autocomp.frontends.torch.export import load_torch  # noqa: E402
from autocomp.frontends.torch.recurrent import gru, lstm  # noqa: E402
from autocomp.ir.builder import Builder  # noqa: E402
from autocomp.ir.loop_bodies import loops_of  # noqa: E402
from autocomp.ir.reference import evaluate  # noqa: E402
from autocomp.ir.types import F32, TensorType  # noqa: E402

nn = torch.nn


class Whole(nn.Module):
    """All results of a module, flat."""

    def __init__(self, m):
        super().__init__()
        self.m = m

    def forward(self, x):
        y, state = self.m(x)
        return (y, *state) if isinstance(state, tuple) else (y, state)


@pytest.fixture(autouse=True)
def quiet():
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def inputs(m, steps, batch=3):
    shape = (batch, steps, m.input_size) if m.batch_first else (steps, batch, m.input_size)
    return torch.randn(shape)


def wanted(module, x):
    out = [v.detach().numpy() for v in module.double()(x.double())]
    module.float()
    return out


MODULES = {
    "lstm, two layers, both ways": lambda: nn.LSTM(4, 5, 2, batch_first=True, bidirectional=True),
    "lstm, projected": lambda: nn.LSTM(4, 8, 2, proj_size=3),
    "lstm, no bias": lambda: nn.LSTM(4, 5, bias=False),
    "gru, two layers, both ways": lambda: nn.GRU(4, 5, 2, bidirectional=True),
    "gru, no bias": lambda: nn.GRU(4, 5, bias=False, batch_first=True),
    "rnn": lambda: nn.RNN(4, 5, 2),
    "rnn, relu": lambda: nn.RNN(4, 5, nonlinearity="relu"),
}


@pytest.mark.parametrize("name", MODULES)
def test_each_means_what_torch_s_means(name):
    m = MODULES[name]()
    module, x = Whole(m).eval(), inputs(m, 6)
    graph = load_torch(module, (x,))
    assert len({(n.inputs, n.attrs["body"]) for n in loops_of(graph)}) == m.num_layers * (2 if m.bidirectional else 1)
    got = evaluate(graph, {graph.inputs[0].attrs["name"]: x.numpy()})
    for a, b in zip(got.values(), wanted(module, x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)  # weights are f32 in both


@pytest.mark.parametrize("name", ["lstm, two layers, both ways", "gru, no bias"])
def test_compiled(name):
    m = MODULES[name]()
    module, x = Whole(m).eval(), inputs(m, 7)
    program = autocomp.optimize(module, example_inputs=(x,), target="cpu")
    assert program.calls.loops
    for a, b in zip(program(x), wanted(module, x), strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5, atol=1e-6)


def test_open_batch():
    """The number of steps is fixed by torch.export itself, which goes through them."""
    m = nn.LSTM(4, 5)
    module = Whole(m).eval()
    dims = {1: torch.export.Dim("batch", min=1, max=16)}
    exported = torch.export.export(module, (inputs(m, 5),), dynamic_shapes={"x": dims})
    program = autocomp.optimize(exported, target="cpu")
    assert len(program.calls.loops) == 1
    assert len(program.calls.calls) < 12
    for batch in (1, 16):
        x = inputs(m, 5, batch)
        for a, b in zip(program(x), wanted(module, x), strict=True):
            np.testing.assert_allclose(np.asarray(a), b, rtol=1e-4, atol=1e-5)


def test_what_is_refused():
    b = Builder()
    x, sizes = b.input("x", TensorType(F32, (5, 4))), b.input("n", TensorType(F32, (2,)))
    with pytest.raises(UnsupportedOp, match="packed sequences"):
        lstm(Call(b, "lstm", None, "here"), x, sizes, [x, x], [x], True, 1, 0.0, False, False)
    with pytest.raises(UnsupportedOp, match="packed sequences"):
        gru(Call(b, "gru", None, "here"), x, sizes, x, [x], True, 1, 0.0, False, False)
    with pytest.raises(UnsupportedOp, match="drops 50% of what is between its layers"):
        lstm(Call(b, "lstm", None, "here"), x, [x, x], [x] * 8, True, 2, 0.5, True, False, False)


@pytest.mark.parametrize("reverse", [False, True])
def test_the_layer_that_torch_decomposes_to_on_cpus(reverse):
    """Of releases whose export takes an LSTM apart."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(4, 5)

        def forward(self, x, h, c):
            w = [p.detach() for p in self.lstm.parameters()]
            return torch.ops.aten.mkldnn_rnn_layer(x, *w, h, c, reverse, [], 2, 5, 1, True, False, False, False)[:3]

    module, given = Layer().eval(), (torch.randn(6, 2, 4), torch.randn(1, 2, 5), torch.randn(1, 2, 5))
    flipped = given[0].flip(0) if reverse else given[0]
    with torch.no_grad():
        y, (h, c) = module.lstm(flipped, given[1:])
    program = autocomp.optimize(module, target="cpu", example_inputs=given)
    for got, want in zip(program(*given), (y.flip(0) if reverse else y, h, c), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-4, atol=1e-5)
    for got, want in zip(program(*given), module(*given), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("projected", [0, 3])
def test_lstm_where_torch_traces_states_with_a_dimension_more(monkeypatch, projected):
    """As torch 2.11 does for layers that are not oneDNN's."""
    from torch._decomp import decompositions

    layer = decompositions.one_layer_lstm

    def with_more(x, hidden, *args, **kwargs):
        out, states = layer(x, hidden, *args, **kwargs)
        return out, tuple(s.unsqueeze(0) for s in states)

    monkeypatch.setattr(decompositions, "one_layer_lstm", with_more)
    torch._C._set_mkldnn_enabled(False)
    try:
        module = Whole(nn.LSTM(4, 5, 2, proj_size=projected, bidirectional=True)).eval()
        x = torch.randn(6, 3, 4)
        program = autocomp.optimize(module, example_inputs=(x,))
    finally:
        torch._C._set_mkldnn_enabled(True)
    for got, want in zip(program(x), wanted(module, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert decompositions.one_layer_lstm is with_more
