"""The CUDA target: kernels printed by `targets.simt`, compiled by NVRTC, started through cuda-core."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from autocomp.targets.cuda.emit import emit_specialised
from autocomp.targets.cuda.rows import emit_rows
from autocomp.targets.cuda.toolchain import Toolchain, capability, version_of
from autocomp.targets.simt.emit import emit
from autocomp.targets.source import KernelSource
from autocomp.targets.symbols import sizes_apart

from autocomp.cost.chip import Chip
from autocomp.files import own_table
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.tile.derive import derive
from autocomp.tile.instruction import Instruction, read_instructions

HEADER = "autocomp_cuda.cuh"


@lru_cache(maxsize=1)
def instructions() -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], Instruction]:
    """Rows of instructions.yaml: of one warp, of a warpgroup, and products thread by thread."""
    table: dict[str, Any] = own_table("autocomp.targets.cuda", "instructions.yaml")
    plain = read_instructions([{"name": "fma", "types": ["", "", ""], "call": "", **table["plain"]}])[0]
    return read_instructions(table["matrix"]), read_instructions(table["warpgroup"]), plain


@dataclass(frozen=True)
class CudaTarget:
    """Target by the contract of `targets.load_target`."""

    chip: Chip
    name: str = "cuda"
    language: str = "CUDA C++"
    runtime: str = "cuda"
    toolchain: Toolchain = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "toolchain", Toolchain(self.chip.arch))

    @sizes_apart
    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        """The kernel under a schedule."""
        warp, team, plain = instructions()
        program = derive(kernel, schedule)
        if schedule.roles == "cooperative":
            return emit_specialised(program, schedule, self.chip, team, plain, header, (HEADER,))
        if schedule.persistent:
            return emit_rows(program, schedule, self.chip, plain, header, (HEADER,))
        return emit(program, schedule, self.chip, warp, plain, header, (HEADER,), "cu")

    def admit(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises what `emit` would."""
        self.emit(kernel, schedule)

    def preamble(self, sources: list[KernelSource]) -> str:
        """Text in front of a file of kernels."""
        return f'#include "{HEADER}"\n' + "".join(dict.fromkeys(s.prelude for s in sources))

    def why_not_runnable(self) -> str:
        """Why programs cannot run here, "" if they can."""
        return self.toolchain.missing() or _no_device(self.chip.arch)


@lru_cache(maxsize=4)
def _no_device(arch: str) -> str:
    """Why no device here runs code for `arch`, "" if one does."""
    try:
        from cuda.core import Device

        Device().set_current()
        have = capability()
    except Exception as e:
        return f"no CUDA device: {str(e).splitlines()[0] if str(e) else type(e).__name__}"
    need = version_of(arch)
    if arch.endswith("a") and have != need:
        return f"the device has compute capability {have[0]}.{have[1]}, code for {arch} runs on {need[0]}.{need[1]} only"
    return "" if have >= need else f"the device has compute capability {have[0]}.{have[1]}, {arch} needs {need[0]}.{need[1]}"
