"""Convolution nets that became channels last, as printed for GPUs: their copies, and their results on the CPU model."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.ir.types import F16
from autocomp.simulate.simt_model import COMPILER, ModelExecutor
from tests.helpers.nets import residual_net

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler on PATH")


@pytest.mark.parametrize(("target", "image"), [("cuda:h200", False), ("cuda:h200", True), ("maca:c500", True)])
def test_a_net_computes_its_graph(target, image, model, tmp_path):
    program = autocomp.optimize(residual_net(32, 14, F16, blocks=1, image=image), target=target)
    executor = ModelExecutor(program, tmp_path, model)
    program.executor = executor
    for late in (True, False):
        executor.late = late
        program.verify()


def test_every_product_is_fed_by_whole_copies():
    """At a size where it matters: bulk boxes or 16 bytes at a time into matrix instructions, in each kernel with a convolution."""
    program = autocomp.optimize(residual_net(64, 56, F16, blocks=1, image=False), target="cuda:h200")
    fed = {k.name: ("ac_bulk_load(" in k.source or "ac_copy<16>(" in k.source, "wgmma" in k.source or "ac_mma" in k.source)
           for k in program.kernels if "conv" in k.ops}  # fmt: skip
    assert len(fed) == 3
    assert set(fed.values()) == {(True, True)}
    plain = autocomp.optimize(residual_net(64, 56, F16, blocks=1), target="cuda:h200", without=("layout/conv-channels-last",))
    windows = [k for k in plain.kernels if "conv" in k.ops]
    assert windows and all("ac_bulk_load(" not in k.source for k in windows)
