"""torch's table of decompositions: made once, for the operators that there are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

from autocomp.frontends.text import show  # noqa: E402
from autocomp.frontends.torch import exported  # noqa: E402
from autocomp.frontends.torch.export import Reader  # noqa: E402
from autocomp.frontends.torch.renamed import renamed  # noqa: E402


class Twice(torch.nn.Module):
    def forward(self, x):
        return torch.ops.autocomp_tests.twice(x) * 3


def targets(module) -> set[str]:
    program = exported.decompose(exported.export(module, (torch.ones(2, 3),)), "m")
    return {str(n.target) for n in program.graph.nodes if n.op == "call_function"}


def test_the_table_is_made_once_until_a_library_brings_operators(monkeypatch):
    made, default = [], torch.export.default_decompositions
    monkeypatch.setattr(torch.export, "default_decompositions", lambda: made.append(1) or default())
    exported._decompositions.cache_clear()
    plain = targets(torch.nn.Linear(3, 2))
    assert targets(torch.nn.Linear(3, 2)) == plain == {"aten.linear.default"}
    assert len(made) == 1
    library = torch.library.Library("autocomp_tests", "DEF")
    try:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x + x, "CompositeImplicitAutograd")
        assert targets(Twice()) == {"aten.add.Tensor", "aten.mul.Tensor"}
        assert len(made) == 2
    finally:
        library._destroy()


class Mixed(torch.nn.Module):
    """Composite operators that are kept, that the dispatcher decomposes, and that torch decomposes otherwise."""

    def forward(self, x):
        y = torch.nn.functional.one_hot(x.argmax(1), 3) + torch.einsum("ij,kj->ik", x, x).sum()
        return torch.nn.functional.linear(torch.nn.functional.silu(x), y.float()), torch.broadcast_tensors(x, y)[0].reshape(3, 2).flatten()


def test_a_program_is_decomposed_as_torch_does_it_without_looking_at_all_operators_again(monkeypatch):
    exported._decompositions.cache_clear()
    program = exported.export(Mixed(), (torch.randn(2, 3),))
    got = str(exported.decompose(program, "m").graph)
    looked, collect = [], torch.export.exported_program._collect_all_valid_cia_ops
    monkeypatch.setattr(torch.export.exported_program, "_collect_all_valid_cia_ops", lambda: looked.append(1) or collect())
    assert str(exported.decompose(program, "m").graph) == got and not looked
    with monkeypatch.context() as m:  # a torch whose steps are others
        m.delattr(torch.export.exported_program, "_decompose_exported_program")
        assert exported._prepared({}) is None
    exported._decompositions.cache_clear()
    monkeypatch.setattr(exported, "_prepared", lambda table: None)
    assert str(exported.decompose(program, "m").graph) == got and looked
    exported._decompositions.cache_clear()


class Residual(torch.nn.Module):
    """What networks of convolutions have, written in place where they do."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.end = torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.BatchNorm2d(3), torch.nn.Linear(12, 2)

    def forward(self, x):
        y = self.norm(self.conv(x))
        z = y
        y += x
        torch.relu_(y)
        y = torch.nn.functional.dropout(torch.nn.functional.max_pool2d(torch.cat([y, z], 1), 2), 0.5, self.training)
        return self.end(y[:, :3].flatten(1)), y.mean((2, 3)), torch.nn.functional.adaptive_avg_pool2d(y, 1)


class Words(torch.nn.Module):
    """What models of language have: masks of positions, heads, casts, differences, gates in place."""

    def forward(self, x):
        a, b = (x.half().type_as(x) + torch.zeros_like(x)).chunk(2, 1)
        y = torch.nn.functional.hardswish(a + b, inplace=True) * torch.nn.functional.hardsigmoid(a)
        at = torch.arange(4)
        mask = (at[:, None] >= at) & (at.diff(prepend=torch.ones(1, dtype=torch.int64)) > 0)
        heads = y.reshape(2, 3, 2, 2).transpose(1, 2).contiguous().view(2, 2, 6).squeeze(0)
        return torch.where(mask, y.unflatten(1, (3, 1))[:, 0, :, :].mT @ y.new_ones(2, 1, 4), -1.0), heads, y.t() if y.dim() == 2 else y


def of_view(x):
    y = x.exp()
    y.view(-1).relu_()
    return y


def seen_by_a_view(x):
    y = x.exp()
    z = y[:, 1:]
    y.mul_(2.0)
    return z + 1


def of_an_input(x):
    return x.relu_() + 1


def widened(x):
    return x.exp().add_(torch.ones(1, dtype=torch.float64))


def of_wider_numbers(x):
    return torch.where(x > 0, x.long(), 0.5)


def of_no_dimension(x):
    return x.sum().flatten()


@pytest.mark.parametrize(("module", "shape"), [(Residual(), (2, 3, 4, 4)), (Words(), (2, 6, 4))], ids=["convolutions", "words"])
def test_operators_of_other_names_are_read_as_torch_decomposes_them(module, shape):
    program = exported.export(module.eval(), (torch.randn(shape),))
    core = renamed(program)
    got, want = (Reader(p, "m").graph() for p in (core, exported.decompose(program, "m")))
    assert show(got) == show(want)
    assert {*got.locations.values()} == {*want.locations.values()}


@pytest.mark.parametrize("f", [of_view, seen_by_a_view, of_an_input, widened, of_wider_numbers, of_no_dimension, torch.logcumsumexp])
def test_other_programs_are_left_to_torch(f):
    class Module(torch.nn.Module):
        def forward(self, x):
            return f(x, 0) if f is torch.logcumsumexp else f(x)

    x = torch.randn(2, 3)
    assert renamed(torch.export.export(Module(), (x,))) is None
    assert renamed(torch.export.export(Module(), (x,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))) is None
