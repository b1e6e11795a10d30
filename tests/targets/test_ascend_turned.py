"""Transposes on vector cores of Ascend: a tile is copied as it lies in memory and turned in unified buffer."""

from __future__ import annotations

import pytest

import autocomp
from autocomp.simulate.ascend_model import COMPILER, AscendExecutor, ModelFailure
from tests.helpers import fresh
from tests.helpers.device_graphs import graph
from tests.helpers.edits import Edit

pytestmark = pytest.mark.skipif(not COMPILER, reason="no g++")
INPUTS = {"x": "f32[6, 37, 65]", "h": "f16[130, 70]", "b": "bf16[33, 9]", "i": "i8[70, 41]", "m": "bool[19, 50]", "y": "f32[65, 222]",
          "few": "f32[40, 8]", "odd": "f32[4096, 13]", "z": "f16[70, 130]"}  # fmt: skip
LINES = {"out": "transpose(x, perm=[2, 0, 1])", "half": "transpose(h, perm=[1, 0])", "brain": "transpose(b, perm=[1, 0])",
         "bytes": "transpose(i, perm=[1, 0])", "truths": "transpose(m, perm=[1, 0])", "single": "transpose(few, perm=[1, 0])",
         "narrow": "transpose(odd, perm=[1, 0])",
         "_e": "exp(h)", "_t": "transpose(%_e, perm=[1, 0])", "fused": "add(%_t, %half)", "beside": "add(%half, z)"}  # fmt: skip


def compiled():
    text = graph(INPUTS, "\n".join(f"%{n} = {e}" for n, e in LINES.items()))
    text = text[: text.index("output")] + "".join(f"output {n} = %{n}\n" for n in LINES if not n.startswith("_"))
    return autocomp.optimize(text, target="ascend:910b", without=["tiling/npu-scalar-*"])


def test_transposes_of_odd_sizes_and_all_short_types(tmp_path):
    program = compiled()
    assert sum("ac_turn(" in s.text for s in program.printed.values()) >= 6
    program.executor = AscendExecutor(program, tmp_path)
    program.verify(seed=fresh.seed())


@pytest.mark.parametrize(("was", "by"), [("i % 2 * 8]", "(1 - i % 2) * 8]"), ("(c + i / 2) * to", "(c + i % 8) * to"),
                                         ("p.srcRepStride = one ? 0 : 1;", "p.srcRepStride = 1;"),
                                         ("cols - c + 7 :", "cols - c :"),
                                         ("x[(r + i) * from + c].GetPhyAddr()", "x[(r + i) * from + c].GetPhyAddr() + 32")])  # fmt: skip
def test_another_order_of_blocks_is_seen(was, by, tmp_path):
    edit = Edit(was, by)
    program = compiled()
    program.executor = AscendExecutor(program, tmp_path, edit_header=edit)
    with pytest.raises((ModelFailure, autocomp.VerificationError)):
        program.verify(seed=1)
    assert edit.found
