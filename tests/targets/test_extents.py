"""The machine model of GPUs sees each access of threads, their copies and the bulk engine that leaves its tensor by a byte."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace

import numpy as np
import pytest

import autocomp
from autocomp.simulate.simt_model import COMPILER, ModelExecutor, ModelFailure, launch, load
from tests.helpers.device_graphs import graph
from tests.helpers.repeats import GPUS

pytestmark = pytest.mark.skipif(not COMPILER, reason="no C++ compiler (g++ or clang++)")

# in0 has 1019 halves, out0 1019 bytes: 10 and 5 bytes lie behind their ends that may be touched, and what is in front of them in their page
KERNELS = {
    "whole": ("if (threadIdx.x < 127) ac_load<8>(r, in0 + 8 * threadIdx.x);", ""),
    "load": ("ac_load<8>(r, in0 + 8 * threadIdx.x);", "16 bytes are read from byte 2032 of x on, which has 2038"),
    "first": ("if (threadIdx.x == 5) ac_load<1>(r, in0 - 1);", "2 bytes are read from byte -2 of x on"),
    "element": ("if (threadIdx.x == 5) ac_load<1>(r, in0 + 1019);", "2 bytes are read from byte 2038 of x on"),
    "copy": ("ac_copy<16>(smem + 16 * threadIdx.x, in0 + 8 * threadIdx.x, true);", "16 bytes are read from byte 2032 of x on"),
    "zeros": ("ac_copy<16>(smem + 16 * threadIdx.x, in0 + 8 * threadIdx.x, threadIdx.x < 127);", ""),
    "store": ("ac_store<8>(out0 + 8 * threadIdx.x, r);", "8 bytes are written from byte 1016 of y on, which has 1019"),
    "run": ("""if (threadIdx.x == 0) {
      ac_barrier_init(smem + 4096, 1);
      ac_barrier_fence();
      ac_barrier_expect(smem + 4096, 2048);
      ac_bulk_run(smem, in0, 2048, smem + 4096);
      ac_barrier_wait(smem + 4096, 0);
    }""", "2048 bytes are read from byte 0 of x on, which has 2038"),
}  # fmt: skip


def test_no_access_leaves_its_tensor_unseen(model, tmp_path):
    text = "".join(
        f'extern "C" __global__ void {n}(const f16 *in0, unsigned char *out0) {{\n  float r[8] = {{}};\n  {body}\n'
        f"  ac_commit();\n  ac_wait<0>();\n}}\nSIMT_KERNEL({n})\n"
        for n, (body, _) in KERNELS.items()
    )
    library = load({"k": text}, "cuda", tmp_path, model)
    sizes = {"x": 2038, "y": 1019}
    at = {n: library.simt_allocate(size, 0) for n, size in sizes.items()}
    given = [(n, at[n], size) for n, size in sizes.items()]
    for late in (True, False):
        for name, (_, said) in KERNELS.items():
            found = launch(library, name, [ctypes.c_void_p(x) for x in at.values()], [], grid=(1, 1, 1), block=128, wave=32, shared=8192,
                           late=late, given=given)  # fmt: skip
            assert said in found if said else not found, (name, found)
    for n, size in sizes.items():
        library.simt_release(at[n], size)


@pytest.mark.parametrize("target", GPUS)
def test_a_printed_vector_that_an_end_cuts_is_seen(target, model, tmp_path):
    """The element-wise store of the last tile, four elements wide: three past the end."""
    program = autocomp.optimize(graph({"x": "f16[4097]"}, "%out = exp(x)"), target=target, cache=False,
                                schedule={"exp": "tile i0 1024 | threads 128 | peel_tail"})  # fmt: skip
    ((name, source),) = program.printed.items()
    text, changed = re.subn(r"ac_store<1>\(", "ac_store<4>(", source.text)
    assert changed == 1
    # where elements are not a multiple of four behind the begin of the tile, the vector would be misaligned
    text = re.sub(r"(if \()([^;{]*\bac_store<4>)", r"\1q % 4 == 0 && \2", text)
    program.printed[name] = replace(source, text=text)
    with pytest.raises(ModelFailure, match=r"kernel exp: 8 bytes are written from byte 8192 of .* on, which has 8194"):
        ModelExecutor(program, tmp_path, model).run({"x": np.zeros(4097, "f2")})


@pytest.mark.parametrize("text", [graph({"x": "f32[0, 5]"}, "%0 = relu(x)"),
                                  graph({"x": "f32[0, 5]"}, "%1 = transpose(x, perm=[1, 0])\n%0 = matmul(%1, x)")])  # fmt: skip
def test_tensors_without_elements_have_kernels(text):
    assert autocomp.optimize(text, target="cuda:h200", cache=False).predicted > 0
