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
