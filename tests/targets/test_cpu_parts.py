"""Parts of vectors on CPUs: elements in front of an end, in a mask or a step apart, in memory that ends where they do."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest

from autocomp.cost.host import facts
from tests.helpers.repeats import repeating

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64" or shutil.which("gcc") is None, reason="no gcc for x86-64 here")

PARTS = """
#include "autocomp_cpu.h"
#include <stdio.h>
#include <sys/mman.h>
#define N AC_LANES
static uint8_t *page, *out; /* 4096 bytes each, no memory before and behind them */
static int bad;
#define AT(T, first, last, end) ((end) ? (T *)(page + 4096) - (last) - 1 : (T *)page - (first))
#define SEE(T, s, x, p, step, on) for (long l = 0; l < N; l++) bad += x[l] != ((on) ? AS_##s(p[l * (step)]) : 0);
#define CHECK(T, V, s) \\
  for (int end = 0; end < 2; end++) { \\
    for (uint32_t k = 0; k < 1u << N; k += N > 8 && k % 1024 > 300 ? 31 : 1) { \\
      vm m; for (long l = 0; l < N; l++) m[l] = -(int)(k >> l & 1); \\
      long a = k ? __builtin_ctz(k) : 0, b = k ? 31 - __builtin_clz(k) : -1; \\
      T *p = AT(T, a, b, end); V x = V##_load##s##_where(m, p); SEE(T, s, x, p, 1, k >> l & 1) \\
      p = AT(T, 2 * a, 2 * b, end); x = V##_strided##s##_where(m, p, 2); SEE(T, s, x, p, 2, k >> l & 1) \\
      p = AT(T, 3 * a, 3 * b, end); x = V##_strided##s##_where(m, p, 3); SEE(T, s, x, p, 3, k >> l & 1) \\
    } \\
    for (long n = 0; n <= N; n++) { \\
      T *p = AT(T, 0, n - 1, end); V x = V##_load##s##_n(p, n); SEE(T, s, x, p, 1, l < n) \\
      p = AT(T, 0, n ? 2 * n - 2 : -1, end); x = V##_strided##s##_n(p, 2, n); SEE(T, s, x, p, 2, l < n) \\
      if (n == N) { x = V##_strided##s(p, 2); SEE(T, s, x, p, 2, 1) } \\
      p = AT(T, 0, n ? 5 * n - 5 : -1, end); x = V##_strided##s##_n(p, 5, n); SEE(T, s, x, p, 5, l < n) \\
      if (n == N) { x = V##_strided##s(p, 5); SEE(T, s, x, p, 5, 1) } \\
      T *q = end ? (T *)(out + 4096) - n : (T *)out; \\
      memset(out, 0x77, 4096); V##_store##s##_n(q, V##_load##s((T *)page), n); \\
      bad += memcmp(q, page, n * sizeof(T)) != 0; \\
      for (uint8_t *z = out; z < out + 4096; z++) bad += (z < (uint8_t *)q || z >= (uint8_t *)(q + n)) && *z != 0x77; \\
    } \\
  }
#define AS_(x) (x)
#define AS__i8(x) (int8_t)(x)
#define AS__u8(x) (uint8_t)(x)
#define AS__i16(x) (int16_t)(x)
#define AS__u16(x) (uint16_t)(x)
#define AS__f16(x) s_from_f16(x)
#define AS__bf16(x) s_from_bf16(x)
int main(void) {
  uint8_t *m = mmap(0, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  page = m + 4096, out = m + 3 * 4096;
  for (int i = 0; i < 4096; i++) page[i] = (uint8_t)((i * 37 + 11) & 0x3b | (i * 13 & 0x80)); /* no half or float of it is a NaN */
  for (int i = 0; i < 5; i += 2) mprotect(m + i * 4096, 4096, PROT_NONE);
  CHECK(float, vf, ) CHECK(int32_t, vi, ) CHECK(int8_t, vi, _i8) CHECK(uint8_t, vi, _u8) CHECK(int16_t, vi, _i16) CHECK(uint16_t, vi, _u16)
  CHECK(f16, vf, _f16) CHECK(bf16, vf, _bf16)
  printf("%d\\n", bad); return 0;
}
"""


@pytest.mark.parametrize(("level", "lanes", "optimised"), repeating(
    [(*of, o) for of in (("x86-64-v4", 16), ("x86-64-v3", 8), ("x86-64", 4)) for o in ("-O1", "-O3")],
    {("x86-64-v4", 16, "-O1"): "-O3", ("x86-64-v3", 8, "-O1"): "-O3", ("x86-64", 4, "-O3"): "-O1"}))  # fmt: skip
def test_nothing_beside_the_part_is_touched(level: str, lanes: int, optimised: str, tmp_path: Path) -> None:
    if lanes * 4 > facts().vector_bytes:
        pytest.skip(f"this machine does not run {level}")
    (tmp_path / "parts.c").write_text(f"#define AC_LANES {lanes}\n{PARTS}", encoding="utf-8")
    include = files("autocomp.targets.cpu") / "include"
    flags = [optimised, f"-march={level}", "-fno-strict-aliasing", "-fopenmp", f"-I{include}"]
    subprocess.run(["gcc", *flags, "parts.c", "-o", "parts", "-lm"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "parts"], capture_output=True, text=True, check=True).stdout == "0\n"


READS = """
#define AC_LANES 8
#include "autocomp_cpu.h"
vi bytes_n(const uint8_t *p, long n) { return vi_load_u8_n(p, n); }
vi bytes_where(const uint8_t *p, vm m) { return vi_load_u8_where(m, p); }
vi bytes_strided(const uint8_t *p) { return vi_strided_u8(p, 2); }
vf halves_n(const f16 *p, long n) { return vf_load_f16_n(p, n); }
vf halves_strided(const f16 *p, vm m) { return vf_strided_f16_where(m, p, 2); }
void store_bytes(uint8_t *p, vi x, long n) { vi_store_u8_n(p, x, n); }
void store_halves(f16 *p, vf x, long n) { vf_store_f16_n(p, x, n); }
vf floats_two(const float *p) { return vf_strided(p, 2); }
vf floats_n(const float *p, long n) { return vf_strided_n(p, 2, n); }
void store_floats(float *p, vf x, long n) { vf_store_n(p, x, n); }
void store_integers(int32_t *p, vi x) { vi_store_n(p, x, 7); }
vf gathered(const float *p, vm m, vi at) { return vf_gather_where(m, p, at); }
"""


def test_parts_of_avx2_vectors_are_put_together_in_registers(tmp_path: Path) -> None:
    """Lanes that are written to the stack one by one and read back as a vector wait until all of them are in the cache."""
    (tmp_path / "reads.c").write_text(READS, encoding="utf-8")
    include = files("autocomp.targets.cpu") / "include"
    flags = ["-O3", "-mavx2", "-mfma", "-mf16c", "-fno-strict-aliasing", "-fopenmp", f"-I{include}", "-S"]
    subprocess.run(["gcc", *flags, "reads.c", "-o", "reads.s"], cwd=tmp_path, check=True)
    text = (tmp_path / "reads.s").read_text(encoding="utf-8")
    assert "(%rsp)" not in text
    assert not re.search(r"vp?maskmov\w+\s+%ymm\d+, %ymm\d+, .*\(", text)  # a store under a mask: microcode before Zen 4
