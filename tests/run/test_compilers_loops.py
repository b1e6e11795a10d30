"""What a C compiler makes of loops with conditions in them, compiled as kernels are: gcc 12 and 13 read one of two complementary masked
loads as zeros where they turn conditions into masks (`-ftree-loop-if-convert`)."""

import subprocess
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from autocomp.targets.cpu.toolchain import FLAGS, Toolchain

import autocomp
from autocomp.ir.types import DTYPES

KERNEL = """
#include <stdint.h>
#include <string.h>
#include <stdio.h>
__attribute__((noinline)) void {name}(const {x} *restrict in, {y} *restrict out) {{
  for (long i = 0; i < 16; i++) for (long j = 0; j < {n}; j++) for (long k = 0; k < {m}; k++) {{
    {w} v = j < {n} / 2 ? ({w})in[(i * {n} / 2 + j) * {m} + k] : ({w})in[(i * {n} / 2 + j - {n} / 2) * {m} + k];
    out[(i * {n} + j) * {m} + k] = ({y})({change});
  }}
}}
__attribute__((optimize("O0"))) static int check_{name}(void) {{
  static {x} in[16 * {n} * {m}];
  static {y} out[16 * {n} * {m}];
  int wrong = 0;
  for (int i = 0; i < 16 * {n} * {m}; i++) in[i] = ({x})(i * 37 % 113);
  memset(out, 0xff, sizeof out);
  {name}(in, out);
  for (volatile long i = 0; i < 16; i++) for (volatile long j = 0; j < {n}; j++) for (volatile long k = 0; k < {m}; k++) {{
    volatile {w} v = ({w})in[(i * {n} / 2 + j % ({n} / 2)) * {m} + k];
    wrong += out[(i * {n} + j) * {m} + k] != ({y})({change});
  }}
  return wrong;
}}
"""
TYPES = ("int16_t", "int32_t", "int64_t")
CHANGES = ("v > 2 ? v * 3 + 1 : v - 7", "v & 1 ? (v >> 1 | 5) : (v ^ 9)")


@pytest.mark.parametrize("machine", [("-march=native",), ("-march=x86-64-v3",)], ids=["native", "avx2"])
def test_two_masked_loads_are_both_read(tmp_path: Path, machine: tuple[str, ...]) -> None:
    cpu = Path("/proc/cpuinfo")
    if machine[0] != "-march=native" and not (cpu.is_file() and " avx2 " in cpu.read_text()):
        pytest.skip("no AVX2 on this machine")
    drawn = product(TYPES, TYPES, ("int32_t", "int64_t"), ((8, 3), (6, 5)), CHANGES)
    cases = [dict(name=f"f{i}", x=x, y=y, w=w, n=n, m=m, change=c) for i, (x, y, w, (n, m), c) in enumerate(drawn)]
    checks = "".join(f"  if (check_{c['name']}()) {{ printf(\"{c['name']} \"); wrong++; }}\n" for c in cases)
    text = "".join(KERNEL.format(**c) for c in cases) + "int main(void) {\n  int wrong = 0;\n" + checks + "  return wrong > 0;\n}\n"
    (tmp_path / "loops.c").write_text(text)
    Toolchain(machine=machine).compile(tmp_path, ["loops.c"], tmp_path / "loops", program=True)
    done = subprocess.run([tmp_path / "loops"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), f"wrong in {len(done.stdout.split())} of {len(cases)} loops"


@pytest.mark.parametrize("dtype", ["bf16", "f16", "f32", "i16", "i32", "i64"])
def test_a_concat_of_short_rows_and_a_choice(dtype: str) -> None:
    """As torch.hstack of one tensor with itself: rows of three elements, which no vector takes."""
    two = f"const(2, {dtype})" if dtype.startswith("i") else f"const(2.0, {dtype})"
    text = f"""graph g
input a: {dtype}[16, 4, 3]
%0 = concat(a, a, axis=1)
%1 = gt(%0, {two})
%2 = mul(%0, {two})
%3 = where(%1, %2, %0)
output y = %0
output z = %3
"""
    a = (np.arange(192).reshape(16, 4, 3) % 7).astype(DTYPES[dtype].numpy)
    y, z = autocomp.optimize(text, target="cpu")(a)
    want = np.concatenate([a, a], axis=1)
    assert np.array_equal(y, want) and np.array_equal(z, np.where(want > 2, want * want.dtype.type(2), want))


@pytest.mark.parametrize("shape", [(16, 16, 4), (5, 16, 3), (33, 8)])
def test_elements_of_vectors_that_were_stored_are_read_one_by_one(shape: tuple[int, ...]) -> None:
    """Truth values of a row are stored as vectors of i32, by functions that take floats, and searched one by one: gcc may read them before
    they are stored where it believes that a float is no integer."""
    assert "-fno-strict-aliasing" in FLAGS
    rng = np.random.default_rng(3)
    x = np.where(rng.random(shape) < 0.2, np.nan, rng.standard_normal(shape)).astype("f4")
    find = lambda x: np.argmax(np.isnan(x).astype("i4"), axis=-1) // -3
    assert np.array_equal(autocomp.optimize(find, target="cpu", example_inputs=(x,))(x), find(x))
