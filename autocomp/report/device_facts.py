"""What a comparison says of a CUDA device beside times: the ceilings and the clock of the run, and what compiled kernels ask of a core."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autocomp.ir.node import Graph
from autocomp.tune.monitors import occupancy

COPIED = 1 << 29  # bytes: far beyond every cache
EDGE = {"f32": 4096, "f16": 8192, "bf16": 8192}  # of the square product whose rate is a type's ceiling
SPINS = 20_000_000  # clocks: some 10 ms
REPEATS = 5
FLOATS = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}  # autocomp's type -> torch's


def float_type(graph: Graph) -> str:
    """The type whose products are a ceiling: the narrowest float that the model's inputs and outputs have, f32 where there is none."""
    types = {n.type.dtype.name for n in (*graph.inputs, *(n for _, n in graph.outputs))}
    return next((t for t in ("bf16", "f16") if t in types), "f32")


def device_ceilings(torch: Any, dtype: str) -> tuple[float, float]:
    """(products of `dtype` in operations/s, by torch's own matrix product; bytes/s read and written by a copy), best of some."""
    edge = EDGE[dtype]
    a = torch.ones(edge, edge, device="cuda", dtype=getattr(torch, FLOATS[dtype]))
    x = torch.zeros(COPIED, device="cuda", dtype=torch.uint8)
    y = torch.empty_like(x)
    return 2.0 * edge**3 / min(_seconds(torch, lambda: a @ a)), 2.0 * COPIED / min(_seconds(torch, lambda: y.copy_(x)))


def clock_rate(torch: Any) -> float:
    """Of the cores now, in Hz: a kernel that waits a known number of clocks is timed."""
    return SPINS / min(_seconds(torch, lambda: torch.cuda._sleep(SPINS)))


def _seconds(torch: Any, call: Any) -> list[float]:
    call()
    out = []
    for _ in range(REPEATS):
        begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begun.record()
        call()
        ended.record()
        torch.cuda.synchronize()
        out.append(float(begun.elapsed_time(ended)) * 1e-3)
    return out


def resources(program: Any) -> Mapping[str, dict[str, float | None]]:
    """Kernel -> registers and local bytes a thread, shared bytes and threads a block, and resident threads over those that a core holds;
    nothing where the kernels are not loaded on a CUDA device."""
    executor = program.executor if program.target.name == "cuda" and program.runnable else None
    out: dict[str, dict[str, float | None]] = {}
    if executor is None:
        return out
    for name, kernel in executor.kernels.items():
        said, launch = kernel.attributes, executor.sources[name].launch
        if launch is None:
            continue
        figures = {"registers": float(said.num_regs), "local": float(said.local_size_bytes),
                   "shared": float(said.shared_size_bytes + launch.shared), "threads": float(launch.block)}  # fmt: skip
        out[name] = {**figures, "occupancy": occupancy(program.target.chip, figures)}
    return out
