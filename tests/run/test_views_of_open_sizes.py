"""Reshapes that merge or split open sizes are no copies on CPUs: the tensor lies where its operand does, which lives as long."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'autocomp[torch]')")
import autocomp  # noqa: E402
from autocomp.ir.sizes import with_computed  # noqa: E402
from autocomp.runtime import cuda as cuda_executor  # noqa: E402
from autocomp.runtime.plan import arena  # noqa: E402

pytestmark = pytest.mark.torch
B, S = torch.export.Dim("b", min=1, max=16), torch.export.Dim("s", min=2, max=64)


class Rows(torch.nn.Module):
    """Merged from the input and from what is computed; split again; read late, when its operand has been read; given back."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.first, self.second = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        b, s, _ = x.shape
        rows = x.reshape(b * s, 8)
        early = torch.cumsum(x, 2).reshape(b * s, 8)
        late = self.second(torch.cumsum(self.first(rows), 1))
        many = (torch.cumsum(late, 0) + early).reshape(b, s, 8)
        return many.softmax(-1), (late.cumsum(1) * 2).reshape(b, s, 8), rows


def program_of():
    exported = torch.export.export(Rows().eval(), (torch.randn(2, 5, 8),), dynamic_shapes=({0: B, 1: S},))
    return autocomp.optimize(exported, target="cpu", cache=False)


def test_merged_and_split_sizes_are_views():
    program, module = program_of(), Rows().eval()
    views = program.slots.views
    copied = [c for c in program.calls.calls if c.kernel.opaque and c.args[c.kernel.outputs[0].name] not in views]
    assert len(views) >= 2 and {c.args[c.kernel.outputs[0].name] for c in copied} <= {t for _, t in program.calls.outputs}
    assert any(of in program.calls.source.inputs[0].attrs["name"] or of in program.slots.temporary for of in views.values())
    assert "is a view: nothing runs" in {k.schedule for k in program.kernels}
    program.executor.poison = True
    kept = []
    for b, s in ((2, 5), (1, 2), (16, 33), (3, 7), (2, 5)):
        x = torch.randn(b, s, 8)
        given = x.clone()
        got = program(x)
        with torch.no_grad():
            want = module(x)
        kept.append((got, [g.clone() for g in got]))
        assert torch.equal(x, given)
        for g, w in zip(got, want, strict=True):
            torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-4)
    for got, before in kept:  # later calls write into no result
        assert all(torch.equal(a, b) for a, b in zip(got, before))


def test_a_view_lies_in_its_operand_which_lives_as_long():
    program = program_of()
    program(torch.randn(3, 4, 8))
    executor, views = program.executor, program.slots.views
    frame = executor.frame((3, 4))
    for t, of in views.items():
        assert program.slots.last_use[of] >= program.slots.last_use[t]
        if of in frame.tensors:
            assert np.shares_memory(frame.tensors[t], frame.tensors[of])
            assert frame.table[program.slots.index[t]] == frame.table[program.slots.index[of]]
    assert sum(end - start for start, end, opaque in executor.runs if opaque) == sum(
        bool(c.kernel.opaque) and c.args[c.kernel.outputs[0].name] not in views for c in program.calls.calls)  # fmt: skip


def test_on_gpus_nothing_is_launched_for_a_view():
    """Kernels read and write its operand's memory: the arena has no place for it, and no host copies it."""
    pytest.importorskip("cuda.core")
    exported = torch.export.export(Rows().eval(), (torch.randn(2, 5, 8),), dynamic_shapes=({0: B, 1: S},))
    program = autocomp.optimize(exported, target="cuda:h200")
    g, views = program.calls, program.slots.views
    at = cuda_executor.CudaExecutor.__new__(cuda_executor.CudaExecutor)
    at.calls, at.slots, at.sources, at.kernels = g, program.slots, program.printed, dict.fromkeys(program.printed)
    at._config, at._upload = (lambda call, values, early: early), (lambda x: None)
    values = with_computed({d.name: 3 for n in g.source.inputs for d in n.type.shape if not isinstance(d, int)}, g.computed)
    offsets, _ = arena(g, program.slots, values, views)
    placed = {*offsets, *g.inputs, *g.params, *g.constants, *(t for _, t in g.outputs)}
    launches = at._listed(values)
    assert views and {t for one in launches if isinstance(one, cuda_executor._Launch) for t in one.arguments} <= placed - views.keys()
    hosted = [one.call for one in launches if isinstance(one, cuda_executor._OnHost)]
    assert {c.args[c.kernel.outputs[0].name] for c in hosted} <= {t for _, t in g.outputs}
    assert len(launches) == len(g.calls) - len(views)
    assert "is a view: nothing runs" in {k.schedule for k in program.kernels}
