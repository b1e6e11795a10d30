"""The CUDA target: kernels printed by `targets.simt`, compiled by NVRTC, started through cuda-core."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from autocomp.targets.cuda.device import OLDEST, chip_here, has, why_not
from autocomp.targets.cuda.emit import planned_specialised, rounds_products
from autocomp.targets.cuda.persistent_rows import planned_rows
from autocomp.targets.cuda.sorts import print_order
from autocomp.targets.cuda.sums_at import FOURS, print_sum_at
from autocomp.targets.cuda.toolchain import Toolchain
from autocomp.targets.simt.count import count
from autocomp.targets.simt.counted import CountedOnce
from autocomp.targets.simt.emit import check_chip, planned
from autocomp.targets.source import Admitted, KernelSource, Planned
from autocomp.targets.symbols import sizes_apart

from autocomp.cost.chip import Chip
from autocomp.cost.issue import Issued
from autocomp.errors import ChipError
from autocomp.files import own_table
from autocomp.ir.kernel import Kernel
from autocomp.ir.schedule import Schedule
from autocomp.tile.derive import derive
from autocomp.tile.instruction import Instruction, read_instructions

__all__ = ["CudaTarget", "chip_here", "instructions"]  # `targets.load_target` asks for the first two

HEADER = "autocomp_cuda.cuh"
WAVE = 32  # lanes of a warp: AC_WAVE of the header


@lru_cache(maxsize=1)
def instructions() -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], Instruction]:
    """Rows of instructions.yaml: of one warp, of a warpgroup, and products thread by thread."""
    table: dict[str, Any] = own_table("autocomp.targets.cuda", "instructions.yaml")
    plain = read_instructions([{"name": "fma", "types": ["", "", ""], "call": "", **table["plain"]}])[0]
    return read_instructions(table["matrix"]), read_instructions(table["warpgroup"]), plain


@lru_cache(maxsize=8)
def instructions_of(arch: str) -> tuple[tuple[Instruction, ...], tuple[Instruction, ...], Instruction]:
    """The rows that an architecture has, by what each `needs`."""
    warp, team, plain = instructions()
    return tuple(i for i in warp if has(arch, i.needs)), tuple(i for i in team if has(arch, i.needs)), plain


@dataclass(frozen=True)
class CudaTarget:
    """Target by the contract of `targets.load_target`."""

    chip: Chip
    name: str = "cuda"
    language: str = "CUDA C++"
    runtime: str = "cuda"
    toolchain: Toolchain = field(init=False)
    admitted: Admitted = field(init=False, repr=False, compare=False, default_factory=Admitted)
    counted: CountedOnce = field(init=False, repr=False, compare=False, default_factory=CountedOnce)

    def __post_init__(self) -> None:
        if not re.fullmatch(r"sm_\d{2,3}[a-z]?", self.chip.arch) or not has(self.chip.arch, OLDEST):
            raise ChipError(f"arch is '{self.chip.arch}', and kernels are printed for {OLDEST} and newer", where=f"chip {self.chip.name}",
                            hint="write the compute capability: arch: sm_89")  # fmt: skip
        check_chip(self.chip, WAVE)
        object.__setattr__(self, "toolchain", Toolchain(self.chip.arch))

    def emit(self, kernel: Kernel, schedule: Schedule, header: tuple[str, ...] = ()) -> KernelSource:
        """The kernel under a schedule."""
        return self.admitted.take(kernel, schedule, header) or self._planned(kernel, schedule).write(header)

    def fits(self, kernel: Kernel, schedule: Schedule) -> None:
        """Raises DoesNotFit or UnsupportedOp for what `emit` refuses: by all that the statements of its plan place, which is not ordered,
        checked or spelt."""
        self._planned(kernel, schedule)

    def passes(self, kernel: Kernel, schedule: Schedule) -> list[tuple[str, str]]:
        """The kernel's plan behind each pass: (its name, text). Raises what `emit` would."""
        return list(self._planned(kernel, schedule).printer.passes())

    def admit(self, kernel: Kernel, schedule: Schedule) -> frozenset[str]:
        """The directives that take effect. Raises what `fits` does."""
        planned = self._planned(kernel, schedule)
        return self.admitted.keep(kernel, schedule, planned.write, planned.applied)

    @sizes_apart
    def _planned(self, kernel: Kernel, schedule: Schedule) -> Planned:
        if kernel.opaque:
            if kernel.opaque == "sum_at":
                return Planned(None, lambda header: print_sum_at(kernel, header, (HEADER,), has(self.chip.arch, FOURS)))
            return Planned(None, lambda header: print_order(kernel, header, (HEADER,)))
        warp, team, plain = instructions_of(self.chip.arch)
        program = derive(kernel, schedule, short=True)
        if schedule.roles == "warp_specialise":
            return planned_specialised(program, schedule, self.chip, team, plain, (HEADER,), rounds_products(kernel))
        if schedule.persistent:
            return planned_rows(program, schedule, self.chip, plain, (HEADER,))
        return planned(program, schedule, self.chip, warp, plain, (HEADER,), "cu")

    def issued(self, kernel: Kernel, schedule: Schedule) -> Issued | None:
        """What the kernel's text would issue, counted without it; None where that is not counted: warpgroups with roles, rows in slots.
        Raises what `emit` would."""
        if schedule.roles != "single" or schedule.persistent:
            return None
        warp, _, plain = instructions_of(self.chip.arch)
        counted = lambda s: count(derive(kernel, s, short=True), s, self.chip, warp, plain)
        return self.counted.issued(kernel, schedule, self.chip.memory("shared").capacity, counted)

    def preamble(self, sources: list[KernelSource]) -> str:
        """Text in front of a file of kernels."""
        return f'#include "{HEADER}"\n' + "".join(dict.fromkeys(s.prelude for s in sources))

    def why_not_runnable(self) -> str:
        """Why programs cannot run here, "" if they can."""
        return self.toolchain.missing() or why_not(self.chip.arch)
