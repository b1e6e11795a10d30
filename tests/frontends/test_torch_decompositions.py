"""torch's table of decompositions: made once, for the operators that there are."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")

from autocomp.frontends.torch import exported  # noqa: E402


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
