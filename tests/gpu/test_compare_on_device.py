"""`compare` on a device: programs, torch and Triton functions and CUDA C++ by hand as sides, with clocks, ceilings, registers."""

from __future__ import annotations

import importlib.util

import pytest

import autocomp
from autocomp.options import Options
from autocomp.report.two_sides import two_sides

MODEL = """graph gemm
input x: f32[256, 512]
param w: f32[512, 384] = random(1)
%0 = matmul(x, w)
%1 = relu(%0)
output y = %1
"""
CUDA = """extern "C" __global__ void gemm(const float* x, const float* w, float* y) {
  int i = blockIdx.x, j = blockIdx.y * blockDim.x + threadIdx.x;
  float s = 0;
  for (int k = 0; k < 512; k++) s += x[i * 512 + k] * w[k * 384 + j];
  y[i * 384 + j] = s > 0 ? s : 0;
}
extern "C" __global__ void wrong(const float* x, const float* w, float* y) {
  y[blockIdx.x * 384 + blockIdx.y * blockDim.x + threadIdx.x] = x[0];
}
extern "C" __global__ void shared(const float* x, const float* w, float* y) {
  extern __shared__ float row[];
  for (int k = threadIdx.x; k < 512; k += blockDim.x) row[k] = x[blockIdx.x * 512 + k];
  __syncthreads();
  for (int j = threadIdx.x; j < 384; j += blockDim.x) {
    float s = 0;
    for (int k = 0; k < 512; k++) s += row[k] * w[k * 384 + j];
    y[blockIdx.x * 384 + j] = s > 0 ? s : 0;
  }
}
"""
TORCH = """import torch
def gemm(x, w):
    return torch.relu(x @ w)
"""
TRITON = """import torch
import triton
import triton.language as tl

@triton.jit
def kernel(x, w, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    j = tl.program_id(1) * B + tl.arange(0, B)
    s = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, 32):
        k = k0 + tl.arange(0, 32)
        s += tl.dot(tl.load(x + i[:, None] * K + k[None, :]), tl.load(w + k[:, None] * N + j[None, :]), input_precision="ieee")
    tl.store(y + i[:, None] * N + j[None, :], tl.maximum(s, 0.0))

def gemm(x, w):
    y = torch.empty((x.shape[0], w.shape[1]), device=x.device, dtype=x.dtype)
    kernel[(x.shape[0] // 64, w.shape[1] // 64)](x, w, y, x.shape[0], w.shape[1], x.shape[1], 64)
    return y
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("device_sides")
    for name, text in (("m.txt", MODEL), ("k.cu", CUDA), ("k.py", TORCH), ("t.py", TRITON)):
        (folder / name).write_text(text)
    return folder


def compared(here, other, ceilings=False, **options):
    build = lambda model, target, options: autocomp.optimize(model, target=target, options=options)
    return two_sides("plain", other.format(here=here), build, f"{here}/m.txt", Options(**options), "cuda", 20, ceilings=ceilings)


@pytest.mark.parametrize("other", ["{here}/k.cu:gemm<<<(256,3),128>>>", "{here}/k.cu:shared<<<256,128,2048>>>",
                                   "{here}/k.cu:shared<<<256,128,65536>>>", "{here}/k.py:gemm", "{here}/t.py:gemm"])  # fmt: skip
def test_a_kernel_by_hand_is_right_and_timed_by_the_device(here, other):
    if "t.py" in other and importlib.util.find_spec("triton") is None:
        pytest.skip("no triton")
    trial = compared(here, other).trial.data()
    print(other.rpartition("/")[2], trial["verdict"], trial["a"], trial["b"], trial["a_over_b"], trial["environment"])
    assert trial["right"] == [True, True] and trial["rounds"] == 20
    assert all(s > 0 for side in trial["seconds"] for s in side)
    clocks = trial["environment"]["clock of the cores"]
    assert " MHz before the rounds" in clocks and 300 < int(clocks.split()[0]) < 4000


def test_a_wrong_kernel_of_cuda_gets_no_verdict(here):
    trial = compared(here, "{here}/k.cu:wrong<<<(256,3),128>>>").trial.data()
    assert trial["right"] == [True, False] and "no verdict about times" in trial["verdict"]


def test_two_programs_have_registers_occupancy_and_ceilings(here):
    result = compared(here, "plain", ceilings=True, without=("fusion/*",))
    data, page = result.data(), result.report(here / "ab.html")
    for row in (*data["a"]["kernels"], *data["b"]["kernels"]):
        assert row["registers"] > 0 and row["threads"] >= 32 and 0 < row["occupancy"] <= 1 and row["measured"] > 0
    rate, copied = data["trial"]["ceilings"]
    print(data["trial"]["verdict"], rate, copied, [(r["kernel"], r["registers"], r["occupancy"]) for r in data["a"]["kernels"]])
    assert 1e12 < rate < 1e15 and 1e11 < copied < 1e13
    text = page.read_text()
    assert "op/s of f32 products by torch" in text and "registers a thread" in text and 'class="measured-roof"' in text
